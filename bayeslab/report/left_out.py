"""Checks of each observation against its prediction from all others: LOO-PIT, residuals and Pareto k."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import BayeslabError
from bayeslab.plots.svg import shorten
from bayeslab.report import charts
from bayeslab.report.markup import Markup, element, joined, paragraph, table
from bayeslab.results.calibrate import uniform_bands
from bayeslab.results.compare import Loo, loo, observations
from bayeslab.results.fitted import Fitted
from bayeslab.results.ppc import loo_pit, quantile_residuals
from bayeslab.results.psis import good_k

__all__ = ["section"]

type Array = NDArray[np.float64]

# Maximum numbers of observations, of outcomes with plots, and of rows in the tables; number of levels of the bands.
_OBSERVATIONS, _OUTCOMES, _ROWS, _LEVELS = 20_000, 3, 8, 50
# Residuals beyond this have a probability of 5 % in a calibrated model.
_FAR = 1.96


def section(fit: Fitted, both: Mapping[str, tuple[Array, Array]]) -> Markup:
    """The plots and tables.

    Parameters
    ----------
    fit
        The record of a fit, with few draws.
    both
        Observed values (cell,) and replications (draw, cell) by outcome.
    """
    heading = element("h3", "Each observation, predicted from all others")
    if sum(len(observed) for observed, _ in both.values()) > _OBSERVATIONS:
        reason = f"Leave-one-out checks are left out for more than {_OBSERVATIONS:,} observations."
        return joined([heading, paragraph(reason, class_="mute")])
    try:
        found, named = loo(fit, refit=False), observations(fit)
    except BayeslabError as error:
        return joined([heading, paragraph(f"There are no leave-one-out checks: {error.message}.", class_="mute")])
    draws = fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"]
    pictures, rows, parts = [_k_chart(found, draws)], [], list[Markup]()
    try:
        values = {name: v for name, v in loo_pit(fit).items() if _ordered(fit, name)}
    except BayeslabError as error:
        values = {}
        parts.append(paragraph(f"There is no LOO-PIT: {error.message}.", class_="mute"))
    for name, pit in list(values.items())[:_OUTCOMES]:
        observed, drawn = both[name]
        labels = [label for term, label in named if term == name]
        labels = labels if len(labels) == len(pit) else [str(i + 1) for i in range(len(pit))]
        residuals = quantile_residuals(pit, draws)
        pictures += [_pit_chart(name, pit), _residual_chart(name, drawn.mean(axis=0), residuals)]
        far = np.argsort(-np.abs(residuals), kind="stable")[:_ROWS]
        rows += [
            (labels[i], name, f"{observed[i]:.4g}", f"{drawn[:, i].mean():.4g}", f"{residuals[i]:.2f}")
            for i in far
            if abs(residuals[i]) > _FAR
        ]
    parts = [heading, paragraph(_ABOUT), element("div", *pictures, class_="charts"), *parts]
    if rows:
        heads = ["observation", "outcome", "data", "prediction", "residual"]
        caption = f"Largest residuals beyond ±{_FAR}, of which a calibrated model has 5 %"
        parts.append(table(heads, rows, caption=caption))
    return joined([*parts, _high_k(found, named, draws)])


_ABOUT = (
    "LOO-PIT is the predictive probability of a value below each observation, given all other observations: uniform if"
    " the model is calibrated. Its curve stays in the band with probability 95 % then; a hump or an S says that"
    " predictions are shifted, too wide or too narrow. Residuals are its normal quantiles, randomised for integers."
    " Pareto k above the line: the observation is so influential that its leave-one-out values are unreliable."
)


def _ordered(fit: Fitted, name: str) -> bool:
    """Whether values of an outcome have an order: numbers, or two levels."""
    column = fit.data.dataset.columns.get(name)
    return column is None or not column.text or len(fit.data.labels.get(name, ())) <= 2


def _pit_chart(name: str, pit: Array) -> Markup:
    bands = uniform_bands(len(pit), _LEVELS, np.random.default_rng(0))
    p = bands.p_value(np.minimum((pit * _LEVELS).astype(np.int64), _LEVELS - 1))
    shown = "below 0.001" if p < 0.001 else f"{p:.3f}"
    says = f"LOO-PIT of {name}, its distribution function minus the uniform one, with a 95 % band: p-value {shown}"
    made = charts.uniformity(
        pit, bands.points, bands.lower / len(pit), bands.upper / len(pit), f"LOO-PIT of {name}", says
    )
    return element("figure", made, element("figcaption", f"Distribution function − uniform; p-value {shown}"))


def _residual_chart(name: str, predicted: Array, residuals: Array) -> Markup:
    beyond = float(np.mean(np.abs(residuals) > _FAR))
    says = f"Randomised quantile residuals of {name} over the predicted mean: {beyond:.1%} beyond ±{_FAR}"
    made = charts.scatter(predicted, residuals, [-_FAR, 0.0, _FAR], f"Residuals of {name}", says)
    return element("figure", made, element("figcaption", f"Over the predicted mean; {beyond:.1%} beyond ±{_FAR}"))


def _k_chart(found: Loo, draws: int) -> Markup:
    k = np.nan_to_num(found.pareto_k, nan=0.0, posinf=2.0, neginf=-1.0)
    says = f"Pareto k of each observation in the order of the data: highest {k.max():.2f}, limit {good_k(draws):.2f}"
    made = charts.scatter(np.arange(1.0, len(k) + 1), k, [good_k(draws)], "Pareto k", says)
    return element("figure", made, element("figcaption", f"In the order of the data; limit {good_k(draws):.2f}"))


def _high_k(found: Loo, named: list[tuple[str, str]], draws: int) -> Markup:
    """The observations with the highest Pareto k; a sentence if all are below the limit."""
    order = np.argsort(-np.nan_to_num(found.pareto_k, nan=np.inf), kind="stable")
    if not found.bad:
        label = shorten(named[order[0]][1], 60)
        k = found.pareto_k[order[0]]
        return paragraph(
            f"Pareto k is below {good_k(draws):.2f} for all observations; the highest, {k:.2f}, is of {label}."
        )
    rows = [
        (named[i][1], named[i][0], f"{found.pareto_k[i]:.2f}", f"{found.elpd[i]:.3f}")
        for i in order[: min(_ROWS, len(found.bad))]
    ]
    caption = f"Observations with a Pareto k above {good_k(draws):.2f}: {len(found.bad):,} of {len(named):,}"
    return table(["observation", "outcome", "Pareto k", "log density"], rows, caption=caption)
