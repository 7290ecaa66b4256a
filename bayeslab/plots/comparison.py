"""Plots of model comparison: predictive densities with standard errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.errors import DataError
from bayeslab.plots.figure import ACCENT, MUTED, OTHER, figure, plain

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["elpd_plot"]


def elpd_plot(table: pd.DataFrame) -> Any:
    """Plot the leave-one-out predictive density of each model, and its difference to the best with standard error.

    Parameters
    ----------
    table
        Indexed by model, with ``elpd``, ``se``, ``elpd_diff`` and ``se_diff``.
    """
    if "elpd_diff" not in table:
        raise DataError("the models have no leave-one-out predictions to draw", code="not-applicable")
    ordered = table.sort_values("elpd", ascending=False)
    made, axes = figure(6.4, 1.3 + 0.5 * len(ordered))
    places = np.arange(len(ordered))
    axes.axvline(ordered["elpd"].iloc[0], color=MUTED, linewidth=0.8)
    axes.errorbar(ordered["elpd"], places, xerr=ordered["se"], fmt="o", color=ACCENT, label="elpd ± se")
    rest = ordered.iloc[1:]
    axes.errorbar(
        rest["elpd"], places[1:] - 0.22, xerr=rest["se_diff"], fmt="^", color=OTHER, label="difference to best ± se"
    )
    axes.set_yticks(places, [str(name) for name in ordered.index])
    axes.set(xlabel="expected log predictive density (higher is better)", ylim=(len(ordered) - 0.5, -0.6))
    axes.legend(frameon=False, fontsize="small")
    plain(axes)
    return made
