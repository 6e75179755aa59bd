"""The likeliest robot among those that can exist: against SciPy's search, and the laws of its prior."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.optimize import minimize
from scipy.stats import special_ortho_group, wishart

from steelyard import Frozen, IdentifiabilityError, MassWithin, TotalMass, gather_evidence, identify, load_model
from steelyard.identification import choose_parameters
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.identification.link_groups import group_links
from steelyard.identification.methods.geometric_constraints import hold_constraints
from steelyard.identification.methods.geometric_energy import GeometricEnergy, build_geometric_energy
from steelyard.identification.methods.marginal_likelihood import PriorWeights, find_prior_weights, log_evidence
from steelyard.identification.problem import build_problem
from steelyard.model.consistency import is_possible
from steelyard.model.divergence import log_det_divergence
from steelyard.model.mirror import find_pairs
from steelyard.model.parameters import change_frame_matrix, from_pseudo_inertia, to_pseudo_inertia
from tests.identification.constrained_worlds import arm, arm_evidence, arm_truth
from tests.identification.worlds import reference, rich_motion, truth, with_noise
from tests.log_cholesky import from_log_cholesky, to_log_cholesky


def arm_energy(noise: float = 3.0, parameters: Any = None) -> GeometricEnergy:
    return build_geometric_energy(build_problem(arm_evidence(noise=noise), choose_parameters(arm(), parameters)))


def synthetic(truth_: np.ndarray, base: np.ndarray, rows: int, noise: float, seed: int = 0) -> GeometricEnergy:
    """Return an energy of random rows on all parameters, measured in units of the prior's own curvature."""
    generator = np.random.default_rng(seed)
    model_like = SimpleNamespace(
        start=base.reshape(-1), transform=np.eye(base.size), chosen=np.arange(base.size), names=()
    )
    empty = SimpleNamespace(
        matrix=np.zeros((1, base.size)),
        right=np.zeros(1),
        noise=1.0,
        least=0.0,
        column_rank=0,
        unknowns=model_like,
        nuisance_response=None,
    )
    root = build_geometric_energy(empty).root
    matrix = generator.normal(size=(rows, base.size)) @ np.linalg.inv(root)
    right = matrix @ (truth_ - base).reshape(-1) + noise * generator.normal(size=rows)
    best = np.linalg.lstsq(matrix @ root, right, rcond=None)[0]
    least = float(np.sum(np.square(matrix @ root @ best - right)))
    rank = min(rows, base.size)
    given = SimpleNamespace(
        matrix=matrix,
        right=right,
        noise=1.0,
        least=least,
        column_rank=rank,
        unknowns=model_like,
        nuisance_response=None,
    )
    return build_geometric_energy(given)


def drawn(base: np.ndarray, weight: float, seed: int) -> np.ndarray:
    """Draws bodies as the prior has them: Wishart around their references, which are the mean."""
    generator = np.random.default_rng(seed)
    roots = np.linalg.cholesky(to_pseudo_inertia(base))
    scattered = wishart(2.0 * weight, np.eye(4) / (2.0 * weight)).rvs(len(base), random_state=generator)
    return from_pseudo_inertia(roots @ scattered @ np.swapaxes(roots, 1, 2))


def likelihood(weights: PriorWeights) -> float:
    return log_evidence(weights.energy, weights.minimum, weights.by_link, weights.noise)


class TestMinimum:
    """The minimum for given weights."""

    def test_is_that_of_another_search(self):
        energy = arm_energy()
        weights = np.array([30.0, 20.0, 10.0, 5.0])
        found = energy.minimise(weights, 1.5)

        def value(vector: np.ndarray) -> float:
            bodies = from_log_cholesky(vector.reshape(4, 10))
            point = np.linalg.solve(energy.maps.reshape(40, 40), (bodies - energy.reference).reshape(40))
            return energy.value(point, weights, 1.5)

        start = to_log_cholesky(energy.reference).reshape(-1)
        oracle = minimize(value, start, method="BFGS", options={"gtol": 1e-7, "maxiter": 3000})
        assert found.value <= oracle.fun + 1e-9 * abs(oracle.fun)
        assert found.value == pytest.approx(oracle.fun, rel=1e-7)
        np.testing.assert_allclose(
            energy.bodies(found.point), from_log_cholesky(oracle.x.reshape(4, 10)), rtol=2e-3, atol=2e-5
        )

    def test_no_start_finds_a_better_one(self):
        energy, weights = arm_energy(), np.full(4, 10.0)
        found = energy.minimise(weights, 1.0)
        for seed in range(5):
            bodies = drawn(energy.reference, 5.0, seed)
            start = np.linalg.solve(energy.maps.reshape(40, 40), (bodies - energy.reference).reshape(40))
            again = energy.minimise(weights, 1.0, start)
            assert again.value == pytest.approx(found.value, rel=1e-12)
            np.testing.assert_allclose(again.point, found.point, atol=1e-8)

    def test_gradient_and_curvature_are_derivatives(self):
        energy, weights = arm_energy(), np.array([3.0, 30.0, 8.0, 1.0])
        generator = np.random.default_rng(0)
        point, way = 0.05 * generator.normal(size=40), 1e-5 * generator.normal(size=40)
        ahead, behind = (energy.value(point + sign * way, weights, 2.0) for sign in (1.0, -1.0))
        assert 0.5 * (ahead - behind) == pytest.approx(energy.gradient(point, weights, 2.0) @ way, rel=1e-6)
        bent = 0.5 * (energy.gradient(point + way, weights, 2.0) - energy.gradient(point - way, weights, 2.0))
        expected = energy.curvature(point, weights, 2.0) @ way
        np.testing.assert_allclose(bent, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())

    def test_links_stay_possible_whatever_the_data_say(self):
        base = np.array(arm().parameters)
        wild = synthetic(-5.0 * base, base, 60, 0.01)
        found = wild.minimise(np.full(4, 4.0), 1.0)
        assert np.all(is_possible(wild.bodies(found.point)))


class TestInvariance:
    """Neither units, nor frames, nor the order of links change the answer."""

    @pytest.mark.parametrize("kind", ["metres", "kilograms", "frames", "order"])
    def test_answer_moves_with_the_description(self, kind):
        problem = build_problem(arm_evidence(noise=3.0), choose_parameters(arm()))
        generator = np.random.default_rng(3)
        blocks = {
            "metres": 4 * [np.diag([1.0] + 3 * [1e3] + 6 * [1e6])],
            "kilograms": 4 * [1e3 * np.eye(10)],
            "frames": [
                change_frame_matrix(special_ortho_group.rvs(3, random_state=generator), generator.normal(size=3))
                for _ in range(4)
            ],
            "order": 4 * [np.eye(10)],
        }[kind]
        change = block_diag(*blocks)
        order = [2, 0, 3, 1] if kind == "order" else [0, 1, 2, 3]
        change = change.reshape(4, 10, 40)[order].reshape(40, 40)
        moved = SimpleNamespace(
            matrix=problem.matrix @ np.linalg.inv(change),
            right=problem.right,
            noise=problem.noise,
            least=problem.least,
            column_rank=problem.column_rank,
            nuisance_response=None,
            unknowns=SimpleNamespace(
                start=change @ problem.unknowns.start, transform=np.eye(40), chosen=np.arange(40), names=()
            ),
        )
        groups = np.array([0, 0, 1, 1])
        plain = build_geometric_energy(problem)
        one = find_prior_weights(plain, groups)
        other = find_prior_weights(build_geometric_energy(moved), groups[order])
        np.testing.assert_allclose(other.by_group, one.by_group, rtol=1e-6)
        assert other.noise == pytest.approx(one.noise, rel=1e-6)
        here = change @ (problem.unknowns.start + plain.root @ one.minimum.point)
        there = moved.unknowns.start + build_geometric_energy(moved).root @ other.minimum.point
        scale = np.abs(change) @ np.abs(plain.root).max(axis=1)  # how far each parameter may be off
        np.testing.assert_allclose(there / scale, here / scale, atol=1e-6)


class TestWeights:
    """How far the model is off, and how loud the data are, found from the data."""

    BASE = np.tile(np.array(arm().parameters), (8, 1))

    @pytest.mark.parametrize("spread", [0.05, 0.2, 0.35])
    def test_spread_of_the_model_is_found(self, spread):
        true = drawn(self.BASE, spread**-2, 1)
        energy = synthetic(true, self.BASE, 400, 0.02)
        found = find_prior_weights(energy, np.zeros(len(self.BASE), dtype=np.int64), noise=0.02)
        assert found.by_group[0] ** -0.5 == pytest.approx(spread, rel=0.12)  # 320 numbers tell it to 4 %, and a prior

    def test_groups_have_spreads_of_their_own(self):
        groups = np.arange(len(self.BASE)) // 16
        true = drawn(self.BASE, 400.0, 1)
        true[16:] = drawn(self.BASE, 11.0, 2)[16:]
        found = find_prior_weights(synthetic(true, self.BASE, 400, 0.02), groups, noise=0.02)
        np.testing.assert_allclose(found.by_group**-0.5, [0.05, 0.30], rtol=0.15)

    @pytest.mark.parametrize("noise", [1.0, 3.0])
    def test_noise_beyond_the_residual_is_found(self, noise):
        # Few rows, all of them explained by parameters: only the prior can tell that they are louder than they say.
        true = drawn(self.BASE, 25.0, 4)
        energy = synthetic(true, self.BASE, 300, noise, seed=5)
        energy = replace(energy, matrix=0.05 * energy.matrix, gram=0.0025 * energy.gram)
        right = energy.matrix @ np.linalg.solve(energy.root, (true - self.BASE).reshape(-1))
        right = right + noise * np.random.default_rng(6).normal(size=len(right))
        found = find_prior_weights(replace(energy, right=right, least=0.0), np.zeros(len(self.BASE), dtype=np.int64))
        assert found.noise == pytest.approx(noise, rel=0.15)

    def test_fixed_point_makes_the_data_likeliest(self):
        true = drawn(self.BASE, 25.0, 7)
        energy = synthetic(true, self.BASE, 320, 5.0, seed=8)
        groups = np.zeros(len(self.BASE), dtype=np.int64)
        found = find_prior_weights(energy, groups)
        for factor in (0.7, 1.4):
            worse = find_prior_weights(energy, groups, weights=factor * found.by_group, noise=found.noise)
            assert likelihood(worse) < likelihood(found)
            louder = find_prior_weights(energy, groups, weights=found.by_group, noise=factor * found.noise)
            assert likelihood(louder) < likelihood(found)

    def test_without_data_no_weight_is_likelier(self):
        """The prior is normalised."""
        energy = arm_energy()
        silent = replace(
            energy, matrix=0.0 * energy.matrix, gram=0.0 * energy.gram, right=0.0 * energy.right, least=0.0,
            rank=0,
        )  # fmt: skip
        for weight in (8.0, 20.0, 100.0, 2000.0):
            weights = np.full(4, weight)
            assert log_evidence(silent, silent.minimise(weights, 1.0), weights, 1.0) == pytest.approx(0.0, abs=1e-9)

    @pytest.mark.parametrize("spread", [0.1, 0.35])
    def test_data_that_say_nothing_leave_the_usual_spread(self, spread):
        groups = np.zeros(len(self.BASE), dtype=np.int64)
        silent = synthetic(drawn(self.BASE, spread**-2, 3), self.BASE, 60, 60.0)
        found = find_prior_weights(silent, groups, noise=60.0)
        assert found.settled
        assert found.by_group[0] ** -0.5 == pytest.approx(0.2, rel=0.1)

    def test_known_spreads_are_kept(self):
        model = reference("g1")
        groups = group_links(model, {"torso*": 0.05})
        assert {group.name: group.spread for group in groups}["torso*"] == 0.05
        assert sorted(link for group in groups for link in group.links) == sorted(model.links)
        with pytest.raises(IdentifiabilityError, match=r"0\.001"):
            group_links(model, 2.0)
        with pytest.raises(IdentifiabilityError, match="torso_link"):
            group_links(model, {"torso_lnk": 0.1})

    def test_limbs_are_groups(self):
        names = {group.name: len(group.links) for group in group_links(load_model("g1"))}
        assert names == {"middle": 4, "left_hip_pitch_link": 12, "left_shoulder_pitch_link": 14}
        assert [group.name for group in group_links(arm())] == ["all links"]


@pytest.fixture(scope="module")
def loud_evidence():
    return gather_evidence(reference("g1"), with_noise(rich_motion("g1"), 2, force=5.0, moment=0.3), nuisance=())


class TestIdentify:
    """The default of `identify`."""

    def test_it_is_the_default_and_nearer_to_the_truth(self, loud_evidence):
        model = reference("g1")
        estimate = identify(model, loud_evidence)
        assert (estimate.method, estimate.status) == ("geometric", "solved")
        assert np.all(is_possible(estimate.parameters))
        true = truth("g1")
        assert log_det_divergence(estimate.parameters, true).sum() < log_det_divergence(model.parameters, true).sum()
        error = np.linalg.norm(estimate.parameters[:, 0] - true[:, 0])
        assert error < 0.5 * np.linalg.norm(model.parameters[:, 0] - true[:, 0])
        certificate = estimate.certificate
        assert certificate is not None
        assert certificate.stationarity < 1e-8
        assert 0.1 < estimate.options["spread"]["middle"] < 0.35

    def test_intervals_hold_the_truth_as_often_as_they_say(self):
        """Truths drawn as the prior has them, noise as stated: 95 % intervals hold neither less nor more than that."""
        model, share, masses = reference("g1"), [], []
        for seed in range(20):
            true = drawn(model.parameters, 25.0, 200 + seed)
            evidence = gather_evidence(model, with_noise(rich_motion("g1"), seed, force=5.0, moment=0.3), nuisance=())
            factor = evidence.factor.copy()
            change = evidence.dependence @ (true - truth("g1")).ravel()
            factor[:, -1] += factor[:, : len(evidence.independent)] @ change
            estimate = identify(model, replace(evidence, factor=factor))
            low, high = np.moveaxis(estimate.intervals(0.95), 2, 0)
            inside = (low <= true) & (true <= high)
            share.append(np.mean(inside))
            masses.append(np.mean(inside[:, 0]))
            assert np.all((estimate.determined >= 0.0) & (estimate.determined <= 1.0))
        # Intervals of one robot are correlated: between robots their share varies by 6 % (masses 8 %), and two
        # standard errors of the mean of twenty are 3 % (4 %).
        assert 0.92 <= np.mean(share) <= 0.98
        assert 0.91 <= np.mean(masses) <= 0.99

    def test_strong_data_outweigh_the_model(self):
        """Where the prior vanishes beside the data, all methods agree: here with cones, and with least squares."""
        evidence = arm_evidence(noise=1e-4)
        found = {name: identify(arm(), evidence, method=name) for name in ("geometric", "conic", "base")}
        for estimate in found.values():
            np.testing.assert_allclose(
                estimate.base.of(estimate.parameters.ravel()), found["base"].base.values, rtol=1e-3, atol=1e-5
            )
            np.testing.assert_allclose(
                estimate.base.of(estimate.parameters.ravel()), estimate.base.of(arm_truth().ravel()), rtol=1e-3,
                atol=1e-4,
            )  # fmt: skip

    def test_no_information_gives_the_reference(self, loud_evidence):
        silent = replace(loud_evidence, factor=0.0 * loud_evidence.factor, sample_count=1, effective_count=1.0)
        estimate = identify(reference("g1"), silent)
        np.testing.assert_allclose(estimate.parameters, reference("g1").parameters, rtol=1e-12, atol=1e-15)
        assert np.all(estimate.determined < 1e-9)
        assert any("The data decide nothing" in note for note in estimate.notes)
        assert not any("settled" in note for note in estimate.notes)
        assert np.all(np.isfinite(estimate.intervals()))

    def test_impossible_reference_is_projected_and_said(self):
        model = load_model("icub")
        wrong = [link for link, fine in zip(model.links, is_possible(model.parameters), strict=True) if not fine]
        assert wrong
        motion = with_noise(rich_motion("icub"), 2)
        estimate = identify(model, gather_evidence(model, motion, nuisance=()))
        assert np.all(is_possible(estimate.parameters))
        assert any(wrong[0] in note and "replace them" in note for note in estimate.notes)
        np.testing.assert_array_equal(estimate.reference, model.parameters)

    def test_a_missing_mass_is_said(self):
        bodies = np.array(arm().parameters)
        bodies[3] = 0.0
        bodies[3, [4, 6, 9]] = 1e-4
        estimate = identify(arm().with_parameters(bodies), arm_evidence())
        assert any("no mass for part_4" in note for note in estimate.notes)

    @pytest.mark.parametrize("parameters", ["L", "LS", ["torso*", "*.m"]])
    def test_some_parameters_alone(self, loud_evidence, parameters):
        model = reference("g1")
        estimate = identify(model, loud_evidence, parameters=parameters)
        assert np.all(is_possible(estimate.parameters))
        chosen = choose_parameters(model, parameters)
        still = np.ones(estimate.parameters.size, dtype=np.bool_)
        still[np.any(chosen.transform != 0.0, axis=1)] = False
        if parameters != "LS":  # there the start itself is the mean of both sides
            np.testing.assert_array_equal(estimate.parameters.ravel()[still], model.parameters.ravel()[still])

    def test_groups_of_which_nothing_is_looked_for_have_no_say(self, loud_evidence):
        model = reference("g1")
        legs = identify(model, loud_evidence, parameters=["left_hip*", "right_hip*", "torso_link.m"])
        assert list(legs.options["spread"]) == ["middle", "left_hip_pitch_link"]
        assert legs.status == "solved"

    def test_mirror_images_stay_images(self, loud_evidence):
        model = reference("g1")
        estimate = identify(model, loud_evidence, mirror=True)
        for pair in find_pairs(model):
            np.testing.assert_allclose(
                estimate.parameters[pair.right], pair.image(estimate.parameters[pair.left]), rtol=1e-9, atol=1e-12
            )

    def test_images_are_drawn_as_their_links_are(self, loud_evidence):
        """The energy of tied pairs is that which was minimised, but for the volume, and draws are as wide."""
        estimate = identify(reference("g1"), loud_evidence, mirror=True)
        posterior = estimate.posterior
        assert posterior is not None
        assert np.all(posterior.weights > 0.0)
        draws = estimate.sample(100, seed=2).parameters
        for pair in find_pairs(reference("g1")):
            np.testing.assert_allclose(draws[:, pair.right, 0], draws[:, pair.left, 0], rtol=1e-9)
        ratio = draws[:, :, 0].std(axis=0) / estimate.standard_errors[:, 0]
        assert 0.85 < np.median(ratio) < 1.15

    def test_options_that_make_no_sense_are_refused(self, loud_evidence):
        for options, words in (
            ({"spread": 0.0}, "spread"),
            ({"noise_factor": -1.0}, "noise_factor"),
            ({"alpha": 1.0}, "no option 'alpha'"),
        ):
            with pytest.raises(IdentifiabilityError, match=words):
                identify(reference("g1"), loud_evidence, **options)


class TestConstraints:
    """The same under constraints."""

    def test_what_is_weighed_is_held_and_better_known(self, loud_evidence):
        model, true = reference("g1"), truth("g1")
        weight = float(true[:, 0].sum())
        free = identify(model, loud_evidence)
        held = identify(model, loud_evidence, constraints=[TotalMass(weight)])
        assert held.total_mass == pytest.approx(weight, abs=1e-8)
        assert held.total_mass_error < 1e-6 < free.total_mass_error
        assert held.certificate is not None
        assert held.certificate.stationarity < 1e-6
        assert held.status == "solved"

    def test_bands_bind_and_are_named(self, loud_evidence):
        model = reference("g1")
        held = identify(model, loud_evidence, constraints=[MassWithin(0.02), Frozen("pelvis")])
        shares = held.parameters[:, 0] / model.parameters[:, 0] - 1.0
        assert np.max(np.abs(shares)) <= 0.02 + 1e-8
        np.testing.assert_allclose(held.parameters[0], model.parameters[0], rtol=1e-8, atol=1e-10)
        assert any("torso_link" in name for name in held.active)
        assert np.all(is_possible(held.parameters))

    def test_minimum_under_constraints_is_that_of_another_search(self):
        """SciPy's search on the same energy with the masses' sum given."""
        model, evidence = arm(), arm_evidence(noise=3.0)
        held = identify(model, evidence, constraints=[TotalMass(6.0)])
        problem = build_problem(evidence, choose_parameters(model))
        energy = build_geometric_energy(problem)
        weights = np.full(4, held.options["spread"]["all links"] ** -2.0)
        noise = held.options["noise_factor"]
        sums = energy.maps[:, 0, :].sum(axis=0)
        oracle = minimize(
            lambda x: energy.value(x, weights, noise),
            np.linalg.solve(energy.root, (held.parameters - model.parameters).ravel()) + 1e-4,
            jac=lambda x: energy.gradient(x, weights, noise),
            constraints={"type": "eq", "fun": lambda x: sums @ x + energy.reference[:, 0].sum() - 6.0},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        point = np.linalg.solve(energy.root, (held.parameters - model.parameters).ravel())
        assert energy.value(point, weights, noise) == pytest.approx(oracle.fun, rel=1e-8)

    @pytest.mark.parametrize("constraints", [[MassWithin(0.05)], [TotalMass(6.5), MassWithin(0.05)]])
    def test_no_start_finds_a_better_one_under_constraints(self, constraints):
        model = arm()
        problem = build_problem(arm_evidence(noise=3.0), choose_parameters(model))
        energy, system = build_geometric_energy(problem), resolve_constraints(model, constraints)
        weights = find_prior_weights(energy, np.zeros(4, dtype=np.int64))
        found = hold_constraints(problem, energy, weights, system)
        assert found.active
        least = energy.value(found.point, weights.by_link, weights.noise)
        for seed in range(5):
            bodies = drawn(energy.reference, 5.0, seed)
            start = np.linalg.solve(energy.maps.reshape(40, 40), (bodies - energy.reference).reshape(40))
            elsewhere = replace(weights, minimum=replace(weights.minimum, point=start))
            again = hold_constraints(problem, energy, elsewhere, system)
            assert energy.value(again.point, weights.by_link, weights.noise) == pytest.approx(least, rel=1e-9)
            np.testing.assert_allclose(again.point, found.point, atol=1e-6)

    @pytest.mark.parametrize("constraints", [[MassWithin(0.05)], [TotalMass(7.0, tolerance=0.01)], [TotalMass(6.0)]])
    def test_standard_errors_are_those_of_draws(self, constraints):
        estimate = identify(arm(), arm_evidence(noise=3.0), constraints=constraints)
        about = estimate.sample(400, seed=1).parameters[:, :, 0] - estimate.parameters[:, 0]
        expected = np.sqrt(np.mean(np.square(about), axis=0))
        np.testing.assert_allclose(estimate.standard_errors[:, 0], expected, rtol=0.35)
        total = np.sqrt(np.mean(np.square(about.sum(axis=1))))
        assert estimate.total_mass_error == pytest.approx(total, rel=0.35, abs=1e-6)

    @pytest.mark.parametrize("method", ["conic", "geometric"])
    @pytest.mark.parametrize("constraints", [[], [MassWithin(0.02), TotalMass(6.5, tolerance=0.05)]])
    def test_where_something_binds_standard_errors_are_those_of_other_draws(self, method, constraints):
        estimate = identify(arm(), arm_evidence(), method=method, constraints=constraints)
        assert bool(estimate.active) == (method == "conic" or bool(constraints))
        about = estimate.sample(600, seed=9).parameters - estimate.parameters
        expected = np.sqrt(np.mean(np.square(about), axis=0))
        np.testing.assert_allclose(estimate.standard_errors, expected, rtol=0.25)
        total = np.sqrt(np.mean(np.square(about[:, :, 0].sum(axis=1))))
        assert estimate.total_mass_error == pytest.approx(total, rel=0.25)
        drawn_ = any("drawn from the posterior" in note for note in estimate.notes)
        assert drawn_ == bool(estimate.active)

    def test_neither_chance_nor_the_order_of_constraints_changes_standard_errors(self):
        evidence = arm_evidence()
        wanted = [MassWithin(0.02, "part_1"), TotalMass(6.5, tolerance=0.05), MassWithin(0.05, "part_2")]
        one, again, turned = (
            identify(arm(), evidence, constraints=order) for order in (wanted, wanted, list(reversed(wanted)))
        )
        np.testing.assert_array_equal(one.covariance, again.covariance)
        np.testing.assert_allclose(turned.standard_errors, one.standard_errors, rtol=0.2)

    def test_draws_can_be_left_out_and_that_is_said(self):
        plain = identify(arm(), arm_evidence(), method="conic", draws=0)
        assert any("ignore active constraints" in note for note in plain.notes)
        drawn_ = identify(arm(), arm_evidence(), method="conic")
        assert np.median(drawn_.standard_errors / plain.standard_errors) < 0.9
        for wrong in (-1, 2.5, True):
            with pytest.raises(IdentifiabilityError, match="draws is"):
                identify(arm(), arm_evidence(), draws=wrong)

    @pytest.mark.parametrize("method", ["geometric", "conic", "quadratic"])
    def test_constraints_are_no_data(self, method):
        """What was held is not determined, and what a band or a scale says is not what the data say."""
        evidence = arm_evidence()
        free = identify(arm(), evidence, method=method)
        bands = identify(arm(), evidence, method=method, constraints=[MassWithin(0.02)])
        assert np.all(bands.determined <= free.determined + 0.1)
        weighed = identify(arm(), evidence, method=method, constraints=[TotalMass(6.5), Frozen("part_2")])
        assert np.all(weighed.determined[1] == 0.0)
        silent = replace(evidence, factor=1e-6 * evidence.factor, variance=1.0)
        held = identify(arm(), silent, method=method, constraints=[TotalMass(6.5), MassWithin(0.02)])
        assert np.all(held.determined < 1e-3)

    @pytest.mark.parametrize("method", ["geometric", "conic"])
    def test_regions_are_flat_where_something_is_fixed(self, method):
        estimate = identify(arm(), arm_evidence(), method=method, constraints=[TotalMass(6.0), Frozen("part_4")])
        assert estimate.in_region(estimate.parameters, 0.01)
        assert estimate.in_region(estimate.parameters, 0.01, which="*")
        step = 0.02 * estimate.standard_errors[0, 0]
        for change, inside in (((step, -step, 0.0, 0.0), True), ((step, step, 0.0, 0.0), False),
                               ((step, 0.0, 0.0, -step), False)):  # fmt: skip
            moved = estimate.parameters.copy()
            moved[:, 0] += change
            assert estimate.in_region(moved, 0.9) == inside
        assert not estimate.in_region(1.05 * estimate.parameters, 0.99)
        # What was not looked for is exact by assumption, and no part of any region.
        some = identify(arm(), arm_evidence(), method=method, parameters=["part_1", "part_2"])
        assert some.in_region(np.where(np.arange(4)[:, None] > 1, 2.0, 1.0) * some.parameters, 0.9, which="*")

    @pytest.mark.parametrize(
        ("noise", "constraint"),
        [(0.0, MassWithin(0.05)), (1e-6, MassWithin(0.05)), (0.1, TotalMass(0.6)), (1e-3, TotalMass(0.6))],
    )
    def test_constraints_far_from_sharp_data_are_held(self, noise, constraint):
        estimate = identify(arm(), arm_evidence(noise=noise), constraints=[constraint])
        assert estimate.status == "solved"
        assert np.all(is_possible(estimate.parameters))
        assert estimate.certificate is not None
        assert estimate.certificate.violation < 1e-8

    def test_regions_hold_what_they_should(self):
        """Truths drawn as the prior has them, noise as stated: nine in ten regions at 90 % hold all masses at once."""
        base = np.array(arm().parameters)
        held, single = [], []
        for seed in range(60):
            true = drawn(base, 25.0, 100 + seed)
            evidence = arm_evidence(seed, noise=0.5)
            moved = evidence.factor[:, : len(evidence.independent)] @ evidence.dependence @ (true - arm_truth()).ravel()
            factor = evidence.factor.copy()
            factor[:, -1] += moved
            estimate = identify(arm(), replace(evidence, factor=factor))
            held.append(estimate.in_region(true, 0.9))
            low, high = np.moveaxis(estimate.intervals(0.9), 2, 0)
            single.append(np.mean((low <= true) & (true <= high)))
        assert 0.8 <= np.mean(held) <= 0.98
        assert 0.85 <= np.mean(single) <= 0.95
        assert estimate.in_region(estimate.parameters, 0.01)
        assert not estimate.in_region(2.0 * true, 0.99)
        with pytest.raises(IdentifiabilityError, match="no parameter"):
            estimate.in_region(true, which="*.weight")


class TestHeldAndSilent:
    """Links that stay as they are, and data that say nothing."""

    @pytest.mark.parametrize("method", ["geometric", "conic"])
    def test_a_frozen_link_stays_the_model_s_also_where_no_body_could_be_so(self, method):
        bodies = np.array(arm().parameters)
        bodies[2, 4] *= 40.0
        assert not is_possible(bodies[2])
        model = arm().with_parameters(bodies)
        estimate = identify(model, arm_evidence(), method=method, constraints=[Frozen("part_3")])
        assert estimate.status == "solved"
        np.testing.assert_allclose(estimate.parameters[2], bodies[2], rtol=1e-12, atol=1e-12)
        assert np.all(is_possible(estimate.parameters[[0, 1, 3]]))
        assert np.all(estimate.determined[2] == 0.0)
        np.testing.assert_allclose(estimate.standard_errors[2], 0.0, atol=1e-9)
        assert "part_3 frozen" in estimate.active
        assert not any("replace them" in note for note in estimate.notes)
        assert any("physically impossible" in note and "part_3" in note for note in estimate.notes)
        draws = estimate.sample(5).parameters
        np.testing.assert_allclose(draws[:, 2], np.tile(bodies[2], (5, 1)), rtol=1e-9, atol=1e-9)

    def test_no_information_gives_the_reference_by_cones_too(self, loud_evidence):
        silent = replace(loud_evidence, factor=0.0 * loud_evidence.factor, sample_count=1, effective_count=1.0)
        estimate = identify(reference("g1"), silent, method="conic", draws=0)
        np.testing.assert_allclose(estimate.parameters, reference("g1").parameters, rtol=1e-9, atol=1e-12)
        assert np.all(estimate.determined < 1e-9)
        assert any("The data decide nothing" in note for note in estimate.notes)
        assert np.all(np.isfinite(estimate.intervals()))


@pytest.fixture(scope="module")
def shifted_evidence():
    motion = with_noise(rich_motion("g1", count=100), 2, force=5.0, moment=0.3)
    pushed = {name: values + np.array([2.0, -1.0, 5.0, 0.1, 0.2, 0.1]) for name, values in motion.wrenches.items()}
    shifted = replace(motion, wrenches=pushed)
    return gather_evidence(reference("g1"), shifted, nuisance=["wrench_offset", "accelerometer_bias"])


class TestNuisancePriors:
    """What is believed of sensors is believed as stated, however loud the data turn out to be."""

    def test_louder_data_are_data_of_a_greater_variance(self, shifted_evidence):
        """With κ and variance σ², all is as with variance κ² σ²: parameters, their errors, and the offsets."""
        model = reference("g1")
        one = identify(model, replace(shifted_evidence, variance=4.0), spread=0.2, noise_factor=3.0)
        other = identify(model, replace(shifted_evidence, variance=36.0), spread=0.2, noise_factor=1.0)
        scale = other.standard_errors
        np.testing.assert_allclose(one.parameters / scale, other.parameters / scale, atol=1e-5)
        np.testing.assert_allclose(one.standard_errors, scale, rtol=1e-6)
        for name, value in other.nuisance.items():
            assert one.nuisance[name] == pytest.approx(value, rel=1e-5, abs=1e-7)
        for mine, theirs in zip(one.posterior.information, other.posterior.information, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-9 * np.abs(theirs).max())

    @pytest.mark.parametrize("parameters", [None, "LS"])
    def test_an_energy_follows_its_noise_as_if_made_anew(self, shifted_evidence, parameters):
        problem = build_problem(shifted_evidence, choose_parameters(reference("g1"), parameters))
        plain = build_geometric_energy(problem)
        point = 0.02 * np.random.default_rng(0).normal(size=plain.maps.shape[2])
        for factor in (1.0, 1.3, 8.0):
            one, other = plain.at_noise(factor), build_geometric_energy(problem.with_noise_scale(factor))
            np.testing.assert_allclose(one.gram, other.gram, rtol=1e-8, atol=1e-10 * np.abs(other.gram).max())
            assert one.misfit(point) == pytest.approx(other.misfit(point), rel=1e-7)
            lost = np.linalg.lstsq(other.matrix, other.right, rcond=1e-11)[0]
            assert one.least == pytest.approx(np.sum(np.square(other.matrix @ lost - other.right)), rel=1e-6)

    def test_the_noise_that_is_found_is_that_of_the_priors_too(self, shifted_evidence):
        model = reference("g1")
        loud = replace(
            shifted_evidence, variance=0.3 * build_problem(shifted_evidence, choose_parameters(model)).variance
        )
        found = identify(model, loud)
        factor = found.options["noise_factor"]
        assert factor > 1.2
        again = identify(model, loud, spread=_by_pattern(found), noise_factor=factor)
        np.testing.assert_allclose(
            again.parameters / found.standard_errors, found.parameters / found.standard_errors, atol=1e-5
        )


def _by_pattern(estimate: Any) -> dict[str, float]:
    owners = {link: group.name for group in group_links(estimate.model) for link in group.links}
    return {link: estimate.options["spread"][name] for link, name in owners.items()}
