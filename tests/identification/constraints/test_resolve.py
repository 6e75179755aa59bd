"""What constraints mean for a robot: laws of their rows, of the families of rows, and of how they are merged."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull, Delaunay

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
    parse_constraints,
)
from steelyard.exceptions import IdentifiabilityError, ModelError
from steelyard.identification.constraints.constraint_system import (
    ConstraintRows,
    ConstraintSystem,
    CutFamily,
    join_rows,
)
from steelyard.identification.constraints.cutting_planes import (
    HullCuts,
    InertiaCuts,
    icosahedron_directions,
    tensor_rows,
)
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.model.geometry.points import link_points
from steelyard.model.mirror import find_pairs
from steelyard.model.parameters import PARAMETER_SYMBOLS, from_mass_com_inertia, rotational_inertia_at_origin
from tests.humanoids import humanoid, random_bodies
from tests.identification.worlds import reference
from tests.mirrored import mirror_parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard import Model
    from steelyard.arrays import FloatArray
    from steelyard.model.constraints import Constraint

USUAL: tuple[Constraint, ...] = (LeastMass(), ComInside("auto"), PositiveInertia(0.0), MassWithin(0.35))


@cache
def loaded(name: str) -> Model:
    return load_model(name)


def filled_parameters(model: Model, seed: int) -> FloatArray:
    """Draws a robot of point masses in its own links' shapes: nobody can say that it is impossible."""
    generator = np.random.default_rng(seed)
    bodies = random_bodies(generator, len(model.links))
    for row, link in enumerate(model.links):
        points = link_points(model, link)
        mass = model.parameters[row, 0] * generator.uniform(0.7, 1.3)
        if len(points) < 4:
            bodies[row] *= mass / bodies[row, 0]
            continue
        corners = points[generator.integers(0, len(points), size=(30, 4))]
        inside = np.einsum("nki,nk->ni", corners, generator.dirichlet(np.ones(4), size=30))
        lumps = from_mass_com_inertia(np.full(30, mass / 30), inside, np.zeros((30, 3, 3)))
        bodies[row] = lumps.sum(axis=0)
    return bodies


@cache
def resolved(name: str, *texts: str) -> ConstraintSystem:
    return resolve_constraints(loaded(name), parse_constraints(texts))


@pytest.mark.parametrize("name", ["g1", "talos", "icub"])
def test_a_robot_that_can_exist_satisfies_every_row(name: str) -> None:
    model = loaded(name)
    for seed in range(2):
        truth = filled_parameters(model, seed)
        wanted: list[Constraint] = [*USUAL, TotalMass(float(truth[:, 0].sum()))]
        if name != "icub":
            wanted.append(ComInside("hull"))
        system = resolve_constraints(model, wanted)
        rows = join_rows([system.rows, *(each.first() for each in system.cut_families)], truth.size)
        assert set(rows.kinds) == {"least_mass", "total_mass", "com", "inertia", "mass_within"}
        assert len(set(rows.names)) == len(rows)
        assert np.max(rows.violation(truth)) < 1e-12
        assert system.worst(truth)[0] < 1e-12
        for family in system.cut_families:
            assert np.max(family.violation(truth)) < 1e-12
            assert len(family.violated(truth, 1e-12)) == 0


def test_the_row_that_is_broken_most_is_named() -> None:
    system = resolved("g1", "least_mass=0", "inertia=0.1", "com.torso_link=hull", "total_mass=33.341142")
    model = loaded("g1")
    distance, name = system.worst(model.parameters)
    assert name == "total mass = 33.3411"
    assert distance < 1e-6
    for place, symbol, name in [
        ("pelvis", "m", "pelvis.m >= 0"),
        ("torso_link", "mz", "torso_link CoM in its hull"),
        ("left_knee_link", "Ixx", "left_knee_link inertia"),
    ]:
        broken = model.parameters.copy()
        broken[model.link_index(place), PARAMETER_SYMBOLS.index(symbol)] -= 50.0
        if symbol == "m":
            broken[model.link_index("torso_link")] *= 1.0 + 50.0 / broken[model.link_index("torso_link"), 0]
        assert system.worst(broken)[1] == name
        assert system.worst(broken.ravel())[0] > 10.0
    assert system.of(["total_mass"]).worst(model.parameters * 2.0)[0] == pytest.approx(33.341142)
    assert system.of([]).worst(model.parameters * 2.0) == (0.0, "")
    assert system.kinds == ("least_mass", "total_mass", "com", "inertia")
    assert system.of(["inertia", "com"]).kinds == ("com", "inertia")


# --- mirror -----------------------------------------------------------------------------------------------------------

ALL_TEN = MirrorWithin(0.0, of=PARAMETER_SYMBOLS)


@pytest.mark.parametrize("name", ["g1", "talos", "icub", "romeo"])
def test_mirror_rows_hold_for_a_mirrored_robot_and_for_no_other(name: str) -> None:
    """ICub's frames are not mirror images axis by axis, and its pairs hold all the same."""
    model = loaded(name)
    parameters = random_bodies(np.random.default_rng(3), len(model.links))
    mirrored = parameters.copy()
    pairs = find_pairs(model)
    for pair in pairs:
        mirrored[pair.right] = pair.image(mirrored[pair.left])
    exact, loose = (resolve_constraints(model, [each]) for each in (ALL_TEN, MirrorWithin(0.1)))
    assert len(exact.rows) == 10 * len(pairs)
    assert np.array_equal(exact.rows.lower, exact.rows.upper)
    assert len(loose.rows) == 8 * len(pairs)
    for system in (exact, loose):
        assert system.worst(mirrored)[0] < 1e-12
        # The robot in the mirror has the same constraints.
        assert system.worst(mirror_parameters(model, mirrored))[0] < 1e-12
        assert system.worst(parameters)[0] > 1e-3
    for pair in pairs:
        changed = mirrored.copy()
        changed[pair.right, 0] += 0.01
        assert exact.worst(changed)[0] == pytest.approx(0.01)
        assert model.links[pair.right] in exact.worst(changed)[1]


@given(st.floats(0.01, 0.9), st.floats(0.2, 5.0), st.floats(0.2, 5.0))
def test_two_rows_are_equation_15_both_ways(share: float, left: float, right: float) -> None:
    """``(1 − α) x_i ≤ x_j ≤ (1 + α) x_i`` and the same with i and j exchanged."""
    model = loaded("g1")
    pair = find_pairs(model)[0]
    parameters = np.zeros_like(model.parameters)
    parameters[pair.left, 0], parameters[pair.right, 0] = left, right
    holds = all((1 - share) * a <= b <= (1 + share) * a for a, b in ((left, right), (right, left)))
    system = resolve_constraints(model, [MirrorWithin(share, of=("m",))])
    assert (system.worst(parameters)[0] <= 0.0) == holds
    parameters[pair.left, 0] = -left
    assert system.worst(parameters)[0] > 0.0


def test_sides_need_a_mirror() -> None:
    with pytest.raises(ModelError, match=r"no \[mirror\] in its setup"):
        resolve_constraints(humanoid("g1"), [MirrorWithin()])
    assert len(resolve_constraints(humanoid("g1"), [MirrorWithin(), MirrorWithin(None)]).rows) == 0


# --- inertia ----------------------------------------------------------------------------------------------------------


def inertia_cuts(system: ConstraintSystem) -> InertiaCuts:
    (family,) = system.cut_families
    assert isinstance(family, InertiaCuts)
    return family


@given(st.integers(0, 10_000), st.floats(-1.0, 1.0))
def test_a_direction_is_found_exactly_where_an_eigenvalue_is_too_small(seed: int, least: float) -> None:
    generator = np.random.default_rng(seed)
    model = loaded("g1")
    family = replace(inertia_cuts(resolved("g1", "inertia=0.1")), least=np.full(30, least))
    parameters = generator.normal(size=model.parameters.shape)
    values = np.linalg.eigvalsh(rotational_inertia_at_origin(parameters))
    cuts = family.violated(parameters)
    below = np.sort(values[values < least])
    # Each cut is an eigenvalue of its link, and each eigenvalue below the bound has its cut.
    np.testing.assert_allclose(np.sort(cuts.matrix @ parameters.ravel()), below, rtol=1e-10, atol=1e-12)
    assert np.all(cuts.lower == least)
    assert np.all(np.isinf(cuts.upper))
    np.testing.assert_allclose(family.violation(parameters), np.maximum(0.0, least - values[:, 0]), atol=1e-12)
    touched = {name.split()[0] for name in cuts.names}
    assert touched == {link for link, low in zip(model.links, values[:, 0], strict=True) if low < least}
    # Up to the tolerance, in sizes of the link, nothing is cut.
    deepest = float(np.max(family.violation(parameters) / family.scales, initial=0.0))
    assert len(family.violated(parameters, 1.0001 * deepest + 1e-9)) == 0


@settings(max_examples=12)
@given(st.integers(0, 10_000), st.integers(0, 3))
def test_of_a_finite_set_the_worst_direction_is_found(seed: int, subdivisions: int) -> None:
    generator = np.random.default_rng(seed)
    family = inertia_cuts(resolved("g1", f"inertia={{least=0.01, relative=false, directions={subdivisions}}}"))
    parameters = generator.normal(size=(30, 10)) + 2.0 * generator.uniform(size=(30, 1)) * np.eye(10)[[4, 6, 9]].sum(0)
    every = family.every()
    assert len(every) == 30 * (5 * 4**subdivisions + 1)
    along = (every.matrix @ parameters.ravel()).reshape(30, -1)
    whole = tensor_rows(icosahedron_directions(subdivisions)) @ parameters[:, 4:].T
    np.testing.assert_allclose(along.min(axis=1), whole.min(axis=0), rtol=1e-12)
    cuts = family.violated(parameters)
    reached = cuts.matrix @ parameters.ravel()
    assert np.all(reached < 0.01)
    known = {row.tobytes() for row in every.matrix}
    assert all(row.tobytes() in known for row in cuts.matrix)
    for link, least in zip(family.links, along.min(axis=1), strict=True):
        own = [value for value, name in zip(reached, cuts.names, strict=True) if name.startswith(f"{link} ")]
        assert bool(own) == (least < 0.01)
        assert min(own, default=least) == pytest.approx(least, rel=1e-9, abs=1e-12)
    begin = family.first()
    assert all(row.tobytes() in known for row in begin.matrix)
    assert len(begin) >= 90


def test_the_finite_set_is_a_little_weaker_than_all_directions() -> None:
    """By five subdivisions the difference is below a thousandth of the tensor's size."""
    parameters = np.random.default_rng(5).normal(size=(30, 10))
    exact, finite = (
        inertia_cuts(resolved("g1", f"inertia={{least=0.01, relative=false{more}}}")) for more in ("", ", directions=5")
    )
    difference = exact.violation(parameters) - finite.violation(parameters)
    assert np.all(difference >= -1e-12)
    assert np.max(difference) < 1e-3 * np.max(np.abs(parameters))
    with pytest.raises(IdentifiabilityError, match="infinitely many"):
        exact.every()


def test_epsilon_is_a_share_of_each_links_own() -> None:
    model = loaded("g1")
    smallest = np.linalg.eigvalsh(rotational_inertia_at_origin(model.parameters))[:, 0]
    np.testing.assert_allclose(inertia_cuts(resolved("g1", "inertia=0.1")).least, 0.1 * smallest, rtol=1e-9)
    absolute = resolved("g1", "inertia={least=0.01, relative=false}")
    assert np.all(inertia_cuts(absolute).least == 0.01)
    # DESIGN 8: the paper's value is more than the true smallest inertia of nearly all of G1's links.
    assert int(np.sum(smallest < 0.01)) == 29
    assert any("less inertia than is asked for" in remark and "25 more" in remark for remark in absolute.remarks)


def test_an_impossible_reference_is_projected_first() -> None:
    icub = loaded("icub")
    smallest = np.linalg.eigvalsh(rotational_inertia_at_origin(icub.parameters))[:, 0]
    assert np.min(smallest) <= 0.0
    system = resolved("icub", "inertia=0.1")
    assert np.all(inertia_cuts(system).least > 0.0)
    assert any("less inertia" in remark for remark in system.remarks)
    assert resolve_constraints(reference("icub"), [PositiveInertia(0.1)]).worst(reference("icub").parameters)[0] == 0.0


# --- centres of mass --------------------------------------------------------------------------------------------------


@settings(max_examples=8)
@given(st.floats(0.01, 100.0), st.integers(0, 1000))
def test_more_of_the_same_matter_changes_nothing_about_its_centre(factor: float, seed: int) -> None:
    parameters = loaded("g1").parameters + np.random.default_rng(seed).normal(scale=0.1, size=(30, 10))
    parameters[:, 0] = np.abs(parameters[:, 0])
    for kind in ("bounds", "hull"):
        system = resolved("g1", f"com={kind}")
        families: list[ConstraintRows | CutFamily] = [system.rows, *system.cut_families]
        values = [family.violation(parameters) for family in families]
        scaled = [family.violation(factor * parameters) for family in families]
        for one, other in zip(values, scaled, strict=True):
            np.testing.assert_allclose(other, factor * one, rtol=1e-9, atol=1e-9 * factor)


def at(place: FloatArray, mass: float = 2.0) -> FloatArray:
    return from_mass_com_inertia(np.full(place.shape[:-1], mass), place, np.zeros((*place.shape, 3)))


@pytest.mark.parametrize("link", ["torso_link", "left_ankle_roll_link", "right_elbow_link"])
def test_a_hull_holds_the_points_that_a_triangulation_holds(link: str) -> None:
    model = loaded("g1")
    points = link_points(model, link)
    low, high = points.min(axis=0), points.max(axis=0)
    places = np.random.default_rng(0).uniform(low - 0.02, high + 0.02, size=(100, 3))
    inside = Delaunay(points[ConvexHull(points).vertices]).find_simplex(places) >= 0
    assert 10 < np.sum(inside) < 90
    (family,) = resolved("g1", f"com.{link}=hull").cut_families
    assert isinstance(family, HullCuts)
    row = model.link_index(link)
    own = slice(10 * row, 10 * row + 10)
    every = family.every()
    assert not np.any(np.delete(every.matrix, np.arange(own.start, own.stop), axis=1))
    beyond = -at(places) @ every.matrix[:, own].T
    np.testing.assert_array_equal(np.max(beyond, axis=1) <= 0.0, inside)
    parameters = model.parameters.copy()
    corners = at(points[:: max(1, len(points) // 200)])
    for place, is_inside, depth in zip(places, inside, np.max(beyond, axis=1), strict=True):
        parameters[row] = at(place)
        cuts = family.violated(parameters)
        assert (len(cuts) == 0) == is_inside
        assert family.violation(parameters)[0] == pytest.approx(max(0.0, depth), abs=1e-12)
        assert np.all(cuts.matrix @ parameters.ravel() < 0.0)
        # No cut takes away a point of the shape itself.
        assert np.all(corners @ cuts.matrix[:, own].T > -1e-9)


def test_few_cuts_bring_a_centre_back_into_its_hull() -> None:
    """Cut by cut, the nearest point of what is left: far fewer rounds than the hull has facets."""
    model = loaded("g1")
    row = model.link_index("torso_link")
    (family,) = resolved("g1", "com.torso_link=hull").cut_families
    parameters = model.parameters.copy()
    goal = np.array([0.4, 0.3, 0.9])
    parameters[row] = at(goal, 1.0)
    rows, rounds = family.first(), 0
    while True:
        block = rows.matrix[:, 10 * row : 10 * row + 4]
        parameters[row] = at(nearest_point(goal, -block[:, 1:], block[:, 0]), 1.0)
        cuts = family.violated(parameters, 1e-9)
        if not len(cuts):
            break
        rows = join_rows([rows, cuts], rows.matrix.shape[1])
        rounds += 1
    assert rounds < 15
    assert 0 < family.violation(parameters)[0] < 1e-8 or family.violation(parameters)[0] == 0.0


def nearest_point(goal: FloatArray, normals: FloatArray, offsets: FloatArray) -> FloatArray:
    """Gives the point nearest to `goal` with ``normals x ≤ offsets``, by Dykstra's alternating projections."""
    place, memory = goal.copy(), np.zeros_like(normals)
    for _ in range(20_000):
        before = place.copy()
        for number, (normal, offset) in enumerate(zip(normals, offsets, strict=True)):
            from_memory = place + memory[number]
            beyond = max(0.0, float(normal @ from_memory - offset)) / float(normal @ normal)
            place = from_memory - beyond * normal
            memory[number] = from_memory - place
        if np.max(np.abs(place - before)) < 1e-13:
            break
    return place


def test_a_margin_widens_and_a_box_of_its_own_counts() -> None:
    model = loaded("g1")
    row = model.link_index("torso_link")
    points = link_points(model, "torso_link")
    top = np.array([*points.mean(axis=0)[:2], points[:, 2].max()])
    parameters = model.parameters.copy()
    parameters[row] = at(top + np.array([0.0, 0.0, 0.009]), 1.0)
    for kind in ("bounds", "hull"):
        tight, wide = (resolve_constraints(model, [ComInside(kind, "torso_link", margin)]) for margin in (0.0, 0.01))
        assert tight.worst(parameters)[0] == pytest.approx(0.009, abs=5e-3)
        assert wide.worst(parameters)[0] < tight.worst(parameters)[0] - 5e-3
    own = resolve_constraints(model, [ComInside(((-0.1, -0.1, 0.0), (0.1, 0.1, 0.2)), "torso_link")])
    parameters[row] = at(np.array([0.0, 0.0, 0.25]), 1.0)
    distance, name = own.worst(parameters)
    assert name == "torso_link CoM z <= 0.2"
    assert distance == pytest.approx(0.05)


def with_volumes(model: Model, volumes: dict[str, list[list[float]]]) -> Model:
    boxes = {pattern: np.array(box) for pattern, box in volumes.items()}
    return replace(model, setup=replace(model.setup, volumes=boxes))


def test_the_setups_boxes_come_before_the_shapes() -> None:
    model = with_volumes(loaded("g1"), {"torso_link": [[-0.1, -0.1, 0.0], [0.1, 0.1, 0.2]]})
    system = resolve_constraints(model, [ComInside("auto")])
    assert "torso_link CoM z <= 0.2" in system.rows.names
    assert len(system.rows) == 6 * 30
    assert "torso_link CoM z <= 0.2" not in resolve_constraints(model, [ComInside("bounds")]).rows.names
    assert len(resolve_constraints(model, [ComInside("volume", "torso_link")]).rows) == 6
    with pytest.raises(IdentifiabilityError, match=r"no \[volume\] box for pelvis; add one"):
        resolve_constraints(model, [ComInside("volume")])


def test_a_box_that_excludes_its_link_is_refused() -> None:
    far = [[1.0, -0.1, 0.0], [1.2, 0.1, 0.2]]
    model = with_volumes(loaded("g1"), {"torso_link": far})
    with pytest.raises(IdentifiabilityError, match=r"its \[volume\] box excludes torso_link.*along x.*from 1 to 1\.2"):
        resolve_constraints(model, [ComInside()])
    with pytest.raises(IdentifiabilityError, match="box for its centre of mass excludes torso_link itself") as caught:
        resolve_constraints(loaded("g1"), [ComInside(far, "torso_link")])  # type: ignore[arg-type]
    assert caught.value.names == ("torso_link",)
    assert len(resolve_constraints(model, [ComInside("bounds")]).rows) == 180


BARE = """<robot name="bare"><link name="a">
<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>{}</link></robot>"""
PLATE = '<collision><geometry><mesh filename="plate.obj"/></geometry></collision>'


def test_links_without_shapes_are_free_and_said_to_be(tmp_path) -> None:
    (tmp_path / "bare.urdf").write_text(BARE.format(""))
    (tmp_path / "lost.urdf").write_text(BARE.format(PLATE))
    bare, lost = (load_model(tmp_path / f"{name}.urdf") for name in ("bare", "lost"))
    for where in ("auto", "bounds", "hull"):
        system = resolve_constraints(bare, [ComInside(where), MatterWithin()])
        assert len(system.rows) == 0
        assert system.remarks == (
            "No shapes bound the centre of mass of a, so that it is free.",
            "No shapes bound the extent of the matter of a, so that it is free.",
        )
    system = resolve_constraints(lost, [ComInside(), MatterWithin()])
    assert len(system.rows) == 0
    (remark,) = system.remarks
    assert "shapes of a cannot be read" in remark
    assert "lost.urdf: the mesh plate.obj is not found; check the path" in remark
    with pytest.raises(IdentifiabilityError, match=r"a has no shapes of which to take the hull; write com\.a=off"):
        resolve_constraints(bare, [ComInside("hull", "a*")])
    with pytest.raises(ModelError, match="is not found"):
        resolve_constraints(load_model(tmp_path / "lost.urdf"), [ComInside("hull")])
    (tmp_path / "plate.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\nf 1 2 3\nf 2 4 3\n")
    system = resolve_constraints(load_model(tmp_path / "lost.urdf"), [ComInside("hull")])
    assert len(system.rows) == 6
    assert system.remarks == ("The shapes of a are flat and have no hull; the box around them is used.",)


def test_shapes_that_are_asked_for_by_name_must_be_there() -> None:
    """ICub has seven links that nothing draws: they are free, unless somebody asks for their shapes."""
    model = loaded("icub")
    system = resolve_constraints(model, [ComInside("bounds")])
    (remark,) = [remark for remark in system.remarks if remark.startswith("No shapes")]
    undrawn = [link for link in model.links if not len(link_points(model, link))]
    assert len(undrawn) == 7
    assert all(link in remark for link in undrawn)
    assert len(system.rows) == 6 * (len(model.links) - 7)
    with pytest.raises(IdentifiabilityError, match=r"write com\.l_ankle_2=off or com\.l_ankle_2=auto, or") as caught:
        resolve_constraints(model, [ComInside("hull", ("*", "*_ankle_*"))])
    assert caught.value.names == ("l_ankle_2", "r_ankle_2")
    assert "l_ankle_2 and r_ankle_2 have no shapes" in str(caught.value)
    for remedy in ("com.l_ankle_2=off", "com.l_ankle_2=auto"):
        assert len(resolved("icub", "com=hull", remedy).cut_families) == 1


@pytest.mark.parametrize(("name", "count"), [("talos", 2), ("icub", 7), ("romeo", 2)])
def test_a_box_that_nobody_chose_holds_the_reference(name: str, count: int) -> None:
    """A mesh that is drawn elsewhere must not move a link that is right; what somebody chose stays as it is."""
    model = loaded(name)
    guessed, chosen = (resolved(name, f"com={where}") for where in ("auto", "bounds"))
    assert guessed.worst(model.parameters)[0] < 1e-12
    outside = chosen.rows.violation(model.parameters) > 1e-5 * chosen.rows.matrix.max()
    assert len({chosen.rows.names[row].split()[0] for row in np.flatnonzero(outside)}) == count
    for strict, loose, name_of in zip(chosen.rows.matrix, guessed.rows.matrix, guessed.rows.names, strict=True):
        link = model.link_index(name_of.split()[0])
        # Wider, and wider only as far as the centre of mass of the reference.
        sign = 1.0 if ">=" in name_of else -1.0
        axis = "xyz".index(name_of.split()[2])
        centre = model.parameters[link, 1 + axis] / model.parameters[link, 0]
        own, wide = -sign * strict[10 * link], -sign * loose[10 * link]
        assert wide == pytest.approx(min(own, centre) if sign > 0 else max(own, centre), abs=1e-15)


def test_a_reference_outside_its_own_shapes_is_remarked_on() -> None:
    ankles = "leg_left_5_link (by 12.9 mm) and leg_right_5_link (by 12.9 mm)."
    (remark,) = resolved("talos", "com=auto").remarks
    assert remark == (
        "The reference has the centre of mass outside the shapes of its link, and the box around them was widened to "
        f"contain it: {ankles}"
    )
    (remark,) = resolved("talos", "com=bounds").remarks
    assert remark == f"The reference has the centre of mass outside the volume that must contain it: {ankles}"


# --- matter -----------------------------------------------------------------------------------------------------------

ROUND = """<robot name="round"><link name="a"><inertial><mass value="1"/>
<inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.001"/></inertial>
<collision><origin xyz="0.1 -0.2 0.3" rpy="0.4 0.9 -0.7"/><geometry>{}</geometry></collision></link></robot>"""
SHAPES = {
    "box": ('<box size="0.1 0.2 0.3"/>', np.array([0.05, 0.1, 0.15])),
    "sphere": ('<sphere radius="0.2"/>', np.array([0.2, 0.2, 0.2])),
    "cylinder": ('<cylinder radius="0.2" length="0.3"/>', np.array([0.2, 0.2, 0.15])),
    "capsule": ('<capsule radius="0.2" length="0.3"/>', np.array([0.2, 0.2, 0.35])),
}


def surface(shape: str, count: int) -> FloatArray:
    """Gives points of a shape of `SHAPES` that are farthest out, in its own frame."""
    half = SHAPES[shape][1]
    directions = np.random.default_rng(0).normal(size=(count, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    if shape == "box":
        return np.sign(directions) * half
    if shape == "cylinder":
        flat = directions[:, :2] / np.linalg.norm(directions[:, :2], axis=1)[:, None]
        return np.column_stack([half[0] * flat, np.sign(directions[:, 2]) * half[2]])
    if shape == "capsule":
        return half[0] * directions + np.sign(directions[:, 2:]) * np.array([0.0, 0.0, half[2] - half[0]])
    return half * directions


@pytest.mark.parametrize("shape", SHAPES)
def test_the_farthest_matter_of_a_shape_is_just_within_its_reach(shape: str, tmp_path) -> None:
    (tmp_path / "round.urdf").write_text(ROUND.format(SHAPES[shape][0]))
    model = load_model(tmp_path / "round.urdf")
    (row,) = resolve_constraints(model, [MatterWithin(0.0)]).rows.matrix
    placement = model.bodies[0].members[0].part.geometries[0].placement
    points = surface(shape, 20_000) @ placement.rotation.T + placement.translation
    room = at(points, 1.0) @ row
    assert np.min(room) >= -1e-12
    assert np.min(room) < 1e-3


@pytest.mark.parametrize("name", ["g1", "talos", "icub", "romeo"])
def test_matter_inside_the_shapes_is_within_their_reach(name: str) -> None:
    model = loaded(name)
    rows = resolved(name, "matter=0").rows
    drawn = [link for link in model.links if len(link_points(model, link))]
    assert [text.partition(":")[0] for text in rows.names] == drawn
    for seed in range(2):
        assert np.max(rows.violation(filled_parameters(model, seed))) < 1e-12
    # Half as much again as the reference has is allowed wherever its shapes are.
    more = model.parameters.copy()
    more[:, [4, 6, 9]] *= 1.5
    assert np.max(resolved(name, "matter=0.1").rows.violation(more)) < 1e-12


def test_a_reference_with_matter_beyond_its_shapes_is_remarked_on() -> None:
    (remark,) = [remark for remark in resolved("romeo", "matter=0.1").remarks if "half as much" in remark]
    assert "base_link (to 0.397 m)" in remark
    assert not resolved("g1", "matter=0.1").remarks


# --- merging ----------------------------------------------------------------------------------------------------------


def names_of(*constraints: Constraint) -> tuple[str, ...]:
    return resolve_constraints(loaded("g1"), constraints).rows.names


def test_of_each_kind_the_last_that_names_a_link_counts() -> None:
    model = loaded("g1")
    rows = resolve_constraints(
        model, [MassWithin(0.05), MassWithin(0.35, ("torso_link", "*_wrist_yaw_link")), MassWithin(None, "pelvis")]
    ).rows
    assert len(rows) == 29
    for name, low, high in zip(rows.names, rows.lower, rows.upper, strict=True):
        link = name.partition(".m ")[0]
        share = 0.35 if link == "torso_link" or link.endswith("_wrist_yaw_link") else 0.05
        mass = model.parameters[model.link_index(link), 0]
        assert (low, high) == (pytest.approx((1 - share) * mass), pytest.approx((1 + share) * mass))
    assert names_of(TotalMass(3.0), TotalMass(4.0, 0.5)) == ("total mass = 4 +- 0.5",)
    assert names_of(TotalMass(3.0), TotalMass(None)) == ()
    assert names_of(LeastMass(0.1, "pelvis"), LeastMass(0.0)) == tuple(f"{link}.m >= 0" for link in model.links)
    switched_off: list[Constraint] = [
        ComInside(),
        ComInside(None),
        PositiveInertia(),
        PositiveInertia(None),
        LeastMass(None),
    ]
    empty = resolve_constraints(model, switched_off)
    assert (len(empty.rows), empty.cut_families, empty.kinds) == (0, (), ())


def test_links_with_other_directions_are_another_family() -> None:
    system = resolve_constraints(
        loaded("g1"), [PositiveInertia(), PositiveInertia(0.2, "left_*", directions=2), PositiveInertia(None, "p*")]
    )
    sizes = {None if each.directions is None else len(each.directions): len(each.names) for each in inertias(system)}
    assert sizes == {None: 16, 81: 13}


def inertias(system: ConstraintSystem) -> Sequence[InertiaCuts]:
    return [each for each in system.cut_families if isinstance(each, InertiaCuts)]


def test_a_frozen_link_is_as_the_reference_has_it() -> None:
    """What else is asked of its centre and its inertia does not count: TALOS's ankles are outside their own meshes."""
    model = loaded("talos")
    system = resolve_constraints(model, [*USUAL, Frozen("leg_left_*")])
    frozen = system.of(["frozen"]).rows
    assert len(frozen) == 60
    np.testing.assert_array_equal(frozen.lower, frozen.upper)
    np.testing.assert_allclose(frozen.violation(model.parameters), 0.0)
    others = [name for name, kind in zip(system.rows.names, system.rows.kinds, strict=True) if kind == "com"]
    assert not any(name.startswith("leg_left_") for name in others)
    assert not any(name.startswith("leg_left_") for each in system.cut_families for name in each.names)
    assert any("leg_left_5_link" in remark and "widened" not in remark for remark in system.remarks)


def test_what_the_setup_freezes_a_run_can_let_go() -> None:
    frozen = [Frozen("left_*"), Frozen("*_knee_link", held=False)]
    rows = resolve_constraints(loaded("g1"), frozen).rows
    assert {name.partition(".")[0] for name in rows.names} == {
        link for link in loaded("g1").links if link.startswith("left_") and link != "left_knee_link"
    }
    again = resolve_constraints(loaded("g1"), [*frozen, Frozen("left_knee_link")]).rows
    assert len(again) == len(rows) + 10
    free = resolve_constraints(loaded("g1"), [*USUAL, *frozen, Frozen(None)])
    plain = resolve_constraints(loaded("g1"), USUAL)
    assert free.rows.names == plain.rows.names
    assert [each.names for each in free.cut_families] == [each.names for each in plain.cut_families]


def test_unknown_links_and_other_things_are_refused() -> None:
    model = loaded("g1")
    with pytest.raises(IdentifiabilityError, match=r"mass_within: 'torso_lnk' matches no link of .*'torso_link'") as no:
        resolve_constraints(model, [MassWithin(0.3, ("pelvis", "torso_lnk"))])
    assert no.value.names == ("torso_lnk",)
    with pytest.raises(IdentifiabilityError, match=r"frozen: 'logo_link'.*is welded into 'torso_link'"):
        resolve_constraints(model, [Frozen("logo_link")])
    with pytest.raises(IdentifiabilityError, match="'total_mass=3' is no constraint; write"):
        resolve_constraints(model, ["total_mass=3"])  # type: ignore[list-item]


def test_a_reference_without_mass_gives_no_share() -> None:
    model = loaded("g1")
    parameters = model.parameters.copy()
    parameters[0, 0] = -1.0
    system = resolve_constraints(model.with_parameters(parameters), [MassWithin(0.3)])
    assert len(system.rows) == 29
    assert "pelvis" in system.remarks[0]
