"""What a fit says about clusters: components of rows, rows that belong together, and their pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab import registry
from bayeslab.engines._groups import labelled
from bayeslab.errors import OptionError, hint
from bayeslab.results.predict import posterior_values

if TYPE_CHECKING:
    import xarray as xr

    from bayeslab.results.fit import Fit

__all__ = ["clusters", "plot_clusters", "plot_trace"]

PICTURES = ("components", "responsibilities", "together", "trace")


def clusters(fit: Fit) -> xr.Dataset:
    """Which component each row of the data comes from, and which rows belong together."""
    family = registry.load("families", fit.model.model.family)
    if not hasattr(family, "clusters"):
        raise OptionError(f"the family {fit.model.model.family} has no components, and so no clusters")
    made = family.clusters(fit.model, fit.data, posterior_values(fit), np.random.default_rng(fit.seed))
    posterior = fit.posterior.to_dataset()
    labels = fit.data.labels | {str(d): posterior[d].to_numpy() for d in posterior.dims if d in posterior.coords}
    dims = {n: dims for n, (dims, _) in made.items()}
    return labelled({n: values for n, (_, values) in made.items()}, dims, labels, {}, {"creation_library": "bayeslab"})


def plot_clusters(fit: Fit, what: str, columns: list[str] | None, reference: float | None) -> Any:
    """See :meth:`bayeslab.results.fit.Fit.plot_clusters`."""
    from bayeslab.plots import mixture as plots

    if what not in PICTURES:
        raise OptionError(f"unknown picture '{what}'{hint(what, PICTURES)}")
    if what == "trace":
        return plot_trace(fit, reference)
    group = fit.clusters()
    if what == "together":
        if "together" not in group:
            raise OptionError("there are too many rows for a matrix of pairs; take responsibilities")
        return plots.together(group["together"].to_numpy(), group["partition"].to_numpy())
    if "probability" not in group:
        raise OptionError("a sampled number of components leaves partitions only; take together")
    probability = group["probability"].to_numpy()
    names = [str(x) for x in group["component"].to_numpy()] if "component" in group.coords else None
    names = names or [str(k + 1) for k in range(probability.shape[1])]
    if what == "responsibilities":
        return plots.responsibilities(probability, names)
    family = registry.load("families", fit.model.model.family)
    found = family.shapes(fit.model, fit.data, posterior_values(fit), columns)
    if found.ellipses is not None:
        means, covariances = found.ellipses
        shown = (found.columns[0], found.columns[1])
        return plots.ellipses(found.points, probability, means, covariances, names, shown)
    at, parts = found.densities
    return plots.densities(found.points[:, 0], at, parts, names, found.columns[0], discrete=found.discrete)


def plot_trace(fit: Fit, reference: float | None) -> Any:
    """The log likelihood, or the bound, by iteration, with a line at ``reference``."""
    from bayeslab.plots.mixture import em_trace

    for kept, name, label in (("em", "log_likelihood", "log likelihood"), ("variational", "elbo", "ELBO")):
        if kept in fit.data_tree.children:
            return em_trace(fit.data_tree[kept][name].to_numpy(), reference=reference, ylabel=label)
    raise OptionError("a trace is what methods em and variational leave; fit with one of them")
