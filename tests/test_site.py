"""The documentation as a site: built with warnings as errors, complete in itself, and fit to be read in a browser."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from tests.browser import open_browser, watch

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]

LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "link": "href",
}
"""Elements that make a browser load something at once, and where they say what."""


@dataclass
class Document(HTMLParser):
    """A page of the site: what it links to, what it loads, and what can be linked to."""

    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    styles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._style = tag == "style"
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.styles += [given["style"]] if "style" in given else []
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in LOADED and LOADED[tag] in given:
            self.loads.append(given[LOADED[tag]])

    def handle_data(self, data: str) -> None:
        self.styles += [data] if self._style else []
        self._style = False


def build(docs_yml: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site; warnings are errors."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(docs_yml),
        "--site-dir",
        str(site),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    result = build(ROOT / "mkdocs.yml", folder)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="module")
def documents(site: Path) -> dict[Path, Document]:
    found = {}
    for path in sorted(site.rglob("*.html")):
        found[path] = Document()
        found[path].feed(path.read_text(encoding="utf-8"))
    assert len(found) > 40
    return found


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Here\n\n[there](there.md)\n", encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text("site_name: a test\nplugins: []\n", encoding="utf-8")
    assert build(tmp_path / "mkdocs.yml", tmp_path / "site").returncode == 1


def test_nothing_is_loaded_from_elsewhere(site: Path, documents: dict[Path, Document]) -> None:
    for path, document in documents.items():
        for address in document.loads:
            assert not urlsplit(address).scheme, f"{path.name} loads {address}"
            assert not address.startswith("//"), f"{path.name} loads {address}"
    sheets = [text for document in documents.values() for text in document.styles]
    sheets += [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert not [sheet for sheet in sheets if "url(http" in sheet or "url(//" in sheet or "@import" in sheet]


def test_links_and_anchors_lead_somewhere(site: Path, documents: dict[Path, Document]) -> None:
    lost = []
    for path, document in documents.items():
        for address in {*document.links, *document.loads}:
            if urlsplit(address).scheme or path.name == "404.html":
                continue
            place, anchor = urldefrag(address)
            target = (path.parent / unquote(place)).resolve() if place else path
            target = target / "index.html" if target.is_dir() else target
            there = target.is_file() and target.is_relative_to(site.resolve())
            known = documents[target].anchors | {"__skip"} if target in documents else {unquote(anchor)}
            if not there or (anchor and unquote(anchor) not in known):
                lost.append(f"{path.name}: {address}")
    assert lost == []


def test_mathematics_is_written_out(site: Path) -> None:
    text = (site / "methods" / "geometric.html").read_text(encoding="utf-8")
    assert text.count("<math ") > 8
    assert not [path.name for path in site.rglob("*.html") if "arithmatex" in path.read_text(encoding="utf-8")]


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.mark.parametrize("name", ["tutorial.html", "methods/geometric.html", "troubleshooting/identification.html"])
def test_pages_open_without_a_complaint(site: Path, browser: Browser, name: str) -> None:
    page = browser.new_page()
    trouble = watch(page)
    page.goto((site / name).as_uri())
    assert page.locator("h1").inner_text()
    assert trouble == []
    page.close()


@pytest.mark.parametrize(
    "name", ["index.html", "methods/index.html", "setup.html", "troubleshooting/identification.html"]
)
def test_pages_fit_a_phone(site: Path, browser: Browser, name: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((site / name).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()


def test_colours_follow_the_reader(site: Path, browser: Browser) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto((site / "index.html").as_uri())
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        brightness[scheme] = sum(int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3])
        context.close()
    assert brightness["light"] > 700
    assert brightness["dark"] < 200


def test_a_formula_is_drawn_as_one(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.goto((site / "methods" / "geometric.html").as_uri())
    # A matrix of two rows is higher than a line, if the browser knows what MathML means.
    assert page.locator("math mtable").first.bounding_box()["height"] > 30
    page.close()


def test_the_search_finds_a_note_in_pages_opened_as_files(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    trouble = watch(page)
    page.goto((site / "index.html").as_uri())
    page.locator(".md-search__input").click()
    page.keyboard.type("carries nothing")
    result = page.locator(".md-search-result__link", has_text="Weight and sensors").first
    result.wait_for(state="attached")  # it may be folded under the page's best result
    assert "troubleshooting/identification.html" in result.get_attribute("href")
    assert trouble == []
    page.close()
