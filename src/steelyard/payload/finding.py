"""What was added to a robot: the answer of `find_payload`, as numbers and as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from steelyard.identification import number_notes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray

PayloadStatus = Literal["found", "ambiguous", "nothing", "cannot tell"]

CREDIBLE = 0.95
"""Probability that the links named for a load have together."""

_WIDTH = 100
_NUMBERS = 56
"""Characters that the numbers beside a link's name take."""

_LEAST_WIDTH = 76


@dataclass(frozen=True, eq=False)
class FoundPayload:
    """One load.

    Attributes:
        link: The link that carries it, the likeliest one.
        mass: kg; negative for what was taken away.
        mass_error: Its standard error, kg, if it is on `link`.
        position: Of its centre of mass in the link's joint frame, shape (3,), m.
        position_errors: Standard errors, shape (3,), m.
        rigid: The ten parameters of the load as a body with an extent, in the link's joint frame, shape (10,); None
            where the data say no more than a point mass does.
        candidates: Probability of each link, likeliest first; together they have one.
        masses: What it would weigh on each of `links`, kg.
        likelihood_ratio: By how much the data are better explained with it than without, as twice the logarithm.
        p_value: Probability of such a ratio, on any link, if it were not there.
    """

    link: str
    mass: float
    mass_error: float
    position: FloatArray
    position_errors: FloatArray
    rigid: FloatArray | None
    candidates: Mapping[str, float]
    masses: Mapping[str, float]
    likelihood_ratio: float
    p_value: float

    @property
    def probability(self) -> float:
        """Probability that it is `link` that carries it, given that some link does."""
        return self.candidates[self.link]

    @property
    def links(self) -> tuple[str, ...]:
        """The fewest links that carry it with a probability of 95 % or more, likeliest first."""
        named: list[str] = []
        total = 0.0
        for link, probability in self.candidates.items():
            named.append(link)
            total += probability
            if total >= CREDIBLE:
                break
        return tuple(named)


@dataclass(frozen=True, eq=False)
class PayloadFinding:
    """What was added to a robot.

    Attributes:
        robot: Name of the model.
        status: "found": loads, each on a link that can be told; "ambiguous": loads, of which one may be on one of
            several links; "nothing": no load, and one worth mentioning would have been seen; "cannot tell": no load is
            seen, but some could be there unseen.
        payloads: The loads, the clearest first.
        likelihood_ratio: Twice the logarithm of by how much the best single load explains the data better than none.
        p_value: Probability of a ratio like that, on any link, without a load.
        nothing: Probability that nothing was added, if that was as likely as not beforehand.
        limits: By link, the mass (kg) above which a load at its centre is seen in 19 of 20 cases; inf where none is.
        misfit: How many times greater than their noise are the errors by which the two recordings differ, as far as no
            load explains them; all standard errors count it. At least 1.
        baseline: Whether there was a recording without the load.
        notes: What to know, in words.
    """

    robot: str
    status: PayloadStatus
    payloads: tuple[FoundPayload, ...]
    likelihood_ratio: float
    p_value: float
    nothing: float
    limits: Mapping[str, float]
    misfit: float
    baseline: bool
    notes: tuple[str, ...]

    @property
    def total_mass(self) -> float:
        """Mass of all loads, kg."""
        return float(sum(payload.mass for payload in self.payloads))

    def summary(self, width: int = _WIDTH) -> str:
        """Gives the finding as text.

        Args:
            width: Characters in a line, 76 at least.
        """
        width = max(width, _LEAST_WIDTH)
        thick, thin = "=" * width, "-" * width
        beside = "a recording without the load" if self.baseline else "the model"
        lines = [
            f" {self.robot}: what was added ".center(width, "="),
            f"{'Status:':<8}{self.status:<24}{'Beside:':<19}{beside}",
            f"{'Ratio:':<8}{f'{self.likelihood_ratio:.4g} (p {_small(self.p_value)})':<24}{'Nothing was added:':<19}"
            f"probability {_small(self.nothing)}",
        ]
        room = width - _NUMBERS
        if self.payloads:
            lines += [
                thin,
                f"{'link':<{room}}{'mass kg':>9}{'std err':>9}{'x m':>8}{'y m':>8}{'z m':>8}{'±':>7}{'prob.':>7}",
            ]
        for payload in self.payloads:
            x, y, z = payload.position
            lines.append(
                f"{_beside(payload.link, room)}{payload.mass:>9.3f}{payload.mass_error:>9.3f}{x:>8.3f}{y:>8.3f}"
                f"{z:>8.3f}{np.max(payload.position_errors):>7.3f}{payload.probability:>7.3f}"
            )
            lines += [
                f"{_beside(f'  or {link}', room)}{payload.masses[link]:>9.3f}{'':>40}{payload.candidates[link]:>7.3f}"
                for link in payload.links
                if link != payload.link
            ]
        return "\n".join([*lines, thick, *number_notes(self.notes, width)])

    def to_dict(self) -> dict[str, Any]:
        """Gives the finding as plain numbers and text, ready for JSON; a limit that is none is None."""
        return {
            "robot": self.robot,
            "status": self.status,
            "payloads": [
                {
                    "link": payload.link,
                    "mass": payload.mass,
                    "mass_error": payload.mass_error,
                    "position": payload.position.tolist(),
                    "position_errors": payload.position_errors.tolist(),
                    "rigid": None if payload.rigid is None else payload.rigid.tolist(),
                    "probability": payload.probability,
                    "candidates": dict(payload.candidates),
                    "masses": dict(payload.masses),
                    "likelihood_ratio": payload.likelihood_ratio,
                    "p_value": payload.p_value,
                }
                for payload in self.payloads
            ],
            "likelihood_ratio": self.likelihood_ratio,
            "p_value": self.p_value,
            "nothing": self.nothing,
            "limits": {link: limit if np.isfinite(limit) else None for link, limit in self.limits.items()},
            "misfit": self.misfit,
            "baseline": self.baseline,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        loads = ", ".join(f"{payload.mass:.2f} kg on {payload.link}" for payload in self.payloads)
        return f"<PayloadFinding of {self.robot}: {self.status}{f', {loads}' if loads else ''}>"


def _small(value: float) -> str:
    return "< 1e-12" if value < 1e-12 else f"= {value:.2g}"


def _beside(name: str, room: int) -> str:
    """Gives a name with numbers to come beside it, or below it where it is long; names from files may hold anything."""
    name = "  " * name.startswith("  ") + " ".join(name.split())
    return f"{name:<{room}}" if len(name) < room else f"{name}\n{'':<{room}}"
