"""Clusters of a fit: components of rows, co-clustering of rows, and plots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.errors import OptionError, hint
from bayeslab.latents.labels.clusters import MOST_PAIRED
from bayeslab.plots import mixture as plots
from bayeslab.plots.mixture import em_trace
from bayeslab.posterior.groups import labelled
from bayeslab.results.fitted import Fitted, bound_to, posterior_values
from bayeslab.streams import stream

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


__all__ = ["applicable", "clusters", "density", "listing", "plot_clusters", "plot_trace"]

PICTURES = ("components", "density", "number", "responsibilities", "together", "trace")
# Number of points at which a density is plotted, and of draws that it is averaged over.
_PLACES, _DRAWS = 240, 200


def clusters(fit: Fitted) -> xr.Dataset:
    """Component probabilities of each row, and co-clustering probabilities of pairs of rows."""
    fit.data.refuse_folded("components of rows")
    made = fit.bound_model.clusters(posterior_values(fit), stream(fit.seed, "clusters"))
    posterior = fit.posterior.to_dataset()
    labels = fit.data.labels | {str(d): posterior[d].to_numpy() for d in posterior.dims if d in posterior.coords}
    dims = {n: dims for n, (dims, _) in made.items()}
    return labelled(
        {n: values for n, (_, values) in made.items()}, dims, labels, {}, {"creation_library": "bayeslab"}
    ).to_dataset()


def applicable(fit: Fitted) -> tuple[str, ...]:
    """The names of the plots that a fit has."""
    spec, partitions = _mixture(fit), fit.has_group("partitions")
    regresses = spec.regression is not None
    few = len(fit.data.labels.get(fit.data.dataset.rows, ())) <= MOST_PAIRED
    there = {
        "components": not regresses,
        "density": len(spec.modelled) == 1 and not regresses and spec.word(spec.modelled[0]) != "categorical",
        "number": "n_clusters" in fit.posterior,
        "responsibilities": not partitions,
        "together": few,
        "trace": fit.has_group("em") or fit.has_group("variational"),
    }
    return tuple(name for name in PICTURES if there[name])


def plot_clusters(fit: Fitted, what: str, columns: list[str] | None, reference: float | None) -> Any:
    """See :meth:`bayeslab.results.fit.Fit.plot_clusters`."""

    if what not in PICTURES:
        raise OptionError(f"unknown picture '{what}'{hint(what, PICTURES)}", code="unknown-word")
    if what == "trace":
        return plot_trace(fit, reference)
    if what == "density":
        return _plot_density(fit, columns)
    if what == "number":
        return _plot_number(fit)
    group = fit.group("clusters", clusters)
    if what == "together":
        if "together" not in group:
            raise OptionError("there are too many rows for a matrix of pairs; take responsibilities", code="too-costly")
        return plots.together(group["together"].to_numpy(), group["partition"].to_numpy())
    if fit.has_group("partitions") and what == "components":
        return _plot_partition(fit, columns)
    if "probability" not in group:
        raise OptionError(
            "with a sampled number of components there are only partitions; take together", code="not-kept"
        )
    probability = group["probability"].to_numpy()
    names = [str(x) for x in group["component"].to_numpy()] if "component" in group.coords else None
    names = names or [str(k + 1) for k in range(probability.shape[1])]
    if what == "responsibilities":
        return plots.responsibilities(probability, names)
    shapes = fit.bound_model.component_shapes(posterior_values(fit), columns)
    if shapes.ellipses is not None:
        means, covariances = shapes.ellipses
        shown = (shapes.columns[0], shapes.columns[1])
        return plots.ellipses(shapes.points, probability, means, covariances, names, shown)
    at, parts = shapes.densities
    return plots.densities(shapes.points[:, 0], at, parts, names, shapes.columns[0], discrete=shapes.discrete)


def density(fit: Fitted, data: Any = None, ci_prob: float = 0.89) -> pd.DataFrame:
    """The posterior predictive density of each new row, separately.

    Parameters
    ----------
    data
        New rows; None: the rows of the fit (for a Dirichlet process each given all others).
    ci_prob
        Probability of the equal-tailed interval of the density over posterior draws.

    Returns
    -------
    pandas.DataFrame
        One row per row of the data: ``log_density``, the log of the predictive density (the density averaged over
        draws), and the interval of the density.
    """
    import pandas as pd

    values, labels = _densities(fit, data)
    tail = (1 - ci_prob) / 2
    top = values.max(axis=0)
    low, high = np.quantile(np.exp(values), [tail, 1 - tail], axis=0)
    percent = f"{100 * ci_prob:g}"
    return pd.DataFrame(
        {
            fit.model.data.rows: labels,
            "log_density": top + np.log(np.mean(np.exp(values - top), axis=0)),
            f"eti{percent}_lb": low,
            f"eti{percent}_ub": high,
        }
    )


def _densities(fit: Fitted, data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Log density of each row at the draws, (S, M), and the rows' labels."""
    _mixture(fit)
    bound = fit.data if data is None else bound_to(fit, data)
    terms = fit.bound_model.on(bound).log_likelihoods(posterior_values(fit))
    assert terms is not None
    values = terms["row"][1]
    return values, bound.labels.get(bound.dataset.rows, np.arange(values.shape[1]))


def listing(fit: Fitted) -> pd.DataFrame:
    """The clusters of the point estimate of the partition: their rows, co-clustering probability and column means.

    Returns
    -------
    pandas.DataFrame
        One row per cluster: ``rows``; ``together``, the average posterior probability that two of its rows share a
        cluster (NaN for a single row, and if there are too many rows for a matrix of pairs); and for each column the
        mean, or the most frequent word.
    """
    import pandas as pd

    group = fit.group("clusters", clusters)
    if "partition" not in group:
        raise OptionError("there are too many rows for a point partition", code="too-costly")
    partition = group["partition"].to_numpy()
    pairs = group["together"].to_numpy() if "together" in group else None
    out = []
    for k in range(int(partition.max()) + 1):
        members = np.flatnonzero(partition == k)
        row: dict[str, Any] = {"cluster": k + 1, "rows": len(members)}
        row["together"] = np.nan if pairs is None else _pairs_together(pairs[np.ix_(members, members)])
        for name in _mixture(fit).modelled:
            term = fit.data.term(name, missing=True)
            if term.codes is not None:
                codes = np.asarray(term.codes)[members]
                words = fit.data.labels[name]
                row[name] = words[np.bincount(codes[codes >= 0]).argmax()] if (codes >= 0).any() else ""
            else:
                cells = np.asarray(term.value, float)[members]
                row[name] = float(np.mean(cells[~np.isnan(cells)])) if (~np.isnan(cells)).any() else np.nan
        out.append(row)
    return pd.DataFrame(out)


def _pairs_together(together: np.ndarray) -> float:
    """The mean co-clustering probability over pairs of different rows."""
    n = len(together)
    return float((together.sum() - np.trace(together)) / (n * (n - 1))) if n > 1 else np.nan


def _mixture(fit: Fitted) -> Any:
    if fit.bound_model.view != "clusters":
        raise OptionError(
            f"the family {fit.model.model.family} has no components of rows; mixture has", code="other-family"
        )
    return fit.model.model


def _plot_density(fit: Fitted, columns: list[str] | None) -> Any:
    """Plot the predictive density over one column with a band over draws, for a mixture of one column."""

    modelled = _mixture(fit).modelled
    if len(modelled) != 1 or columns not in (None, [*modelled]):
        raise OptionError(
            "the density plot needs a model of one column; take components, or density()",
            code="not-applicable",
        )
    name = modelled[0]
    word = _mixture(fit).word(name)
    if word == "categorical":
        raise OptionError(
            f"'{name}' holds categories, over which no density is drawn; take components", code="not-applicable"
        )
    values = np.asarray(fit.data.term(name, missing=True).value, float)
    values = values[~np.isnan(values)]
    whole = bool(np.all(values == np.round(values))) and word in ("poisson", "binomial", "bernoulli")
    span = 0.08 * np.ptp(values)
    # Times cannot be negative.
    low = max(values.min() - span, 0.0) if word == "exponential" else values.min() - span
    at = np.arange(values.min(), values.max() + 1) if whole else np.linspace(low, values.max() + span, _PLACES)
    logs, _ = _densities(fit, {name: at})
    some = logs[np.unique(np.linspace(0, len(logs) - 1, min(len(logs), _DRAWS)).astype(int))]
    return plots.density_band(values, at, np.exp(some), name, discrete=whole)


def _plot_number(fit: Fitted) -> Any:
    """Plot the posterior of the number of clusters, beside the prior of a process."""

    if "n_clusters" not in fit.posterior:
        raise OptionError("the number of components is given in this model", code="not-applicable")
    number = fit.posterior["n_clusters"].to_numpy().ravel()
    return plots.numbers(number, fit.bound_model.cluster_number_prior())


def _plot_partition(fit: Fitted, columns: list[str] | None) -> Any:
    """Plot the clusters of the point partition, with parameters at their conditional mode given it."""

    partition = fit.group("clusters", clusters)["partition"].to_numpy()
    shapes = fit.bound_model.partition_shapes(partition, columns)
    names = [str(k + 1) for k in range(int(partition.max()) + 1)]
    if shapes.ellipses is not None:
        shown = (shapes.columns[0], shapes.columns[1])
        means, covariances = shapes.ellipses
        return plots.ellipses(shapes.points, np.eye(len(names))[partition], means, covariances, names, shown)
    at, parts = shapes.densities
    return plots.densities(shapes.points[:, 0], at, parts, names, shapes.columns[0], discrete=shapes.discrete)


def plot_trace(fit: Fitted, reference: float | None) -> Any:
    """Plot the log likelihood, or the lower bound, by iteration, with a line at ``reference``."""

    for kept, name, label in (("em", "log_likelihood", "log likelihood"), ("variational", "elbo", "ELBO")):
        if kept in fit.data_tree.children:
            return em_trace(fit.data_tree[kept][name].to_numpy(), reference=reference, ylabel=label)
    raise OptionError("a trace needs method em or variational", code="not-applicable")
