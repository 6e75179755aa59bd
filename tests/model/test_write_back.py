"""Writing parameters back: the same numbers when read again, and nothing else touched."""

from __future__ import annotations

import codecs
import re

import mujoco
import numpy as np
import pytest

from steelyard.exceptions import ModelError
from steelyard.model import load_model, project_to_interior
from steelyard.model.parameters import from_mass_com_inertia
from steelyard.model.write_back import ROUND_TRIP, round_trip_error
from tests.humanoids import FILES, LOCKS, humanoid, path_of, random_bodies, shaken
from tests.model.test_generated_trees import without_inertials
from tests.second_engine import build_mjcf

ARM = """<mujoco model="arm">
  <!-- a comment that must survive -->
  <compiler angle="radian" {compiler}/>
  <worldbody>
    <body name="base" pos="0 0 1"><freejoint/>
      <inertial pos="0 0 0" mass="2" diaginertia="0.1 0.1 0.1"/>
      <body name="upper"   pos="0 0 0.1"> <joint name="shoulder" axis="0 1 0"/>
        <geom type="capsule" size="0.05 0.1" mass="1"/>
        <body name="tool" pos="0 0 0.2"><geom type="box" size="0.02 0.03 0.04" mass="0.3"/></body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def assert_written(model, file) -> None:
    """Reads again and compares mass, centre of mass and tensor, each to 1e-12 of its own size."""
    again = load_model(file, base=model.base, setup=model.setup, lock={k: tuple(v) for k, v in model.locks.items()})
    assert again.links == model.links
    for wanted, found in zip(model.parameters, again.parameters, strict=True):
        assert found[0] == pytest.approx(wanted[0], rel=1e-12)
        reach = np.sqrt(np.abs(wanted[[4, 6, 9]]).sum() * wanted[0])
        np.testing.assert_allclose(found[1:4], wanted[1:4], rtol=0.0, atol=1e-12 * reach)
        np.testing.assert_allclose(found[4:], wanted[4:], rtol=0.0, atol=1e-12 * np.linalg.norm(wanted[4:]))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("draw", ["near the model", "anywhere"])
def test_urdf_round_trip_on_every_humanoid(name: str, draw: str, tmp_path) -> None:
    model = humanoid(name)
    near = draw == "near the model"
    parameters = shaken(model, seed=1) if near else random_bodies(np.random.default_rng(2), len(model.links))
    changed = model.with_parameters(parameters)
    file = tmp_path / "written.urdf"
    changed.write(file)
    assert_written(changed, file)
    text = file.read_text()
    assert without_inertials(text) == without_inertials(path_of(name).read_text())
    original = path_of(name).read_text()
    comments = re.findall(r"(?s)<!--.*?-->", original)
    assert re.findall(r"(?s)<!--.*?-->", text) == comments


@pytest.mark.parametrize("name", FILES)
def test_mjcf_round_trip_on_every_humanoid(name: str, tmp_path) -> None:
    source = humanoid(name)
    spec = build_mjcf(source.with_parameters(shaken(source, seed=3)))
    spec.compile()
    file = tmp_path / "source.xml"
    file.write_text(spec.to_xml())
    model = load_model(file)
    changed = model.with_parameters(shaken(model, seed=4))
    changed.write(tmp_path / "written.xml")
    assert_written(changed, tmp_path / "written.xml")
    compiled = mujoco.MjModel.from_xml_path(str(tmp_path / "written.xml"))
    assert compiled.body_mass.sum() == pytest.approx(changed.total_mass, rel=1e-12)
    assert without_inertials((tmp_path / "written.xml").read_text()) == without_inertials(file.read_text())


@pytest.mark.parametrize("name", FILES)
def test_an_unchanged_model_is_written_byte_by_byte(name: str, tmp_path) -> None:
    humanoid(name).write(tmp_path / "same.urdf")
    assert (tmp_path / "same.urdf").read_bytes() == path_of(name).read_bytes()


def test_only_the_changed_link_is_touched(tmp_path) -> None:
    g1 = humanoid("g1")
    parameters = np.array(g1.parameters)
    parameters[g1.link_index("left_elbow_link"), 0] *= 1.01
    g1.with_parameters(parameters).write(tmp_path / "g1.urdf")
    before, after = path_of("g1").read_text().splitlines(), (tmp_path / "g1.urdf").read_text().splitlines()
    changed = [number for number, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    start = next(number for number, line in enumerate(before) if 'link name="left_elbow_link"' in line)
    assert changed
    assert all(start < number <= start + 4 for number in changed)


def test_welded_children_are_kept_where_that_stays_possible(tmp_path) -> None:
    """G1's torso is a lump; made a little heavier, only its heaviest part changes."""
    g1 = humanoid("g1")
    row = g1.link_index("torso_link")
    parameters = np.array(g1.parameters)
    parameters[row] *= 1.05
    written = g1.with_parameters(parameters).write(tmp_path / "g1.urdf")
    assert written.notes == ()
    again = load_model(tmp_path / "g1.urdf")
    parts, original = again.description.parts, g1.description.parts
    body = g1.bodies[g1.link_bodies[row]]
    changed = [
        member.part.name
        for member in body.members
        if not np.array_equal(parts[member.part.name].parameters, original[member.part.name].parameters)
    ]
    assert changed == ["torso_link"]
    assert sum(not member.part.massless for member in body.members) > 1


def test_welded_children_are_merged_where_nothing_possible_is_left(tmp_path) -> None:
    g1 = humanoid("g1")
    row = g1.link_index("torso_link")
    parameters = np.array(g1.parameters)
    parameters[row] = from_mass_com_inertia(0.05, np.zeros(3), 1e-4 * np.eye(3))
    written = g1.with_parameters(parameters).write(tmp_path / "g1.urdf")
    assert len(written.notes) == 1
    assert "merged" in written.notes[0]
    again = load_model(tmp_path / "g1.urdf")
    assert round_trip_error(parameters[row], again.parameters[row]) <= ROUND_TRIP
    assert again.description.parts["head_link"].massless


def test_a_wrench_sensors_two_sides_are_written_apart(tmp_path) -> None:
    icub = load_model("icub")
    changed = icub.with_parameters(shaken(icub, seed=6))
    changed.write(tmp_path / "icub.urdf")
    again = load_model(tmp_path / "icub.urdf", setup="icub")
    for wanted, found in zip(changed.parameters, again.parameters, strict=True):
        assert round_trip_error(wanted, found) <= ROUND_TRIP


def test_locked_joints_may_stand_anywhere(tmp_path) -> None:
    g1 = load_model(path_of("g1"), lock={"*_wrist_*": 0.3})
    changed = g1.with_parameters(shaken(g1, seed=7))
    written = changed.write(tmp_path / "g1.urdf")
    assert_written(changed, tmp_path / "g1.urdf")
    assert any("share the change" in note for note in written.notes)
    unlocked = load_model(tmp_path / "g1.urdf")
    assert len(unlocked.joints) == 29
    assert unlocked.check().possible


@pytest.mark.parametrize(
    "compiler",
    [
        "",
        'inertiafromgeom="true"',
        'settotalmass="9"',
        'boundmass="0.5" boundinertia="0.01"',
        'balanceinertia="true"',
        'fusestatic="true"',
    ],
)
@pytest.mark.filterwarnings("ignore:compiler attribute 'settotalmass' is deprecated")
def test_mjcf_compiler_options_do_not_spoil_what_is_written(compiler: str, tmp_path) -> None:
    file = tmp_path / "arm.xml"
    file.write_text(ARM.format(compiler=compiler))
    model = load_model(file)
    compiled = mujoco.MjModel.from_xml_path(str(file))
    assert model.total_mass == pytest.approx(compiled.body_mass.sum(), rel=1e-12)
    assert model.links == ("base", "upper")
    parameters = np.array(model.parameters)
    parameters[1] *= 0.5
    changed = model.with_parameters(parameters)
    changed.write(tmp_path / "written.xml")
    assert_written(changed, tmp_path / "written.xml")
    assert "a comment that must survive" in (tmp_path / "written.xml").read_text()
    recompiled = mujoco.MjModel.from_xml_path(str(tmp_path / "written.xml"))
    assert recompiled.body_mass.sum() == pytest.approx(changed.total_mass, rel=1e-12)


def test_mjcf_with_includes_is_written_as_one_file(tmp_path) -> None:
    whole = ARM.format(compiler="")
    body = re.search(r'(?s)<body name="upper".*</body>\n      </body>', whole)
    assert body is not None
    (tmp_path / "arm.xml").write_text(f"<mujocoinclude>{body.group(0)}</mujocoinclude>")
    main = tmp_path / "main.xml"
    main.write_text(whole.replace(body.group(0), '<include file="arm.xml"/>'))
    model = load_model(main)
    changed = model.with_parameters(shaken(model, seed=1))
    changed.write(tmp_path / "written.xml")
    assert_written(changed, tmp_path / "written.xml")
    assert "<include" not in (tmp_path / "written.xml").read_text()


def test_relative_paths_still_lead_to_the_same_files(tmp_path) -> None:
    (tmp_path / "robot" / "meshes").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    tetrahedron = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"
    (tmp_path / "robot" / "meshes" / "t.obj").write_text(tetrahedron)
    for compiler, file in (('meshdir="meshes"', "t.obj"), ("", "meshes/t.obj")):
        text = ARM.format(compiler=compiler).replace(
            "<worldbody>", f'<asset><mesh name="t" file="{file}"/></asset><worldbody>'
        )
        text = text.replace("<freejoint/>", '<freejoint/><geom type="mesh" mesh="t" contype="0" conaffinity="0"/>')
        (tmp_path / "robot" / "arm.xml").write_text(text)
        model = load_model(tmp_path / "robot" / "arm.xml")
        changed = model.with_parameters(shaken(model, seed=2))
        written = changed.write(tmp_path / "out" / "arm.xml")
        assert_written(changed, tmp_path / "out" / "arm.xml")
        assert any("same files" in note for note in written.notes)
    urdf = (
        '<robot name="r"><link name="a"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" '
        'izz="1"/></inertial><visual><geometry><mesh filename="meshes/t.obj"/></geometry></visual></link></robot>'
    )
    (tmp_path / "robot" / "r.urdf").write_text(urdf)
    written = load_model(tmp_path / "robot" / "r.urdf").write(tmp_path / "out" / "r.urdf")
    assert 'filename="../robot/meshes/t.obj"' in (tmp_path / "out" / "r.urdf").read_text()
    assert "1 relative mesh path now leads" in written.notes[0]


def test_what_cannot_be_written_is_refused_and_nothing_is_left(tmp_path) -> None:
    g1 = humanoid("g1")
    negative = np.array(g1.parameters)
    negative[3, 0] = -0.1
    with pytest.raises(ModelError, match=r"left_hip_yaw_link.*-0\.1 kg.*project"):
        g1.with_parameters(negative).write(tmp_path / "g1.urdf")
    with pytest.raises(ModelError, match=r"a URDF.*end the name in \.urdf"):
        g1.write(tmp_path / "g1.sdf")
    with pytest.raises(ModelError, match="folder does not exist"):
        g1.write(tmp_path / "nowhere" / "g1.urdf")
    assert list(tmp_path.iterdir()) == []


def test_an_impossible_estimate_is_written_as_it_is_and_said_so(tmp_path) -> None:
    romeo = humanoid("romeo")
    parameters = np.array(romeo.parameters)
    row = romeo.link_index("RElbowYawLink")
    parameters[row, 0] *= 1.1
    written = romeo.with_parameters(parameters).write(tmp_path / "romeo.urdf")
    assert "physically impossible" in written.notes[0]
    assert "RElbowYawLink" in written.notes[0]
    repaired = romeo.with_parameters(project_to_interior(romeo.parameters))
    assert repaired.write(tmp_path / "repaired.urdf").notes == ()
    assert load_model(tmp_path / "repaired.urdf").check().possible


def test_locked_parts_keep_their_mass_even_in_impossible_links(tmp_path) -> None:
    """Romeo's and iCub's limbs, locked, projected, halved: every part can still be told apart afterwards."""
    for name, lock in (("romeo", {"RElbow*": 0.2}), ("icub", {"r_knee": 0.2, "r_ankle_*": 0.1})):
        model = load_model(path_of(name), lock=lock)
        halved = model.with_parameters(0.5 * project_to_interior(model.parameters))
        halved.write(tmp_path / "halved.urdf")
        assert_written(halved, tmp_path / "halved.urdf")
        load_model(tmp_path / "halved.urdf")


def test_targets_are_treated_with_care(tmp_path) -> None:
    g1 = humanoid("g1")
    (tmp_path / "folder.urdf").mkdir()
    with pytest.raises(ModelError, match="this is a folder"):
        g1.write(tmp_path / "folder.urdf")
    (tmp_path / "real.urdf").write_text("old")
    (tmp_path / "real.urdf").chmod(0o600)
    (tmp_path / "link.urdf").symlink_to(tmp_path / "real.urdf")
    g1.write(tmp_path / "link.urdf")
    assert (tmp_path / "link.urdf").is_symlink()
    assert (tmp_path / "real.urdf").read_bytes() == path_of("g1").read_bytes()
    assert (tmp_path / "real.urdf").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.urdf", "link.urdf", "real.urdf"]


def test_an_unchanged_mjcf_is_written_byte_by_byte_whatever_the_compiler(tmp_path) -> None:
    file = tmp_path / "arm.xml"
    file.write_text(ARM.format(compiler='balanceinertia="true"'))
    load_model(file).write(tmp_path / "same.xml")
    assert (tmp_path / "same.xml").read_bytes() == file.read_bytes()


def test_a_link_without_any_mass_is_refused(tmp_path) -> None:
    g1 = humanoid("g1")
    parameters = np.array(g1.parameters)
    parameters[4] = 0.0
    with pytest.raises(ModelError, match="has the mass 0 kg"):
        g1.with_parameters(parameters).write(tmp_path / "g1.urdf")


def test_encodings_and_line_ends_survive(tmp_path) -> None:
    text = (
        '<?xml version="1.0" encoding="{}"?>\r\n<robot name="é">\r\n  <link name="größe">\r\n    <inertial>\r\n'
        '      <mass value="1"/>\r\n      <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>\r\n'
        "    </inertial>\r\n  </link>\r\n</robot>\r\n"
    )
    marks = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE, "utf-8": codecs.BOM_UTF8}
    for encoding in ("utf-8", "latin-1", "utf-16-le", "utf-16-be"):
        file = tmp_path / f"{encoding}.urdf"
        mark = marks.get(encoding, b"")
        file.write_bytes(mark + text.format(encoding.rstrip("-lbe")).encode(encoding))
        model = load_model(file)
        model.write(tmp_path / "same.urdf")
        assert (tmp_path / "same.urdf").read_bytes() == file.read_bytes()
        assert model.links == ("größe",)
        model.with_parameters(2.0 * model.parameters).write(tmp_path / "out.urdf")
        raw = (tmp_path / "out.urdf").read_bytes()
        assert raw.startswith(mark)
        assert raw.decode(encoding).count("\r\n") == raw.decode(encoding).count("\n")
        assert load_model(tmp_path / "out.urdf").total_mass == 2.0


def test_locks_of_the_humanoids_are_needed() -> None:
    for name in LOCKS:
        with pytest.raises(ModelError, match="mimic"):
            load_model(path_of(name))
