"""Every command and every line of Python in the README runs, and every figure is the one that a benchmark stored."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.laboratory.trials import robot, short_trial
from tests.page_runs import read_page, run_page, run_python

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MEASURED = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"(?s)```{language}\n(.*?)```", page)


def shown(row: str, page: str = MEASURED) -> str:
    """Gives the row of a page's table that holds some words."""
    (line,) = [line for line in page.splitlines() if row in line and line.startswith("|")]
    return line


def test_the_road_runs_as_it_stands(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = read_page(ROOT / "README.md", ROOT)
    assert {block.language for block in page.blocks} == {"sh", "python"}
    run_page(page, tmp_path, python=True)
    for name in ("results/report.html", "results/estimate.json", "results/my_robot_identified.urdf", "report.html"):
        assert (tmp_path / name).is_file(), name


def test_the_verdict_shown_is_the_verdict_given() -> None:
    from steelyard import load_model

    verdict, _ = blocks("text", MEASURED)
    summary = load_model("romeo").check().summary()
    for line in verdict.strip().splitlines():
        assert line.strip().removesuffix(" ...") in summary


def test_the_fault_shown_is_the_fault_found() -> None:
    from benchmarks.faults import FAULTS

    _, told = blocks("text", MEASURED)
    sentence, _, *lines, _ = told.strip().splitlines()
    model, recording = robot("g1"), short_trial("g1", "dance", noise="default").recording
    (fault,) = FAULTS["upside down"].spoil(model, recording).inspect(model).faults
    assert sentence == f"fault: {fault.words}"
    assert tuple(line.strip() for line in lines) == fault.fix[: len(lines)]


def test_python_of_the_page_on_recordings_runs(tmp_path) -> None:
    # All of the page's ```python runs.
    printed = run_python("recordings.md", tmp_path, ("duration=20.0", "duration=8.0"))
    assert "<Recording dance.mcap: 4001 rows, 90 columns, 8.00 s>" in printed
    assert "True dance.mcap" in printed


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"(?m)^make (\w+)", "\n".join(blocks("sh"))):
        assert re.search(rf"(?m)^{target}:", makefile)


def test_python_of_the_page_on_evidence_runs_in_a_process_of_its_own(tmp_path) -> None:
    (source,) = blocks("python", (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8"))
    result = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("213")


def test_python_of_the_laboratorys_page_runs(tmp_path) -> None:
    lines = run_python("laboratory.md", tmp_path).splitlines()
    assert lines[0] == "()"
    assert lines[1] == "<Recording g1_29dof_rev_1_0 dance: 4001 rows, 90 columns, 8.00 s>"


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_example_setup_of_the_docs_is_understood(tmp_path) -> None:
    from steelyard.model.setup import parse_setup, tomllib

    (text,) = re.findall(r"(?s)```toml\n(.*?)```", (ROOT / "docs" / "setup.md").read_text(encoding="utf-8"))
    setup = parse_setup(tomllib.loads(text))
    assert setup.recording.columns["left_foot.fx"].offset == 12.5
    assert setup.recording.arrays["torques"].names == ("tau.left_hip", "", "tau.left_knee")
    assert setup.mirror is not None
    assert setup.locks == {"gripper_*": 0.0}


def test_figures_of_identification_are_those_stored() -> None:
    folder = ROOT / "benchmarks" / "results"
    figures = [
        figure
        for name in ("statistics", "papers_yamane")
        for figure in json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["figures"]
    ]
    values = {figure["what"]: figure["value"] for figure in figures}
    # The arm's R² is missed, and the README says so.
    assert {figure["what"].split()[0] for figure in figures if not figure["met"]} <= {"KUKA"}
    worst = max(value for what, value in values.items() if "noiseless" in what)
    arm = min(value for what, value in values.items() if what.endswith("least R2, joints over 1 N m rms"))
    for row, value in (
        ("measured 1000 times", 100.0 * values["wrench noise: 95 % intervals hold the truth, pooled"]),
        ("counted as independent", 100.0 * values["all 500 rows a second, counted as independent: intervals hold"]),
        ("intervals of least squares", 100.0 * values["all noise: least squares holds the truth"]),
        ("by instrumental variables", 100.0 * values["all noise: instruments hold it"]),
        ("noiseless: worst", worst),
        ("Yamane's table", values["cross cost over the true parameters', worst cell"]),
        ("a hose ignored", values["ignoring the hose over projecting it out, moment error"]),
        ("from a Parquet file", values["60 s of G1 at 200 Hz, from a parquet file to an Estimate, s"]),
        ("a real iCub", next(value for what, value in values.items() if "sole" in what and "lateral CoP" in what)),
        ("a real KUKA", arm),
    ):
        number = float(re.findall(r"[\d.]+(?:e-\d+)?", shown(row).split("|")[2])[0])
        assert number == pytest.approx(value, rel=0.03), row
    assert values["all noise: instruments, width over that of least squares"] < 0.5


def test_figures_of_the_truth_are_those_stored() -> None:
    stored = json.loads((ROOT / "benchmarks" / "results" / "truth.json").read_text(encoding="utf-8"))
    values = {figure["what"]: figure["value"] for figure in stored["figures"]}
    notes = {figure["what"]: figure["note"] for figure in stored["figures"]}
    cross = "geometric: cross RMSE over the truth's, worst axis, worst run"
    for row, value in (
        ("masses: error over the CAD's", values["geometric: mass error over CAD's, median"]),
        ("robots whose links", values["geometric: runs nearer to the truth than CAD (affine), of 40"]),
        (
            "a fixed quadratic prior",
            100.0 * values["quadratic, alpha = 1, SI units: share of runs with masses worse than CAD's"],
        ),
        ("unseen motion: RMSE", float(re.findall(r"median ([\d.]+)", notes[cross])[0])),
        ("90 % intervals", 100.0 * values["CAD's error as assumed: 90% intervals hold, all parameters"]),
        ("2 kg added", 100.0 * values["payload: right link, baseline"]),
        ("error of its mass", values["payload: median mass error, baseline, kg"]),
    ):
        line = shown(row)
        assert float(re.findall(r"[\d.]+", line.split("|")[2])[0]) == pytest.approx(value, rel=0.03, abs=5e-4), row
        for words, other in (
            ("exact states: ", values["wrench noise only, geometric: mass error over CAD's, median"]),
            ("ideal excitation: ", values["ideal excitation, geometric: mass error over CAD's, median"]),
            ("worst robot: ", values[cross]),
        ):
            if words in line:
                number = float(re.findall(words + r"([\d.]+\d)", line)[0])
                assert number == pytest.approx(other, rel=0.03), words


def test_figures_of_verdicts_are_those_stored() -> None:
    folder = ROOT / "benchmarks" / "results"
    values = {
        figure["what"]: figure["value"]
        for name in ("fairness", "fairness_loads")
        for figure in json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["figures"]
    }
    for row, value in (
        ("the CAD is exact", values["CAD exact: called an improvement"]),
        ("the CAD is 20 % off", values["CAD 20 % off: called an improvement"]),
        ("200 runs, a quarter each", 100.0 * values["called good: links nearer than the CAD's"]),
        ("of those whose link masses are not nearer", 100.0 * values["links not nearer: called good"]),
        ("one channel wrong", values["glitches: runs of 60 whose link masses move by less than 0.3 standard errors"]),
        ("the same: runs in which the channel", values["glitches: runs of 60 in which the channel is named"]),
        ("nothing added, but", 60.0 * values["loads: false alarms, nothing added, second recording altered"]),
        ("two kilograms on a hand", 36.0 * values["loads: right link, 2 kg added"]),
        ("with an exact CAD, called", values["CAD exact: called an improvement"]),
        ("estimates called good", 100.0 * values["called good: links nearer than the CAD's"]),
    ):
        line = next(line for line in (README + MEASURED).splitlines() if line.startswith(f"| {row}"))
        number = float(re.findall(r"[\d.]+", line.split("|")[2])[0])
        assert number == pytest.approx(value, abs=0.5), row


def test_figures_of_recordings_are_those_stored() -> None:
    stored = json.loads((ROOT / "benchmarks" / "results" / "recordings.json").read_text(encoding="utf-8"))
    values = {figure["what"]: figure["value"] for figure in stored["figures"]}
    assert all(figure["met"] for figure in stored["figures"])
    wanted = {
        "a lag of 12 ms": values["12 ms lag: worst error (ms)"],
        "1 GB of CSV": next(value for what, value in values.items() if "csv, inspect" in what),
        "1 GB of MCAP": next(value for what, value in values.items() if "mcap, inspect" in what),
        "a ROS 2 bag": values["ROS 2 bag to columns, times faster than a loop over rosbags"],
    }
    if "faults" not in stored["raw"]["left_out"]:
        clean = "clean G1 recordings with a fault or warning", "clean recordings of other robots with one"
        wanted["fourteen mounting"] = values["faults: seeds named correctly, worst fault"]
        wanted["recordings without a fault"] = sum(values[what] for what in clean)
    for row, value in wanted.items():
        line = shown(row)
        number = float(re.findall(r"[\d.]+", line.split("|")[2])[0])
        assert number == pytest.approx(value, rel=0.03, abs=0.005), row


def test_figures_of_the_laboratory_are_those_stored() -> None:
    stored = json.loads((ROOT / "benchmarks" / "results" / "laboratory.json").read_text(encoding="utf-8"))
    values = {figure["what"]: figure["value"] for figure in stored["figures"]}
    assert all(figure["met"] for figure in stored["figures"])
    for row, what, unit in (
        ("falls in 100 trials", "falls", ""),
        ("tilt of a sole at worst", "tilt of a sole at worst, degrees", "°"),
        ("slip of a sole at worst", "slip of a sole at worst, mm", " mm"),
        (
            "against real time",
            "g1: playing a planned motion, times faster than real time, all sensors, one core",
            "\u00d7",
        ),
        ("force residual of the true parameters", "g1: residual of forces in the perfect laboratory, N", " N"),
    ):
        line = shown(row)
        number = float(line.split("|")[2].strip().removesuffix(unit))
        assert number == pytest.approx(values[what], rel=0.02)


def test_figures_are_those_of_the_stored_benchmark() -> None:
    stored = json.loads((ROOT / "benchmarks" / "results" / "core.json").read_text(encoding="utf-8"))
    values = {figure["what"]: figure["value"] for figure in stored["figures"]}
    fair = json.loads((ROOT / "benchmarks" / "results" / "fairness.json").read_text(encoding="utf-8"))
    missed = {figure["what"] for figure in (*stored["figures"], *fair["figures"]) if not figure["met"]}
    page = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
    told = set(re.findall(r'"([^"]+)" is', "".join(re.findall(r"(?m)^Missed: .*$", page))))
    assert missed == told  # what is missed stands on the page, and nothing else
    for name, column in (("g1", 1), ("talos", 2)):
        for row, what in (
            ("against a Python loop over Pinocchio", "base rows, times faster than a loop over Pinocchio"),
            ("base-link regressor, against figaroh", "base rows, times faster than figaroh"),
            ("stacking everything and one QR", "motion to Evidence, times faster than stacking and one QR"),
            ("regressor and QR", "motion to Evidence, times faster than figaroh"),
        ):
            line = shown(row)
            number = float(line.split("|")[column + 1].strip().removesuffix("\u00d7"))
            assert number == pytest.approx(values[f"{name}: {what}"], rel=0.06)


def test_figures_of_calibration_are_those_stored() -> None:
    stored = json.loads((ROOT / "benchmarks" / "results" / "papers_yamane_kinematic.json").read_text(encoding="utf-8"))
    values = {figure["what"]: figure["value"] for figure in stored["figures"]}
    assert all(figure["met"] for figure in stored["figures"])
    tilted = "foot tilted by 1° in a tenth of the poses, toe or heel up: named"
    for row, value in (
        ("than the paper's own way", min(values[what] for what in values if "than the paper's way" in what)),
        ("Rao bound, the worst of four", max(values[what] for what in values if "bound, rms over joints" in what)),
        ("95 % intervals hold the true offsets", 100.0 * values["95 % intervals hold the truth"]),
        ("a foot whose toe or heel", 100.0 * values[tilted]),
        ("identification of a G1", values["identification after calibration: cross RMSE over that before"]),
        ("a real arm of TALOS", values["real arm: cross-validated mean error with offsets, mm"]),
    ):
        line = shown(row)
        assert float(re.findall(r"[\d.]+", line.split("|")[2])[0]) == pytest.approx(value, rel=0.04), row


def test_figures_of_the_readme_are_those_stored() -> None:
    values = {
        figure["what"]: figure["value"]
        for name in ("truth", "core", "papers_yamane_kinematic")
        for figure in json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))[
            "figures"
        ]
    }
    peer = "geometric, times faster than figaroh: "
    for row, value in (
        ("masses: error over the CAD's", values["geometric: mass error over CAD's, median"]),
        ("robots whose links", values["geometric: runs nearer to the truth than CAD (affine), of 40"]),
        ("90 % intervals", 100.0 * values["CAD's error as assumed: 90% intervals hold, all parameters"]),
        ("2 kg added", 100.0 * values["payload: right link, baseline"]),
        ("identification of a G1", values["identification after calibration: cross RMSE over that before"]),
        ("mass error: ours over its", values["geometric over figaroh: mass error, worst of 8 runs"]),
        ("affine-invariant distance of the links", values["geometric over figaroh: affine distance, worst of 8 runs"]),
        ("time of the solver alone", values[f"{peer}solver alone, least of 8 runs"]),
        ("from motions to parameters", values[f"{peer}from motions to parameters, least of 8 runs"]),
        ("the regressor of the base link", values["g1: base rows, times faster than figaroh"]),
        ("motion to triangular factor", values["g1: motion to Evidence, times faster than figaroh"]),
    ):
        number = float(re.findall(r"[\d.]+", shown(row, README).split("|")[2])[0])
        assert number == pytest.approx(value, rel=0.05, abs=5e-3), row


def test_figures_of_balance_are_those_stored() -> None:
    stored = json.loads((ROOT / "benchmarks" / "results" / "balance.json").read_text(encoding="utf-8"))
    values = {figure["what"]: figure["value"] for figure in stored["figures"]}
    assert all(figure["met"] for figure in stored["figures"])
    assert f"it fell on {values['falls with CAD, encoders as they are, of 20']} of them" in README
    for row, what in (
        ("centre of mass, distance", "centre of mass"),
        ("zero-moment point, the same", "zero-moment point"),
    ):
        for cell, model in zip(shown(row, README).split("|")[2:5], ("CAD", "identified", "truth"), strict=True):
            value = values[f"{what}, {model}: rms mm, median"]
            assert float(cell.strip().removesuffix(" mm")) == pytest.approx(value, abs=0.06), (row, model)
