"""An estimate as text: header, links, base parameters, diagnostics, numbered notes."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from steelyard.wording import in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.identification.estimate.estimate import Estimate

WIDTH = 110
"""Characters in a line, where there is room."""

_NARROWEST = 72
_MOST_BASE = 20
_NAME = 34
_MOST_ACTIVE = 12


def summarise_estimate(estimate: Estimate, width: int = WIDTH) -> str:
    """Gives an estimate as text, at most so many characters wide (72 at least).

    Where all does not fit, the intervals of base parameters are left out first; their standard errors stay.
    """
    width = min(max(width, _NARROWEST), WIDTH)
    thick, thin = "=" * width, "-" * width
    lines = [f" {estimate.model.name}: identified by '{estimate.method}' ".center(width, "=")]
    lines += _header(estimate, width)
    if estimate.status == "failed":
        return "\n".join([*lines, thick, *number_notes(estimate.notes, width)])
    lines += [thin, *_links(estimate, width), thin, *_base(estimate, width)]
    if estimate.certificate is not None:
        lines += [thin, *_constraints(estimate, width)]
    return "\n".join([*lines, thick, "Notes:", *number_notes(estimate.notes, width)])


def number_notes(notes: Sequence[str], width: int) -> list[str]:
    """Gives notes as numbered, wrapped lines."""
    lines: list[str] = []
    for number, note in enumerate(notes, start=1):
        lines += textwrap.wrap(note, width, initial_indent=f"[{number}] ", subsequent_indent="    ")
    return lines


def _header(estimate: Estimate, width: int) -> list[str]:
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
    if width < WIDTH:
        return [f"{name + ':':<24} {_cut(value, width - 25)}" for name, value in (*left, *right)]
    return [f"{a + ':':<12} {_cut(b, 38):<38} {c + ':':<24} {d}" for (a, b), (c, d) in zip(left, right, strict=True)]


def _tied(estimate: Estimate) -> bool:
    return bool(estimate.options.get("mirror")) or estimate.options.get("parameters") == "LS"


def _links(estimate: Estimate, width: int) -> list[str]:
    room = min(_NAME, width - 52)
    moving = "CoM moved mm" if width - 52 >= _NAME + 6 else "CoM mm"
    wide = len(moving) + 2
    lines = [f"{'link':<{room}} {'mass kg':>9} {'std err':>8} {'model':>8} {'change':>8} {moving:>{wide}} {'data':>5}"]
    reference, found = estimate.reference, estimate.parameters
    for row, link in enumerate(estimate.model.links):
        mass, before = found[row, 0], reference[row, 0]
        moved = "" if mass <= 0.0 or before <= 0.0 else f"{1e3 * _moved(found[row], reference[row]):.1f}"
        change = f"{100.0 * (mass / before - 1.0):+.1f} %" if before > 0.0 else ""
        lines.append(
            f"{_cut(link, room):<{room}} {mass:>9.4f} {estimate.standard_errors[row, 0]:>8.4f} {before:>8.3f} "
            f"{change:>8} {moved:>{wide}} {100.0 * estimate.determined[row, :4].mean():>3.0f} %"
        )
    total, before = estimate.total_mass, float(reference[:, 0].sum())
    lines.append(
        f"{'in all':<{room}} {total:>9.4f} {estimate.total_mass_error:>8.4f} {before:>8.3f} "
        f"{100.0 * (total / before - 1.0):>+6.1f} %"
    )
    return lines


def _moved(found: np.ndarray, reference: np.ndarray) -> float:
    return float(np.linalg.norm(found[1:4] / found[0] - reference[1:4] / reference[0]))


def _base(estimate: Estimate, width: int) -> list[str]:
    base = estimate.base
    weight = base.effects * np.abs(base.values)
    # By what the model expects of them: a wild value does not push itself to the front.
    order = np.argsort(-base.effects * np.abs(base.reference))[:_MOST_BASE]
    intervals = base.intervals()
    whole = width >= _NAME + 71
    room = _NAME if whole else min(_NAME, width - 49)
    ends = f" {'[0.025':>10} {'0.975]':>10}" if whole else ""
    heading = f"{'base parameter':<{room}} {'value':>10} {'std err':>9} {'RSD %':>7}{ends} {'model':>10} {'effect':>8}"
    lines = []
    for place in order.tolist():
        ends = "".join(f" {end:>10.4g}" for end in intervals[place]) if whole else ""
        lines.append(
            f"{_cut(base.names[place], room):<{room}} {base.values[place]:>10.4g} {base.standard_errors[place]:>9.2g} "
            f"{_percent(base.rsd[place])}{ends} {base.reference[place]:>10.4g} {weight[place]:>8.3g}"
        )
    unit = "times the stated noise" if estimate.key.weights else "N and N m"
    remark = (
        f"The {len(order)} of {base.rank} with the greatest effect (rms of what it does to a row, {unit}) by the "
        f"model; {int(base.essential.sum())} are needed to explain the data (F-test). A name stands for a combination; "
        "see base.describe. Standard errors of links count how far "
        f"{'the model is off' if estimate.method == 'geometric' else 'a model is usually off'} where the data did not "
        "decide."
    )
    return [heading, *lines, *textwrap.wrap(remark, width)]


def _constraints(estimate: Estimate, width: int) -> list[str]:
    """Gives what became of the levels, what binds, and what certifies it."""
    lines = []
    for number, level in enumerate(estimate.levels):
        if number == 0:
            lines.append(f"{'level':<18} {'cost':>10} {'alone':>10}  {'under the levels above, one by one'}")
        above = " ".join(f"{cost:>10.4g}" for cost in level.before[1:])
        alone = level.before[0] if level.before else level.cost
        lines.append(f"{_cut(level.name, 18):<18} {level.cost:>10.4g} {alone:>10.4g}  {above}".rstrip())
    binding = in_words(list(estimate.active), limit=_MOST_ACTIVE) if estimate.active else "nothing"
    certificate = estimate.certificate
    if certificate is not None:
        lines += textwrap.wrap(f"Binding: {binding}.", width)
        lines += textwrap.wrap(
            f"Certificate: gradient left {certificate.stationarity:.1e}, worst violation {certificate.violation:.1e}, "
            f"complementarity {certificate.complementarity:.1e}; {certificate.problems} problems solved, "
            f"{certificate.directions} directions generated.",
            width,
        )
    return lines


def _percent(value: float) -> str:
    return f"{value:>7.1f}" if value < 1000.0 else f"{'>999':>7}"


def _cut(name: str, width: int = _NAME) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"
