"""A real browser for tests: Debian's chromium, driven by playwright."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page


_ARGUMENTS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    # Machines without a graphics card draw three dimensions by software.
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
    # Smooth edges take a quarter of the time of drawing by software.
    "--webgl-antialiasing-mode=none",
)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Gives a browser; skips where there is none, unless REQUIRE_BROWSER says that there must be one."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        if os.environ.get("REQUIRE_BROWSER"):
            pytest.fail("REQUIRE_BROWSER is set, and there is no chromium; install it with: apt install chromium")
        pytest.skip("there is no chromium; install it with: apt install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=list(_ARGUMENTS))
        yield browser
        browser.close()


def watch(page: Page) -> list[str]:
    """Gives a list that fills with what goes wrong on a page: errors, failed requests, requests to elsewhere."""
    trouble: list[str] = []

    def console(message: Any) -> None:
        if message.type == "error":
            trouble.append(f"console: {message.text}")

    def request(asked: Any) -> None:
        if not asked.url.startswith(("file:", "data:", "blob:", "about:")):
            trouble.append(f"elsewhere: {asked.url}")

    page.on("console", console)
    page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
    page.on("requestfailed", lambda failed: trouble.append(f"failed: {failed.url}"))
    page.on("request", request)
    return trouble
