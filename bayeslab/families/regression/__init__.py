"""Family ``regression``: a formula, a likelihood, priors; linear, generalised, and with group effects.

A regression is a graph that need not be written out. The formula becomes a design matrix, and the
model becomes nodes of the family ``graph`` on it:

``Intercept``, ``b[predictor]``
    Coefficients on the scale of the data. With a default or flat prior the intercept is that of
    centred predictors, ``Intercept_centred``, and ``Intercept`` is computed from it.
``sigma``, ``nu``, ``alpha``, ``phi``, ``shape``, ``cutpoints``
    What the likelihood needs besides.
``u_g[g]``, ``sd_g`` (``u_g[g, g_effect]``, ``sd_g[g_effect]``, ``corr_g``)
    Group effects of a term ``(1 | g)`` (``(1 + x | g)``), their sds and correlations.

Names that begin with ``_`` are the model's inner workings (standard normals that effects are made
of); summaries leave them out.

Default priors are weakly informative and scaled to the data: with s the sd of the response (1 on a
link scale), the centred intercept is Normal(centre, 2.5 s), a slope Normal(0, 2.5 s / sd(x)) and sigma
Exponential(1 / s) as in rstanarm [1]_ [2]_, group sds HalfStudentT(3, 2.5 s) as in brms [3]_, nu
Gamma(2, 0.1) [4]_, and alpha, phi and shape InverseGamma(0.4, 0.3), as brms has it for alpha.

References
----------
.. [1] Gabry, Goodrich. Prior distributions for rstanarm models. mc-stan.org/rstanarm.
.. [2] Gelman, Jakulin, Pittau, Su (2008). A weakly informative default prior distribution for logistic
   and other regression models. Annals of Applied Statistics 2.
.. [3] Bürkner (2017). brms: an R package for Bayesian multilevel models using Stan. JSS 80.
.. [4] Juárez, Steel (2010). Model-based clustering of non-Gaussian panel data. JBES 28.
.. [5] Piironen, Vehtari (2017). Sparsity information and regularization in the horseshoe and other
   shrinkage priors. Electronic Journal of Statistics 11.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from bayeslab.data.dataset import Column, Data, Dataset, bind
from bayeslab.data.design import Design
from bayeslab.digits import FEW_STEPS, check_digits, check_size, constant, far, located, power_of_two, remedy, spread_of
from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.errors import DataError, ModelError, hint, listed
from bayeslab.families import DENSITY, LEFT, PROBABILITY, RIGHT
from bayeslab.families import graph as graphs
from bayeslab.families.regression import arrays
from bayeslab.families.regression.arrays import replications
from bayeslab.families.regression.exact_inference import plan
from bayeslab.families.regression.likelihoods import INVERSE_LINKS, likelihood
from bayeslab.families.regression.lowered import Lowered, Remark, _link
from bayeslab.families.regression.pymc_graph import with_rows_summed, with_weights
from bayeslab.families.regression.spec import Regression
from bayeslab.language.expressions import MOST_COUNTED, parse
from bayeslab.language.formula import Formula, parse_formula
from bayeslab.language.nodes import call_name
from bayeslab.language.spec import Model

if TYPE_CHECKING:
    import pymc

    from bayeslab.exact.answer import Plan

__all__ = ["Regression", "Spec", "check", "exact", "factors", "graph", "network", "outcomes", "priors", "summed_out"]

Spec = Regression


def _spec(model: Model) -> Regression:
    assert isinstance(model.model, Regression)
    return model.model


def _problem(message: str, *path: str, code: str) -> ModelError:
    return ModelError(message, path=("model", *path), code=code)


# --------------------------------------------------------------------------------- the contract


def check(model: Model, columns: set[str] | None) -> None:
    """Everything that can be found wrong without the data's values."""
    spec = _spec(model)
    formula = parse_formula(spec.formula)
    chosen = likelihood(spec.likelihood)
    if spec.link and spec.link not in chosen.links:
        raise _problem(
            f"{spec.likelihood} has the link {listed(chosen.links)}, not '{spec.link}'", "link", code="unknown-word"
        )
    if (formula.trials is not None) != chosen.counts_trials:
        raise _problem(
            "a binomial response is written p(successes, trials), and only a binomial one"
            f" (or BetaBinomial, ZeroInflatedBinomial), not {spec.likelihood}",
            "formula",
            code="conflict",
        )
    if spec.censored and (chosen.discrete or not chosen.response.tails):
        raise _problem(
            f"a {spec.likelihood} response cannot be censored; continuous ones can whose tails are known",
            "censored",
            code="unsupported",
        )
    for name, text in (spec.priors | spec.missing).items():
        place = "priors" if name in spec.priors else "missing"
        try:
            parse(str(text))
        except ModelError as error:
            raise ModelError(error.message, path=("model", place, name), offset=error.offset, code=error.code) from None
    if columns is None:
        return
    known = columns | set(model.data.derive)
    for name in sorted(formula.predictor_columns() | {name for name in (spec.weights, spec.censored) if name}):
        if name not in known:
            raise _problem(f"'{name}' is not a column of the data{hint(name, known)}", "formula", code="unknown-column")
    if formula.response in formula.predictor_columns():
        raise _problem(
            f"the response '{formula.response}' is among its own predictors", "formula", code="self-reference"
        )
    for name in spec.missing:
        if name not in formula.predictor_columns():
            raise _problem(f"'{name}' is no predictor of the formula", "missing", name, code="unknown-column")


def factors(model: Model) -> set[str]:
    """Grouping factors, and dimensions the model declares."""
    formula = parse_formula(_spec(model).formula)
    return {name for group in formula.groups for name in group.factors} | set(model.dims)


def outcomes(model: Model, columns: set[str]) -> tuple[str, ...]:
    """The response."""
    return (parse_formula(_spec(model).formula).outcome,)


def summed_out(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing: a regression has no discrete latents."""
    return ()


def derived(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing depends on discrete latents."""
    return ()


def network(model: Model, data: Data) -> nx.DiGraph:
    """The nodes of the graph the regression stands for."""
    lowered = lower(model, data)
    return graphs.network(lowered.model, lowered.data)


def bound(model: Model, data: Data) -> Data:
    """The data as the graph has them: complete rows, the response, the design matrix."""
    return lower(model, data).data


def graph(
    model: Model,
    data: Data,
    *,
    purpose: Literal["fit", "predict", "simulate"] = "fit",
    targets: Collection[str] = (),
) -> pymc.Model:
    """The regression as a PyMC graph.

    To fit a Gaussian regression, the rows enter through their sufficient statistics, in the
    potential ``<response>_rows``: the cost of a draw does not depend on their number.
    """
    lowered = lower(model, data)
    if purpose == "fit" and lowered.y is None:
        raise DataError(_lacking(lowered.formula, data), path=("model", "formula"), code="unknown-column")
    if purpose == "fit" and lowered.summable:
        return with_rows_summed(lowered)
    built = graphs.graph(lowered.model, lowered.data, purpose=purpose, targets=targets)
    return with_weights(lowered, built) if purpose == "fit" and lowered.weights is not None else built


def exact(model: Model, data: Data) -> Plan | str:
    """Gaussian regressions whose coefficients are normal given at most two scales."""
    return plan(lower(model, data))


def predictive(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]] | None:
    """Replications of the response at each draw, on arrays; None where only the graph can."""
    return replications(lower(model, data), draws, rng)


def probabilities(model: Model, seen: Data, new: Data, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Probability of each level for every new row, averaged over the posterior."""
    return arrays.probabilities(lower(model, new), draws)


def pointwise(model: Model, data: Data) -> pymc.Model:
    """The graph with a likelihood term for each row, weights left out."""
    lowered = lower(model, data)
    return graphs.graph(lowered.model, lowered.data)


def log_likelihoods(
    model: Model, data: Data, draws: Mapping[str, np.ndarray]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]] | None:
    """Log likelihood of each row at each draw, on arrays; None where only the graph can."""
    return arrays.log_likelihoods(lower(model, data), draws)


def events(model: Model, data: Data) -> dict[str, np.ndarray]:
    """What the likelihood of each response is: a density, a probability, or that of a tail where it is censored."""
    lowered = lower(model, data)
    if lowered.y is None:
        return {}
    out = np.full(len(lowered.y), PROBABILITY if lowered.likelihood.discrete else DENSITY)
    for atom in lowered.likelihood.declaration.atoms:
        out[lowered.y == float(atom)] = PROBABILITY
    if lowered.limits is not None:
        out[np.isfinite(lowered.limits[0])], out[np.isfinite(lowered.limits[1])] = LEFT, RIGHT
    return {lowered.formula.outcome: out}


def row_weights(model: Model, data: Data) -> dict[str, np.ndarray]:
    """What the log likelihood of each row is multiplied by, where the model says so."""
    lowered = lower(model, data)
    return {} if lowered.weights is None else {lowered.formula.outcome: lowered.weights}


def remarks(model: Model, data: Data) -> tuple[Remark, ...]:
    """What the user should know about the data: rows dropped, columns that add nothing, separation."""
    lowered = lower(model, data)
    if lowered.y is None:
        message = _lacking(lowered.formula, data)
        return (("response", lowered.formula.outcome, None, message, "only simulation does without"), *lowered.remarks)
    return lowered.remarks


def priors(model: Model, data: Data) -> dict[str, str]:
    """The prior of each parameter, with the numbers the data gave the defaults."""
    lowered = lower(model, data)
    out: dict[str, str] = {}
    for node, text in lowered.nodes.items():
        name = node.split("[")[0]
        if name.startswith("_chol_"):
            group = name.removeprefix("_chol_")
            out[f"sd_{group}, corr_{group}"] = text
        elif call_name(parse(text).tree) in {*DISTRIBUTIONS, "Ordered"} and not name.startswith("_"):
            out[node] = text
    slopes = {f"b[{name}]": text for name, text in zip(lowered.design.names, lowered.slopes, strict=True)}
    if lowered.spec.shrinkage == "horseshoe":
        slopes = {"b": "horseshoe of scale tau, slab InverseGamma(2, 8)"}
    own = {"b", lowered.formula.outcome}
    out = {node: text for node, text in out.items() if node.split("[")[0] not in own}
    first = {node: text for node, text in out.items() if node.startswith(("Intercept", "cutpoints"))}
    return first | slopes | out


# ---------------------------------------------------------------------------------- lowering


def size(model: Model, data: Data) -> int:
    """Numbers in one draw."""
    lowered = lower(model, data)
    return graphs.size(lowered.model, lowered.data)


def lower(model: Model, data: Data) -> Lowered:
    """Take a regression on its data apart; remembered on the data."""
    if "lowered" not in data.memo:
        data.memo["lowered"] = _lowered(model, data)
    out: Lowered = data.memo["lowered"]
    return out


@dataclass(frozen=True, slots=True)
class _Rows:
    """Everything that has a value for each complete row."""

    complete: np.ndarray
    y: np.ndarray | None
    levels: tuple[str, ...]
    trials: np.ndarray | None
    weights: np.ndarray | None
    limits: tuple[np.ndarray, np.ndarray] | None
    dropped: str
    total: int


def _lowered(model: Model, data: Data) -> Lowered:
    spec = _spec(model)
    formula = parse_formula(spec.formula)
    base = lower(model, data.origin) if data.origin is not None else None
    remarks: list[Remark] = []
    rows = _rows(spec, formula, data, base)
    values = _filled(spec.missing, data)
    if base is not None:
        design = base.design.on(formula, values, rows.complete)
        nodes, slopes, dims = base.nodes, list(base.slopes), dict(base.model.dims)
        centre, rest = base.centre, base.centre_rest
        own = base.data.dataset
        fixed = {n: c for n, c in own.columns.items() if c.dims is not None and own.rows not in c.dims}
    else:
        design = Design.of(
            formula, values, rows.complete, without_intercept=likelihood(spec.likelihood).levels == "ordered"
        )
        for name, column in zip(design.names, design.matrix.T, strict=True):
            check_size(column, f"the predictor '{name}'")
        for name, sizes in (("the offset", design.offset), (f"the weight '{spec.weights}'", rows.weights)):
            if sizes is not None:
                check_size(sizes, name)
        remarks = _remarks(spec, formula, design, rows)
        written = _Writer(spec, formula, design, rows, data.dataset.rows, _lacking(formula, data))
        nodes, slopes, centre, dims, fixed = (
            written.nodes,
            written.slopes,
            written.centre,
            written.dims,
            written.columns,
        )
        rest = None if centre is None else design.means[1]
    columns = fixed | _columns(spec, formula, data, design, rows, centre, rest)
    lowered_model = Model(
        name=model.name, about=model.about, data={"rows": data.dataset.rows}, dims=dims,
        model=graphs.Graph(nodes={**nodes}), seed=model.seed,
    )  # fmt: skip
    row_names = data.labels[data.dataset.rows][rows.complete] if data.dataset.rows in data.labels else None
    levels = (
        {}
        if row_names is None or np.array_equal(row_names, np.arange(len(row_names)))
        else {data.dataset.rows: row_names}
    )
    dataset = Dataset(columns, data.dataset.rows, levels)
    try:
        graphs.check(lowered_model, set(columns))
    except ModelError as error:
        raise _where_written(spec, nodes, error) from None
    lowered_data = bind(lowered_model, dataset, graphs.factors(lowered_model))
    return Lowered(
        spec, formula, lowered_model, lowered_data, design, centre, rest, rows.y, rows.levels, rows.trials,
        rows.weights, rows.limits, tuple(slopes), nodes, tuple(remarks),
    )  # fmt: skip


def _where_written(spec: Regression, nodes: Mapping[str, str], error: ModelError) -> ModelError:
    """An error in a node, at the prior of the file that became the node."""
    text = next((nodes[str(word)] for word in error.path if str(word) in nodes), None)
    for place, written in (("priors", spec.priors), ("missing", spec.missing)):
        for name, own in written.items():
            if str(own) == text:
                return ModelError(error.message, path=("model", place, name), offset=error.offset, code=error.code)
    return error


# -------------------------------------------------------------------------------------- rows


def _rows(spec: Regression, formula: Formula, data: Data, base: Lowered | None) -> _Rows:
    """Response and complete rows."""
    n = len(data.labels[data.dataset.rows]) if data.dataset.rows in data.labels else 0
    if not n:
        raise DataError(
            "a regression needs a table with at least one row; one row is lists of one value: {'x': [2.5]}",
            code="no-rows",
        )
    _present(formula, data, base)
    y, levels = _response(spec, formula, data, base)
    trials = (
        _trials(formula, data) if formula.trials and (formula.trials.isdigit() or data.has(formula.trials)) else None
    )
    weights = _numbers(data, spec.weights) if spec.weights and data.has(spec.weights) else None
    gone: dict[str, np.ndarray] = {}
    for name in sorted(formula.predictor_columns() - set(spec.missing)):
        term = data.term(name, missing=True)
        gone[name] = term.codes < 0 if term.codes is not None else np.isnan(np.asarray(term.value, float))
    for role, values in ((formula.response, y), (spec.weights, weights), (formula.trials, trials)):
        if values is not None and role is not None and base is None:
            gone[role] = np.isnan(values)
    absent = np.any([np.broadcast_to(g, n) for g in gone.values()], axis=0) if gone else np.zeros(n, bool)
    if base is not None and absent.any():
        name = next(name for name, g in gone.items() if np.any(g))
        raise DataError(
            f"column '{name}' of the new data has a missing cell (row {int(np.flatnonzero(gone[name])[0]) + 1})",
            code="missing",
        )
    complete = np.flatnonzero(~absent)
    if not len(complete):
        raise DataError("no row is complete: every row has a missing cell", code="no-rows")
    worst = ", ".join(f"{name} {int(np.sum(g))}" for name, g in gone.items() if np.any(g))
    dropped = f"{int(absent.sum())} of {n} rows have missing cells and were dropped ({worst})" if absent.any() else ""
    y = None if y is None else y[complete]
    weights = None if weights is None else weights[complete]
    trials = None if trials is None else trials[complete]
    if weights is not None and np.any(weights < 0):
        raise DataError(f"column '{spec.weights}' holds weights and has a negative one", code="out-of-range")
    if weights is not None and np.any(np.isinf(weights)):
        raise DataError(f"column '{spec.weights}' holds weights and has an infinite one", code="not-finite")
    if weights is not None and base is None and not np.any(weights):
        raise DataError(
            f"column '{spec.weights}' holds weights and all are zero: no row counts; give some a weight",
            code="nothing-observed",
        )
    if y is not None:
        y = _checked_response(spec, formula, y, trials)
        if base is None and likelihood(spec.likelihood).located and not constant(y):
            check_digits(formula.response, y)
    limits = None
    if spec.censored and data.has(spec.censored) and y is not None:
        limits = _limits(data, spec.censored, complete, y)
    elif base is not None and base.limits is not None:
        # New responses are predicted as they are, before anything cuts them off.
        limits = np.full(len(complete), -np.inf), np.full(len(complete), np.inf)
    return _Rows(complete, y, levels, trials, weights, limits, dropped, n)


def _lacking(formula: Formula, data: Data) -> str:
    """What is to be said where the data have no response."""
    return f"the data have no column '{formula.response}', the response{hint(formula.response, data.names())}"


def _present(formula: Formula, data: Data, base: Lowered | None) -> None:
    """That every predictor is a column, of the kind it had in the fit."""
    for name in sorted(formula.predictor_columns()):
        if not data.has(name):
            raise DataError(
                f"the data have no column '{name}', a predictor{hint(name, data.names())}", code="unknown-column"
            )
        if base is None or data.origin is None:
            continue
        now, then = (data.term(name, missing=True).codes is None, data.origin.term(name, missing=True).codes is None)
        if then and not now:
            raise DataError(f"column '{name}' holds text; in the data of the fit it holds numbers", code="other-kind")
        if now and not then:
            levels = listed(data.origin.labels[name])
            raise DataError(
                f"column '{name}' holds numbers; in the data of the fit it has the levels {levels}", code="other-kind"
            )


def _numbers(data: Data, name: str) -> np.ndarray:
    term = data.term(name, missing=True)
    if term.codes is not None and data.labels[name].dtype.kind == "U":
        raise DataError(f"column '{name}' holds text where numbers are needed", code="not-numbers")
    values = data.labels[name][term.codes] if term.codes is not None else np.asarray(term.value)
    return np.broadcast_to(values.astype(float), len(data.labels[data.dataset.rows]))


def _trials(formula: Formula, data: Data) -> np.ndarray:
    assert formula.trials is not None
    if formula.trials.isdigit():
        return np.full(len(data.labels[data.dataset.rows]), float(formula.trials))
    return _numbers(data, formula.trials)


def _response(
    spec: Regression, formula: Formula, data: Data, base: Lowered | None
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """The response as numbers, NaN where missing, and the levels its codes stand for."""
    if not all(data.has(name) for name in formula.response_columns() - {formula.trials}):
        return None, base.levels if base else ()
    chosen = likelihood(spec.likelihood)
    if not formula.column:
        columns = formula.response_columns() - {formula.trials}
        gone = np.any([np.isnan(_numbers(data, name)) for name in columns], axis=0)
        with np.errstate(all="ignore"):
            value = np.asarray(_filled(columns, data).evaluator.term(parse(formula.response)).value, float)
        value = np.broadcast_to(value, gone.shape)
        undefined = ~np.isfinite(value) & ~gone
        if np.any(undefined):
            row = int(np.flatnonzero(undefined)[0])
            cells = " and ".join(f"{name} is {_numbers(data, name)[row]:g}" for name in sorted(columns))
            raise DataError(
                f"the response '{formula.response}' is {value[row]:g} in row {row + 1}, where {cells}: no row is"
                " dropped for that; correct the cell, or leave the row out",
                code="not-finite",
            )
        return np.where(gone, np.nan, value), ()
    term = data.term(formula.response, missing=True)
    if term.codes is not None and (chosen.coded or data.labels[formula.response].dtype.kind == "U"):
        if not chosen.coded:
            raise DataError(
                f"the response '{formula.response}' is text; a {spec.likelihood} response is numbers",
                code="not-numbers",
            )
        if chosen.levels is None and len(data.labels[formula.response]) > 2:
            words = listed([str(x) for x in data.labels[formula.response]])
            raise DataError(
                f"the response '{formula.response}' has the levels {words}; a bernoulli response has two",
                code="impossible-value",
            )
        if chosen.levels == "ordered":
            data.check_order(formula.response, f"likelihood: {spec.likelihood}")
        return np.where(term.codes < 0, np.nan, term.codes), tuple(str(x) for x in data.labels[formula.response])
    values = _numbers(data, formula.response)
    if chosen.levels is None:
        return values, ()
    levels = base.levels if base else tuple(f"{x:g}" for x in np.unique(values[~np.isnan(values)]))
    numbers = np.array([float(level) for level in levels])
    codes = np.searchsorted(numbers, values).clip(0, len(numbers) - 1).astype(float)
    return np.where(np.isnan(values), np.nan, codes), levels


def _checked_response(spec: Regression, formula: Formula, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
    chosen = likelihood(spec.likelihood)
    bad = chosen.impossible(y, trials)
    if np.any(bad):
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"the response '{formula.response}' is {y[row]:g} in row {row + 1}; a {spec.likelihood} response is"
            f" {chosen.support}",
            code="impossible-value",
        )
    if not chosen.discrete:
        check_size(y, f"the response '{formula.response}'")
        return y
    if np.any(y > MOST_COUNTED) or (trials is not None and np.any(trials > MOST_COUNTED)):
        raise DataError(
            f"the response '{formula.response}' has counts beyond {MOST_COUNTED:,}, which floats do not hold",
            code="too-large",
        )
    return y.astype(np.int64)


def _limits(data: Data, name: str, complete: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds within which each response was seen; at a bound it is censored."""
    term = data.term(name, missing=True)
    words = {"none", "left", "right"}
    if term.codes is None or not set(map(str, data.labels[name])) <= words:
        raise DataError(
            f"column '{name}' says which rows are censored: its values are none, left and right", code="unknown-level"
        )
    status = np.array([str(x) for x in data.labels[name]])[np.asarray(term.codes)[complete]]
    return np.where(status == "left", y, -np.inf), np.where(status == "right", y, np.inf)


def _filled(names: Collection[str], data: Data) -> Data:
    """The data with the missing cells of some columns filled in, to be evaluated."""
    columns = dict(data.dataset.columns)
    names = [name for name in names if name in columns and columns[name].values.dtype.kind == "f"]
    if not names:
        return data
    for name in names:
        values = columns[name].values.astype(float)
        columns[name] = Column(np.where(np.isnan(values), np.nanmean(values), values), columns[name].dims)
    dataset = Dataset(columns, data.dataset.rows, data.dataset.levels)
    return Data(dataset, data.labels, data.derive, data.factors, data.frozen)


def _columns(
    spec: Regression,
    formula: Formula,
    data: Data,
    design: Design,
    rows: _Rows,
    centre: np.ndarray | None,
    centre_rest: np.ndarray | None,
) -> dict[str, Column]:
    """The columns of the lowered model that have a value for each row."""
    dim = data.dataset.rows
    out: dict[str, Column] = {}
    matrix = design.matrix
    if centre is not None and centre_rest is not None:
        own = design.names and centre is design.means[0]
        matrix = (design.about_means if own else design.about(centre, centre_rest))[:, 1:]
    matrix = matrix.copy() if spec.missing else matrix
    for name in spec.missing:
        ones, twos = (_with(data, name, value, formula, design, rows.complete) for value in (1.0, 2.0))
        zeros = _with(data, name, 0.0, formula, design, rows.complete)
        moved = np.any(ones != twos, axis=0)
        if np.any(zeros[:, moved] != 0) or not np.allclose(twos[:, moved], 2 * ones[:, moved]):
            raise _problem(
                f"'{name}' has a model of its own and must enter the formula linearly",
                "missing",
                name,
                code="unsupported",
            )
        rest = np.where(moved, ones, 0.0)
        matrix[:, moved] = 0.0 if centre is None else -centre[moved]
        out[f"{name}_slopes"] = Column(rest, (dim, "predictor"))
        out[name] = Column(data.dataset.columns[name].values.astype(float)[rows.complete], (dim,))
        for used in parse(spec.missing[name]).names:
            if data.has(used) and used not in out:
                out[used] = Column(np.asarray(data.term(used, role="read by a prior").value)[rows.complete], (dim,))
    if design.names:
        out["design"] = Column(matrix, (dim, "predictor"))
    if design.offset is not None:
        out["offset"] = Column(design.offset, (dim,))
    if rows.trials is not None:
        out["trials"] = Column(rows.trials.astype(np.int64), (dim,))
    if rows.limits is not None:
        out["lower"], out["upper"] = (Column(limit, (dim,)) for limit in rows.limits)
    for group in design.groups:
        out[group.name] = Column(group.labels[group.codes], (dim,))
        if group.effects != ["1"]:
            several = len(group.effects) > 1
            columns, dims = (group.columns, (dim, f"{group.name}_effect")) if several else (group.columns[:, 0], (dim,))
            out[f"design_{group.name}"] = Column(columns, dims)
    if rows.y is not None:
        out[formula.outcome] = Column(rows.y, (dim,))
    elif not out:
        out["rows"] = Column(np.zeros(len(rows.complete)), (dim,))
    if likelihood(spec.likelihood).levels == "categorical":
        contrasts = np.eye(len(rows.levels))[1:]
        out["contrasts"] = Column(contrasts, ("response_contrast", "response_level"))
    return out


def _with(data: Data, name: str, value: float, formula: Formula, design: Design, complete: np.ndarray) -> np.ndarray:
    """The design matrix with one predictor set to a number."""
    columns = dict(data.dataset.columns)
    columns[name] = Column(np.full(len(columns[name].values), value), columns[name].dims)
    for other, column in columns.items():
        if column.values.dtype.kind == "f":
            columns[other] = Column(np.nan_to_num(column.values), column.dims)
    changed = Data(
        Dataset(columns, data.dataset.rows, data.dataset.levels), data.labels, data.derive, data.factors, data.frozen
    )
    return design.on(formula, changed, complete).matrix


def _remarks(spec: Regression, formula: Formula, design: Design, rows: _Rows) -> list[Remark]:
    out: list[Remark] = []
    if rows.dropped:
        share = 1 - design.n / rows.total
        advice = "give the predictor a model of its own in `missing:` to keep the rows, or accept that they are lost"
        out.append(("missing", "rows", share, rows.dropped, advice))
    if design.names:
        out += _rank_remarks(design)
    chosen = likelihood(spec.likelihood)
    varies = rows.y is not None and not constant(rows.y)
    if rows.y is not None and varies and chosen.located and (said := far(formula.response, rows.y)):
        out.append(("digits", formula.outcome, None, said, remedy(rows.y)))
    size = len(design.names) + design.intercept
    if size > design.n:
        message = f"more coefficients ({size}) than rows ({design.n}): in some directions the answer is the prior"
        out.append(("size", "b", float(size), message, "use shrinkage: horseshoe or ridge, or fewer predictors"))
    if rows.y is not None and len(rows.y) and np.all(rows.y == rows.y[0]) and not chosen.counts_trials:
        message = f"the response is constant ({rows.y[0]:g})"
        out.append(
            ("response", formula.outcome, float(rows.y[0]), message, "check the column; nothing can be learnt from it")
        )
    if rows.y is not None and chosen.distribution == "Bernoulli" and design.names and _separated(design, rows.y):
        message = (
            "the predictors separate the response perfectly: the likelihood has no maximum, and how large the"
            " coefficients are is decided by their priors"
        )
        out.append(("separation", "b", None, message, "report the prior with the result, or drop the predictor"))
    return out


def _rank_remarks(design: Design) -> list[Remark]:
    """Constant columns, and columns that are combinations of others."""
    matrix = design.about_means[:, 1:] if design.intercept else design.matrix
    low, high = design.matrix.min(axis=0), design.matrix.max(axis=0)
    largest = np.maximum(np.abs(low), np.abs(high))
    moving = high - low > 8 * np.finfo(float).eps * largest
    moving = moving if design.intercept else (largest > 0)
    # Numbers of any size: powers of two bring them near one, so that their squares are in range.
    unit = power_of_two(np.maximum(high - low, 1e-300) if design.intercept else largest)
    extreme = np.any((unit > 1e100) | (unit < 1e-100))
    matrix = matrix / unit if extreme else matrix
    gram = matrix.T @ matrix
    sizes = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    out: list[Remark] = []
    if not moving.all():
        names = [name for name, moves in zip(design.names, moving, strict=True) if not moves]
        message = f"{listed(names)} is constant in the data: its coefficient is known from its prior only"
        out.append(("constant", f"b[{names[0]}]", None, message, "drop it from the formula"))
    out += _few_digits(design, moving, sizes * (unit if extreme else 1.0) / np.sqrt(design.n), largest)
    if moving.any():
        values = np.linalg.eigvalsh(gram[np.ix_(moving, moving)] / np.outer(sizes[moving], sizes[moving]))
        lost = int(np.sum(values < 1e-10 * values[-1]))
        if lost and moving.sum() <= design.n:
            message = (
                f"the predictors are collinear: {lost} combination{'s' * (lost > 1)} of their columns "
                f"{'are' if lost > 1 else 'is'} not in the data, and known from the prior only"
            )
            out.append(
                ("collinear", "b", float(values[0]), message, "drop a predictor, or look at predictions, not at b")
            )
    return out


def _few_digits(design: Design, moving: np.ndarray, spread: np.ndarray, largest: np.ndarray) -> list[Remark]:
    """Columns so far from zero that few digits of what varies are left."""
    out: list[Remark] = []
    with np.errstate(divide="ignore", invalid="ignore"):
        few = design.intercept & moving & (spread / largest < FEW_STEPS * np.finfo(float).eps)
    for k in np.flatnonzero(few):
        name, values = design.names[k], design.matrix[:, k]
        check_digits(name, values)
        if said := far(name, values):
            out.append(("digits", f"b[{name}]", None, said, remedy(values)))
    return out


def _separated(design: Design, y: np.ndarray) -> bool:
    """Whether a hyperplane has all ones on one side and all zeros on the other (Albert and Anderson 1984)."""
    from scipy.optimize import linprog

    x = np.column_stack([np.ones(design.n), design.matrix]) if design.intercept else design.matrix
    scale = np.abs(x).max(axis=0)
    signed = (x / np.where(scale > 0, scale, 1)) * np.where(y > 0, 1.0, -1.0)[:, None]
    found = linprog(-signed.sum(axis=0), A_ub=-signed, b_ub=np.zeros(len(y)), bounds=(-1, 1), method="highs")
    return bool(found.status == 0 and -found.fun > 1e-6 * len(y))


# ------------------------------------------------------------------------------- the model's words


class _Writer:
    """The nodes of a regression, with the data columns its priors need."""

    def __init__(
        self, spec: Regression, formula: Formula, design: Design, rows: _Rows, dim: str, without_response: str
    ) -> None:
        self.spec, self.formula, self.design, self.rows, self.dim = spec, formula, design, rows, dim
        self.without_response = without_response
        self.likelihood, self.link = likelihood(spec.likelihood), _link(spec)
        self.nodes: dict[str, str] = {}
        self.columns: dict[str, Column] = {}
        self.dims: dict[str, Any] = {}
        self.priors = {name: str(text) for name, text in spec.priors.items()}
        self._fix()
        self.centre: np.ndarray | None = None
        self.slopes: list[str] = []
        self._check_names()
        self.sd = self._response_sd()
        self._auxiliary()
        self._check_scale()
        self._hyper()
        eta = " + ".join([*self._intercept(), *self._slopes(), *self._groups(), *self._rest()]) or "0"
        self._outcome(eta)

    def _fix(self) -> None:
        """Take the parameters that the likelihood is given as numbers for priors that are numbers."""
        for name, number in self.likelihood.fixed.items():
            twice = {name, "sigma2", "precision"} if name == "sigma" else {name}
            for word in sorted(twice & self.priors.keys()):
                raise _problem(
                    f"'{name}' is {number:g} in the likelihood, and has a prior besides: leave out one",
                    "priors",
                    word,
                    code="conflict",
                )
            self.priors[name] = repr(number)

    def _check_names(self) -> None:
        """Every prior is of something: a parameter, a column, or a name another prior uses."""
        groups = {f"{word}_{group.name}" for group in self.design.groups for word in ("sd", "corr")}
        used = {name for text in (*self.priors.values(), *self.spec.missing.values()) for name in parse(text).names}
        columns = {*self.design.names, *self.design.terms}
        parameters = {"Intercept", "b", *self.likelihood.auxiliary, *groups}
        parameters |= {"sigma2", "precision"} if "sigma" in self.likelihood.auxiliary else set()
        parameters |= {"cutpoints"} if self.likelihood.levels == "ordered" else set()
        parameters |= {"tau"} if self.spec.shrinkage else set()
        parameters |= {"sd"} if groups else set()
        own = parameters | columns
        self.hyper = [name for name in self.priors if name in used - own]
        for name in self.priors:
            if name not in own and name not in self.hyper:
                raise _problem(
                    f"'{name}' is no parameter of this regression{hint(name, own)}",
                    "priors",
                    name,
                    code="unknown-parameter",
                )
            value = self.priors[name]
            if name in own - {"Intercept", "b"} - columns:
                self._check_number(name, value)
        for name in sorted(self.priors.keys() & parameters & columns):
            if name != "Intercept" or self.design.intercept:
                raise _problem(
                    f"'{name}' is a predictor and a parameter of this regression: rename the column under data.rename",
                    "priors",
                    name,
                    code="name-clash",
                )
        self._check_given(self._parts())

    def _check_number(self, name: str, text: str) -> None:
        """Refuse a number at which a parameter cannot be fixed."""
        try:
            value = float(text)
        except ValueError:
            return
        if name in self.likelihood.auxiliary:
            problem = self.likelihood.refused(name, value)
        else:
            problem = "" if value > 0 else f"'{name}' is positive; it cannot be fixed at {value:g}"
        if problem:
            raise _problem(problem, "priors", name, code="out-of-range")

    def _parts(self) -> set[str]:
        """Names that the model gives to its own nodes, columns and dimensions."""
        out = {"Intercept", "Intercept_centred", "b", "predictor", "design", "design_mean"}
        out |= {"b_location", "b_scale", "b_unit", *self.likelihood.auxiliary}
        out |= {"sigma2", "precision"} & self.priors.keys()
        out |= {"trials"} if self.rows.trials is not None else set()
        out |= {"lower", "upper"} if self.rows.limits is not None else set()
        out |= {"offset"} if self.design.offset is not None else set()
        out |= {"tau", "unit"} if self.spec.shrinkage else set()
        out |= {"cutpoint", "cutpoints"} if self.likelihood.levels == "ordered" else set()
        if self.likelihood.levels == "categorical":
            out |= {"contrasts", "response_level", "response_contrast"}
        out |= {f"{name}_slopes" for name in self.spec.missing}
        for group in self.design.groups:
            out |= {f"{word}_{group.name}" for word in ("u", "sd", "corr", "scale", "design")}
            out |= {f"{group.name}_effect{end}" for end in ("", "_2", "_with")}
        return out

    def _check_given(self, parts: set[str]) -> None:
        """No name that the formula or the priors bring is that of a part of the model, which it would replace."""
        fixed = {"design", "b", "sigma", "offset", "trials", "lower", "upper", "contrasts", "Intercept", "predictor"}
        if self.formula.outcome in fixed | parts or _NUMBERED.fullmatch(self.formula.outcome):
            raise _problem(
                f"the response is called '{self.formula.outcome}', like a part of the model; rename it",
                "formula",
                code="name-clash",
            )
        named = [("a grouping factor", "formula", group.name) for group in self.design.groups]
        named += [("a predictor with a model of its own", "missing", name) for name in self.spec.missing]
        named += [("a parameter of a prior", "priors", name) for name in self.hyper]
        for role, place, name in named:
            if name in parts or _NUMBERED.fullmatch(name):
                raise _problem(
                    f"{role} is called '{name}', like a part of the model; rename it", place, code="name-clash"
                )

    def _check_scale(self) -> None:
        """Refuse a constant response where a default prior takes its scale from how the response varies."""
        y = self.rows.y
        if y is None or not constant(y):
            return
        lacking: list[str] = []
        if self._in_unit():
            lacking += ["Intercept"] if self.design.intercept and "Intercept" not in self.priors else []
            lacking += ["b"] if any(self._own(k) is None for k in range(len(self.design.names))) else []
        written = {*self.priors, *(["sigma"] if {"sigma2", "precision"} & self.priors.keys() else [])}
        lacking += [name for name, text in self.likelihood.auxiliary.items() if _scaled(text) and name not in written]
        groups = [f"sd_{group.name}" for group in self.design.groups if self._in_unit()]
        lacking += [name for name in groups if name not in written and "sd" not in written]
        if lacking:
            raise DataError(
                f"the response '{self.formula.response}' is constant ({y[0]:g}), and the default priors of"
                f" {listed(lacking)} are scaled to how it varies: write these priors, or give a response that varies",
                code="constant",
            )

    @property
    def _dims_of_categories(self) -> str:
        return ", response_contrast" if self.likelihood.levels == "categorical" else ""

    def _in_unit(self) -> bool:
        """Whether the linear predictor is in a unit of the response, or would be under another link."""
        return self.likelihood.located or (
            self.link == "identity" and self.likelihood.response.working in ("log", "logit")
        )

    def _response_sd(self) -> float:
        """The scale of the linear predictor."""
        if not self._in_unit() or self.link != "identity":
            return 1.0
        if self.rows.y is None:
            wanted = set(self.likelihood.auxiliary) | {"b"} | ({"Intercept"} if self.design.intercept else set())
            lacking = wanted - self.priors.keys()
            if lacking:
                raise DataError(
                    f"{self.without_response}: the default priors of {listed(sorted(lacking))} are scaled to it; give"
                    f" the data, or write these priors",
                    path=("model", "formula"),
                    code="no-data",
                )
            return 1.0
        return spread_of(self.likelihood.working(self.rows.y))

    def _noise_sd(self) -> float:
        """The scale of the default priors of what is in the unit of the response, whatever the link."""
        scaled = [name for name, text in self.likelihood.auxiliary.items() if _scaled(text)]
        if not scaled:
            return self.sd
        if self.rows.y is not None:
            return spread_of(self.likelihood.working(self.rows.y))
        written = {*self.priors, *(["sigma"] if {"sigma2", "precision"} & self.priors.keys() else [])}
        if lacking := [name for name in scaled if name not in written]:
            raise DataError(
                f"{self.without_response}: the default priors of {listed(lacking)} are scaled to it; give the data, or"
                " write these priors",
                code="no-data",
            )
        return 1.0

    def _auxiliary(self) -> None:
        spread = self._noise_sd()
        scales = {"rate": _number(1 / spread), "sd": _number(spread)}
        for name, default in self.likelihood.auxiliary.items():
            if name == "sigma" and self.priors.keys() & {"sigma2", "precision"} and (fixed := self._fixed_sigma()):
                self.nodes[name] = fixed
            elif name == "sigma" and "sigma2" in self.priors:
                self.nodes |= {"sigma2": self.priors["sigma2"], "sigma": "sqrt(sigma2)"}
            elif name == "sigma" and "precision" in self.priors:
                self.nodes |= {"precision": self.priors["precision"], "sigma": "1 / sqrt(precision)"}
            else:
                self.nodes[name] = self.priors.get(name, default.format(**scales))

    def _fixed_sigma(self) -> str | None:
        """The standard deviation that a number for ``sigma2`` or ``precision`` means."""
        for name, power in (("sigma2", 0.5), ("precision", -0.5)):
            with contextlib.suppress(ValueError):
                if name in self.priors and (number := float(self.priors[name])) > 0:
                    self.nodes[name] = self.priors[name]
                    return repr(number**power)
        return None

    def _hyper(self) -> None:
        for name in self.hyper:
            self.nodes[name] = self.priors[name]

    def _intercept(self) -> list[str]:
        if self.likelihood.levels == "ordered":
            count = len(self.rows.levels)
            if count < 2:
                raise DataError(
                    f"an ordered response has at least two levels; '{self.formula.response}' has {count}",
                    code="too-few",
                )
            self.dims["cutpoint"] = [
                f"{a}|{b}" for a, b in zip(self.rows.levels[:-1], self.rows.levels[1:], strict=True)
            ]
            self.nodes["cutpoints[cutpoint]"] = self.priors.get("cutpoints", "Ordered(Normal(0, 2.5))")
            return []
        if self.likelihood.levels == "categorical":
            if len(self.rows.levels) < 2:
                raise DataError(
                    f"a categorical response has at least two levels; given: {listed(self.rows.levels)}", code="too-few"
                )
            self.dims |= {"response_level": list(self.rows.levels), "response_contrast": list(self.rows.levels[1:])}
        if not self.design.intercept:
            return []
        shape = f"[{self._dims_of_categories.removeprefix(', ')}]" if self._dims_of_categories else ""
        own = self.priors.get("Intercept")
        if not self.design.names or (own is not None and not own.replace(" ", "").startswith("Flat(")):
            self.nodes[f"Intercept{shape}"] = own or self._about_middle()
            return ["Intercept"]
        self.centre = self.design.means[0]
        self.columns["design_mean"] = Column(self.centre, ("predictor",))
        self.nodes[f"Intercept_centred{shape}"] = own or self._about_middle()
        self.nodes[f"Intercept{shape}"] = "Intercept_centred - dot(design_mean, b)"
        return ["Intercept_centred"]

    def _about_middle(self) -> str:
        """The default prior of the intercept; its centre is rounded against its width, wherever that is."""
        return f"Normal({located(self._middle(), self.sd)}, {_number(2.5 * self.sd)})"

    def _middle(self) -> float:
        """The linear predictor of the mean response."""
        if self.rows.y is None or not self.likelihood.response.working:
            return 0.0
        y = self.likelihood.working(self.rows.y)
        match self.link:
            case "identity" if self.likelihood.response.working == "angle":
                return float(np.arctan2(np.sin(y).mean(), np.cos(y).mean()))
            case "identity":
                return float(np.mean(y))
            case "log":
                return float(np.log(max(float(np.mean(y)), 0.5 / len(y))))
            case _:
                return 0.0

    def _slopes(self) -> list[str]:
        names = self.design.names
        if not names:
            return []
        self.dims["predictor"] = list(names)
        spread = np.array([spread_of(column) for column in self.design.matrix.T])
        own = [self._own(k) for k in range(len(names))]
        if self.spec.shrinkage:
            self._shrunk(own, spread)
        self.slopes = [text or f"Normal(0, {_number(2.5 * self.sd / s)})" for text, s in zip(own, spread, strict=True)]
        if self.spec.shrinkage != "horseshoe":
            self._written()
        return ["design @ b"]

    def _own(self, k: int) -> str | None:
        """The prior written for a column: its own, its term's, that of all slopes."""
        name = self.design.names[k]
        term = next((t for t, (start, stop) in self.design.terms.items() if start <= k < stop), name)
        return self.priors.get(name) or self.priors.get(term) or self.priors.get("b")

    def _shrunk(self, own: list[str | None], spread: np.ndarray) -> None:
        if self.spec.shrinkage == "horseshoe":
            if any(own):
                raise _problem(
                    "the horseshoe is a prior of all slopes; leave out their own priors", "priors", code="conflict"
                )
            self._horseshoe(spread)
            return
        if all(own):
            name = self.spec.shrinkage
            raise _problem(
                f"every slope has a prior of its own, so that shrinkage: {name} shrinks none: leave out shrinkage, or"
                f" {'priors.b' if 'b' in self.priors else 'the priors of some slopes'}",
                "shrinkage",
                code="conflict",
            )
        self.nodes["tau"] = self.priors.get("tau", "HalfCauchy(1)")
        kind = "Normal" if self.spec.shrinkage == "ridge" else "Laplace"
        for k, text in enumerate(own):
            own[k] = text or f"{kind}(0, tau * {_number(self.sd / spread[k])})"

    def _horseshoe(self, spread: np.ndarray) -> None:
        """The regularised horseshoe [5]_, a third of the slopes (at most ten) expected to matter."""
        p, n = len(spread), self.design.n
        expected = max(1.0, min(10.0, p / 3))
        noise = "sigma" if "sigma" in self.likelihood.auxiliary and self.link == "identity" else "2"
        share = expected / max(p - expected, 1.0) / np.sqrt(n) / self.sd
        unit = self.sd / spread
        self.columns["unit"] = Column(unit, ("predictor",))
        self.nodes |= {
            "tau": self.priors.get("tau", f"HalfCauchy({_number(share)} * {noise})"),
            "_slab": "InverseGamma(2, 8)",
            f"_local[predictor{self._dims_of_categories}]": "HalfCauchy(1)",
            f"_raw[predictor{self._dims_of_categories}]": "Normal(0, 1)",
            f"b[predictor{self._dims_of_categories}]": (
                "unit * _raw * tau * _local * sqrt(_slab / (_slab + tau ** 2 * _local ** 2))"
            ),
        }

    def _written(self) -> None:
        """The slopes as one vector, or as one vector for each kind of prior, put together."""
        kinds: dict[str, list[int]] = {}
        for k, text in enumerate(self.slopes):
            kinds.setdefault(_kind(text), []).append(k)
        tail = self._dims_of_categories
        for number, (kind, columns) in enumerate(kinds.items(), 1):
            alone = len(kinds) == 1
            name, dim = ("b", "predictor") if alone else (f"_b_{number}", f"predictor_{number}")
            end = "" if alone else f"_{number}"
            if kind == "Normal":
                numbers = np.array([_plain_normal(self.slopes[k]) for k in columns])
                self.columns[f"b_location{end}"] = Column(numbers[:, 0], (dim,))
                self.columns[f"b_scale{end}"] = Column(numbers[:, 1], (dim,))
                kind = f"Normal(b_location{end}, b_scale{end})"
            elif kind.endswith("* unit)"):
                numbers = np.array([float(_SHRUNK.match(self.slopes[k])[2]) for k in columns])  # type: ignore[index]
                self.columns[f"b_unit{end}"] = Column(numbers, (dim,))
                kind = kind.replace("unit", f"b_unit{end}")
            self.nodes[f"{name}[{dim}{tail}]"] = kind
            if not alone:
                self.dims[dim] = [self.design.names[k] for k in columns]
                self.columns[f"pick_{number}"] = Column(np.eye(len(self.slopes))[:, columns], ("predictor", dim))
        if len(kinds) > 1:
            parts = [f"pick_{number} @ _b_{number}" for number in range(1, len(kinds) + 1)]
            self.nodes[f"b[predictor{tail}]"] = " + ".join(parts)

    def _groups(self) -> list[str]:
        out = []
        for group in self.design.groups:
            name, effect = group.name, f"{group.name}_effect"
            if self.likelihood.levels == "categorical":
                raise _problem(
                    "group effects in a categorical regression are not there; write the model as a graph",
                    "formula",
                    code="unsupported",
                )
            self.dims[name] = [x.item() if hasattr(x, "item") else x for x in group.labels]
            scale = [
                _number(2.5 * self.sd / (1 if e == "1" else spread_of(c)))
                for e, c in zip(group.effects, group.columns.T, strict=True)
            ]
            own = self.priors.get(f"sd_{name}", self.priors.get("sd"))
            if len(group.effects) == 1:
                self.nodes[f"sd_{name}"] = own or f"HalfStudentT(3, {scale[0]})"
                self.nodes[f"_raw_{name}[{name}]"] = "Normal(0, 1)"
                self.nodes[f"u_{name}[{name}]"] = f"sd_{name} * _raw_{name}"
                out.append(f"u_{name}[{name}]" + ("" if group.effects == ["1"] else f" * design_{name}"))
                continue
            self.dims[effect] = list(group.effects)
            if group.correlated:
                twin = f"{effect}_2"
                self.dims[twin] = effect
                eta = self.priors.get(f"corr_{name}", "2")
                sds = own or f"HalfStudentT(3, [{', '.join(scale)}])"
                self.dims[f"{effect}_with"] = effect
                rows = f"_chol_{name} / sd_{name}"
                self.nodes |= {
                    f"_chol_{name}[{effect}, {twin}]": f"LKJCholeskyCov(eta={eta}, sd_dist={sds})",
                    f"_raw_{name}[{name}, {twin}]": "Normal(0, 1)",
                    f"u_{name}[{name}, {effect}]": f"dot(_raw_{name}, _chol_{name}, {twin})",
                    f"sd_{name}[{effect}]": f"sqrt(sum(_chol_{name} ** 2, {twin}))",
                    f"corr_{name}[{effect}, {effect}_with]": (
                        f"dot({rows}, rename({rows}, {effect}, {effect}_with), {twin})"
                    ),
                }
            else:
                self.columns[f"scale_{name}"] = Column(np.array([float(s) for s in scale]), (effect,))
                self.nodes[f"sd_{name}[{effect}]"] = own or f"HalfStudentT(3, scale_{name})"
                self.nodes[f"_raw_{name}[{name}, {effect}]"] = "Normal(0, 1)"
                self.nodes[f"u_{name}[{name}, {effect}]"] = f"sd_{name} * _raw_{name}"
            out.append(f"sum(u_{name}[{name}] * design_{name}, {effect})")
        return out

    def _rest(self) -> list[str]:
        for name, text in self.spec.missing.items():
            self.nodes[f"{name}[{self.dim}]"] = text
        out = [f"{name} * ({name}_slopes @ b)" for name in self.spec.missing]
        return [*out, "offset"] if self.design.offset is not None else out

    def _outcome(self, eta: str) -> None:
        if self.likelihood.levels == "categorical":
            eta = f"dot({eta}, contrasts, response_contrast)"
        text = self.likelihood.special.get(self.link, self.likelihood.text)
        mu = INVERSE_LINKS[self.link].format(eta=f"({eta})") if self.link != "identity" else eta
        mu = f"({mu})" if self.link == "cloglog" else mu
        text = text.format(mu=mu, eta=eta, trials="trials")
        if self.rows.limits is not None:
            text = f"Censored({text}, lower=lower, upper=upper)"
        self.nodes[f"{self.formula.outcome}[{self.dim}]"] = text


def _number(value: float) -> str:
    return repr(float(f"{value:.6g}"))


def _scaled(text: str) -> bool:
    """Whether a default prior is scaled to the response."""
    return "{rate}" in text or "{sd}" in text


# Names of the parts into which slopes with priors of several kinds are split.
_NUMBERED = re.compile(r"(b_location|b_scale|b_unit|predictor|pick)_\d+")
_NORMAL = re.compile(r"Normal\(\s*([-+.\deE]+)\s*,\s*([-+.\deE]+)\s*\)\Z")


_SHRUNK = re.compile(r"(Normal|Laplace)\(0, tau \* ([\d.e+-]+)\)\Z")


def _kind(text: str) -> str:
    """Priors that differ in numbers only are one vector."""
    shrunk = _SHRUNK.match(text)
    return "Normal" if _plain_normal(text) else f"{shrunk[1]}(0, tau * unit)" if shrunk else text


def _plain_normal(text: str) -> tuple[float, float] | None:
    """Location and scale of ``Normal(number, number)``."""
    found = _NORMAL.match(text.strip())
    try:
        return (float(found[1]), float(found[2])) if found else None
    except ValueError:
        return None
