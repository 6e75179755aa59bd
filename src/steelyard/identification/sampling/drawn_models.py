"""Robots drawn from the posterior: as models, and as files for domain randomisation."""

from __future__ import annotations

import hashlib
import json
import operator
import re
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steelyard.exceptions import IdentifiabilityError, ModelError
from steelyard.identification.constraints.resolve import resolve_constraints
from steelyard.identification.sampling.drawn_families import with_cut_families
from steelyard.identification.sampling.draws import draw
from steelyard.model import TomlTable, as_path, is_folder, is_possible, parse_constraint_table
from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from steelyard.arrays import FloatArray
    from steelyard.identification.constraints.constraint_system import CutFamily
    from steelyard.identification.estimate.estimate import Estimate
    from steelyard.identification.sampling.hmc import Mixing
    from steelyard.model import Model

DRAWABLE_METHODS = ("geometric", "conic")
"""Methods whose estimates can be drawn from."""

FORMAT = 1
"""Version of the layout of the index."""


@dataclass(frozen=True, eq=False)
class DrawnModels:
    """Robots drawn from an estimate's posterior, all of them physically possible and within its constraints.

    ``draws[3]`` is the fourth as a Model, and ``for model in draws`` goes through all.

    Attributes:
        model: The reference model of the estimate.
        parameters: Shape (n, n_links, 10).
        seed: Seed of the random generator.
        method: Method of the estimate.
        diagnostics: Convergence of the chains.
        provenance: Of the estimate.
        remarks: Remarks, one sentence each.
    """

    model: Model
    parameters: FloatArray
    seed: int
    method: str
    diagnostics: Mixing
    provenance: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.parameters)

    def __getitem__(self, index: int) -> Model:
        return self.model.with_parameters(self.parameters[operator.index(index)])

    def __iter__(self) -> Iterator[Model]:
        return (self[index] for index in range(len(self)))

    @property
    def masses(self) -> dict[str, FloatArray]:
        """Masses of each link, kg, shape (n,), by name."""
        return dict(zip(self.model.links, self.parameters[:, :, 0].T, strict=True))

    @property
    def total_masses(self) -> FloatArray:
        """Mass of each robot, kg, shape (n,)."""
        return np.asarray(self.parameters[:, :, 0].sum(axis=1))

    def summary(self) -> str:
        """Return the masses of each link as text: in the model, mean of the draws, and 5 and 95 % quantiles."""
        width = max(len("all together"), *(len(link) for link in self.model.links))
        head = f"{'':{width}}  {'model':>8}  {'mean':>8}  {'5 %':>8}  {'95 %':>8}  kg"
        lines = [f"{self.model.name}: {len(self)} robots drawn by '{self.method}', seed {self.seed}", head]
        reference = {**self.model.masses, "all together": self.model.total_mass}
        for name, masses in {**self.masses, "all together": self.total_masses}.items():
            low, high = np.quantile(masses, [0.05, 0.95])
            lines.append(f"{name:{width}}  {reference[name]:8.3f}  {np.mean(masses):8.3f}  {low:8.3f}  {high:8.3f}")
        return "\n".join([*lines, f"{self.diagnostics.words}.", *self.remarks])

    def write(self, folder: str | Path, stem: str | None = None, *, force: bool = False) -> list[Path]:
        """Write each robot as a file in the model's own format, and an index ``<stem>.json``; all files or none.

        Args:
            folder: The folder; it is created if its parent exists.
            stem: Beginning of the file names, which continue with ``-000``, ``-001``, ...; by default that of the
                model's file.
            force: Whether to replace existing files.

        Returns:
            The files of the robots, in order.

        Raises:
            ModelError: The folder already contains such files, or cannot be written to.
        """
        source = self.model.description.file.path
        stem = source.stem if stem is None else stem
        if not stem or Path(stem).name != stem:
            raise ModelError(f"the stem is {stem!r}; give the beginning of file names, without a folder")
        target = as_path(folder)
        _make(target)
        width = max(3, len(str(len(self) - 1)))
        ending = source.suffix if source.suffix.lower() in (".urdf", ".xml", ".mjcf") else ".xml"
        paths = [target / f"{stem}-{index:0{width}d}{ending}" for index in range(len(self))]
        index = target / f"{stem}.json"
        there = [path for path in (*paths, index) if path.exists()]
        if there and not force:
            raise ModelError(
                f"{in_words([path.name for path in there], limit=3)} already there; give force=True to replace such "
                "files, or another stem",
                path=target,
            )
        token = secrets.token_hex(4)
        unfinished = [path.with_name(f".{token}-{path.name}") for path in (*paths, index)]
        old = _written_before(index) if force else []
        try:
            notes: dict[str, None] = {}
            for robot, path in zip(self, unfinished[:-1], strict=True):
                notes |= dict.fromkeys(robot.write(path).notes)
            hashes = [hashlib.sha256(path.read_bytes()).hexdigest() for path in unfinished[:-1]]
            unfinished[-1].write_text(self._index([path.name for path in paths], hashes, list(notes)), encoding="utf-8")
            for path, final in zip(unfinished, (*paths, index), strict=True):
                path.replace(final)
        except OSError as error:
            raise ModelError(
                f"the robots cannot be written ({error.strerror}); name another folder, or make room", path=target
            ) from error
        finally:
            for path in unfinished:
                path.unlink(missing_ok=True)
        for path in old:
            if path not in paths:
                path.unlink(missing_ok=True)
        return paths

    def _index(self, names: list[str], hashes: list[str], notes: list[str]) -> str:
        contents = {
            "format": FORMAT,
            "model": self.model.name,
            "method": self.method,
            "seed": self.seed,
            "count": len(self),
            "files": [{"name": name, "sha256": digest} for name, digest in zip(names, hashes, strict=True)],
            "mixing": asdict(self.diagnostics),
            "notes": [*self.remarks, *notes],
            "provenance": self.provenance,
        }
        return json.dumps(contents, indent=2, default=str) + "\n"

    def __repr__(self) -> str:
        return f"<DrawnModels of {self.model.name}: {len(self)} robots, seed {self.seed}>"


def sample_models(estimate: Estimate, count: int, seed: int = 0) -> DrawnModels:
    """Draw robots from an estimate's posterior: physically possible, and within its constraints.

    Args:
        estimate: The estimate, by a method that has a posterior.
        count: Number of robots.
        seed: Seed of the random generator: the same seed gives the same robots.

    Raises:
        IdentifiabilityError: The method has no posterior, or the count or the seed is invalid.
        SolverError: The estimate failed, or the chains do not converge.
    """
    links = len(estimate.parameters)  # raises for a failed estimate
    if estimate.posterior is None:
        if estimate.method in DRAWABLE_METHODS:
            reason = "its data have no noise, or its prior no weight"
        else:
            reason = f"the method {estimate.method!r} gives none"
        raise IdentifiabilityError(
            f"this estimate has no posterior to draw from: {reason}; identify with the method "
            + " or ".join(repr(method) for method in DRAWABLE_METHODS)
        )
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise IdentifiabilityError(f"the seed is {seed!r}; give an integer, zero or more")
    posterior, holds = with_cut_families(estimate.posterior, _cut_families(estimate))
    draws = draw(posterior, count, np.random.default_rng(int(seed)), holds=holds)
    fixed = np.setdiff1d(np.arange(links), posterior.bodies)
    odd = [estimate.model.links[row] for row in fixed if not np.all(is_possible(draws.parameters[:, row]))]
    remarks = (
        [f"The parameters of {in_words(odd)} are physically impossible; they are the model's, and were not identified."]
        if odd
        else []
    )
    draws.parameters.setflags(write=False)
    return DrawnModels(
        model=estimate.model,
        parameters=draws.parameters,
        seed=int(seed),
        method=estimate.method,
        diagnostics=draws.mixing,
        provenance=estimate.provenance,
        remarks=tuple(remarks),
    )


def _cut_families(estimate: Estimate) -> tuple[CutFamily, ...]:
    """Return the infinite families among an estimate's constraints."""
    table = estimate.options.get("constraints")
    if not table:
        return ()
    constraints = parse_constraint_table(TomlTable(dict(table), "[constraints]", None))
    return resolve_constraints(estimate.model, constraints).cut_families


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ModelError(f"the folder cannot be created ({error.strerror}); create it first", path=folder) from error
    if not is_folder(folder):
        raise ModelError("this is not a folder; name another path", path=folder)


def _written_before(index: Path) -> list[Path]:
    """Return the files of an earlier call that are unchanged by their hashes: an index may name any file."""
    ours = re.compile(re.escape(index.stem) + r"-\d+\.[a-z]+")
    try:
        stored = json.loads(index.read_text(encoding="utf-8"))
        named = {str(each["name"]): str(each["sha256"]) for each in stored["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return []
    paths = {index.with_name(name): digest for name, digest in named.items() if ours.fullmatch(name)}
    return [
        path
        for path, digest in paths.items()
        if path.is_file() and not path.is_symlink() and hashlib.sha256(path.read_bytes()).hexdigest() == digest
    ]
