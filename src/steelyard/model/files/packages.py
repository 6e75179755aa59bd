"""Resolution of ``package://`` URIs: ROS paths, the folders above the model, and the installed example robots."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from steelyard.exceptions import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SCHEMES = ("package", "model")


def resolve_uri(uri: str, *, beside: Path | None = None, packages: Sequence[Path] = ()) -> Path | None:
    """Return the file that a URI or a path in a model file refers to, or None if a package is not found.

    Args:
        uri: ``package://name/rest``, ``model://name/rest``, ``file:///rest``, or a path.
        beside: The file that holds the URI: relative paths start in its folder, and packages are searched above it.
        packages: Folders that hold packages, searched first.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if parts.scheme not in _SCHEMES:
        path = as_path(uri)
        return path if path.is_absolute() or beside is None else beside.parent / path
    package, rest = unquote(parts.netloc), unquote(parts.path).lstrip("/")
    for folder in _package_folders(package, beside, packages):
        if is_file(folder / rest):
            return folder / rest
    return None


def find_file(uri: str, *, beside: Path | None = None, packages: Sequence[Path] = ()) -> Path:
    """Return the file that `uri` refers to; see `resolve_uri`.

    Raises:
        ModelError: There is no such package or file.
    """
    path = resolve_uri(uri, beside=beside, packages=packages)
    if path is None:
        package = uri.partition("://")[2].partition("/")[0]
        remedy = (
            "install the example robots with: pip install 'steelyard[robots]'"
            if package == "example-robot-data"
            else "add the folder that holds it to ROS_PACKAGE_PATH"
        )
        raise ModelError(f"{uri}: no package {package!r} with this file is found; {remedy}", names=[package])
    if is_folder(path):
        raise ModelError("a folder, not a file; name the file in it", path=path)
    if not is_file(path):
        raise ModelError("there is no such file; check the path", path=path)
    return path


def as_path(text: str | Path) -> Path:
    """Return a path with ``~`` expanded; an unknown user stays as written."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def is_file(path: Path) -> bool:
    """Return whether there is such a file; False also where the name is too long or access is denied."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Return whether there is such a folder; see `is_file`."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _package_folders(package: str, beside: Path | None, packages: Sequence[Path]) -> Iterator[Path]:
    roots = [*packages]
    roots += [Path(entry) for entry in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if entry]
    for root in roots:
        yield root / package
        if root.name == package:
            yield root
    for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep):
        if prefix:
            yield Path(prefix) / "share" / package
    if beside is not None:
        yield from (parent for parent in beside.resolve().parents if parent.name == package)
        yield from (parent / package for parent in beside.resolve().parents)
    yield from (share / package for share in _installed_shares())


def _installed_shares() -> Iterator[Path]:
    """Yield the folder in which pip put the data of example-robot-data, if it is installed."""
    try:
        distribution = metadata.distribution("example-robot-data")
    except metadata.PackageNotFoundError:
        return
    yield Path(str(distribution.locate_file("cmeel.prefix"))) / "share"
