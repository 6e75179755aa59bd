"""The text of a Validation: header, tables of all candidates, significance of the improvement, numbered notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.identification import number_notes

if TYPE_CHECKING:
    from steelyard.validation.bootstrap import Gain
    from steelyard.validation.error_statistics import Candidates
    from steelyard.validation.validation import Validation

_WIDTH, _CELL = 80, 32
"""Characters in a line, and in a cell of the table of improvements: "0.123 [0.123, 0.123] undecided" and a space."""

_NAMES = {"estimate": "estimate", "corrected": "mass-corrected CAD", "reference": "CAD", "truth": "truth (floor)"}


def summarise_validation(validation: Validation) -> str:
    """Return the validation as text."""
    thick, thin = "=" * _WIDTH, "-" * _WIDTH
    lines = [f"Validation of {validation.model}: {validation.kind}".center(_WIDTH).rstrip(), thick]
    lines += _header(validation)
    if np.any(np.isfinite(validation.rmse)):
        lines += [thick, f"Total external wrench at {validation.base}, in its axes; error = predicted - measured"]
        lines += _table(validation.wrench)
    if validation.world is not None and np.any(np.isfinite(validation.world.rmse)):
        lines += [thin, "The same in world axes", *_table(validation.world)]
    if validation.torque is not None:
        lines += [thin, "Joint torques", *_table(validation.torque, share="r_squared")]
    if validation.projected:
        lines += [thin, "Residual with unknown forces projected out, rms of an equation (N and N m)"]
        lines += [f"  {_NAMES[name]:<20}{value:12.4g}" for name, value in validation.projected.items()]
    lines += [thick, *_improvement(validation), thick]
    if validation.notes:
        lines += ["Notes:", *number_notes(validation.notes, _WIDTH)]
    return "\n".join(lines)


def _header(validation: Validation) -> list[str]:
    shared = "unknown" if np.isnan(validation.shared) else f"{validation.shared:.2f} s"
    left = [
        ("Method", validation.method),
        ("Base link", validation.base),
        ("CAD mass correction", f"{validation.mass_scale:.4f}"),
    ]
    right = [
        ("Samples", str(validation.sample_count)),
        ("Duration", f"{validation.duration:.2f} s"),
        ("Shared with training", shared),
    ]
    half = _WIDTH // 2 - 1
    return [
        f"{f'{a[0]}:':<21}{a[1]:>{half - 21}}  {f'{b[0]}:':<22}{b[1]:>{half - 22}}"
        for a, b in zip(left, right, strict=True)
    ]


def _table(candidates: Candidates, share: str = "nrmse") -> list[str]:
    titles = ("mean", "std", "RMSE", "corr.", {"nrmse": "NRMSE", "r_squared": "R2"}[share])
    lines = [f"{'':<30}" + "".join(f"{title:>10}" for title in titles)]
    for number, (row, unit) in enumerate(zip(candidates.rows, candidates.units, strict=True)):
        name = f"{row} ({unit})"
        if len(name) > 9:
            # A long name has a line of its own.
            lines.append(name)
            name = ""
        for candidate, fit in candidates.by_candidate():
            if fit is None:
                continue
            one = fit.at(number)
            numbers = [_number(value) for value in (one.mean, one.std, one.rmse)]
            shares = [_share(one.correlation), _share(getattr(one, share))]
            lines.append(f"{name:<10}{_NAMES[candidate]:<20}" + "".join(f"{text:>10}" for text in (*numbers, *shares)))
            name = ""
    return lines


def _improvement(validation: Validation) -> list[str]:
    percent = f"{100.0 * validation.level:.6g} %"
    lines = [f"Is the estimate better? Ratio of its RMSE to the other's, with {percent} interval"]
    width = max((len(row) for row in validation.improvement["corrected"]), default=0)
    width = min(max(width, 6), _WIDTH - 65) + 1
    lines.append(f"{'':<{width}} {'mass-corrected CAD':<{_CELL}}CAD")
    for row, gain in validation.improvement["corrected"].items():
        cells = (f"{_gain(each):<{_CELL}}" for each in (gain, validation.improvement["reference"][row]))
        if len(row) > width:
            lines.append(row)
        lines.append(f"{row if len(row) <= width else '':<{width}} " + "".join(cells).rstrip())
    if np.isfinite(validation.blocks) and validation.improvement["corrected"]:
        lines.append(f"Moving-block bootstrap: at least {validation.blocks:.0f} blocks of {validation.block:.2g} s")
    return lines


def _gain(gain: Gain) -> str:
    interval = "" if np.isnan(gain.low) else f"[{_ratio(gain.low)}, {_ratio(gain.high)}] "
    return f"{_ratio(gain.ratio)} {interval}{gain.verdict}"


def _ratio(value: float) -> str:
    """Return a ratio in five characters."""
    if np.isnan(value):
        return "n/a"
    if value and not 5e-4 <= value < 99999.5:
        return f"{value:.0e}"
    return f"{value:.{3 if value < 9.9995 else 2 if value < 99.995 else 1 if value < 999.95 else 0}f}"


def _number(value: float) -> str:
    if np.isnan(value):
        return "n/a"
    return f"{value:.3g}" if abs(value) >= 1e5 else f"{value:.3f}" if abs(value) >= 1e-3 else f"{value:.3g}"


def _share(value: float) -> str:
    return "n/a" if np.isnan(value) else f"{value:.3g}" if abs(value) >= 1e3 else f"{value:.4f}"
