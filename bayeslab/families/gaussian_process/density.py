"""The log density of a Gaussian process: the function is integrated out, or made of standard normals."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.families.gaussian_process.approximations import regression_of
from bayeslab.families.gaussian_process.model import Resolved
from bayeslab.families.graph.priors import program_with_priors
from bayeslab.families.graph.spectra import roots_of_spectrum
from bayeslab.language.spec import Model
from bayeslab.language.writer import Writer
from bayeslab.latents.gaussian_process.gaussian_process import (
    LOG_LIKELIHOOD,
    LOG_LIKELIHOOD_OF_PREDICTOR,
    LOG_MARGINAL,
    LOG_MARGINAL_IN_TIME,
    likelihood_words,
)
from bayeslab.latents.gaussian_process.state_space import faster_in_time
from bayeslab.posterior.machine.model import MachineModel

__all__ = [
    "coordinates",
    "in_time",
    "machine_model",
    "parameters",
    "program_arrays",
    "value_of",
    "value_or_zero",
    "write_evidence",
    "write_intercept",
]


def machine_model(model: Model, resolved: Resolved) -> MachineModel:
    """Hyperparameters, and the log evidence of the data or the log likelihood of the function, as a program."""
    writer = program_with_priors(model, resolved.nodes, coordinates(resolved))
    write_intercept(writer, resolved)
    write_evidence(writer, resolved)
    return writer.finish()


def coordinates(resolved: Resolved) -> dict[str, list[Any]]:
    """Labels of the dimensions of parameters."""
    return {dim: labels.tolist() for dim, labels in resolved.labels.items()}


def write_intercept(writer: Writer, resolved: Resolved) -> None:
    """Write the intercept at predictors of zero, if the parameter is that at their means."""
    if resolved.nodes and resolved.middle is not None:
        level, slopes = value_of(writer, resolved, resolved.level), writer.existing("b")
        writer.computed("Intercept", level + writer.dot(resolved.at_zero[1:], slopes))


def value_of(writer: Writer, resolved: Resolved, name: str) -> Any:
    """A parameter: a number if it is fixed, otherwise the variable."""
    return resolved.fixed[name] if name in resolved.fixed else writer.existing(name)


def value_or_zero(writer: Writer, resolved: Resolved, name: str) -> Any:
    """A parameter, or zero if the model has none of this name."""
    known = name in resolved.fixed or name in resolved.dims
    return value_of(writer, resolved, name) if known else 0.0


def parameters(writer: Writer, resolved: Resolved) -> tuple[list[Any], Any, list[Any]]:
    """Hyperparameters of the kernel, standard deviation of the noise (zero if there is none), coefficients.

    Hyperparameters and coefficients are vectors.
    """
    theta = [_vector(value_of(writer, resolved, name)) for name in resolved.kernel.names]
    known = resolved.dims.keys() | resolved.fixed.keys()
    noise: Any = 0.0
    if "sigma" in known:
        noise = value_of(writer, resolved, "sigma")
    elif "sigma2" in known:
        variance = value_of(writer, resolved, "sigma2")
        noise = np.sqrt(variance) if isinstance(variance, float) else writer.sqrt(variance)
    elif "precision" in known:
        noise = value_of(writer, resolved, "precision") ** -0.5
    coefficients = [value_of(writer, resolved, resolved.level)] if resolved.intercept else []
    coefficients += [writer.existing("b")] if resolved.predictors else []
    return theta, noise, [_vector(each) for each in coefficients]


def _vector(value: Any) -> Any:
    return np.array([float(value)]) if isinstance(value, int | float) else value.ravel()


def program_arrays(resolved: Resolved) -> tuple[np.ndarray, ...]:
    """The covariance function's program and the inputs by column, as arrays for the kernels."""
    return *resolved.kernel.program, np.ascontiguousarray(resolved.x.T)


def in_time(resolved: Resolved) -> bool:
    """Whether the evidence can be computed in n steps: Matérn kernels of one column (and white noise), with noise."""
    if not resolved.gaussian or resolved.nugget or not faster_in_time(resolved.kernel, resolved.n):
        return False
    return resolved.known.min() > 0 or all(
        resolved.fixed.get(name, 1.0) > 0 for name in ("sigma", "sigma2", "precision")
    )


def write_evidence(writer: Writer, resolved: Resolved) -> None:
    """Write the log marginal likelihood, or for outcomes that are not normal the function and its log likelihood."""
    assert resolved.y is not None
    if resolved.spec.approximation is not None:
        _write_approximation(writer, resolved)
        return
    theta, noise, coefficients = parameters(writer, resolved)
    if not resolved.gaussian:
        _write_likelihood(writer, resolved, theta, noise, coefficients)
        return
    flat = [*theta, _vector(noise), *coefficients]
    if in_time(resolved):
        order = np.argsort(resolved.x[:, 0], kind="stable")
        ops, _, at, fixed = resolved.kernel.program
        times = resolved.x[order, 0]
        rows = (np.diff(times, prepend=times[:1]), resolved.y[order], resolved.design[order], resolved.known[order])
        writer.add("evidence", writer.evidence(LOG_MARGINAL_IN_TIME, flat, ops, at, fixed, *rows))
        return
    arrays = (*program_arrays(resolved), resolved.y, resolved.design, resolved.known, np.array([resolved.nugget]))
    writer.add("evidence", writer.evidence(LOG_MARGINAL, flat, *arrays))


def _write_approximation(writer: Writer, resolved: Resolved) -> None:
    """Write the approximate log evidence, or with ``hsgp`` the function and its log likelihood."""
    theta, noise, coefficients = parameters(writer, resolved)
    if not resolved.gaussian and resolved.spec.approximation == "hsgp":
        _write_sines(writer, resolved, noise, coefficients)
        return
    regression, noises = regression_of(resolved), [noise]
    if not resolved.gaussian:
        named = {"sigma": noise}
        noises = [
            named[name] if name in named else value_or_zero(writer, resolved, name)
            for name in regression.likelihood.parameters
        ]
    flat = [*theta, *map(_vector, noises), *coefficients]
    writer.add("evidence", writer.python_evidence(regression.log_marginal, flat))


def _write_sines(writer: Writer, resolved: Resolved, noise: Any, coefficients: list[Any]) -> None:
    """Standard normals that are the weights of fixed functions, and the log likelihood of their sum."""
    basis = regression_of(resolved).basis
    hyperparameters = {name: value_of(writer, resolved, name) for name in resolved.kernel.names}
    given = {n: writer.constant(v) if isinstance(v, float) else v for n, v in hyperparameters.items()}
    normals = writer.random("_z", "Normal", {"mu": 0.0, "sigma": 1.0}, (basis.n_functions,))
    weights = normals * roots_of_spectrum(writer.ops, basis, given)
    predictor = writer.dot(np.ascontiguousarray(basis.features(resolved.x)), weights)
    if coefficients:
        predictor = predictor + writer.dot(resolved.design, writer.joined(coefficients))
    flat = [*map(_vector, _of_likelihood(writer, resolved, noise)), predictor]
    writer.add("evidence", writer.evidence(LOG_LIKELIHOOD_OF_PREDICTOR, flat, *_rows_of(resolved)))


def _of_likelihood(writer: Writer, resolved: Resolved, noise: Any) -> tuple[Any, Any]:
    """The two parameters of the likelihood, zero where there is none."""
    return {
        "student_t": (noise, value_or_zero(writer, resolved, "nu")),
        "negative_binomial": (value_or_zero(writer, resolved, "alpha"), 0.0),
    }.get(resolved.spec.likelihood, (0.0, 0.0))


def _rows_of(resolved: Resolved) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outcomes, trials, and the codes of likelihood and link."""
    assert resolved.y is not None
    trials = np.ones(resolved.n) if resolved.trials is None else resolved.trials
    return resolved.y, trials, likelihood_words(resolved.spec.likelihood, resolved.link)


def _write_likelihood(
    writer: Writer, resolved: Resolved, theta: list[Any], noise: Any, coefficients: list[Any]
) -> None:
    """Standard normals that determine the function at distinct inputs, and the log likelihood of the function."""
    distinct, place = resolved.distinct
    normals = writer.random("_z", "Normal", {"mu": 0.0, "sigma": 1.0}, (len(distinct),))
    inputs = (*resolved.kernel.program, np.ascontiguousarray(distinct.T), place)
    y, trials, words = _rows_of(resolved)
    rows = (y, trials, resolved.design, np.array([resolved.nugget]), words)
    flat = [*theta, *map(_vector, _of_likelihood(writer, resolved, noise)), *coefficients, normals]
    writer.add("evidence", writer.evidence(LOG_LIKELIHOOD, flat, *inputs, *rows))
