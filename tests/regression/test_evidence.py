"""Laws of Evidence: it adds, in any order and chunking; at the true parameters of perfect data nothing is left."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from steelyard.exceptions import EvidenceError, ModelError, MotionError
from steelyard.model import load_model
from steelyard.model.setup import parse_setup
from steelyard.motion import motion_from_generalized
from steelyard.regression import Evidence, gather_evidence, load_evidence, residuals
from steelyard.regression.factor import Factor
from steelyard.regression.rows import base_rows
from tests.humanoids import humanoid, path_of, random_configuration, shaken
from tests.regression.motions import standing_motion

ROBOTS = ("g1", "talos", "icub", "romeo")


def gram(evidence: Evidence) -> np.ndarray:
    return evidence.full_factor.T @ evidence.full_factor


def same(one: Evidence, other: Evidence, tolerance: float = 1e-9) -> None:
    left, right = gram(one), gram(other)
    scale = np.sqrt(np.outer(np.diag(left), np.diag(left))) + 1e-300
    assert np.max(np.abs(left - right) / scale) < tolerance


@pytest.fixture(scope="module")
def g1_motion():
    model = load_model("g1")
    return model, standing_motion(model, 400, seed=1, parameters=shaken(model, seed=2))


def test_whole_equals_sum_of_parts_in_any_order_and_chunking(g1_motion) -> None:
    model, motion = g1_motion
    whole = gather_evidence(model, motion, nuisance=())
    cuts = [0, 3, 50, 51, 180, 400]
    parts = [gather_evidence(model, motion.between(*pair), nuisance=()) for pair in itertools.pairwise(cuts)]
    forward = parts[0] + parts[1] + parts[2] + parts[3] + parts[4]
    backward = parts[4] + (parts[3] + (parts[1] + parts[0])) + parts[2]
    stream = gather_evidence(model, motion.chunks(37), workers=3, nuisance=())
    for other in (forward, backward, stream):
        same(whole, other)
        assert (other.sample_count, other.row_count) == (whole.sample_count, whole.row_count) == (400, 2400)
        assert other.effective_count == pytest.approx(whole.effective_count)


def test_factor_is_that_of_the_stacked_regressor(g1_motion) -> None:
    """Plain sums, against one QR of everything with every column."""
    model, motion = g1_motion
    evidence = gather_evidence(model, motion, weights=None, nuisance=())
    stacked = base_rows(model, motion).reshape(-1, 300)
    columns = np.linalg.qr(stacked, mode="r")
    ours = evidence.full_factor[:, :300]
    np.testing.assert_allclose(ours.T @ ours, columns.T @ columns, rtol=0.0, atol=1e-9 * np.max(columns.T @ columns))
    keep = evidence.independent
    triangle = np.linalg.qr(stacked[:, keep], mode="r")
    signs = np.sign(np.diag(triangle))
    np.testing.assert_allclose(
        evidence.factor[: len(keep), : len(keep)], signs[:, None] * triangle, atol=1e-9 * np.abs(triangle).max()
    )


def test_fast_and_slow_ways_agree() -> None:
    generator = np.random.default_rng(0)
    mix = generator.normal(size=(40, 40)) * np.logspace(0, -6, 40)
    chunks = [generator.normal(size=(500, 40)) @ mix for _ in range(5)]
    chunks.insert(2, 1e4 * np.outer(generator.normal(size=500), np.eye(40)[7]) + chunks[0])
    factor = Factor(40)
    for chunk in chunks:
        factor.add(chunk.copy())
    assert factor.fast_chunks >= 4
    assert factor.slow_chunks >= 2
    wanted = np.linalg.qr(np.concatenate(chunks), mode="r")
    np.testing.assert_allclose(
        factor.matrix, np.sign(np.diag(wanted))[:, None] * wanted, rtol=1e-9, atol=1e-12 * np.abs(wanted).max()
    )


def test_columns_in_which_nothing_happens_are_no_trouble() -> None:
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(3, 300, 10))
    rows[0, :, [2, 5]] = 0.0
    rows[1, :, 5] = 0.0
    factor = Factor(10)
    for chunk in rows[[0, 1]]:
        factor.add(chunk.copy())
    assert not factor.matrix[:, 5].any()
    factor.add(rows[2].copy())
    everything = rows.reshape(-1, 10)
    np.testing.assert_allclose(factor.matrix.T @ factor.matrix, everything.T @ everything, atol=1e-9)
    assert np.all(np.tril(factor.matrix, -1) == 0.0)


@pytest.mark.parametrize(("name", "rank"), [("g1", 213), ("talos", 240), ("icub", 233), ("romeo", 227)])
def test_rank_is_what_the_tree_explains(name: str, rank: int) -> None:
    """Ten for the base link of each region, seven for each link behind a hinge.

    A hinge hides three combinations of its link's ten: mass and the first moment along the axis move with the parent,
    and of the inertia across the axis only the difference shows. TALOS' and iCub's feet are regions of their own, below
    sensors.
    """
    model = load_model(name)
    regions = 1 + sum(sensor.at == "joint" for sensor in model.setup.wrench_sensors)
    hinges = len(model.links) - regions
    assert rank == 10 * regions + 7 * hinges
    motion = standing_motion(model, 250, seed=3, lifted=tuple(sole.name for sole in model.setup.soles[:1]))
    other = standing_motion(model, 250, seed=4, lifted=tuple(sole.name for sole in model.setup.soles[1:]))
    evidence = gather_evidence(model, [motion, other], nuisance=())
    assert len(evidence.independent) == rank
    assert evidence.rank == rank
    assert evidence.rank_gap > 1e6


@pytest.mark.parametrize("weights", [None, "default"])
@pytest.mark.parametrize("name", ROBOTS)
def test_nothing_is_left_at_the_true_parameters(name: str, weights) -> None:
    model = load_model(name)
    true = shaken(model, seed=5)
    motion = standing_motion(model, 120, seed=6, parameters=true, lifted=(model.setup.soles[0].name,))
    evidence = gather_evidence(model, motion, weights=weights, nuisance=())
    force = gather_evidence(model, motion, weights=weights, nuisance=()).cost(np.zeros_like(true))
    assert evidence.cost(true) < 1e-18 * force
    assert evidence.cost(model.parameters) > 1e-6 * force


CASES = {
    "torques of some joints": {"torques": ["*_knee_joint", "left_elbow_joint"]},
    "torques of all joints": {"torques": ["*"]},
    "horizontal forces withheld": {"withhold": ["*_foot.fx", "*_foot.fy"]},
    "a foot withheld, torques of all joints": {"withhold": ["left_foot"], "torques": ["*"]},
    "a hose at the pelvis, torques of all joints": {"unknown_wrenches": ["pelvis"], "torques": ["*"]},
    "moments withheld, torques of the legs": {
        "withhold": ["*_foot.n*"],
        "torques": ["*_hip_*", "*_knee_joint", "*_ankle_*"],
    },
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("weights", [None, "default"])
def test_partial_force_sensing_leaves_nothing_at_the_true_parameters(case: str, weights) -> None:
    """[yamane2011] (11)-(16), and that what is withheld is really not used."""
    model = load_model("g1")
    true = shaken(model, seed=7)
    motion = standing_motion(model, 80, seed=8, parameters=true, lifted=("left",))
    options = {"nuisance": (), **CASES[case]}
    evidence = gather_evidence(model, motion, weights=weights, **options)
    assert evidence.cost(true) < 1e-16 * evidence.cost(np.zeros_like(true))
    assert evidence.cost(model.parameters) > 1e-6 * evidence.cost(np.zeros_like(true))
    generator = np.random.default_rng(0)
    spoilt = {name: values.copy() for name, values in motion.wrenches.items()}
    if "left_foot" in options.get("withhold", ()):
        spoilt["left_foot"] = generator.normal(size=(80, 6))
    if "*_foot.fx" in options.get("withhold", ()):
        for values in spoilt.values():
            values[:, :2] = generator.normal(size=(80, 2))
    same(evidence, gather_evidence(model, replace(motion, wrenches=spoilt), weights=weights, **options), 1e-9)


def test_a_hose_that_is_declared_does_no_harm() -> None:
    model = load_model("g1")
    true = shaken(model, seed=9)
    hose = ("torso_link", np.array([20.0, 10.0, -15.0, 1.0, 0.0, 2.0]))
    motion = standing_motion(model, 60, seed=10, parameters=true, hose=hose)
    unaware = gather_evidence(model, motion, torques=["*"], nuisance=())
    aware = gather_evidence(model, motion, torques=["*"], unknown_wrenches=["torso_link"], nuisance=())
    assert unaware.cost(true) > 1e-6 * unaware.cost(np.zeros_like(true))
    assert aware.cost(true) < 1e-16 * aware.cost(np.zeros_like(true))
    assert (unaware.row_count, aware.row_count) == (60 * 35, 60 * 29)


def test_projection_makes_unknown_forces_vanish_and_nothing_projects_nothing() -> None:
    from steelyard.regression.reduction import reduce_rows

    generator = np.random.default_rng(2)
    hidden = generator.normal(size=(5, 9, 4))
    hidden[:, :, 3] = hidden[:, :, 0] - 2.0 * hidden[:, :, 1]
    rows = hidden.copy()
    kept = np.empty(5, dtype=np.int64)
    everything = np.ones((5, 4), dtype=bool)
    reduce_rows(rows, np.zeros((5, 9, 0)), hidden, everything, kept)
    assert np.max(np.abs(rows)) < 1e-12
    rows = generator.normal(size=(5, 9, 6))
    before = rows.copy()
    reduce_rows(rows, np.zeros((5, 9, 0)), hidden, everything, kept)
    assert np.all(kept == 6)
    for sample in range(5):
        basis = np.linalg.qr(hidden[sample, :, :3])[0]
        projected = before[sample] - basis @ (basis.T @ before[sample])
        np.testing.assert_allclose(rows[sample].T @ rows[sample], projected.T @ projected, atol=1e-12)
    rows = before.copy()
    reduce_rows(rows, np.zeros((5, 9, 0)), hidden, ~everything, kept)
    np.testing.assert_array_equal(rows, before)


def test_whitened_evidence_does_not_depend_on_the_base_link(g1_motion) -> None:
    """The same data at the pelvis and at a foot: the same cost everywhere, and so the same least-squares solution."""
    from tests.regression.test_rows import at_another_base

    model, _ = g1_motion
    generator = np.random.default_rng(3)
    q = np.array([random_configuration(model, generator) for _ in range(80)])
    v, a = generator.normal(size=(2, 80, model.velocity_size))
    motion = motion_from_generalized(model, np.arange(80) / 100.0, q, v, a)
    wrenches = {sensor.name: 50.0 * generator.normal(size=(80, 6)) for sensor in model.setup.wrench_sensors}
    motion = replace(motion, wrenches=wrenches)
    foot = at_another_base(model, motion, "left_ankle_roll_link", q, v, a)
    here, there = gather_evidence(model, motion, nuisance=()), gather_evidence(model, foot, nuisance=())
    same(here, there)
    assert here.cost(model.parameters) == pytest.approx(there.cost(model.parameters), rel=1e-9)
    plain = [gather_evidence(model, one, weights=None, nuisance=()).cost(model.parameters) for one in (motion, foot)]
    assert plain[0] != pytest.approx(plain[1], rel=1e-3)
    with pytest.raises(EvidenceError, match="different base does not add"):
        here + there


def test_permuting_links_permutes_columns(tmp_path) -> None:
    """The same robot with its joints renamed, so that its limbs are numbered the other way round."""
    text = path_of("simple_humanoid").read_text()
    (tmp_path / "renamed.urdf").write_text(text.replace("LLEG", "ZLEG").replace("LARM", "ZARM"))
    sensor = {"wrench_sensor": [{"name": "foot", "frame": "RLEG_LINK5"}]}
    one = load_model(path_of("simple_humanoid"), setup=parse_setup(sensor))
    two = load_model(tmp_path / "renamed.urdf", setup=parse_setup(sensor))
    names = [link.replace("ZLEG", "LLEG").replace("ZARM", "LARM") for link in two.links]
    assert tuple(names) != one.links
    first = standing_like(one, seed=1)
    order = [one.joints.index(name.replace("ZLEG", "LLEG").replace("ZARM", "LARM")) for name in two.joints]
    second = replace(first, q=first.q[:, order], v=first.v[:, order], a=first.a[:, order])
    places = np.array([10 * one.links.index(name) + k for name in names for k in range(10)] + [10 * len(names)])
    left, right = gram(gather_evidence(one, first, nuisance=())), gram(gather_evidence(two, second, nuisance=()))
    np.testing.assert_allclose(right, left[np.ix_(places, places)], rtol=0.0, atol=1e-9 * np.abs(left).max())


def standing_like(model, seed: int):
    generator = np.random.default_rng(seed)
    q = np.array([random_configuration(model, generator) for _ in range(100)])
    v, a = generator.normal(size=(2, 100, model.velocity_size))
    motion = motion_from_generalized(model, np.arange(100) / 100.0, q, v, a)
    return replace(motion, wrenches={"foot": generator.normal(size=(100, 6))})


def test_nuisance_columns_explain_what_they_stand_for(g1_motion) -> None:
    model, _ = g1_motion
    true = np.array(model.parameters)
    clean = standing_motion(model, 60, seed=11, parameters=true)
    groups = ["wrench_offset", "accelerometer_bias", "viscous_friction", "coulomb_friction", "rotor_inertia"]
    joints = ["left_knee_joint", "right_elbow_joint"]
    generator = np.random.default_rng(4)
    offsets = {name: generator.normal(size=6) for name in clean.wrenches}
    bias = np.array([0.1, -0.2, 0.05])
    torques = dict(clean.torques)
    friction = generator.uniform(0.1, 1.0, size=(2, 3))
    for number, name in enumerate(joints):
        place = model.joints.index(name)
        torques[name] = (
            clean.torques[name]
            + friction[number, 0] * clean.v[:, place]
            + friction[number, 1] * np.sign(clean.v[:, place])
            + friction[number, 2] * clean.a[:, place]
        )
    spoilt = replace(
        clean,
        wrenches={name: values + offsets[name] for name, values in clean.wrenches.items()},
        proper_acceleration=clean.proper_acceleration + bias,
        torques=torques,
    )
    evidence = gather_evidence(model, spoilt, nuisance=groups, torques=joints)
    values = {f"accelerometer_bias.{axis}": bias[k] for k, axis in enumerate("xyz")}
    for name, vector in offsets.items():
        values |= {f"{name}.{axis}.offset": vector[k] for k, axis in enumerate(("fx", "fy", "fz", "nx", "ny", "nz"))}
    for number, name in enumerate(joints):
        for k, group in enumerate(("viscous_friction", "coulomb_friction", "rotor_inertia")):
            values[f"{name}.{group}"] = friction[number, k]
    ordered = [values[name] for name in evidence.key.nuisance]
    scale = evidence.cost(np.zeros_like(true))
    assert evidence.cost(true, ordered) < 1e-16 * scale
    assert evidence.cost(true) > 1e-6 * scale
    assert dict(zip(evidence.key.nuisance, evidence.key.priors, strict=True))["left_foot.fx.offset"] == 5.0


def test_imu_mounting_is_right_to_first_order(g1_motion) -> None:
    model, _ = g1_motion
    clean = standing_motion(model, 60, seed=12)
    import pinocchio as pin

    costs = []
    for size in (1e-3, 1e-4):
        angle = size * np.array([1.0, -2.0, 0.5])
        turn = pin.exp3(-angle)  # what must be undone
        spoilt = replace(
            clean,
            angular_velocity=clean.angular_velocity @ turn.T,
            angular_acceleration=clean.angular_acceleration @ turn.T,
            proper_acceleration=clean.proper_acceleration @ turn.T,
        )
        evidence = gather_evidence(model, spoilt, nuisance=["imu_mounting"], priors={"imu_mounting": 0.05})
        costs.append(evidence.cost(model.parameters, angle))
        assert costs[-1] < 1e-3 * evidence.cost(model.parameters)
        assert evidence.key.priors == (0.05,) * 3
    assert costs[1] == pytest.approx(1e-4 * costs[0], rel=0.1)


def test_gyro_bias_is_right_to_first_order(g1_motion) -> None:
    model, _ = g1_motion
    clean = standing_motion(model, 60, seed=15)
    imu = model.frame(model.setup.imus[0].frame)
    assert model.bodies[imu.body].name == clean.base
    lever = imu.placement.translation
    assert np.linalg.norm(lever) > 0.01

    def centripetal(rates):
        return np.cross(rates, np.cross(rates, lever))

    costs = []
    for size in (1e-2, 1e-3):
        bias = size * np.array([1.0, -2.0, 0.5])
        # The accelerometer keeps its reading; the base's own acceleration follows from it and the biased gyro.
        rates = clean.angular_velocity + bias
        moved = clean.proper_acceleration + centripetal(clean.angular_velocity) - centripetal(rates)
        spoilt = replace(clean, angular_velocity=rates, proper_acceleration=moved)
        evidence = gather_evidence(model, spoilt, nuisance=["gyro_bias"])
        costs.append(evidence.cost(model.parameters, bias))
        assert costs[-1] < 1e-3 * evidence.cost(model.parameters)
        assert evidence.key.own == tuple(f"gyro_bias.{axis}" for axis in "xyz")
    assert costs[1] == pytest.approx(1e-4 * costs[0], rel=0.1)


def test_fixed_base_arm_needs_only_torques() -> None:
    arm = humanoid("g1", "fixed")
    true = shaken(arm, seed=13)
    motion = standing_motion(arm, 100, seed=14, parameters=true)
    evidence = gather_evidence(arm, motion, torques=["*"], weights=None, nuisance=())
    assert evidence.cost(true) < 1e-18 * evidence.cost(np.zeros_like(true))
    assert evidence.rank == len(evidence.independent) < 290
    assert evidence.row_count == 2900


def test_conditions_are_of_plain_columns(g1_motion) -> None:
    model, motion = g1_motion
    evidence = gather_evidence(model, motion, weights=None, nuisance=())
    stacked = base_rows(model, motion).reshape(-1, 300)
    row = model.link_index("left_elbow_link")
    assert evidence.link_conditions["left_elbow_link"] == pytest.approx(
        np.linalg.cond(stacked[:, 10 * row : 10 * row + 10]), rel=1e-9
    )
    assert evidence.condition == pytest.approx(np.linalg.cond(stacked[:, evidence.independent]), rel=1e-7)
    assert list(evidence.link_conditions) == list(model.links)


def test_plain_arrays_will_do(g1_motion) -> None:
    model, motion = g1_motion
    generator = np.random.default_rng(5)
    q = np.array([random_configuration(model, generator) for _ in range(30)])
    v, a = generator.normal(size=(2, 30, model.velocity_size))
    wrenches = {name: values[:30] for name, values in motion.wrenches.items()}
    arrays = {"time": np.arange(30) / 50.0, "q": q, "v": v, "a": a, "wrenches": wrenches}
    evidence = gather_evidence(model, arrays, nuisance=())
    same(evidence, gather_evidence(model, motion_from_generalized(model, **arrays), nuisance=()))
    with pytest.raises(MotionError, match=r"'tau'.*did you mean"):
        gather_evidence(model, {**arrays, "tau": np.zeros(30)}, nuisance=())
    with pytest.raises(MotionError, match="'v' is missing"):
        gather_evidence(model, {name: values for name, values in arrays.items() if name != "v"}, nuisance=())
    with pytest.raises(MotionError, match=r"q has the shape \(30, 35\)"):
        gather_evidence(model, {**arrays, "q": q[:, 1:]}, nuisance=())


def test_effective_samples_count_what_a_filter_left(g1_motion) -> None:
    model, motion = g1_motion
    filtered = replace(motion, bandwidth=5.0)
    assert gather_evidence(model, filtered, nuisance=()).effective_count == pytest.approx(400 * 0.1)
    assert gather_evidence(model, motion, nuisance=()).effective_count == 400


def test_evidence_is_saved_and_loaded_without_pickle(g1_motion, tmp_path) -> None:
    model, motion = g1_motion
    evidence = gather_evidence(model, motion, nuisance=["wrench_offset"])
    evidence.save(tmp_path / "walk.npz")
    again = load_evidence(tmp_path / "walk.npz")
    assert again.key == evidence.key
    np.testing.assert_array_equal(again.full_factor, evidence.full_factor)
    same(again + evidence, evidence + again)
    (tmp_path / "broken.npz").write_bytes((tmp_path / "walk.npz").read_bytes()[:2000])
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.savez(tmp_path / "pickled.npz", key=np.array([{"a": 1}], dtype=object))
    for name in ("broken", "other", "pickled"):
        with pytest.raises(EvidenceError, match="not a file of evidence"):
            load_evidence(tmp_path / f"{name}.npz")
    with pytest.raises(EvidenceError, match="no such file"):
        load_evidence(tmp_path / "gone.npz")


def test_unlike_evidence_refuses_to_add(g1_motion, tmp_path) -> None:
    model, motion = g1_motion
    text = path_of("g1").read_text()
    longer = text.replace('xyz="-0.078273 0.0021489 -0.17734"', 'xyz="-0.078273 0.0021489 -0.18"')
    assert longer != text
    (tmp_path / "longer.urdf").write_text(longer)
    other = load_model(tmp_path / "longer.urdf", setup="g1")
    assert other.links == model.links
    with pytest.raises(EvidenceError, match="different tree does not add"):
        gather_evidence(model, motion, nuisance=()) + gather_evidence(other, motion, nuisance=())
    with pytest.raises(EvidenceError, match="different weights does not add"):
        gather_evidence(model, motion, nuisance=()) + gather_evidence(model, motion, weights=None, nuisance=())
    with pytest.raises(TypeError):
        gather_evidence(model, motion, nuisance=()) + 1  # type: ignore[operator]


def test_bad_input_is_named(g1_motion) -> None:
    model, motion = g1_motion
    broken = motion.v.copy()
    broken[17, 3] = np.nan
    with pytest.raises(MotionError, match=r"v is not finite at sample 17 \(t = 0\.17 s\)") as caught:
        gather_evidence(model, replace(motion, v=broken), nuisance=())
    assert caught.value.sample == 17
    with pytest.raises(MotionError, match=r"q has the shape \(400, 28\).*\(400, 29\)"):
        gather_evidence(model, replace(motion, q=motion.q[:, 1:]), nuisance=())
    with pytest.raises(MotionError, match="no samples"):
        gather_evidence(model, motion.between(0, 0), nuisance=())
    with pytest.raises(EvidenceError, match="no motion"):
        gather_evidence(model, [], nuisance=())
    with pytest.raises(ModelError, match="no frame 'pelvs'; did you mean 'pelvis'"):
        gather_evidence(model, replace(motion, base="pelvs"), nuisance=())
    without = {name: values for name, values in motion.wrenches.items() if name != "left_foot"}
    with pytest.raises(EvidenceError, match=r"left_foot has no data.*withhold"):
        gather_evidence(model, replace(motion, wrenches=without), nuisance=())
    with pytest.raises(MotionError, match="no wrench sensor 'leftfoot'; did you mean 'left_foot'"):
        gather_evidence(model, replace(motion, wrenches={"leftfoot": motion.wrenches["left_foot"]}), nuisance=())
    with pytest.raises(EvidenceError, match="no sensor or component 'left_hand' to withhold"):
        gather_evidence(model, motion, withhold=["left_hand"], nuisance=())
    with pytest.raises(EvidenceError, match="no joint is called 'knee'"):
        gather_evidence(model, motion, torques=["knee"], nuisance=())
    with pytest.raises(EvidenceError, match="torque of joint 'left_knee_joint' is not in this motion"):
        gather_evidence(model, replace(motion, torques={}), torques=["left_knee_joint"], nuisance=())
    with pytest.raises(EvidenceError, match="no nuisance 'offset'; did you mean 'wrench_offset'"):
        gather_evidence(model, motion, nuisance=["offset"])
    with pytest.raises(EvidenceError, match="shows in joint torques"):
        gather_evidence(model, motion, nuisance=["viscous_friction"])
    with pytest.raises(EvidenceError, match="no nuisance column is called 'bias'"):
        gather_evidence(model, motion, nuisance=["wrench_offset"], priors={"bias": 1.0})
    with pytest.raises(EvidenceError, match="no sensor or joint is called 'left'; did you mean 'left_foot"):
        gather_evidence(model, motion, weights={"left": 1.0}, nuisance=())
    with pytest.raises(EvidenceError, match="must be a positive number"):
        gather_evidence(model, motion, weights={"left_foot": 0.0}, nuisance=())
    with pytest.raises(EvidenceError, match="write 'default', None"):
        gather_evidence(model, motion, weights="none", nuisance=())
    with pytest.raises(MotionError, match="a frame on the link 'pelvis'"):
        gather_evidence(model, replace(motion, base="imu_in_pelvis"), nuisance=())
    with pytest.raises(EvidenceError, match="nothing is measured"):
        gather_evidence(humanoid("g1"), replace(motion, wrenches={}, contacts={}), nuisance=())
    with pytest.raises(EvidenceError, match="needs 300 parameters"):
        gather_evidence(model, motion, nuisance=()).cost(np.zeros(10))
    with pytest.raises(EvidenceError, match="motion number 2 of the stream: its base link is 'torso_link'"):
        gather_evidence(model, [motion, replace(motion, base="torso_link")], nuisance=())
    with pytest.raises(MotionError, match="no sole 'middle'"):
        gather_evidence(model, replace(motion, contacts={"middle": np.ones(400, dtype=bool)}), nuisance=())


def inverse_covariance_cost(model, motion, parameters, **options) -> float:
    """The cost of generalised least squares, by an oracle that forms every matrix of every sample in full.

    Unknown forces are parameters of each sample there, estimated together: that is what projecting them out must equal.
    """
    from steelyard.motion import tree_motion
    from steelyard.regression.noise import plan_noise
    from steelyard.regression.rows import all_columns
    from steelyard.regression.sensing import plan_sensing
    from steelyard.regression.system import System, present_forces

    sensing = plan_sensing(model, wrenches=motion.wrenches, **options)
    noise = plan_noise(model, sensing, "default")
    system = System(model, motion.base, sensing, (), None, all_columns(model))
    plan = system.plan(motion)
    states = tree_motion(motion)
    maps, floor, hidden = replace(system, noise=noise).evaluate(plan, states)[:3]
    blind = replace_unknown(system, plan)
    rows, _ = system.rows_of(blind, states, np.zeros((len(motion), 0), dtype=bool), system.readings(motion))
    rows = rows.reshape(len(motion), plan.row_count, -1)
    present = present_forces(plan, motion)
    first = plan.rows.first_torque_row
    total = 0.0
    for i in range(len(motion)):
        covariance = maps[i] @ np.diag(noise.wrenches**2) @ maps[i].T
        covariance += floor[i] @ np.diag(np.resize(noise.floor, floor.shape[2]) ** 2) @ floor[i].T
        covariance[first:, first:] += np.diag(noise.torques**2)
        residual = rows[i, :, :-1] @ np.ravel(parameters) - rows[i, :, -1]
        columns = hidden[i][:, present[i]]
        # A large variance of the unknown forces, in the limit: the part of the inverse that their columns do not see.
        basis = np.eye(len(residual))
        if columns.size:
            basis = np.linalg.svd(columns)[0][:, np.linalg.matrix_rank(columns, tol=1e-9) :]
        seen = basis.T @ residual
        total += float(seen @ np.linalg.solve(basis.T @ covariance @ basis, seen))
    return total


def replace_unknown(system, plan):
    from dataclasses import replace as change

    from steelyard.regression.sensing import _source_arrays

    return change(plan, unknown=_source_arrays(system.model, (), plan.rows.regions), unknown_soles=())


HARD = {
    "talos, a foot lifted, all torques": ("talos", {"torques": ["*"]}, ("left",)),
    "talos standing, one torque": ("talos", {"torques": ["arm_left_1_joint"]}, ()),
    "icub standing, all torques": ("icub", {"torques": ["*"]}, ()),
    "talos, a component of an ankle withheld": ("talos", {"withhold": ["left_foot.fz"]}, ("left",)),
    "g1, only vertical forces": ("g1", {"withhold": ["*_foot.fx", "*_foot.fy", "*_foot.n*"]}, ("left",)),
    "g1, no feet, all torques": ("g1", {"withhold": ["*_foot"], "torques": ["*"]}, ("left",)),
    "g1, all that there is": ("g1", {"torques": ["*"]}, ()),
}


@pytest.mark.parametrize("case", HARD)
def test_whitened_evidence_is_generalised_least_squares(case: str) -> None:
    name, options, lifted = HARD[case]
    model = load_model(name)
    true = shaken(model, seed=31)
    soles = tuple(sole.name for sole in model.setup.soles if sole.name in lifted)
    motion = standing_motion(model, 60, seed=32, parameters=true, lifted=soles)
    evidence = gather_evidence(model, motion, nuisance=(), **options)
    plain = gather_evidence(model, motion, weights=None, nuisance=(), **options)
    assert evidence.rank == plain.rank
    assert evidence.row_count == plain.row_count
    assert evidence.cost(true) < 1e-16 * evidence.cost(np.zeros_like(true))
    for phi in (model.parameters, 0.9 * model.parameters):
        assert evidence.cost(phi) == pytest.approx(inverse_covariance_cost(model, motion, phi, **options), rel=1e-8)


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("weights", [None, "default"])
def test_residuals_without_the_regressor_add_up_to_the_cost(case: str, weights) -> None:
    name, options, lifted = HARD[case]
    model = load_model(name)
    motion = standing_motion(model, 40, seed=33, lifted=tuple(s.name for s in model.setup.soles if s.name in lifted))
    phi = shaken(model, seed=34)
    left = residuals(model, motion, phi, weights=weights, **options)
    evidence = gather_evidence(model, motion, weights=weights, nuisance=(), **options)
    assert np.sum(left**2) == pytest.approx(evidence.cost(phi), rel=1e-9)


def test_chunks_and_sums_hold_with_everything_at_once() -> None:
    """Sensors inside the legs, soles that come and go inside a chunk, torques, withheld components, offsets."""
    model = load_model("talos")
    motion = standing_motion(model, 150, seed=35, lifted=("left",))
    contacts = {"left": motion.contacts["left"], "right": np.arange(150) % 3 > 0}
    motion = replace(motion, contacts=contacts, origin="one recording")
    options = {"torques": ["leg_*"], "withhold": ["right_foot.nz"], "nuisance": ["wrench_offset", "viscous_friction"]}
    whole = gather_evidence(model, motion, **options)
    parts = [gather_evidence(model, piece, **options) for piece in motion.chunks(31)]
    same(whole, sum(parts[1:], parts[0]))
    same(whole, sum(parts))
    same(whole, gather_evidence(model, motion.chunks(7), workers=2, **options))


def test_a_robot_in_the_air_is_not_believed_beyond_measure() -> None:
    """Wrong contact flags on a few samples must not outweigh a recording."""
    model = load_model("talos")
    motion = standing_motion(model, 60, seed=36)
    noisy = replace(motion, proper_acceleration=motion.proper_acceleration + 0.01)
    flags = {sole.name: np.ones(60, dtype=bool) for sole in model.setup.soles}
    honest = gather_evidence(model, replace(noisy, contacts=flags), nuisance=()).cost(model.parameters)
    flying = {name: values.copy() for name, values in flags.items()}
    for values in flying.values():
        values[:3] = False
    standing_as_flight = gather_evidence(model, replace(noisy, contacts=flying), nuisance=())
    # No more than by sensors ten times as good as these that stand under the feet, a metre below, and feel nothing.
    weight = (9.81 * model.total_mass) ** 2 * (1.0 / (0.1 * 1.0) ** 2 + 1.0 / (0.1 * 0.05) ** 2)
    assert honest < standing_as_flight.cost(model.parameters) < 3 * weight


def test_near_still_samples_before_moving_ones_lose_no_digits() -> None:
    model = load_model("g1")
    generator = np.random.default_rng(6)
    q = np.tile(model.neutral, (3000, 1))
    q[:, 7:] += 1e-6 * generator.normal(size=(3000, 29))
    q[1500:, 7:] = generator.normal(size=(1500, 29))
    v, a = generator.normal(size=(2, 3000, model.velocity_size)) * np.where(np.arange(3000) < 1500, 1e-6, 1.0)[:, None]
    wrenches = {name: generator.normal(size=(3000, 6)) for name in ("left_foot", "right_foot")}
    motion = motion_from_generalized(model, np.arange(3000) / 100.0, q, v, a, wrenches=wrenches)
    evidence = gather_evidence(model, motion.chunks(1500), weights=None, workers=1, nuisance=())
    wanted = np.linalg.qr(base_rows(model, motion).reshape(-1, 300)[:, evidence.independent], mode="r")
    wanted *= np.sign(np.diag(wanted))[:, None]
    lengths = np.linalg.norm(wanted, axis=0)
    assert np.max(np.linalg.norm(evidence.factor[:213, :213] - wanted, axis=0) / lengths) < 1e-9


def test_evidence_from_a_machine_that_kept_other_columns_adds_all_the_same(g1_motion) -> None:
    model, motion = g1_motion
    here = gather_evidence(model, motion, nuisance=())
    order = np.arange(300).reshape(30, 10)[:, ::-1].ravel()
    columns = here.full_factor[:, order]
    kept: list[int] = []
    left = columns / np.linalg.norm(columns, axis=0)
    for column in range(300):
        size = np.linalg.norm(left[:, column])
        if size > 1e-7:
            kept.append(column)
            direction = left[:, column] / size
            left = left - np.outer(direction, direction @ left)
            left = left - np.outer(direction, direction @ left)
    independent = np.sort(order[kept])
    assert not np.array_equal(independent, here.independent)
    dependence = np.linalg.lstsq(here.full_factor[:, independent], here.full_factor[:, :300], rcond=None)[0]
    factor = np.linalg.qr(here.full_factor[:, [*independent, 300]], mode="r")
    there = Evidence(here.key, factor, independent, dependence, here.sample_count, here.effective_count, here.row_count)
    both = here + there
    for phi in (model.parameters, shaken(model, seed=41)):
        assert both.cost(phi) == pytest.approx(2.0 * here.cost(phi), rel=1e-8)


def test_independent_columns_are_chosen_in_order() -> None:
    """The base link's ten come first; every later link hides what its hinge hides."""
    evidence = gather_evidence(load_model("g1"), standing_motion(load_model("g1"), 60, seed=42), nuisance=())
    assert evidence.independent[:10].tolist() == list(range(10))
    per_link = np.bincount(evidence.independent // 10, minlength=30)
    assert per_link.tolist() == [10] + 29 * [7]
    assert np.max(np.abs(evidence.dependence)) < 10.0


@pytest.mark.parametrize("axis", [0, 1])
def test_an_arm_on_a_wall(axis: int) -> None:
    arm = humanoid("g1", "fixed")
    true = shaken(arm, seed=43)
    motion = standing_motion(arm, 80, seed=44)
    wall = replace(motion, proper_acceleration=np.tile(9.81 * np.eye(3)[axis], (80, 1)))
    from steelyard.regression.rows import joint_torques

    torques = joint_torques(arm, wall, true)
    measured = replace(wall, torques={name: torques[:, k] for k, name in enumerate(arm.joints)})
    evidence = gather_evidence(arm, measured, torques=["*"], nuisance=())
    assert evidence.cost(true) < 1e-18 * evidence.cost(np.zeros_like(true))
    with pytest.raises(EvidenceError, match="different gravity"):
        evidence + gather_evidence(arm, motion, torques=["*"], nuisance=())
    with pytest.raises(EvidenceError, match="the base is fixed, but its motion is not"):
        gather_evidence(arm, replace(motion, angular_velocity=np.ones((80, 3))), torques=["*"], nuisance=())
    with pytest.raises(EvidenceError, match="given at its base"):
        gather_evidence(arm, replace(motion, base="torso_link"), torques=["*"], nuisance=())


def test_few_rows_a_sample_are_enough(tmp_path) -> None:
    """One torque on a long chain: the probe goes on until it has seen enough."""
    from tests.model.test_bad_input import LINK, joint, robot

    chain = [LINK.format(f"l{i}") for i in range(13)] + [joint(f"j{i:02}", f"l{i}", f"l{i + 1}") for i in range(12)]
    (tmp_path / "chain.urdf").write_text(robot(*chain))
    arm = load_model(tmp_path / "chain.urdf", base="fixed")
    true = shaken(arm, seed=45)
    motion = standing_motion(arm, 300, seed=46, parameters=true)
    evidence = gather_evidence(arm, motion, torques=["j00"], nuisance=())
    assert evidence.cost(true) < 1e-16 * evidence.cost(np.zeros_like(true))


def test_ball_and_sliding_joints_and_sensors_within_sensors(tmp_path) -> None:
    ball = "<geom type='box' size='.1 .2 .05' pos='.05 .02 .1' mass='1'/>"
    tree = (
        f"<body name='base'><freejoint/>{ball}<site name='sole' pos='0 0 -.1'/>"
        f"<body name='a' pos='0 0 .3'><joint name='b' type='ball'/>{ball}"
        f"<body name='c' pos='.2 0 .3'><joint name='s' type='slide' axis='1 1 0'/>{ball}"
        f"<body name='d' pos='0 .1 .3'><joint name='h' axis='0 1 1'/>{ball}</body></body></body></body>"
    )
    (tmp_path / "m.xml").write_text(f"<mujoco><worldbody>{tree}</worldbody></mujoco>")
    setup = parse_setup(
        {
            "wrench_sensor": [
                {"name": "floor", "frame": "sole"},
                {"name": "inner", "frame": "c", "at": "joint"},
                {"name": "outer", "frame": "d", "at": "joint"},
            ],
            "sole": [
                {"name": "one", "frame": "sole", "wrench": "floor", "vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 0]]}
            ],
        }
    )
    model = load_model(tmp_path / "m.xml", setup=setup)
    true = shaken(model, seed=47)
    motion = standing_motion(model, 100, seed=48, parameters=true)
    for weights in (None, "default"):
        evidence = gather_evidence(model, motion, weights=weights, torques=["*"], nuisance=())
        assert evidence.cost(true) < 1e-16 * evidence.cost(np.zeros_like(true))
        assert evidence.row_count == 100 * (18 + 5)
    zero = motion.q.copy()
    zero[2, :4] = 0.0
    with pytest.raises(MotionError, match="quaternion of ball joint 'b' is zero at sample 2"):
        gather_evidence(model, replace(motion, q=zero), nuisance=())


def test_more_bad_input_is_named(g1_motion, tmp_path) -> None:
    model, motion = g1_motion
    with pytest.raises(EvidenceError, match="unknown forces use up every row"):
        gather_evidence(model, motion, unknown_wrenches=["pelvis"], nuisance=())
    with pytest.raises(EvidenceError, match=r"torques is one text.*\['left_knee_joint'\]"):
        gather_evidence(model, motion, torques="left_knee_joint", nuisance=())
    with pytest.raises(EvidenceError, match="is a pair"):
        gather_evidence(model, motion, weights={"left_foot": 2.0}, nuisance=())
    with pytest.raises(EvidenceError, match="must be a positive number"):
        gather_evidence(model, motion, weights={"left_foot": "a"}, nuisance=())
    with pytest.raises(EvidenceError, match="prior of 'wrench_offset' is -1"):
        gather_evidence(model, motion, nuisance=["wrench_offset"], priors={"wrench_offset": -1.0})
    with pytest.raises(EvidenceError, match="workers is -1"):
        gather_evidence(model, motion, workers=-1, nuisance=())
    for nonsense in (None, 3, [{}]):
        with pytest.raises(EvidenceError, match="needed"):
            gather_evidence(model, nonsense, nuisance=())
    with pytest.raises(MotionError, match="not an array of real numbers"):
        replace(motion, q=motion.q + 1j)
    with pytest.raises(MotionError, match="bandwidth is -3"):
        replace(motion, bandwidth=-3.0)
    with pytest.raises(MotionError, match="increasing"):
        motion_from_generalized(model, np.zeros(3), *(np.zeros((3, n)) for n in (36, 35, 35)))
    with pytest.raises(EvidenceError, match="cannot be written"):
        gather_evidence(model, motion, nuisance=()).save(tmp_path / "nowhere" / "e.npz")
    with pytest.raises(ModelError, match="does not fit"):
        residuals(model, motion, np.zeros(10))
    soleless = load_model(path_of("talos"), setup=parse_setup({"wrench_sensor": [
        {"name": "s", "frame": "leg_left_6_link", "at": "joint"}]}))  # fmt: skip
    stood = standing_motion(load_model("talos"), 5, seed=1)
    with pytest.raises(EvidenceError, match="nothing says where talos touches the ground"):
        gather_evidence(soleless, replace(stood, wrenches={"s": stood.wrenches["left_foot"]}, contacts={}), nuisance=())


def test_blas_gets_its_threads_back(g1_motion) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_info

    model, motion = g1_motion

    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda part: gather_evidence(model, part, nuisance=()), motion.chunks(200)))
    assert threads() == before
    same(both[0] + both[1], gather_evidence(model, motion, nuisance=()))
