"""Posterior of a finite set of hypotheses given data: the interface for engines and results."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.distributions import log_densities
from bayeslab.errors import (
    DataError,
    ModelError,
    errors_at,
)
from bayeslab.exact.finite import Hypotheses as Finite
from bayeslab.families.graph.posterior import GraphPosterior
from bayeslab.families.graph.spec import Graph
from bayeslab.families.hypotheses.expand import dims_of, nodes_of
from bayeslab.families.hypotheses.spec import Hypotheses, Hypothesis
from bayeslab.language.indexing import is_counted, numbers_of
from bayeslab.language.nodes import bound_arguments, call_name
from bayeslab.language.spec import Model
from bayeslab.posterior.answer import Plan
from bayeslab.posterior.contract import Draws, Named, Posterior, Purpose

if TYPE_CHECKING:
    import pymc

__all__ = ["HypothesesPosterior"]


class HypothesesPosterior(Posterior):
    """Posterior of a finite set of hypotheses given data."""

    @property
    def spec(self) -> Hypotheses:
        assert isinstance(self.model.model, Hypotheses)
        return self.model.model

    def summed_out(self) -> tuple[str, ...]:
        """The node of the true hypothesis."""
        return ("_which",)

    def derived_nodes(self) -> tuple[str, ...]:
        """The indicators of the hypotheses."""
        return ("is_true",)

    def outcome_levels(self) -> dict[str, np.ndarray]:
        """The values of the observed column, unless they are the numbers of their positions."""
        numbers = numbers_of(self.spec.states) if self.spec.states else None
        if not self.spec.states or (numbers is not None and is_counted(numbers)):
            return {}
        return {self.spec.observed: np.array(self.spec.states) if numbers is None else numbers}

    def bound_data(self) -> Data:
        """The data with the model's values of the observed column, in the model's order."""
        observed = {self.spec.observed} if self.spec.states else set()
        dims = dict(self.model.dims) | dims_of(self.spec)
        return bind(self.model.model_copy(update={"dims": dims}), self.data.dataset, observed | set(dims))

    def network(self) -> nx.DiGraph:
        """The graph of the hypothesis and the observed column."""
        spec, data = self.spec, self.bound_data()
        calls = {str(call_name(h.call)) for h in spec.hypotheses.values() if isinstance(h.likelihood, str)}
        out = nx.DiGraph(dims={dim: len(levels) for dim, levels in data.labels.items()})
        out.add_node("hypothesis", kind="discrete", text="Categorical", dims=())
        out.add_node(
            spec.observed, kind="observed", text=" or ".join(sorted(calls)) or "table", dims=(self.model.data.rows,)
        )
        out.add_edge("hypothesis", spec.observed)
        return out

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        """The model as a PyMC graph with the hypothesis as node ``_which``, which a fit sums out."""
        return GraphPosterior(_lowered(self.model), self.bound_data()).graph(purpose=purpose, targets=targets)

    def _values(self) -> np.ndarray:
        """The observed column: indices of states, or numbers."""
        spec = self.spec
        term = self.bound_data().term(spec.observed, missing=True)
        values = term.codes if spec.states else term.value
        if values is None or np.ndim(values) != 1:
            raise DataError(
                f"'{spec.observed}' is not a column of {'names' if spec.states else 'numbers'}", code="not-a-column"
            )
        values = np.asarray(values, float)
        gone = (values < 0) if spec.states else np.isnan(values)
        if np.any(gone):
            raise DataError(
                f"column '{spec.observed}', row {int(np.flatnonzero(gone)[0]) + 1} is missing: drop the row",
                code="missing",
            )
        return values

    def _log_likelihood(self) -> np.ndarray:
        """Log likelihood of each row under each hypothesis, (rows, hypotheses)."""
        spec, x = self.spec, self._values()
        if spec.states:
            with np.errstate(divide="ignore"):
                return np.log(spec.table)[:, x.astype(int)].T
        columns = []
        for name, hypothesis in spec.hypotheses.items():
            with errors_at(("model", "hypotheses", name, "likelihood")):
                columns.append(_of_distribution(hypothesis, self.data, x))
        return np.stack(columns, axis=1)

    def learned(self) -> Finite:
        """The posterior of the hypotheses after each observation."""
        return Finite(self.spec.prior, self._log_likelihood())

    @cached_property
    def exact_plan(self) -> Plan | str:
        """Bayes' theorem."""
        after = self.learned()
        if not np.isfinite(after.log_evidence[-1]):
            first = int(np.argmax(~np.isfinite(after.log_evidence))) - 1
            raise DataError(
                f"observation {first + 1} of '{self.spec.observed}' is impossible under every hypothesis left",
                code="probability-zero",
            )
        count = len(self.spec.hypotheses)
        return Plan(f"Bayes' theorem over {count} hypotheses", lambda: _Answer(self.spec, after))

    def probabilities(self, draws: Draws) -> dict[str, np.ndarray] | None:
        """Posterior-weighted probability of each value for every new row; None for distributions."""
        spec = self.spec
        if not spec.states:
            return None
        chances = self.fitted.learned().posterior[-1] @ spec.table
        rows = self.data.labels.get(self.model.data.rows, np.arange(1))
        columns = {self.model.data.rows: rows}
        return columns | {
            f"P({spec.observed}={state})": np.full(len(rows), chance)
            for state, chance in zip(spec.states, chances, strict=True)
        }

    def log_likelihoods(self, draws: Draws) -> Named:
        """Log likelihood of each row at each draw of the hypothesis."""
        values = self._log_likelihood().T[np.asarray(draws["_which"], int)]
        return {self.spec.observed: ((self.model.data.rows,), values)}


def _lowered(model: Model) -> Model:
    """The same model as nodes of the family ``graph``."""
    spec = model.model
    assert isinstance(spec, Hypotheses)
    nodes: dict[str, str | int | float] = {**nodes_of(spec, model.data.rows, "_which")}
    return model.model_copy(update={"model": Graph(nodes=nodes), "dims": dict(model.dims) | dims_of(spec)})


def _categorical(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    if np.any(p < 0) or not np.isclose(p.sum(), 1, atol=1e-6):
        raise ModelError(f"the probabilities of Categorical have the sum {p.sum():g}, not 1", code="out-of-range")
    inside = (x >= 0) & (x < len(p)) & (x == np.floor(x))
    with np.errstate(divide="ignore"):
        return np.where(inside, np.log(p)[np.where(inside, x, 0).astype(int)], -np.inf)


def _of_distribution(hypothesis: Hypothesis, data: Data, x: np.ndarray) -> np.ndarray:
    call = hypothesis.call
    word = str(call_name(call))
    given = {
        key: np.asarray(data.evaluator.eval(tree).value, float) for key, tree in bound_arguments(call, word).items()
    }
    if word == "Categorical":
        return _categorical(x, **given)
    if word == "Binomial" and np.any(given["n"] % 1):
        raise ModelError(f"Binomial needs n a whole number, not {np.ravel(given['n'])[0]:g}", code="out-of-range")
    return log_densities(word, given, x)


@dataclass(frozen=True, eq=False)
class _Answer:
    """Posterior of the true hypothesis: the mean of ``is_true`` is the probability of each hypothesis."""

    spec: Hypotheses
    after: Finite

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        return {"_which": (), "is_true": ("hypothesis",)}

    @property
    def labels(self) -> dict[str, np.ndarray]:
        return {
            "hypothesis": np.array(list(self.spec.hypotheses)),
            "state": np.array(self.spec.states),
            "seen": np.arange(len(self.after.log_evidence)),
        }

    @property
    def log_evidence(self) -> float:
        return float(self.after.log_evidence[-1])

    def mean(self) -> dict[str, np.ndarray]:
        return {"is_true": self.after.posterior[-1]}

    def sd(self) -> dict[str, np.ndarray]:
        p = self.after.posterior[-1]
        return {"is_true": np.sqrt(p * (1 - p))}

    def quantile(self, probability: float) -> dict[str, np.ndarray]:
        return {"is_true": (self.after.posterior[-1] > 1 - probability).astype(float)}

    def draws(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        which = rng.choice(len(self.spec.prior), n, p=self.after.posterior[-1])
        return {"_which": which, "is_true": (which[:, None] == np.arange(len(self.spec.prior))).astype(np.int64)}

    def groups(self) -> dict[str, dict[str, tuple[tuple[str, ...], np.ndarray]]]:
        """``learning``: the posterior after 0, 1, … observations (``seen``)."""
        after, each = self.after, ("seen", "hypothesis")
        names = np.array(list(self.spec.hypotheses))
        out = {
            "posterior": (each, after.posterior),
            "bits": (each, after.bits),
            "log_evidence": (("seen",), after.log_evidence),
            "map": (("seen",), names[after.most_probable]),
            "ml": (("seen",), names[after.best_fitting]),
        }
        if self.spec.states:
            table, next_one = self.spec.table, ("seen", "state")
            out |= {
                "bayes_prediction": (next_one, after.predictive(table)),
                "map_prediction": (next_one, table[after.most_probable]),
                "ml_prediction": (next_one, table[after.best_fitting]),
            }
        return {"learning": out}
