"""A Gaussian process as a PyMC graph: with the function summed out, or with a node for it and for the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.dataset import Dataset
from bayeslab.errors import ModelError
from bayeslab.exact.gaussian_process import LOG_LIKELIHOOD, LOG_MARGINAL, LOG_MARGINAL_IN_TIME, likelihood_words
from bayeslab.exact.state_space import faster_in_time
from bayeslab.families import graph as graphs
from bayeslab.families.gaussian_process.approximations import regression_of
from bayeslab.families.gaussian_process.model import Resolved
from bayeslab.families.regression.likelihoods import INVERSE_LINKS
from bayeslab.language.spec import Model

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


def begun(model: Model, seen: Resolved) -> pymc.Model:
    """A PyMC model with the parameters to infer and their priors."""
    import pymc as pm

    dims = {dim: labels.tolist() for dim, labels in seen.labels.items()}
    if not seen.nodes:
        return pm.Model(coords=dims)
    lowered = model.model_copy(update={"model": graphs.Graph(nodes=dict(seen.nodes)), "dims": dims})
    try:
        graphs.check(lowered, set())
        built = graphs.compile(lowered, bind(lowered, Dataset({}, model.data.rows), ())).graph()
    except ModelError as error:
        where = error.path[2].partition("[")[0] if len(error.path) > 2 else ""
        raise ModelError(error.message, path=("model", "priors", where), offset=error.offset, code=error.code) from None
    for dim, labels in dims.items():
        if dim not in built.coords:
            built.add_coord(dim, labels)
    if seen.middle is not None:
        import pytensor.tensor as pt

        with built:
            level, slopes = _value(seen, built, seen.level), built["b"]
            pm.Deterministic("Intercept", level + pt.dot(seen.at_zero[1:], slopes))
    return built


def _value(seen: Resolved, built: pymc.Model, name: str) -> Any:
    return seen.fixed[name] if name in seen.fixed else built[name]


def _vector(parts: list[Any]) -> Any:
    import pytensor.tensor as pt

    if not parts:
        return pt.zeros(0)
    return pt.concatenate([pt.atleast_1d(pt.as_tensor_variable(part, dtype="float64")).ravel() for part in parts])


def parameters(seen: Resolved, built: pymc.Model) -> tuple[Any, Any, Any]:
    """Hyperparameters of the kernel, standard deviation of the noise (zero where there is none), coefficients."""
    import pytensor.tensor as pt

    theta = _vector([_value(seen, built, name) for name in seen.kernel.names])
    known = seen.dims.keys() | seen.fixed.keys()
    noise: Any = 0.0
    if "sigma" in known:
        noise = _value(seen, built, "sigma")
    elif "sigma2" in known:
        noise = pt.sqrt(_value(seen, built, "sigma2"))
    elif "precision" in known:
        noise = _value(seen, built, "precision") ** -0.5
    start = [_value(seen, built, seen.level)] if seen.intercept else []
    return theta, noise, _vector([*start, *([built["b"]] if seen.predictors else [])])


def program_arrays(seen: Resolved) -> tuple[np.ndarray, ...]:
    """The program of the covariance function and the inputs by column, as kernels take them."""
    return *seen.kernel.program, np.ascontiguousarray(seen.x.T)


def with_evidence(model: Model, seen: Resolved) -> pymc.Model:
    """Normal observations: hyperparameters, and their log marginal likelihood as one node."""
    import pymc as pm

    from bayeslab.evidence import log_evidence

    assert seen.y is not None
    built = begun(model, seen)
    with built:
        theta, noise, coefficients = parameters(seen, built)
        vector = _vector([theta, noise, coefficients])
        if in_time(seen):
            order = np.argsort(seen.x[:, 0], kind="stable")
            ops, _, at, fixed = seen.kernel.program
            times = seen.x[order, 0]
            rows = (np.diff(times, prepend=times[:1]), seen.y[order], seen.design[order], seen.known[order])
            pm.Potential("evidence", log_evidence(LOG_MARGINAL_IN_TIME, vector, ops, at, fixed, *rows))
        else:
            arrays = (*program_arrays(seen), seen.y, seen.design, seen.known, np.array([seen.nugget]))
            pm.Potential("evidence", log_evidence(LOG_MARGINAL, vector, *arrays))
    return built


def in_time(seen: Resolved) -> bool:
    """Whether the same evidence costs n steps: Matérn processes of one column (and white noise), seen with noise."""
    if not seen.gaussian or seen.nugget or not faster_in_time(seen.kernel, seen.n):
        return False
    return seen.known.min() > 0 or all(seen.fixed.get(name, 1.0) > 0 for name in ("sigma", "sigma2", "precision"))


def with_approximation(model: Model, seen: Resolved) -> pymc.Model:
    """Hyperparameters, and their log evidence by the approximation that the model names, as one node."""
    import pymc as pm

    from bayeslab.evidence import python_evidence

    found = regression_of(seen)
    built = begun(model, seen)
    with built:
        theta, noise, coefficients = parameters(seen, built)
        named = {"sigma": noise}
        own = [noise]
        if not seen.gaussian:
            own = [named[n] if n in named else _own(seen, built, n) for n in found.likelihood.parameters]
        vector = [theta, *own, coefficients]
        if not seen.gaussian and seen.spec.approximation == "hsgp":
            raw = pm.Normal("_z", 0.0, 1.0, shape=found.basis.n_functions)
            pm.Potential("evidence", python_evidence(found.log_likelihood, _vector([*vector, raw])))
        else:
            pm.Potential("evidence", python_evidence(found.log_marginal, _vector(vector)))
    return built


def written_out(model: Model, seen: Resolved) -> pymc.Model:
    """Parameters, the function ``f`` at the rows, and a node for the outcome."""
    import pymc as pm
    import pytensor.tensor as pt

    from bayeslab.families.gaussian_process.cholesky import CovarianceFactor

    built = begun(model, seen)
    built.add_coord(seen.rows, seen.row_labels.tolist())
    with built:
        theta, noise, coefficients = parameters(seen, built)
        mean = pt.dot(seen.design, coefficients) if seen.design.shape[1] else np.zeros(seen.n)
        raw = pm.Normal("_z", 0.0, 1.0, shape=seen.n)
        lower = CovarianceFactor(seen.kernel, seen.x, max(seen.nugget, 1e-10))(theta)
        f = pm.Deterministic("f", mean + pt.dot(lower, raw), dims=seen.rows)
        _outcome(seen, built, f, noise)
    return built


def _outcome(seen: Resolved, built: pymc.Model, f: Any, noise: Any) -> None:
    """The node of the outcome given the function."""
    import pymc as pm
    import pytensor.tensor as pt

    name, dims = seen.target, seen.rows
    sd = pt.sqrt(noise**2 + seen.known)
    match seen.spec.likelihood:
        case "gaussian":
            pm.Normal(name, f, sd, dims=dims)
        case "student_t":
            pm.StudentT(name, nu=_value(seen, built, "nu"), mu=f, sigma=noise, dims=dims)
        case "bernoulli":
            pm.Bernoulli(name, p=_mean(seen.link, f), dims=dims)
        case "binomial":
            trials = np.ones(seen.n) if seen.trials is None else seen.trials
            pm.Binomial(name, n=trials.astype(int), p=_mean(seen.link, f), dims=dims)
        case "poisson":
            pm.Poisson(name, mu=_mean(seen.link, f), dims=dims)
        case "negative_binomial":
            pm.NegativeBinomial(name, mu=_mean(seen.link, f), alpha=_value(seen, built, "alpha"), dims=dims)


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


def with_function(model: Model, seen: Resolved) -> pymc.Model:
    """Other observations: hyperparameters, and standard normals that the function at distinct inputs is made of."""
    import pymc as pm

    from bayeslab.evidence import log_evidence

    assert seen.y is not None
    distinct, place = seen.distinct
    built = begun(model, seen)
    with built:
        theta, noise, coefficients = parameters(seen, built)
        own = {"student_t": (noise, _own(seen, built, "nu")), "negative_binomial": (_own(seen, built, "alpha"), 0.0)}
        raw = pm.Normal("_z", 0.0, 1.0, shape=len(distinct))
        vector = _vector([theta, *own.get(seen.spec.likelihood, (0.0, 0.0)), coefficients, raw])
        program = (*seen.kernel.program, np.ascontiguousarray(distinct.T))
        trials = np.ones(seen.n) if seen.trials is None else seen.trials
        words = likelihood_words(seen.spec.likelihood, seen.link)
        arrays = (*program, place, seen.y, trials, seen.design, np.array([seen.nugget]), words)
        pm.Potential("evidence", log_evidence(LOG_LIKELIHOOD, vector, *arrays))
    return built


def _own(seen: Resolved, built: pymc.Model, name: str) -> Any:
    return _value(seen, built, name) if name in seen.fixed or name in seen.dims else 0.0
