"""A mixture as a PyMC graph: with the components summed out, or with one node for the labels and each column."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Dataset
from bayeslab.errors import ModelError
from bayeslab.families import graph as graphs
from bayeslab.language.spec import Model
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture
from bayeslab.posterior.mixtures.expectation_maximisation import first_guess
from bayeslab.posterior.mixtures.search import AllCollapsed, MixtureOptions, fit_mixture

if TYPE_CHECKING:
    import pymc

__all__ = ["with_evidence", "written_out"]


def start_of(resolved: BoundMixture) -> dict[str, Any] | None:
    """Posterior mode from a few searches, as the start of chains; None if all searches collapsed."""
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


def with_evidence(model: Model, resolved: BoundMixture, *, search: bool = True) -> pymc.Model:
    """Parameters, and log p(rows | parameters) with every row's component summed out.

    ``search``: whether to search for a mode where chains start.
    """
    import pymc as pm
    import pytensor.tensor as pt

    from bayeslab.evidence import log_evidence

    problem = resolved.problem
    # There may be more stick-breaking pieces than rows.
    enough = resolved.process is None or len(resolved.rows) >= resolved.n_components
    if enough:
        problem.check()  # as the search does
    start = start_of(resolved) if search and enough else None
    if resolved.process is not None and start is not None:
        # Stick-breaking pieces decrease in size.
        order = np.argsort(-start["weights"], kind="stable")
        start = resolved.theta(resolved.renumbered(resolved.values(start), order))
    built = _begun(model, resolved)
    with built:
        mixing = _mixing(resolved, start)
        variables = _variables(resolved, start)
        plain = problem.latent.plain and not np.isnan(problem.rows).any()
        only = next(iter(resolved.parts.values())) if len(resolved.parts) == 1 and plain else None
        kernel = None if only is None else only.compiled(variables, problem.rows)
        if kernel is not None:
            parameters = pt.concatenate([mixing["log_weights"], *kernel.parameters])
            value = log_evidence(kernel.kernel, parameters, kernel.rows) + kernel.constant
        else:
            density = sum(part.density(variables, resolved.rows) for part in resolved.parts.values())
            value = problem.latent.evidence(mixing, density)
        pm.Potential("evidence", value)
    return built


def _begun(model: Model, resolved: BoundMixture) -> pymc.Model:
    """A PyMC model with the dimensions, and the parameters whose priors are in the model language."""
    import pymc as pm

    nodes, dims = resolved.free_nodes(), {dim: labels.tolist() for dim, labels in resolved.labels.items()}
    if not nodes:
        return pm.Model(coords=dims)
    lowered = model.model_copy(update={"model": graphs.Graph(nodes=dict(nodes)), "dims": dims})
    try:
        graphs.check(lowered, set())
        built = graphs.compile(lowered, bind(lowered, Dataset({}, model.data.rows), ())).graph()
    except ModelError as error:
        where = error.path[2].partition("[")[0] if len(error.path) > 2 else ""
        raise ModelError(error.message, path=("model", "priors", where), offset=error.offset, code=error.code) from None
    for dim, labels in dims.items():
        if dim not in built.coords:
            built.add_coord(dim, labels)
    return built


def _variables(resolved: BoundMixture, start: dict[str, Any] | None) -> dict[str, Any]:
    """The parameters of all parts, and the variables behind them."""
    values = {} if start is None else resolved.values(start)
    out: dict[str, Any] = {}
    for part in resolved.parts.values():
        out |= replace(part, n_states=resolved.n_components).starting(values).variables()
    return out


def _mixing(resolved: BoundMixture, start: dict[str, Any] | None) -> dict[str, Any]:
    """The weights or the gate, and ``log_weights`` (K,), or (N, K) with a gate."""
    if resolved.process is not None and resolved.problem.latent.inputs is None:
        return {"log_weights": _sticks(resolved, None if start is None else start["weights"])}
    return resolved.problem.latent.variables(start)


def _sticks(resolved: BoundMixture, start: np.ndarray | None) -> Any:
    """Log weights (K,) of a truncated process; the last one is the rest of the stick."""
    import pymc as pm
    import pytensor.tensor as pt

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
        alpha = pm.Gamma("alpha", alpha=alpha[0], beta=alpha[1])
    if k == 1:
        raise ModelError("a stick needs at least two pieces: raise `most`", path=("model", "most"), code="out-of-range")
    begin = None
    if start is not None:
        held = np.maximum(start, 0.1 / k)
        begin = np.clip(held[:-1] / np.cumsum(held[::-1])[::-1][:-1], 0.01, 0.99)
    rises = prior.discount * np.arange(1, k)
    v = pm.Beta("_stick", 1 - prior.discount, alpha + rises, shape=k - 1, initval=begin)
    left = pt.concatenate([pt.zeros(1), pt.cumsum(pt.log1p(-v))])
    log_weights = pt.concatenate([pt.log(v), pt.zeros(1)]) + left
    pm.Deterministic("weights", pt.exp(log_weights), dims="component")
    pm.Deterministic("remainder", pt.exp(log_weights[-1]))
    return log_weights


def written_out(model: Model, resolved: BoundMixture, data: Data) -> pymc.Model:
    """Parameters, ``label`` for each row, and a node for each column."""
    import pymc as pm
    import pytensor.tensor as pt

    rows = model.data.rows
    n_rows = len(data.labels[rows]) if rows in data.labels else 1
    built = _begun(model, resolved)
    with built:
        if rows in data.labels:
            built.add_coord(rows, data.labels[rows].tolist())
        dims = rows if rows in data.labels else None
        log_weights = _mixing(resolved, None)["log_weights"]
        variables = _variables(resolved, None)
        cells = resolved.rows if len(resolved.rows) else np.full((n_rows, len(resolved.columns)), np.nan)
        p = pt.exp(log_weights)
        p = p if resolved.problem.latent.inputs is not None else pt.repeat(p[None, :], n_rows, axis=0)
        label = pm.Categorical("label", p=p, dims=dims)
        for part in resolved.parts.values():
            for column, variable in part.drawn(variables, label, cells).items():
                pm.Deterministic(column, variable, dims=dims)
    return built
