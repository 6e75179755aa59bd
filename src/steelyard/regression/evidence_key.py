"""Identity of the system that Evidence belongs to."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class EvidenceKey:
    """Identity of the system that Evidence belongs to; only Evidence with equal keys adds.

    Attributes:
        links: Links, in parameter order.
        tree: Hash of the kinematic tree.
        sensing: Hash of the sensors and their placements.
        reference: Hash of the parameters at which nuisance columns were linearised; empty if there are none.
        gravity: Direction of a fixed base's proper acceleration; empty for a floating one.
        nuisance: Names of the nuisance columns.
        priors: Standard deviations of their priors.
        base: The base link, in whose frame the rows are.
        measured: Measured wrench components.
        unknown: Unmeasured components that were projected out.
        torques: Joints whose torque is used.
        weights: Standard deviations of the measured components, by which rows are whitened; empty for plain sums. Of a
            sum, their root mean square: whitened Evidence adds whatever its noise.
        instruments: Description of the instruments, if rows were multiplied by any; else empty.
        own: Names of the nuisances that each recording has of its own, eliminated before it is added to another.
        own_priors: Standard deviations of their priors.
        preparation: Hash of what was chosen before gathering (base, encoder offsets, delays, ...), as
            `Preparation.key` states it; empty where Evidence was gathered from motions.
    """

    links: tuple[str, ...]
    tree: str
    sensing: str
    reference: str
    gravity: tuple[float, ...]
    nuisance: tuple[str, ...]
    priors: tuple[float, ...]
    base: str
    measured: tuple[str, ...]
    unknown: tuple[str, ...]
    torques: tuple[str, ...]
    weights: tuple[float, ...]
    instruments: str = ""
    own: tuple[str, ...] = ()
    own_priors: tuple[float, ...] = ()
    preparation: str = ""

    def without_own(self) -> EvidenceKey:
        """Return the key of the system whose own errors are eliminated."""
        kept = [place for place, name in enumerate(self.nuisance) if name not in self.own]
        nuisance = tuple(self.nuisance[place] for place in kept)
        return replace(self, nuisance=nuisance, priors=tuple(self.priors[place] for place in kept))
