"""The result of `find_payload`: which loads were added to a robot, as numbers and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from steelyard.identification import number_notes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steelyard.arrays import FloatArray

PayloadStatus = Literal["found", "ambiguous", "nothing", "cannot tell"]

CREDIBLE = 0.95
"""Total probability of the candidate links that are listed for a load: the usual level of a credible set."""

_WIDTH, _LEAST_WIDTH = 100, 76
"""Characters in a line of the summary, by default and at least (the table's numbers and a link name of 20)."""

_NUMBERS_WIDTH = 56
"""Characters that the table's numbers take beside a link's name."""


@dataclass(frozen=True, eq=False)
class FoundPayload:
    """One load.

    Attributes:
        link: The most probable link that carries it.
        mass: kg; negative if mass was removed.
        mass_error: Standard error of the mass if the load is on `link`, kg.
        position: Centre of mass in the link's joint frame, shape (3,), m.
        position_errors: Standard errors of the position, shape (3,), m.
        rigid: The ten parameters of the load as an extended rigid body, in the link's joint frame, shape (10,); None
            where the data do not tell it from a point mass.
        candidates: Probability of each link, most probable first; they sum to one.
        masses: Mass of the load if it is on each of `links`, kg.
        likelihood_ratio: Twice the log-likelihood ratio of the data with and without this load.
        p_value: Probability of such a ratio, on any link, without the load.
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
        """Probability that `link` carries it, given that some link does."""
        return self.candidates[self.link]

    @property
    def links(self) -> tuple[str, ...]:
        """The smallest set of links that holds it with a probability of at least 95 %, most probable first."""
        totals = np.cumsum(list(self.candidates.values()))
        return tuple(self.candidates)[: int(np.count_nonzero(totals < CREDIBLE)) + 1]


@dataclass(frozen=True, eq=False)
class PayloadFinding:
    """The loads that were added to a robot.

    Attributes:
        robot: Name of the model.
        status: "found": loads, each on one identified link; "ambiguous": loads, at least one of which may be on one of
            several links; "nothing": no load, and any load worth reporting would have been detected; "cannot tell": no
            load was detected, but one could be present on some links.
        payloads: The loads, most significant first.
        likelihood_ratio: Twice the log-likelihood ratio of the best single load and no load.
        p_value: Probability of such a ratio, on any link, without a load.
        nothing: Posterior probability that nothing was added, with a prior probability of one half.
        limits: By link, the mass (kg) above which a load at its centre is detected in 19 of 20 cases; inf where no load
            is observable.
        misfit: Factor (at least 1) between the differences of the two recordings that no load explains and their
            noise; all standard errors include it.
        changes: Posterior probability of each change of the sensors between the recordings, with or without a load:
            "none", one of `steelyard.payload.CHANGES`, or "several" at once. A priori all are equally likely.
        baseline: Whether there was a recording without the load.
        notes: Remarks, a sentence or two each.
    """

    robot: str
    status: PayloadStatus
    payloads: tuple[FoundPayload, ...]
    likelihood_ratio: float
    p_value: float
    nothing: float
    limits: Mapping[str, float]
    misfit: float
    changes: Mapping[str, float]
    baseline: bool
    notes: tuple[str, ...]

    @property
    def total_mass(self) -> float:
        """Mass of all loads, kg."""
        return float(sum(payload.mass for payload in self.payloads))

    def summary(self, width: int = _WIDTH) -> str:
        """Return the finding as text.

        Args:
            width: Characters in a line, at least 76.
        """
        width = max(width, _LEAST_WIDTH)
        room = width - _NUMBERS_WIDTH
        against = "a recording without the load" if self.baseline else "the model"
        lines = [
            f" {self.robot}: payload ".center(width, "="),
            f"{'Status:':<19}{self.status}",
            f"{'Compared with:':<19}{against}",
            f"{'Likelihood ratio:':<19}{self.likelihood_ratio:.4g} (p {_small(self.p_value)})",
            f"{'Nothing was added:':<19}probability {_small(self.nothing)}",
        ]
        if len(self.changes) > 1:
            change = max(self.changes, key=self.changes.__getitem__)
            lines.append(f"{'Sensors changed:':<19}{change} (probability {_small(self.changes[change])})")
        if self.payloads:
            lines += [
                "-" * width,
                f"{'link':<{room}}{'mass kg':>9}{'std err':>9}{'x m':>8}{'y m':>8}{'z m':>8}{'±':>7}{'prob.':>7}",
            ]
        for payload in self.payloads:
            x, y, z = payload.position
            lines.append(
                f"{_label(payload.link, room)}{payload.mass:>9.3f}{payload.mass_error:>9.3f}{x:>8.3f}{y:>8.3f}"
                f"{z:>8.3f}{np.max(payload.position_errors):>7.3f}{payload.probability:>7.3f}"
            )
            lines += [
                f"{_label(f'  or {link}', room)}{payload.masses[link]:>9.3f}{'':>40}{payload.candidates[link]:>7.3f}"
                for link in payload.links
                if link != payload.link
            ]
        return "\n".join([*lines, "=" * width, *number_notes(self.notes, width)])

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain numbers and text, ready for JSON; infinite limits become None."""
        payloads = [
            asdict(payload) | {
                "position": payload.position.tolist(),
                "position_errors": payload.position_errors.tolist(),
                "rigid": None if payload.rigid is None else payload.rigid.tolist(),
                "probability": payload.probability,
            }
            for payload in self.payloads
        ]  # fmt: skip
        limits = {link: limit if np.isfinite(limit) else None for link, limit in self.limits.items()}
        return vars(self) | {
            "payloads": payloads,
            "limits": limits,
            "changes": dict(self.changes),
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        loads = ", ".join(f"{payload.mass:.2f} kg on {payload.link}" for payload in self.payloads)
        return f"<PayloadFinding of {self.robot}: {self.status}{f', {loads}' if loads else ''}>"


def _small(value: float) -> str:
    return "< 1e-12" if value < 1e-12 else f"= {value:.2g}"


def _label(name: str, room: int) -> str:
    """Return a name padded to a column, or on a line of its own where it is longer; names may hold any character."""
    name = "  " * name.startswith("  ") + " ".join(name.split())
    return f"{name:<{room}}" if len(name) < room else f"{name}\n{'':<{room}}"
