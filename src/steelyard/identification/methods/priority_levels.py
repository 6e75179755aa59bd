"""The levels of a hierarchy as a user writes them: lists of constraints, "data" and "reference"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.exceptions import IdentifiabilityError
from steelyard.model import CONSTRAINT_CLASSES, parse_constraints
from steelyard.wording import did_you_mean, in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.model import Constraint

DATA, REFERENCE = "data", "reference"

LEVELS = {
    "physics": ("least_mass", "total_mass", "com", "inertia", "matter", "matter_inside", "frozen"),
    "plausibility": ("mirror", "mass_within"),
    "data": (DATA,),
    "reference": (REFERENCE,),
}
"""The four levels of [jovic2016] (7)."""


def read_levels(
    given: Sequence[Sequence[str | Constraint]] | None,
) -> tuple[dict[str, tuple[str, ...]], tuple[Constraint, ...]]:
    """Return the kinds in each level, by its name, and the constraints written into levels.

    Args:
        given: Levels from the highest down, each a list of kinds of constraints ("total_mass"), of constraints, "data"
            and "reference"; None for the paper's four.

    Raises:
        IdentifiabilityError: A word is unknown, occurs twice, or the data are left out.
    """
    if given is None:
        return dict(LEVELS), ()
    words = (*CONSTRAINT_CLASSES, DATA, REFERENCE)
    if not isinstance(given, list | tuple) or not all(
        isinstance(level, list | tuple) and len(level) for level in given
    ):
        raise IdentifiabilityError(
            f"levels is {given!r}; write a list of lists, the highest first, such as "
            '[["least_mass", "inertia"], ["data"], ["reference"]]'
        )
    levels: dict[str, tuple[str, ...]] = {}
    constraints: list[Constraint] = []
    for number, level in enumerate(given, start=1):
        kinds: list[str] = []
        for entry in _entries(level):
            if isinstance(entry, str) and entry in words:
                kinds.append(entry)
            elif not isinstance(entry, str) and isinstance(entry, tuple(CONSTRAINT_CLASSES.values())):
                constraints.append(entry)
                kinds.append(entry.kind)
            else:
                raise IdentifiabilityError(
                    f"level {number} has {entry!r}{did_you_mean(str(entry), words)}; write constraints or some of "
                    f"{in_words(list(words))}",
                    names=[str(entry)],
                )
        kinds = list(dict.fromkeys(kinds))
        taken = next((kind for kind in kinds if any(kind in others for others in levels.values())), None)
        if taken is not None:
            raise IdentifiabilityError(f"{taken!r} stands in two levels; let it stand in one", names=[taken])
        levels[next((name for name, usual in LEVELS.items() if usual == tuple(kinds)), " and ".join(kinds))] = tuple(
            kinds
        )
    if not any(DATA in kinds for kinds in levels.values()):
        raise IdentifiabilityError('no level has "data": nothing would be learned; give them a level')
    return levels, tuple(constraints)


def _entries(level: Sequence[str | Constraint]) -> list[str | Constraint]:
    """Return the entries of a level, texts of constraints parsed."""
    entries: list[str | Constraint] = []
    for entry in level:
        written = isinstance(entry, str) and "=" in entry
        entries += parse_constraints([entry], "levels") if written else [entry]  # type: ignore[list-item]
    return entries
