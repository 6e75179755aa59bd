"""An estimate as text: header, links, base parameters, diagnostics, numbered notes."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from steelyard.wording import count, in_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steelyard.identification.estimate.estimate import Estimate
    from steelyard.identification.solvers.certificate import Certificate

WIDTH, _NARROWEST = 110, 72
"""Characters in a line, at most and at least: all columns of base parameters, and all but their intervals."""

_MOST_BASE, _MOST_ACTIVE = 20, 12
"""Base parameters and active constraints that are listed at most, so that a summary fits a screen or two."""

_NAME_WIDTH = 34
"""Characters of a name, at most: the longest link names of common humanoids."""


def summarise_estimate(estimate: Estimate, width: int = WIDTH) -> str:
    """Return an estimate as text, in lines of `width` characters (72 to 110).

    In narrow lines the intervals of base parameters are left out; their standard errors stay.
    """
    width = min(max(width, _NARROWEST), WIDTH)
    thick, thin = "=" * width, "-" * width
    lines = [f" {estimate.model.name}: identified by '{estimate.method}' ".center(width, "=")]
    lines += _header(estimate, width)
    if estimate.status == "failed":
        return "\n".join([*lines, thick, *number_notes(estimate.notes, width)])
    lines += [thin, *_links(estimate, width), thin, *_base(estimate, width)]
    if estimate.certificate is not None:
        lines += [thin, *_constraints(estimate, estimate.certificate, width)]
    return "\n".join([*lines, thick, "Notes:", *number_notes(estimate.notes, width)])


def number_notes(notes: Sequence[str], width: int) -> list[str]:
    """Return notes as numbered, wrapped lines."""
    lines: list[str] = []
    for number, note in enumerate(notes, start=1):
        lines += textwrap.wrap(note, width, initial_indent=f"[{number}] ", subsequent_indent="    ")
    return lines


def _header(estimate: Estimate, width: int) -> list[str]:
    fit, base = estimate.fit, estimate.base
    tied = bool(estimate.options.get("mirror")) or estimate.options.get("parameters") == "LS"
    left = [
        ("Status", estimate.status),
        ("Parameters", f"{estimate.options.get('parameters', 'all')}{', mirror pairs tied' * tied}"),
        ("Samples", f"{fit.sample_count} ({fit.effective_count:.0f} independent)"),
        ("Equations", f"{fit.row_count}, {'plain' if not estimate.key.weights else 'whitened'}"),
        ("Base link", estimate.key.base),
    ]
    right = [
        ("Base parameters", f"{base.rank}" + (f" ({len(base.dropped)} more not observable)" if base.dropped else "")),
        ("Condition number", f"{base.condition:.3g}"),
        ("Cost", f"{fit.cost:.4g}"),
        ("Cost of the reference", f"{fit.reference_cost:.4g}"),
        ("Cost, mass-corrected", f"{fit.corrected_cost:.4g}"),
    ]
    if width < WIDTH:
        return [f"{name + ':':<24} {_cut(value, width - 25)}" for name, value in (*left, *right)]
    return [f"{a + ':':<12} {_cut(b, 38):<38} {c + ':':<24} {d}" for (a, b), (c, d) in zip(left, right, strict=True)]


def _links(estimate: Estimate, width: int) -> list[str]:
    room = min(_NAME_WIDTH, width - 52)
    moving = "CoM moved mm" if width - 52 >= _NAME_WIDTH + 6 else "CoM mm"
    wide = len(moving) + 2
    lines = [f"{'link':<{room}} {'mass kg':>9} {'std err':>8} {'model':>8} {'change':>8} {moving:>{wide}} {'data':>5}"]
    reference, found = estimate.reference, estimate.parameters
    for row, link in enumerate(estimate.model.links):
        mass, before = found[row, 0], reference[row, 0]
        change = f"{100.0 * (mass / before - 1.0):+.1f} %" if before > 0.0 else ""
        moved = ""
        if mass > 0.0 and before > 0.0:
            moved = f"{1e3 * np.linalg.norm(found[row, 1:4] / mass - reference[row, 1:4] / before):.1f}"
        lines.append(
            f"{_cut(link, room):<{room}} {mass:>9.4f} {estimate.standard_errors[row, 0]:>8.4f} {before:>8.3f} "
            f"{change:>8} {moved:>{wide}} {100.0 * estimate.determined[row, :4].mean():>3.0f} %"
        )
    total, before = estimate.total_mass, float(reference[:, 0].sum())
    lines.append(
        f"{'total':<{room}} {total:>9.4f} {estimate.total_mass_error:>8.4f} {before:>8.3f} "
        f"{100.0 * (total / before - 1.0):>+6.1f} %"
    )
    error = "the estimated model error" if estimate.method == "geometric" else "the usual model error"
    legend = (
        "data: share of mass and centre of mass that the data determine, rather than the model. Standard errors "
        f"include {error} where the data do not determine a parameter."
    )
    return [*lines, *textwrap.wrap(legend, width)]


def _base(estimate: Estimate, width: int) -> list[str]:
    base = estimate.base
    weight = base.effects * np.abs(base.values)
    # Ordered by the effect that the model predicts, which outliers among the values do not change.
    order = np.argsort(-base.effects * np.abs(base.reference))[:_MOST_BASE]
    intervals = base.intervals()
    whole = width >= _NAME_WIDTH + 71
    room = _NAME_WIDTH if whole else min(_NAME_WIDTH, width - 49)
    ends = f" {'[0.025':>10} {'0.975]':>10}" if whole else ""
    heading = f"{'base parameter':<{room}} {'value':>10} {'std err':>9} {'RSD %':>7}{ends} {'model':>10} {'effect':>8}"
    lines = []
    for place in order.tolist():
        ends = "".join(f" {end:>10.4g}" for end in intervals[place]) if whole else ""
        lines.append(
            f"{_cut(base.names[place], room):<{room}} {base.values[place]:>10.4g} {base.standard_errors[place]:>9.2g} "
            f"{_percent(base.rsd[place])}{ends} {base.reference[place]:>10.4g} {weight[place]:>8.3g}"
        )
    unit = "times the assumed noise" if estimate.key.weights else "N and N m"
    legend = (
        f"The {len(order)} of {base.rank} base parameters with the greatest effect (rms contribution to a row, {unit}) "
        f"according to the model; {int(base.essential.sum())} are needed to explain the data (F-test). A name stands "
        "for a combination of parameters; see base.describe."
    )
    return [heading, *lines, *textwrap.wrap(legend, width)]


def _constraints(estimate: Estimate, certificate: Certificate, width: int) -> list[str]:
    """Return the levels of a hierarchy, the active constraints, and the optimality conditions."""
    lines = []
    for number, level in enumerate(estimate.levels):
        if number == 0:
            lines.append(f"{'level':<18} {'cost':>10} {'alone':>10}  under those above, in turn")
        above = " ".join(f"{cost:>10.4g}" for cost in level.before[1:])
        alone = level.before[0] if level.before else level.cost
        lines.append(f"{_cut(level.name, 18):<18} {level.cost:>10.4g} {alone:>10.4g}  {above}".rstrip())
    active = in_words(list(estimate.active), limit=_MOST_ACTIVE) if estimate.active else "none"
    optimality = (
        f"Certificate: dual residual {certificate.dual_residual:.1e}, primal residual "
        f"{certificate.primal_residual:.1e}, gap {certificate.gap:.1e}; "
        f"{count(certificate.problems, 'problem', 'problems')} solved, "
        f"{count(certificate.directions, 'constraint', 'constraints')} generated."
    )
    return [*lines, *textwrap.wrap(f"Active constraints: {active}.", width), *textwrap.wrap(optimality, width)]


def _percent(value: float) -> str:
    return f"{value:>7.1f}" if value < 1000.0 else f"{'>999':>7}"


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"
