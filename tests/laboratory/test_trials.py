"""What goes wrong in a trial is told, with its time; what cannot be done is refused in one sentence."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from steelyard import LaboratoryError, Payload, Setup, StanceError, Trajectory, load_model
from steelyard.laboratory import MOTIONS, plan_motion, plan_postures, simulate
from steelyard.stance.collision import joint_ranges
from steelyard.stance.postures import PostureTarget, describe_posture, solve_posture
from steelyard.stance.standing import stand_up
from tests.laboratory.trials import ROBOTS, robot, short_trial


def moved(joint, way, *, seconds=3.0):
    """Gives a trajectory of G1 in which one joint goes `way` radians from home, in half of the time, and stays."""
    standing = stand_up(robot("g1"))
    joints = standing.footing.model.joints
    time = np.arange(0.0, seconds + 0.01, 0.05)
    share = np.clip(2.0 * time / seconds, 0.0, 1.0)
    positions = np.tile(standing.home[7:], (len(time), 1))
    positions[:, joints.index(joint)] += way * share**3 * (10.0 - 15.0 * share + 6.0 * share**2)
    return Trajectory(f"move {joint}", time, joints, positions)


def leaning(distance, *, seconds=3.0):
    """Gives a trajectory of G1 that takes its centre of mass forward by a distance (m)."""
    standing = stand_up(robot("g1"))
    time = np.arange(0.0, seconds + 0.01, 0.05)
    share = np.clip(1.5 * time / seconds, 0.0, 1.0)
    path, q = [], standing.home
    for lean in share**3 * (10.0 - 15.0 * share + 6.0 * share**2):
        com = standing.target.com + distance * lean * standing.footing.forward
        posture = solve_posture(
            standing.footing, PostureTarget(standing.target.upper, com, standing.target.height, standing.target.tilt), q
        )
        assert posture.stands
        q = posture.q
        path.append(q[7:])
    return Trajectory("lean", time, standing.footing.model.joints, np.array(path))


class TestEvents:
    def test_a_fallen_robots_data_are_never_good(self):
        trial = simulate(robot("g1"), leaning(0.16), noise=None)
        fall = next(event for event in trial.events if event.kind == "fall")
        assert trial.fell
        assert 0.5 < fall.start < 3.0
        assert any(event.kind == "tilt" and event.start < fall.start for event in trial.events)
        with pytest.raises(LaboratoryError, match=rf"the robot fell at {fall.start:.2f} s .*choose another motion"):
            trial.recording  # noqa: B018
        with pytest.raises(LaboratoryError, match="the robot fell"):
            trial.with_noise(1).recording  # noqa: B018

    def test_a_robot_in_mid_fall_has_fallen(self):
        whole = leaning(0.16)
        rows = int(np.searchsorted(whole.time, 1.95))
        cut = Trajectory("cut", whole.time[:rows], whole.joints, whole.positions[:rows])
        trial = simulate(robot("g1"), cut, noise=None)
        assert trial.fell

    def test_standing_is_no_event(self):
        trial = simulate(robot("g1"), leaning(0.03), noise=None, spread=0.0)
        assert trial.events == ()

    def test_self_contact_is_told(self):
        trial = simulate(robot("g1"), moved("left_shoulder_roll_joint", -0.9), noise=None, spread=0.0)
        touches = [event for event in trial.events if event.kind == "self-contact"]
        assert touches
        assert touches[0].start < 1.6

    def test_a_joint_at_its_limit_is_told(self):
        model = robot("g1")
        way = model.joint("waist_yaw_joint").upper - stand_up(model).home[7 + model.joints.index("waist_yaw_joint")]
        trial = simulate(model, moved("waist_yaw_joint", way), noise=None, spread=0.0)
        assert any(event.kind == "joint limit" and event.name == "waist_yaw_joint" for event in trial.events)

    def test_a_servo_at_its_limit_is_told(self):
        # G1's wrist holds 5 N m; this needs nearly 9.
        stick = Payload(3.0, (0.3, 0.0, 0.0))
        trial = simulate(robot("g1"), leaning(0.0), noise=None, payloads={"left_wrist_yaw_link": stick})
        assert any(event.kind == "torque limit" and event.name == "left_wrist_pitch_joint" for event in trial.events)
        assert "times its" in str(next(event for event in trial.events if event.kind == "torque limit"))

    def test_a_slipping_sole_is_told(self, monkeypatch):
        monkeypatch.setattr("steelyard.laboratory.world.FRICTION", 0.002)
        trial = simulate(robot("g1"), leaning(0.05), noise=None)
        assert any(event.kind == "slip" for event in trial.events)


class TestMotions:
    @pytest.mark.parametrize("name", ROBOTS)
    def test_a_dance_moves_everything(self, name):
        standing = stand_up(robot(name))
        trajectory = plan_motion(robot(name), "dance", seed=0, duration=30.0)
        footing = standing.footing
        lower, upper = joint_ranges(footing.model)
        share = np.ptp(trajectory.positions, axis=0) / (upper - lower)
        assert np.all(share[footing.upper_columns] > 0.4)
        com = [describe_posture(footing, positions).com @ footing.lateral for positions in trajectory.positions[::5]]
        assert np.ptp(com) > 0.05
        assert trajectory.duration == pytest.approx(30.0)

    def test_postures_are_held(self):
        trial = short_trial("g1", "postures")
        holds = trial.trajectory.holds
        assert len(holds) == 2
        assert holds[0][1] - holds[0][0] == pytest.approx(2.1, abs=0.1)
        time = trial.truth.states.time
        for start, end in holds:
            # After half a second the robot has come to rest.
            still = (time > start + 0.5) & (time < end)
            assert np.max(np.abs(trial.truth.states.v[still])) < 5e-3

    def test_given_postures_are_visited_in_turn(self):
        model = robot("g1")
        standing = stand_up(model)
        target = standing.target
        postures = []
        for side in (-1.0, 1.0):
            com = target.com + 0.04 * side * standing.footing.lateral
            postures.append(
                solve_posture(
                    standing.footing, PostureTarget(target.upper, com, target.height - 0.03, target.tilt), standing.home
                ).q[7:]
            )
        trajectory = plan_postures(model, postures, hold=1.0, move=1.5)
        for posture in postures:
            assert np.min(np.max(np.abs(trajectory.positions - posture), axis=1)) < 1e-5
        assert len(trajectory.holds) >= 2
        assert min(end - start for start, end in trajectory.holds[:2]) >= 0.9
        with pytest.raises(StanceError, match=r"posture 0 is not flat-footed: the sole 'right' would be 18.4 mm"):
            plan_postures(model, [postures[0] + 0.05])
        with pytest.raises(LaboratoryError, match=r"postures have the shape \(1, 3\)"):
            plan_postures(model, [[0.0, 1.0, 2.0]])
        with pytest.raises(LaboratoryError, match="hold for 0 s or more"):
            plan_postures(model, postures, hold=-1.0)

    def test_motions_differ_by_seed_and_only_by_seed(self):
        model = robot("g1")
        first = plan_motion(model, "sway", seed=1, duration=6.0)
        again = plan_motion(load_model("g1"), "sway", seed=1, duration=6.0)
        other = plan_motion(model, "sway", seed=2, duration=6.0)
        np.testing.assert_array_equal(first.positions, again.positions)
        assert not np.allclose(first.positions, other.positions)

    def test_limp_is_slow(self):
        limp, sway = (short_trial("g1", motion).trajectory.positions for motion in ("limp", "sway"))
        assert 0.0 < np.max(np.abs(np.diff(limp, 2, axis=0))) < 0.5 * np.max(np.abs(np.diff(sway, 2, axis=0)))


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"motion": "danse"}, "no motion 'danse'.*'dance'"),
            ({"motion": ["dance"]}, r"no motion \['dance'\]"),
            ({"motion": "dance", "noise": np.zeros(3)}, "noise is array"),
            ({"motion": "dance", "duration": 0.0}, "the duration is 0.0; 'dance' takes 6.4 s at least"),
            ({"motion": "dance", "duration": float("nan")}, "the duration is nan"),
            ({"motion": "dance", "duration": "long"}, "the duration is 'long'"),
            ({"motion": "dance", "seed": -1}, "the seed is -1"),
            ({"motion": "dance", "seed": 1.5}, "the seed is 1.5"),
            ({"motion": "dance", "spread": 3.0}, "the spread is 3.0; give a share from 0 to 0.5"),
            ({"motion": "dance", "noise": "loud"}, "noise is 'loud'"),
        ],
    )
    def test_arguments_that_make_no_sense(self, arguments, message):
        with pytest.raises(LaboratoryError, match=message):
            simulate(robot("g1"), **arguments)

    def test_a_model_that_is_none(self):
        with pytest.raises(LaboratoryError, match="the model is 'g1'; load it first"):
            simulate("g1", "dance")

    def test_a_sensor_that_no_sole_names(self):
        model = robot("g1")
        soles = tuple(replace(sole, wrench=None) for sole in model.setup.soles)
        odd = load_model(model.description.file.path, setup=replace(model.setup, soles=soles))
        with pytest.raises(LaboratoryError, match="no sole stands on the wrench sensor 'left_foot'"):
            simulate(odd, "dance")

    def test_a_trajectory_has_its_own_duration(self):
        with pytest.raises(LaboratoryError, match="leave the duration out"):
            simulate(robot("g1"), leaning(0.0), duration=3.0)

    def test_a_model_without_soles(self):
        bare = load_model(robot("g1").description.file.path, setup=Setup())
        with pytest.raises(StanceError, match="no soles to stand on"):
            simulate(bare, "dance")

    def test_a_payload_that_leaves_nothing(self):
        with pytest.raises(LaboratoryError, match="leaves no possible body"):
            simulate(robot("g1"), "dance", payloads={"head_link": -50.0})

    def test_motions_are_named(self):
        assert MOTIONS == ("sway", "reach", "dance", "postures", "limp")


def test_without_mujoco_the_rest_still_works():
    program = (
        "import sys; sys.modules['mujoco'] = None\n"
        "import steelyard\n"
        "try:\n    steelyard.simulate\n"
        "except steelyard.LaboratoryError as error:\n    print(error)\n"
    )
    program += "print(hasattr(steelyard, 'simulate'))\nfrom steelyard import *\n"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "False"
    assert 'pip install "steelyard[lab]"' in answer.stdout


def test_a_contact_sheet_shows_the_robot(tmp_path):
    program = (
        "import os, sys; os.environ.setdefault('MUJOCO_GL', 'egl')\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from steelyard import LaboratoryError, load_model, simulate\n"
        "from benchmarks.contact_sheet import draw_contact_sheet\n"
        "trial = simulate(load_model('g1'), 'sway', duration=6.0)\n"
        "try:\n    draw_contact_sheet(trial, 'sheet.png', count=2, columns=2)\n"
        "except LaboratoryError as error:\n    print(error)\n"
        "else:\n    print('drawn')\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    if "nothing to draw with" in answer.stdout:
        pytest.skip("this machine has no EGL to draw with")
    assert answer.stdout.strip() == "drawn", answer.stderr
    picture = np.asarray(Image.open(tmp_path / "sheet.png"), dtype=np.float64)
    assert picture.shape == (380, 600, 3)
    # Blue legs and orange soles are there.
    assert np.sum(picture[..., 2] > picture[..., 0] + 40.0) > 1000
    assert np.sum(picture[..., 0] > picture[..., 2] + 80.0) > 100
