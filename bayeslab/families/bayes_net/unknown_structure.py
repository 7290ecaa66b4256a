"""Bayes nets whose structure is unknown: the declared structure resolved on data."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Literal

import networkx as nx
import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.dataset import Column, Dataset
from bayeslab.errors import DataError, ModelError, OptionError, hint, listed
from bayeslab.families.bayes_net import exact_structure
from bayeslab.families.bayes_net.net import codes_from
from bayeslab.families.bayes_net.spec import BayesNet
from bayeslab.families.bayes_net.structure_spec import (
    _SCORE_OPTIONS,
    HIDDEN,
    PATH,
    Structure,
    _at,
    as_structure,
    sampled,
    unknown,
)
from bayeslab.language.spec import Model
from bayeslab.posterior.answer import Plan as ExactPlan
from bayeslab.structure import score_table, scores
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.data import MOST_STATES, Observations, lacking, measured
from bayeslab.structure.imputing import SCORES, Cells, Imputing, completed
from bayeslab.structure.jobs import Sampler
from bayeslab.structure.priors import StructurePrior
from bayeslab.structure.score_table import Forecast, Note, ScoreTable, checked
from bayeslab.structure.scores import LocalScore

__all__ = ["Plan", "Structure", "as_structure", "plan", "sampled", "unknown"]

# Largest number of variables for which all structures are summed by default.
_EXACT = 13
_CONTINUOUS = ("bge", "gaussian_bic")
# Advice for a column of whole numbers with too many states.
_AS_NUMBERS = ", or take it as measured: `score: bge`, or beside words `mixed_bic`"


# --------------------------------------------------------------------------------- with data


@dataclass(frozen=True, eq=False)
class Plan:
    """An unknown structure resolved on data.

    Attributes
    ----------
    structure : Structure
    states : mapping of str to tuple of str
        States of each variable; none for a continuous one.
    codes : ndarray of int, shape (n_rows, n)
        Numbers of the states; -1 where a cell is missing.
    values : ndarray of float, shape (n_rows, n)
        Values of continuous variables; NaN where a cell is missing.
    constraints : Constraints
    prior : StructurePrior
    word, why : str
        The score, and the reason for its choice.
    remarks : tuple of str
        Remarks about the columns, for the user.
    counts : ndarray (n_rows,) or None
        How many rows of the table each row stands for; None: one.
    """

    structure: Structure
    states: Mapping[str, tuple[str, ...]]
    codes: np.ndarray
    values: np.ndarray
    constraints: Constraints
    prior: StructurePrior
    word: str
    why: str
    remarks: tuple[str, ...] = ()
    counts: np.ndarray | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return tuple(self.states)

    @cached_property
    def observations(self) -> Observations:
        """The rows in the form that scores read; missing cells have a first imputation."""

        numbers = any(not labels for labels in self.states.values())
        weights = None if self.counts is None else self.counts.astype(np.int64)
        values = self.values if numbers else None
        return Observations.of_codes(self._first_codes, self.states, weights=weights, values=values)

    @cached_property
    def missing(self) -> bool:
        """Whether a cell is missing."""
        return bool(np.any(self.codes < 0) or np.any(np.isnan(self.values)))

    @cached_property
    def cells(self) -> Cells:
        """The rows with their missing cells, for chains that impute these."""

        return Cells(self.states, self.codes, self.word, self.structure.score_options, self.prior)

    @cached_property
    def _first_codes(self) -> np.ndarray:
        """The codes, with missing cells drawn from their columns' frequencies, for the first score table of chains."""

        return completed(self.cells, np.random.default_rng(0)) if self.missing else self.codes

    @cached_property
    def sampler(self) -> Sampler:
        """The structure sampler with its options; with missing cells, one that imputes them."""

        chain = self.structure.chain()
        return Imputing.of(chain, self.cells, imputation=self.structure.imputation_every) if self.missing else chain

    @cached_property
    def score(self) -> LocalScore:
        """The local score on the rows."""

        given = self.structure.score_options
        try:
            return scores.load(self.word, self.observations, **given)
        except OptionError as error:
            named = [name for name in given if f"'{name}'" in error.message or error.message.startswith(name)]
            raise OptionError(error.message, path=(*PATH, *named[:1]), code=error.code) from None

    @property
    def max_parents(self) -> int:
        """Largest number of parents of any variable."""
        return min(max(self.structure.limits(self.names).values()), max(0, len(self.names) - 1))

    @property
    def score_options(self) -> dict[str, Any]:
        """Options of the score by name, with the default values of those not given."""

        maker = import_module(f"bayeslab.structure.scores.{self.word}").score
        defaults = {
            name: p.default for name, p in inspect.signature(maker).parameters.items() if name in _SCORE_OPTIONS
        }
        return {k: v for k, v in (defaults | self.structure.score_options).items() if v is not None}

    def forecast(self) -> Forecast:
        """Forecast of the cost of the score table."""
        return score_table.forecast(self.score, *self._extent)

    @property
    def _extent(self) -> tuple[np.ndarray, np.ndarray]:
        """Possible parents of each variable, and the largest number of them in one set."""
        allowed, limits = self.constraints.allowed, np.minimum(self.constraints.limits, self.max_parents)
        if isinstance(self.structure.candidates, int):
            # Only the number of candidates matters for the cost, not which ones they are.
            allowed = allowed & (np.cumsum(allowed, axis=1) <= self.structure.candidates)
        return allowed, limits

    def check_cost(self) -> None:
        """Raise an EngineRefusal if the score table needs more memory than is allowed."""

        with _at("max_parents"):
            checked(self.score, *self._extent, self.max_parents, None, None)

    def table(self, progress: Note | None = None) -> ScoreTable:
        """The score table.

        Raises
        ------
        EngineRefusal
            The table needs more memory than is allowed.
        """

        with _at("max_parents"):
            return ScoreTable.build(
                self.score,
                max_parents=self.max_parents,
                constraints=self.constraints,
                prior=self.prior,
                candidates=self.structure.candidates if isinstance(self.structure.candidates, int) else None,
                prune=self.structure.prune,
                progress=progress,
            )

    def check_missing(self) -> None:
        """Raise a DataError if a missing cell cannot be imputed in the chain."""

        if self.missing and self.counts is not None:
            lost = self.counts[(self.codes < 0).any(axis=1)].sum()
            raise DataError(
                f"{lost:,.0f} rows of the table have missing cells, and cells of folded rows are not drawn: leave the"
                " rows or the columns out",
                path=("data", "streamed"),
                code="missing",
            )
        if not self.missing or (self.word in SCORES and self.structure.prune is None):
            if self.missing:
                _ = self.cells
            return
        why = (
            "parent sets that are pruned on one completion may be the best on another: leave `prune` out"
            if self.word in SCORES
            else f"the score '{self.word}' cannot draw them: take {' or '.join(SCORES)} (columns of states)"
        )
        absent = (self.codes < 0) | np.isnan(self.values)
        for k, name in enumerate(self.names):
            if absent[:, k].any():
                raise DataError(
                    f"column '{name}' has {lacking(absent[:, k])} and {why}, or drop rows or the column", code="missing"
                )

    def text(self) -> str:
        """One-line description of the unknown structure."""
        given = self.structure
        limits = "by variable" if isinstance(given.max_parents, dict) else f"at most {self.max_parents} parents"
        known = sum(len(edges) for edges in (given.required, given.forbidden)) + len(given.tiers)
        words = f"DAGs of {len(self.names)} variables, {limits}, prior {self.prior.name}"
        return words + (f", {known} constraints" if known else "")


def plan(model: Model, data: Data) -> Plan:
    """Resolve the unknown structure of a model on its data."""
    spec: Any = model.model
    structure: Structure = spec.structure
    columns = _columns(spec, data)
    for name, column in columns.items():
        if column.values.dtype.kind == "f" and np.any(np.isinf(column.values)):
            raise DataError(
                f"column '{name}', row {int(np.argmax(np.isinf(column.values))) + 1} is not finite", code="not-finite"
            )
    if len(columns) < 2:
        raise DataError(
            f"the data have {len(columns)} columns for a structure; it takes two variables at least", code="too-few"
        )
    score, kinds, why = _kinds(structure, spec, columns)
    states, codes, values, remarks = _coded(spec, columns, kinds, score)
    hidden = _hidden(structure, columns)
    constraints, prior = structure.constraints((*columns, *hidden)), structure.edge_prior(tuple(columns))
    out = Plan(structure, states, codes, values, constraints, prior, score, why, tuple(remarks), data.dataset.counts)
    if structure.search != HIDDEN:
        out.check_missing()
    return out


def _hidden(structure: Structure, columns: Mapping[str, Column]) -> tuple[str, ...]:
    for name in structure.hidden:
        if name in columns:
            raise ModelError(
                f"'{name}' is a column of the data, not a hidden variable",
                path=(*PATH, "hidden", name),
                code="name-clash",
            )
    return tuple(structure.hidden)


def _columns(spec: BayesNet, data: Data) -> dict[str, Column]:
    """The columns of the variables: those declared, otherwise all columns with one value for each row."""
    rows = data.dataset.rows
    offered = {name: column for name, column in data.dataset.columns.items() if column.dims == (rows,)}
    for name in data.derive:
        if data.has(name) and name not in offered and (not spec.variables or name in spec.variables):
            term = data.term(name, missing=True)
            offered[name] = Column(np.asarray(term.value), tuple(str(d) for d in term.dims))
    for name in spec.variables or offered:
        if name in data.dataset.columns:
            data.look_at(name)
            data.column(name)
    if not spec.variables:
        return {name: column.with_truth_words() for name, column in offered.items()}
    for name in spec.variables:
        if name not in offered:
            raise DataError(
                f"the data have no column '{name}', and structures of hidden variables are not sampled"
                f"{hint(name, offered)}",
                path=("model", "variables", name),
                code="unknown-column",
            )
    return {name: offered[name] for name in spec.variables}


def _kinds(
    structure: Structure, spec: BayesNet, columns: Mapping[str, Column]
) -> tuple[str, dict[str, Literal["discrete", "continuous"]], str]:
    """The score, the discrete and the continuous variables, and the reason for the choice."""
    declared = {v: bool(one.states) for v, one in spec.variables.items()}
    named = {v for v, column in columns.items() if declared.get(v, column.text)}
    free = {v: column for v, column in columns.items() if v not in declared and not column.text}
    fractions = {v for v, column in free.items() if measured(column.values[~column.absent()])}
    numbers = {v for v in columns if declared.get(v) is False}
    score, why = structure.score, f"score {structure.score} was asked for"
    if score is None:
        if not (fractions or numbers):
            score, why = "bdeu", "score bdeu: every variable has states"
        elif not named:
            score, why = "bge", "score bge: every variable is a number"
        else:
            score, why = "mixed_bic", "score mixed_bic: some variables have states, some are numbers"
        if whole := [v for v in fractions if not _fractional(columns[v])]:
            why += f" ({listed(whole)}: whole, of more than {MOST_STATES} different values)"
    if score in _CONTINUOUS:
        discrete: set[str] = set()
    elif score == "mixed_bic":
        discrete = named
    else:
        discrete = set(columns) - numbers
    for v in named - discrete:
        raise DataError(
            f"'{v}' holds states and the score '{score}' is for numbers: leave the column out, or take 'mixed_bic'",
            path=(*PATH, "score"),
            code="not-numbers",
        )
    for v in numbers if score not in (*_CONTINUOUS, "mixed_bic") else ():
        raise DataError(
            f"'{v}' is continuous and the score '{score}' is for states; take 'mixed_bic'",
            path=(*PATH, "score"),
            code="not-states",
        )
    return score, {v: "discrete" if v in discrete else "continuous" for v in columns}, why


def _fractional(column: Column) -> bool:
    present = column.values[~column.absent()]
    return bool(present.dtype.kind == "f" and np.any(present != np.floor(present)))


def _coded(
    spec: BayesNet, columns: Mapping[str, Column], kinds: Mapping[str, str], score: str
) -> tuple[dict[str, tuple[str, ...]], np.ndarray, np.ndarray, list[str]]:
    """States, codes (-1 where a cell is missing), values (NaN likewise), and remarks on unusual columns."""
    n_rows = len(next(iter(columns.values())).values)
    states: dict[str, tuple[str, ...]] = {}
    codes = np.zeros((n_rows, len(columns)), np.int64)
    values = np.zeros((n_rows, len(columns)))
    remarks = []
    for k, (v, column) in enumerate(columns.items()):
        if kinds[v] == "continuous":
            states[v] = ()
            values[:, k] = column.values
            continue
        declared = spec.variables[v].states if v in spec.variables else None
        states[v] = tuple(declared) if declared else _states(v, column, score)
        codes[:, k] = codes_from({v: states[v]}, {v: column}, n_rows)[:, 0]
        if declared is None:
            remarks += _odd(v, len(states[v]), n_rows, numbers=not column.text)
    return states, codes, values, remarks


def _states(name: str, column: Column, score: str) -> tuple[str, ...]:
    """States that occur, sorted."""
    present = column.values[~column.absent()]
    if column.text:
        return tuple(np.unique(present).tolist())
    if _fractional(column):
        raise DataError(
            f"column '{name}' holds numbers that are not whole, and the score '{score}' is for states: sort them into"
            f" classes, or take 'bge' or 'mixed_bic'",
            code="not-states",
        )
    return tuple(str(int(x)) for x in np.unique(present))


def _odd(name: str, n_states: int, n_rows: int, *, numbers: bool) -> list[str]:
    if n_states < 2:
        raise DataError(
            f"column '{name}' is constant: the rows say nothing about what it depends on; leave it out, or declare its"
            f" states",
            code="constant",
        )
    if n_states > n_rows / 2:
        raise DataError(
            f"column '{name}' has {n_states:,} states in {n_rows:,} rows: it looks like a name of rows; leave it out,"
            f" or sort its values into fewer classes{_AS_NUMBERS * numbers}",
            code="too-large",
        )
    if n_states > n_rows / 10:
        remedy = f": sort its values into fewer classes{_AS_NUMBERS * numbers}"
        return [f"column '{name}' has {n_states:,} states in {n_rows:,} rows{remedy}"]
    return []


# --------------------------------------------------------------------------------- the family's contract


def check(model: Model) -> None:
    """Check everything that can be checked without rows."""
    spec: Any = model.model
    if spec.variables:
        spec.structure.check(tuple(spec.variables))
    else:
        spec.structure.chain()


def exact(plan: Plan) -> ExactPlan | str:
    """Plan of the sum over all structures, if there are few enough."""
    if (why := one_only(plan)) is not None:
        return why
    if plan.missing:
        return "cells are missing, and structures cannot be summed together with all that they may hold"
    return exact_structure.plan(plan, plan.structure.chain().prior)


def one_only(plan: Plan) -> str | None:
    """The reason why structures cannot be sampled or summed, although a search finds one; None if they can."""
    if plan.structure.hidden or plan.structure.invent:
        return "structures with hidden variables are not sampled: `bayeslab learn FILE` finds one, with its tables"
    return None


def preferred(plan: Plan) -> tuple[str, str]:
    """The preferred engine: sums over all structures if they take seconds, otherwise chains."""
    if written := plan.structure.of_chains:
        return "structure", f"structure: samples {plan.text()}, as {listed(written)} ask for; {plan.why}"
    solved = exact(plan) if len(plan.names) <= _EXACT else "too many variables to be quick"
    if not isinstance(solved, str):
        return "exact", f"exact: {solved.how}; {plan.why}"
    return "structure", f"structure: samples {plan.text()}; {plan.why}"


def bound(plan: Plan, data: Data) -> Data:
    """The data with states as text, as scores read them."""
    columns, labels = dict(data.dataset.columns), dict(data.labels)
    named = [(k, v) for k, v in enumerate(plan.names) if plan.states[v] and v in columns]
    for k, v in named:
        labels[v] = np.array(plan.states[v])
        absent = plan.codes[:, k] < 0
        columns[v] = Column(labels[v][plan.codes[:, k]], columns[v].dims, absent if absent.any() else None)
    dataset = Dataset(columns, data.dataset.rows, data.dataset.levels)
    out = Data(dataset, labels, data.derive, data.factors | {v for _, v in named}, data.frozen)
    out.origin, out.part = data.origin, data.part
    return out


def forecast(plan: Plan) -> dict[str, str]:
    """The unknown parts of the structure, and the cost of inferring them."""
    if plan.structure.search == HIDDEN:
        unseen = ", ".join(f"{v} with {k} states" for v, k in plan.structure.hidden.items())
        gone = int((plan.codes < 0).sum())
        return {
            "structure": plan.text(),
            **({"hidden": unseen or "none is given"} if one_only(plan) else {}),
            **({"missing cells": f"{gone:,}"} if gone else {}),
            "search": f"{HIDDEN}: `bayeslab learn`",
        }
    tempered = f", {len(plan.structure.betas)} temperatures" if len(plan.structure.betas) > 1 else ""
    gone = int((plan.codes < 0).sum())
    return {
        "structure": plan.text(),
        **({"missing cells": _kept(plan, gone)} if gone else {}),
        "score": plan.why,
        "table": str(plan.forecast()),
        "sampler": f"{plan.structure.sampler}{tempered}",
    }


def _kept(plan: Plan, gone: int) -> str:
    """Describe how missing cells are handled."""
    cells = plan.cells
    which = "draw" if cells.keep == 1 else f"{cells.keep} draws"
    return f"{gone:,}, drawn in the chain; {gone * cells.packed.itemsize:,} bytes are kept of them every {which}"


def network(model: Model, plan: Plan | None) -> nx.DiGraph:
    """The variables without edges; ``plan`` is None without data."""
    states = plan.states if plan else {v: tuple(one.states) for v, one in model.model.variables.items()}  # type: ignore[attr-defined]
    rows = (model.data.rows,) if plan else ()
    out = nx.DiGraph(dims={model.data.rows: len(plan.codes)} if plan else {})
    for v, labels in states.items():
        out.add_node(v, kind="observed" if plan else "discrete", text=", ".join(labels), dims=rows)
    return out
