"""Bad input: each a SteelyardError that says what, where and what to do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from steelyard.exceptions import ModelError, SteelyardError
from steelyard.model import load_model, project_to_interior
from steelyard.model.setup import parse_setup, read_setup
from tests.humanoids import humanoid, path_of

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
LINK = '<link name="{}">' + INERTIAL + "</link>\n"


def joint(name: str, parent: str, child: str, kind: str = "revolute", inside: str = "") -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="1" velocity="1"/>{inside}</joint>\n'
    )


def robot(*pieces: str) -> str:
    return '<?xml version="1.0"?>\n<robot name="r">\n' + "".join(pieces) + "</robot>\n"


A, B, C = (LINK.format(name) for name in "abc")

BOMB = """<?xml version="1.0"?>
<!DOCTYPE robot [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<robot name="r"><link name="&b;"/></robot>"""

OUTSIDE = """<?xml version="1.0"?>
<!DOCTYPE robot [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<robot name="r"><link name="x"/>&a;</robot>"""

URDFS = {
    "broken XML": (robot(A, "<link>"), "line 4.*broken.*mismatched tag"),
    "empty file": ("", "the file is empty; copy it again"),
    "entity bomb": (BOMB, "line 2.*entity 'a'.*expands none"),
    "outside entity": (OUTSIDE, "line 2.*entity 'a'"),
    "deep nesting": ("<robot>" * 600 + "</robot>" * 600, "nested more than 512"),
    "no robot": ("<sdf/>", "<sdf>, not <robot>"),
    "xacro": (robot('<xacro:include filename="x"/>'), "expand it first"),
    "no links": (robot(), "no links"),
    "unknown joint type": (robot(A, B, joint("j", "a", "b", "revolut")), "line 5.*'revolut'.*did you mean 'revolute'"),
    "planar joint": (robot(A, B, joint("j", "a", "b", "planar")), "'planar', which Steelyard does not know"),
    "moving mimic": (
        robot(A, B, C, joint("j", "a", "b"), joint("k", "b", "c", inside='<mimic joint="j"/>')),
        r"line 7.*k moves with other joints.*mimic.*Lock the joints that they follow \(j\).*\"j\" = 0\.0",
    ),
    "self loop": (robot(A, B, joint("j", "a", "a")), "the links a form a loop"),
    "underscore number": (robot(A.replace('value="1"', 'value="1_0"')), "'1_0'; write a number"),
    "outside document type": (
        '<?xml version="1.0"?><!DOCTYPE robot SYSTEM "x.dtd"><robot name="r"><link name="a&e;"/></robot>',
        r"document type elsewhere \(x\.dtd\)",
    ),
    "only a massless link": (robot('<link name="a"/>'), "the only one, and has no mass"),
    "massless leaf": (robot(A, '<link name="b"/>', joint("j", "a", "b")), "line 4.*'b'.*no mass.*<inertial>.*lock"),
    "two roots": (robot(A, B, C, joint("j", "a", "b")), "2 roots, a and c"),
    "two parents": (
        robot(A, B, C, joint("j", "a", "c"), joint("k", "b", "c")),
        "'c' has two parents.*'j' and 'k'.*loop",
    ),
    "circle": (robot(A, B, C, joint("j", "b", "c"), joint("k", "c", "b")), "links b and c form a loop"),
    "no root at all": (robot(A, B, joint("j", "a", "b"), joint("k", "b", "a")), "links a and b form a loop"),
    "unknown parent": (robot(A, B, joint("j", "aa", "b")), "'aa', but there is no such link; did you mean 'a'"),
    "no parent": (robot(A, '<joint name="j" type="fixed"><child link="a"/></joint>'), "has no <parent>"),
    "same link twice": (robot(A, A), "'a' is defined twice"),
    "same joint twice": (robot(A, B, C, joint("j", "a", "b"), joint("j", "b", "c")), "two joints are called 'j'"),
    "nameless link": (robot("<link/>"), "has no 'name'"),
    "negative mass": (robot(A.replace('value="1"', 'value="-2"')), "mass of link 'a' is -2 kg"),
    "NaN mass": (robot(A.replace('value="1"', 'value="nan"')), "mass of link 'a' is 'nan'; write a number"),
    "infinite mass": (robot(A.replace('value="1"', 'value="inf"')), "mass of link 'a' is 'inf'"),
    "mass in words": (robot(A.replace('value="1"', 'value="heavy"')), "'heavy'; write a number"),
    "no mass value": (robot(A.replace('value="1"', "")), "mass of link 'a' is missing"),
    "no inertia": (robot('<link name="a"><inertial><mass value="1"/></inertial></link>'), "has no <inertia>"),
    "NaN inertia": (robot(A.replace('ixx="1"', 'ixx="NaN"')), "ixx of link 'a' is 'NaN'"),
    "two numbers": (robot(A.replace("<mass", '<origin xyz="1 2"/><mass')), "'1 2'; write three numbers"),
    "zero axis": (robot(A, B, joint("j", "a", "b").replace("0 0 1", "0 0 0")), "'j' has a zero axis"),
    "floating inside": (robot(A, B, joint("j", "a", "b", "floating")), "only the base can float"),
    "nothing moves with mass": (robot('<link name="a"/>'), "no mass"),
}


@pytest.mark.parametrize("case", URDFS)
def test_bad_urdf(case: str, tmp_path) -> None:
    text, message = URDFS[case]
    file = tmp_path / "bad.urdf"
    file.write_text(text)
    with pytest.raises(ModelError, match=f"(?s){message}") as caught:
        load_model(file)
    assert "bad.urdf" in str(caught.value)
    assert "\n" not in str(caught.value)


BODY = '<body name="a"><freejoint/><geom size="0.1"/>{}</body>'
TWO = (
    '<body name="b"><joint name="j"/><geom size="0.1"/></body><body name="c"><joint name="k"/><geom size="0.1"/></body>'
)

MJCFS = {
    "unknown element": ("<mujoco><worldbody><bodi/></worldbody></mujoco>", "MuJoCo does not accept.*bodi"),
    "nothing moves": ("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>", "nothing in the model moves"),
    "two roots": (f"<mujoco><worldbody>{BODY.format('')}{TWO}</worldbody></mujoco>", "3 roots, a, b and c"),
    "coupled joints": (
        f"<mujoco><worldbody>{BODY.format(TWO)}</worldbody><equality><joint joint1='k' joint2='j'/></equality>"
        "</mujoco>",
        "k moves with other joints.*Lock the joints that they follow .j.",
    ),
    "loop": (
        f"<mujoco><worldbody>{BODY.format(TWO)}</worldbody><equality><connect body1='b' body2='c' anchor='0 0 0'/>"
        "</equality></mujoco>",
        "ties b and c together.*loop",
    ),
    "missing include": ('<mujoco><include file="gone.xml"/></mujoco>', "gone.xml: there is no such file"),
    "include of itself": ('<mujoco><include file="bad.xml"/></mujoco>', "included twice"),
    "missing mesh": (
        "<mujoco><asset><mesh name='m' file='gone.stl'/></asset><worldbody>"
        + BODY.format("")
        + "</worldbody></mujoco>",
        "gone.stl",
    ),
    "massless": (
        "<mujoco><worldbody><body><freejoint/></body></worldbody></mujoco>",
        "MuJoCo does not accept.*mass and inertia",
    ),
    "entity": (BOMB.replace("robot", "mujoco"), "expands none"),
    "NaN mass": (
        "<mujoco><worldbody><body><freejoint/><inertial pos='0 0 0' mass='nan' diaginertia='1 1 1'/></body></worldbody>"
        "</mujoco>",
        "MuJoCo does not accept.*mass",
    ),
    "negative mass": (
        "<mujoco><worldbody><body><freejoint/><inertial pos='0 0 0' mass='-1' diaginertia='1 1 1'/></body></worldbody>"
        "</mujoco>",
        "MuJoCo does not accept.*mass",
    ),
    "attached file": (
        "<mujoco><asset><model name='m' file='other.xml'/></asset><worldbody>"
        + BODY.format("")
        + "</worldbody></mujoco>",
        r"attaches another file, other\.xml.*mj_saveLastXML",
    ),
    "tendon ties joints": (
        f"<mujoco><worldbody>{BODY.format(TWO)}</worldbody><tendon><fixed name='t'><joint joint='j' coef='1'/>"
        "<joint joint='k' coef='-1'/></fixed></tendon><equality><tendon tendon1='t'/></equality></mujoco>",
        "j and k move with other joints.*Lock them",
    ),
}


@pytest.mark.parametrize("case", MJCFS)
def test_bad_mjcf(case: str, tmp_path) -> None:
    text, message = MJCFS[case]
    file = tmp_path / "bad.xml"
    file.write_text(text)
    with pytest.raises(ModelError, match=f"(?s){message}") as caught:
        load_model(file)
    assert "\n" not in str(caught.value)
    assert ".xml" in str(caught.value)


G1 = 'file = "package://example-robot-data/robots/g1_description/urdf/g1_29dof_rev_1_0.urdf"\n'
SENSOR = '[[wrench_sensor]]\nname = "foot"\nframe = "{}"\n'
SOLE = '[[sole]]\nname = "s"\nframe = "pelvis"\nvertices = {}\n'
TEXTS = "[['0', '0', '0'], ['1', '0', '0'], ['0', '1', '0']]"
SQUARE = "[[0, 0, 0], [1, 0, 0], [1, 1, 0]]"

SETUPS = {
    "broken TOML": ("[model", "TOML is broken"),
    "no file": ("[model]\n", r"in \[model\]: 'file' is missing"),
    "unknown table": (f"[model]\n{G1}[[imus]]\n", "unknown key 'imus'; did you mean 'imu'"),
    "unknown key": (
        f'[model]\n{G1}[[imu]]\nname = "a"\nfram = "pelvis"\n',
        r"\[\[imu\]\] number 1: 'frame' is missing; write a text \(you wrote 'fram'\)",
    ),
    "unknown extra key": (
        f"[model]\n{G1}{SENSOR.format('pelvis')}framme = 1\n",
        r"\[\[wrench_sensor\]\] number 1: unknown key 'framme'; did you mean 'frame'",
    ),
    "unknown frame": (
        f"[model]\n{G1}{SENSOR.format('left_ankle_rol_link')}",
        "wrench sensor 'foot' is at the frame 'left_ankle_rol_link'.*did you mean 'left_ankle_roll_link'",
    ),
    "unknown sensor frame inside": (
        f"[model]\n{G1}{SENSOR.format('left_ankle_rol_link')}at = 'joint'\n",
        "did you mean 'left_ankle_roll_link'",
    ),
    "sensor inside at the root": (f"[model]\n{G1}{SENSOR.format('pelvis')}at = 'joint'\n", "no joint above it"),
    "nothing below the sensor": (
        f"[model]\n{G1}{SENSOR.format('imu_in_torso')}at = 'joint'\n",
        "no part with mass is below the wrench sensor",
    ),
    "unmatched mirror": (f'[model]\n{G1}[mirror]\npairs = [["lefty_*", "righty_*"]]\n', "match no pair of links"),
    "uneven mirror": (f'[model]\n{G1}[mirror]\npairs = [["left_*", "right"]]\n', "same number of"),
    "mirror of three": (f'[model]\n{G1}[mirror]\npairs = [["a", "b", "c"]]\n', "write pairs of patterns"),
    "mirror without pairs": (f'[model]\n{G1}[mirror]\nplane = "xz"\n', "'pairs' is missing"),
    "unmatched volume": (
        f'[model]\n{G1}[volume]\n"torso_lin" = [[0, 0, 0], [1, 1, 1]]\n',
        r"in \[volume\]: 'torso_lin' matches no link; did you mean 'torso_link'",
    ),
    "empty volume": (f'[model]\n{G1}[volume]\n"torso_link" = [[0, 0, 0], [1, 0, 1]]\n', "is empty"),
    "bad volume": (f'[model]\n{G1}[volume]\n"torso_link" = [[0, 0], [1, 0]]\n', "must be a box"),
    "unmatched torque": (f'[model]\n{G1}[torque]\nmeasured = ["knee"]\n', "'knee' matches no joint"),
    "torque as a number": (f"[model]\n{G1}[torque]\nmeasured = 3\n", 'write a list of names, or "all"'),
    "lock beyond numbers": (f'[model]\n{G1}[lock]\n"left_knee_joint" = 1{"0" * 400}\n', "write a number"),
    "sole of texts": (f"[model]\n{G1}{SOLE.format(TEXTS)}", "list of points"),
    "posture of nobody": (
        f'[model]\n{G1}[mirror]\npairs = [["left_*", "right_*"]]\nposture = {{ knee = 1 }}\n',
        "posture",
    ),
    "torque in words": (f'[model]\n{G1}[torque]\nmeasured = "some"\n', 'write a list of names, or "all"'),
    "unmatched lock": (f"[model]\n{G1}[lock]\nknee = 1.0\n", "the setup locks 'knee', but no moving joint"),
    "lock in words": (f'[model]\n{G1}[lock]\n"left_knee_joint" = "bent"\n', "'bent'; write a number"),
    "two numbers for a hinge": (f'[model]\n{G1}[lock]\n"left_knee_joint" = [0, 0, 0, 1]\n', "needs one finite number"),
    "wrong base": (f'[model]\n{G1}base = "flying"\n', "'flying'; write 'floating' or 'fixed'"),
    "wrong axes": (f"[model]\n{G1}{SENSOR.format('pelvis')}axes = 'fz mx'\n", "'axes' is 'fz mx'"),
    "wrong sign": (f"[model]\n{G1}{SENSOR.format('pelvis')}sign = 'minus'\n", "'minus'; write"),
    "sole on a line": (f"[model]\n{G1}{SOLE.format('[[0, 0, 0], [1, 0, 0], [2, 0, 0]]')}", "not on one line"),
    "sole of words": (f"[model]\n{G1}{SOLE.format('[1, 2]')}", "a list of points"),
    "sole with NaN": (f"[model]\n{G1}{SOLE.format('[[nan, 0, 0], [1, 0, 0], [0, 1, 0]]')}", "a list of points"),
    "sole without sensor": (
        f'[model]\n{G1}{SOLE.format(SQUARE)}wrench = "foot"\n',
        r"no \[\[wrench_sensor\]\] has this",
    ),
    "same name twice": (f"[model]\n{G1}{SENSOR.format('pelvis') * 2}", "two .*wrench_sensor.* are called 'foot'"),
    "one bracket": (f'[model]\n{G1}[imu]\nname = "a"\n', "two brackets"),
    "not a table": ("model = 3\n", "must be a table"),
    "missing model file": ('[model]\nfile = "gone.urdf"\n', "gone.urdf: there is no such file"),
    "missing package": ('[model]\nfile = "package://nowhere/r.urdf"\n', "no package 'nowhere'.*ROS_PACKAGE_PATH"),
}


@pytest.mark.parametrize("case", SETUPS)
def test_bad_setup(case: str, tmp_path) -> None:
    text, message = SETUPS[case]
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ModelError, match=f"(?s){message}"):
        load_model(file)


def test_missing_things_are_named(tmp_path, monkeypatch) -> None:
    with pytest.raises(ModelError, match=r"gone\.urdf: there is no such file"):
        load_model(tmp_path / "gone.urdf")
    with pytest.raises(ModelError, match=r"gone\.toml: there is no such setup"):
        load_model(tmp_path / "gone.toml")
    with pytest.raises(ModelError, match=r"neither a ready setup.*did you mean 'talos'"):
        load_model("tallos")
    with pytest.raises(ModelError, match="expand it first"):
        load_model("robot.urdf.xacro")
    (tmp_path / "folder.urdf").mkdir()
    with pytest.raises(ModelError, match="a folder, not a file"):
        load_model(tmp_path / "folder.urdf")
    with pytest.raises(ModelError, match=r"no ready setup 'g11'.*did you mean 'g1'"):
        read_setup("g11")
    with pytest.raises(ModelError, match="is a setup already"):
        load_model("g1", setup="talos")
    (tmp_path / "bytes.urdf").write_bytes(b'<robot name="\xff\xfa"/>')
    with pytest.raises(ModelError, match="not utf-8 text"):
        load_model(tmp_path / "bytes.urdf")
    (tmp_path / "klingon.urdf").write_bytes(b'<?xml version="1.0" encoding="klingon"?><robot/>')
    with pytest.raises(ModelError, match="encoding 'klingon' is unknown"):
        load_model(tmp_path / "klingon.urdf")
    monkeypatch.setattr("steelyard.model.files.packages._installed_shares", lambda: iter(()))
    with pytest.raises(ModelError, match=r"pip install 'steelyard\[robots\]'"):
        load_model("g1")


def test_odd_paths_and_encodings_are_refused_in_words(tmp_path) -> None:
    for source in ("~nosuchuser/x.urdf", "~nosuchuser/x.toml", "x" * 300 + ".urdf", "package://[x/y.urdf"):
        with pytest.raises(ModelError):
            load_model(source)
    for encoding in ("undefined", "punycode", "utf-7"):
        (tmp_path / "odd.urdf").write_bytes(
            f'<?xml version="1.0" encoding="{encoding}"?><robot name="+2AA-"/>'.encode()
        )
        with pytest.raises(ModelError):
            load_model(tmp_path / "odd.urdf")
    with pytest.raises(ModelError, match="folder does not exist"):
        humanoid("g1").write("~nosuchuser/x.urdf")
    with pytest.raises(ModelError, match="a revolute joint needs one finite number"):
        load_model(path_of("g1"), lock={"left_knee_joint": "bent"})  # type: ignore[dict-item]
    with pytest.raises(ModelError, match="array of numbers"):
        humanoid("g1").with_parameters("abc")
    with pytest.raises(SteelyardError, match="not finite"):
        project_to_interior(np.full((2, 10), np.nan))


def test_a_long_chain_is_no_trouble(tmp_path) -> None:
    links = [LINK.format(f"l{i}") for i in range(1500)]
    chain = [joint(f"j{i}", f"l{i}", f"l{i + 1}") for i in range(1499)]
    (tmp_path / "chain.urdf").write_text(robot(*links, *chain))
    assert len(load_model(tmp_path / "chain.urdf").links) == 1500


def test_names_asked_of_a_model_are_offered_the_nearest() -> None:
    g1 = humanoid("g1")
    with pytest.raises(ModelError, match="no link 'torso_lnk'; did you mean 'torso_link'"):
        g1.link_index("torso_lnk")
    with pytest.raises(ModelError, match="'logo_link' is welded into 'torso_link'"):
        g1.link_index("logo_link")
    with pytest.raises(ModelError, match="no moving joint 'left_knee'; did you mean 'left_knee_joint'"):
        g1.joint("left_knee")
    with pytest.raises(ModelError, match="it is locked"):
        g1.with_locked({"left_knee_joint": 0.0}).joint("left_knee_joint")
    with pytest.raises(ModelError, match="no frame 'imu_in_pelvs'; did you mean 'imu_in_pelvis'"):
        g1.frame("imu_in_pelvs")
    with pytest.raises(ModelError, match="no moving joint 'knee'"):
        g1.with_locked({"knee": 0.0})
    with pytest.raises(ModelError, match="it is locked"):
        g1.with_locked({"left_knee_joint": 0.0}).with_locked({"left_knee_joint": 0.0})
    with pytest.raises(ModelError, match="base is 'flying'"):
        load_model(path_of("g1"), base="flying")  # type: ignore[arg-type]


def test_bad_parameters_are_named() -> None:
    g1 = humanoid("g1")
    with pytest.raises(ModelError, match=r"30 links.*shape \(3,\)"):
        g1.with_parameters([1.0, 2.0, 3.0])
    broken = np.array(g1.parameters)
    broken[2, 5] = math.nan
    with pytest.raises(ModelError, match=r"'left_hip_roll_link\.Ixy' is nan"):
        g1.with_parameters(broken)


def test_every_error_is_a_steelyard_error() -> None:
    assert issubclass(ModelError, SteelyardError)
    with pytest.raises(SteelyardError):
        parse_setup({"unknown": {}})
