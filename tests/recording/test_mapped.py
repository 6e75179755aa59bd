"""The setup's map and delays are applied to a recording once, however often it is written and read."""

import warnings

import numpy as np
import pytest

from steelyard import Recording, load_model
from steelyard.exceptions import RecordingWarning
from steelyard.model.setup import parse_setup
from steelyard.recording import read_recording
from tests.laboratory.trials import robot, short_trial

pytest.importorskip("h5py", reason="the extra ros is not installed")

ROWS = np.arange(7.0)
FEET = {
    "time": ROWS,
    **{f"{side}_foot.{axis}": ROWS + n for n, side in enumerate(("left", "right")) for axis in ("fx", "fz")},
}

BEFORE = "its columns were mapped before it was written; the setup's map was not applied again"
MAPS = {
    "exchange": {"columns": {"left_foot.*": "right_foot.*", "right_foot.*": "left_foot.*"}},
    "scale": {"columns": {"left_foot.fz": {"from": "left_foot.fz", "scale": 9.8}}},
    "unit": {"time_unit": "ms"},
    "nothing": {},
}


def test_the_setup_maps_and_takes_delays_out(tmp_path):
    trial = short_trial("g1", "sway", noise="default").recording
    path = tmp_path / "trial.csv"
    trial.write(path)
    contents = {
        **robot("g1").setup.contents,
        "recording": {"columns": {"left_foot.*": "right_foot.*", "right_foot.*": "left_foot.*"}},
    }
    late = 0.004
    sensors = [
        dict(sensor, delay=late if sensor["name"] == "right_foot" else 0.0) for sensor in contents["wrench_sensor"]
    ]
    model = load_model(robot("g1").description.file.path, setup=parse_setup({**contents, "wrench_sensor": sensors}))
    read_back = read_recording(path, model)
    np.testing.assert_array_equal(read_back.column("left_foot.fz"), trial.column("right_foot.fz"))
    moved = Recording(trial.time, {"right_foot.fz": trial.column("left_foot.fz")}).without_delays({"right_foot": late})
    np.testing.assert_array_equal(read_back.column("right_foot.fz"), moved.column("right_foot.fz"))
    plain = read_recording(path, model, mapped=False)
    np.testing.assert_array_equal(plain.column("right_foot.fz"), trial.column("right_foot.fz"))


def feet(contents, delay):
    """Gives a robot whose recordings are mapped, and whose left foot comes late."""
    sensors = [
        dict(sensor, delay=delay if sensor["name"] == "left_foot" else 0.0)
        for sensor in robot("g1").setup.contents["wrench_sensor"]
    ]
    setup = parse_setup({**robot("g1").setup.contents, "wrench_sensor": sensors, "recording": contents})
    return load_model(robot("g1").description.file.path, setup=setup)


@pytest.mark.parametrize("ending", [".parquet", ".npz", ".h5"])
@pytest.mark.parametrize("delay", [0.0, 0.3])
@pytest.mark.parametrize("contents", MAPS)
def test_what_was_mapped_is_not_mapped_again(tmp_path, ending, delay, contents):
    model = feet(MAPS[contents], delay)
    lines = [",".join(FEET), *(",".join(map(str, row)) for row in zip(*FEET.values(), strict=True)), ""]
    (tmp_path / "walk.csv").write_text("\n".join(lines))
    recording = read_recording(tmp_path / "walk.csv", model)
    changed = delay > 0.0 or contents != "nothing"
    assert recording.mapped == changed
    assert not read_recording(tmp_path / "walk.csv", model, mapped=False).mapped
    recording.write(tmp_path / f"again{ending}")
    assert read_recording(tmp_path / f"again{ending}").mapped == changed
    assert read_recording(tmp_path / f"again{ending}", model, mapped=False).notes == ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordingWarning)
        again = read_recording(tmp_path / f"again{ending}", model)
    assert again.sha256 == recording.sha256
    assert again.notes == ((BEFORE,) if changed else ())
    again.rows(1, 5).write(tmp_path / f"third{ending}")
    assert read_recording(tmp_path / f"third{ending}").mapped == changed


@pytest.mark.parametrize("ending", [".parquet", ".npz", ".h5"])
def test_steelyards_own_time_is_in_seconds(tmp_path, ending):
    trial = Recording(4000.0 * ROWS, {"left_foot.fz": ROWS}, epoch=7)
    trial.write(tmp_path / f"trial{ending}")
    read_back = read_recording(tmp_path / f"trial{ending}", feet({"time_unit": "ms"}, 0.0))
    np.testing.assert_array_equal(read_back.time, trial.time)
    late = Recording(trial.time + 2e8, dict(trial.values), epoch=7)
    late.write(tmp_path / f"late{ending}")
    read_back = read_recording(tmp_path / f"late{ending}")
    np.testing.assert_array_equal(read_back.time + read_back.epoch, late.time + late.epoch)
