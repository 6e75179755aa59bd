"""Validation says what is so: of exact motions the exact truth, of parts the whole, of what nobody measured nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest

from steelyard import EvidenceError, ModelError, MotionError, gather_evidence, identify
from steelyard.exceptions import SolverError
from steelyard.model.setup import WRENCH_AXES
from steelyard.motion import reconstruct_motion
from steelyard.regression import Origin, residuals
from steelyard.regression.rows import base_wrench
from steelyard.validation import validate
from tests.laboratory.trials import robot, short_trial, with_torques
from tests.regression.motions import standing_motion
from tests.validation.stand_in import StandIn

STATISTICS = ("mean", "std", "rmse", "correlation", "nrmse", "r_squared")


def true_parameters(model, seed=3):
    """Gives parameters that differ from the model's by a fifth."""
    return model.parameters * np.random.default_rng(seed).uniform(0.8, 1.2, size=(len(model.links), 1))


def shaken(motion, seed, size=2.0):
    """Gives a motion whose wrenches and torques are off."""
    generator = np.random.default_rng(seed)
    return replace(
        motion,
        wrenches={
            name: values + size * generator.normal(size=values.shape) for name, values in motion.wrenches.items()
        },
        torques={name: values + size * generator.normal(size=values.shape) for name, values in motion.torques.items()},
    )


@pytest.mark.parametrize("name", ["g1", "talos", "icub", "romeo"])
def test_the_truth_predicts_exact_wrenches(name):
    model = robot(name)
    true = true_parameters(model)
    found = validate(StandIn(model, true), standing_motion(model, 60, 1, parameters=true), truth=true)
    assert np.all(found.rmse < 1e-8)
    np.testing.assert_allclose(found.correlation, 1.0, rtol=1e-9)
    np.testing.assert_array_equal(found.truth.rmse, found.rmse)
    assert np.all(found.reference.rmse > 0.1)
    # With sensors in the ankles or feet, the feet below them are not weighed.
    assert any(" links: those above" in note for note in found.notes) == (name in ("talos", "icub"))


def test_the_truth_predicts_what_perfect_sensors_saw():
    trial = short_trial("g1", "dance")
    motion = reconstruct_motion(trial.truth.model, trial.recording, base="imu")
    found = validate(StandIn(robot("g1"), trial.truth.parameters), motion, truth=trial.truth)
    assert np.all(found.rmse[:3] < 0.01)
    assert np.all(found.rmse[3:] < 0.005)
    assert np.all(found.correlation > 0.9999)
    assert found.improvement["corrected"]["total"].ratio < 0.05


@pytest.mark.parametrize("name", ["g1", "talos"])
def test_moments_agree_with_each_other_and_with_plain_numpy(name):
    model = robot(name)
    motion = shaken(standing_motion(model, 70, 2), 3)
    claimed = true_parameters(model)
    found = validate(StandIn(model, claimed, mass_scale=1.1), motion, truth=true_parameters(model, 9))
    candidates = [found.wrench.estimate, found.reference, found.corrected, found.truth]
    for fit in candidates:
        np.testing.assert_allclose(fit.rmse**2, fit.mean**2 + fit.std**2, rtol=1e-12)
    if name == "g1":
        predicted = base_wrench(model, motion, claimed)
        measured = predicted - residuals(model, motion, claimed)
        error = predicted - measured
        np.testing.assert_allclose(found.mean, error.mean(axis=0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.std, error.std(axis=0), rtol=1e-9)
        np.testing.assert_allclose(found.nrmse, found.rmse / np.ptp(measured, axis=0), rtol=1e-9)
        for axis in range(6):
            wanted = np.corrcoef(measured[:, axis], predicted[:, axis])[0, 1]
            np.testing.assert_allclose(found.correlation[axis], wanted, rtol=1e-9)
        scaled = base_wrench(model, motion, 1.1 * model.parameters) - measured
        np.testing.assert_allclose(found.corrected.rmse, np.sqrt(np.mean(scaled**2, axis=0)), rtol=1e-9)


@pytest.mark.parametrize("name", ["g1", "talos"])
def test_world_axes_have_the_norm_of_base_axes(name):
    model = robot(name)
    motion = shaken(standing_motion(model, 50, 4), 5)
    found = validate(StandIn(model, true_parameters(model)), motion)
    for fit, turned in ((found.wrench.estimate, found.world.estimate), (found.reference, found.world.reference)):
        for half in (slice(0, 3), slice(3, 6)):
            np.testing.assert_allclose(np.sum(fit.rmse[half] ** 2), np.sum(turned.rmse[half] ** 2), rtol=1e-12)
    still = validate(StandIn(model, true_parameters(model)), replace(motion, orientation=None))
    assert still.world is None
    np.testing.assert_array_equal(still.rmse, found.rmse)


def test_the_force_that_the_world_sees_is_the_weight():
    model = robot("g1")
    motion = standing_motion(model, 40, 6)
    calm = replace(
        motion,
        v=0.0 * motion.v,
        a=0.0 * motion.a,
        angular_velocity=0.0 * motion.angular_velocity,
        angular_acceleration=0.0 * motion.angular_acceleration,
    )
    up = short_up(motion.orientation)
    calm = replace(calm, proper_acceleration=9.81 * up)
    nothing = {name: np.zeros_like(values) for name, values in calm.wrenches.items()}
    found = validate(StandIn(model, model.parameters), replace(calm, wrenches=nothing))
    np.testing.assert_allclose(found.world.mean[:3], [0.0, 0.0, 9.81 * model.total_mass], atol=1e-9)


def short_up(orientation):
    """Gives the world's vertical in the base's axes."""
    x, y, z, w = orientation.T
    return np.stack([2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)], axis=1)


def test_parts_in_any_order_are_the_whole():
    model = with_torques("talos")
    motion = shaken(standing_motion(model, 90, 7), 8)
    claim = StandIn(model, true_parameters(model))
    whole = validate(claim, motion)
    cut = validate(claim, [motion.between(0, 31), motion.between(31, 90)])
    turned = validate(claim, iter([motion.between(31, 90), motion.between(0, 31)]))
    for parts in (cut, turned):
        assert parts.sample_count == 90
        for one, two in ((whole.wrench, parts.wrench), (whole.world, parts.world), (whole.torque, parts.torque)):
            for name in STATISTICS:
                np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-9)
                np.testing.assert_allclose(getattr(one.reference, name), getattr(two.reference, name), rtol=1e-9)
    # Pieces that follow each other are one stretch to the bootstrap, too.
    assert cut.improvement == whole.improvement
    np.testing.assert_allclose(cut.duration, whole.duration, rtol=1e-12)


@pytest.mark.parametrize("name", ["g1", "talos"])
def test_torques_are_predicted_whatever_the_sensors(name):
    # TALOS' ankle sensors are above the feet: the ground under them follows from the feet's own equations.
    model = with_torques(name)
    true = true_parameters(model)
    motion = standing_motion(model, 40, 9, parameters=true)
    found = validate(StandIn(model, true), motion)
    assert found.torque.rows == model.joints
    assert np.all(found.torque.rmse < 1e-7)
    assert np.all(found.torque.r_squared > 1.0 - 1e-12)
    knee = model.joints[3]
    assert found.torque[knee].rmse < 1e-7
    assert found.torque[knee].reference.rmse > 1e-2
    with pytest.raises(EvidenceError, match=r"nothing was validated on 'kne'"):
        found.torque["kne"]
    # Rows go by name, as in a dictionary.
    assert list(found.torque) == list(found.torque.keys()) == list(model.joints)
    assert len(found.torque) == len(model.joints)
    assert knee in found.torque
    assert "kne" not in found.torque
    for joint, errors in found.torque.items():
        assert errors.rmse == found.torque[joint].rmse == dict(found.torque)[joint].rmse == errors[joint].rmse
    assert [errors.rows for errors in found.torque.values()] == [(joint,) for joint in model.joints]
    assert dict(found.torque.by_candidate())["estimate"] is found.torque.estimate
    with pytest.raises(EvidenceError, match="rows go by name"):
        found.torque[0]


def test_friction_belongs_to_the_prediction_and_offsets_do_not():
    model = with_torques("g1")
    motion = standing_motion(model, 40, 10)
    joint = model.joints[3]
    rubbed = replace(motion, torques={**motion.torques, joint: motion.torques[joint] + 0.7 * np.sign(motion.v[:, 3])})
    values = {f"{joint}.coulomb_friction": 0.7, "right_foot.fz.offset": 5.0}
    claim = StandIn(model, model.parameters, nuisance=values)
    found = validate(claim, rubbed, zeroed=True)
    assert found.torque[joint].rmse < 1e-7
    assert np.all(found.rmse < 1e-8)
    assert found.zeroed
    assert any("offsets of the wrench sensors that fit it best on this recording" in note for note in found.notes)
    applied = validate(claim, rubbed, nuisance=["wrench_offset"])
    np.testing.assert_allclose(np.linalg.norm(applied.rmse[:3]), 5.0, rtol=1e-9)
    np.testing.assert_allclose(applied.torque[joint].rmse, 0.7, rtol=1e-6)
    with pytest.raises(EvidenceError, match=r"no nuisance 'rust'"):
        validate(claim, rubbed, nuisance=["rust"])


def test_what_is_not_measured_in_full_is_not_a_number():
    model = robot("g1")
    motion = shaken(standing_motion(model, 60, 11), 12)
    claim = StandIn(model, true_parameters(model), sensing={"withhold": ["*_foot.fx"]})
    found = validate(claim, motion, truth=model)
    assert np.all(np.isnan(found.rmse))
    assert np.all(np.isnan(found.reference.rmse))
    assert any("left_foot.fx" in note for note in found.notes)
    for candidate, parameters in (("estimate", claim.parameters), ("truth", model.parameters)):
        left = residuals(model, motion, parameters, withhold=["*_foot.fx"])
        np.testing.assert_allclose(found.projected[candidate], np.sqrt(np.sum(left**2) / (60 * 4)), rtol=1e-9)
    assert list(found.improvement["corrected"]) == ["projected"]
    # The estimate did without, but the validation need not.
    full = validate(claim, motion, withhold=())
    assert np.all(np.isfinite(full.rmse))
    assert full.projected == {}


def test_an_axis_that_unknown_forces_do_not_touch_is_kept():
    # With the base link on the sensor's own foot, a missing moment there hides that moment alone.
    model = robot("g1")
    motion = standing_motion(model, 30, 13)
    foot = "left_ankle_roll_link"
    at_foot = replace(motion, base=foot)
    found = validate(StandIn(model, model.parameters), at_foot, withhold=["left_foot.nz"])
    assert [axis for axis, value in zip(WRENCH_AXES, found.rmse, strict=True) if np.isnan(value)] == ["nz"]
    assert "total" in found.improvement["corrected"]


def test_an_unknown_wrench_hides_what_it_acts_on():
    model = with_torques("g1")
    found = validate(
        StandIn(model, model.parameters),
        standing_motion(model, 30, 14, hose=("left_wrist_yaw_link", np.array([3.0, 1.0, 2.0, 0.1, 0.2, 0.3]))),
        unknown_wrenches=["left_wrist_yaw_link"],
    )
    assert np.all(np.isnan(found.rmse))
    # The hose follows from the six equations of the whole; then even the torques behind it are predicted.
    assert np.all(found.torque.rmse < 1e-6)


def test_a_blind_robot_predicts_no_torques_behind_unknown_forces():
    model = with_torques("g1")
    found = validate(
        StandIn(model, model.parameters), standing_motion(model, 20, 15), withhold=["left_foot", "right_foot"]
    )
    legs = [number for number, joint in enumerate(model.joints) if "ankle" in joint or "knee" in joint]
    assert np.all(np.isnan(found.torque.rmse[legs]))
    arms = [number for number, joint in enumerate(model.joints) if "elbow" in joint]
    assert np.all(found.torque.rmse[arms] < 1e-7)
    assert any("cannot be predicted" in note for note in found.notes)


def test_the_reference_is_no_improvement_over_itself():
    model = robot("g1")
    found = validate(StandIn(model, model.parameters), shaken(standing_motion(model, 400, 16), 17))
    for gain in (*found.improvement["corrected"].values(), *found.improvement["reference"].values()):
        assert gain.verdict == "undecided"
        assert gain.ratio == gain.low == gain.high == 1.0


def test_better_is_real_and_worse_is_worse():
    model = robot("g1")
    true = true_parameters(model)
    motion = shaken(standing_motion(model, 300, 18, parameters=true), 19)
    good = validate(StandIn(model, true), motion).improvement["corrected"]["total"]
    assert good.verdict == "real"
    assert good.low < good.ratio < good.high < 1.0
    worse = model.with_parameters(true)
    bad = validate(StandIn(worse, 2.0 * model.parameters - true), motion).improvement["reference"]["total"]
    assert bad.verdict == "worse"


def test_a_short_motion_leaves_it_undecided_and_says_so():
    model = robot("g1")
    found = validate(StandIn(model, true_parameters(model)), standing_motion(model, 3, 20))
    assert {gain.verdict for gain in found.improvement["corrected"].values()} == {"undecided"}
    assert any("from chance" in note for note in found.notes)


def timed(motion, origin, start):
    return replace(motion, origin=origin, time=motion.time + start)


@pytest.mark.parametrize(
    ("start", "end", "shared", "kind"),
    [
        (0.0, 0.99, 0.99, "direct"),
        (0.5, 3.0, 0.49, "partly direct"),
        (2.0, 3.0, 0.0, "cross"),
        (-1.0, 0.0, 0.0, "cross"),
    ],
)
def test_shared_seconds_are_counted(start, end, shared, kind):
    model = robot("g1")
    motion = timed(standing_motion(model, 100, 21), "abc", 0.0)
    claim = StandIn(model, model.parameters, origins=(Origin("abc", start, end), Origin("other", 0.0, 9.0)))
    found = validate(claim, motion)
    np.testing.assert_allclose(found.shared, shared, atol=1e-9)
    assert found.kind == kind
    assert f": {kind}" in found.summary().splitlines()[0]
    assert any("good fit proves nothing" in note.replace("\n", " ") for note in found.notes) == (shared > 0.0)
    pieces = validate(claim, [motion.between(0, 40), motion.between(40, 100)])
    np.testing.assert_allclose(pieces.shared, shared, atol=1e-9)


def test_what_has_no_origin_is_said():
    model = robot("g1")
    motion = standing_motion(model, 20, 22)
    for claim, moved in (
        (StandIn(model, model.parameters), timed(motion, "abc", 0.0)),
        (StandIn(model, model.parameters, origins=(Origin("abc", 0.0, 1.0),)), timed(motion, "", 0.0)),
    ):
        found = validate(claim, moved)
        assert np.isnan(found.shared)
        assert any("cannot be detected" in note for note in found.notes)


def test_everything_can_be_told_in_text_and_json():
    model = with_torques("talos")
    true = true_parameters(model)
    motion = shaken(standing_motion(model, 120, 23, parameters=true), 24)
    found = validate(StandIn(model, true, mass_scale=1.02), motion, truth=true)
    text = found.summary()
    for words in ("mass-corrected CAD", "truth (floor)", "fx (N)", "nz (N m)", "world axes", "Joint torques", "[1] "):
        assert words in text
    assert max(len(line) for line in text.splitlines()) <= 100
    stored = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert stored["wrench"]["rows"] == list(WRENCH_AXES)
    np.testing.assert_allclose(stored["wrench"]["estimate"]["rmse"], found.rmse)
    assert stored["improvement"]["corrected"]["total"]["verdict"] in ("real", "worse", "undecided")


def test_misuse_is_refused_in_one_sentence():
    model, other = robot("g1"), robot("talos")
    motion = standing_motion(model, 10, 25)
    claim = StandIn(model, model.parameters)
    with pytest.raises(MotionError, match=r"the motion does not fit g1_29dof_rev_1_0, the estimate's model"):
        validate(claim, standing_motion(other, 10, 25))
    with pytest.raises(MotionError, match=r"motion number 2: its base link is 'torso_link'"):
        validate(claim, [motion, replace(motion, base="torso_link")])
    with pytest.raises(EvidenceError, match=r"left_foot and right_foot has no data"):
        validate(claim, replace(motion, wrenches={}))
    with pytest.raises(EvidenceError, match=r"a motion is needed, not int"):
        validate(claim, 3)
    with pytest.raises(EvidenceError, match=r"there is no motion"):
        validate(claim, [])
    with pytest.raises(EvidenceError, match=r"the level is 95"):
        validate(claim, motion, level=95)
    with pytest.raises(ModelError, match=r"30 links"):
        validate(claim, motion, truth=np.zeros((3, 10)))


def test_an_estimate_is_held_against_what_it_did_not_see():
    model = robot("g1")
    # The same true robot through two motions, by the same sensors.
    seen, unseen = (
        reconstruct_motion(model, short_trial("g1", name, noise="default").recording) for name in ("dance", "reach")
    )
    true = short_trial("g1", "dance", noise="default").truth
    estimate = identify(model, gather_evidence(model, seen, nuisance=()))
    direct, cross = validate(estimate, seen, truth=true), validate(estimate, unseen, truth=true)
    assert direct.kind == "direct"
    np.testing.assert_allclose(direct.shared, direct.duration, rtol=1e-9)
    assert cross.kind == "cross"
    assert cross.shared == 0.0
    assert cross.improvement["corrected"]["fz"].verdict == "real"
    # The sensors are off by the same offsets in both: the estimate has learned them, and that is said.
    assert any("learned errors" in note for note in cross.notes)


def test_a_failed_estimate_predicts_nothing():
    model = robot("g1")
    motion = reconstruct_motion(model, short_trial("g1", "dance", noise="default").recording)
    estimate = identify(model, gather_evidence(model, motion, nuisance=()))
    with pytest.raises(SolverError, match=r"this estimate failed"):
        validate(replace(estimate, status="failed"), motion)


def test_what_is_nearly_the_reference_is_no_improvement():
    model = robot("g1")
    true = true_parameters(model)
    motion = shaken(standing_motion(model, 200, 26, parameters=true), 27)
    # A millionth of the way to the truth: better at every moment, and of no use to anybody.
    near = model.parameters + 1e-6 * (true - model.parameters)
    found = validate(StandIn(model, near), motion)
    assert {gain.verdict for gain in found.improvement["reference"].values()} == {"undecided"}


def test_each_nuisance_is_left_out_for_its_own_reason():
    model = with_torques("g1")
    motion = standing_motion(model, 40, 28)
    joint = model.joints[3]
    values = {
        f"{joint}.{name}": 0.3
        for name in ("coulomb_friction", "torque_offset", "torque_ripple.sin2", "torque_ripple.cos5")
    }
    claim = StandIn(model, model.parameters, nuisance=values | {"right_foot.fz.offset": 5.0})
    wave = 0.3 * (np.sin(2.0 * motion.q[:, 3]) + np.cos(5.0 * motion.q[:, 3]))
    rippled = motion.torques[joint] + 0.3 * np.sign(motion.v[:, 3]) + wave
    found = validate(claim, replace(motion, torques={**motion.torques, joint: rippled}), zeroed=True)
    # Ripple and friction stay with the robot; offsets are those of this recording, none.
    assert found.torque[joint].rmse < 1e-7
    values = next(each for origin, each in found.sensor_errors.items() if not origin)["estimate"]
    assert abs(values[f"{joint}.torque_offset"]) < 1e-7
    assert abs(values["right_foot.fz.offset"]) < 1e-7
    bare = validate(claim, motion, nuisance=())
    assert not any("friction" in note and "recording" in note for note in bare.notes)
    assert any("coulomb friction" in note and "nuisance= asks" in note for note in bare.notes)


@pytest.fixture(scope="module")
def dancing():
    trial = short_trial("g1", "dance")
    return reconstruct_motion(trial.truth.model, trial.recording, base="imu"), trial.truth


def test_the_vertical_force_under_flat_feet_is_known_without_horizontal_ones(dancing):
    motion, truth = dancing
    claim = StandIn(robot("g1"), truth.parameters)
    full, found = validate(claim, motion), validate(claim, motion, withhold=["*_foot.fx", "*_foot.fy", "*_foot.nz"])
    assert np.all(np.isnan(found.rmse))
    known = [axis for axis, value in zip(WRENCH_AXES, found.world.rmse, strict=True) if np.isfinite(value)]
    assert known == ["fz"]
    # What the withheld forces add is that of a sole within a degree of flat.
    np.testing.assert_allclose(found.world.reference.mean[2], full.world.reference.mean[2], rtol=0.05)
    assert any("In world axes fz is known" in note for note in found.notes)
    (note,) = (each for each in found.notes if "not measured in full" in each)
    assert "left_foot.fx" in note
    assert "left_foot.fz" not in note
    # A tilted foot hides it.
    tilt = np.zeros_like(motion.q)
    tilt[:, list(robot("g1").joints).index("left_ankle_pitch_joint")] = 0.05
    tilted = validate(claim, replace(motion, q=motion.q + tilt), withhold=["*_foot.fx", "*_foot.fy"])
    assert np.isnan(tilted.world.rmse[2])


def test_only_forces_that_hide_something_are_blamed():
    # TALOS' soles stand below its ankle sensors: the ground there is unknown always, and hides nothing.
    model = with_torques("talos")
    found = validate(StandIn(model, model.parameters), standing_motion(model, 30, 29), withhold=["left_foot.fx"])
    (note,) = (each for each in found.notes if "not measured in full" in each)
    assert "(left_foot.fx unknown)" in note


def test_motions_at_several_rates_count_by_time_in_any_order():
    model = robot("g1")
    motion = shaken(standing_motion(model, 400, 30), 31)
    claim = StandIn(model, true_parameters(model))
    fine, coarse = timed(motion.between(0, 200), "abc", 0.0), timed(motion.between(200, 400).thinned(2), "def", 0.0)
    one, two = validate(claim, [fine, coarse]), validate(claim, [coarse, fine])
    assert (one.block, one.blocks) == (two.block, two.blocks)
    np.testing.assert_allclose(one.rmse, two.rmse, rtol=1e-12)
    for row, gain in one.improvement["reference"].items():
        np.testing.assert_allclose(gain.low, two.improvement["reference"][row].low, rtol=1e-9)
    alone = [validate(claim, each).rmse ** 2 for each in (fine, coarse)]
    # Two hundred steps and a hundred double ones: the same time.
    np.testing.assert_allclose(one.rmse**2, 0.5 * (alone[0] + alone[1]), rtol=1e-9)
    gain = one.improvement["reference"]["total"]
    np.testing.assert_allclose(gain.ratio, np.sqrt(np.sum(one.rmse**2) / np.sum(one.reference.rmse**2)), rtol=1e-9)


def test_a_motion_given_twice_is_no_more_evidence():
    model = robot("g1")
    motion = timed(shaken(standing_motion(model, 300, 32), 33), "abc", 0.0)
    claim = StandIn(model, true_parameters(model), origins=(Origin("abc", 0.0, 9.0),))
    once, twice = validate(claim, motion), validate(claim, [motion, motion])
    assert (once.block, once.blocks) == (twice.block, twice.blocks)
    for row, gain in once.improvement["reference"].items():
        np.testing.assert_allclose(gain.high, twice.improvement["reference"][row].high, rtol=1e-9)
    assert twice.kind == "direct"
    assert any(f"{motion.time[-1]:.2f} s of motion are given more than once" in note for note in twice.notes)
    assert not any("more than once" in note for note in once.notes)
    part = validate(claim, [motion.between(0, 200), motion.between(150, 300)])
    assert any("0.49 s of motion are given more than once" in note for note in part.notes)
    np.testing.assert_allclose(part.block * part.blocks, once.block * once.blocks, rtol=1e-9)


def test_the_rate_is_that_of_the_times():
    model = robot("g1")
    motion = shaken(standing_motion(model, 200, 34), 35)
    claim = StandIn(model, true_parameters(model))
    right = validate(claim, motion)
    wrong = validate(claim, replace(motion, sample_rate=motion.sample_rate / 7.0))
    assert (wrong.duration, wrong.block, wrong.blocks) == (right.duration, right.block, right.blocks)
    every = np.arange(200) % 2 == 0
    second = validate(claim, motion.where(every))
    np.testing.assert_allclose(second.duration, motion.time[198] - motion.time[0], rtol=1e-9)
    late = replace(motion, time=np.where(np.arange(200) < 90, motion.time, motion.time + 60.0))
    step = motion.time[1] - motion.time[0]
    np.testing.assert_allclose(validate(claim, late).duration, right.duration - step, rtol=1e-9)


@pytest.mark.parametrize("level", ["a", None, True, float("nan"), 0, 1])
def test_a_level_that_is_none_is_refused(level):
    model = robot("g1")
    with pytest.raises(EvidenceError, match=r"the level is"):
        validate(StandIn(model, model.parameters), standing_motion(model, 5, 36), level=level)


def test_large_numbers_keep_to_their_columns():
    model = robot("g1")
    motion = standing_motion(model, 100, 37)
    text = validate(StandIn(model, 600.0 * true_parameters(model)), shaken(motion, 38, size=0.1)).summary()
    rows = text[text.index("Is the estimate better") :].splitlines()[2:9]
    for row in rows:
        assert row.split()[0] in (*WRENCH_AXES, "total")
        assert len(row.split("worse")) == 3
        assert row.split("worse")[1].startswith("  ")
    assert max(len(line) for line in text.splitlines()) <= 88


def test_an_arm_without_wrench_sensors_is_told_so():
    model = with_torques("g1")
    found = validate(StandIn(model, model.parameters), standing_motion(model, 30, 39), withhold=["*_foot"])
    assert any("No wrench sensor is used: joint torques alone" in note for note in found.notes)
