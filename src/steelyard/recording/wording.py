"""Words for messages: names, numbers and other libraries' complaints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.model.names import in_words

if TYPE_CHECKING:
    from collections.abc import Iterable


def show_name(name: str) -> str:
    """Gives a name for a message, quoted, cut where it is long."""
    return repr(name if len(name) <= 60 else name[:57] + "...")


def show_names(names: Iterable[str], *, limit: int = 4) -> str:
    """Gives names in words for a message, quoted, cut where they are long."""
    return in_words([show_name(name) for name in names], limit=limit) or "no columns"


def count(number: int, one: str, many: str) -> str:
    """Gives a number with its words, such as '1 column is' or '3 columns are'."""
    return f"{number} {one if number == 1 else many}"


def reason(error: BaseException) -> str:
    """Gives what another library complains of, on one line, cut where it is long."""
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 160 else words[:157] + "..."
