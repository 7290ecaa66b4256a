"""Comparing models of the same data, and predicting with all of them.

Three questions are answered side by side. *Which model predicts best?* Leave-one-out
cross-validation, from importance sampling where its diagnostics allow and by refitting where they
do not. *Which is most probable?* The evidence, if the engine computes it: the density of the data
averaged over the prior, which penalises models that could have explained many other data sets.
*Which maximum of the likelihood justifies its number of parameters?* AIC, BIC and description length.

A combination of models often predicts better than the best of them. Stacking chooses the weights
that maximise the leave-one-out log score of the mixture; pseudo-BMA+ weights models by their
predictive density and its uncertainty; posterior model probabilities weight by evidence, assuming
that one of the models is true.

References
----------
.. [1] Vehtari, Gelman, Gabry (2017). Practical Bayesian model evaluation using leave-one-out
   cross-validation and WAIC. Statistics and Computing 27, 1413-1432. arXiv:1507.04544
.. [2] Yao, Vehtari, Simpson, Gelman (2018). Using stacking to average Bayesian predictive
   distributions. Bayesian Analysis 13(3), 917-1007. arXiv:1704.02030
.. [3] Sivula, Magnusson, Matamoros, Vehtari (2025). Uncertainty in Bayesian leave-one-out
   cross-validation based model comparison. Bayesian Analysis. arXiv:2008.10296
.. [4] Kass, Raftery (1995). Bayes factors. Journal of the American Statistical Association 90, 773-795.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from bayeslab.arrays import number
from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Dataset
from bayeslab.engines.toolbox.contract import Engine, engine
from bayeslab.errors import BayeslabError, DataError, OptionError, hint, listed
from bayeslab.job import Job, options_of
from bayeslab.plots.comparison import elpd_plot
from bayeslab.posterior.evaluation import expand
from bayeslab.posterior.event_kinds import GIVEN
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.preparation import machine_of
from bayeslab.progress import Progress, reporter
from bayeslab.results import checks, convergence
from bayeslab.results.common_scale import conditioned, kinds, same_events, same_weights
from bayeslab.results.fitted import Fitted, log_evidence, posterior_values
from bayeslab.results.likelihood import MaximumLikelihood, description_bits, maximise
from bayeslab.results.predict import (
    in_labels,
    level_labels,
    log_likelihood,
    pointwise_graph,
    predict,
    summarised,
    value_draws,
)
from bayeslab.results.psis import good_k, leave_one_out
from bayeslab.results.render import plain_table, report_html
from bayeslab.results.verdict import Finding, Verdict
from bayeslab.streams import stream

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayeslab.posterior.machine.model import MachineModel

__all__ = [
    "Comparison",
    "Loo",
    "bridge",
    "compare",
    "loo",
    "model_probabilities",
    "observations",
    "pseudo_bma_weights",
    "stacking_weights",
]

Array = NDArray[np.float64]
Criterion = Literal["loo", "evidence", "bic", "aic"]
_CRITERIA = ("loo", "evidence", "bic", "aic")
_WEIGHTS = {"loo": "stacking", "evidence": "probability", "bic": "bic_weight", "aic": "aic_weight"}


# ------------------------------------------------------------------------------- plain numbers


def stacking_weights(elpd: Array) -> Array:
    """Weights w ≥ 0 with sum one that maximise Σᵢ log Σₖ wₖ exp(elpdᵢₖ) [2]_ (eq. 4).

    Parameters
    ----------
    elpd
        Leave-one-out log predictive density of each observation, shape (observation, model).
    """
    from scipy.optimize import minimize

    n_models = elpd.shape[1]
    if n_models == 1:
        return np.ones(1)
    density = np.exp(elpd - elpd.max(axis=1, keepdims=True))

    def objective(weights: Array) -> tuple[float, Array]:
        mixed = np.maximum(density @ weights, 1e-300)
        return -float(np.log(mixed).mean()), -(density / mixed[:, None]).mean(axis=0)

    solution = minimize(
        objective,
        np.full(n_models, 1 / n_models),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * n_models,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        options={"maxiter": 1000, "ftol": 1e-14},
    )
    weights = np.where(solution.x > 1e-9, solution.x, 0.0)
    return np.asarray(weights / weights.sum())


def pseudo_bma_weights(elpd: Array, rng: np.random.Generator, n_bootstrap: int = 2000) -> Array:
    """Pseudo-BMA+ weights: the softmax of total elpd, averaged over the Bayesian bootstrap [2]_ (section 3.4).

    Parameters
    ----------
    elpd
        Shape (observation, model).
    """
    n_obs = len(elpd)
    total = np.zeros(elpd.shape[1])
    for size in np.full(n_bootstrap // 100, 100):
        shares = rng.dirichlet(np.ones(n_obs), size=size)
        total += softmax(n_obs * shares @ elpd, axis=1).sum(axis=0)
    return total / total.sum()


def model_probabilities(log_evidence: Array, prior: Array | None = None) -> Array:
    """Posterior probabilities of models: evidence times prior, normalised; NaN if any evidence is unknown."""
    log_prior = np.zeros(len(log_evidence)) if prior is None else np.log(prior)
    total = np.asarray(log_evidence, float) + log_prior
    return np.full(len(total), np.nan) if np.isnan(total).any() else np.asarray(softmax(total))


# --------------------------------------------------------------------------- one model's terms


@dataclass(frozen=True, slots=True)
class Loo:
    """Leave-one-out predictions of one model.

    Attributes
    ----------
    elpd : ndarray
        Leave-one-out log predictive density of each observation.
    p_loo : ndarray
        Contribution of each observation to the effective number of parameters.
    pareto_k : ndarray
        Shape of the tail of the importance ratios.
    refitted : tuple of int
        Observations whose ``elpd`` comes from a refit without them.
    bad : tuple of int
        Observations with a too high ``pareto_k`` and no refit.
    tried : bool
        Whether refits without these were tried.
    """

    elpd: Array
    p_loo: Array
    pareto_k: Array
    refitted: tuple[int, ...]
    bad: tuple[int, ...]
    tried: bool = False


def loo(fit: Fitted, *, refit: bool = True, progress: Progress | None = None) -> Loo:
    """Leave-one-out predictions of a fit's outcomes.

    Parameters
    ----------
    refit
        Whether to refit without each observation whose Pareto k is too high.

    Raises
    ------
    DataError
        The fit is a point estimate, or has no pointwise likelihood.
    """
    if fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"] < 25:
        raise DataError(
            f"leave-one-out needs draws of a posterior, and method {fit.method} left too few: compare the models by"
            " cross_validate",
            code="too-few",
        )
    cells, draws = _terms(fit)
    flat = draws.reshape(len(draws), -1)
    if not np.all(np.isfinite(flat)):
        raise DataError("the log likelihood of some observations is not finite at some draws", code="not-finite")
    elpd, p_loo, pareto_k = leave_one_out(flat, _relative_efficiency(fit, draws))
    above = np.flatnonzero(~(pareto_k <= good_k(flat.shape[1])))
    refitted = []
    together = elpd + p_loo
    for turn, i in enumerate(above if refit else ()):
        if progress is not None:
            progress.note(f"Pareto k {pareto_k[i]:.2f}: refit {turn + 1} of {len(above)}")
        value = held_out(fit, *cells[i])
        if value is not None:
            elpd[i], p_loo[i] = value, together[i] - value
            refitted.append(int(i))
    bad = tuple(int(i) for i in above if int(i) not in refitted)
    return Loo(elpd, p_loo, pareto_k, tuple(refitted), bad, tried=refit)


def observations(fit: Fitted) -> list[tuple[str, str]]:
    """The likelihood term and the label of each observation, in the order of :func:`loo`.

    The label is that of the row, or the labels of all dimensions of the term, with commas; without labels, it is the
    position, from 1.
    """
    group = fit.group("log_likelihood", log_likelihood).to_dataset()
    out = []
    for name, kept in _cells(fit, group):
        term = group[name].transpose("chain", "draw", ...)
        dims = [str(dim) for dim in term.dims[2:]]
        places = np.unravel_index(kept, term.shape[2:]) if dims else [np.zeros(len(kept), int)]
        words = [
            term.coords[dim].to_numpy().astype(str)[at] if dim in term.coords else (at + 1).astype(str)
            for dim, at in zip(dims or [""], places, strict=True)
        ]
        out += [(name, ", ".join(each)) for each in zip(*words, strict=True)]
    return out


def _terms(fit: Fitted) -> tuple[list[tuple[str, int]], Array]:
    """The observations (node and position in it), and their log likelihoods (observation, chain, draw)."""
    group = fit.group("log_likelihood", log_likelihood).to_dataset()
    cells, parts = [], []
    for name, kept in _cells(fit, group):
        values = group[name].transpose("chain", "draw", ...).to_numpy()
        flat = np.moveaxis(values.reshape(*values.shape[:2], -1), -1, 0)
        cells += [(name, int(i)) for i in kept]
        parts.append(flat[kept])
    return cells, np.ascontiguousarray(np.concatenate(parts), dtype=float)


def _cells(fit: Fitted, group: xr.Dataset) -> list[tuple[str, np.ndarray]]:
    """The likelihood terms, each with the positions of its observations."""
    # Some families have one likelihood term for all outcomes of a row.
    names = [n for n in _outcomes(fit) if n in group] or [str(n) for n in group.data_vars]
    if not names:
        raise DataError(f"no pointwise log likelihood of {listed(_outcomes(fit))}", code="not-applicable")
    out = []
    for name in names:
        n = math.prod(size for dim, size in group[name].sizes.items() if dim not in ("chain", "draw"))
        out.append((name, np.flatnonzero(~_conditioned(fit, name, n) & ~_missing(fit, name, n))))
    return out


def _conditioned(fit: Fitted, term: str, n_values: int) -> np.ndarray:
    """A mask of the values of a likelihood term that count for nothing: all its outcomes are conditioned on."""
    of = [term] if term in _outcomes(fit) else _outcomes(fit)
    return np.all([conditioned(name, fit.bound_model, n_values) for name in of], axis=0)


def _missing(fit: Fitted, term: str, n_values: int) -> np.ndarray:
    """A mask of the values of a likelihood term that belong to missing cells (likelihood 1)."""
    column = fit.data.dataset.columns.get(term)
    return (
        column.absent().ravel() if column is not None and column.values.size == n_values else np.zeros(n_values, bool)
    )


def _outcomes(fit: Fitted) -> tuple[str, ...]:
    return fit.bound_model.outcomes()


def _relative_efficiency(fit: Fitted, draws: Array) -> Array | float:
    """Effective sample size of each observation's likelihood over the number of draws; 1 for independent draws."""
    if fit.method == "exact" or draws.shape[2] < checks.MIN_DRAWS:
        return 1.0
    n_draws = draws.shape[1] * draws.shape[2]
    step = max(1, (1 << 20) // n_draws)
    out = []
    for start in range(0, len(draws), step):
        part = draws[start : start + step]
        with np.errstate(all="ignore"):
            out.append(convergence.ess(np.exp(part - part.max(axis=(1, 2), keepdims=True))) / n_draws)
    return np.asarray(np.nan_to_num(np.concatenate(out), nan=1.0))


# ------------------------------------------------------------------------------------- refits


def held_out(fit: Fitted, node: str, position: int) -> float | None:
    """Log predictive density of one observation from a fit without it; None if such a fit is not possible."""
    if (rows := fit.bound_model.rows_of_term(node, position)) is not None:
        return _predicted(fit, _without_row(fit, rows), node, position)
    if fit.method == "exact":
        row = _row_of(fit, node, position)
        return None if row is None else _held_out_exactly(fit, node, position, row)
    if fit.has_group("parent_sets"):
        return _held_out_of_structures(fit, node, position)
    if fit.method == "gibbs":
        return _held_out_by_gibbs(fit, node, position)
    if fit.bound_model.summing() is not None or fit.bound_model.elimination() is not None:
        # From a refit with the cell missing: the sum over states and discrete nodes then omits its factor.
        data = _without_cell(fit, node, position)
        return None if data is None else _predicted(fit, data, node, position)
    return _held_out_by_engine(fit, node, position)


def _row_of(fit: Fitted, node: str, position: int) -> int | None:
    """The row of the table that an observation belongs to, or None."""
    terms, rows = fit.data_tree["log_likelihood"][node], fit.data.dataset.rows
    if terms.dims[2:] != (rows,) or rows not in fit.data.labels:
        return None
    labels = np.asarray(fit.data.labels[rows])
    if rows in terms.coords:
        # Observations do not include rows with missing predictors.
        matches = np.flatnonzero(labels.astype(str) == str(terms.coords[rows].to_numpy()[position]))
        return int(matches[0]) if len(matches) == 1 else None
    return position if len(labels) == terms.sizes[rows] else None


def _held_out_exactly(fit: Fitted, node: str, position: int, row: int) -> float | None:
    """From an exact refit: the ratio of the evidence with and without the row, or the predictive density."""

    in_order = fit.bound_model.in_order() is not None
    data = _without_cell(fit, node, position) if in_order else _without_row(fit, row)
    plan = "" if data is None else fit.bound_model.on(data).exact_plan
    if isinstance(plan, str):
        return _held_out_by_engine(fit, node, position) if in_order else None
    rest = plan.solve()
    whole = log_evidence(fit)
    if math.isfinite(whole) and math.isfinite(rest.log_evidence):
        return whole - rest.log_evidence
    return _predicted(fit, data, node, position)


def _held_out_of_structures(fit: Fitted, node: str, position: int) -> float | None:
    """From structure sampling on the other rows: there is no PyMC graph to change."""
    row = _row_of(fit, node, position)
    try:
        return None if row is None else _predicted(fit, _without_row(fit, row), node, position)
    except DataError:
        return None  # a state that only this row has


def _held_out_by_gibbs(fit: Fitted, node: str, position: int) -> float | None:
    """From Gibbs sampling on the other rows: there is no PyMC graph to change."""

    row = _row_of(fit, node, position)
    if row is None:
        return None
    data = _without_row(fit, row)
    if not fit.has_group("partitions"):
        return _predicted(fit, data, node, position)
    # The refit's partitions must be of the remaining rows, so the row is bound as new data to them.
    rest = _run_again(fit, data)
    one_row = _settled(fit).take(np.array([row]))
    one = bind(fit.model, one_row, fit.model.factors(), fit.data.memory())
    one.origin = data
    by_node = rest.bound_model.on(one).log_likelihoods(posterior_values(rest))
    assert by_node is not None
    terms = by_node["row"][1]
    return _across(terms.ravel(), _at(fit, node, position))


def _without_row(fit: Fitted, row: int | np.ndarray) -> Any:
    """The fit's data without one or several rows; levels and values of reductions are kept."""

    whole = _settled(fit)
    n_rows = len(fit.data.labels[whole.rows])
    rest = whole.take(np.delete(np.arange(n_rows), row))
    data = bind(fit.model, rest, fit.model.factors(), fit.data.memory())
    # Data-scaled priors and centred predictors stay those of all rows, so that the model is the same.
    data.origin, data.part = fit.data, True
    return data


def _settled(fit: Fitted) -> Dataset:
    """The fit's data, in which computed columns that depend on the order of the rows are given ones."""
    return fit.data.settled(fit.bound_model.computed_in_order())


def _predicted(fit: Fitted, data: Any, node: str, position: int) -> float | None:

    rest = _run_again(fit, data)
    try:
        terms = log_likelihood(rest, fit.data)[node].to_numpy()
    except DataError:
        return None
    return _across(terms.reshape(*terms.shape[:2], -1)[..., position].ravel(), _at(fit, node, position))


def _without_cell(fit: Fitted, node: str, position: int) -> Data | None:
    """The fit's data with one cell of an outcome missing; None if the terms are not the cells of a column."""
    column, terms = fit.data.dataset.columns.get(node), fit.data_tree["log_likelihood"][node]
    if column is None or terms.dims[2:] != column.dims:
        return None
    rest = _settled(fit).emptied(node, position)
    data = bind(fit.model, rest, fit.model.factors(), fit.data.memory())
    data.origin, data.part = fit.data, True
    return data


def _held_out_by_engine(fit: Fitted, node: str, position: int) -> float | None:
    """Refit with the observation's term taken out of the density.

    Data and parameters are unchanged, so this is correct for time series and row effects too.
    """
    drawn = _with_power(fit, node, position) or _with_power_in_graph(fit, node, position)
    return None if drawn is None else _in_steps(drawn, (0.0, drawn(0.0)), (1.0, _at(fit, node, position)))


def _with_power(fit: Fitted, node: str, position: int) -> Callable[[float], Array] | None:
    """The observation's log likelihood at draws of the posterior with a power of it, by the density machine.

    None: the machine does not know the model, or the engine does not use it.
    """
    posterior, terms = fit.bound_model, fit.data_tree["log_likelihood"][node]
    if node in posterior.row_weights() or posterior.latent:
        return None

    def machine(share: float) -> MachineModel:
        weights = np.ones(terms.shape[2:])
        weights.flat[position] = share
        return posterior.machine_model({node: weights})

    try:
        cells = machine(0.0).observed_cells.get(node)
    except (NotLowered, BayeslabError):
        return None
    module, options = _engine_again(fit, changed=True)
    if cells is None or cells.shape != terms.shape[2:]:
        return None  # terms are not those of the cells of a column
    if not module.uses_graph or getattr(options, "backend", "pytensor") == "pytensor":
        return None

    def drawn(share: float) -> Array:
        rest = _run_again(fit, fit.data, machine=machine(share))
        values = log_likelihood(rest)[node].to_numpy()
        return np.asarray(values.reshape(values.shape[0] * values.shape[1], -1)[:, position], float)

    return drawn


def _with_power_in_graph(fit: Fitted, node: str, position: int) -> Callable[[float], Array] | None:
    """As :func:`_with_power`, by a PyMC graph; the compiled code of the first refit is used again."""
    import pymc as pm

    graph = pointwise_graph(fit.bound_model)
    observed = _observed_in(graph, node)
    if observed is None or any(rv.dtype.startswith("int") for rv in graph.free_RVs):
        return None  # engines do not sample discrete nodes, only sum them out
    outputs = graph.logp(vars=[observed], sum=False, jacobian=False)
    first = {name: values[:1] for name, values in value_draws(fit, graph).items()}
    known = np.ravel(fit.data_tree["log_likelihood"][node].to_numpy()[0, 0])
    if not np.allclose(np.ravel(expand(graph, first, outputs)[0][0]), known, rtol=1e-6, atol=1e-9):
        return None  # the graph's terms are not those of single observations (weights)

    def drawn(share: float) -> Array:
        graph = pointwise_graph(fit.bound_model)
        terms = graph.logp(vars=[_observed_in(graph, node)], sum=False, jacobian=False)[0].ravel()
        with graph:
            chosen = np.zeros(len(known))
            chosen[position] = 1.0 - share
            pm.Potential("left_out_", -(terms * chosen).sum())
        rest = _run_again(fit, fit.data, graph)
        plain = pointwise_graph(fit.bound_model)
        outputs = plain.logp(vars=[_observed_in(plain, node)], sum=False, jacobian=False)
        (values,) = expand(plain, value_draws(rest, plain), outputs)
        return np.asarray(values.reshape(len(values), -1)[:, position], float)

    return drawn


def _observed_in(graph: Any, node: str) -> Any:
    """The observed variable of a node in a graph; None if there is none."""
    return next((rv for rv in graph.observed_RVs if rv.name.removesuffix("_observed") == node), None)


def _in_steps(
    drawn: Callable[[float], Array], low: tuple[float, Array], high: tuple[float, Array], steps: int = 16
) -> float | None:
    """The log ratio of two posteriors' normalising constants, through others between them if they do not overlap.

    Parameters
    ----------
    drawn
        The observation's log likelihood at draws of the posterior with a power of it.
    low, high
        A power of the observation's likelihood, and its log likelihood at the draws.
    steps
        The largest number of steps between the two.
    """
    width = high[0] - low[0]
    direct = _across(width * low[1], width * high[1])
    if direct is not None or steps < 2:
        return direct
    # Near the posterior without an outlier the likelihood varies most: small powers come first.
    middle = low[0] + width / 4
    between = (middle, drawn(middle))
    lower = _in_steps(drawn, low, between, steps // 2)
    upper = None if lower is None else _in_steps(drawn, between, high, steps // 2)
    return None if lower is None or upper is None else lower + upper


def _engine_again(fit: Fitted, *, changed: bool) -> tuple[Engine, Any]:
    """The fit's engine and its options; NUTS for a changed density, if the fit is exact."""
    method = "nuts" if fit.method == "exact" and changed else fit.method  # the density is not a model's
    module = engine(method)
    return module, options_of(module.options, fit.info["options"] if method == fit.method else {}, method)


def _run_again(fit: Fitted, data: Any, graph: Any = None, machine: MachineModel | None = None) -> Fitted:
    """Run the fit's engine with its options on other data, or on a changed graph or program."""
    changed = graph is not None or machine is not None
    module, options = _engine_again(fit, changed=changed)
    posterior = fit.bound_model.on(data)
    if module.uses_graph and not changed:
        machine, _ = machine_of(posterior, options)
    outcome = module.run(Job(posterior, options, fit.seed, Progress(None), built=graph, machine=machine))
    return Fitted(posterior, outcome.groups, outcome.verdict, fit.info, None)


def _at(fit: Fitted, node: str, position: int) -> Array:
    """Log likelihoods of one observation at the fit's draws."""
    values = fit.data_tree["log_likelihood"][node].transpose("chain", "draw", ...).to_numpy()
    return np.asarray(values.reshape(values.shape[0] * values.shape[1], -1)[:, position], float)


# Largest standard error of a log density from bridge sampling; above it the two posteriors hardly overlap.
_WIDEST = 0.3


def _across(without: Array, included: Array) -> float | None:
    """:func:`bridge`, or None if the draws of the two posteriors overlap too little for it."""
    value = bridge(without, included)
    share = without.size / (without.size + included.size)
    # The two averages of Meng and Wong's bridge, equal at the solution, and their relative errors.
    below = 1.0 / (share * np.exp(np.minimum(value - without, 700.0)) + 1 - share)
    above = 1.0 / (share + (1 - share) * np.exp(np.minimum(included - value, 700.0)))
    means = np.array([below.mean(), above.mean()])
    if not np.all(means > 0) or abs(math.log(means[0] / means[1])) > 0.01:
        return None
    error = math.hypot(*(part.std() / (part.mean() * math.sqrt(part.size)) for part in (below, above)))
    return value if error <= _WIDEST else None


def bridge(without: Array, included: Array) -> float:
    """Log predictive density of an observation from draws of the posteriors without it and with it.

    It is the ratio of the two posteriors' normalising constants, estimated with the optimal bridge
    of Meng and Wong (1996, *Statistica Sinica* 6, 831-860, eq. 4.1). For an outlier, the plain mean
    over the draws without it would depend on the few draws near it.

    Parameters
    ----------
    without, included
        The observation's log likelihood at draws of the posterior without it, and with it.
    """
    log_s0, log_s1 = np.log([without.size, included.size]) - math.log(without.size + included.size)
    value = float(logsumexp(without) - math.log(without.size))
    for _ in range(1000):
        upper = logsumexp(without - np.logaddexp(log_s1 + without, log_s0 + value)) - math.log(without.size)
        lower = logsumexp(-np.logaddexp(log_s1 + included, log_s0 + value)) - math.log(included.size)
        before, value = value, float(upper - lower)
        if abs(value - before) < 1e-10:
            break
    return value


# -------------------------------------------------------------------------------- many models


def compare(
    fits: Mapping[str, Fitted],
    criterion: Criterion = "loo",
    *,
    refit: bool = True,
    prior: Mapping[str, float] | None = None,
    progress: bool = True,
) -> Comparison:
    """Compare models fitted to the same data.

    Parameters
    ----------
    fits
        The fits by name.
    criterion
        Criterion that orders the table and gives the weights for averaging: ``loo`` (leave-one-out
        predictive density, stacking weights), ``evidence`` (posterior model probabilities), ``bic``
        or ``aic``.
    refit
        Whether to refit without each observation whose importance sampling is not reliable (Pareto k
        above 0.7), with the fit's method and options.
    prior
        Prior probabilities of the models by name; default equal.
    progress
        Report progress.

    Returns
    -------
    Comparison

    Raises
    ------
    DataError
        The models have different data or row weights, or a value is censored in one model only; the message names the
        difference.
    """
    if not isinstance(fits, Mapping) or isinstance(
        fits, Fitted
    ):  # a fit passes as ArviZ's DataTree, which is a mapping
        raise OptionError("fits are given by name: bl.compare({'one': fit, 'other': fit})", code="wrong-type")
    fits = dict(fits)
    for name, fit in fits.items():
        if not isinstance(fit, Fitted):
            raise OptionError(
                f"'{name}' is a fit, as bl.fit or bl.open returns it, not {type(fit).__name__}; bl.cross_validate"
                " compares models and files",
                code="wrong-type",
            )
    if criterion not in _CRITERIA:
        raise OptionError(f"unknown criterion '{criterion}'{hint(criterion, _CRITERIA)}", code="unknown-word")
    if not fits:
        raise OptionError("nothing to compare: give fits by name, {'name': fit, ...}", code="incomplete")
    shares = _prior(prior, list(fits))
    for fit in fits.values():
        fit.data.refuse_folded("comparisons of models, by other than their log_evidence,")
    _same_data(fits)
    averaged = [name for name, fit in fits.items() if fit.has_group("parent_sets")]
    if averaged and criterion in ("bic", "aic"):
        raise DataError(
            f"the structures of '{averaged[0]}' differ in their number of parameters, so that it has no {criterion}:"
            f" compare by loo or evidence",
            code="not-applicable",
        )
    with reporter(progress) as view:
        loos = {name: _loo_or_none(fit, criterion, refit, view, name) for name, fit in fits.items()}
        best = {name: _maximum_or_none(fit) for name, fit in fits.items()}
    evidence = {name: log_evidence(fit) for name, fit in fits.items()}
    if len({frozenset(_observed(fit)) for fit in fits.values()}) > 1:
        # Densities of different sets of columns are not comparable.
        evidence = dict.fromkeys(evidence, math.nan)
    if criterion == "evidence" and any(math.isnan(value) for value in evidence.values()):
        lacking = next(name for name, value in evidence.items() if math.isnan(value))
        raise DataError(
            f"the evidence of '{lacking}' is not known: use method exact or smc and proper priors, or another"
            f" criterion",
            code="not-applicable",
        )
    seed = next(iter(fits.values())).seed
    return Comparison(fits, criterion, loos, best, evidence, shares, seed)


def _prior(prior: Mapping[str, float] | None, names: list[str]) -> Array:
    if prior is None:
        return np.full(len(names), 1 / len(names))
    values = _shares(prior, names, "prior")
    if np.any(values <= 0):
        raise OptionError("prior needs a positive probability for every model", code="out-of-range")
    return np.asarray(values / values.sum())


def _shares(given: Any, names: list[str], what: str) -> Array:
    """Numbers by the names of models, in the order of these; 0 for a model that is not named."""
    if not isinstance(given, Mapping):
        raise OptionError(f"{what} is a number for each model by name, not {given!r:.80}", code="wrong-type")
    for name, value in given.items():
        if name not in names:
            raise OptionError(
                f"{what} of a model that is not compared: '{name}'{hint(str(name), names)}", code="unknown-model"
            )
        number(value, f"{what} of '{name}'", 0)
    return np.array([float(given.get(name, 0.0)) for name in names])


def _loo_or_none(fit: Fitted, criterion: str, refit: bool, view: Progress, name: str) -> Loo | None:
    if fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"] < 25 and criterion != "loo":
        return None
    view.note(f"{name}: leave-one-out predictions")
    return loo(fit, refit=refit, progress=view)


def _maximum_or_none(fit: Fitted) -> MaximumLikelihood:
    cells, draws = _terms(fit)
    # A likelihood term for all outcomes of a row may involve several nodes.
    names = list(dict.fromkeys([*(name for name, _ in cells), *_outcomes(fit)]))
    return maximise(fit, names, draws.reshape(len(draws), -1).T)


def _observed(fit: Fitted) -> list[str]:
    return [str(n) for n in fit.data_tree["observed_data"].to_dataset().data_vars]


def _same_data(fits: Mapping[str, Fitted]) -> None:
    """Refuse fits with different outcome values."""
    (first, base), *others = fits.items()
    ours = _outcome_values(base)
    for name, fit in others:
        theirs = _outcome_values(fit)
        if ours.keys() != theirs.keys():
            raise DataError(
                f"'{first}' predicts {listed(ours)} and '{name}' predicts {listed(theirs)}; densities of different"
                f" outcomes (or of one on different scales) cannot be compared",
                code="different-data",
            )
        for outcome, values in ours.items():
            if values.shape != theirs[outcome].shape and _leaves_out(base, outcome) | _leaves_out(fit, outcome):
                _same_predicted(first, name, outcome, base, fit)
                continue
            words = [level_labels(each, outcome) for each in (base, fit)]
            _same_values(first, name, outcome, *_by_name(values, theirs[outcome], words))
            _same_rows(first, name, outcome, base, fit)
    for name, fit in others:
        pair = (first, base.bound_model), (name, fit.bound_model)
        same_weights(*pair)
        for outcome in ours:
            same_events(outcome, *((known, kinds(outcome, posterior)) for known, posterior in pair))


def _leaves_out(fit: Fitted, outcome: str) -> bool:
    """Whether the model conditions on some values of an outcome."""
    marks = kinds(outcome, fit.bound_model)
    return marks is not None and bool(np.any(marks == GIVEN))


def _same_predicted(first: str, second: str, outcome: str, base: Fitted, fit: Fitted) -> None:
    """Refuse fits to tables of different lengths, unless they predict the same values."""
    a, b = (_outcome_values(each)[outcome].ravel() for each in (base, fit))
    kept = [~conditioned(outcome, each.bound_model, len(v)) for each, v in ((base, a), (fit, b))]
    words = [level_labels(each, outcome) for each in (base, fit)]
    _same_values(first, second, outcome, *_by_name(a[kept[0]], b[kept[1]], words))


def _outcome_values(fit: Fitted) -> dict[str, np.ndarray]:
    group = fit.data_tree["observed_data"].to_dataset()
    return {name: group[name].to_numpy() for name in _outcomes(fit) if name in group}


def _by_name(a: np.ndarray, b: np.ndarray, labels: list[np.ndarray | None]) -> list[np.ndarray]:
    """Values of one outcome in two fits: as the names of levels if both have levels, whatever their order."""
    out = []
    for values, names in zip((a, b), labels, strict=True):
        there = ~np.isnan(values.astype(float))
        if names is None or not np.isin(values[there], np.arange(len(names))).all():
            return [a, b]
        shown = np.full(values.shape, np.nan, object)
        shown[there] = np.asarray(names).astype(str)[values[there].astype(np.int64)]
        out.append(shown)
    return out


def _same_values(first: str, second: str, outcome: str, a: np.ndarray, b: np.ndarray) -> None:
    if a.shape != b.shape:
        sizes = [" × ".join(map(str, x.shape)) for x in (a, b)]
        raise DataError(
            f"'{first}' is fitted to {sizes[0]} values of '{outcome}', '{second}' to {sizes[1]}", code="different-data"
        )
    differ = ~((a == b) | ((a != a) & (b != b)))
    if np.any(differ):
        at = tuple(int(i) for i in np.argwhere(differ)[0])
        row = ", ".join(str(i + 1) for i in at)
        raise DataError(
            f"'{first}' and '{second}' are fitted to different data: '{outcome}', row {row}, is {a[at]} in the one and"
            f" {b[at]} in the other",
            code="different-data",
        )


def _same_rows(first: str, second: str, outcome: str, base: Fitted, fit: Fitted) -> None:
    """Refuse fits that left out different rows, even if the remaining values are equal."""
    a, b = (one.data_tree["observed_data"].to_dataset()[outcome] for one in (base, fit))
    for dim in a.dims:
        if dim not in a.coords or dim not in b.coords or base.data.dataset.rows != fit.data.dataset.rows:
            continue
        ours, theirs = (one.coords[dim].to_numpy().astype(str) for one in (a, b))
        if not np.array_equal(ours, theirs):
            row = ours[np.argmax(ours != theirs)]
            raise DataError(
                f"'{first}' and '{second}' are fitted to different rows: '{outcome}' of {dim} '{row}' is in"
                f" '{first}' and not at its place in '{second}', where rows with missing cells were left out; give"
                f" both the rows that are complete",
                code="different-data",
            )


class Comparison:
    """Models of the same data, compared.

    Attributes
    ----------
    fits : dict of str to Fitted
    criterion : str
        Criterion that orders the table and averages the models.
    loos : dict of str to Loo or None
        Leave-one-out terms of each model.
    maxima : dict of str to MaximumLikelihood
    log_evidence : dict of str to float
        NaN where not known.
    """

    def __init__(
        self,
        fits: Mapping[str, Fitted],
        criterion: Criterion,
        loos: Mapping[str, Loo | None],
        maxima: Mapping[str, MaximumLikelihood],
        log_evidence: Mapping[str, float],
        prior: Array,
        seed: int,
    ) -> None:
        self.fits, self.criterion, self.loos, self.maxima = dict(fits), criterion, dict(loos), dict(maxima)
        self.log_evidence, self._prior_shares, self._seed = dict(log_evidence), prior, seed
        self.table = self._table()

    def _table(self) -> pd.DataFrame:
        """The comparison with one row per model, best first.

        Columns: ``elpd`` (sum of leave-one-out log densities), its ``se``, ``p_loo``, ``elpd_diff``
        to the best model and ``se_diff``, ``stacking`` and ``pseudo_bma`` weights, ``k_high`` (number
        of observations with a high Pareto k) and ``refits``; ``log_evidence``, ``log_bayes_factor``
        (against the best model), ``probability``; ``max_log_likelihood``, ``n_parameters``,
        ``aic``, ``bic``, ``bits``, ``aic_weight``, ``bic_weight``. Unknown values are NaN.
        """
        import pandas as pd

        names = list(self.fits)
        rows = {name: self._row(name) for name in names}
        table = pd.DataFrame.from_dict(rows, orient="index").loc[names]
        loos = [self.loos[name] for name in names]
        if all(entry is not None for entry in loos):
            elpd = np.column_stack([entry.elpd for entry in loos if entry is not None])
            best = elpd[:, int(np.argmax(elpd.sum(axis=0)))]
            gaps = elpd - best[:, None]
            table["elpd_diff"] = gaps.sum(axis=0)
            table["se_diff"] = np.sqrt(len(gaps) * gaps.var(axis=0, ddof=1)) if len(gaps) > 1 else np.nan
            table["stacking"] = stacking_weights(elpd)
            table["pseudo_bma"] = pseudo_bma_weights(elpd, stream(self._seed, "bootstrap"))
        evidence = table["log_evidence"].to_numpy()
        table["log_bayes_factor"] = evidence - np.max(evidence)
        table["probability"] = model_probabilities(evidence, self._prior_shares)
        for word in ("aic", "bic"):
            score = table[word].to_numpy()
            table[f"{word}_weight"] = np.nan if np.isnan(score).any() else softmax(-score / 2)
        column, best_first = {"loo": ("elpd", False), "evidence": ("log_evidence", False)}.get(
            self.criterion, (self.criterion, True)
        )
        ordered = table.sort_values(column, ascending=best_first, na_position="last", kind="stable")
        known = [c for c in _COLUMNS if c in ordered]
        return ordered[known].rename_axis("model")

    def _row(self, name: str) -> dict[str, Any]:
        entry, best = self.loos[name], self.maxima[name]
        row: dict[str, Any] = {
            "log_evidence": self.log_evidence[name],
            "max_log_likelihood": best.log_likelihood,
            "n_parameters": best.n_parameters,
            "aic": best.aic,
            "bic": best.bic,
            "bits": description_bits(best.bic),
        }
        if entry is not None:
            n = len(entry.elpd)
            row |= {
                "elpd": entry.elpd.sum(),
                "se": math.sqrt(n * entry.elpd.var(ddof=1)) if n > 1 else math.nan,
                "p_loo": entry.p_loo.sum(),
                "k_high": len(entry.refitted) + len(entry.bad),
                "refits": len(entry.refitted),
            }
        return row

    @property
    def verdict(self) -> Verdict:
        """The verdict on the differences: whether they are reliable."""
        findings = [self._k_finding(name, entry) for name, entry in self.loos.items() if entry is not None]
        findings += [
            Finding("fail", "fit", name, None, f"the fit of '{name}' has the verdict fail", "correct the fit first")
            for name, fit in self.fits.items()
            if fit.verdict.status == "fail"
        ]
        averaged = [name for name, fit in self.fits.items() if fit.has_group("parent_sets")]
        text = "many structures, which differ in their number of parameters: no maximum, AIC or BIC is told"
        findings += [Finding("pass", "parameters", name, None, f"{name}: {text}") for name in averaged]
        return Verdict((*findings, *self._difference_findings()))

    def _k_finding(self, name: str, entry: Loo) -> Finding:
        high = len(entry.refitted) + len(entry.bad)
        worst = float(np.max(entry.pareto_k))
        if entry.bad:
            text = (
                f"{name}: {len(entry.bad)} of {len(entry.elpd)} observations have a high Pareto k (up to {worst:.2f})"
            )
            remedy = (
                "the posteriors with and without them hardly overlap, or such a fit is not possible: judge the model"
                " with these observations left out of the data"
                if entry.tried
                else "compare with refit=True"
            )
            return Finding("warn", "Pareto k", name, worst, text, remedy)
        text = f"{name}: Pareto k at most {worst:.2f}"
        if high:
            text = f"{name}: fitted again without {high} observation{'s' * (high > 1)} of high Pareto k"
        if not high and worst == -np.inf:
            text = f"{name}: importance weights are all but equal"
        return Finding("pass", "Pareto k", name, worst, text)

    def _difference_findings(self) -> list[Finding]:
        if "elpd_diff" not in self.table or len(self.table) < 2:
            return []
        order = self.table.sort_values("elpd", ascending=False)
        second = order.iloc[1]
        first, name = order.index[0], order.index[1]
        gap, error = abs(float(second["elpd_diff"])), float(second["se_diff"])
        text = f"{first} before {name} by {gap:.1f}" + (f" ± {error:.1f}" if math.isfinite(error) else "")
        # For differences below four the normal approximation of the error is too optimistic ([3], section 2).
        if gap < 4:
            comment = "they predict about equally well"
        else:
            comment = "which is better is not certain" if gap < 2 * error else "a clear difference"
        return [Finding("pass", "difference", str(name), gap, f"{text}: {comment}")]

    def weights(self, kind: str | Mapping[str, float] | None = None) -> dict[str, float]:
        """Weights of the models.

        Parameters
        ----------
        kind
            ``stacking``, ``pseudo_bma``, ``probability``, ``bic_weight``, ``aic_weight``, or weights
            by name. None: the criterion's.
        """
        if isinstance(kind, Mapping):
            given = _shares(kind, list(self.fits), "weights")
            if not given.any():
                raise OptionError("weights need a positive number for one model at least", code="out-of-range")
            return {n: w for n, w in zip(self.fits, (given / given.sum()).tolist(), strict=True) if w}
        word = kind or _WEIGHTS[self.criterion]
        if word not in _WEIGHT_COLUMNS:
            raise OptionError(f"unknown weights '{word}'{hint(word, _WEIGHT_COLUMNS)}", code="unknown-word")
        if word not in self.table or self.table[word].isna().any():
            raise DataError(f"the weights '{word}' are not known for these models", code="not-applicable")
        return {str(name): float(w) for name, w in self.table[word].items()}

    def predict(
        self,
        data: Any = None,
        kind: Literal["mean", "draws", "probabilities"] = "mean",
        *,
        weights: str | Mapping[str, float] | None = None,
        ci_prob: float = 0.89,
        seed: int | None = None,
    ) -> Any:
        """Predictions averaged over the models: draws from the weighted mixture of their predictive distributions.

        Parameters
        ----------
        data, kind, ci_prob, seed
            As in :meth:`Fit.predict <bayeslab.results.fit.Fit.predict>`.
        weights
            As in :meth:`weights`.
        """

        if kind not in ("mean", "draws", "probabilities"):
            raise OptionError(f"kind is mean, draws or probabilities, not {kind!r}", code="unknown-word")
        number(ci_prob, "ci_prob", 0, 1, above=True, below=True)
        chosen = {name: w for name, w in self.weights(weights).items() if w > 0}
        rng = stream(self._seed if seed is None else seed, "mixture of models")
        drawn = {name: predict(self.fits[name], data, "draws", seed=seed) for name in chosen}
        first = self.fits[next(iter(chosen))]
        drawn = {name: _in_order_of(first, self.fits[name], draws) for name, draws in drawn.items()}
        mixed = _mixture(drawn, chosen, rng)
        if kind != "probabilities":
            mixed = in_labels(first.bound_model, mixed)
        return summarised(first, mixed, data, kind, ci_prob)

    def plot(self) -> Any:
        """Plot the models' elpd with standard errors; a matplotlib figure."""

        return elpd_plot(self.table)

    def __repr__(self) -> str:

        return f"{plain_table(self.table).to_string()}\n\n{self.verdict}"

    def _repr_html_(self) -> str:

        about = {"loo": "leave-one-out predictive density", "evidence": "evidence"}.get(
            self.criterion, self.criterion.upper()
        )
        return report_html(f"{len(self.fits)} models", f"ordered by {about}", self.verdict, self.table)


_COLUMNS = (
    "elpd",
    "se",
    "elpd_diff",
    "se_diff",
    "p_loo",
    "stacking",
    "pseudo_bma",
    "k_high",
    "refits",
    "log_evidence",
    "log_bayes_factor",
    "probability",
    "max_log_likelihood",
    "n_parameters",
    "aic",
    "bic",
    "bits",
    "aic_weight",
    "bic_weight",
)
_WEIGHT_COLUMNS = ("stacking", "pseudo_bma", "probability", "bic_weight", "aic_weight")


def _in_order_of(first: Fitted, fit: Fitted, drawn: Any) -> Any:
    """Draws with the names of rows, and the positions of the levels of outcomes, that they have in another fit."""
    ours, rows = first.data.dataset.rows, fit.data.dataset.rows
    if rows != ours and rows in drawn.dims and ours not in drawn.dims:
        drawn = drawn.rename({rows: ours})
    for name in map(str, drawn.data_vars):
        labels, theirs = level_labels(first, name), level_labels(fit, name)
        if labels is None or theirs is None or np.array_equal(labels, theirs):
            continue
        if not np.isin(drawn[name].to_numpy(), np.arange(len(theirs))).all():
            continue  # numbers, not positions of levels
        place = {str(label): k for k, label in enumerate(labels)}
        missing = [str(label) for label in theirs if str(label) not in place]
        if missing:
            raise DataError(
                f"'{name}' has levels in one model that another lacks: {listed(missing)}", code="other-kind"
            )
        places = np.array([place[str(label)] for label in theirs])
        drawn = drawn.assign({name: drawn[name].copy(data=places[drawn[name].to_numpy()])})
    return drawn


def _mixture(drawn: Mapping[str, Any], weights: Mapping[str, float], rng: np.random.Generator) -> Any:
    """One Dataset with draws of each model in proportion to its weight."""
    import xarray as xr

    flat = {
        n: d.stack(sample=("chain", "draw")).transpose("sample", ...).drop_vars(["sample", "chain", "draw"])
        for n, d in drawn.items()
    }
    total = max(d.sizes["sample"] for d in flat.values())
    shares = np.array([weights[name] for name in flat]) * total / sum(weights.values())
    # Largest remainders: integer numbers of draws that add up.
    counts = np.floor(shares).astype(int)
    counts[np.argsort(counts - shares)[: total - counts.sum()]] += 1
    parts = []
    for (_, draws), count in zip(flat.items(), counts, strict=True):
        size = draws.sizes["sample"]
        rounds = [rng.permutation(size) for _ in range(1 + int(count) // size)]
        chosen = np.concatenate(rounds)[:count]
        parts.append(draws.isel(sample=chosen))
    whole = xr.concat(parts, dim="sample", combine_attrs="drop")
    return whole.rename(sample="draw").expand_dims(chain=[0]).assign_coords(draw=np.arange(total))
