"""MJCF: reading it with MuJoCo, the authority on its meaning, and writing parameters back into its text.

MuJoCo resolves defaults, frames, angles and inertias from geometry; this file only asks it. The text is kept beside,
with every ``<include>`` put in its place, so that it can be edited where a number changes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pinocchio as pin

from steelyard.exceptions import ModelError
from steelyard.model.description import Connection, Description, Geometry, Joint, JointKind, Mimic, Part
from steelyard.model.names import in_words
from steelyard.model.parameters import FloatArray, from_mass_com_inertia, to_mass_com_inertia
from steelyard.model.relocation import relative_reference
from steelyard.model.xml_document import Edit, Element, XmlDocument, parse_xml, read_xml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_MAKERS_OF_BODIES = ("replicate", "attach", "composite", "flexcomp")
_INERTIA_ATTRIBUTES = ("fullinertia", "axisangle", "euler", "xyaxes", "zaxis")
_REWRITERS_OF_INERTIA = ("settotalmass", "boundmass", "boundinertia", "balanceinertia")
_ASSET_FOLDERS = ("assetdir", "meshdir", "texturedir")


def describe_mjcf(document: XmlDocument) -> Description:
    """Gives the description of an MJCF model.

    Joints are numbered in the order of the file, as MuJoCo numbers them.

    Raises:
        ModelError: MuJoCo does not accept the file, or it does not describe one tree; or MuJoCo is not installed.
    """
    whole = _with_includes(document)
    return _Reader(whole, _compile(whole)).describe()


@dataclass(frozen=True, eq=False)
class MjcfFile:
    """An MJCF model that was read, ready to be written again.

    Attributes:
        document: The text, includes in place.
        elements: The ``<body>`` of each part; parts that MuJoCo made (replicate, attach) have none.
        parameters: The ten parameters of each part as read.
        rewritten: Whether the compiler's options change inertias that the text states.
    """

    document: XmlDocument
    elements: Mapping[str, Element]
    parameters: Mapping[str, FloatArray]
    rewritten: bool

    @property
    def path(self) -> Path:
        """Where it was read from."""
        return self.document.path

    @property
    def format(self) -> Literal["MJCF"]:
        """The kind of file."""
        return "MJCF"

    @property
    def sha256(self) -> str:
        """Hash of the text, includes in place."""
        return hashlib.sha256(self.document.encoded()).hexdigest()

    def describe(self, content: bytes, path: Path) -> Description:
        """Reads the bytes of an MJCF model as if they stood at `path`."""
        return describe_mjcf(parse_xml(path, content))

    def with_parameters(self, changes: Mapping[str, FloatArray], path: Path) -> tuple[bytes, list[str]]:
        """Gives the file's bytes with new parameters for some bodies; see `ModelFile`."""
        wanted = dict(changes)
        remarks = []
        if self.rewritten:
            wanted = {**self.parameters, **wanted}
            remarks.append(
                "every body states its inertia now, because the compiler's options changed inertias: "
                f"{', '.join(_REWRITERS_OF_INERTIA)} are removed and inertiafromgeom is 'auto'"
            )
        missing = [name for name in wanted if name not in self.elements]
        if missing:
            raise ModelError(
                f"the bodies {in_words(missing)} are made by <{'>, <'.join(_MAKERS_OF_BODIES)}> and have no text to "
                "write to; let MuJoCo expand the model first (mj_saveLastXML), and load that file",
                path=self.path,
                names=missing,
            )
        edits = [
            edit for name, parameters in wanted.items() for edit in self._set_inertial(self.elements[name], parameters)
        ]
        edits += self._edit_compilers(path, remarks)
        return self.document.apply(edits, path).encoded(), remarks

    def _set_inertial(self, body: Element, parameters: FloatArray) -> list[Edit]:
        if not np.any(parameters):
            return self._state_inertial(body, {"pos": "0 0 0", "quat": None, "mass": "0", "diaginertia": "0 0 0"})
        mass, com, tensor = to_mass_com_inertia(parameters)
        moments, axes = np.linalg.eigh(tensor)
        if np.linalg.det(axes) < 0.0:
            axes[:, 0] = -axes[:, 0]
        quaternion = pin.Quaternion(np.asarray(axes))
        values: dict[str, str | None] = {
            "pos": _written(com),
            "quat": _written([quaternion.w, quaternion.x, quaternion.y, quaternion.z]),
            "mass": _written([mass]),
            "diaginertia": _written(moments),
        }
        return self._state_inertial(body, values)

    def _state_inertial(self, body: Element, values: dict[str, str | None]) -> list[Edit]:
        inertial = body.find("inertial")
        if inertial is not None:
            gone = dict.fromkeys(_INERTIA_ATTRIBUTES)
            return self.document.set_attributes(inertial, {**values, **gone})
        stated = " ".join(f'{key}="{value}"' for key, value in values.items() if value is not None)
        return [self.document.insert_first(body, f"<inertial {stated}/>")]

    def _edit_compilers(self, path: Path, remarks: list[str]) -> list[Edit]:
        """Gives the edits of ``<compiler>``: inertias as stated, and asset folders that hold from the new folder."""
        compilers = [element for element in self.document.root.walk() if element.tag == "compiler"]
        values: list[dict[str, str | None]] = []
        for compiler in compilers:
            changed: dict[str, str | None] = {}
            if self.rewritten:
                changed |= dict.fromkeys(key for key in _REWRITERS_OF_INERTIA if key in compiler.attributes)
                if "inertiafromgeom" in compiler.attributes:
                    changed["inertiafromgeom"] = "auto"
            values.append(changed)
        stated = {key for compiler in compilers for key in _ASSET_FOLDERS if key in compiler.attributes}
        moved = False
        for compiler, changed in zip(compilers, values, strict=True):
            for key in stated & compiler.attributes.keys():
                reference = relative_reference(compiler.attributes[key], self.path, path)
                if reference is not None:
                    changed[key] = reference
                    moved = True
        edits = [
            edit
            for compiler, changed in zip(compilers, values, strict=True)
            for edit in self.document.set_attributes(compiler, changed)
        ]
        assets = any("file" in element.attributes for element in self.document.root.walk())
        here = relative_reference(".", self.path, path)
        if assets and here is not None and "assetdir" not in stated:
            unstated = {key: here for key in ("meshdir", "texturedir") if key not in stated}
            if unstated:
                text = "<compiler " + " ".join(f'{key}="{value}"' for key, value in unstated.items()) + "/>"
                edits.append(self.document.insert_first(self.document.root, text))
                moved = True
        if moved:
            remarks.append("the asset folders of <compiler> now lead from the new folder to the same files")
        return edits


def _import_mujoco(path: Path) -> Any:
    try:
        import mujoco  # noqa: PLC0415  (an extra: only MJCF needs it here)
    except ImportError as error:
        raise ModelError(
            "reading MJCF needs MuJoCo; install it with: pip install 'steelyard[lab]'", path=path
        ) from error
    return mujoco


def _compile(document: XmlDocument) -> Any:
    mujoco = _import_mujoco(document.path)
    try:
        spec = mujoco.MjSpec.from_string(document.content.decode("utf-8"))
        spec.modelfiledir = str(document.path.resolve().parent)
        # Both would move frames away from where the text puts them.
        spec.compiler.fusestatic = False
        spec.compiler.alignfree = False
        return spec, spec.compile()
    except (ValueError, RuntimeError) as error:
        said = " ".join(str(error).split())
        raise ModelError(f"MuJoCo does not accept the model: {said}", path=document.path) from error


def _with_includes(document: XmlDocument) -> XmlDocument:
    """Gives the document with each ``<include file=…/>`` replaced by what that file holds, as MuJoCo reads it."""
    folder = document.path.parent
    seen = {document.path.resolve()}
    while True:
        element = next((element for element in document.root.walk() if element.tag == "include"), None)
        if element is None:
            return document
        name = element.attributes.get("file", "")
        path = folder / name
        if path.resolve() in seen:
            raise ModelError(
                f"{name!r} is included twice; MuJoCo allows each file once",
                path=document.path,
                line=element.line,
            )
        seen.add(path.resolve())
        included = read_xml(path)
        edit = Edit(element.start, element.end, included.inner(included.root).strip())
        document = document.apply([edit], document.path)


class _Reader:
    def __init__(self, document: XmlDocument, compiled: tuple[Any, Any]) -> None:
        self.document = document
        self.path = document.path
        self.mujoco = _import_mujoco(self.path)
        self.spec, self.model = compiled
        self.names = [self.model.body(index).name for index in range(self.model.nbody)]
        for index, name in enumerate(self.names):
            if not name:
                self.names[index] = f"body_{index}"
        repeated = {name for name in self.names if self.names.count(name) > 1}
        if repeated:
            raise ModelError(
                f"the name {min(repeated)!r} is taken by an unnamed body; name every body",
                path=self.path,
                names=repeated,
            )

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
            top = "world"
            parts["world"] = Part("world", np.zeros(10))
        for body in bodies:
            if body != root or top == "world":
                connections += self.connect(body, parts)
        frames = self.frames(bodies, connections)
        elements = self.elements()
        return Description(
            name=self.spec.modelname or self.path.stem,
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
            root_placement=pin.SE3.Identity() if top == "world" else self.body_placement(root),
        )

    def body_placement(self, body: int) -> pin.SE3:
        return _placement(self.model.body_pos[body], self.model.body_quat[body])

    def find_root(self) -> int:
        """Gives the body under the world that moves: the robot."""
        model = self.model
        moving = {int(model.body_rootid[model.jnt_bodyid[joint]]) for joint in range(model.njnt)}
        if not moving:
            raise ModelError("nothing in the model moves: it has no joint", path=self.path)
        if len(moving) > 1:
            names = [self.names[body] for body in sorted(moving)]
            raise ModelError(
                f"the model has {len(moving)} roots, {in_words(names)}; remove from the world what does not belong to "
                "the robot",
                path=self.path,
                names=names,
            )
        return moving.pop()

    def below(self, root: int) -> list[int]:
        """Gives `root` and all bodies that hang on it, parents first, in MuJoCo's order."""
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
        geometries = tuple(self.geometries(body))
        return Part(self.names[body], parameters, geometries)

    def geometries(self, body: int) -> Iterator[Geometry]:
        model, kinds = self.model, self.mujoco.mjtGeom
        first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
        for geom in range(first, first + count):
            collides = bool(model.geom_contype[geom] or model.geom_conaffinity[geom])
            purpose: Literal["collision", "visual"] = "collision" if collides else "visual"
            placement = _placement(model.geom_pos[geom], model.geom_quat[geom])
            radius, half, other = (float(x) for x in model.geom_size[geom])
            kind = int(model.geom_type[geom])
            if kind == kinds.mjGEOM_SPHERE:
                yield Geometry(purpose, "sphere", (radius,), placement)
            elif kind == kinds.mjGEOM_CAPSULE:
                yield Geometry(purpose, "capsule", (radius, 2.0 * half), placement)
            elif kind == kinds.mjGEOM_CYLINDER:
                yield Geometry(purpose, "cylinder", (radius, 2.0 * half), placement)
            elif kind == kinds.mjGEOM_ELLIPSOID:
                yield Geometry(purpose, "ellipsoid", (radius, half, other), placement)
            elif kind == kinds.mjGEOM_BOX:
                yield Geometry(purpose, "box", (2.0 * radius, 2.0 * half, 2.0 * other), placement)
            elif kind == kinds.mjGEOM_MESH:
                mesh = int(model.geom_dataid[geom])
                start = int(model.mesh_vertadr[mesh])
                vertices = np.array(model.mesh_vert[start : start + int(model.mesh_vertnum[mesh])], dtype=np.float64)
                yield Geometry(purpose, "mesh", (), placement, uri=model.mesh(mesh).name, vertices=vertices)

    def connect(self, body: int, parts: dict[str, Part]) -> list[Connection]:
        """Gives the joints between a body and its parent; several joints of one body get massless parts between."""
        model = self.model
        name = self.names[body]
        placement = self.body_placement(body)
        parent = self.names[int(model.body_parentid[body])]
        joints = self.joints_of(body)
        if not joints:
            return [Connection(Joint(f"{name} (welded)", "fixed"), parent, name, placement)]
        connections = []
        anchor = np.zeros(3)
        for number, index in enumerate(joints):
            joint = self.joint(index)
            step = np.array(model.jnt_pos[index], dtype=np.float64)
            offset = pin.SE3(np.eye(3), step - anchor)
            # MuJoCo's positions count from `ref`; turning back by it commutes with the joint's own motion.
            start = -float(model.qpos0[model.jnt_qposadr[index]])
            back = joint.motion(np.array([start])) if joint.kind != "ball" else pin.SE3.Identity()
            last = number == len(joints) - 1
            child = name if last else f"{name}.{joint.name}"
            if not last:
                parts[child] = Part(child, np.zeros(10))
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
            name=model.joint(index).name or f"joint_{index}",
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
        """Gives the greatest torque that the joint's limits and actuators state."""
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
        """Gives the equality that makes `joint` follow another, if there is one."""
        model = self.model
        for equality in range(model.neq):
            coupled = int(model.eq_type[equality]) == int(self.mujoco.mjtEq.mjEQ_JOINT)
            if coupled and model.eq_active0[equality] and int(model.eq_obj1id[equality]) == joint:
                leader = int(model.eq_obj2id[equality])
                name = model.joint(leader).name if leader >= 0 else ""
                offset, multiplier = (float(x) for x in model.eq_data[equality, :2])
                return Mimic(name, multiplier, offset)
        return None

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
                raise ModelError(
                    f"an equality ties {in_words(names)} together: the bodies form a loop. Steelyard identifies trees; "
                    'remove the equality, or set its active="false"',
                    path=self.path,
                    names=names,
                )

    def frames(self, bodies: list[int], connections: list[Connection]) -> dict[str, tuple[str, pin.SE3]]:
        frames = {c.joint.name: (c.child, c.child_placement.inverse()) for c in connections}
        inside = set(bodies)
        for site in range(self.model.nsite):
            body, name = int(self.model.site_bodyid[site]), self.model.site(site).name
            if name and body in inside:
                frames[name] = (
                    self.names[body],
                    _placement(self.model.site_pos[site], self.model.site_quat[site]),
                )
        return frames

    def elements(self) -> dict[int, Element]:
        """Gives the ``<body>`` element of each compiled body that has one."""
        written = [
            element
            for world in self.document.root.find_all("worldbody")
            for element in world.walk()
            if element.tag == "body"
        ]
        made = any(element.tag in _MAKERS_OF_BODIES for element in self.document.root.walk())
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


def _written(values: Any) -> str:
    return " ".join(repr(float(value)) for value in values)
