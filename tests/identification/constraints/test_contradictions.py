"""Contradictions are found before anything is solved, and no more is named than is guilty."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import OptimizeResult, linprog

from steelyard import (
    ComInside,
    Frozen,
    LeastMass,
    MassWithin,
    MatterWithin,
    MirrorWithin,
    PositiveInertia,
    TotalMass,
    load_model,
)
from steelyard.exceptions import IdentifiabilityError
from steelyard.identification import choose_parameters
from steelyard.identification.constraints import contradictions
from steelyard.identification.constraints.constraint_system import join_rows
from steelyard.identification.constraints.contradictions import refuse_contradictions
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.model.mirror import find_pairs
from steelyard.model.parameters import PARAMETER_SYMBOLS
from tests.humanoids import random_bodies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard import Model
    from steelyard.identification.constraints.constraint_system import ConstraintRows
    from steelyard.model.constraints import Constraint

USUAL: tuple[Constraint, ...] = (LeastMass(), ComInside(), PositiveInertia(), MirrorWithin(), MassWithin(0.35))


@cache
def loaded(name: str) -> Model:
    return load_model(name)


def refused(model: Model, constraints: Sequence[Constraint], **unknowns: Any) -> tuple[str, tuple[str, ...]] | None:
    """Gives the message and the names, or None where nothing contradicts."""
    system = resolve_constraints(model, constraints)
    try:
        refuse_contradictions(system, choose_parameters(model, **unknowns))
    except IdentifiabilityError as error:
        return str(error), error.names
    return None


def can_hold(rows: ConstraintRows) -> bool:
    """Tells it by a linear programme of its own, without scaling, on all parameters."""
    equal = rows.lower == rows.upper
    matrix = rows.matrix[:, np.any(rows.matrix != 0.0, axis=0)]
    below, above = ~equal & np.isfinite(rows.lower), ~equal & np.isfinite(rows.upper)
    answer = linprog(
        np.zeros(matrix.shape[1]),
        A_ub=np.concatenate([-matrix[below], matrix[above]]),
        b_ub=np.concatenate([-rows.lower[below], rows.upper[above]]),
        A_eq=matrix[equal],
        b_eq=rows.lower[equal],
        bounds=(None, None),
    )
    assert answer.status in (0, 2)
    return bool(answer.status == 0)


def check_irreducible(model: Model, constraints: Sequence[Constraint], names: Sequence[str]) -> None:
    """The rows named cannot hold together; without any one of them the others can."""
    system = resolve_constraints(model, constraints)
    rows = join_rows(
        [system.rows, *(each.first(fine=True) for each in system.cut_families)], system.rows.matrix.shape[1]
    )
    assert set(names) <= set(rows.names)
    assert not can_hold(rows.pick([name in names for name in rows.names]))
    for dropped in names:
        fewer = rows.pick([name in names and name != dropped for name in rows.names])
        assert can_hold(fewer), dropped


CASES: dict[str, tuple[list[Constraint], str, int]] = {
    "total mass of a frozen robot": (
        [*USUAL, TotalMass(10.0), Frozen("*")],
        r"^total mass = 10 contradicts pelvis\.m frozen \(and 29 others like it\): no parameters satisfy them together",
        31,
    ),
    "total mass below what is frozen": (
        [*USUAL, MassWithin(None), MirrorWithin(None), TotalMass(5.0), Frozen(("torso_link", "pelvis"))],
        r"^total mass = 5 contradicts left_hip_pitch_link\.m >= 0 \(and 27 others like it\), pelvis\.m frozen and "
        r"torso_link\.m frozen",
        31,
    ),
    "total mass beyond every share": (
        [*USUAL, TotalMass(46.0, 0.5)],
        r"total mass = 46 \+- 0\.5 contradicts pelvis\.m within 35 % of 3\.814 \(and 29 others like it\)",
        31,
    ),
    "least mass above a share": (
        [*USUAL, TotalMass(34.0), LeastMass(9.0, "torso_link"), MassWithin(0.05, "torso_link")],
        r"^torso_link\.m within 5 % of 7\.817 contradicts torso_link\.m >= 9: ",
        2,
    ),
    "equal sides of unlike frozen links": (
        [*USUAL, MirrorWithin(0.0, of=("Ixx", "Iyy", "Izz")), Frozen("*_knee_link")],
        r"^right_knee_link\.I.. = left_knee_link's image contradicts left_knee_link\.I.. frozen.*right_knee_link",
        0,
    ),
    "sides of a pair of which one is frozen": (
        [*USUAL, Frozen("left_knee_link"), LeastMass(3.0, "right_knee_link"), MassWithin(None)],
        r"^right_knee_link\.m <= 1\.1 x left_knee_link's image contradicts right_knee_link\.m >= 3 and "
        r"left_knee_link\.m frozen",
        3,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_just_the_guilty_are_named(case: str) -> None:
    constraints, message, count = CASES[case]
    model = loaded("g1")
    if case.startswith("equal sides"):
        parameters = model.parameters.copy()
        parameters[model.link_index("right_knee_link"), 4:] *= 1.1
        model = model.with_parameters(parameters)
    found = refused(model, constraints)
    assert found is not None
    words, names = found
    assert re.search(message, words), words
    assert "\n" not in words
    pair = case.startswith("equal sides")
    assert words.endswith("freeze one side only, or leave out mirror" if pair else "loosen or leave out one of them")
    if count:
        assert len(names) == count
    check_irreducible(model, constraints, names)


@pytest.mark.parametrize("name", ["g1", "talos"])
def test_what_can_hold_passes(name: str) -> None:
    model = loaded(name)
    mass = model.total_mass
    assert refused(model, []) is None
    assert refused(model, USUAL) is None
    assert refused(model, [*USUAL, TotalMass(1.3 * mass)]) is None
    exact = MirrorWithin(0.0, of=PARAMETER_SYMBOLS)
    assert refused(model, [*USUAL, exact, TotalMass(1.3 * mass)]) is None
    assert refused(model, [*USUAL, TotalMass(1.1 * mass)], mirror=True) is None


def test_hulls_and_finite_directions_pass_too() -> None:
    wanted = [*USUAL, ComInside("hull"), PositiveInertia(0.01, relative=False, directions=5), MirrorWithin(None)]
    assert refused(loaded("g1"), [*wanted, TotalMass(32.0)]) is None


def test_a_shoulder_of_icub_that_is_drawn_elsewhere_cannot_be_symmetric() -> None:
    """The mesh of its right shoulder is 4 cm off: both centres cannot be inside and mirror each other."""
    model = loaded("icub")
    usual = [*USUAL, MatterWithin()]
    constraints = [*usual, ComInside("bounds"), MirrorWithin(0.0, of=("m", "mx", "my", "mz"))]
    found = refused(model, constraints)
    assert found is not None
    assert all("_shoulder_1" in name for name in found[1])
    check_irreducible(model, constraints, found[1])
    tied = refused(model, [*usual, ComInside("bounds")], mirror=True)
    assert tied is not None
    assert "r_shoulder_1.m tied to its mirror image" in tied[1]
    # Boxes that nobody chose give way to the reference, and both sides can be alike.
    assert refused(model, usual, mirror=True) is None


def test_what_is_not_looked_for_counts() -> None:
    model = loaded("g1")
    found = refused(model, [TotalMass(10.0)], chosen=["torso_link.m", "*.Ixx"])
    assert found is None
    found = refused(model, [TotalMass(10.0), LeastMass()], chosen=["torso_link.m", "*.Ixx"])
    assert found is not None
    assert found[0].startswith(
        "total mass = 10 contradicts torso_link.m >= 0 and pelvis.m not looked for (and 28 others"
    )
    found = refused(model, [PositiveInertia(0.01, relative=False)], chosen="L")
    assert found is not None
    assert "inertia along" in found[1][0]
    assert all(name.endswith("not looked for") for name in found[1][1:])
    # A reference that breaks a bound may still be wanted as it is where nobody looks.
    assert refused(model, USUAL, chosen="L") is None
    # Frozen says it better than not looked for.
    found = refused(model, [TotalMass(10.0), Frozen("*")], chosen=["*.Ixx"])
    assert found is not None
    assert "pelvis.m frozen" in found[1]
    assert not any("not looked for" in name for name in found[1])


def test_mirror_pairs_that_are_tied_cannot_both_be_frozen_when_unlike() -> None:
    model = loaded("g1")
    parameters = model.parameters.copy()
    pair = find_pairs(model)[0]
    parameters[pair.right] *= 1.2
    found = refused(model.with_parameters(parameters), [Frozen("*")], mirror=True)
    assert found is not None
    assert len(found[1]) <= 5
    assert any(name.endswith("tied to its mirror image") for name in found[1])
    assert found[0].endswith("freeze one side only, or leave out mirror")


def test_where_it_cannot_be_told_it_is_said(monkeypatch) -> None:
    model = loaded("g1")
    system = resolve_constraints(model, [*USUAL, MatterWithin(), TotalMass(1.3 * model.total_mass)])
    unknowns = choose_parameters(model)
    assert refuse_contradictions(system, unknowns) == ()
    system = resolve_constraints(model, [*USUAL, LeastMass(2.0, "waist_*"), MassWithin(None)])
    assert refuse_contradictions(system, unknowns) == ()
    monkeypatch.setattr(contradictions, "_MOST_ROUNDS", 0)
    (remark,) = refuse_contradictions(system, unknowns)
    assert remark.startswith("Whether some constraints contradict each other could not be decided before solving")
    monkeypatch.undo()
    answer = OptimizeResult(status=4, message="numerical\ndifficulties", x=None)
    monkeypatch.setattr(contradictions, "linprog", lambda *_, **__: answer)
    (remark,) = refuse_contradictions(system, unknowns)
    assert "'numerical difficulties'" in remark


def test_cuts_of_a_family_take_part() -> None:
    """Inertias that are looked for only off the diagonal can be made positive, but not by products that are frozen."""
    model = loaded("g1")
    parameters = model.parameters.copy()
    parameters[0, 5] = 3.0 * parameters[0, 4]
    broken = model.with_parameters(parameters)
    assert refused(broken, [PositiveInertia(0.1)]) is None
    found = refused(broken, [PositiveInertia(0.1)], chosen=["*.m"])
    assert found is not None
    assert found[1][0].startswith("pelvis inertia along")
    # Where only the other products are looked for, no direction of the three axes tells, and generated ones do.
    found = refused(broken, [PositiveInertia(0.1)], chosen=["pelvis.Ixz", "pelvis.Iyz"])
    assert found is not None
    assert found[1][0].startswith("pelvis inertia along")
    assert refused(broken, [PositiveInertia(0.1)], chosen=["pelvis.Ixy"]) is None


@settings(max_examples=8)
@given(st.integers(0, 10_000))
def test_a_robot_that_exists_is_never_refused_and_what_is_refused_is_irreducible(seed: int) -> None:
    generator = np.random.default_rng(seed)
    model = loaded("g1")
    truth = model.with_parameters(random_bodies(generator, len(model.links)))
    about = generator.choice(len(model.links), size=4, replace=False)
    wanted: list[Constraint] = [LeastMass(), PositiveInertia(0.1), TotalMass(truth.total_mass, 0.01)]
    wanted += [MassWithin(float(generator.uniform(0.0, 0.5)), truth.links[place]) for place in about]
    assert refused(truth, wanted) is None
    wanted += [LeastMass(float(generator.uniform(0.0, 0.5) * truth.total_mass), truth.links[place]) for place in about]
    found = refused(truth, wanted)
    rows = resolve_constraints(truth, wanted).rows
    assert can_hold(rows) == (found is None)
    if found is not None:
        check_irreducible(truth, wanted, found[1])
