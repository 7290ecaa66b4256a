"""The section on the sampler: traces, ranks and pairs of the quantities with the fewest effective draws; energies."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from bayeslab.report import charts
from bayeslab.report.contract import Reported
from bayeslab.report.markup import EMPTY, Markup, details, element, joined, paragraph, table
from bayeslab.report.posterior import Quantities
from bayeslab.results.convergence import e_bfmi

__all__ = ["section"]

_WORST, _DISTINCT = 6, 50
# Number of quantities whose pairs are drawn.
_PAIRED = 3


def section(fit: Reported, quantities: Quantities) -> Markup:
    """The content of the section; empty for draws that are not from Markov chains."""
    frame = quantities.frame
    if "r_hat" not in frame or "ess_bulk" not in frame:
        return EMPTY
    known = frame[np.isfinite(frame["ess_bulk"].to_numpy())]
    known = known[[quantities.draws(str(label)) is not None for label in known.index]] if len(known) <= 5000 else known
    if not len(known):
        return EMPTY
    worst = known.sort_values(["ess_bulk", "r_hat"], ascending=[True, False]).iloc[:_WORST]
    pictures = []
    for label in map(str, worst.index):
        draws = quantities.draws(label)
        if draws is None or not np.isfinite(draws).all():
            continue
        row = worst.loc[label]
        says = f"Trace of {label}: R-hat {row['r_hat']:.3f}, bulk ESS {row['ess_bulk']:.0f}"
        pictures.append(charts.trace(draws, label, says))
        # A few distinct values have tied ranks.
        if len(draws) > 1 and len(np.unique(draws)) > _DISTINCT:
            pictures.append(charts.ranks(draws, label, f"Rank histograms of {label} by chain"))
    sizes = fit.posterior.sizes
    chains, n = sizes["chain"], sizes["draw"]
    about = (
        f"{_number(chains, 'chain')} of {n:,} draws. Shown are the {len(worst)} quantities with the fewest effective"
        f" draws. A good trace looks the same from left to right and for every chain; good ranks are level."
    )
    if n > charts.TRACE_POINTS:
        about += f" Traces show {charts.TRACE_POINTS} of the {n:,} draws of each chain, evenly spaced."
    columns = [c for c in ("ess_bulk", "ess_tail", "r_hat") if c in worst]
    rows = [
        (label, *(f"{row[c]:.3f}" if c == "r_hat" else f"{row[c]:,.0f}" for c in columns))
        for label, row in zip(worst.index, worst.to_dict("records"), strict=True)
    ]
    figures = joined([table(["quantity", *columns], rows, caption="Fewest effective draws"), *_statistics(fit)])
    return details(
        "traces, ranks and effective sample sizes",
        paragraph(about),
        figures,
        element("div", *pictures, class_="charts"),
        _pairs(fit, quantities, [str(label) for label in worst.index]),
        _energies(fit),
    )


def _pairs(fit: Reported, quantities: Quantities, labels: list[str]) -> Markup:
    """Pairs of the first quantities with divergent transitions marked; empty for samplers that have none."""
    if not fit.has_group("sample_stats") or "diverging" not in fit.data_tree["sample_stats"]:
        return EMPTY
    marked = fit.data_tree["sample_stats"]["diverging"].transpose("chain", "draw").to_numpy().ravel() != 0
    every = {label: quantities.draws(label) for label in labels}
    draws = {label: values.ravel() for label, values in every.items() if values is not None and values.size > 1}
    finite = [label for label, values in draws.items() if np.isfinite(values).all() and len(values) == len(marked)]
    pictures = [
        charts.pair(draws[a], draws[b], marked, f"{b} over {a}", f"Draws of {b} over those of {a}")
        for a, b in combinations(finite[:_PAIRED], 2)
    ]
    if not pictures:
        return EMPTY
    n = int(marked.sum())
    about = "No transition diverged."
    if n:
        about = (
            f"Divergent transitions ({n:,}) are marked. Where they gather, the sampler cannot follow the curvature of"
            " the posterior, and draws are missing."
        )
    return joined(
        [element("h3", "Pairs and divergences"), paragraph(about), element("div", *pictures, class_="charts")]
    )


def _energies(fit: Reported) -> Markup:
    """Densities of the energies of NUTS and of their changes, with the E-BFMI of each chain."""
    if not fit.has_group("sample_stats") or "energy" not in fit.data_tree["sample_stats"]:
        return EMPTY
    energy = fit.data_tree["sample_stats"]["energy"].transpose("chain", "draw").to_numpy().astype(float)
    if energy.shape[1] < 4 or not np.isfinite(energy).all() or not np.ptp(energy, axis=1).all():
        return EMPTY
    fractions = ", ".join(f"{fraction:.2f}" for fraction in e_bfmi(energy))
    about = (
        "The changes of the energy from draw to draw (thin, a line for each chain) should spread like the energy itself"
        f" (thick). E-BFMI, the ratio of their mean squares, is {fractions} by chain; where it is low, the"
        " sampler explores the tails slowly."
    )
    centred = energy - energy.mean(axis=1, keepdims=True)
    says = "Densities of the energies less their mean, and of their changes"
    return joined(
        [
            element("h3", "Energy"),
            paragraph(about),
            element(
                "div", charts.check_curves(centred.ravel(), np.diff(energy, axis=1), "energy", says), class_="charts"
            ),
        ]
    )


def _statistics(fit: Reported) -> list[Markup]:
    """Statistics of NUTS for each chain."""
    if not fit.has_group("sample_stats"):
        return []
    group = fit.data_tree["sample_stats"].to_dataset()
    wanted = {
        "diverging": ("divergences", "sum"),
        "step_size": ("step size", "last"),
        "acceptance_rate": ("acceptance", "mean"),
        "n_steps": ("steps a draw", "mean"),
        "tree_depth": ("tree depth", "mean"),
    }
    columns: dict[str, list[str]] = {}
    for name, (heading, how) in wanted.items():
        if name not in group or set(group[name].dims) != {"chain", "draw"}:
            continue
        values = group[name].transpose("chain", "draw").to_numpy().astype(float)
        shown = values.sum(axis=1) if how == "sum" else values[:, -1] if how == "last" else values.mean(axis=1)
        columns[heading] = [f"{v:.0f}" if how == "sum" else f"{v:.3g}" for v in shown]
    if not columns:
        return []
    rows = [(str(k), *cells) for k, cells in enumerate(zip(*columns.values(), strict=True))]
    return [table(["chain", *columns], rows, caption="The sampler by chain")]


def _number(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
