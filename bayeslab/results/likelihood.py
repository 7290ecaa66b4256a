"""The maximum of the likelihood, and the criteria computed from it: AIC, BIC, description length.

These criteria compare maximised likelihoods and penalise the number of parameters. Priors do not
enter, except that they restrict parameters to their support. In a hierarchical model the likelihood
is that of the data given the group effects, each of which counts as a parameter; leave-one-out
cross-validation is the better criterion there.

References
----------
.. [1] Akaike (1974). A new look at the statistical model identification. IEEE Transactions on
   Automatic Control 19(6), 716-723.
.. [2] Schwarz (1978). Estimating the dimension of a model. Annals of Statistics 6(2), 461-464.
.. [3] Rissanen (1978). Modeling by shortest data description. Automatica 14(5), 465-471.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.blas import one_blas_thread
from bayeslab.errors import BayeslabError, DataError, ModelError
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.results.fitted import Fitted, posterior_values

__all__ = ["MaximumLikelihood", "aic", "bic", "description_bits", "effective_parameters", "hypothesis_bits", "maximise"]


def aic(log_likelihood: float, n_parameters: float) -> float:
    """−2 log L + 2 k [1]_; −AIC/2 is the log likelihood less the number of parameters."""
    return -2 * log_likelihood + 2 * n_parameters


def bic(log_likelihood: float, n_parameters: float, n_obs: float) -> float:
    """−2 log L + k log n [2]_; −BIC/2 approximates the log evidence up to a constant."""
    return -2 * log_likelihood + n_parameters * math.log(n_obs)


def description_bits(bic: float) -> float:
    """Bits to describe the data and the parameters in two parts [3]_: BIC / (2 log 2).

    Each parameter is stated with a precision of about 1/√n of its range, which takes ½ log₂ n bits.
    """
    return bic / (2 * math.log(2))


def hypothesis_bits(prior: np.ndarray, log_likelihood: np.ndarray) -> np.ndarray:
    """Bits to describe each hypothesis and the data given it: −log₂ prior − log₂ likelihood.

    The shortest description is the most probable hypothesis.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log2(prior) - np.asarray(log_likelihood) / math.log(2))


def effective_parameters(design: np.ndarray, ridge: float) -> float:
    """Effective number of parameters of ridge regression: the trace of X (XᵀX + λI)⁻¹ Xᵀ.

    With coefficients Normal(0, 1/α) and noise of precision β, λ = α/β. Without shrinkage (λ = 0) it is
    the number of columns.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009). The Elements of Statistical Learning, eq. 3.50.
    """
    squares = np.linalg.svd(design, compute_uv=False) ** 2
    return float(np.sum(squares / (squares + ridge)))


@dataclass(frozen=True, slots=True)
class MaximumLikelihood:
    """The maximum of the likelihood.

    Attributes
    ----------
    log_likelihood : float
        NaN if the likelihood is unknown or has no maximum (unbounded, or increasing towards infinite parameters).
    n_parameters : float
        Number of free parameters; NaN if it is not a single number.
    n_obs : float
    """

    log_likelihood: float
    n_parameters: float
    n_obs: float

    @property
    def aic(self) -> float:
        return aic(self.log_likelihood, self.n_parameters)

    @property
    def bic(self) -> float:
        return bic(self.log_likelihood, self.n_parameters, self.n_obs)


def maximise(fit: Fitted, nodes: list[str], log_likelihood: np.ndarray) -> MaximumLikelihood:
    """Maximise the likelihood of some observed nodes, starting at the draw with the highest likelihood.

    Parameters
    ----------
    nodes
        Names of the observed nodes.
    log_likelihood
        Their log likelihood at every draw, shape (draw, observation).
    """
    from scipy.optimize import minimize

    if fit.has_group("parent_sets"):
        # Structures differ in their number of parameters, so there is no single maximum to penalise.
        return MaximumLikelihood(math.nan, math.nan, log_likelihood.shape[1])
    known = fit.bound_model.maximum_likelihood()
    if known is not None:
        return MaximumLikelihood(*known, _counted(fit, nodes, log_likelihood.shape[1]))
    n_obs, best = _counted(fit, nodes, log_likelihood.shape[1]), int(np.argmax(log_likelihood.sum(axis=1)))
    try:
        start, function = _on_machine(fit, nodes, best) or _on_graph(fit, nodes, best)
    except ModelError as error:
        if not error.code.endswith("missing"):
            raise
        # Only EM sums out these missing cells.
        return MaximumLikelihood(math.nan, math.nan, log_likelihood.shape[1])
    if start is None:
        return MaximumLikelihood(math.nan, math.nan, log_likelihood.shape[1])
    if not start.size:
        return MaximumLikelihood(float(log_likelihood[best].sum()), 0, n_obs)

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = (np.asarray(part, float) for part in function(point))
        if not np.isfinite(value) or not np.all(np.isfinite(gradient)):
            return 1e300, np.zeros_like(point)
        return -float(value), -gradient

    limits = {"maxiter": 2000, "maxfun": 5000, "ftol": 1e-14, "gtol": 1e-7}
    with one_blas_thread():
        optimum = minimize(objective, start, jac=True, method="L-BFGS-B", options=limits)
    # If the maximum is at infinity, parameters diverge while the gain decreases.
    bounded = bool(optimum.fun < 1e299 and np.max(np.abs(optimum.x)) < 1e3 + 10 * np.max(np.abs(start)))
    settled = float(0.5 * optimum.jac @ optimum.hess_inv(optimum.jac)) < 1e-3
    return MaximumLikelihood(-float(optimum.fun) if bounded and settled else math.nan, start.size, n_obs)


type _Objective = tuple[np.ndarray | None, Any]


def _on_machine(fit: Fitted, nodes: list[str], best: int) -> _Objective | None:
    """A start, and the log likelihood with its gradient, by the density machine; None if it does not know the model."""
    posterior = fit.bound_model
    try:
        machine = posterior.machine_model()
    except (NotLowered, BayeslabError):
        return None
    if not {*posterior.observed()} <= {*nodes}:
        return None  # potentials, which are part of the likelihood of the program
    program, inside = machine.part("likelihood")
    held = posterior_values(fit)
    known = all(parameter.name in held for parameter in machine.parameters)
    at = {parameter.name: held[parameter.name][best : best + 1] for parameter in machine.parameters} if known else {}
    whole = machine.points_at(at)[0] if at else machine.start()

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        there = whole.copy()
        there[inside] = point
        value, gradient = program.value_and_gradient(there)
        return value, gradient[inside]

    return whole[inside], function


def _on_graph(fit: Fitted, nodes: list[str], best: int) -> _Objective:
    """As :func:`_on_machine`, by PyMC; no start if observations have no separate likelihood."""
    from bayeslab.results.predict import value_draws

    graph = fit.bound_model.graph()
    if fit.bound_model.summed_out() and _joint(graph):
        # Discrete nodes are summed out of parameters and observations jointly, so there is no separate likelihood.
        return None, None
    function, values = _function(graph, nodes)
    try:
        drawn = value_draws(fit, graph)
        at = {str(name): each[best] for name, each in drawn.items()}
    except DataError:
        # An exact fit without the graph has no draws of the graph's parameters.
        at = graph.initial_point()
    return np.concatenate([[], *(np.ravel(at[v.name]) for v in values)]).astype(float), function


def _joint(graph: Any) -> bool:
    """Whether pymc-extras has joined random variables that share a discrete node."""
    from pymc_extras.model.marginal.distributions.core import MarginalRV
    from pytensor.graph.traversal import ancestors

    return any(isinstance(v.owner.op, MarginalRV) for rv in graph.basic_RVs for v in ancestors([rv]) if v.owner)


def _counted(fit: Fitted, nodes: list[str], n_terms: int) -> float:
    """The number of observations, with rows counted by their weights."""
    weights = fit.bound_model.row_weights()
    return n_terms + sum(float(np.sum(each)) - np.size(each) for name, each in weights.items() if name in nodes)


def _function(graph: Any, nodes: list[str]) -> tuple[Any, list[Any]]:
    """Log likelihood and gradient as a function of a flat vector, and the value variables that the vector joins."""
    import pytensor
    import pytensor.tensor as pt
    from pytensor.graph.replace import clone_replace
    from pytensor.graph.traversal import ancestors

    # Potentials with these names are likelihoods of rows that are aggregated, weighted, or have latent variables.
    summed = {"weights", *nodes, *(f"{name}_rows" for name in nodes)}
    wanted = [rv for rv in graph.observed_RVs if rv.name.removesuffix("_observed") in nodes]
    wanted += [potential for potential in graph.potentials if potential.name in summed]
    log_likelihood = graph.logp(vars=wanted, jacobian=False)
    above = set(ancestors([log_likelihood]))
    values = [v for v in graph.value_vars if v in above]
    if not values:
        return None, []
    gradient = pt.concatenate([pt.grad(log_likelihood, v).ravel() for v in values])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = graph.initial_point()
        shapes = [np.shape(start[v.name]) for v in values]
        sizes = [int(np.prod(shape)) for shape in shapes]
        point = pt.vector("point", shape=(sum(sizes),), dtype="float64")
        ends = np.cumsum(sizes)
        parts = {
            v: point[end - size : end].reshape(shape).astype(v.dtype)
            for v, shape, size, end in zip(values, shapes, sizes, ends, strict=True)
        }
        outputs = clone_replace([log_likelihood, gradient], parts)
        # No fusion: PyTensor would loop over the elements of fused operations in Python.
        mode = pytensor.compile.mode.Mode("py", "fast_compile")
        return pytensor.function([point], outputs, mode=mode), values
