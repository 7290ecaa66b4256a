"""A Gaussian process as a PyMC graph: with the function integrated out, or with nodes for function and outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.dataset import Dataset
from bayeslab.errors import ModelError
from bayeslab.families import graph as graphs
from bayeslab.families.gaussian_process.approximations import regression_of
from bayeslab.families.gaussian_process.model import Resolved
from bayeslab.families.regression.likelihoods import INVERSE_LINKS
from bayeslab.language.spec import Model
from bayeslab.latents.gaussian_process.gaussian_process import (
    LOG_LIKELIHOOD,
    LOG_MARGINAL,
    LOG_MARGINAL_IN_TIME,
    likelihood_words,
)
from bayeslab.latents.gaussian_process.state_space import faster_in_time

if TYPE_CHECKING:
    import pymc

__all__ = [
    "begun",
    "in_time",
    "parameters",
    "program_arrays",
    "with_approximation",
    "with_evidence",
    "with_function",
    "written_out",
]


def begun(model: Model, resolved: Resolved) -> pymc.Model:
    """A PyMC model with the parameters to infer and their priors."""
    import pymc as pm

    dims = {dim: labels.tolist() for dim, labels in resolved.labels.items()}
    if not resolved.nodes:
        return pm.Model(coords=dims)
    lowered = model.model_copy(update={"model": graphs.Graph(nodes=dict(resolved.nodes)), "dims": dims})
    try:
        graphs.check(lowered, set())
        built = graphs.compile(lowered, bind(lowered, Dataset({}, model.data.rows), ())).graph()
    except ModelError as error:
        where = error.path[2].partition("[")[0] if len(error.path) > 2 else ""
        raise ModelError(error.message, path=("model", "priors", where), offset=error.offset, code=error.code) from None
    for dim, labels in dims.items():
        if dim not in built.coords:
            built.add_coord(dim, labels)
    if resolved.middle is not None:
        import pytensor.tensor as pt

        with built:
            level, slopes = _value(resolved, built, resolved.level), built["b"]
            pm.Deterministic("Intercept", level + pt.dot(resolved.at_zero[1:], slopes))
    return built


def _value(resolved: Resolved, built: pymc.Model, name: str) -> Any:
    return resolved.fixed[name] if name in resolved.fixed else built[name]


def _vector(parts: list[Any]) -> Any:
    import pytensor.tensor as pt

    if not parts:
        return pt.zeros(0)
    return pt.concatenate([pt.atleast_1d(pt.as_tensor_variable(part, dtype="float64")).ravel() for part in parts])


def parameters(resolved: Resolved, built: pymc.Model) -> tuple[Any, Any, Any]:
    """Hyperparameters of the kernel, standard deviation of the noise (zero if there is none), coefficients."""
    import pytensor.tensor as pt

    theta = _vector([_value(resolved, built, name) for name in resolved.kernel.names])
    known = resolved.dims.keys() | resolved.fixed.keys()
    noise: Any = 0.0
    if "sigma" in known:
        noise = _value(resolved, built, "sigma")
    elif "sigma2" in known:
        noise = pt.sqrt(_value(resolved, built, "sigma2"))
    elif "precision" in known:
        noise = _value(resolved, built, "precision") ** -0.5
    start = [_value(resolved, built, resolved.level)] if resolved.intercept else []
    return theta, noise, _vector([*start, *([built["b"]] if resolved.predictors else [])])


def program_arrays(resolved: Resolved) -> tuple[np.ndarray, ...]:
    """The covariance function's program and the inputs by column, as arrays for the kernels."""
    return *resolved.kernel.program, np.ascontiguousarray(resolved.x.T)


def with_evidence(model: Model, resolved: Resolved) -> pymc.Model:
    """For normal outcomes: hyperparameters, and their log marginal likelihood as one node."""
    import pymc as pm

    from bayeslab.evidence import log_evidence

    assert resolved.y is not None
    built = begun(model, resolved)
    with built:
        theta, noise, coefficients = parameters(resolved, built)
        vector = _vector([theta, noise, coefficients])
        if in_time(resolved):
            order = np.argsort(resolved.x[:, 0], kind="stable")
            ops, _, at, fixed = resolved.kernel.program
            times = resolved.x[order, 0]
            rows = (np.diff(times, prepend=times[:1]), resolved.y[order], resolved.design[order], resolved.known[order])
            pm.Potential("evidence", log_evidence(LOG_MARGINAL_IN_TIME, vector, ops, at, fixed, *rows))
        else:
            arrays = (
                *program_arrays(resolved),
                resolved.y,
                resolved.design,
                resolved.known,
                np.array([resolved.nugget]),
            )
            pm.Potential("evidence", log_evidence(LOG_MARGINAL, vector, *arrays))
    return built


def in_time(resolved: Resolved) -> bool:
    """Whether the evidence can be computed in n steps: Matérn kernels of one column (and white noise), with noise."""
    if not resolved.gaussian or resolved.nugget or not faster_in_time(resolved.kernel, resolved.n):
        return False
    return resolved.known.min() > 0 or all(
        resolved.fixed.get(name, 1.0) > 0 for name in ("sigma", "sigma2", "precision")
    )


def with_approximation(model: Model, resolved: Resolved) -> pymc.Model:
    """Hyperparameters, and their approximate log evidence as one node."""
    import pymc as pm

    from bayeslab.evidence import python_evidence

    regression = regression_of(resolved)
    built = begun(model, resolved)
    with built:
        theta, noise, coefficients = parameters(resolved, built)
        named = {"sigma": noise}
        likelihood_parameters = [noise]
        if not resolved.gaussian:
            likelihood_parameters = [
                named[n] if n in named else _value_or_zero(resolved, built, n) for n in regression.likelihood.parameters
            ]
        vector = [theta, *likelihood_parameters, coefficients]
        if not resolved.gaussian and resolved.spec.approximation == "hsgp":
            raw = pm.Normal("_z", 0.0, 1.0, shape=regression.basis.n_functions)
            pm.Potential("evidence", python_evidence(regression.log_likelihood, _vector([*vector, raw])))
        else:
            pm.Potential("evidence", python_evidence(regression.log_marginal, _vector(vector)))
    return built


def written_out(model: Model, resolved: Resolved) -> pymc.Model:
    """Parameters, the function ``f`` at the rows, and a node for the outcome."""
    import pymc as pm
    import pytensor.tensor as pt

    from bayeslab.families.gaussian_process.cholesky import CovarianceFactor

    built = begun(model, resolved)
    built.add_coord(resolved.rows, resolved.row_labels.tolist())
    with built:
        theta, noise, coefficients = parameters(resolved, built)
        mean = pt.dot(resolved.design, coefficients) if resolved.design.shape[1] else np.zeros(resolved.n)
        raw = pm.Normal("_z", 0.0, 1.0, shape=resolved.n)
        lower = CovarianceFactor(resolved.kernel, resolved.x, max(resolved.nugget, 1e-10))(theta)
        f = pm.Deterministic("f", mean + pt.dot(lower, raw), dims=resolved.rows)
        _outcome(resolved, built, f, noise)
    return built


def _outcome(resolved: Resolved, built: pymc.Model, f: Any, noise: Any) -> None:
    """The node of the outcome given the function."""
    import pymc as pm
    import pytensor.tensor as pt

    name, dims = resolved.target, resolved.rows
    sd = pt.sqrt(noise**2 + resolved.known)
    match resolved.spec.likelihood:
        case "gaussian":
            pm.Normal(name, f, sd, dims=dims)
        case "student_t":
            pm.StudentT(name, nu=_value(resolved, built, "nu"), mu=f, sigma=noise, dims=dims)
        case "bernoulli":
            pm.Bernoulli(name, p=_mean(resolved.link, f), dims=dims)
        case "binomial":
            trials = np.ones(resolved.n) if resolved.trials is None else resolved.trials
            pm.Binomial(name, n=trials.astype(int), p=_mean(resolved.link, f), dims=dims)
        case "poisson":
            pm.Poisson(name, mu=_mean(resolved.link, f), dims=dims)
        case "negative_binomial":
            pm.NegativeBinomial(name, mu=_mean(resolved.link, f), alpha=_value(resolved, built, "alpha"), dims=dims)


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


def with_function(model: Model, resolved: Resolved) -> pymc.Model:
    """For other outcomes: hyperparameters, and standard normals that determine the function at distinct inputs."""
    import pymc as pm

    from bayeslab.evidence import log_evidence

    assert resolved.y is not None
    distinct, place = resolved.distinct
    built = begun(model, resolved)
    with built:
        theta, noise, coefficients = parameters(resolved, built)
        likelihood_parameters = {
            "student_t": (noise, _value_or_zero(resolved, built, "nu")),
            "negative_binomial": (_value_or_zero(resolved, built, "alpha"), 0.0),
        }
        raw = pm.Normal("_z", 0.0, 1.0, shape=len(distinct))
        vector = _vector([theta, *likelihood_parameters.get(resolved.spec.likelihood, (0.0, 0.0)), coefficients, raw])
        program = (*resolved.kernel.program, np.ascontiguousarray(distinct.T))
        trials = np.ones(resolved.n) if resolved.trials is None else resolved.trials
        words = likelihood_words(resolved.spec.likelihood, resolved.link)
        arrays = (*program, place, resolved.y, trials, resolved.design, np.array([resolved.nugget]), words)
        pm.Potential("evidence", log_evidence(LOG_LIKELIHOOD, vector, *arrays))
    return built


def _value_or_zero(resolved: Resolved, built: pymc.Model, name: str) -> Any:
    return _value(resolved, built, name) if name in resolved.fixed or name in resolved.dims else 0.0
