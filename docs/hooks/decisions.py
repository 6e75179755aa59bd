"""Lists the decisions on their page, each with its heading, so that none is forgotten there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

_MARK = "<!-- decisions -->"


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Puts the list in place of the mark."""
    if _MARK not in markdown or page.file.abs_src_path is None:
        return markdown
    lines = []
    for path in sorted(Path(page.file.abs_src_path).parent.glob("0*.md")):
        number, _, title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").partition(". ")
        lines.append(f"{number}. [{title}]({path.name})")
    return markdown.replace(_MARK, "\n".join(lines))
