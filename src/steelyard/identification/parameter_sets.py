"""The unknowns of an identification: all ten parameters of each link, or some; mirror pairs tied or free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import IdentifiabilityError
from steelyard.model import PARAMETER_COUNT, find_pairs, match_pattern, model_spread
from steelyard.wording import did_you_mean

if TYPE_CHECKING:
    from steelyard.arrays import BoolArray, FloatArray, IntArray
    from steelyard.model import Model

MASS_AND_MOMENTS = ("m", "mx", "my", "mz")
"""Parameters of each link in the set "L" of [yamane2011] section III-E."""


@dataclass(frozen=True, eq=False)
class ParameterSet:
    """The unknowns ``z`` of an identification: ``φ = start + transform z``.

    Attributes:
        names: Name of each unknown, ``"<link>.<symbol>"``; of a mirror pair, the left link's.
        chosen: Index of each unknown in ``φ``.
        reference: The parameters of the model, shape (10 n_links,).
        start: Parameters at ``z = 0``: the reference, its mirror pairs made equal where they are tied; shape
            (10 n_links,).
        transform: Shape (10 n_links, n_unknowns).
        spread: Cholesky factor of the usual covariance of a model's deviations, in ``z``; shape (n_unknowns,
            n_unknowns).
        label: "all", "L", "LS", or the patterns.
        tied: Names of parameters that are images of others.
    """

    names: tuple[str, ...]
    chosen: IntArray
    reference: FloatArray
    start: FloatArray
    transform: FloatArray
    spread: FloatArray
    label: str
    tied: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def expand(self, unknowns: FloatArray) -> FloatArray:
        """Return all parameters, shape (n_links, 10), at values of the unknowns."""
        return (self.start + self.transform @ unknowns).reshape(-1, PARAMETER_COUNT)

    def without_links(self, links: Sequence[int]) -> ParameterSet:
        """Return the set without the unknowns of some links, by row; they keep the reference's values."""
        left = np.isin(self.chosen // PARAMETER_COUNT, links)
        if not np.any(left):
            return self
        kept, away = np.flatnonzero(~left), (self.reference - self.start)[self.chosen]
        return replace(
            self,
            start=self.start + self.transform[:, left] @ away[left],
            names=tuple(self.names[index] for index in kept),
            chosen=self.chosen[kept],
            transform=np.ascontiguousarray(self.transform[:, kept]),
            spread=_root((self.spread @ self.spread.T)[np.ix_(kept, kept)]),
        )

    def find(self, pattern: str) -> list[int]:
        """Return the indices of the unknowns that a pattern names (``"*.m"``, ``"left_knee*"``).

        Raises:
            IdentifiabilityError: It names none.
        """
        matched = set(_match(pattern, self.names))
        if not matched and _match(pattern, self.tied):
            raise IdentifiabilityError(
                f"{pattern!r} is tied to its mirror image; name the left link's parameter instead", names=[pattern]
            )
        if not matched:
            raise IdentifiabilityError(
                f"no unknown is called {pattern!r}{did_you_mean(pattern, self.names)}", names=[pattern]
            )
        return [index for index, name in enumerate(self.names) if name in matched]


def choose_parameters(
    model: Model, chosen: str | Sequence[str] | None = None, *, mirror: bool = False, from_zero: bool = False
) -> ParameterSet:
    """Choose the unknowns.

    Args:
        model: The reference.
        chosen: None or "all" for all ten parameters of each link; "L" for masses and first moments, "LS" for the same
            with mirror pairs tied [yamane2011]; or patterns of parameters (``"*.m"``) or of links (``"left_*"``).
        mirror: Whether the links of a mirror pair are exact images of each other. The right one's parameters are then
            the left one's, seen in the right one's frame, and the reference is the mean of both, for every pair.
        from_zero: Whether ``z = 0`` means no mass at all, [jovic2016] (5)-(6), rather than the reference. Parameters
            that are not unknown keep the reference's values.

    Raises:
        IdentifiabilityError: A pattern matches nothing.
        ModelError: Mirror pairs are asked for, and the setup does not name them.
    """
    names = model.parameter_names
    wanted = _wanted(names, chosen)
    label = "all" if chosen is None else chosen if isinstance(chosen, str) else " ".join(chosen)
    tied = mirror or label == "LS"
    start = model.parameters.reshape(-1).copy()
    spread = model_spread(model)
    images: list[str] = []
    transform = np.eye(len(names))
    if tied:
        for pair in find_pairs(model):
            left, right = _block(pair.left), _block(pair.right)
            back = pair.reversed().matrix
            start[left] = 0.5 * (start[left] + back @ start[right])
            start[right] = pair.matrix @ start[left]
            transform[right, left] = pair.matrix
            either = wanted[left] | wanted[right]
            images += [name for name, chosen_too in zip(names[right], either, strict=True) if chosen_too]
            wanted[left], wanted[right] = either, False
    columns = np.flatnonzero(wanted)
    transform = np.ascontiguousarray(transform[:, columns])
    if from_zero:
        start = start - transform @ start[columns]
    covariance = (spread @ spread.T)[np.ix_(columns, columns)]
    return ParameterSet(
        names=tuple(names[column] for column in columns),
        chosen=columns,
        reference=model.parameters.reshape(-1),
        start=start,
        transform=transform,
        spread=_root(covariance),
        label=label,
        tied=tuple(images),
    )


def _block(link: int) -> slice:
    return slice(PARAMETER_COUNT * link, PARAMETER_COUNT * (link + 1))


def _wanted(names: Sequence[str], chosen: Any) -> BoolArray:
    patterns = [chosen] if isinstance(chosen, str) else chosen
    if chosen is not None and not (
        isinstance(patterns, Sequence) and len(patterns) and all(isinstance(each, str) for each in patterns)
    ):
        raise IdentifiabilityError(
            f'parameters is {chosen!r}; write "all", "L", "LS", or patterns of parameters such as ["*.m"]'
        )
    if chosen is None or chosen == "all":
        return np.ones(len(names), dtype=np.bool_)
    if chosen in ("L", "LS"):
        return np.array([name.rpartition(".")[2] in MASS_AND_MOMENTS for name in names], dtype=np.bool_)
    wanted: set[str] = set()
    for pattern in patterns:
        matched = _match(pattern, names)
        if not matched:
            links = list(dict.fromkeys(name.rpartition(".")[0] for name in names))
            raise IdentifiabilityError(
                f"no parameter is called {pattern!r}{did_you_mean(pattern, [*links, 'all', 'L', 'LS'])}; write a "
                'pattern of parameters ("*.m") or of links ("left_*"), or "all", "L" or "LS"',
                names=[pattern],
            )
        wanted |= set(matched)
    return np.array([name in wanted for name in names], dtype=np.bool_)


def _match(pattern: str, names: Sequence[str]) -> list[str]:
    return match_pattern(pattern, names) or match_pattern(f"{pattern}.*", names)


def _root(covariance: FloatArray) -> FloatArray:
    """Return the Cholesky factor of a covariance; a link without any extent still has a little spread."""
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    floor = 1e-6 * np.max(deviations, initial=1e-9)
    scale = np.maximum(deviations, floor)
    correlation = covariance / np.outer(scale, scale)
    return np.asarray(scale[:, None] * np.linalg.cholesky(correlation + 1e-9 * np.eye(len(scale))))
