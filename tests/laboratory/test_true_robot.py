"""Payloads, encoder offsets and sensors change exactly what they should."""

from dataclasses import replace

import numpy as np
import pytest

from steelyard import LaboratoryError, Payload, RecordingError, Sensors, load_model
from steelyard.laboratory import DEFAULT_SENSORS, Instrument, simulate
from steelyard.laboratory.measuring import draw_biases, measure
from steelyard.laboratory.signals import ImuSignals, Signals
from steelyard.laboratory.true_robot import add_payloads, draw_offsets, draw_parameters
from steelyard.model.parameters import change_frame, from_mass_com_inertia, to_mass_com_inertia
from tests.laboratory.trials import robot, short_trial

MODEL = load_model("g1")
HAND = "right_wrist_yaw_link"


class TestPayloads:
    def test_a_payload_changes_the_truth_by_exactly_that_payload(self):
        bare = draw_parameters(MODEL, 0.2, np.random.default_rng(0))
        row = MODEL.link_index(HAND)
        com = to_mass_com_inertia(MODEL.parameters[row])[1]
        radius = (2.0 / 7850.0 * 0.75 / np.pi) ** (1.0 / 3.0)
        loaded = add_payloads(MODEL, bare, {HAND: 2.0})
        wanted = bare.copy()
        wanted[row] += from_mass_com_inertia(2.0, com, 0.4 * 2.0 * radius**2 * np.eye(3))
        np.testing.assert_array_equal(loaded, wanted)

    def test_in_a_trial_too(self):
        plain = simulate(robot("g1"), "sway", seed=3, duration=6.0)
        loaded = simulate(robot("g1"), "sway", seed=3, duration=6.0, payloads={"torso_link": 2.0, HAND: 0.5})
        change = loaded.truth.parameters - plain.truth.parameters
        assert loaded.truth.model.total_mass - plain.truth.model.total_mass == pytest.approx(2.5, abs=1e-12)
        moved = {link for link, row in zip(MODEL.links, change, strict=True) if np.any(row)}
        assert moved == {"torso_link", HAND}

    def test_on_a_frame_it_sits_at_the_frame_and_turns_with_it(self):
        shape = np.diag([0.01, 0.02, 0.025])
        payload = Payload(1.5, (0.1, 0.0, 0.02), shape)
        frame = MODEL.frame("imu_in_torso")
        row = MODEL.link_index("torso_link")
        bare = MODEL.parameters
        added = add_payloads(MODEL, bare, {"imu_in_torso": payload})[row] - bare[row]
        wanted = change_frame(
            from_mass_com_inertia(1.5, (0.1, 0.0, 0.02), shape), frame.placement.rotation, frame.placement.translation
        )
        np.testing.assert_allclose(added, wanted, atol=1e-14)

    @pytest.mark.parametrize(
        ("payloads", "message"),
        [
            ({HAND: -5.0}, "a payload of -5 kg on 'right_wrist_yaw_link' leaves no possible body .* weighs 0.2"),
            ({"right_wrist_yw_link": 1.0}, "no link or frame 'right_wrist_yw_link'.*'right_wrist_yaw_link'"),
            ({HAND: np.nan}, "is nan; give kilograms"),
            ({HAND: "two"}, "is 'two'; give kilograms"),
            (2.0, "payloads is 2.0; give kilograms by link"),
            ({3: 1.0}, "no link or frame 3"),
            ({HAND: Payload(1.0, (0, 0, 0), np.diag([1.0, 0.1, 0.1]))}, "not a possible body; check its inertia"),
        ],
    )
    def test_bad_payloads(self, payloads, message):
        with pytest.raises(LaboratoryError, match=message):
            add_payloads(MODEL, MODEL.parameters, payloads)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("2",), "the mass of a payload is '2'"),
            ((2.0, (0.0, 0.0)), "the position of a payload is"),
            ((2.0, (0.0, 0.0, 0.0), np.eye(2)), "the inertia of a payload is"),
        ],
    )
    def test_payloads_that_are_none(self, arguments, message):
        with pytest.raises(LaboratoryError, match=message):
            Payload(*arguments)

    def test_nothing_changes_nothing(self):
        np.testing.assert_array_equal(add_payloads(MODEL, MODEL.parameters, {HAND: 0.0}), MODEL.parameters)

    def test_some_may_be_taken_away(self):
        row = MODEL.link_index("torso_link")
        lighter = add_payloads(MODEL, MODEL.parameters, {"torso_link": -1.0})
        assert lighter[row, 0] == pytest.approx(MODEL.parameters[row, 0] - 1.0)


class TestOffsets:
    def test_readings_plus_offsets_are_the_true_angles_and_soles_stay_flat(self):
        trial = simulate(robot("g1"), "limp", seed=2, noise=None, offsets=np.deg2rad(5.0), duration=11.0)
        assert not trial.events
        sizes = np.abs(list(trial.truth.offsets.values()))
        assert np.max(sizes) <= np.deg2rad(5.0)
        assert np.max(sizes) > np.deg2rad(3.0)
        for number, joint in enumerate(trial.truth.model.joints):
            reading = trial.recording.column(f"q.{joint}") + trial.truth.offsets[joint]
            np.testing.assert_allclose(reading, trial.truth.states.q[::4, 7 + number], atol=1e-12)

    def test_they_can_be_given_by_joint(self):
        offsets = draw_offsets(MODEL, {"left_knee_joint": 0.03}, np.random.default_rng(0))
        assert offsets["left_knee_joint"] == 0.03
        assert sum(map(abs, offsets.values())) == 0.03

    @pytest.mark.parametrize(
        ("offsets", "message"),
        [
            ({"left_kne_joint": 0.1}, "no joint 'left_kne_joint' to offset.*'left_knee_joint'"),
            ({"left_knee_joint": np.inf}, "the offset of 'left_knee_joint' is inf"),
            (-0.1, "greatest encoder offset is -0.1"),
            ("big", "offsets is 'big'"),
        ],
    )
    def test_bad_offsets(self, offsets, message):
        with pytest.raises(LaboratoryError, match=message):
            draw_offsets(MODEL, offsets, np.random.default_rng(0))


def still_signals(seconds=100.0):
    """Gives what perfect sensors read on a robot whose knee turns evenly and whose feet carry 100 N each."""
    time = np.arange(0.0, seconds, 5e-4)
    positions = np.zeros((len(time), 29))
    positions[:, 3] = 0.01 * time
    turned = np.broadcast_to(np.eye(3), (len(time), 3, 3))
    imu = ImuSignals(np.zeros((len(time), 3)), np.tile([0.0, 0.0, 9.81], (len(time), 1)), turned)
    wrench = np.tile([0.0, 0.0, 100.0, 0.0, 0.0, 0.0], (len(time), 1))
    return Signals(
        time, positions, positions, {"pelvis": imu, "torso": imu}, {"left_foot": wrench, "right_foot": wrench}
    )


def read(sensors, column, *, biases=None, model=MODEL, signals=None):
    recording = measure(
        model,
        signals or still_signals(),
        sensors,
        offsets=dict.fromkeys(MODEL.joints, 0.0),
        biases=biases or {},
        seed=0,
        name="test",
    )
    return recording.column(column)


class TestSensors:
    def test_noise_has_its_size_and_is_white(self):
        noise = read(Sensors(force=Instrument(noise=0.5)), "left_foot.fz") - 100.0
        assert np.std(noise) == pytest.approx(0.5, rel=0.02)
        assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 0.02

    def test_wandering_noise_has_its_size_and_its_time(self):
        noise = read(Sensors(gyro=Instrument(noise=0.1, correlation=0.1)), "pelvis.gyro.x")
        assert np.std(noise) == pytest.approx(0.1, rel=0.1)
        assert np.corrcoef(noise[50:], noise[:-50])[0, 1] == pytest.approx(np.exp(-1.0), abs=0.1)

    def test_channels_have_their_own_noise_whatever_else_is_there(self):
        left = read(DEFAULT_SENSORS, "left_foot.fz")
        assert abs(np.corrcoef(left, read(DEFAULT_SENSORS, "right_foot.fz"))[0, 1]) < 0.02
        np.testing.assert_array_equal(left, read(DEFAULT_SENSORS.only("force"), "left_foot.fz"))

    def test_bias_and_resolution(self):
        sensors = Sensors(force=Instrument(resolution=0.25))
        reading = read(sensors, "left_foot.fz", biases={"left_foot.fz": 0.9})
        np.testing.assert_array_equal(reading, 101.0)

    def test_a_sensor_on_the_environment_has_the_other_sign(self):
        turned = tuple(replace(sensor, sign="on_environment") for sensor in MODEL.setup.wrench_sensors)
        model = load_model(MODEL.description.file.path, setup=replace(MODEL.setup, wrench_sensors=turned))
        np.testing.assert_array_equal(read(Sensors(), "left_foot.fz", model=model), -100.0)

    def test_biases_belong_to_the_robot_and_have_their_size(self):
        sensors = Sensors(force=Instrument(bias=2.0), gyro=Instrument(bias=0.01), mounting=Instrument(bias=0.001))
        drawn = [draw_biases(MODEL, sensors, seed) for seed in range(300)]
        assert set(drawn[0]) == {
            *(f"{foot}_foot.f{axis}" for foot in ("left", "right") for axis in "xyz"),
            *(f"{imu}.{kind}.{axis}" for imu in ("pelvis", "torso") for kind in ("gyro", "mounting") for axis in "xyz"),
        }
        assert np.std([biases["left_foot.fz"] for biases in drawn]) == pytest.approx(2.0, rel=0.12)
        assert np.std([biases["torso.mounting.y"] for biases in drawn]) == pytest.approx(0.001, rel=0.12)
        assert drawn[3] == draw_biases(MODEL, sensors, 3)

    def test_torque_noise_is_a_share_of_the_joints_range(self):
        signals = still_signals()
        signals.torques["left_knee_joint"] = np.full(len(signals.time), 10.0)
        sensors = Sensors(torque=Instrument(noise=0.01))
        noise = read(sensors, "tau.left_knee_joint", signals=signals) - 10.0
        assert np.std(noise) == pytest.approx(1.39, rel=0.02)

    def test_orientation_has_its_noise_and_its_rate(self):
        sensors = Sensors(orientation=Instrument(noise=0.01, rate=250.0))
        angle = 2.0 * read(sensors, "pelvis.quat.x")
        assert np.array_equal(np.flatnonzero(np.isfinite(angle)), np.arange(0, len(angle), 2))
        assert np.nanstd(angle) == pytest.approx(0.01, rel=0.02)

    def test_a_delay_reads_the_past(self):
        late = read(Sensors(encoder=Instrument(delay=0.012)), "q.left_knee_joint")
        time = np.arange(len(late)) / 500.0
        np.testing.assert_allclose(late[10:], 0.01 * (time[10:] - 0.012), atol=1e-12)

    def test_a_slow_sensor_leaves_gaps(self):
        slow = read(Sensors(force=Instrument(rate=100.0)), "left_foot.fz")
        assert np.array_equal(np.flatnonzero(np.isfinite(slow)), np.arange(0, len(slow), 5))

    def test_a_sensor_without_horizontal_forces_is_a_balance_board(self):
        boards = tuple(replace(sensor, axes=("fz", "nx", "ny")) for sensor in MODEL.setup.wrench_sensors)
        model = load_model(MODEL.description.file.path, setup=replace(MODEL.setup, wrench_sensors=boards))
        sensors = Sensors(board_force=Instrument(noise=2.0), force=Instrument(noise=100.0))
        assert np.std(read(sensors, "left_foot.fz", model=model)) == pytest.approx(2.0, rel=0.05)
        with pytest.raises(RecordingError, match=r"left_foot\.fx"):
            read(sensors, "left_foot.fx", model=model)

    def test_mounting_turns_all_axes_of_the_inertial_sensor(self):
        turned = {"pelvis.mounting.x": 0.01}
        pull = read(Sensors(), "pelvis.accel.y", biases=turned)
        np.testing.assert_allclose(pull, 9.81 * np.sin(0.01), rtol=1e-12)
        quaternion = read(Sensors(), "pelvis.quat.x", biases=turned)
        np.testing.assert_allclose(quaternion, np.sin(0.005), rtol=1e-12)

    def test_orientation_follows_the_root(self):
        trial = short_trial("g1", "sway")
        quaternion = np.stack([trial.recording.column(f"pelvis.quat.{axis}") for axis in "xyzw"], axis=1)
        np.testing.assert_allclose(np.linalg.norm(quaternion, axis=1), 1.0, atol=1e-12)
        # G1's pelvis sensor is parallel to its pelvis.
        dot = np.abs(np.einsum("ni,ni->n", quaternion, trial.truth.states.q[::4, 3:7]))
        np.testing.assert_allclose(dot, 1.0, atol=1e-9)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Instrument(noise=-1.0), "the noise of a sensor is -1.0"),
            (lambda: Instrument(delay=np.nan), "the delay of a sensor is nan"),
            (lambda: Instrument(rate=0.0), "the rate of a sensor is zero"),
            (lambda: Sensors(rate=0.0), "rate of the recording is 0.0"),
            (lambda: Sensors(gyro=Instrument(rate=333.0)), "the rate of the gyro, 333 Hz, does not divide"),
            (lambda: Sensors(encoder=Instrument(bias=0.1)), "encoders have offsets instead of a bias"),
            (lambda: Sensors(mounting=Instrument(noise=0.1)), "the mounting of a sensor has a bias, but no noise"),
            (lambda: Sensors(gyro=0.1), "the sensor 'gyro' is 0.1; give an Instrument"),
            (lambda: DEFAULT_SENSORS.only("gyrp"), "no sensor 'gyrp'.*'gyro'"),
        ],
    )
    def test_bad_sensors(self, make, message):
        with pytest.raises(LaboratoryError, match=message):
            make()
