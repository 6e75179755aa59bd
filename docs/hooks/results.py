"""Carries the stored results of the benchmarks into the site, so that links to them lead somewhere there too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

_LINK = re.compile(r"\]\(((?:\.\./)+)benchmarks/results/([\w.]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds each file of results to the site."""
    folder = Path(config.config_file_path).parent / "benchmarks" / "results"
    for path in sorted(folder.glob("*.json")):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Leads links that a page in the repository has to where the site has the file: one folder less far up."""
    return _LINK.sub(lambda match: f"]({match[1].removeprefix('../')}results/{match[2]})", markdown)
