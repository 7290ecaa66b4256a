"""The log density of a mixture, with the component of every row summed out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.families.graph.priors import program_with_priors
from bayeslab.language.spec import Model
from bayeslab.language.writer import Writer
from bayeslab.posterior.machine.model import MachineModel
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture
from bayeslab.posterior.mixtures.expectation_maximisation import first_guess
from bayeslab.posterior.mixtures.search import AllCollapsed, MixtureOptions, fit_mixture

__all__ = [
    "coordinates",
    "machine_model",
    "mixing",
    "parameters",
    "start_values",
    "write_evidence",
]


def machine_model(model: Model, resolved: BoundMixture, *, search: bool = True) -> MachineModel:
    """Parameters, and log p(rows | parameters), as a program.

    ``search``: whether to search for a mode where chains start.

    Raises
    ------
    NotLowered
        The machine does not know a part of the model.
    """
    start = start_values(resolved, search=search)
    writer = program_with_priors(model, resolved.free_nodes(), coordinates(resolved))
    write_evidence(writer, resolved, start)
    return writer.finish()


def coordinates(resolved: BoundMixture) -> dict[str, list[Any]]:
    """Labels of the dimensions of parameters."""
    return {dim: labels.tolist() for dim, labels in resolved.labels.items()}


def start_values(resolved: BoundMixture, *, search: bool) -> dict[str, Any] | None:
    """Where chains start: the posterior mode from a few searches; None if there is none, or no search."""
    problem = resolved.problem
    # There may be more stick-breaking pieces than rows.
    enough = resolved.process is None or len(resolved.rows) >= resolved.n_components
    if enough:
        problem.check()  # as the search does
    start = _mode(resolved) if search and enough else None
    if resolved.process is not None and start is not None:
        # Stick-breaking pieces decrease in size.
        order = np.argsort(-start["weights"], kind="stable")
        start = resolved.theta(resolved.renumbered(resolved.values(start), order))
    return start


def _mode(resolved: BoundMixture) -> dict[str, Any] | None:
    """The posterior mode from a few searches; None if all collapsed."""
    problem = resolved.problem
    if np.max(problem.latent.dirichlet) < 1 and problem.latent.inputs is None:
        # A Dirichlet prior with concentrations below one has no interior mode.
        problem = replace(problem, latent=replace(problem.latent, dirichlet=1.0))
    options = MixtureOptions(method="map", restarts=3, max_iterations=200, tolerance=1e-3, repairs=1)
    try:
        fit = fit_mixture(problem, options, rng=np.random.default_rng(0), start=first_guess(resolved))
    except AllCollapsed:
        return None
    return dict(fit.parameters)


def write_evidence(writer: Writer, resolved: BoundMixture, start: dict[str, Any] | None) -> None:
    """Write the parameters, and log p(rows | parameters) with every row's component summed out."""
    problem = resolved.problem
    weights, variables = mixing(writer, resolved, start), parameters(writer, resolved, start)
    plain = problem.latent.plain and not np.isnan(problem.rows).any()
    only = next(iter(resolved.parts.values())) if len(resolved.parts) == 1 and plain else None
    kernel = None if only is None else only.compiled(variables, problem.rows)
    if kernel is not None:
        flat = [weights["log_weights"], *kernel.parameters]
        value = writer.evidence(kernel.kernel, flat, kernel.rows) + kernel.constant
    else:
        density = sum(part.density(writer, variables, resolved.rows) for part in resolved.parts.values())
        value = problem.latent.evidence(writer, weights, density)
    writer.add("evidence", value)


def parameters(writer: Writer, resolved: BoundMixture, start: dict[str, Any] | None) -> dict[str, Any]:
    """The parameters of all parts, and the variables behind them."""
    values = {} if start is None else resolved.values(start)
    out: dict[str, Any] = {}
    for part in resolved.parts.values():
        out |= replace(part, n_states=resolved.n_components).starting(values).variables(writer)
    return out


def mixing(writer: Writer, resolved: BoundMixture, start: dict[str, Any] | None) -> dict[str, Any]:
    """The weights or the gate, and ``log_weights`` (K,), or (N, K) with a gate."""
    if resolved.process is not None and resolved.problem.latent.inputs is None:
        return {"log_weights": _sticks(writer, resolved, None if start is None else start["weights"])}
    return resolved.problem.latent.variables(writer, start)


def _sticks(writer: Writer, resolved: BoundMixture, start: np.ndarray | None) -> Any:
    """Log weights (K,) of a truncated process; the last one is the rest of the stick."""
    prior, k = resolved.process, resolved.n_components
    assert prior is not None
    if isinstance(prior.alpha, str):
        raise ModelError(
            "empirical_bayes needs methods gibbs and variational; give a number, or a prior such as Gamma(1, 1)",
            path=("model", "concentration"),
            code="not-suited",
        )
    alpha: Any = prior.alpha
    if isinstance(alpha, tuple):
        alpha = writer.random("alpha", "Gamma", {"alpha": alpha[0], "beta": alpha[1]})
    if k == 1:
        raise ModelError("a stick needs at least two pieces: raise `most`", path=("model", "most"), code="out-of-range")
    begin = None
    if start is not None:
        held = np.maximum(start, 0.1 / k)
        begin = np.clip(held[:-1] / np.cumsum(held[::-1])[::-1][:-1], 0.01, 0.99)
    rises = prior.discount * np.arange(1, k)
    v = writer.random("_stick", "Beta", {"alpha": 1 - prior.discount, "beta": alpha + rises}, (k - 1,), start=begin)
    rest = writer.ops.along("cumsum", writer.ops.function("log1p")(-v), 0)
    log_weights = writer.joined([writer.log(v), np.zeros(1)]) + writer.joined([np.zeros(1), rest])
    writer.computed("weights", writer.exp(log_weights), ("component",))
    writer.computed("remainder", writer.exp(log_weights[-1]))
    return log_weights
