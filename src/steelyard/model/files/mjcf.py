"""MJCF: reading it through MuJoCo, which defines its meaning.

MuJoCo resolves defaults, frames, angles and inertias from geometry. The text is kept too, with every ``<include>``
expanded, so that it can be edited where a number changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pinocchio as pin

from steelyard.exceptions import ModelError
from steelyard.model.description import Connection, Description, Geometry, Joint, JointKind, Mimic, Part
from steelyard.model.files.mjcf_file import MAKERS_OF_BODIES, MjcfFile
from steelyard.model.files.xml_document import Edit, Element, XmlDocument, read_xml
from steelyard.model.parameters import PARAMETER_COUNT, from_mass_com_inertia
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from steelyard.arrays import FloatArray


def describe_mjcf(document: XmlDocument) -> Description:
    """Return the description of an MJCF model.

    Joints are numbered in the order of the file, as MuJoCo numbers them.

    Raises:
        ModelError: MuJoCo does not accept the file, or it does not describe one tree; or MuJoCo is not installed.
    """
    whole = _with_includes(document)
    _refuse_attached_files(whole)
    return _Reader(whole, compile_mjcf(whole)).describe()


def _import_mujoco(path: Path) -> Any:
    try:
        import mujoco  # noqa: PLC0415  (an extra: only MJCF needs it here)
    except ImportError as error:
        raise ModelError(
            "reading MJCF needs MuJoCo; install it with: pip install 'steelyard[lab]'", path=path
        ) from error
    return mujoco


def compile_mjcf(document: XmlDocument) -> Any:
    """Compile a document without includes; return MuJoCo's specification and model.

    Raises:
        ModelError: MuJoCo does not accept it, or is not installed.
    """
    mujoco = _import_mujoco(document.path)
    try:
        spec = mujoco.MjSpec.from_string(document.content.decode("utf-8"))
        spec.modelfiledir = str(document.path.absolute().parent)
        # Both would move frames away from where the text places them.
        spec.compiler.fusestatic = False
        spec.compiler.alignfree = False
        return spec, spec.compile()
    except (ValueError, RuntimeError) as error:
        message = " ".join(str(error).split())
        raise ModelError(f"MuJoCo does not accept the model: {message}", path=document.path) from error


def _with_includes(document: XmlDocument) -> XmlDocument:
    """Return the document with each ``<include file=…/>`` replaced by the contents of that file, as MuJoCo reads it."""
    seen = {document.path.resolve()}
    folders = [document.path.parent]
    while True:
        element = next((element for element in document.root.walk() if element.tag == "include"), None)
        if element is None:
            return document
        name = element.attributes.get("file", "")
        # Relative to the main file's folder, or else to that of a file that was included before.
        path = next((folder / name for folder in folders if (folder / name).is_file()), folders[0] / name)
        if path.resolve() in seen:
            raise ModelError(
                f"{name!r} is included twice; MuJoCo allows each file once", path=document.path, line=element.line
            )
        seen.add(path.resolve())
        included = read_xml(path)
        folders.append(path.parent)
        edit = Edit(element.start, element.end, included.inner(included.root).strip())
        document = document.apply([edit], document.path)


def _refuse_attached_files(document: XmlDocument) -> None:
    for element in document.root.walk():
        if element.tag == "model" and "file" in element.attributes:
            raise ModelError(
                f"the model attaches another file, {element.attributes['file']}; let MuJoCo expand it first "
                "(mj_saveLastXML), and load that file",
                path=document.path,
                line=element.line,
            )


class _Reader:
    def __init__(self, document: XmlDocument, compiled: tuple[Any, Any]) -> None:
        self.document = document
        self.path = document.path
        self.mujoco = _import_mujoco(self.path)
        self.spec, self.model = compiled
        self.names = [self.model.body(index).name for index in range(self.model.nbody)]
        self.joint_names = [self.model.joint(index).name for index in range(self.model.njnt)]
        # MuJoCo allows bodies and joints without a name; here every one gets a unique name.
        self.taken = {*self.names, *self.joint_names}
        self.names = [name or self.fresh_name(f"body_{index}") for index, name in enumerate(self.names)]
        self.joint_names = [name or self.fresh_name(f"joint_{index}") for index, name in enumerate(self.joint_names)]

    def error(self, message: str, *names: str) -> ModelError:
        return ModelError(message, path=self.path, names=names)

    def fresh_name(self, wanted: str) -> str:
        while wanted in self.taken:
            wanted += "_"
        self.taken.add(wanted)
        return wanted

    def describe(self) -> Description:
        root = self.find_root()
        bodies = self.below(root)
        self.refuse_loops(set(bodies))
        parts = {self.names[body]: self.part(body) for body in bodies}
        connections: list[Connection] = []
        base: Literal["floating", "fixed"] = "fixed"
        top = self.names[root]
        joints = self.joints_of(root)
        if any(self.joint_kind(joint) == "free" for joint in joints):
            base = "floating"
        elif joints:
            top = self.names[0]
            parts[top] = Part(top, np.zeros(PARAMETER_COUNT))
        for body in bodies:
            if body != root or top == self.names[0]:
                connections += self.connect(body, parts)
        frames = self.frames(bodies, connections)
        elements = self.elements()
        return Description(
            name=self.document.root.attributes.get("model", self.path.stem),
            parts=parts,
            connections=connections,
            root=top,
            frames=frames,
            base=base,
            file=MjcfFile(
                self.document,
                {self.names[body]: elements[body] for body in bodies if body in elements},
                {self.names[body]: parts[self.names[body]].parameters for body in bodies},
                self.rewrites_inertia(),
            ),
            root_placement=pin.SE3.Identity() if top == self.names[0] else self.body_placement(root),
            jointed_to_world=top == self.names[0],
        )

    def body_placement(self, body: int) -> pin.SE3:
        return _placement(self.model.body_pos[body], self.model.body_quat[body])

    def find_root(self) -> int:
        """Return the one child of the world that moves: the robot's root."""
        model = self.model
        moving = {int(model.body_rootid[model.jnt_bodyid[joint]]) for joint in range(model.njnt)}
        if not moving:
            raise self.error("nothing in the model moves: it has no joint")
        if len(moving) > 1:
            names = [self.names[body] for body in sorted(moving)]
            raise self.error(
                f"the model has {len(moving)} roots, {in_words(names)}; remove from the world what does not belong to "
                "the robot",
                *names,
            )
        return moving.pop()

    def below(self, root: int) -> list[int]:
        """Return `root` and all its descendants, parents first, in MuJoCo's order."""
        return [body for body in range(1, self.model.nbody) if int(self.model.body_rootid[body]) == root]

    def joints_of(self, body: int) -> list[int]:
        first, count = int(self.model.body_jntadr[body]), int(self.model.body_jntnum[body])
        return list(range(first, first + count))

    def joint_kind(self, joint: int) -> JointKind:
        kinds: dict[int, JointKind] = {0: "free", 1: "ball", 2: "prismatic", 3: "revolute"}
        kind = kinds[int(self.model.jnt_type[joint])]
        return "continuous" if kind == "revolute" and not self.model.jnt_limited[joint] else kind

    def part(self, body: int) -> Part:
        model = self.model
        axes = _rotation(model.body_iquat[body])
        tensor = (axes * model.body_inertia[body]) @ axes.T
        mass = float(model.body_mass[body])
        parameters = from_mass_com_inertia(mass, model.body_ipos[body], tensor)
        return Part(self.names[body], parameters, tuple(self.geometries(body)))

    def geometries(self, body: int) -> Iterator[Geometry]:
        model, kinds = self.model, self.mujoco.mjtGeom
        first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
        for geom in range(first, first + count):
            collides = bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
            purpose: Literal["collision", "visual"] = "collision" if collides else "visual"
            placement = _placement(model.geom_pos[geom], model.geom_quat[geom])
            x, y, z = (float(size) for size in model.geom_size[geom])
            kind = int(model.geom_type[geom])
            if kind == kinds.mjGEOM_SPHERE:
                yield Geometry(purpose, "sphere", (x,), placement)
            elif kind == kinds.mjGEOM_CAPSULE:
                yield Geometry(purpose, "capsule", (x, 2.0 * y), placement)
            elif kind == kinds.mjGEOM_CYLINDER:
                yield Geometry(purpose, "cylinder", (x, 2.0 * y), placement)
            elif kind == kinds.mjGEOM_ELLIPSOID:
                yield Geometry(purpose, "ellipsoid", (x, y, z), placement)
            elif kind == kinds.mjGEOM_BOX:
                yield Geometry(purpose, "box", (2.0 * x, 2.0 * y, 2.0 * z), placement)
            elif kind == kinds.mjGEOM_MESH:
                mesh = int(model.geom_dataid[geom])
                start = int(model.mesh_vertadr[mesh])
                vertices = np.array(model.mesh_vert[start : start + int(model.mesh_vertnum[mesh])], dtype=np.float64)
                vertices.setflags(write=False)
                yield Geometry(purpose, "mesh", (), placement, uri=model.mesh(mesh).name, vertices=vertices)

    def connect(self, body: int, parts: dict[str, Part]) -> list[Connection]:
        """Return the joints between a body and its parent, with massless parts between several joints of one body."""
        model = self.model
        name = self.names[body]
        placement = self.body_placement(body)
        parent = self.names[int(model.body_parentid[body])]
        joints = self.joints_of(body)
        if not joints:
            return [Connection(Joint(self.fresh_name(f"{name} (welded)"), "fixed"), parent, name, placement)]
        connections = []
        anchor = np.zeros(3)
        for number, index in enumerate(joints):
            joint = self.joint(index)
            step = np.array(model.jnt_pos[index], dtype=np.float64)
            offset = pin.SE3(np.eye(3), step - anchor)
            # The text places bodies at `ref`, not at zero; moving back by it commutes with the joint's own motion.
            start = -float(model.qpos0[model.jnt_qposadr[index]])
            back = joint.motion(np.array([start])) if joint.kind != "ball" else pin.SE3.Identity()
            last = number == len(joints) - 1
            child = name if last else self.fresh_name(f"{name}.{joint.name}")
            if not last:
                parts[child] = Part(child, np.zeros(PARAMETER_COUNT))
            connections.append(
                Connection(
                    joint,
                    parent,
                    child,
                    placement * offset * back,
                    pin.SE3(np.eye(3), -step) if last else pin.SE3.Identity(),
                    self.coupling(index),
                )
            )
            parent, placement, anchor = child, pin.SE3.Identity(), step
        return connections

    def joint(self, index: int) -> Joint:
        model = self.model
        kind = self.joint_kind(index)
        dof = int(model.jnt_dofadr[index])
        limited = bool(model.jnt_limited[index]) and kind != "ball"
        lower, upper = (float(x) for x in model.jnt_range[index]) if limited else (-np.inf, np.inf)
        return Joint(
            name=self.joint_names[index],
            kind=kind,
            axis=np.array(model.jnt_axis[index], dtype=np.float64) if kind != "ball" else np.zeros(3),
            lower=lower,
            upper=upper,
            effort=self.effort(index),
            armature=float(np.ravel(model.dof_armature[dof])[0]),
            damping=float(np.ravel(model.dof_damping[dof])[0]),
            friction=float(np.ravel(model.dof_frictionloss[dof])[0]),
        )

    def effort(self, joint: int) -> float:
        """Return the greatest torque that the joint's limits and actuators allow."""
        model = self.model
        if model.jnt_actfrclimited[joint]:
            return float(np.max(np.abs(model.jnt_actfrcrange[joint])))
        torques = [
            float(np.max(np.abs(model.actuator_forcerange[actuator])) * abs(model.actuator_gear[actuator, 0]))
            for actuator in range(model.nu)
            if int(model.actuator_trntype[actuator]) == int(self.mujoco.mjtTrn.mjTRN_JOINT)
            and int(model.actuator_trnid[actuator, 0]) == joint
            and model.actuator_forcelimited[actuator]
        ]
        return sum(torques) if torques else float("inf")

    def coupling(self, joint: int) -> Mimic | None:
        """Return the equality by which `joint` follows another, if there is one."""
        model, kinds = self.model, self.mujoco.mjtEq
        for equality in np.flatnonzero(model.eq_active0):
            kind, first, second = (int(x[equality]) for x in (model.eq_type, model.eq_obj1id, model.eq_obj2id))
            if kind == int(kinds.mjEQ_JOINT) and first == joint:
                leader = self.joint_names[second] if second >= 0 else ""
                references = [
                    float(model.qpos0[model.jnt_qposadr[one]]) if one >= 0 else 0.0 for one in (first, second)
                ]
                coefficients = model.eq_data[equality, : 5 if second >= 0 else 1]
                return Mimic(leader, tuple(float(c) for c in coefficients), *references)
            if kind == int(kinds.mjEQ_TENDON) and any(self.tendon_pulls(one, joint) for one in (first, second)):
                return Mimic(f"tendon {model.tendon(first).name}", (0.0, 1.0))
        return None

    def tendon_pulls(self, tendon: int, joint: int) -> bool:
        """Return whether a joint is part of a fixed tendon."""
        if tendon < 0:
            return False
        first, count = int(self.model.tendon_adr[tendon]), int(self.model.tendon_num[tendon])
        wraps = range(first, first + count)
        kind = int(self.mujoco.mjtWrap.mjWRAP_JOINT)
        return any(int(self.model.wrap_type[w]) == kind and int(self.model.wrap_objid[w]) == joint for w in wraps)

    def refuse_loops(self, bodies: set[int]) -> None:
        model, kinds = self.model, self.mujoco.mjtEq
        for equality in range(model.neq):
            if int(model.eq_type[equality]) not in (int(kinds.mjEQ_CONNECT), int(kinds.mjEQ_WELD)):
                continue
            ends = [int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])]
            if int(model.eq_objtype[equality]) == int(self.mujoco.mjtObj.mjOBJ_SITE):
                ends = [int(model.site_bodyid[site]) for site in ends]
            if model.eq_active0[equality] and set(ends) <= bodies:
                names = [self.names[end] for end in ends]
                raise self.error(
                    f"an equality ties {in_words(names)} together: the bodies form a loop. Steelyard identifies trees; "
                    'remove the equality, or set its active="false"',
                    *names,
                )

    def frames(self, bodies: list[int], connections: list[Connection]) -> dict[str, tuple[str, pin.SE3]]:
        frames = {c.joint.name: (c.child, c.child_placement.inverse()) for c in connections}
        inside = set(bodies)
        for site in range(self.model.nsite):
            body, name = int(self.model.site_bodyid[site]), self.model.site(site).name
            if name and body in inside:
                frames[name] = (self.names[body], _placement(self.model.site_pos[site], self.model.site_quat[site]))
        return frames

    def elements(self) -> dict[int, Element]:
        """Return the ``<body>`` element of each compiled body that has one."""
        written = [
            element
            for world in self.document.root.find_all("worldbody")
            for element in world.walk()
            if element.tag == "body"
        ]
        made = any(element.tag in MAKERS_OF_BODIES for element in self.document.root.walk())
        if not made and len(written) == self.model.nbody - 1:
            return {index + 1: element for index, element in enumerate(written)}
        by_name = {element.attributes["name"]: element for element in written if "name" in element.attributes}
        return {index: by_name[name] for index, name in enumerate(self.names) if name in by_name}

    def rewrites_inertia(self) -> bool:
        compiler = self.spec.compiler
        return bool(
            compiler.settotalmass > 0
            or compiler.boundmass > 0
            or compiler.boundinertia > 0
            or compiler.balanceinertia
            or int(compiler.inertiafromgeom) == int(self.mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE)
        )


def _rotation(quaternion_wxyz: FloatArray) -> FloatArray:
    w, x, y, z = (float(value) for value in quaternion_wxyz)
    return np.asarray(pin.Quaternion(np.array([x, y, z, w])).normalized().matrix())


def _placement(position: FloatArray, quaternion_wxyz: FloatArray) -> pin.SE3:
    return pin.SE3(_rotation(quaternion_wxyz), np.array(position, dtype=np.float64))
