"""A stand-in for an Estimate: just the fields that validation reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard import Model
    from steelyard.arrays import FloatArray
    from steelyard.identification.estimate.nuisance_fit import NuisanceFit
    from steelyard.regression import Origin


@dataclass(frozen=True, eq=False)
class StandIn:
    """Parameters that somebody claims."""

    model: Model
    parameters: FloatArray
    nuisance: dict[str, float] = field(default_factory=dict)
    sensing: dict[str, Any] = field(default_factory=dict)
    origins: tuple[Origin, ...] = ()
    mass_scale: float = 1.0
    nuisance_fit: NuisanceFit | None = None
    method: str = "claimed"
    status: str = "solved"

    @property
    def reference(self) -> FloatArray:
        return self.model.parameters
