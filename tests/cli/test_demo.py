"""`steelyard demo`: the story comes out as physics has it, and its files come out whole, or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from importlib import import_module

import numpy as np
import pytest

from steelyard import load_estimate, load_model, read_offsets
from steelyard.cli import demo_run
from steelyard.cli.demo import ESTIMATE, MODEL, NUMBERS, OFFSETS, REPORT
from steelyard.cli.demo_run import AS_THEY_ARE, CAD, IDENTIFIED, STEPS, TRUTH, run_demo
from steelyard.cli.demo_text import WIDTH, next_steps, write_chapters
from steelyard.cli.interrupts import run_in_threads
from steelyard.exceptions import LaboratoryError
from steelyard.model.files import packages
from tests.cli.running import run
from tests.laboratory.trials import robot
from tests.page_runs import SHORT_DEMO

command = import_module("steelyard.cli.demo")  # the package's own name for it is the function

FILES = {REPORT, MODEL, ESTIMATE, OFFSETS, NUMBERS}


@cache
def lived():
    """Gives a short story, and the steps that were told on the way."""
    said = []
    return run_demo(robot("g1"), durations=SHORT_DEMO, on_step=said.append), tuple(said)


@pytest.fixture
def story():
    return lived()[0]


@pytest.fixture
def short(monkeypatch, tmp_path):
    """Lets the command tell the short story, and its working folder be an empty one."""
    monkeypatch.setattr(demo_run, "run_demo", lambda model, **options: lived()[0])
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- the story ------------------------------------------------------------------------------------------------------


def test_every_step_is_told_in_order():
    assert lived()[1] == tuple(STEPS)


def test_calibration_takes_out_most_of_what_encoders_are_off_by(story):
    before, after = story.offset_errors
    assert np.rad2deg(np.abs(before).max()) > 1.5
    assert np.sqrt(np.mean(after**2)) < 0.3 * np.sqrt(np.mean(before**2))
    assert {joint for joint, offset in story.truth.offsets.items() if offset} == set(story.calibration.joints)
    assert not any("shoulder" in joint or "elbow" in joint or "wrist" in joint for joint in story.calibration.joints)


def test_what_is_identified_is_nearer_to_the_truth_than_the_cad(story):
    everything = story.mass_errors[-1]
    assert everything.group == "all links"
    assert everything.identified < everything.cad
    assert story.com_errors[1] < 0.3 * story.com_errors[0]
    assert story.distances[1] < story.distances[0]
    assert story.masses_in_intervals >= 0.9 * len(story.model.links)
    # A scale is a constraint, not a wish.
    assert abs(story.estimate.total_mass - story.scale) <= 0.5 * demo_run.SCALE_STEP + 1e-6
    assert abs(story.scale - story.truth.model.total_mass) <= 0.5 * demo_run.SCALE_STEP


def test_groups_are_all_links_once(story):
    groups = story.mass_errors[:-1]
    assert {group.group for group in groups} == {"trunk", "legs", "arms"}
    assert sum(group.true_mass for group in groups) == pytest.approx(story.truth.model.total_mass)


def test_the_loads_are_found_where_they_were_fastened(story):
    for link, load in demo_run.LOADS.items():
        assert link in story.worst_links[:2]
        off = abs(story.estimate.masses[link] - story.truth.masses[link])
        assert off < 0.6 * load.mass, link


def test_the_unseen_motion_is_predicted_better_than_by_either_cad(story):
    world = story.validation.world
    assert story.validation.kind == "cross"
    assert np.all(world.estimate.rmse < 0.5 * world.reference.rmse)
    assert np.all(world.estimate.rmse < 0.5 * world.corrected.rmse)


def test_the_payoff_is_better_than_with_the_cad(story):
    runs = story.runs
    assert list(runs) == [AS_THEY_ARE, CAD, IDENTIFIED, TRUTH]
    assert runs[IDENTIFIED].com_error.rms < 0.5 * runs[CAD].com_error.rms
    assert runs[IDENTIFIED].zmp_error.rms < 0.6 * runs[CAD].zmp_error.rms
    assert runs[TRUTH].com_error.rms < runs[CAD].com_error.rms
    uncalibrated = runs[AS_THEY_ARE]
    assert uncalibrated.fall is not None or uncalibrated.com_error.rms > runs[CAD].com_error.rms
    for run_ in list(runs.values())[2:]:
        np.testing.assert_array_equal(run_.com_reference, runs[CAD].com_reference)


def test_all_numbers_go_into_json(story):
    plain = json.loads(json.dumps(story.to_dict(), allow_nan=False))
    assert plain["balance"][IDENTIFIED]["com"]["rms_mm"] == pytest.approx(1e3 * story.runs[IDENTIFIED].com_error.rms)
    assert plain["masses"]["links"]["torso_link"]["truth"] == story.truth.masses["torso_link"]


def test_work_side_by_side_fails_as_it_would_alone():
    def fall():
        raise LaboratoryError("the robot fell")

    with pytest.raises(LaboratoryError, match="fell"):
        run_in_threads({"one": lambda: 1, "two": fall, "three": lambda: 3}, at_once=2)
    assert run_in_threads({"one": lambda: 1, "two": lambda: 2}, at_once=2) == {"one": 1, "two": 2}


# ---- in words -------------------------------------------------------------------------------------------------------


def test_the_words_fit_eighty_columns_and_tell_the_numbers(story):
    chapters = write_chapters(story)
    lines = [line for chapter in (*chapters, next_steps()) for line in (chapter.title, *chapter.lines)]
    assert max(map(len, lines)) <= WIDTH == 80
    text = "\n".join(lines)
    before, after = (np.rad2deg(np.sqrt(np.mean(each**2))) for each in story.offset_errors)
    errors = story.mass_errors[-1]
    payoff = story.runs[IDENTIFIED]
    for number in (
        f"{story.scale:.2f} kg",
        f"{before:.2f}°   {after:.2f}°",
        f"{1e3 * errors.cad:.0f} g",
        f"{1e3 * errors.identified:.0f} g",
        f"{story.truth.masses['torso_link']:.2f}",
        f"{1e3 * payoff.com_error.rms:.1f} mm",
        f"{1e3 * payoff.zmp_error.greatest:.1f} mm",
        f"{story.masses_in_intervals} of 30",
        "Offsets of the arms are not observable",
    ):
        assert number in text or number in " ".join(text.split()), number
    fallen = [run_.fall.start for run_ in story.runs.values() if run_.fall is not None]
    assert all(f"fell after {start:.1f} s" in text for start in fallen)


# ---- the command ----------------------------------------------------------------------------------------------------


def test_the_files_are_left_in_a_folder_of_their_own(short, story):
    ran = run("demo")
    assert (ran.code, ran.told) == (0, "")
    folder = short / "steelyard-demo"
    assert {path.name for path in folder.iterdir()} == FILES
    assert max(len(line) for line in ran.printed.splitlines()) <= WIDTH
    for words in ("steelyard-demo/report.html", "Benefit: the same", "steelyard init"):
        assert words in ran.printed
    read = load_model(folder / MODEL, setup="g1")
    np.testing.assert_allclose(read.parameters, story.estimate.parameters, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(load_estimate(folder / ESTIMATE).parameters, story.estimate.parameters)
    assert read_offsets(folder / OFFSETS) == pytest.approx(story.calibration.values)
    assert json.loads((folder / NUMBERS).read_text())["scale"] == story.scale
    page = (folder / REPORT).read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")


def test_an_earlier_demo_is_replaced_unless_someone_worked_on_it(short):
    assert run("demo", "--quiet").code == 0
    again = run("demo", "--quiet")
    assert (again.code, again.printed, again.told) == (0, "", "")
    model = short / "steelyard-demo" / MODEL
    model.write_text(model.read_text() + "<!-- mine -->")
    refused = run("demo")
    assert refused.code == 1
    assert "already exists" in refused.told
    assert "--force" in refused.told
    assert "mine" in model.read_text()
    assert run("demo", "--force", "--quiet").code == 0
    assert "mine" not in model.read_text()


def test_files_of_others_are_not_replaced(short, monkeypatch):
    def never(model, **options):
        raise AssertionError("work was done in vain")

    monkeypatch.setattr(demo_run, "run_demo", never)
    (short / "here").mkdir()
    for name in (REPORT, NUMBERS):
        other = short / "here" / name
        other.write_text("not JSON, and mine")
        ran = run("demo", "-o", "here")
        assert ran.code == 1
        assert name in ran.told
        assert other.read_text() == "not JSON, and mine"
        other.unlink()


def test_json_for_machines(short, story):
    ran = run("demo", "--json", "-o", "results")
    assert ran.code == 0
    plain = json.loads(ran.printed)
    assert {path.rpartition("/")[2] for path in plain["files"]} == FILES
    assert plain["com_mm"]["cad"] == pytest.approx(1e3 * story.com_errors[0])


def test_what_is_in_the_way_is_told_in_one_line(short):
    (short / "file").write_text("")
    ran = run("demo", "-o", "file")
    assert ran.code == 1
    assert ran.told == "error: file is a file, not a folder; name another folder\n"
    assert run("demo", "--seed", "-1").code == 2
    assert [path.name for path in short.iterdir()] == ["file"]


def test_nothing_is_left_where_a_file_cannot_be_written(short, monkeypatch):
    def full(path, plain):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(command, "write_json", full)
    ran = run("demo")
    assert ran.code == 1
    assert "No space left on device" in ran.told
    assert not list(short.iterdir())


def test_without_the_report_s_parts_the_rest_is_written(short, monkeypatch):
    found = command.find_spec
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "plotly" else found(name))
    ran = run("demo")
    assert ran.code == 0
    assert 'plotly is not installed; pip install "steelyard[report]"' in ran.printed
    assert {path.name for path in (short / "steelyard-demo").iterdir()} == FILES - {REPORT}


def test_without_the_robots_one_line_says_how_to_get_them(short, monkeypatch):
    monkeypatch.setattr(packages, "_installed_shares", lambda: iter(()))
    ran = run("demo")
    assert ran.code == 1
    assert "pip install 'steelyard[robots]'" in ran.told
    assert ran.told.count("\n") == 1
    assert not list(short.iterdir())


def test_without_the_laboratory_one_line_says_how_to_get_it(tmp_path):
    without = "import sys; sys.modules['mujoco'] = None; from steelyard.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", without, "demo"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert result.returncode == 1
    assert result.stderr == (
        'error: the virtual laboratory runs on MuJoCo; install it with: pip install "steelyard[lab]"\n'
    )
    assert not list(tmp_path.iterdir())
