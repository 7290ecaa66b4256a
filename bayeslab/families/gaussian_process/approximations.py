"""A Gaussian process by an approximation that the model names: ``approximation: state_space | sparse | fitc | ...``

================ ======================================== ============================================================
word             outcomes                                 what it is
================ ======================================== ============================================================
``state_space``  gaussian                                 one input column, n steps (:mod:`bayeslab.exact.state_space`)
``sparse``       gaussian                                 inducing points, Titsias's bound
                                                          (:mod:`bayeslab.exact.sparse_gaussian_process`)
``fitc``         gaussian                                 inducing points, FITC
``hsgp``         all                                      a sum of fixed functions (:mod:`bayeslab.exact.hilbert_gp`)
``laplace``      all but gaussian                         the function integrated out by Laplace's approximation
                                                          (:mod:`bayeslab.exact.laplace_gp`)
================ ======================================== ============================================================

Each gives the log evidence and its gradient from one vector: hyperparameters of the kernel, parameters of the
likelihood, coefficients of the mean (and for ``hsgp`` with other than normal outcomes the weights of the
functions). All that is chosen before the fit (places of inducing points, boxes and numbers of functions) depends
on the data and the priors only, so that a model and its data always mean the same approximation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.exact import gp_likelihoods as known
from bayeslab.exact import hilbert_gp, laplace_gp, linear_sde, sparse_gaussian_process, state_space
from bayeslab.exact.covariance import Kernel
from bayeslab.exact.hilbert_gp import choose_basis
from bayeslab.exact.linear_sde import of_kernel
from bayeslab.exact.prior_quantiles import quantiles
from bayeslab.families.gaussian_process.hyperpriors import Scales

if TYPE_CHECKING:
    from bayeslab.exact.gp_likelihoods import Likelihood
    from bayeslab.families.gaussian_process.model import Resolved
    from bayeslab.families.gaussian_process.spec import GaussianProcess

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
# Functions of hsgp serve beyond the inputs by this share of their range.
_MARGIN = 0.05


def reason_against(spec: GaussianProcess, kernel: Kernel) -> str | None:
    """Why a model cannot have the approximation it names."""

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


def likelihood_of(seen: Resolved) -> Likelihood:
    """The likelihood with the observations, for other than normal outcomes."""

    assert seen.y is not None
    ones = np.ones(seen.n)
    match seen.spec.likelihood:
        case "bernoulli":
            return known.Probit(seen.y) if seen.link == "probit" else known.Bernoulli(seen.y)
        case "binomial":
            return known.Binomial(seen.y, ones if seen.trials is None else seen.trials)
        case "poisson":
            return known.Poisson(seen.y, ones)
        case "negative_binomial":
            return known.NegativeBinomial(seen.y, ones)
        case "student_t":
            return known.StudentT(seen.y)
        case other:
            raise ModelError(f"likelihood {other} needs no such approximation", code="not-applicable")


# Of each process on its data, for as long as that is kept.
_MADE: WeakKeyDictionary[Resolved, Any] = WeakKeyDictionary()


def regression_of(seen: Resolved) -> Any:
    """The data as a function of hyperparameters; None where the model names no approximation. Made once."""
    if seen not in _MADE:
        _MADE[seen] = _regression(seen)
    return _MADE[seen]


def _regression(seen: Resolved) -> Any:

    word = seen.spec.approximation
    if word is None:
        return None
    reason = reason_against(seen.spec, seen.kernel)
    if reason is not None:
        raise ModelError(reason, path=("model", "approximation"), code="unsupported")
    assert seen.y is not None
    match word:
        case "state_space":
            return state_space.StateSpaceRegression(seen.kernel, seen.x, seen.y, seen.design, seen.known)
        case "laplace":
            return laplace_gp.LaplaceRegression(seen.kernel, seen.x, likelihood_of(seen), seen.design)
        case "hsgp":
            basis = _basis(seen)
            if seen.gaussian:
                return hilbert_gp.HilbertRegression(seen.kernel, seen.x, seen.y, seen.design, seen.known, basis)
            return hilbert_gp.HilbertLatent(seen.kernel, seen.x, likelihood_of(seen), seen.design, basis)
        case _:
            theta = np.array([prior_quantiles(seen, name)[1] for name in seen.kernel.names])
            points = sparse_gaussian_process.choose_inducing(
                seen.kernel, theta, seen.x, seen.spec.inducing or INDUCING, np.random.default_rng(0)
            )
            bound: Any = "fitc" if word == "fitc" else "vfe"
            return sparse_gaussian_process.SparseRegression(
                seen.kernel, seen.x, seen.y, seen.design, seen.known, points, bound
            )


def _basis(seen: Resolved) -> Any:

    limits = {}
    for parameter in seen.kernel.parameters:
        if parameter.role == "lengthscale":
            low, _, high = prior_quantiles(seen, parameter.name)
            limits[parameter.name] = (low, high)
    try:
        return choose_basis(seen.kernel, seen.x, limits, functions=seen.spec.functions, domain=_domain(seen))
    except ModelError as error:
        raise ModelError(error.message, path=error.path or ("model", "approximation"), code=error.code) from None


def _domain(seen: Resolved) -> dict[str, tuple[float, float]]:
    """Where functions serve, by column: as the model says, or the inputs with a margin."""
    out = {}
    for name, values in zip(seen.kernel.columns, seen.x.T, strict=True):
        low, high = float(values.min()), float(values.max())
        margin = _MARGIN * (high - low)
        given = (seen.spec.domain or {}).get(name)
        if given is not None and (low < given[0] or high > given[1]):
            raise ModelError(
                f"the data have '{name}' from {low:g} to {high:g}, which is not inside [{given[0]:g}, {given[1]:g}]",
                path=("model", "domain", name),
                code="out-of-range",
            )
        out[name] = given or (low - margin, high + margin)
    return out


def unserved(seen: Resolved, draws: Mapping[str, np.ndarray]) -> list[tuple[str, str, float | None, str, str]]:
    """Lengthscales, of a posterior or fixed, that the functions of hsgp do not serve."""
    out: list[tuple[str, str, float | None, str, str]] = []
    inferred = {name: values for name, values in draws.items() if name in seen.dims}
    inferred |= {name: np.array([value]) for name, value in seen.fixed.items()}
    for found in hilbert_gp.unserved(regression_of(seen).basis, inferred):
        if found.short:
            advice = f"standard deviations are too small; fit with `functions: {found.functions}` or more"
            out.append(("functions", found.name, found.value, found.text, advice))
        else:
            wide = f"domain: {{{found.column}: [{found.domain[0]:.4g}, {found.domain[1]:.4g}]}}"
            out.append(("box", found.name, found.value, found.text, f"fit with a wider box, `{wide}`"))
    return out


def prior_quantiles(seen: Resolved, name: str) -> tuple[float, float, float]:
    """Quantiles 0.1, 0.5 and 0.95 of a hyperparameter's prior; from scales of the data where it has no numbers."""
    if name in seen.fixed:
        return (seen.fixed[name],) * 3
    found = quantiles(str(seen.nodes[name]))
    if found is not None:
        return found
    parameter = next(p for p in seen.kernel.parameters if p.name == name)
    scales = Scales(seen.x, seen.kernel.columns, 1.0)
    low, high = scales.resolution(parameter.columns), scales.range(parameter.columns)
    if parameter.role in ("lengthscale", "period"):
        return low, float(np.sqrt(low * high)), high
    spread = 1.0 if seen.y is None else float(np.std(seen.y)) or 1.0
    return 0.1 * spread, spread, 10 * spread


def _own(seen: Resolved, values: Mapping[str, Any]) -> list[float]:
    """Parameters of the likelihood in the order of the vector."""
    if seen.gaussian:
        return [seen.noise_sd(values)]
    named = {"nu": lambda: seen.value("nu", values), "sigma": lambda: seen.noise_sd(values)}
    return [named[n]() if n in named else seen.value(n, values) for n in likelihood_of(seen).parameters]


def vector_of(seen: Resolved, values: Mapping[str, Any]) -> np.ndarray:
    """Hyperparameters, parameters of the likelihood, coefficients, from values by name."""
    return np.array([*seen.theta(values), *_own(seen, values), *seen.coefficients(values)])


def process_at(seen: Resolved, regression: Any, values: Mapping[str, Any]) -> Any:
    """The process at one draw of what is inferred."""
    if "_z" in values:
        return regression.posterior(seen.theta(values), np.asarray(values["_z"]))
    return regression.posterior(vector_of(seen, values))


def operations(seen: Resolved) -> float:
    """Of one evaluation of density and gradient, roughly."""
    n, word = float(seen.n), seen.spec.approximation
    if word == "laplace":
        return 15.0 * n**3
    if word == "state_space":
        theta = np.array([prior_quantiles(seen, name)[1] for name in seen.kernel.names])
        return n * (5e3 + 40.0 * of_kernel(seen.kernel, theta).n_states ** 2.5)
    if word == "hsgp":
        m = float(regression_of(seen).basis.n_functions) if seen.y is not None else 100.0
        return 4.0 * m**3 if seen.gaussian else 4.0 * n * m
    m = float(min(seen.n, seen.spec.inducing or INDUCING))
    return 8.0 * n * m**2 + 200.0 * n * m
