"""The report in a real browser: everything is drawn, nothing is fetched, switches switch, and it prints."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from steelyard.bounded_cache import BoundedCache
from steelyard.model.geometry import scene
from steelyard.report import write_report
from tests.browser import open_browser, watch
from tests.report.reports import NASTY, nasty_report, report
from tests.report.test_page import numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

WAIT = 60_000
LONG = "very" * 60


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        # Drawn by software, a finer robot takes most of a minute.
        patch.setattr(scene, "MOST_TRIANGLES", 3000)
        patch.setattr(scene, "_SURFACES", BoundedCache(8))
        write_report(report(), folder / "report.html")
        long = tuple(replace(trace, name=f"{LONG}{trace.name}") for trace in nasty_report().traces)
        write_report(replace(nasty_report(), traces=long), folder / "nasty.html")
    return folder


def opened(browser: Browser, path: Path, **how: Any) -> tuple[Page, list[str]]:
    page = browser.new_page(**{"viewport": {"width": 800, "height": 600}, **how})
    trouble = watch(page)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=true]", timeout=WAIT)
    return page, trouble


@pytest.fixture(scope="module")
def light(browser, files) -> Iterator[tuple[Page, list[str]]]:
    """The report, opened once for the tests that look at different parts of it, with what went wrong in any of them."""
    page, trouble = opened(browser, files / "report.html")
    yield page, trouble
    page.close()


@pytest.fixture(scope="module")
def dark(browser, files) -> Iterator[tuple[Page, list[str], bytes]]:
    """The report as a reader opens it who likes it dark, printed before anybody scrolled."""
    page, trouble = opened(browser, files / "report.html", color_scheme="dark")
    page.evaluate(
        "addEventListener('beforeprint', () => { window.printed = [...document.querySelectorAll("
        "'.plot[data-figure]')].map(each => [each.dataset.figure, each.closest('[hidden]') === null, "
        "each.querySelectorAll('.scatterlayer path, .barlayer path, .heatmaplayer image').length]); })"
    )
    yield page, trouble, page.pdf(format="A4")
    page.close()


@pytest.fixture(scope="module")
def nasty(browser, files) -> Iterator[tuple[Page, list[str]]]:
    """A report whose names are long and would be scripts wherever they were not escaped, opened on a phone."""
    page, trouble = opened(browser, files / "nasty.html", viewport={"width": 390, "height": 760})
    yield page, trouble
    page.close()


def draw_everything(page: Page) -> int:
    """Goes through the page as a reader does, every recording included; gives how many plots there are."""
    for tab in page.query_selector_all("[role=tab]"):
        tab.click()
        for plot in page.query_selector_all(".plot:visible:not([data-drawn=true])"):
            plot.scroll_into_view_if_needed()
            page.wait_for_function("each => each.dataset.drawn === 'true'", arg=plot, timeout=WAIT)
    return len(page.query_selector_all(".plot[data-drawn=true]"))


def picture(page: Page, selector: str) -> np.ndarray:
    shot = page.query_selector(selector).screenshot()
    return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"), dtype=np.int64)


def colours(pixels: np.ndarray) -> set[tuple[int, ...]]:
    """Gives the coarse hues of a picture that are more than greys."""
    flat = pixels.reshape(-1, 3)
    vivid = flat[np.ptp(flat, axis=1) > 40] // 32
    values, counts = np.unique(vivid, axis=0, return_counts=True)
    return {tuple(value) for value, count in zip(values.tolist(), counts, strict=True) if count > 150}


def test_every_plot_is_drawn_without_an_error_or_a_request(light):
    page, trouble = light
    assert draw_everything(page) == len(page.query_selector_all(".plot"))
    for plot in page.query_selector_all(".plot[data-figure]"):
        marks = plot.query_selector_all(".scatterlayer path, .barlayer path, .heatmaplayer image")
        assert len(marks) > 0, plot.get_attribute("data-figure")
    assert page.query_selector("#robot-view canvas") is not None
    assert not page.is_visible("#trouble")
    assert trouble == []


def test_links_have_colours_that_change_with_the_switch(light):
    page, trouble = light
    page.query_selector("#robot-view").scroll_into_view_if_needed()
    page.wait_for_selector("#robot-view[data-drawn=true]", timeout=WAIT)

    def shades() -> list[str]:
        return page.evaluate(
            "document.getElementById('robot-view').data.filter(each => each.meta?.link).map(each => each.color)"
        )

    def settled() -> np.ndarray:
        # What was asked for is drawn at the next frame.
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return picture(page, "#robot-view")

    before, seen = shades(), settled()
    assert len(set(before)) > 10, "links are coloured one by one"
    assert len(colours(seen)) >= 2
    page.check("input[name=colouring][value=determined]")
    after, seen_after = shades(), settled()
    assert sum(one != other for one, other in zip(before, after, strict=True)) > 20
    assert colours(seen_after) != colours(seen)
    assert "determined" in page.inner_text("#scale-words")
    page.check("input[name=colouring][value=plain]")
    assert len(set(shades())) == 1

    shown = "document.getElementById('robot-view').data.filter(each => each.visible === true).length"
    count = page.evaluate(shown)
    page.check("input[name=ellipsoids]")
    page.check("input[name=com]")
    assert page.evaluate(shown) == count + 4, "centres of mass and ellipsoids, before and after"
    with_ellipsoids = settled()
    assert np.mean(np.any(with_ellipsoids != seen_after, axis=2)) > 0.01
    page.check("input[name=moment][value=before]")
    assert page.evaluate(shown) == count + 2
    page.uncheck("input[name=surfaces]")
    page.check("input[name=labels]")
    stretch = page.evaluate(
        "(() => { const scene = document.getElementById('robot-view')._fullLayout.scene;"
        " const span = each => scene[each + 'axis'].range[1] - scene[each + 'axis'].range[0];"
        " return ['x', 'y', 'z'].map(each => scene.aspectratio[each] / span(each)); })()"
    )
    assert np.ptp(stretch) < 1e-6 * max(stretch), "a ball is a ball, whatever is shown"
    turned = settled()
    page.click("[data-view=front]")
    assert np.mean(np.any(settled() != turned, axis=2)) > 0.005
    assert trouble == []


def test_tables_sort_with_the_keyboard(light):
    page, trouble = light
    page.focus("#link-table thead th:nth-child(3) .sort")
    page.keyboard.press("Enter")

    def masses() -> list[float]:
        return page.evaluate(
            "[...document.querySelectorAll('#link-table tbody tr')].map(row => Number(row.children[2].dataset.value))"
        )

    assert masses() == sorted(masses(), reverse=True)
    page.keyboard.press("Enter")
    assert masses() == sorted(masses())
    assert page.get_attribute("#link-table thead th:nth-child(3)", "aria-sort") == "ascending"
    page.focus("#tab-wrench-0")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("#panel-wrench-1")
    assert not page.is_visible("#panel-wrench-0")
    assert trouble == []


def test_the_wheel_scrolls_the_page_over_the_robot(light):
    page, _ = light
    page.query_selector("#robot-view").scroll_into_view_if_needed()
    box = page.query_selector("#robot-view").bounding_box()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"])
    before = page.evaluate("scrollY")
    page.mouse.wheel(0, 300)
    page.wait_for_function("least => scrollY > least", arg=before + 100, timeout=10_000)


@pytest.mark.parametrize("width", [390, 1366])
def test_it_fits_a_phone_and_a_laptop(nasty, width):
    page, trouble = nasty
    assert LONG in page.inner_text("body")
    page.set_viewport_size({"width": width, "height": 760})
    # Plots are drawn again at the next frame.
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert trouble == []


def test_it_prints_with_the_robot_and_every_recording_before_anybody_scrolled(dark, files):
    page, trouble, content = dark
    assert content.startswith(b"%PDF")
    drawn = page.evaluate("window.printed")
    assert {name for name, _, _ in drawn} == set(numbers_of((files / "report.html").read_text())["figures"])
    assert all(shown and marks for _, shown, marks in drawn), drawn
    assert page.evaluate("document.getElementById('robot-print').naturalWidth") == 900
    assert page.evaluate("document.documentElement.dataset.theme") == "dark", "the screen is as it was"
    assert not page.is_visible("#panel-wrench-1")
    page.emulate_media(media="print")
    assert not page.is_visible(".controls")
    assert page.is_visible("#robot-print")
    page.emulate_media(media="screen")
    assert trouble == []


def test_dark_is_dark_and_follows_the_readers_wish(dark):
    page, trouble, _ = dark
    page.query_selector("#validation").scroll_into_view_if_needed()
    assert picture(page, "#validation").mean() < 80
    page.click("#theme")
    assert picture(page, "#validation").mean() > 200
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert trouble == []


def test_a_hostile_name_stays_text_everywhere(nasty):
    page, trouble = nasty
    page.set_viewport_size({"width": 800, "height": 600})
    draw_everything(page)
    page.check("input[name=labels]")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert NASTY in page.inner_text("#link-table")
    assert NASTY in page.inner_text("#found")
    assert page.evaluate("document.querySelectorAll('img').length") == 1, "only the robot's own picture"
    assert page.title().startswith(NASTY)
    assert NASTY in page.inner_text("#determined, [data-figure=determined]")
    assert trouble == []
