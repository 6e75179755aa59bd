"""Rows that are generated while a problem is solved have names that a user understands."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from steelyard.identification import choose_parameters
from steelyard.identification.constraints.constraint_system import ConstraintRows
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.identification.methods.scaled_unknowns import Unknowns
from steelyard.identification.solvers.lexicographic import Level, solve_cascade
from steelyard.model import PositiveInertia
from tests.identification.worlds import reference

NAME = r"\S+ (inertia|CoM) along \(-?\d\.\d\d, -?\d\.\d\d, -?\d\.\d\d\) [<>]= \S+"
"""Link, kind of constraint, direction and bound."""


@pytest.fixture
def tied():
    """Unknowns of a robot whose mirror pairs are exact images: a row on the left may equal one on the right."""
    model = reference("icub")
    unknowns = Unknowns(SimpleNamespace(unknowns=choose_parameters(model, mirror=True), noise=1.0), "spread")
    return model, unknowns, resolve_constraints(model, [PositiveInertia()])


def test_each_generated_row_keeps_its_own_name(tied):
    model, unknowns, system = tied
    (family,) = system.cut_families
    level, _ = unknowns.level("constraints", system)
    point = np.linalg.lstsq(unknowns.transform, -2.0 * unknowns.problem.unknowns.start, rcond=None)[0]
    rows = family.violated(unknowns.parameters(point))
    _, _, links, labels = level.cut_families[0](point)
    named = [unknowns.names[label] for label in labels]
    assert named == list(rows.names)
    assert [name.split(" ")[0] for name in named] == [model.links[link] for link in links]


def test_equal_rows_of_two_links_have_two_names(tied):
    """Masses of a mirror pair are one unknown: a name that is looked up by a row's values would be the other's."""
    model, unknowns, system = tied
    names = ("l_hand.m >= 9", "r_hand.m >= 9")
    matrix = np.array([np.array(model.parameter_names) == name.split(" ")[0] for name in names], dtype=np.float64)
    rows = ConstraintRows(matrix, np.full(2, 9.0), np.full(2, np.inf), names, ("mass",) * 2)
    family = SimpleNamespace(kind="mass", names=names, violated=lambda parameters: rows)
    level, _ = unknowns.level("constraints", replace(system, cut_families=(family,)))
    generated, _, _, labels = level.cut_families[0](np.zeros(unknowns.transform.shape[1]))
    np.testing.assert_array_equal(generated[0], generated[1])
    assert [unknowns.names[label] for label in labels] == list(names)


def test_active_generated_rows_are_named_by_link_kind_and_direction(tied):
    _, unknowns, system = tied
    level, names = unknowns.level("constraints", system)
    # A reference of impossible bodies: least inertias are what stops the search for it.
    far = np.linalg.lstsq(unknowns.transform, -2.0 * unknowns.problem.unknowns.start, rcond=None)[0]
    count = len(far)
    goal = Level("goal", np.eye(count), far, far)
    found = solve_cascade([level, goal], np.zeros(count))
    active = unknowns.active(found, [names, ()])
    generated = [row for row in found.active_rows if row.row < 0]
    assert len(generated) > 10
    words = {unknowns.names[row.label] for row in generated}
    assert words <= set(active)
    for name in words:
        assert re.fullmatch(NAME, name), name
