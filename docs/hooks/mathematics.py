"""Turns mathematics into MathML while the site is built, so that no script has to draw it in the reader's browser."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    r"""Gives the page with every ``\(...\)`` and ``\[...\]`` that arithmatex marked as MathML."""
    return _FORMULA.sub(_written, content)


def _written(match: re.Match[str]) -> str:
    element, marked = match.groups()
    block = element == "div"
    formula = html.unescape(marked.strip())[2:-2].strip()
    mathml = convert(formula, display="block" if block else "inline")
    return f'<{element} class="formula">{mathml}</{element}>'
