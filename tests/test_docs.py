"""The documentation: it builds, leads somewhere, runs, and tells of every note and every public name."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

import steelyard
from tests import printed_words
from tests.laboratory.trials import robot, short_trial
from tests.page_runs import Page, read_page, run_page
from tests.printed_words import Words, fits

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

ELSEWHERE = {
    "calibration.md": "calibration/test_page.py",
    "evidence.md": "test_readme.py",
    "identification.md": "identification/test_page.py",
    "laboratory.md": "test_readme.py",
    "motion.md": "motion/test_page.py",
    "payload.md": "payload/test_page.py",
    "recordings.md": "test_readme.py",
    "statistics.md": "identification/test_page.py",
    "validation.md": "validation/test_page.py",
}
"""Pages whose Python another test runs, which also looks at what it prints."""

LEAST_LETTERS = 8
"""An entry of fewer letters could mean anything."""

NO_MESSAGES = (
    "'q.<joint>', 'v.<joint>'",  # the columns' names, quoted in an error
    "condition number …; of as many",  # lines of PoseDesign.summary, which say what they mean
    "centre of mass at least",
    "feet (x, y, heading)",
    "the box for its centre of mass",  # names of constraints
    "drafted by `steelyard init`",  # what drafts say of themselves, and examples to fill in
    "Entries marked found",
    "# Locked so that every joint",
    "# Joints that mimic",
    'frame = "the link',
    "other wrench sensors",
    "check the ",
)


def entries() -> list[str]:
    """Gives the words of all entries on the pages of troubleshooting: terms of a list of definitions."""
    found = []
    for page in sorted((DOCS / "troubleshooting").glob("*.md")):
        lines = page.read_text(encoding="utf-8").splitlines()
        found += [line.strip("`") for line, after in itertools.pairwise(lines) if line[:1] == "`" and after[:1] == ":"]
    return found


def missing(messages: tuple[Words, ...], told: list[str]) -> list[str]:
    """Gives the messages of which no entry tells."""
    return [
        f"{words.place}: {words.template}"
        for words in messages
        if not any(fits(entry, words.template) for entry in told)
        and not any(part in words.template for part in NO_MESSAGES)
    ]


def test_every_note_has_an_entry() -> None:
    notes = printed_words.notes()
    assert len(notes) > 200  # the collector still finds them
    assert missing(notes, entries()) == []


def test_a_note_without_an_entry_is_noticed() -> None:
    new = Words("The … of … is made of cheese; eat it.", "nowhere.py:1")
    assert missing((new,), entries()) != []


def test_every_entry_is_of_a_message() -> None:
    texts = printed_words.texts()
    assert [entry for entry in entries() if not any(fits(entry, words.template) for words in texts)] == []


def test_entries_say_enough_to_be_found() -> None:
    assert [entry for entry in entries() if len(re.sub(r"[\W\d_]", "", entry)) < LEAST_LETTERS] == []


def pages(*, all_of_them: bool = False) -> list[Page]:
    """Gives the pages, those with something to run here, or all of them."""
    found = [read_page(path, DOCS) for path in sorted(DOCS.rglob("*.md"))]
    return [page for page in found if all_of_them or page.runs(python=page.name not in ELSEWHERE)]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_what_stands_on_a_page_runs(page: Page, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, python=page.name not in ELSEWHERE)


@pytest.mark.parametrize(("page", "where"), ELSEWHERE.items())
def test_what_runs_elsewhere_does_so(page: str, where: str) -> None:
    source = (ROOT / "tests" / where).read_text(encoding="utf-8")
    assert f'"{page}"' in source
    assert "```python" in source


def test_a_command_that_fails_is_noticed(tmp_path, monkeypatch) -> None:
    (tmp_path / "page.md").write_text("```sh\nsteelyard check nobody.urdf\n```\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match="ended with 1"):
        run_page(read_page(tmp_path / "page.md", tmp_path), tmp_path, python=True)


def test_words_that_are_not_printed_are_noticed(tmp_path) -> None:
    text = "```python\nprint('weighs 3.2 kg')\n```\n<!-- prints -->\n```text\nweighs 4.1 {}\n```\n"
    for unit, fine in (("kg", True), ("lb", False)):
        (tmp_path / "page.md").write_text(text.format(unit), encoding="utf-8")
        page = read_page(tmp_path / "page.md", tmp_path)
        if fine:
            run_page(page, tmp_path, python=True)
        else:
            with pytest.raises(AssertionError, match="not printed"):
                run_page(page, tmp_path, python=True)


def test_the_reference_has_every_public_name() -> None:
    told = {
        name
        for page in (DOCS / "api").glob("*.md")
        for name in re.findall(r"(?m)^::: steelyard\.(?:[\w.]+\.)?(\w+)$", page.read_text(encoding="utf-8"))
    }
    assert told == {*steelyard.__all__, *steelyard._LABORATORY}
    index = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"(?m)^\| \[`(\w+)`\]\[steelyard\.[\w.]+\] \| (.*) \|$", index))
    assert set(listed) == told
    for name, words in listed.items():
        assert (getattr(steelyard, name).__doc__ or "").startswith(words.replace("\\|", "|")), name


def fields_of(name: str) -> set[str]:
    """Gives the fields that the page on formats says a file has."""
    page = (DOCS / "formats.md").read_text(encoding="utf-8")
    _, _, rest = page.partition(f"<!-- fields: {name} -->\n")
    rows = itertools.takewhile(lambda line: line.startswith("|"), rest.splitlines())
    return {field for row in itertools.islice(rows, 2, None) for field in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_files_have_the_fields_that_the_page_on_formats_says(tmp_path) -> None:
    model = robot("g1")
    motion, other = (
        steelyard.reconstruct_motion(model, short_trial("g1", name, noise="default").recording)
        for name in ("dance", "reach")
    )
    evidence = steelyard.gather_evidence(model, motion, nuisance=())
    evidence.save(tmp_path / "evidence.npz")
    estimate = steelyard.identify(model, evidence)
    steelyard.write_offsets(tmp_path / "offsets.json", {"left_knee_joint": 0.01})
    with np.load(tmp_path / "evidence.npz", allow_pickle=False) as archive:
        assert fields_of("evidence.npz") == set(archive.files)
    assert fields_of("estimate.json") == set(estimate.to_dict())
    validation = steelyard.validate(estimate, other)
    assert fields_of("validation.json") == {*validation.to_dict(), "verdict"}
    assert fields_of("offsets.json") >= set(json.loads((tmp_path / "offsets.json").read_text(encoding="utf-8")))


def test_figures_of_the_methods_are_those_stored() -> None:
    stored = json.loads((ROOT / "benchmarks" / "results" / "truth.json").read_text(encoding="utf-8"))
    figures = {figure["what"]: figure for figure in stored["figures"]}
    page = (DOCS / "methods" / "index.md").read_text(encoding="utf-8")
    rows = [line for line in page.partition("<!-- figures: truth -->")[2].splitlines() if line.startswith("| `")]
    assert len(rows) == 9
    for row in rows:
        label, *cells = (cell.strip(" `*") for cell in row.strip("|").split("|"))
        method = label.replace("`", "").replace("\u03b1", "alpha")
        affine, mass, cross = (
            figures[f"{method}: {what}"]
            for what in (
                "runs nearer to the truth than CAD (affine), of 40",
                "mass error over CAD's, median",
                "cross RMSE over the truth's, worst axis, worst run",
            )
        )
        wanted = (
            float(re.findall(r"can exist: ([\d.]+)%", affine["note"])[0]),
            mass["value"],
            float(re.findall(r"worst ([\d.]+)", mass["note"])[0]),
            float(re.findall(r"median ([\d.]+)", cross["note"])[0]),
            cross["value"],
            float(re.findall(r"([\d.]+) s, most", mass["note"])[0]),
        )
        for cell, value in zip((cell.removesuffix(" %") for cell in cells), wanted, strict=True):
            last_digit = 10.0 ** -len(cell.partition(".")[2])
            assert float(cell) == pytest.approx(value, rel=0.0, abs=0.51 * last_digit), method


@pytest.mark.parametrize("method", ["geometric", "conic", "truncated", "bounded", "quadratic", "hierarchical"])
def test_a_methods_page_has_its_figures(method: str) -> None:
    stored = json.loads((ROOT / "benchmarks" / "results" / "truth.json").read_text(encoding="utf-8"))
    label = f"{method}, alpha = 1" if method == "quadratic" else method
    (error,) = [each for each in stored["figures"] if each["what"] == f"{label}: mass error over CAD's, median"]
    page = (DOCS / "methods" / f"{method}.md").read_text(encoding="utf-8")
    shown = re.findall(r"[Mm]asses (?:end )?at ([\d.]+\d) of the CAD's error", page)
    assert shown == [f"{error['value']:.2f}"]


def test_commands_that_stand_in_other_blocks_are_run_by_other_tests() -> None:
    """Blocks of `console` are not run here: nothing may stand in them that nobody runs."""
    elsewhere = {"steelyard demo": "cli/test_demo.py", "steelyard --help": "cli/test_exit_codes.py"}
    told = {
        line.split("#")[0].strip()
        for page in [*pages(all_of_them=True), read_page(ROOT / "README.md", ROOT)]
        for block in page.blocks
        if block.language not in ("sh", "python", "text", "toml")
        for line in block.body.splitlines()
        if line.startswith("steelyard ")
    }
    assert told <= set(elsewhere)
    for command, where in elsewhere.items():
        assert f'"{command.split()[1]}"' in (ROOT / "tests" / where).read_text(encoding="utf-8"), command
