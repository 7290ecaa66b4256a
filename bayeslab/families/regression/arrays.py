"""Predictive draws and pointwise log likelihoods of a regression, on arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from bayeslab.errors import OptionError
from bayeslab.families.regression.likelihoods import category_probabilities, inverse_link
from bayeslab.families.regression.lowered import new_values

if TYPE_CHECKING:
    from bayeslab.families.regression.lowered import Lowered

__all__ = ["linear_predictor", "log_likelihoods", "probabilities", "replications"]

type Named = dict[str, tuple[tuple[str, ...], np.ndarray]]

_BATCH = 4_000_000  # cells (draws × rows) in a batch


def linear_predictor(lowered: Lowered, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """Linear predictor at each draw, shape (draws, n), or (draws, n, levels) if categorical."""
    draws = lowered.whole(draws)
    tail = (len(lowered.levels) - 1,) if lowered.likelihood.levels == "categorical" else ()
    eta = lowered.linear_predictor(draws, tail)
    return np.concatenate([np.zeros((*eta.shape[:2], 1)), eta], axis=2) if tail else eta


def parts_of(
    lowered: Lowered, draws: Mapping[str, np.ndarray], rng: np.random.Generator | None = None
) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Means and auxiliary parameters (draws lead, rows trail), a batch of draws at a time.

    The generator draws true values of predictors that new rows give with errors.
    """
    draws = lowered.whole(draws)
    n_draws = len(next(iter(draws.values())))
    width = max(len(lowered.levels), 1) if lowered.likelihood.levels else 1
    step = max(1, _BATCH // max(lowered.design.n * width, 1))
    for start in range(0, n_draws, step):
        part = {name: values[start : start + step] for name, values in draws.items()}
        part |= _true_values(lowered, part, rng)
        eta = linear_predictor(lowered, part)
        if lowered.likelihood.levels is not None:
            mean = category_probabilities(lowered.likelihood.levels, lowered.link, eta, part.get("cutpoints"))
        else:
            mean = inverse_link(lowered.link, eta)
        yield mean, lowered.auxiliary(part)


def _true_values(
    lowered: Lowered, draws: Mapping[str, np.ndarray], rng: np.random.Generator | None
) -> dict[str, np.ndarray]:
    """Draws of the true values of new rows given their measurements, for each predictor that is measured with error."""
    out: dict[str, np.ndarray] = {}
    measured = [each for predictor in lowered.predictors for each in predictor.design.measured]
    for each in measured:
        if each.fitted or new_values(each) in out or not each.error.any():
            continue
        if rng is None:
            raise OptionError(
                f"{each.text}: the true values of new rows are unknown, and are drawn for kind='mean' and 'draws' only;"
                " an error of 0 says that a value is true",
                code="unsupported",
            )
        sd, weight = draws[f"sd_{each.of}"], each.weight(draws[f"sd_{each.of}"])
        mean = each.x + weight * (draws[f"mean_{each.of}"][:, None] - each.x)
        out[new_values(each)] = mean + np.sqrt(weight) * sd[:, None] * rng.standard_normal(mean.shape)
    return out


def constants_of(lowered: Lowered) -> dict[str, np.ndarray]:
    return {} if lowered.trials is None else {"trials": lowered.trials}


def replications(lowered: Lowered, draws: Mapping[str, np.ndarray], rng: np.random.Generator) -> Named | None:
    """Draws of the response; None if a predictor has missing cells with a distribution."""
    if not lowered.additive:
        return None
    draw = lowered.likelihood.draw
    parts = [draw(rng, mean, a, constants_of(lowered)) for mean, a in parts_of(lowered, draws, rng)]
    return {lowered.formula.outcome: ((lowered.data.dataset.rows,), np.concatenate(parts))}


def probabilities(lowered: Lowered, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Probability of each level, averaged over the draws; None for other responses."""
    if not lowered.additive or not lowered.likelihood.coded:
        return None
    sums = [mean.sum(axis=0) for mean, _ in parts_of(lowered, draws)]
    average = np.sum(sums, axis=0) / len(next(iter(draws.values())))
    if lowered.likelihood.levels is None:
        average = np.stack([1 - average, average], axis=-1)
    levels = lowered.levels or ("0", "1")
    rows = lowered.data.dataset.rows
    columns = {rows: np.asarray(lowered.data.labels[rows])}
    return columns | {f"P({lowered.formula.outcome}={level})": average[:, k] for k, level in enumerate(levels)}


def log_likelihoods(lowered: Lowered, draws: Mapping[str, np.ndarray]) -> Named | None:
    """Log likelihood of each row without weights; None if arrays cannot give it row by row."""
    if not lowered.additive or lowered.limits is not None:
        return None
    assert lowered.y is not None
    density = lowered.likelihood.log_density
    whole = np.concatenate([density(lowered.y, mean, a, constants_of(lowered)) for mean, a in parts_of(lowered, draws)])
    return {lowered.formula.outcome: ((lowered.data.dataset.rows,), whole)}
