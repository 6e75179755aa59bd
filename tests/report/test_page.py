"""The page: one small file, every name escaped, every figure one that plotly takes, and the words that it must say."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser

import numpy as np
import plotly.graph_objects as go
import pytest

import steelyard as sy
from steelyard.exceptions import ModelError, SolverError, SteelyardError
from steelyard.report import Report, page, render_report
from steelyard.report.packing import unpack
from tests.report.reports import COMMAND, NASTY, estimate, nasty_report, report


@cache
def rendered(which: str = "whole") -> str:
    return render_report({"whole": report, "nasty": nasty_report, "bare": lambda: Report(estimate())}[which]())


class Page(HTMLParser):
    """Collects elements, attributes and words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._silent = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._silent += tag in ("script", "style")

    def handle_endtag(self, tag):
        self._silent -= tag in ("script", "style")

    def handle_data(self, data):
        if not self._silent:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def numbers_of(text: str) -> dict:
    (packed,) = re.findall(r'id="numbers">([^<]*)<', text)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


@pytest.mark.parametrize("which", ["whole", "nasty", "bare"])
def test_it_is_one_small_file_that_asks_nobody(which):
    text = rendered(which)
    assert len(text.encode()) < 4_000_000
    for tag, attributes in Page(text).elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = attributes.get(name) or ""
            assert not value or value.startswith("#"), (tag, name, value)
    style = "".join((page._FILES / name).read_text() for name in ("page.css", "page.js", "robot.js"))
    assert "http" not in style
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in text


def test_names_are_text_and_never_markup():
    text = rendered("nasty")
    parsed = Page(text)
    assert NASTY in parsed.text, "the name is shown as it is"
    assert not [attributes for tag, attributes in parsed.elements if tag == "img" and attributes.get("src")]
    assert not [attributes for _, attributes in parsed.elements if any(name.startswith("on") for name in attributes)]
    for figure in numbers_of(text)["figures"].values():
        for words in _texts(figure):
            assert "<img" not in words


def _texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, each in value.items():
            if name != "bytes":
                yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def test_plotly_takes_every_figure():
    figures = numbers_of(rendered())["figures"]
    assert {
        "wrench-0",
        "residual-1",
        "spectrum-0",
        "contact-1",
        "determined",
        "conditions",
        "correlation",
        "truth",
    } <= (set(figures))

    def plain(value):
        if isinstance(value, dict):
            return unpack(value).tolist() if "packed" in value else {key: plain(each) for key, each in value.items()}
        return [plain(each) for each in value] if isinstance(value, list) else value

    for figure in figures.values():
        layout = plain(figure["layout"])
        for axis in list(layout):
            if axis.startswith(("xaxis", "yaxis")) and layout[axis].get("matches", "x") is None:
                del layout[axis]["matches"]
        go.Figure(data=plain(figure["data"]), layout=layout)


def test_every_figure_has_its_place_and_words_for_those_who_do_not_see_it():
    parsed = Page(rendered())
    places = [attributes for _, attributes in parsed.elements if "data-figure" in attributes]
    assert sorted(place["data-figure"] for place in places) == sorted(numbers_of(rendered())["figures"])
    assert all(place["aria-label"] for place in places)


def test_it_says_what_was_found():
    text = Page(rendered()).text
    found = report().estimate
    assert f"{found.total_mass:.2f} kg" in text
    for link in found.model.links:
        assert link in text
    for note in found.notes:
        assert " ".join(note.split()) in text
    for words in (COMMAND, "left_knee_joint", "dance.csv: all is well", found.provenance["model"]["sha256"]):
        assert words in text
    for name in found.base.names:
        assert name in text


def test_its_numbers_are_the_estimates():
    links = numbers_of(rendered())["scene"]["links"]
    found = report().estimate
    np.testing.assert_allclose([link["mass"][1] for link in links], found.parameters[:, 0], rtol=1e-12, atol=0.0)
    np.testing.assert_allclose(
        [link["determined"] for link in links], 100.0 * found.determined[:, :4].mean(axis=1), rtol=1e-12, atol=1e-12
    )
    change = 100.0 * (found.parameters[:, 0] / found.reference[:, 0] - 1.0)
    np.testing.assert_allclose([link["change"] for link in links], change, rtol=1e-9, atol=1e-12)


def test_a_bare_estimate_is_reported_and_what_is_missing_is_said():
    text = Page(rendered("bare")).text
    assert "Not validated" in text
    assert "--validate" in text
    assert "Contacts" not in text
    assert "wrench-0" not in numbers_of(rendered("bare"))["figures"]


def decided(**changes):
    """Gives the estimate as it would be of a long recording that decides every mass."""
    long = replace(estimate().fit, freedom=400.0)
    options = {**estimate().options, "noise_factor": 1.0}
    covariance = 1e-6 * estimate().covariance
    return replace(estimate(), **{"fit": long, "covariance": covariance, "options": options, **changes})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": "weak"}, "Weak. The recordings determine little"),
        ({"status": "stopped"}, "Bad. The solver stopped before it converged"),
    ],
)
def test_doubts_are_said_first(change, words):
    text = Page(render_report(replace(report(), estimate=decided(**change)))).text
    assert words in text


@pytest.mark.parametrize(("factor", "doubted"), [(10.0, True), (1.5, False)])
def test_data_that_contradict_each_other_are_never_called_good(factor, doubted):
    validation = report().validation
    gains = {row: replace(gain, verdict="real") for row, gain in validation.improvement["corrected"].items()}
    changed = replace(validation, improvement={"reference": gains, "corrected": gains})
    told = decided(options={**estimate().options, "noise_factor": factor})
    text = Page(render_report(replace(report(), estimate=told, validation=changed))).text
    assert ("Weak. The residuals are 10.0 times larger than sensor noise explains" in text) == doubted
    assert ("Good. On unseen motion" in text) != doubted


def test_an_axis_that_got_worse_is_said_first():
    validation = report().validation
    gains = {row: replace(gain, verdict="real") for row, gain in validation.improvement["corrected"].items()}
    gains["fy"] = replace(gains["fy"], verdict="worse")
    changed = replace(validation, improvement={"reference": gains, "corrected": gains})
    text = Page(render_report(replace(report(), estimate=decided(), validation=changed))).text
    assert "Weak. On unseen motion, all axes together" in text
    assert "but fy worse" in text


def test_links_that_the_data_do_not_tell_are_said_to_be_the_models_only_where_they_are():
    solution = np.array(estimate().parameters)
    determined = np.array(estimate().determined)
    determined[:2] = 0.0
    solution[0] = 1.5 * estimate().reference[0]
    solution[1] = estimate().reference[1]
    text = Page(
        render_report(replace(report(), estimate=replace(estimate(), solution=solution, determined=determined)))
    ).text
    first, second = estimate().model.links[:2]
    (kept,) = re.findall(r"The recordings hardly determine ([^:]*):", text)
    assert second in kept
    assert first not in kept
    assert f"one by one, only their sums with neighbours: {first} (+" in text


@pytest.mark.parametrize(
    ("verdict", "words"),
    [("worse", "Bad. On unseen motion, it predicts worse"),
     ("real", "Good. On unseen motion, it predicts significantly better than the model file, and"),
     ("undecided", "Weak. On unseen motion, the difference")],
)  # fmt: skip
def test_the_verdict_is_the_validations(verdict, words):
    validation = report().validation
    gains = {row: replace(gain, verdict="real") for row, gain in validation.improvement["corrected"].items()}
    gains["total"] = replace(gains["total"], verdict=verdict)
    clear = {row: replace(gain, verdict="real") for row, gain in gains.items()}
    changed = replace(validation, improvement={"reference": clear, "corrected": gains})
    assert words in Page(render_report(replace(report(), estimate=decided(), validation=changed))).text
    direct = replace(changed, kind="direct")
    assert (
        "Weak. Validated on data that the estimate was made from"
        in Page(render_report(replace(report(), estimate=decided(), validation=direct))).text
    )


def test_the_same_report_gives_the_same_file(tmp_path):
    Report(estimate(), command=COMMAND).write(tmp_path / "one.html")
    Report(estimate(), command=COMMAND).write(tmp_path / "two.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_mistakes_are_told_in_one_sentence(tmp_path, monkeypatch):
    with pytest.raises(SolverError, match="a failed estimate cannot be reported"):
        Report(replace(estimate(), status="failed"))
    with pytest.raises(ModelError, match="true parameters have the shape"):
        Report(estimate(), truth=np.zeros((3, 10)))
    with pytest.raises(SteelyardError, match=r"none.html: the report cannot be written \(No such file"):
        Report(estimate()).write(tmp_path / "no" / "none.html")
    monkeypatch.setattr(page, "find_spec", lambda name: None if name == "plotly" else object())
    with pytest.raises(SteelyardError, match=r'a report needs plotly, .* pip install "steelyard\[report\]"'):
        page.check_report_parts()


def test_an_arm_with_torques_is_reported(tmp_path):
    (tmp_path / "arm.xml").write_text(
        '<mujoco model="arm"><worldbody><body name="upper"><joint name="a" axis="0 1 0"/><geom size="0.1"/>'
        '<inertial mass="2" pos="0.1 0 -0.2" diaginertia="0.02 0.03 0.01"/></body></worldbody></mujoco>'
    )
    (tmp_path / "arm.toml").write_text('[model]\nfile = "arm.xml"\nbase = "fixed"\n[torque]\nmeasured = "all"\n')
    model = sy.load_model(tmp_path / "arm.toml")
    time = np.arange(0.0, 6.0, 0.01)
    q = np.sin(time)[:, None]
    torque = 10.0 * np.sin(time + 0.3)
    moved = sy.motion_from_generalized(model, time, q, np.cos(time)[:, None], -q, torques={"a": torque})
    gathered = sy.gather_evidence(model, moved, nuisance=())
    found = sy.identify(model, gathered, method="truncated")
    from steelyard.report import trace_motions

    whole = Report(
        found,
        evidence=gathered,
        validation=sy.validate(found, moved),
        traces=(trace_motions(found, [moved], name="arm", purpose="training"),),
    )
    text = Page(render_report(whole)).text
    assert "mass of its moving links" in text
    assert "Contacts" not in text


def numbers_in_contacts(report_: Report) -> np.ndarray:
    (figure,) = [each for key, each in numbers_of(render_report(report_))["figures"].items() if key == "contact-0"]
    return unpack(next(each for each in figure["data"] if each["type"] == "scatter")["y"])


def test_no_load_is_drawn_across_a_gap():
    whole = report().traces[0]
    broken = replace(whole, breaks=(float(whole.time[50]),))
    assert np.isnan(numbers_in_contacts(replace(report(), traces=(broken,)))).sum() == 1
    assert not np.isnan(numbers_in_contacts(replace(report(), traces=(whole,)))).any()


def test_a_dozen_recordings_still_fit():
    many = tuple(replace(report().traces[0], name=f"{number}.csv") for number in range(14))
    assert len(render_report(replace(report(), traces=many)).encode()) < 4_000_000


def test_a_model_that_got_worse_is_told_in_plain_percent():
    validation = report().validation
    changed = {
        other: {row: replace(gain, ratio=1.074, verdict="worse") for row, gain in gains.items()}
        for other, gains in validation.improvement.items()
    }
    text = Page(render_report(replace(report(), validation=replace(validation, improvement=changed)))).text
    assert re.search(r"107 %\s?of the model file's error on unseen motion", text)
    assert "e+" not in text.partition("Robot Links")[2].partition("Rotate it with")[0]


def test_better_than_the_model_file_is_said_only_where_that_was_told_from_chance():
    validation = report().validation
    gains = {
        other: {row: replace(gain, verdict="real") for row, gain in each.items()}
        for other, each in validation.improvement.items()
    }
    gains["reference"]["total"] = replace(gains["reference"]["total"], verdict="undecided")
    changed = replace(validation, improvement=gains)
    text = Page(render_report(replace(report(), estimate=decided(), validation=changed))).text
    assert "Weak. On unseen motion, it predicts better than the model file scaled by one factor;" in text


def test_links_that_cannot_exist_are_said_first():
    solution = np.array(estimate().parameters)
    solution[3, 4] = -1.0
    text = Page(render_report(replace(report(), estimate=decided(solution=solution)))).text
    assert "Weak. 1 of 30 links are physically impossible" in text


def test_a_change_within_its_interval_is_no_headline():
    solution = np.array(estimate().parameters)
    solution[:, 0] *= (estimate().reference[:, 0].sum() + 0.02) / solution[:, 0].sum()
    text = Page(render_report(replace(report(), estimate=replace(estimate(), solution=solution)))).text
    assert "0.02 kg more than in its model file, which is within the uncertainty." in text


def test_names_that_are_numbers_stay_names():
    for key in ("determined", "conditions", "truth"):
        assert numbers_of(rendered())["figures"][key]["layout"]["yaxis"]["type"] == "category"
