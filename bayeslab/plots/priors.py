"""Plots of priors, and of the outcomes that they imply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.plots.figure import ACCENT, MUTED, OTHER, grid, plain
from bayeslab.plots.kernel_density import bounds, kernel_density, limits

__all__ = ["densities"]

# Panels at most, panels in a row, points of a curve, characters of a title.
_PANELS, _ROW, _GRID, _TITLE = 24, 4, 200, 34


def densities(
    title: str,
    priors: Mapping[str, tuple[str, np.ndarray]],
    outcomes: Mapping[str, tuple[np.ndarray, float]],
    observed: Mapping[str, np.ndarray],
) -> Any:
    """Plot the density of each prior, then of each outcome over that of the data.

    Each panel shows the central 95 % of the draws, so that heavy tails do not hide the rest.

    Parameters
    ----------
    title
        Title of the figure; it says how many priors are left out, if there are more than 24 panels.
    priors
        The text and the draws of each prior.
    outcomes
        Prior predictive values of each outcome, or shares of a level in each draw with the share in the data (else
        NaN).
    observed
        The data of outcomes that are numbers.
    """
    room = max(1, _PANELS - len(outcomes))
    some = dict(list(priors.items())[:room])
    left = len(priors) - len(some)
    n = len(some) + min(len(outcomes), _PANELS - 1)
    columns = min(n, _ROW)
    made, axes = grid(n, 2.6 * columns, 0.5 + 2.0 * -(-n // columns), columns)
    made.suptitle(f"{title}{f' ({left} are left out)' if left else ''}")
    for (name, (text, values)), panel in zip(some.items(), axes, strict=False):
        _curve(panel, values, ACCENT, None)
        panel.set_title(f"{name}\n{text if len(text) <= _TITLE else text[: _TITLE - 1] + '…'}")
    for (name, (drawn, share)), panel in zip(outcomes.items(), axes[len(some) :], strict=False):
        _curve(panel, drawn, MUTED, "prior predictive")
        data = observed.get(name, np.zeros(0))
        if data.size > 1 and data.min() < data.max():
            _curve(panel, data, OTHER, "data", panel.get_xlim())
        elif not np.isnan(share) or data.size:
            panel.axvline(share if not data.size else data[0], color=OTHER, linewidth=1.6, label="data")
        panel.set_title(f"{name}\nshare in a data set" if not np.isnan(share) else name)
    if outcomes:
        last = {line.get_label(): line for panel in axes[len(some) :] for line in panel.get_lines()}
        made.legend(list(last.values()), list(last), loc="outside lower right", ncols=2, frameon=False)
    return made


def _curve(panel: Any, values: np.ndarray, colour: str, label: str | None, within: Any = None) -> None:
    """A kernel density of the central 95 % of values, as high as the panel."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        plain(panel)
        return
    low, high = np.quantile(finite, [0.025, 0.975])
    edges = bounds(finite)
    low, high = limits(float(low), float(high), 0.1, edges)
    inside = finite[(finite >= low) & (finite <= high)]
    x, height = kernel_density(inside, low, high, _GRID, edges)
    panel.plot(x, height / height.max(), color=colour, linewidth=1.8, label=label)
    panel.fill_between(x, height / height.max(), color=colour, alpha=0.15, linewidth=0)
    panel.set(ylim=(0, None), yticks=[])
    if within is not None:
        panel.set_xlim(min(low, within[0]), max(high, within[1]))
    plain(panel)
    panel.spines["left"].set_visible(False)
