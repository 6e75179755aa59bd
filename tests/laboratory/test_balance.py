"""Balance runs: a true model and perfect sensors leave next to nothing, a wrong one just what it is off by."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from steelyard.bounded_cache import BoundedCache
from steelyard.exceptions import LaboratoryError, MotionError
from steelyard.laboratory import Hose, balance, balance_control, simulate
from steelyard.laboratory.balance import simulate_balance, tracking_error
from steelyard.laboratory.balance_control import CONTROL_PERIOD, Controller
from steelyard.motion import GRAVITY
from steelyard.stance import plan_balance
from steelyard.stance.support import inside_margin
from tests.laboratory.trials import robot, short_trial

SHORT = 9.6


def perfect(name, seed=0):
    return short_trial(name, "sway", seed)


def noisy(name, seed=0):
    return perfect(name, seed).with_noise(seed, noise="default")


@cache
def run(name, believed, *, seed=0, sensors="default"):
    trial = noisy(name, seed) if sensors == "default" else perfect(name, seed)
    model = {"truth": trial.truth.model, "CAD": robot(name)}[believed]
    return simulate_balance(trial, model, seed=seed, duration=SHORT)


@pytest.mark.parametrize("name", ["g1", "talos"])
def test_the_true_model_with_perfect_sensors_leaves_next_to_nothing(name):
    result = run(name, "truth", sensors="perfect")
    assert result.events == ()
    # Half a millimetre is what a soft floor and a loop at 200 Hz leave of a sway of centimetres.
    assert result.com_error.rms < 0.5e-3
    assert result.com_error.greatest < 1e-3
    assert np.ptp(result.com_reference, axis=0).max() > 0.03
    # The pendulum's zero-moment point leaves out that arms and trunk turn.
    assert result.zmp_error.rms < 1.5e-3
    assert result.zmp_error.greatest < 4e-3


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_cad_leaves_more_than_the_truth(seed):
    cad, true = (run("g1", believed, seed=seed) for believed in ("CAD", "truth"))
    assert cad.com_error.rms > true.com_error.rms
    assert cad.zmp_error.rms > true.zmp_error.rms


def test_what_a_wrong_model_leaves_is_where_it_puts_the_centre_of_mass():
    """With perfect sensors the controller puts the centre of mass that it believes on the path, not the true one."""
    trial = perfect("g1")
    parameters = np.array(trial.truth.parameters)
    row = trial.truth.model.link_index("torso_link")
    mass, shift = parameters[row, 0], np.array([-0.03, 0.02])
    parameters[row, 1:3] += mass * shift
    second = 1e-3 * np.eye(3)  # a wider torso, so that it can exist
    parameters[row, 4:] += (np.trace(second) * np.eye(3) - second)[np.tril_indices(3)]
    believed = trial.truth.model.with_parameters(parameters)
    result = simulate_balance(trial, believed, duration=SHORT)
    # The root stands upright, and the torso turns about the waist only: at rest its axes are the world's.
    expected = -mass / trial.truth.model.total_mass * shift
    at_rest = slice(-100, None)
    error = (result.com - result.com_reference)[at_rest].mean(axis=0)
    np.testing.assert_allclose(error, expected, rtol=0.0, atol=0.5e-3)
    np.testing.assert_allclose(result.com_believed[at_rest], result.com_reference[at_rest], rtol=0.0, atol=0.5e-3)


def test_the_task_is_the_same_whatever_is_believed():
    cad, true = run("g1", "CAD"), run("g1", "truth")
    np.testing.assert_array_equal(cad.com_reference, true.com_reference)
    np.testing.assert_array_equal(cad.zmp_reference, true.zmp_reference)
    assert not np.array_equal(cad.com, true.com)


def test_the_reference_is_a_pendulum_inside_the_soles():
    task = plan_balance(robot("g1"), duration=SHORT)
    times = np.arange(0.0, task.duration, 1e-3)
    com, zmp = task.com(times), task.zmp(times)
    pull = np.gradient(np.gradient(com, times, axis=0), times, axis=0)
    np.testing.assert_allclose(pull[2:-2], (task.frequency**2 * (com - zmp))[2:-2], rtol=0.0, atol=2e-3)
    assert np.all(inside_margin(run("g1", "CAD").support, zmp) > 0.01)
    np.testing.assert_allclose(com[[0, -1]], zmp[[0, -1]], rtol=0.0, atol=1e-4)


def test_the_controller_knows_its_model_and_its_readings_alone(monkeypatch):
    """The same readings, given to a controller that never met the robot, give the same commands."""
    heard = []

    class Watched(Controller):
        def update(self, row, readings):
            told = super().update(row, readings)
            heard.append((row, readings, told))
            return told

    made = []

    def make(*arguments):
        made.append(arguments)
        return Watched(*arguments)

    monkeypatch.setattr(balance, "Controller", make)
    again = simulate_balance(noisy("g1"), robot("g1"), duration=SHORT)
    [(model, servo, task)] = made
    assert model is robot("g1")
    monkeypatch.setattr(balance_control, "_PLANS", BoundedCache(1))  # it plans for itself
    stranger = Controller(robot("g1"), servo, task)
    for row, readings, told in heard[:800]:
        np.testing.assert_array_equal(stranger.update(row, readings).positions, told.positions)
    # A run repeats itself.
    np.testing.assert_array_equal(again.com, run("g1", "CAD").com)
    np.testing.assert_array_equal(again.zmp, run("g1", "CAD").zmp)


def test_another_seed_is_another_task():
    tasks = [plan_balance(robot("g1"), seed=seed, duration=SHORT) for seed in (0, 1)]
    times = np.linspace(0.0, SHORT, 50)
    assert np.abs(tasks[0].com(times) - tasks[1].com(times)).max() > 0.01


def test_feedback_withstands_what_leans_on_the_robot(monkeypatch):
    """A steady pull moves the zero-moment point by ``F h / m g``, and not the centre of mass."""
    trial, hose = perfect("g1"), Hose(force=(12.0, 0.0, 0.0))
    rest = slice(-100, None)
    closed = simulate_balance(trial, trial.truth.model, duration=SHORT, hose=hose)
    weight = GRAVITY * trial.truth.model.total_mass
    height = plan_balance(robot("g1"), duration=SHORT).height
    moved = (closed.zmp - closed.com)[rest].mean(axis=0)
    np.testing.assert_allclose(moved, [12.0 * height / weight, 0.0], rtol=0.0, atol=0.3e-3)
    monkeypatch.setattr(balance_control, "ADMITTANCE", 0.0)
    open_loop = simulate_balance(trial, trial.truth.model, duration=SHORT, hose=hose)
    left, without = (np.linalg.norm((each.com - each.com_reference)[rest].mean(axis=0)) for each in (closed, open_loop))
    assert left < 0.5e-3
    assert without > 4.0 * left


def test_errors_are_those_of_plain_arithmetic():
    found = tracking_error(np.array([[3.0, 4.0], [0.0, 0.0]]), np.zeros((2, 2)))
    assert found.rms == pytest.approx(np.sqrt(12.5))
    assert found.greatest == 5.0
    np.testing.assert_allclose(found.mean, [1.5, 2.0], rtol=1e-12)
    assert found.rms**2 == pytest.approx(found.mean @ found.mean + found.moving**2)


def test_true_places_are_those_of_the_true_robot():
    """At rest the floor's centre of pressure is under the true centre of mass: nobody's model has a part in it."""
    for believed in ("truth", "CAD"):
        result = run("g1", believed, sensors="perfect")
        at_rest = slice(-40, None)
        np.testing.assert_allclose(
            result.zmp[at_rest].mean(axis=0), result.com[at_rest].mean(axis=0), rtol=0.0, atol=0.3e-3
        )


def test_what_calibration_leaves_goes_through_the_loop():
    """An encoder that is off, and known to be, is as good as one that is not; unknown, it costs millimetres."""
    offsets = {"left_hip_roll_joint": 0.02, "right_hip_roll_joint": 0.02, "waist_pitch_joint": 0.03}
    trial = simulate(robot("g1"), "sway", seed=0, noise=None, duration=6.0, offsets=offsets)
    known = simulate_balance(trial, trial.truth.model, duration=SHORT, offsets=trial.truth.offsets)
    np.testing.assert_allclose(known.com, run("g1", "truth", sensors="perfect").com, rtol=0.0, atol=1e-9)
    unknown = simulate_balance(trial, trial.truth.model, duration=SHORT)
    assert unknown.fall is not None or unknown.com_error.rms > 5.0 * known.com_error.rms


@pytest.mark.parametrize("mass", [4.0, 12.0])  # the first falls while it sways, the second as soon as it is let go
def test_a_fall_is_told_and_its_errors_are_none(mass):
    loaded = simulate(robot("g1"), "sway", seed=0, duration=6.0, payloads={"right_wrist_yaw_link": mass})
    result = simulate_balance(loaded, robot("g1"), duration=SHORT)
    assert result.fall is not None
    assert len(result.time) == len(result.com) == len(result.zmp) == len(result.com_reference)
    assert result.time[0] <= result.fall.start <= result.time[-1] + CONTROL_PERIOD
    assert "fell" in repr(result)
    with pytest.raises(LaboratoryError, match="the robot fell at"):
        _ = result.com_error
    told = result.to_dict()
    assert told["fell_at"] == result.fall.start
    assert told["com"] is None
    assert told["zmp"] is None


def test_numbers_for_machines():
    told = run("g1", "CAD").to_dict()
    assert told["fell_at"] is None
    assert told["com"]["rms_mm"] == pytest.approx(1e3 * run("g1", "CAD").com_error.rms)
    assert len(run("g1", "CAD").time) == round(SHORT / CONTROL_PERIOD) + 1


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"model": "talos"}, LaboratoryError, "other links or joints"),
        ({"duration": 2.0}, LaboratoryError, "at least"),
        ({"duration": "long"}, LaboratoryError, "duration"),
        ({"seed": -1}, LaboratoryError, "seed"),
        ({"offsets": {"left_kne_joint": 0.1}}, MotionError, "left_knee_joint"),
        ({"hose": 3.0}, LaboratoryError, "hose"),
    ],
)
def test_what_makes_no_sense_is_refused(change, error, words):
    arguments = {"duration": SHORT, **change}
    model = robot(arguments.pop("model", "g1"))
    with pytest.raises(error, match=words):
        simulate_balance(perfect("g1"), model, **arguments)


def test_figures_of_the_page_are_those_stored():
    root = Path(__file__).parents[2]
    stored = json.loads((root / "benchmarks" / "results" / "balance.json").read_text(encoding="utf-8"))
    values = {figure["what"]: figure["value"] for figure in stored["figures"]}
    assert all(figure["met"] for figure in stored["figures"])
    page = (root / "docs" / "balance.md").read_text(encoding="utf-8").partition("<!-- figures: balance -->")[2]
    rows = {
        "centre of mass, rms": "centre of mass, {}: rms mm, median",
        "of that, what": "centre of mass, {}: what does not last, rms mm, median",
        "zero-moment point, rms": "zero-moment point, {}: rms mm, median",
        "falls, of 20": "falls with {}, of 20",
    }
    for begin, what in rows.items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| {begin}"))
        shown = [float(cell) for cell in row.strip("| ").split("|")[1:]]
        assert shown == pytest.approx([values[what.format(who)] for who in ("CAD", "identified", "truth")], abs=5e-3)
    (ratio,) = [each for each in stored["figures"] if each["what"] == "centre of mass: identified over CAD, median"]
    better = values["centre of mass: robots better with the identified model, of 20"]
    fallen = values["falls with CAD, encoders as they are, of 20"]
    assert f"on all {better:.0f} robots" in page
    assert f"{ratio['note'].removeprefix('worst ')} of the CAD's" in page
    assert f"{fallen:.0f} of 20 fall" in page
