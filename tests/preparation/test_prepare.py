"""Preparation: the same files give the same Evidence, whichever way they came in."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import steelyard as sy
from steelyard.exceptions import EvidenceError, MotionError, RecordingError
from tests.laboratory.trials import robot


@cache
def trial(motion: str, seed: int = 3):
    return sy.simulate(robot("g1"), motion, seed=seed, duration=16.0)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recordings")
    for motion in ("dance", "sway"):
        trial(motion).recording.write(folder / f"{motion}.csv")
    return [folder / "dance.csv", folder / "sway.csv"]


@pytest.fixture(scope="module")
def prepared(files):
    return sy.prepare(robot("g1"), files)


def gram(evidence) -> np.ndarray:
    return evidence.full_factor.T @ evidence.full_factor


def test_choices_are_made_and_said(prepared) -> None:
    assert prepared.base == "imu"
    assert prepared.imu == "pelvis"
    assert prepared.nuisance == ("wrench_offset", "accelerometer_bias", "imu_mounting", "gyro_bias")
    assert (
        "estimated beside the parameters: offsets of the wrench sensors, bias of the accelerometer and bias of the "
        "gyroscope (for each recording by itself); mounting angles of the inertial sensor"
    ) in prepared.remarks
    assert {each.name for each in prepared.recordings} == {"dance.csv", "sway.csv"}
    assert all(each.cutoff >= 2.0 for each in prepared.recordings)
    assert all(0.01 < each.noise["left_foot.fx"] < 2.0 for each in prepared.recordings)
    text = "\n".join(prepared.remarks)
    for words in ("dance.csv: all channels pass", "sway.csv: all channels pass", "IMU 'pelvis'"):
        assert words in text


def test_the_order_of_recordings_does_not_matter(files, prepared) -> None:
    turned = sy.prepare(robot("g1"), files[::-1])
    assert turned.sha256 == prepared.sha256
    assert turned.remarks == prepared.remarks
    np.testing.assert_array_equal(gram(turned.gather()), gram(prepared.gather()))


def test_parts_gathered_elsewhere_add_to_the_whole(files, prepared, tmp_path) -> None:
    """As in two processes that share nothing but the saved Preparation and the files."""
    prepared.save(tmp_path / "preparation.json")
    parts = []
    for path in files[::-1]:
        loaded = sy.load_preparation(tmp_path / "preparation.json", robot("g1"))
        assert loaded.sha256 == prepared.sha256
        loaded.gather(path).save(tmp_path / "part.npz")
        parts.append(sy.load_evidence(tmp_path / "part.npz"))
    whole = prepared.gather()
    np.testing.assert_allclose(gram(sum(parts)), gram(whole), rtol=0.0, atol=1e-12 * np.abs(gram(whole)).max())
    assert replace(sum(parts).key, weights=()) == replace(whole.key, weights=())
    assert sum(parts).key.weights == pytest.approx(whole.key.weights)
    one, two = (sy.identify(robot("g1"), each) for each in (sum(parts), whole))
    scale = np.linalg.norm(two.parameters, axis=0)
    assert np.max(np.abs(one.parameters - two.parameters) / scale) < 1e-9


def test_paths_and_recordings_give_the_same(files, prepared) -> None:
    opened = sy.prepare(robot("g1"), (sy.read_recording(path, robot("g1")) for path in files))
    assert opened.sha256 == prepared.sha256
    np.testing.assert_array_equal(gram(opened.gather()), gram(prepared.gather()))


def test_one_recording_is_its_part(files, prepared) -> None:
    whole, parts = prepared.gather(), [prepared.gather(path) for path in files]
    assert whole.sample_count == sum(each.sample_count for each in parts)
    np.testing.assert_allclose(gram(sum(parts)), gram(whole), rtol=0.0, atol=1e-12 * np.abs(gram(whole)).max())


def test_it_is_what_the_steps_one_by_one_give(files) -> None:
    model = robot("g1")
    asked = {"delays": None, "noise": "default", "nuisance": ("wrench_offset",), "cutoff": 5.0}
    evidence = sy.prepare(model, files[0], **asked).gather()
    motion = sy.reconstruct_motion(model, sy.read_recording(files[0], model), cutoff=5.0)
    steps = sy.gather_evidence(model, motion, nuisance=["wrench_offset"])
    np.testing.assert_allclose(gram(evidence), gram(steps), rtol=0.0, atol=1e-9 * np.abs(gram(steps)).max())


def test_offsets_and_delays_arrive(files) -> None:
    model = robot("g1")
    plain = sy.prepare(model, files[0], delays=None, noise="default", nuisance=())
    moved = sy.prepare(model, files[0], delays=None, noise="default", nuisance=(), offsets={"left_knee_joint": 0.1})
    place = model.joints.index("left_knee_joint")
    one, two = (np.concatenate([piece.q for piece in each.motions(files[0])]) for each in (plain, moved))
    count = min(len(one), len(two))
    np.testing.assert_allclose(two[:count, place] - one[:count, place], 0.1, atol=1e-6)
    late = sy.prepare(model, files[0], delays={"left_foot": 0.02}, noise="default", nuisance=())
    assert late.delays == {"left_foot": 0.02}
    assert late.key != plain.key
    with pytest.raises(EvidenceError, match="different preparation"):
        late.gather() + sy.prepare(model, files[1], delays=None, noise="default", nuisance=()).gather()


def test_a_late_sensor_is_found_from_all_recordings(files) -> None:
    model = robot("g1")
    late = [sy.read_recording(path, model).without_delays({"left_foot": -0.012}) for path in files]
    late = [replace(each, identity=None) for each in late]
    prepared = sy.prepare(model, late, noise="default")
    assert prepared.delays["left_foot"] == pytest.approx(0.012, abs=0.003)
    assert any("left_foot is" in remark and "late" in remark for remark in prepared.remarks)
    assert "left_foot" not in sy.prepare(model, late, noise="default", delays=None).delays


def test_short_recordings_take_the_noise_of_the_others(files) -> None:
    model = robot("g1")
    short = sy.read_recording(files[1], model).between(0.0, 3.0)
    prepared = sy.prepare(model, [files[0], replace(short, name="short", identity=None)])
    by_name = {each.name: each for each in prepared.recordings}
    assert by_name["short"].noise is None
    assert prepared.noise == by_name["dance.csv"].noise
    assert prepared.gather().key.weights


def test_a_fixed_arm_has_no_base_to_choose() -> None:
    model = sy.load_model("g1")
    prepared = sy.prepare(model, trial("dance").recording, noise=None, nuisance=(), delays=None)
    assert prepared.noise is None
    assert not prepared.gather().key.weights


def test_mistakes_are_named(files, prepared, tmp_path) -> None:
    model = robot("g1")
    with pytest.raises(RecordingError, match="no recordings to prepare"):
        sy.prepare(model, [])
    with pytest.raises(RecordingError, match=r"dance\.csv is given twice"):
        sy.prepare(model, [files[0], files[0]])
    with pytest.raises(RecordingError, match="no file"):
        sy.prepare(model, tmp_path / "missing.csv")
    with pytest.raises(RecordingError, match="needed, not a int"):
        sy.prepare(model, [3])
    with pytest.raises(MotionError, match="no joint"):
        sy.prepare(model, files[0], offsets={"left_kne_joint": 0.1})
    with pytest.raises(EvidenceError, match="noise is 'loud'"):
        sy.prepare(model, files[0], noise="loud")
    prepared.save(tmp_path / "preparation.json")
    with pytest.raises(RecordingError, match="another model than"):
        sy.load_preparation(tmp_path / "preparation.json", robot("talos"))
    other = sy.load_model(model.description.file.path, setup=replace(model.setup, wrench_sensors=()))
    with pytest.raises(RecordingError, match="other sensors than"):
        sy.load_preparation(tmp_path / "preparation.json", other)
    plain = json.loads((tmp_path / "preparation.json").read_text())
    for text, message in (
        ("{", "not a preparation"),
        ("[]", "not a preparation"),
        (json.dumps({**plain, "format": 99}), "has the layout 99"),
        (json.dumps({**plain, "recordings": [{"name": "x"}]}), "not a whole preparation"),
    ):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(RecordingError, match=message):
            sy.load_preparation(tmp_path / "bad.json", model)


def test_a_file_that_changed_is_refused(files, tmp_path) -> None:
    model = robot("g1")
    path = tmp_path / "dance.csv"
    path.write_bytes(files[0].read_bytes())
    sy.prepare(model, path, delays=None, noise="default").save(tmp_path / "preparation.json")
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-5]) + "\n")
    loaded = sy.load_preparation(tmp_path / "preparation.json", model)
    with pytest.raises(RecordingError, match=r"dance\.csv changed since it was prepared"):
        loaded.gather()


def test_a_glitch_is_masked_named_and_moves_no_mass(files, prepared, tmp_path) -> None:
    """In a prepared recording, and in one beside it."""
    model, recording = robot("g1"), trial("dance").recording
    values = dict(recording.values)
    values["q.left_knee_joint"] = np.array(values["q.left_knee_joint"])
    values["q.left_knee_joint"][3000:3010] += 0.3
    values["right_foot.nx"] = np.array(values["right_foot.nx"])
    values["right_foot.nx"][5000] += 40.0
    sy.Recording(recording.time, values).write(tmp_path / "dance.csv")
    damaged = sy.prepare(model, tmp_path / "dance.csv")
    for words in (
        "q.left_knee_joint jumps by up to 0.3",
        "right_foot.nx jumps by up to 40 and back for 1 reading from 10.000 s on: masked",
    ):
        assert any(remark.startswith("dance.csv: ") and words in remark for remark in damaged.remarks)
    clean = sy.prepare(model, files[0])
    assert not any(remark.endswith(": masked") for remark in clean.remarks)
    right, found, believed = (
        sy.identify(model, each.gather())
        for each in (clean, damaged, sy.prepare(model, tmp_path / "dance.csv", mask=False))
    )
    errors = np.sqrt(np.diag(right.covariance))[::10]
    moved, moved_unmasked = (
        np.max(np.abs(each.parameters[:, 0] - right.parameters[:, 0]) / errors) for each in (found, believed)
    )
    assert moved < 0.05
    assert moved_unmasked > 0.3
    beside = prepared.open(tmp_path / "dance.csv")
    assert "q.left_knee_joint jumps" in beside.aligned.notes[0]
    assert np.ptp(np.diff(beside.aligned.column("q.left_knee_joint"))) < 0.1


def test_whether_outliers_are_masked_is_a_choice_that_is_saved(files, tmp_path) -> None:
    chosen = sy.prepare(robot("g1"), files[0], mask=False)
    assert not chosen.masked
    chosen.save(tmp_path / "preparation.json")
    assert not sy.load_preparation(tmp_path / "preparation.json", robot("g1")).masked
    assert replace(chosen, masked=True).key != chosen.key
