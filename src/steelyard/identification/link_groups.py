"""Groups of links whose models deviate alike: the middle of the body, its legs, its arms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steelyard.arrays import is_finite_number
from steelyard.exceptions import IdentifiabilityError
from steelyard.model import find_pairs, match_pattern
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.model import Model

_FEWEST = 3
"""Least number of links of a limb that is a group of its own. Set by judgement: the data decide three or four
combinations of a link, and few links do not give a deviation (docs/decisions/0012)."""


@dataclass(frozen=True)
class LinkGroup:
    """Links that share one relative deviation of their model.

    Attributes:
        name: "middle", or the first link of a limb, whose mirror image belongs to it too.
        links: Names of its links.
        spread: The relative deviation, where it is given.
    """

    name: str
    links: tuple[str, ...]
    spread: float | None = None


def group_links(model: Model, spread: Any = None) -> tuple[LinkGroup, ...]:
    """Return the groups of a robot's links.

    A limb is what hangs from a link that has a mirror image, with that image; everything else is the middle. Without
    ``[mirror]`` in the setup all links are one group.

    Args:
        model: The reference.
        spread: None; the relative deviation of the model (0.2 for 20 %); or that by pattern of links, the last that
            matches a link counting: these links are groups of their own.

    Raises:
        IdentifiabilityError: A spread is no positive number, or a pattern matches nothing.
    """
    given = {"*": spread} if spread is not None and not isinstance(spread, Mapping) else dict(spread or {})
    owners: dict[str, str] = {}
    for pattern, value in given.items():
        if not (is_finite_number(value) and 1e-3 <= value <= 0.5):
            raise IdentifiabilityError(
                f"the spread of {pattern!r} is {value!r}; give how far the model is off, from 0.001 (0.1 %) to 0.5"
            )
        matched = match_pattern(str(pattern), model.links)
        if not matched:
            raise IdentifiabilityError(
                f"no link is called {pattern!r}{did_you_mean(str(pattern), model.links)}", names=[str(pattern)]
            )
        owners |= dict.fromkeys(matched, str(pattern))
    known = [
        LinkGroup(
            "all links" if pattern == "*" else pattern,
            tuple(link for link in model.links if owners.get(link) == pattern),
            float(value),
        )
        for pattern, value in given.items()
        if pattern in owners.values()
    ]
    limbs = _limbs(model)
    found: dict[str, list[str]] = {}
    for link in model.links:
        if link not in owners:
            found.setdefault(limbs.get(link, "middle"), []).append(link)
    small = [name for name, links in found.items() if len(links) < _FEWEST and name != "middle" and len(found) > 1]
    for name in small:
        found.setdefault("middle", []).extend(found.pop(name))
    return (*(LinkGroup(name, _ordered(model, links)) for name, links in found.items()), *known)


def _limbs(model: Model) -> dict[str, str]:
    """Return, by link of a limb, the name of that limb: the first link on the way to it with a mirror image."""
    if model.setup.mirror is None:
        return dict.fromkeys(model.links, "all links")
    left: dict[str, str] = {}
    for pair in find_pairs(model):
        names = model.links[pair.left], model.links[pair.right]
        left |= dict.fromkeys(names, names[0])
    limbs: dict[str, str] = {}
    for body in model.bodies:
        above = limbs.get(model.bodies[body.parent].name) if body.parent >= 0 else None
        limb = above or left.get(body.name)
        if limb is not None:
            limbs[body.name] = limb
    return limbs


def _ordered(model: Model, links: Sequence[str]) -> tuple[str, ...]:
    wanted = set(links)
    return tuple(link for link in model.links if link in wanted)
