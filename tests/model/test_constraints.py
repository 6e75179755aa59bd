"""The vocabulary of constraints: what each may say, how it is written, and that writing and reading agree."""

from __future__ import annotations

import json
import math
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard import (
    ComInside,
    Frozen,
    LeastMass,
    MassWithin,
    MatterInside,
    MatterWithin,
    MirrorWithin,
    PositiveInertia,
    TotalMass,
    load_model,
    parse_constraints,
)
from steelyard.exceptions import IdentifiabilityError, ModelError
from steelyard.model.constraint_tables import constraint_table
from steelyard.model.constraints import CONSTRAINT_CLASSES, Constraint, link_patterns
from steelyard.model.setup import parse_setup, read_setup
from steelyard.model.setup_tables import setup_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BOX = ((-0.1, -0.1, 0.0), (0.1, 0.1, 0.2))

WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "total mass zero": (lambda: TotalMass(0.0), "total_mass: mass is 0.0; write the robot's mass in kg, more than"),
    "total mass negative": (lambda: TotalMass(-3), "total_mass: mass is -3"),
    "total mass NaN": (lambda: TotalMass(math.nan), "total_mass: mass is nan"),
    "total mass infinite": (lambda: TotalMass(math.inf), "total_mass: mass is inf"),
    "total mass beyond numbers": (lambda: TotalMass(10**400), "total_mass: mass is 1000"),
    "total mass in words": (lambda: TotalMass("63 kg"), "total_mass: mass is '63 kg'"),  # type: ignore[arg-type]
    "total mass true": (lambda: TotalMass(True), "total_mass: mass is True"),
    "negative tolerance": (lambda: TotalMass(60.0, -0.1), "tolerance is -0.1; write a tolerance in kg, zero or more"),
    "no tolerance": (lambda: TotalMass(60.0, None), "tolerance is None"),  # type: ignore[arg-type]
    "negative least mass": (lambda: LeastMass(-1.0), "least_mass: least is -1.0; write a least mass in kg, zero or"),
    "beta over one": (lambda: MassWithin(1.5), "mass_within: share is 1.5; write a share of at least 0 and less than"),
    "beta one": (lambda: MassWithin(1.0), "mass_within: share is 1.0"),
    "beta in percent": (lambda: MassWithin(35), "mass_within: share is 35"),
    "beta negative": (lambda: MassWithin(-0.1), "mass_within: share is -0.1"),
    "alpha one": (lambda: MirrorWithin(1.0), "mirror: share is 1.0"),
    "alpha NaN": (lambda: MirrorWithin(math.nan), "mirror: share is nan"),
    "share of a first moment": (lambda: MirrorWithin(0.1, of=("my",)), "'my' can be negative.*share of 0"),
    "unknown symbol": (lambda: MirrorWithin(of=("Ixxx",)), "of has 'Ixxx'; did you mean 'Ixx'"),
    "nothing compared": (lambda: MirrorWithin(of=()), "mirror: of is .*write some of m mx"),
    "inertia over the reference": (lambda: PositiveInertia(1.5), "least is 1.5; write a share from 0 to 1"),
    "inertia negative": (lambda: PositiveInertia(-0.01, relative=False), "least is -0.01; write an inertia in kg m2"),
    "inertia of both": (lambda: PositiveInertia(relative=1), "relative is 1; write true"),  # type: ignore[arg-type]
    "directions in full": (lambda: PositiveInertia(directions=10242), "directions is 10242.*subdivisions from 0 to 7"),
    "directions in part": (lambda: PositiveInertia(directions=1.5), "directions is 1.5"),  # type: ignore[arg-type]
    "unknown place": (lambda: ComInside("mesh"), "com: where is 'mesh'; write 'auto', 'bounds', 'hull'"),
    "crossed box": (lambda: ComInside(((0.1, 0, 0), (-0.1, 1, 1))), "com: where is .*this one is empty"),
    "flat box": (lambda: ComInside(((0, 0, 0), (0, 1, 1))), "com: where is .*this one is empty"),
    "box with NaN": (lambda: ComInside(((math.nan, 0, 0), (1, 1, 1))), "com: where is .*or a box"),
    "box of two": (lambda: ComInside(((0, 0), (1, 1))), "com: where is .*or a box"),  # type: ignore[arg-type]
    "place as a number": (lambda: ComInside(3), "com: where is 3; write"),  # type: ignore[arg-type]
    "negative margin": (lambda: ComInside(margin=-1e-3), "com: margin is -0.001"),
    "links as a number": (lambda: Frozen(3), "frozen: links is 3; write a pattern"),  # type: ignore[arg-type]
    "no links": (lambda: Frozen(()), r"frozen: links is \(\)"),
    "empty pattern": (lambda: MassWithin(0.1, ""), "mass_within: links is"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_makes_no_sense_is_refused_in_one_sentence(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(IdentifiabilityError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(". ") == 0


def test_each_kind_is_one_class_of_the_flat_api() -> None:
    assert set(CONSTRAINT_CLASSES) == {
        "least_mass", "total_mass", "com", "inertia", "matter", "matter_inside", "mirror", "mass_within", "frozen",
    }  # fmt: skip
    for made in CONSTRAINT_CLASSES.values():
        assert getattr(sy, made.__name__) is made
        assert made.__name__ in sy.__all__


def test_constraints_are_values() -> None:
    assert MassWithin(0.35, "torso*") == MassWithin(0.35, ("torso*",))
    assert hash(ComInside(np.array(BOX))) == hash(ComInside(BOX))  # type: ignore[arg-type]
    assert TotalMass(np.float64(63)) == TotalMass(63.0)
    assert MirrorWithin(of=("Ixx", "m")).of == ("m", "Ixx")


TEXTS = {
    "total_mass=63.2": TotalMass(63.2),
    "total_mass = 63": TotalMass(63.0),
    "total_mass={mass=63.2, tolerance=0.05}": TotalMass(63.2, 0.05),
    "total_mass=off": TotalMass(None),
    "least_mass=0.01": LeastMass(0.01),
    "matter=0.02": MatterWithin(0.02),
    "matter.head*=off": MatterWithin(None, "head*"),
    "matter_inside=ellipsoid": MatterInside(),
    "matter_inside.torso*=box": MatterInside("box", "torso*"),
    "matter_inside={where='hull', margin=0.02}": MatterInside("hull", margin=0.02),
    "matter_inside={margin=0.02}": MatterInside(margin=0.02),
    "matter_inside.head*=off": MatterInside(None, "head*"),
    "least_mass.head*=0.2": LeastMass(0.2, "head*"),
    "mass_within=0.05": MassWithin(0.05),
    "mass_within.torso*=0.35": MassWithin(0.35, "torso*"),
    "mass_within.*hand.v2*=false": MassWithin(None, "*hand.v2*"),
    "com=hull": ComInside("hull"),
    'com="bounds"': ComInside("bounds"),
    "com.head*=hull": ComInside("hull", "head*"),
    "com.head=[[-0.1, -0.1, 0.0], [0.1, 0.1, 0.2]]": ComInside(BOX, "head"),
    "com={where='hull', margin=0.01}": ComInside("hull", margin=0.01),
    "com={margin=0.01}": ComInside(margin=0.01),
    "inertia=0.2": PositiveInertia(0.2),
    "inertia={least=0.01, relative=false, directions=5}": PositiveInertia(0.01, relative=False, directions=5),
    "inertia.hand={directions=2}": PositiveInertia(links="hand", directions=2),
    "mirror=off": MirrorWithin(None),
    "mirror=false": MirrorWithin(None),
    "mirror=0": MirrorWithin(0.0),
    "mirror={share=0, of=['m', 'mx', 'my', 'mz']}": MirrorWithin(0.0, ("m", "mx", "my", "mz")),
    "frozen=head*": Frozen("head*"),
    "frozen=head*,torso_link": Frozen(("head*", "torso_link")),
    'frozen=["head*", "torso_link"]': Frozen(("head*", "torso_link")),
    "frozen=off": Frozen("*", held=False),
    "frozen=false": Frozen(None),
    "frozen.head*=off": Frozen("head*", held=False),
    "frozen.head*=true": Frozen("head*"),
    'mass_within."torso_*"=0.35': MassWithin(0.35, "torso_*"),
    "mass_within.'torso_*' = 0.35": MassWithin(0.35, "torso_*"),
    "mass_within. torso_link =0.35": MassWithin(0.35, "torso_link"),
    'com="off"': ComInside(None),
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_say_constraints(text: str) -> None:
    assert parse_constraints([text]) == (TEXTS[text],)


def test_texts_keep_their_order() -> None:
    assert parse_constraints(list(TEXTS)) == tuple(TEXTS.values())
    table = 'mass_within={"*"=0.05, "torso*"=0.35}'
    assert parse_constraints([table]) == (MassWithin(0.05), MassWithin(0.35, "torso*"))
    assert parse_constraints("mirror=off") == (MirrorWithin(None),)


WRONG_TEXTS = {
    "total_mass": "in --constraint total_mass: there is no value",
    "mirror=no": "share is 'no'; write a share of at least 0 and less than 1, or off to switch it off$",
    "com.head=of": "where is 'of'; write .*, or off to switch it off$",
    "com={wher='hull', margin=0.1}": r"unknown key 'wher'; did you mean 'where'\?$",
    "total_mass=": "there is no value",
    "totalmass=3": "there is no constraint 'totalmass'; did you mean 'total_mass'",
    "total_mass=0": "total_mass=0: total_mass: mass is 0; write the robot's mass",
    "total_mass=nan": "mass is nan",
    "total_mass=heavy": "mass is 'heavy'",
    "total_mass=true": "total_mass is true; write 63.2, or false to switch it off",
    "total_mass={tolerance=1}": "'mass' is missing; write it as in",
    "total_mass={mass=3, toleranse=1}": "unknown key 'toleranse'; did you mean 'tolerance'",
    "total_mass.torso=3": "takes no links after a dot; write total_mass=63.2",
    "mirror.left_*=0.1": "takes no links after a dot",
    "mass_within=1.2": "share is 1.2",
    "mass_within=[0.1]": r"share is \[0.1\]",
    "com=ball": "where is 'ball'",
    "com=[[0,0,0],[-1,1,1]]": "this one is empty",
    "com=[[0,0,0],[1,1,1]": r"the value is no TOML \([^()]*\); write it as in com=",
    "frozen=true": "frozen is true; write the links as in",
    "frozen.head=3": "frozen: head is 3; write true or false",
    "mirror=0.1\nfrozen=2": "no TOML|more than one value",
    "frozen=3": "links is 3",
    "frozen={head=1}": "frozen: head is 1; write true or false",
    "inertia={least=0.1, relative=2}": "relative is 2",
}


@pytest.mark.parametrize("text", WRONG_TEXTS)
def test_wrong_texts_are_refused_by_name(text: str) -> None:
    with pytest.raises(IdentifiabilityError, match=WRONG_TEXTS[text]) as caught:
        parse_constraints(["mirror=off", text], "--constraint")
    assert str(caught.value).startswith(f"in --constraint {text}: ")
    with pytest.raises(IdentifiabilityError, match="write a text such as"):
        parse_constraints([3])  # type: ignore[list-item]
    with pytest.raises(IdentifiabilityError, match=r"^in constraints total: there is no value"):
        parse_constraints(["total"])


SETUP = """
[model]
file = "package://example-robot-data/robots/g1_description/urdf/g1_29dof_rev_1_0.urdf"
[mirror]
pairs = [["left_*", "right_*"]]
[constraints]
total_mass = { mass = 35.1, tolerance = 0.05 }
least_mass = 0.01
mirror = false
frozen = ["waist_*"]
inertia = { least = 0.01, relative = false, directions = 5 }
[constraints.com]
"*" = "hull"
"torso_link" = [[-0.1, -0.1, 0.0], [0.1, 0.1, 0.4]]
"pelvis" = { where = "bounds", margin = 0.01 }
[constraints.mass_within]
"*" = 0.05
"torso_link" = 0.35
"*_wrist_yaw_link" = false
"""


def test_a_setup_says_constraints_and_an_estimate_keeps_them(tmp_path) -> None:
    (tmp_path / "robot.toml").write_text(SETUP)
    setup = load_model(tmp_path / "robot.toml").setup
    assert setup.constraints == (
        TotalMass(35.1, 0.05),
        LeastMass(0.01),
        MirrorWithin(None),
        Frozen("waist_*"),
        PositiveInertia(0.01, relative=False, directions=5),
        ComInside("hull"),
        ComInside(((-0.1, -0.1, 0.0), (0.1, 0.1, 0.4)), "torso_link"),
        ComInside("bounds", "pelvis", 0.01),
        MassWithin(0.05),
        MassWithin(0.35, "torso_link"),
        MassWithin(None, "*_wrist_yaw_link"),
    )
    again = parse_setup(json.loads(json.dumps(setup_tables(setup))))
    assert again.constraints == setup.constraints
    assert "constraints" not in setup_tables(read_setup("g1"))


WRONG_TABLES = {
    "total_mass = 0": r"in \[constraints\]: total_mass: mass is 0",
    'total_mass = "63"': "mass is '63'",
    "total_mas = 63": "unknown key 'total_mas'; did you mean 'total_mass'",
    "mass_within = 1.5": "share is 1.5",
    'mass_within = { "torso_lin" = 0.3 }': r"in \[constraints\] mass_within: 'torso_lin' matches no link; did you mean",
    'frozen = ["tors_link"]': r"in \[constraints\] frozen: 'tors_link' matches no link; did you mean 'torso_link'",
    'frozen = "torso_link, 3"': "matches no link",
    "frozen = true": "frozen is true; write the links as in",
    'com = "off"': "where is 'off'; write .* or false to switch it off",
    'mirror = "off"': "share is 'off'; write .* or false to switch it off",
    'mass_within = { "logo_link" = 0.3 }': r"\[constraints\] mass_within: 'logo_link' .* is welded into 'torso_link'",
    'frozen = ["head_link"]': r"in \[constraints\] frozen: 'head_link' matches no link of its own; 'head_link' is weld",
    "[volume]\nhead_link = [[0, 0, 0], [1, 1, 1]]": r"in \[volume\]: 'head_link' matches .* welded into 'torso_link'",
    "com = true": 'com is true; write "hull", or false',
    'com = { "torso_link" = "ball" }': "where is 'ball'",
    "com = [[0, 0, 0], [0, 1, 1]]": "is empty",
    "inertia = { leest = 0.1, relative = false }": "unknown key 'leest'; did you mean 'least'",
    "mirror = nan": "share is nan",
    "least_mass = 2026-01-01": "least is datetime",
}


@pytest.mark.parametrize("line", WRONG_TABLES)
def test_wrong_tables_are_refused_with_their_place(line: str, tmp_path) -> None:
    head = SETUP.partition("[constraints]")[0]
    (tmp_path / "bad.toml").write_text(f"{head}[constraints]\n{line}\n")
    with pytest.raises(ModelError, match=WRONG_TABLES[line]) as caught:
        load_model(tmp_path / "bad.toml")
    assert "bad.toml" in str(caught.value)


def test_constraints_are_a_table() -> None:
    with pytest.raises(ModelError, match=r"in \[constraints\]: must be a table"):
        parse_setup({"constraints": 3})


SHARES = st.one_of(st.none(), st.floats(0.0, 0.99))
PATTERNS = st.sampled_from(["*", "head*", "left_*", "*knee*", "torso"])
LINKS = st.one_of(PATTERNS, st.lists(PATTERNS, min_size=1, max_size=3).map(tuple))
CONSTRAINTS = st.one_of(
    st.builds(LeastMass, st.one_of(st.none(), st.floats(0.0, 9.0)), LINKS),
    st.builds(TotalMass, st.one_of(st.none(), st.floats(0.1, 99.0)), st.floats(0.0, 1.0)),
    st.builds(ComInside, st.sampled_from([None, "auto", "bounds", "hull", "volume", BOX]), LINKS, st.floats(0.0, 0.1)),
    st.builds(PositiveInertia, SHARES, LINKS, st.booleans(), st.one_of(st.none(), st.integers(0, 7))),
    st.builds(MirrorWithin, SHARES),
    st.builds(lambda of: MirrorWithin(0.0, tuple(of)), st.lists(st.sampled_from(["m", "my", "Ixy"]), min_size=1)),
    st.builds(MassWithin, SHARES, LINKS),
    st.builds(Frozen, st.one_of(st.none(), LINKS), st.booleans()),
)


@given(st.lists(CONSTRAINTS, max_size=8))
def test_written_and_read_again_they_mean_the_same(constraints: list[Constraint]) -> None:
    """For each kind and pattern, what counts is the last; reading what was written is exact from then on."""
    once = parse_setup(json.loads(json.dumps({"constraints": constraint_table(constraints)}))).constraints
    meant = _meaning(constraints)
    assert _meaning(once) == meant
    again = parse_setup(setup_tables(parse_setup({"constraints": constraint_table(once)}))).constraints
    assert again == once


def _meaning(constraints: Sequence[Constraint]) -> dict[str, list[Constraint]]:
    """Gives what counts of each kind, one for each pattern, in order."""
    last: dict[str, dict[str, Constraint]] = {}
    for constraint in constraints:
        patterns = link_patterns(constraint)
        for pattern in patterns or ("",):
            of_kind = last.setdefault(constraint.kind, {})
            of_kind.pop(pattern, None)
            of_kind[pattern] = replace(constraint, links=pattern) if patterns else constraint  # type: ignore[arg-type]
    return {kind: list(of_kind.values()) for kind, of_kind in last.items()}


def test_what_is_frozen_can_be_let_go() -> None:
    assert constraint_table([Frozen(("a", "b"))]) == {"frozen": ["a", "b"]}
    assert constraint_table([Frozen("a"), Frozen(None)]) == {"frozen": {"a": True, "*": False}}
    assert constraint_table([Frozen(None)]) == {"frozen": False}
    assert constraint_table([Frozen("*"), Frozen("head*", held=False)]) == {"frozen": {"*": True, "head*": False}}
    with pytest.raises(IdentifiabilityError, match="frozen: held is 1; write true or false"):
        Frozen("a", held=1)  # type: ignore[arg-type]


def test_a_call_may_lock_what_the_setup_speaks_of(tmp_path) -> None:
    """A part that the file itself welds is a mistake in the setup; a joint that only a call locks is none."""
    head = SETUP.partition("[constraints]")[0]
    (tmp_path / "robot.toml").write_text(f"{head}[volume]\nleft_elbow_link = [[-1, -1, -1], [1, 1, 1]]\n")
    assert "left_elbow_link" in load_model(tmp_path / "robot.toml").links
    locked = load_model(tmp_path / "robot.toml", lock={"left_elbow_joint": 0.0})
    assert "left_elbow_link" not in locked.links


def test_order_survives_where_patterns_overlap() -> None:
    given_twice = (MassWithin(0.1, "left_*"), MassWithin(0.2), MassWithin(0.3, "left_*"))
    assert constraint_table(given_twice) == {"mass_within": {"*": 0.2, "left_*": 0.3}}


def test_what_the_docs_say_of_constraints_is_understood() -> None:
    page = (Path(__file__).parents[2] / "docs" / "setup.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"(?s)```toml\n(.*?)```", page)
    kinds = [constraint.kind for constraint in parse_setup(tomllib.loads(example)).constraints]
    assert set(kinds) == set(CONSTRAINT_CLASSES)
    section = page.partition("## `[constraints]`")[2]
    assert set(re.findall(r"(?m)^\| `(\w+)` \|", section)) == set(CONSTRAINT_CLASSES)
    (texts,) = re.findall(r"(?s)```\n(.*?)```", section)
    assert len(parse_constraints(texts.split("\n")[:-1])) == 8
    for kind, table in re.findall(r"(?m)^\| `(\w+)` \|[^\n]*?`(\{[^`]*\})`", section):
        assert parse_constraints([f"{kind}={table}"])
