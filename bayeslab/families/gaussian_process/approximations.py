"""Approximations of a Gaussian process, chosen in the model: ``approximation: state_space | sparse | fitc | ...``

================ ================= ======================================================================
word             outcomes          what it is (modules of :mod:`bayeslab.latents.gaussian_process`)
================ ================= ======================================================================
``state_space``  gaussian          one input column, n steps (``state_space``)
``sparse``       gaussian          inducing points, Titsias's bound (``sparse_gaussian_process``)
``fitc``         gaussian          inducing points, FITC (``sparse_gaussian_process``)
``hsgp``         all               a sum of fixed functions (``hilbert_gp``)
``laplace``      all but gaussian  the function integrated out by Laplace's approximation (``laplace_gp``)
================ ================= ======================================================================

Each computes the log evidence and its gradient at one vector: hyperparameters of the kernel, parameters of the
likelihood, coefficients of the mean (and for ``hsgp`` with non-normal outcomes the weights of the basis functions).
Everything chosen before the fit (inducing points, boxes, numbers of basis functions) depends on the data and the priors
only, so that a model and its data always give the same approximation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.exact.prior_quantiles import quantiles
from bayeslab.families.gaussian_process.hyperpriors import Scales
from bayeslab.families.gaussian_process.model import Resolved
from bayeslab.families.gaussian_process.spec import GaussianProcess
from bayeslab.latents.gaussian_process import gp_likelihoods as known
from bayeslab.latents.gaussian_process import hilbert_gp, laplace_gp, linear_sde, sparse_gaussian_process, state_space
from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gp_likelihoods import Likelihood
from bayeslab.latents.gaussian_process.hilbert_gp import choose_basis
from bayeslab.latents.gaussian_process.linear_sde import of_kernel

__all__ = [
    "likelihood_of",
    "operations",
    "prior_quantiles",
    "process_at",
    "reason_against",
    "regression_of",
    "unserved",
    "vector_of",
]

INDUCING = 100
# Margin of the hsgp domain beyond the inputs, as a share of their range.
_MARGIN = 0.05


def reason_against(spec: GaussianProcess, kernel: Kernel) -> str | None:
    """The reason why a model does not support the approximation it names; None if it does."""

    word, gaussian = spec.approximation, spec.likelihood == "gaussian"
    if word in ("state_space", "sparse", "fitc") and not gaussian:
        return f"approximation: {word} is for likelihood gaussian; with {spec.likelihood} take laplace or hsgp"
    if word == "laplace" and gaussian:
        return (
            "with likelihood gaussian the function is integrated out exactly; approximations are state_space, sparse,"
            " fitc, hsgp"
        )
    if word == "laplace" and spec.likelihood == "binomial" and spec.link == "probit":
        return "approximation: laplace has binomial with the logit link only"
    if word == "state_space":
        return linear_sde.reason_against(kernel)
    if word == "hsgp":
        return hilbert_gp.reason_against(kernel)
    if word in ("sparse", "fitc", "laplace") and kernel.free_of_noise() is None:
        return "the kernel is white noise alone"
    return None


def likelihood_of(resolved: Resolved) -> Likelihood:
    """The likelihood at the observations, for non-normal outcomes."""

    assert resolved.y is not None
    ones = np.ones(resolved.n)
    match resolved.spec.likelihood:
        case "bernoulli":
            return known.Probit(resolved.y) if resolved.link == "probit" else known.Bernoulli(resolved.y)
        case "binomial":
            return known.Binomial(resolved.y, ones if resolved.trials is None else resolved.trials)
        case "poisson":
            return known.Poisson(resolved.y, ones)
        case "negative_binomial":
            return known.NegativeBinomial(resolved.y, ones)
        case "student_t":
            return known.StudentT(resolved.y)
        case other:
            raise ModelError(f"likelihood {other} needs no such approximation", code="not-applicable")


# Cached for each resolved model, for as long as that exists.
_MADE: WeakKeyDictionary[Resolved, Any] = WeakKeyDictionary()


def regression_of(resolved: Resolved) -> Any:
    """The approximation as a function of the hyperparameters; None if the model names none. Built once."""
    if resolved not in _MADE:
        _MADE[resolved] = _regression(resolved)
    return _MADE[resolved]


def _regression(resolved: Resolved) -> Any:

    word = resolved.spec.approximation
    if word is None:
        return None
    reason = reason_against(resolved.spec, resolved.kernel)
    if reason is not None:
        raise ModelError(reason, path=("model", "approximation"), code="unsupported")
    assert resolved.y is not None
    match word:
        case "state_space":
            return state_space.StateSpaceRegression(
                resolved.kernel, resolved.x, resolved.y, resolved.design, resolved.known
            )
        case "laplace":
            return laplace_gp.LaplaceRegression(resolved.kernel, resolved.x, likelihood_of(resolved), resolved.design)
        case "hsgp":
            basis = _basis(resolved)
            if resolved.gaussian:
                return hilbert_gp.HilbertRegression(
                    resolved.kernel, resolved.x, resolved.y, resolved.design, resolved.known, basis
                )
            return hilbert_gp.HilbertLatent(
                resolved.kernel, resolved.x, likelihood_of(resolved), resolved.design, basis
            )
        case _:
            theta = np.array([prior_quantiles(resolved, name)[1] for name in resolved.kernel.names])
            points = sparse_gaussian_process.choose_inducing(
                resolved.kernel, theta, resolved.x, resolved.spec.inducing or INDUCING, np.random.default_rng(0)
            )
            bound: Any = "fitc" if word == "fitc" else "vfe"
            return sparse_gaussian_process.SparseRegression(
                resolved.kernel, resolved.x, resolved.y, resolved.design, resolved.known, points, bound
            )


def _basis(resolved: Resolved) -> Any:

    limits = {}
    for parameter in resolved.kernel.parameters:
        if parameter.role == "lengthscale":
            low, _, high = prior_quantiles(resolved, parameter.name)
            limits[parameter.name] = (low, high)
    try:
        return choose_basis(
            resolved.kernel, resolved.x, limits, functions=resolved.spec.functions, domain=_domain(resolved)
        )
    except ModelError as error:
        raise ModelError(error.message, path=error.path or ("model", "approximation"), code=error.code) from None


def _domain(resolved: Resolved) -> dict[str, tuple[float, float]]:
    """The domain of the basis functions by column: as given in the model, or the inputs with a margin."""
    out = {}
    for name, values in zip(resolved.kernel.columns, resolved.x.T, strict=True):
        low, high = float(values.min()), float(values.max())
        margin = _MARGIN * (high - low)
        given = (resolved.spec.domain or {}).get(name)
        if given is not None and (low < given[0] or high > given[1]):
            raise ModelError(
                f"the data have '{name}' from {low:g} to {high:g}, which is not inside [{given[0]:g}, {given[1]:g}]",
                path=("model", "domain", name),
                code="out-of-range",
            )
        out[name] = given or (low - margin, high + margin)
    return out


def unserved(resolved: Resolved, draws: Mapping[str, np.ndarray]) -> list[tuple[str, str, float | None, str, str]]:
    """Lengthscales, inferred or fixed, that are too short or too long for the basis functions of hsgp."""
    out: list[tuple[str, str, float | None, str, str]] = []
    inferred = {name: values for name, values in draws.items() if name in resolved.dims}
    inferred |= {name: np.array([value]) for name, value in resolved.fixed.items()}
    for finding in hilbert_gp.unserved(regression_of(resolved).basis, inferred):
        if finding.short:
            advice = f"standard deviations are too small; fit with `functions: {finding.functions}` or more"
            out.append(("functions", finding.name, finding.value, finding.text, advice))
        else:
            wide = f"domain: {{{finding.column}: [{finding.domain[0]:.4g}, {finding.domain[1]:.4g}]}}"
            out.append(("box", finding.name, finding.value, finding.text, f"fit with a wider box, `{wide}`"))
    return out


def prior_quantiles(resolved: Resolved, name: str) -> tuple[float, float, float]:
    """Quantiles 0.1, 0.5 and 0.95 of a hyperparameter's prior; from the data's scale if it has no numeric
    parameters.
    """
    if name in resolved.fixed:
        return (resolved.fixed[name],) * 3
    quantiles_of_prior = quantiles(str(resolved.nodes[name]))
    if quantiles_of_prior is not None:
        return quantiles_of_prior
    parameter = next(p for p in resolved.kernel.parameters if p.name == name)
    scales = Scales(resolved.x, resolved.kernel.columns, 1.0)
    low, high = scales.resolution(parameter.columns), scales.range(parameter.columns)
    if parameter.role in ("lengthscale", "period"):
        return low, float(np.sqrt(low * high)), high
    spread = 1.0 if resolved.y is None else float(np.std(resolved.y)) or 1.0
    return 0.1 * spread, spread, 10 * spread


def _likelihood_parameters(resolved: Resolved, values: Mapping[str, Any]) -> list[float]:
    """Parameters of the likelihood in the order of the parameter vector."""
    if resolved.gaussian:
        return [resolved.noise_sd(values)]
    named = {"nu": lambda: resolved.value("nu", values), "sigma": lambda: resolved.noise_sd(values)}
    return [named[n]() if n in named else resolved.value(n, values) for n in likelihood_of(resolved).parameters]


def vector_of(resolved: Resolved, values: Mapping[str, Any]) -> np.ndarray:
    """The parameter vector (hyperparameters, likelihood parameters, coefficients) from values by name."""
    return np.array(
        [*resolved.theta(values), *_likelihood_parameters(resolved, values), *resolved.coefficients(values)]
    )


def process_at(resolved: Resolved, regression: Any, values: Mapping[str, Any]) -> Any:
    """The process at one posterior draw."""
    if "_z" in values:
        return regression.posterior(resolved.theta(values), np.asarray(values["_z"]))
    return regression.posterior(vector_of(resolved, values))


def operations(resolved: Resolved) -> float:
    """Rough number of operations for one evaluation of the density and its gradient."""
    n, word = float(resolved.n), resolved.spec.approximation
    if word == "laplace":
        return 15.0 * n**3
    if word == "state_space":
        theta = np.array([prior_quantiles(resolved, name)[1] for name in resolved.kernel.names])
        return n * (5e3 + 40.0 * of_kernel(resolved.kernel, theta).n_states ** 2.5)
    if word == "hsgp":
        m = float(regression_of(resolved).basis.n_functions) if resolved.y is not None else 100.0
        return 4.0 * m**3 if resolved.gaussian else 4.0 * n * m
    m = float(min(resolved.n, resolved.spec.inducing or INDUCING))
    return 8.0 * n * m**2 + 200.0 * n * m
