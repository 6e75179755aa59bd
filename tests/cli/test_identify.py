"""`steelyard identify`: what it prints and writes, and how it exits."""

from __future__ import annotations

import csv
import errno
import json
import re
import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

import steelyard as sy
from steelyard.cli import main
from steelyard.identification.methods.registry import OPTIONS
from steelyard.regression.nuisance import PRIORS
from tests.laboratory.trials import robot, short_trial

SENSORS = ["wrench_offset"]
ASKED = ["--nuisance", "wrench_offset", "--noise", "usual"]
CONSTRAINED = ["g1", "empty.npz", "--method", "quadratic", "--constraint"]

ARM = """<mujoco model="arm"><worldbody><body name="upper"><joint name="a" axis="0 1 0"/>
<inertial mass="2" pos="0.1 0 -0.2" diaginertia="0.02 0.03 0.01"/><body name="lower" pos="0 0 -0.4">
<joint name="b" axis="1 0 0"/><inertial mass="1" pos="0 0.05 -0.1" diaginertia="0.01 0.01 0.005"/></body></body>
</worldbody></mujoco>"""


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Gives what runs the command in an empty folder, as a user does: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["steelyard", "identify", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
        output, errors = capsys.readouterr()
        assert "Traceback" not in output + errors
        return code, output, errors

    return call


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    for motion in ("dance", "reach"):
        short_trial("g1", motion, noise="default").recording.write(folder / f"{motion}.npz")
    (folder / "empty.npz").write_bytes(b"")
    return folder


@cache
def long_trial() -> sy.Trial:
    """Gives a trial that is long enough to hear its sensors."""
    return sy.simulate(robot("g1"), "dance", seed=0, duration=20.0)


@cache
def evidence_of(motion: str) -> sy.Evidence:
    model = robot("g1")
    recording = short_trial("g1", motion, noise="default").recording
    return sy.gather_evidence(model, sy.reconstruct_motion(model, recording), nuisance=SENSORS)


@cache
def by_functions(*motions: str, **arguments: object) -> sy.Estimate:
    return sy.identify(robot("g1"), sum(map(evidence_of, motions)), **arguments)


def test_it_finds_prints_and_writes_what_the_functions_give(run, files):
    code, printed, told = run("g1", files / "dance.npz", *ASKED, "--validate", files / "reach.npz", "-o", "new/results")
    assert (code, told) == (0, "")
    estimate = sy.load_estimate("new/results/estimate.json")
    assert estimate.summary() in printed
    expected = by_functions("dance")
    np.testing.assert_allclose(estimate.parameters, expected.parameters, rtol=1e-9, atol=1e-12)

    unseen = sy.reconstruct_motion(robot("g1"), short_trial("g1", "reach", noise="default").recording)
    validation = sy.validate(estimate, unseen, nuisance=tuple(PRIORS))
    assert validation.summary() in printed
    assert "cross" in printed
    stored = json.loads(Path("new/results/validation.json").read_text())
    known = replace(validation, noise_floor=stored["noise_floor"])
    assert stored == {**known.to_dict(), "verdict": sy.judge(estimate, known).to_dict()}

    written = sy.load_model("new/results/g1_identified.urdf", setup="g1")
    np.testing.assert_allclose(written.parameters, estimate.parameters, rtol=1e-9, atol=1e-12)
    assert sorted(path.name for path in Path("new/results").iterdir()) == [
        "estimate.json",
        "g1_identified.urdf",
        "links.csv",
        "report.html",
        "validation.json",
    ]
    for name in ("dance.npz: 8.00 s", "reach.npz: 8.00 s", "written: new/results/g1_identified.urdf"):
        assert name in printed


def test_everything_fits_a_terminal_of_eighty_columns_and_the_report_has_the_command_to_make_it_again(
    run, files, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    code, printed, told = run("g1", files / "dance.npz", *ASKED, "--validate", files / "reach.npz", "-o", "out")
    assert code == 0, told
    assert max(len(line) for line in printed.splitlines()) <= 80
    page = Path("out/report.html").read_text()
    assert f"steelyard identify g1 {files / 'dance.npz'} --nuisance wrench_offset" in page
    for words in ("dance.npz", "reach.npz", "not used for the estimate", "torso_link", "zero-phase Butterworth"):
        assert words in page


def test_json_is_what_the_files_hold(run, files):
    code, printed, told = run("g1", files / "dance.npz", *ASKED, "-o", "out", "--full-json")
    assert (code, told) == (0, "")
    plain = json.loads(printed)
    estimate = sy.load_estimate("out/estimate.json")
    assert plain["estimate"]["parameters"] == estimate.parameters.tolist()
    np.testing.assert_allclose(plain["estimate"]["covariance"], estimate.covariance, rtol=1e-6, atol=1e-15)
    assert plain["validation"] is None
    assert plain["files"] == [
        f"out/{name}" for name in ("estimate.json", "links.csv", "g1_identified.urdf", "report.html")
    ]
    assert Path("out/estimate.json").stat().st_size < 1e6


def test_short_json_and_the_table_have_a_row_for_each_link(run, files):
    code, printed, told = run("g1", files / "dance.npz", *ASKED, "-o", "out", "--json", "--no-report")
    assert (code, told) == (0, "")
    plain = json.loads(printed)
    estimate = sy.load_estimate("out/estimate.json")
    wanted = {"status", "method", "total_mass", "links", "notes", "verdict", "validation", "files", "file_notes"}
    assert set(plain) == wanted
    assert plain["verdict"] == sy.judge(estimate).to_dict()
    assert plain["status"] == estimate.status
    assert plain["total_mass"]["value"] == pytest.approx(estimate.total_mass)
    assert plain["total_mass"]["low"] < estimate.total_mass < plain["total_mass"]["high"]
    low, high = estimate.intervals(0.95)[:, 0].T
    for row, link in enumerate(plain["links"]):
        assert link["name"] == estimate.model.links[row]
        assert link["mass"] == estimate.parameters[row, 0]
        assert (link["low"], link["high"]) == pytest.approx((low[row], high[row]), rel=1e-6, abs=1e-6)
        assert link["reference"] == estimate.reference[row, 0]
        assert link["determined"] == estimate.determined[row, 0]
    with Path("out/links.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [row["name"] for row in table] == list(estimate.model.links)
    assert [float(row["mass"]) for row in table] == estimate.parameters[:, 0].tolist()
    assert len(printed) < 20_000


def test_quiet_says_nothing_and_several_recordings_count_together(run, files, monkeypatch):
    given = []

    def listening(model, evidence, **arguments):
        given.extend(evidence)
        return sy.identify(model, evidence, **arguments)

    monkeypatch.setattr(import_module("steelyard.cli.identify"), "identify_parameters", listening)
    code, *printed = run("g1", files / "dance.npz", files / "reach.npz", *ASKED, "-o", "out", "--quiet")
    assert (code, printed) == (0, ["", ""])
    estimate = sy.load_estimate("out/estimate.json")
    assert len(estimate.origins) == 2
    np.testing.assert_allclose(estimate.parameters, by_functions("dance", "reach").parameters, rtol=1e-9, atol=1e-12)
    assert [part.sample_count for part in given] == [evidence_of(motion).sample_count for motion in ("dance", "reach")]


@pytest.mark.parametrize("method", OPTIONS)
def test_every_method_and_option_arrives(run, files, method):
    code, printed, told = run("g1", files / "dance.npz", *ASKED, "--method", method, "--mirror", "--parameters", "L")
    assert code == 0, told
    expected = by_functions("dance", method=method, mirror=True, parameters="L")
    assert f"identified by '{method}'" in printed
    assert "L, mirror pairs tied" in printed
    assert f"{expected.total_mass:>9.4f}" in printed


@pytest.mark.parametrize(
    ("method", "option", "value"),
    [("geometric", "spread", 0.1), ("quadratic", "alpha", 30.0), ("conic", "alpha", 30.0), ("truncated", "c_max", 9.0)],
)
def test_options_of_methods_arrive(run, files, method, option, value):
    written = f"--{option.replace('_', '-')}"
    code, printed, told = run("g1", files / "dance.npz", *ASKED, "--method", method, written, value, "--full-json")
    assert code == 0, told
    expected = by_functions("dance", method=method, **{option: value})
    np.testing.assert_allclose(
        json.loads(printed)["estimate"]["parameters"], expected.parameters, rtol=1e-9, atol=1e-12
    )
    assert not np.allclose(expected.parameters, by_functions("dance", method=method).parameters, rtol=1e-6, atol=0.0)


def test_drawn_robots_are_written_beside_the_estimate(run, files):
    asked = ["g1", files / "dance.npz", *ASKED, "--no-report", "--parameters", "L", "-o", "out"]
    code, printed, told = run(*asked, "--sample", 5)
    assert code == 0, told
    assert "written: out/drawn" in printed
    drawn = sorted(path.name for path in Path("out/drawn").iterdir())
    assert drawn == [*(f"g1-00{number}.urdf" for number in range(5)), "g1.json"]
    expected = sy.load_estimate("out/estimate.json").sample(5)
    for number, model in enumerate(expected):
        again = sy.load_model(f"out/drawn/g1-00{number}.urdf", setup="g1")
        np.testing.assert_allclose(again.parameters, model.parameters, rtol=1e-9, atol=1e-12)
    # Again, and fewer: none of the first remain.
    code, _, told = run(*asked, "--sample", 2, "--force", "--quiet")
    assert code == 0, told
    assert sorted(path.name for path in Path("out/drawn").iterdir()) == ["g1-000.urdf", "g1-001.urdf", "g1.json"]
    assert sorted(path.name for path in Path("out").iterdir()) == [
        "drawn",
        "estimate.json",
        "g1_identified.urdf",
        "links.csv",
    ]


def test_constraints_arrive(run, files):
    code, printed, told = run(
        "g1", files / "dance.npz", *ASKED, "--method", "quadratic", "--constraint", "total_mass=33", "--full-json"
    )
    assert code == 0, told
    masses = np.array(json.loads(printed)["estimate"]["parameters"])[:, 0]
    assert masses.sum() == pytest.approx(33.0, abs=1e-8)
    assert abs(by_functions("dance", method="quadratic").total_mass - 33.0) > 0.05, "the scale made a difference"


def test_patterns_and_the_base_arrive(run, files):
    code, printed, told = run(
        "g1", files / "reach.npz", "--base", "sole", "--parameters", "*.m", "--parameters", "torso_link", "--full-json"
    )
    assert code == 0, told
    estimate = json.loads(printed)["estimate"]
    assert estimate["options"]["parameters"] == "*.m torso_link"
    assert estimate["key"]["base"] == "pelvis"
    assert "base motion from the sole 'left'" in run("g1", files / "reach.npz", *ASKED, "--base", "sole")[1]


def test_sensors_are_withheld(run, files):
    code, printed, told = run("g1", files / "reach.npz", *ASKED, "--withhold", "left_foot.nz", "--full-json")
    assert code == 0, told
    measured = json.loads(printed)["estimate"]["key"]["measured"]
    assert "left_foot.ny" in measured
    assert "left_foot.nz" not in measured
    code, _, told = run("g1", files / "reach.npz", *ASKED, "--withhold", "left_fot")
    assert code == 1
    assert "'left_fot'" in told


def test_offsets_arrive_in_both_recordings(run, files):
    """What is added to wrong readings makes them right."""
    model, joint = robot("g1"), "left_knee_joint"
    for motion in ("dance", "reach"):
        right = short_trial("g1", motion, noise="default").recording
        columns = {name: right.column(name) for name in right.columns}
        columns[f"q.{joint}"] = columns[f"q.{joint}"] - 0.05
        sy.Recording(right.time, columns).write(Path(f"{motion}.npz"))
    sy.write_offsets("offsets.json", {joint: 0.05})
    asked = ["g1", "dance.npz", *ASKED, "--validate", "reach.npz"]
    code, printed, told = run(*asked, "--offsets", "offsets.json", "-o", "out", "--no-report")
    assert code == 0, told
    assert "encoder offsets are added to 1 joint" in printed
    found = {name: json.loads(Path(f"out/{name}.json").read_text()) for name in ("estimate", "validation")}
    expected = by_functions("dance")
    np.testing.assert_allclose(found["estimate"]["parameters"], expected.parameters, rtol=1e-6, atol=1e-9)
    unseen = sy.reconstruct_motion(model, short_trial("g1", "reach", noise="default").recording)
    rmse = found["validation"]["wrench"]["estimate"]["rmse"]
    np.testing.assert_allclose(rmse, sy.validate(expected, unseen, nuisance=tuple(PRIORS)).rmse, rtol=1e-6, atol=0.0)
    without = json.loads(run(*asked[:-2], "--full-json")[1])
    assert not np.allclose(without["estimate"]["parameters"], expected.parameters, rtol=1e-3, atol=0.0)


def test_without_a_word_sensors_are_heard_and_doubted(run):
    """The default is what a careful user would write: noise as a fit leaves it, and errors of all sensors in use."""
    model = robot("g1")
    recording = long_trial().recording
    recording.write(Path("dance.npz"))
    # The laboratory's inertial sensor is 2 ms late; the feet's, by 1 ms, not clearly so.
    late = sy.estimate_delays(model, recording).values["pelvis"]
    assert late == pytest.approx(0.002, abs=0.001)
    motion = sy.reconstruct_motion(model, recording.without_delays({"pelvis": late}))
    sensors = ["wrench_offset", "accelerometer_bias", "imu_mounting", "gyro_bias"]
    noise = sy.estimate_noise(model, motion, nuisance=sensors)
    expected = sy.identify(model, sy.gather_evidence(model, motion, weights=noise.weights, nuisance=sensors))
    code, printed, told = run("g1", "dance.npz", "--full-json")
    assert code == 0, told
    found = json.loads(printed)["estimate"]
    assert set(found["nuisance"]) == set(expected.nuisance)
    np.testing.assert_allclose(found["parameters"], expected.parameters, rtol=1e-6, atol=1e-9)


def test_sensors_can_be_taken_at_their_word_as_in_the_papers(run, files):
    model, motion = (
        robot("g1"),
        sy.reconstruct_motion(robot("g1"), short_trial("g1", "dance", noise="default").recording),
    )
    expected = sy.identify(model, sy.gather_evidence(model, motion, weights=None, nuisance=()), method="truncated")
    asked = ["--method", "truncated", "--nuisance", "none", "--noise", "equal", "--full-json"]
    code, printed, told = run("g1", files / "dance.npz", *asked)
    assert code == 0, told
    found = json.loads(printed)["estimate"]
    assert found["nuisance"] == {}
    np.testing.assert_allclose(found["parameters"], expected.parameters, rtol=1e-6, atol=1e-9)


def test_a_late_sensor_is_told_and_put_right(run):
    right = long_trial().recording
    right.without_delays({"left_foot": -0.02}).write(Path("late.npz"))
    right.write(Path("right.npz"))
    printed, masses = {}, {}
    for name in ("right", "late"):
        code, printed[name], told = run("g1", f"{name}.npz", *ASKED, "-o", name, "--no-report")
        assert code == 0, told
        masses[name] = sy.load_estimate(f"{name}/estimate.json").parameters[:, 0]
    (late,) = re.findall(r"left_foot is ([\d.]+) ms late relative to the encoders; this is corrected", printed["late"])
    assert float(late) == pytest.approx(20.0, abs=1.5)
    np.testing.assert_allclose(masses["late"], masses["right"], rtol=0.0, atol=0.03)
    assert "left_foot is" not in printed["right"]


def test_offsets_of_sensors_that_were_zeroed_are_found_anew(run, files):
    estimate = by_functions("dance")
    unseen = sy.reconstruct_motion(robot("g1"), short_trial("g1", "reach", noise="default").recording)
    asked = ["g1", files / "dance.npz", *ASKED, "--validate", files / "reach.npz", "--full-json"]
    for given, expected in (
        ([], sy.validate(estimate, unseen, nuisance=SENSORS)),
        (["--zeroed"], sy.validate(estimate, unseen, zeroed=True)),
    ):
        code, printed, told = run(*asked, *given)
        assert code == 0, told
        rmse = json.loads(printed)["validation"]["wrench"]["estimate"]["rmse"]
        np.testing.assert_allclose(rmse, expected.rmse, rtol=1e-6, atol=0.0)


def test_a_recording_too_short_to_tell_its_noise_says_so(run):
    whole = short_trial("g1", "dance", noise="default").recording
    whole.between(whole.time[0], whole.time[0] + 4.0).write(Path("short.npz"))
    code, printed, told = run("g1", "short.npz")
    assert code == 0, told
    assert "the default sensor noise is assumed: " in printed
    assert "record longer" in printed


def test_a_report_without_its_parts_is_refused_before_anything_is_read(run, files, monkeypatch):
    from steelyard.report import page

    monkeypatch.setattr(page, "find_spec", lambda name: None)
    code, printed, told = run("g1", files / "empty.npz", "-o", "out")
    assert (code, printed) == (1, "")
    assert told.startswith("error: a report needs jinja2")
    assert len(told.strip().splitlines()) == 1
    assert not Path("out").exists()


def test_an_mjcf_arm_is_written_as_mjcf(run):
    Path("arm.xml").write_text(ARM)
    Path("arm.toml").write_text('[model]\nfile = "arm.xml"\nbase = "fixed"\n[torque]\nmeasured = "all"\n')
    model = sy.load_model("arm.toml")
    true = model.with_parameters(1.1 * model.parameters).pinocchio
    time = np.arange(0.0, 10.0, 0.01)
    waves = np.array([[1.0], [1.7]]) * time
    q, v, a = np.sin(waves), np.array([[1.0], [1.7]]) * np.cos(waves), -np.array([[1.0], [2.89]]) * np.sin(waves)
    torques = np.array([pin.rnea(true, true.createData(), *each) for each in zip(q.T, v.T, a.T, strict=True)])
    table = np.column_stack([time, q.T, torques])
    np.savetxt("swing.csv", table, delimiter=",", header="time,q.a,q.b,tau.a,tau.b", comments="")
    code, _, told = run("arm.toml", "swing.csv", "-o", ".")
    assert code == 0, told
    written = sy.load_model("arm_identified.xml", setup="arm.toml")
    estimate = sy.load_estimate("estimate.json")
    np.testing.assert_allclose(written.parameters, estimate.parameters, rtol=1e-9, atol=1e-12)
    assert estimate.fit.cost < 1e-2 * estimate.fit.reference_cost


def test_names_from_files_are_printed_as_they_are(run, files):
    setup = robot("g1").setup.path.read_text().splitlines()
    text = robot("g1").description.file.path.read_text().replace("left_wrist_yaw_link", "[red]hand[/nothing]")
    Path("odd.urdf").write_text(text)
    Path("odd.toml").write_text("\n".join('file = "odd.urdf"' if x.startswith("file") else x for x in setup))
    Path("[bold]dance[red].npz").write_bytes((files / "dance.npz").read_bytes())
    code, printed, told = run("odd.toml", "[bold]dance[red].npz", "--validate", "[bold]dance[red].npz")
    assert code == 0, told
    assert "[red]hand[/nothing] " in printed
    assert "[bold]dance[red].npz: 8.00 s" in printed
    assert "direct" in printed


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["g1"], 2, "Missing argument 'RECORDING'"),
        (["g2", "dance.npz"], 1, "did you mean 'g1'"),
        (["g1", "gone.npz"], 1, "there is no file 'gone.npz'; check the path"),
        (["g1", "empty.npz", "gone.npz"], 1, "there is no file 'gone.npz'; check the path"),
        (["g1", "."], 1, "the folder '.' holds no ROS 2 bag"),
        (["g1", "empty.npz"], 1, "empty.npz"),
        (["talos", "dance.npz"], 1, "dance.npz has no column 'q.leg_left_1_joint'"),
        (["g1", "dance.npz", "dance.npz"], 1, "dance.npz is given twice"),
        (["g1", "dance.npz", "--base", "pose"], 1, "dance.npz has no column 'base.position.x'"),
        (["g1", "dance.npz", "--validate", "empty.npz"], 1, "empty.npz"),
        (
            ["g1", "dance.npz", "--nuisance", "viscous_friction"],
            1,
            "dance.npz: viscous_friction shows in joint torques",
        ),
        # The empty recording would be refused if it were read first.
        (["g1", "empty.npz", "--method", "truncate"], 2, "there is no 'truncate'; did you mean 'truncated'?"),
        (["g1", "empty.npz", "--base", "air"], 2, "'air'"),
        (["g1", "empty.npz", "--nuisance", "offset"], 2, "there is no 'offset'; did you mean 'wrench_offset'"),
        (
            [*CONSTRAINED, "total_mas=3"],
            2,
            "--constraint total_mas=3: there is no constraint 'total_mas'; did you mean",
        ),
        ([*CONSTRAINED, "total_mass=heavy"], 2, "--constraint total_mass=heavy: "),
        ([*CONSTRAINED, "frozen=head*"], 1, "'head*'"),
        ([*CONSTRAINED, "total_mass=10", "--constraint", "mass_within=0.1"], 1, "total mass = 10 contradicts pelvis.m"),
        # Against what the method itself, and the parameters that are not looked for, say.
        (
            [*CONSTRAINED, "least_mass=0.3", "--parameters", "torso_link.m"],
            1,
            "contradicts left_ankle_pitch_link.m not looked",
        ),
        ([*CONSTRAINED, "com.torso_link=[[1, 0, 0], [2, 1, 1]]"], 1, "excludes torso_link itself"),
        (
            ["g1", "empty.npz", "--method", "bounded", "--constraint", "com=hull"],
            1,
            "the method 'bounded' takes bounds on single parameters (least_mass, mass_within and frozen), not 'com'",
        ),
        (
            [
                "g1",
                "empty.npz",
                "--method",
                "hierarchical",
                "--constraint",
                "least_mass=5",
                "--constraint",
                "total_mass=9",
            ],
            1,
            "total mass = 9 contradicts",
        ),
        (
            ["g1", "empty.npz", "--method", "truncated", "--constraint", "total_mass=33"],
            2,
            "--constraint: truncated does not take it; choose --method bounded or",
        ),
        (
            ["g1", "empty.npz", "--alpha", "2"],
            2,
            "--alpha: geometric does not take it; choose --method quadratic or conic",
        ),
        (
            ["g1", "empty.npz", "--c-max", "9"],
            2,
            "--c-max: geometric does not take it; choose --method truncated or bounded",
        ),
        (
            ["g1", "empty.npz", "--method", "conic", "--spread", "0.2"],
            2,
            "--spread: conic does not take it; choose --method geometric",
        ),
        (["g1", "empty.npz", "--spread", "20"], 2, "--spread: the spread of '*' is 20.0; give how far"),
        (["g1", "empty.npz", "--method", "conic", "--alpha", "-1"], 2, "'--alpha'"),
        (["g1", "empty.npz", "--sample", "0", "-o", "out"], 2, "'--sample'"),
        (["g1", "empty.npz", "--sample", "9"], 2, "--sample: name the folder to write the robots to with --output"),
        (
            ["g1", "empty.npz", "--method", "base", "--sample", "9", "-o", "out"],
            2,
            "--sample: cannot draw from base; choose --method geometric or conic",
        ),
        (["g1", "empty.npz", "--sample", "9", "-o", "mine"], 1, "mine/drawn already exists; name another folder, or"),
        (["g1", "empty.npz", "--sample", "9", "-o", "mine", "--force"], 1, "mine/drawn holds other files too; move"),
        (["g1", "empty.npz", "--sample", "9", "-o", "link", "--force"], 1, "link/drawn is not a folder; move it away"),
        (["g1", "empty.npz", "--parameters", "knee"], 1, "no parameter is called 'knee'"),
        (["g1", "empty.npz", "--offsets", "gone.json"], 1, "gone.json: there is no such file; check the path"),
        (["g1", "empty.npz", "--offsets", "dance.npz"], 1, "offsets are read from .json or .csv, not '.npz'"),
        (["g1", "empty.npz", "--offsets", "broken.json"], 1, "broken.json is not valid JSON; give the offsets.json"),
        (
            ["g1", "empty.npz", "--offsets", "other.csv"],
            1,
            "other.csv: g1_29dof_rev_1_0 has no joint 'left_nee_joint' to add an offset to; did you mean",
        ),
        (["g1", "empty.npz", "-o", "dance.npz/deeper"], 1, "dance.npz is a file, not a folder"),
        (["g1", "empty.npz", "-o", "full"], 1, "full/estimate.json already exists; name another folder, or replace"),
        (["g1", "empty.npz", "-o", "odd", "--force"], 1, "odd/g1_identified.urdf is a folder"),
        (["g1", "empty.npz", "-o", "n" * 300], 1, "cannot be a folder (File name too long)"),
    ],
)
def test_mistakes_are_told_in_one_line(run, files, arguments, code, message):
    for name in ("dance.npz", "empty.npz"):
        Path(name).write_bytes((files / name).read_bytes())
    Path("broken.json").write_text("{")
    Path("other.csv").write_text("joint,offset\nleft_nee_joint,0.1\n")
    Path("full").mkdir()
    Path("full/estimate.json").write_text("mine")
    Path("odd/g1_identified.urdf").mkdir(parents=True)
    Path("mine/drawn").mkdir(parents=True)
    Path("mine/drawn/notes.txt").write_text("mine")
    Path("link").mkdir()
    Path("link/drawn").symlink_to("../mine/drawn")
    before = sorted(Path().rglob("*"))
    found, _, told = run(*arguments)
    assert found == code, told
    assert message in " ".join(told.replace("│", " ").split())
    if code == 1:
        assert len(told.splitlines()) == 1
    assert sorted(Path().rglob("*")) == before
    assert Path("full/estimate.json").read_text() == "mine"


def test_force_replaces_what_is_there(run, files):
    Path("estimate.json").write_text("old")
    code, _, told = run("g1", files / "dance.npz", *ASKED, "-o", ".", "--force", "--no-report")
    assert code == 0, told
    assert sy.load_estimate("estimate.json").method == "geometric"


def test_a_folder_that_may_not_be_written_is_told_before_reading(run, files, monkeypatch):
    Path("locked").mkdir()
    module = import_module("steelyard.cli.output_folder")
    monkeypatch.setattr(module.os, "access", lambda path, _: Path(path).name != "locked")
    code, _, told = run("g1", files / "empty.npz", "-o", "locked/results")
    assert code == 1
    assert "locked is not writable; name another, or change its permissions" in told


def test_nothing_is_left_where_the_disk_is_full(run, files, monkeypatch):
    whole = Path.write_text

    def full(path: Path, text: str, **options: object) -> int:
        whole(path, text[:100], **options)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    code, _, told = run("g1", files / "dance.npz", *ASKED, "-o", "new/results")
    assert code == 1
    assert "nothing was written to new/results: new/results/estimate.json: the estimate cannot be written" in told
    assert not Path("new").exists()


def test_an_interrupt_leaves_nothing_half_written(run, files, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sy.Estimate, "write_model", interrupted)
    code, _, _ = run("g1", files / "dance.npz", *ASKED, "-o", "new/results")
    assert code != 0
    assert not Path("new").exists()


def test_masses_that_no_file_holds_are_told_and_the_rest_is_written(run, files):
    code, printed, told = run("g1", files / "dance.npz", *ASKED, "--method", "base", "-o", "out")
    assert (code, told) == (0, "")
    assert "identified by 'base'" in printed
    words = " ".join(printed.split())
    assert "no model file was written, but everything else was: link " in words
    assert "identify with a method that keeps masses positive" in words
    assert sorted(path.name for path in Path("out").iterdir()) == ["estimate.json", "links.csv", "report.html"]


def test_a_failed_estimate_exits_with_one_and_its_remedy(run, files, monkeypatch):
    failed = replace(by_functions("dance"), status="failed", notes=("The constraints exclude each other; drop one.",))
    monkeypatch.setattr(import_module("steelyard.cli.identify"), "identify_parameters", lambda *_, **__: failed)
    code, printed, told = run("g1", files / "dance.npz", *ASKED, "-o", "out", "--full-json")
    assert (code, printed) == (1, "")
    assert "failed and has no parameters: The constraints exclude each other; drop one." in told
    assert not Path("out").exists()


def test_help_has_an_example_and_names_every_method(run):
    code, printed, _ = run("--help")
    assert code == 0
    assert "Example:" in printed
    for method in OPTIONS:
        assert method in printed
    (pattern,) = re.findall(r"'frozen=([^']+)'", " ".join(printed.replace("│", " ").split()))
    assert sy.model.match_pattern(pattern, robot("g1").links)


def test_nothing_is_left_where_the_disk_fills_while_the_report_is_written(run, files, monkeypatch):
    from steelyard.report import Report

    def fill(self, path):
        Path(path).write_text("<!doctype html>")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Report, "write", fill)
    code, _, told = run("g1", files / "dance.npz", *ASKED, "-o", "out")
    assert code == 1
    assert "No space left on device" in told
    assert len(told.strip().splitlines()) == 1
    assert not Path("out").exists()
