"""An estimate as text: header, links, base parameters, diagnostics, numbered notes."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.identification.estimate import Estimate

_WIDTH = 110
_MOST_BASE = 20
_NAME = 34


def summarise(estimate: Estimate) -> str:
    """Gives an estimate as text, at most 110 characters wide."""
    lines = [_rule(f" {estimate.model.name}: identified by '{estimate.method}' ", "=")]
    lines += _header(estimate)
    if estimate.status == "failed":
        return "\n".join([*lines, _rule("", "="), *number_notes(estimate.notes, _WIDTH)])
    lines += [_rule("", "-"), *_links(estimate), _rule("", "-"), *_base(estimate)]
    return "\n".join([*lines, _rule("", "="), "Notes:", *number_notes(estimate.notes, _WIDTH)])


def number_notes(notes: Sequence[str], width: int) -> list[str]:
    """Gives notes as numbered, wrapped lines."""
    lines: list[str] = []
    for number, note in enumerate(notes, start=1):
        lines += textwrap.wrap(note, width, initial_indent=f"[{number}] ", subsequent_indent="    ")
    return lines


def _header(estimate: Estimate) -> list[str]:
    fit, base = estimate.fit, estimate.base
    left = [
        ("Status", estimate.status),
        ("Parameters", f"{estimate.options.get('parameters', 'all')}{', mirror pairs tied' * _tied(estimate)}"),
        ("Samples", f"{fit.sample_count} (worth {fit.effective_count:.0f})"),
        ("Equations", f"{fit.row_count}, {'plain' if not estimate.key.weights else 'whitened'}"),
        ("Base link", estimate.key.base),
    ]
    right = [
        ("Base parameters", f"{base.rank}" + (f" ({len(base.dropped)} more not excited)" if base.dropped else "")),
        ("Condition number", f"{base.condition:.3g}"),
        ("Cost", f"{fit.cost:.4g}"),
        ("Cost of the reference", f"{fit.reference_cost:.4g}"),
        ("Cost, mass corrected", f"{fit.corrected_cost:.4g}"),
    ]
    return [f"{a + ':':<12} {_cut(b, 38):<38} {c + ':':<24} {d}" for (a, b), (c, d) in zip(left, right, strict=True)]


def _tied(estimate: Estimate) -> bool:
    return bool(estimate.options.get("mirror")) or estimate.options.get("parameters") == "LS"


def _links(estimate: Estimate) -> list[str]:
    lines = [
        f"{'link':<{_NAME}} {'mass kg':>9} {'std err':>8} {'model':>8} {'change':>8} {'CoM moved mm':>13} "
        f"{'from data':>10}"
    ]
    reference, found = estimate.reference, estimate.parameters
    for row, link in enumerate(estimate.model.links):
        mass, before = found[row, 0], reference[row, 0]
        moved = "" if mass <= 0.0 or before <= 0.0 else f"{1e3 * _moved(found[row], reference[row]):.1f}"
        change = f"{100.0 * (mass / before - 1.0):+.1f} %" if before > 0.0 else ""
        lines.append(
            f"{_cut(link):<{_NAME}} {mass:>9.4f} {estimate.standard_errors[row, 0]:>8.4f} {before:>8.3f} {change:>8} "
            f"{moved:>13} {100.0 * estimate.determined[row, :4].mean():>8.0f} %"
        )
    total, before = estimate.total_mass, float(reference[:, 0].sum())
    lines.append(
        f"{'in all':<{_NAME}} {total:>9.4f} {estimate.total_mass_error:>8.4f} {before:>8.3f} "
        f"{100.0 * (total / before - 1.0):>+6.1f} %"
    )
    return lines


def _moved(found: np.ndarray, reference: np.ndarray) -> float:
    return float(np.linalg.norm(found[1:4] / found[0] - reference[1:4] / reference[0]))


def _base(estimate: Estimate) -> list[str]:
    base = estimate.base
    weight = base.effects * np.abs(base.values)
    # By what the model expects of them: a wild value does not push itself to the front.
    order = np.argsort(-base.effects * np.abs(base.reference))[:_MOST_BASE]
    intervals = base.intervals()
    heading = (
        f"{'base parameter':<{_NAME}} {'value':>10} {'std err':>9} {'RSD %':>7} {'[0.025':>10} {'0.975]':>10} "
        f"{'model':>10} {'effect':>8}"
    )
    lines = [
        f"{_cut(base.names[place]):<{_NAME}} {base.values[place]:>10.4g} {base.standard_errors[place]:>9.2g} "
        f"{_percent(base.rsd[place])} {intervals[place, 0]:>10.4g} {intervals[place, 1]:>10.4g} "
        f"{base.reference[place]:>10.4g} {weight[place]:>8.3g}"
        for place in order.tolist()
    ]
    unit = "times the stated noise" if estimate.key.weights else "N and N m"
    remark = (
        f"The {len(order)} of {base.rank} with the greatest effect (rms of what it does to a row, {unit}) by the "
        f"model; {int(base.essential.sum())} are needed to explain the data (F-test). A name stands for a combination; "
        "see base.describe. Standard errors of links count how far a model is usually off where the data did not "
        "decide."
    )
    return [heading, *lines, *textwrap.wrap(remark, _WIDTH)]


def _percent(value: float) -> str:
    return f"{value:>7.1f}" if value < 1000.0 else f"{'>999':>7}"


def _cut(name: str, width: int = _NAME) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"


def _rule(title: str, mark: str) -> str:
    return title.center(_WIDTH, mark)
