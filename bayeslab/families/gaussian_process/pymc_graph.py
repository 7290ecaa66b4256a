"""A Gaussian process as a PyMC graph: with the function integrated out, or with nodes for function and outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.families.gaussian_process.density import (
    coordinates,
    parameters,
    value_of,
    write_evidence,
    write_intercept,
)
from bayeslab.families.gaussian_process.model import Resolved
from bayeslab.families.graph.priors import pymc_with_priors
from bayeslab.families.regression.likelihoods import INVERSE_LINKS
from bayeslab.language.spec import Model
from bayeslab.language.writer import PYMC

if TYPE_CHECKING:
    import pymc

__all__ = ["begun", "with_evidence", "written_out"]


def begun(model: Model, resolved: Resolved) -> pymc.Model:
    """A PyMC model with the parameters to infer and their priors."""
    built = pymc_with_priors(model, resolved.nodes, coordinates(resolved))
    with built:
        write_intercept(PYMC, resolved)
    return built


def with_evidence(model: Model, resolved: Resolved) -> pymc.Model:
    """Hyperparameters, and the log evidence of the data, or for other outcomes the log likelihood of the function."""
    built = begun(model, resolved)
    with built:
        write_evidence(PYMC, resolved)
    return built


def written_out(model: Model, resolved: Resolved) -> pymc.Model:
    """Parameters, the function ``f`` at the rows, and a node for the outcome."""
    import pymc as pm
    import pytensor.tensor as pt

    from bayeslab.families.gaussian_process.cholesky import CovarianceFactor

    built = begun(model, resolved)
    built.add_coord(resolved.rows, resolved.row_labels.tolist())
    with built:
        theta, noise, coefficients = parameters(PYMC, resolved)
        mean = pt.dot(resolved.design, PYMC.joined(coefficients)) if coefficients else np.zeros(resolved.n)
        raw = pm.Normal("_z", 0.0, 1.0, shape=resolved.n)
        given = PYMC.joined(theta) if theta else np.zeros(0)
        lower = CovarianceFactor(resolved.kernel, resolved.x, max(resolved.nugget, 1e-10))(given)
        f = pm.Deterministic("f", mean + pt.dot(lower, raw), dims=resolved.rows)
        _outcome(resolved, f, noise)
    return built


def _outcome(resolved: Resolved, f: Any, noise: Any) -> None:
    """The node of the outcome given the function."""
    import pymc as pm
    import pytensor.tensor as pt

    name, dims = resolved.target, resolved.rows
    sd = pt.sqrt(noise**2 + resolved.known)
    match resolved.spec.likelihood:
        case "gaussian":
            pm.Normal(name, f, sd, dims=dims)
        case "student_t":
            pm.StudentT(name, nu=value_of(PYMC, resolved, "nu"), mu=f, sigma=noise, dims=dims)
        case "bernoulli":
            pm.Bernoulli(name, p=_mean(resolved.link, f), dims=dims)
        case "binomial":
            trials = np.ones(resolved.n) if resolved.trials is None else resolved.trials
            pm.Binomial(name, n=trials.astype(int), p=_mean(resolved.link, f), dims=dims)
        case "poisson":
            pm.Poisson(name, mu=_mean(resolved.link, f), dims=dims)
        case "negative_binomial":
            pm.NegativeBinomial(name, mu=_mean(resolved.link, f), alpha=value_of(PYMC, resolved, "alpha"), dims=dims)


def _mean(link: str, eta: Any) -> Any:
    import pymc as pm
    import pytensor.tensor as pt

    assert link in INVERSE_LINKS
    match link:
        case "logit":
            return pm.math.sigmoid(eta)
        case "probit":
            return 0.5 * pt.erfc(-eta / np.sqrt(2.0))
        case "log":
            return pt.exp(eta)
        case _:
            return eta
