"""Carries what pages link to among the benchmarks into the site, so that those links lead somewhere there too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

_LINK = re.compile(r"\]\(((?:\.\./)+)(benchmarks/[\w./]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds each file of the benchmarks that a page links to."""
    root = Path(config.config_file_path).parent
    pages = (path.read_text(encoding="utf-8") for path in Path(config.docs_dir).rglob("*.md"))
    for name in sorted({match[2] for page in pages for match in _LINK.finditer(page)}):
        if (root / name).is_file():
            files.append(File.generated(config, name, abs_src_path=str(root / name)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Leads such links, which count from the repository's folders, to the site's: one folder less far up."""
    return _LINK.sub(lambda match: f"]({match[1].removeprefix('../')}{match[2]})", markdown)
