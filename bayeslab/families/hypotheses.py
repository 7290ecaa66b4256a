"""Family ``hypotheses``: a finite set of hypotheses, each with a prior and a likelihood.

The likelihood is a table of probabilities, one for each value of the observed column, or a
distribution of it in the words of the family ``graph``. Given the hypothesis the observations are
independent. The posterior is exact; the group ``learning`` has it after every observation, with the
MAP and ML hypotheses, what each predicts next, and description lengths in bits. As a PyMC graph
the hypothesis is a categorical node that is summed out.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import networkx as nx
import numpy as np
from pydantic import Field, field_validator, model_validator

from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.distributions import DISTRIBUTIONS, SCALARS, log_densities
from bayeslab.errors import (
    DataError,
    Flaw,
    ModelError,
    hint,
    listed,
)
from bayeslab.exact.answer import Plan
from bayeslab.exact.finite import Hypotheses as Finite
from bayeslab.families import graph as graphs
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import bound_arguments, call_name
from bayeslab.language.spec import ColumnName, Family, Identifier, Model
from bayeslab.language.spec import Spec as Frozen

if TYPE_CHECKING:
    import pymc

__all__ = ["Hypotheses", "Spec", "check", "exact", "factors", "graph", "network", "outcomes", "summed_out"]

Probability = Annotated[float | int, Field(ge=0, le=1)]


class Hypothesis(Frozen):
    """One hypothesis."""

    prior: Probability | None = Field(
        default=None, description="Its probability before the data; none given: all equal."
    )
    likelihood: dict[str, Probability] | str = Field(
        description="Probabilities of the observed values by name, or a distribution such as Normal(0, 1)."
    )


class Hypotheses(Family):
    """A finite set of hypotheses about one column."""

    of_rows: ClassVar[bool] = False  # its hypotheses are a dimension of their own
    family: Literal["hypotheses"] = "hypotheses"
    observed: ColumnName = Field(description="The column that the hypotheses are about, in order of observation.")
    hypotheses: dict[Identifier, Hypothesis] = Field(min_length=1, max_length=10_000)

    @field_validator("hypotheses")
    @classmethod
    def _complete(cls, value: dict[str, Hypothesis]) -> dict[str, Hypothesis]:
        given = [h.prior for h in value.values()]
        if any(p is None for p in given) and any(p is not None for p in given):
            raise Flaw("give every hypothesis a prior, or none (then all are equally probable)", code="incomplete")
        if given[0] is not None and abs(math.fsum(p for p in given if p is not None) - 1) > 1e-9:
            total = math.fsum(p for p in given if p is not None)
            raise Flaw(f"the priors add up to {total:g}, not to 1", code="not-probabilities")
        return value

    @model_validator(mode="after")
    def _alike(self) -> Hypotheses:
        tables = {name: h.likelihood for name, h in self.hypotheses.items() if isinstance(h.likelihood, dict)}
        if tables and len(tables) < len(self.hypotheses):
            raise Flaw("likelihoods are all tables or all distributions", code="conflict")
        self._of_one_scale()
        states = next((list(table) for table in tables.values()), [])
        for name, table in tables.items():
            if set(table) != set(states):
                raise Flaw(
                    f"'{name}' has the values {listed(table)}, the first hypothesis {listed(states)}",
                    code="contradiction",
                )
            if abs(math.fsum(table.values()) - 1) > 1e-9:
                raise Flaw(
                    f"the probabilities of '{name}' add up to {math.fsum(table.values()):g}, not to 1",
                    code="not-probabilities",
                )
        return self

    def _of_one_scale(self) -> None:
        """Refuse probabilities beside densities: another unit of the column would change the posterior."""
        kinds: dict[bool, str] = {}
        for name, hypothesis in self.hypotheses.items():
            word = str(hypothesis.likelihood).partition("(")[0].strip()
            if word in DISTRIBUTIONS:
                kinds.setdefault(DISTRIBUTIONS[word].discrete, name)
        if len(kinds) > 1:
            raise Flaw(
                f"'{kinds[True]}' gives probabilities of whole numbers and '{kinds[False]}' a density: they have no"
                f" common scale, and another unit of '{self.observed}' would change the answer",
                code="conflict",
            )

    @property
    def states(self) -> list[str]:
        """Values of the observed column, in the order of the first table; none with distributions."""
        first = next(iter(self.hypotheses.values())).likelihood
        return list(first) if isinstance(first, dict) else []

    @property
    def prior(self) -> np.ndarray:
        given = [h.prior for h in self.hypotheses.values()]
        return np.array([1 / len(given) if p is None else float(p) for p in given])

    @property
    def table(self) -> np.ndarray:
        """Probabilities, shape (hypotheses, states)."""
        tables = [h.likelihood for h in self.hypotheses.values()]
        return np.array([[float(t[state]) for state in self.states] for t in tables if isinstance(t, dict)])


Spec = Hypotheses


def _spec(model: Model) -> Hypotheses:
    assert isinstance(model.model, Hypotheses)
    return model.model


# --------------------------------------------------------------------------------- the contract


def check(model: Model, columns: set[str] | None) -> None:
    """Distributions can be read, and the column is there."""
    spec = _spec(model)
    for name, hypothesis in spec.hypotheses.items():
        if isinstance(hypothesis.likelihood, str):
            path = ("model", "hypotheses", name, "likelihood")
            try:
                expression = parse(hypothesis.likelihood)
                word = call_name(expression.tree)
                if word not in _DISCRETE and word not in SCALARS:
                    allowed = [*_DISCRETE, *SCALARS]
                    raise ModelError(
                        f"'{expression.text}' is not a distribution that is known here{hint(word, allowed)}",
                        code="not-a-distribution",
                    )
            except ModelError as error:
                raise ModelError(error.message, path=path, offset=error.offset, code=error.code) from None
    if columns is not None and spec.observed not in columns:
        message = f"the data have no column '{spec.observed}'{hint(spec.observed, columns)}"
        raise ModelError(message, path=("model", "observed"), code="unknown-column")


def factors(model: Model) -> set[str]:
    """Dimensions the model declares."""
    return set(model.dims)


def outcomes(model: Model, columns: set[str]) -> tuple[str, ...]:
    """The observed column."""
    return (_spec(model).observed,)


def summed_out(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Which hypothesis is true."""
    return ("_which",)


def derived(model: Model, columns: set[str]) -> tuple[str, ...]:
    """The hypothesis, one by one."""
    return ("is_true",)


def bound(model: Model, data: Data) -> Data:
    """The data with the model's values of the observed column, in the model's order."""
    observed = {_spec(model).observed} if _spec(model).states else set()
    dims = _dims(model)
    return bind(model.model_copy(update={"dims": dims}), data.dataset, observed | set(dims))


def network(model: Model, data: Data) -> nx.DiGraph:
    """The hypothesis, and what is observed."""
    spec, own = _spec(model), bound(model, data)
    calls = {str(call_name(_call(h))) for h in spec.hypotheses.values() if isinstance(h.likelihood, str)}
    out = nx.DiGraph(dims={dim: len(levels) for dim, levels in own.labels.items()})
    out.add_node("hypothesis", kind="discrete", text="Categorical", dims=())
    out.add_node(spec.observed, kind="observed", text=" or ".join(sorted(calls)) or "table", dims=(model.data.rows,))
    out.add_edge("hypothesis", spec.observed)
    return out


def graph(
    model: Model,
    data: Data,
    *,
    purpose: Literal["fit", "predict", "simulate"] = "fit",
    targets: Collection[str] = (),
) -> pymc.Model:
    """The model as a PyMC graph: the hypothesis is the node ``_which``, summed out in a fit."""
    return graphs.graph(_lowered(model), bound(model, data), purpose=purpose, targets=targets)


def _lowered(model: Model) -> Model:
    """The same model as nodes of the family ``graph``."""
    spec = _spec(model)
    nodes: dict[str, Any] = {
        "_which": f"Categorical({spec.prior.tolist()})",
        "is_true[hypothesis]": "index(hypothesis) == _which",
    }
    outcome = f"{spec.observed}[{model.data.rows}]"
    if spec.states:
        nodes["chance[hypothesis, state]"] = str(spec.table.tolist())
        nodes[outcome] = "Categorical(chance[_which, state])"
    else:
        nodes[outcome] = _switched(spec)
    return model.model_copy(update={"model": graphs.Graph(nodes=nodes), "dims": _dims(model)})


def _dims(model: Model) -> dict[str, Any]:
    """The model's dimensions: its hypotheses, and the values that are observed."""
    spec = _spec(model)
    own: dict[str, Any] = {"hypothesis": list(spec.hypotheses)}
    if spec.states:
        own |= {"state": spec.states, spec.observed: spec.states}
    return dict(model.dims) | own


def _switched(spec: Hypotheses) -> str:
    """One distribution whose parameters are those of the hypothesis that is true."""
    calls = [_call(h) for h in spec.hypotheses.values()]
    words = {str(call_name(call)) for call in calls}
    given = [bound_arguments(call, str(call_name(call))) for call in calls]
    if len(words) > 1 or len({frozenset(g) for g in given}) > 1:
        raise ModelError(
            "the hypotheses have different distributions: they are weighed by method exact, but new observations are"
            " drawn, and other methods apply, only where each has the same distribution with the same parameters",
            path=("model", "hypotheses"),
            code="unsupported",
        )
    parts = [f"{key}=[{', '.join(ast.unparse(g[key]) for g in given)}][_which]" for key in given[0]]
    return f"{words.pop()}({', '.join(parts)})"


def _call(hypothesis: Hypothesis) -> ast.Call:
    tree = parse(str(hypothesis.likelihood)).tree
    assert isinstance(tree, ast.Call)
    return tree


# --------------------------------------------------------------------------------- likelihoods


# Distributions of whole numbers beside those of SCALARS.
_DISCRETE = ("Bernoulli", "Binomial", "Categorical", "Geometric", "Poisson")


def _categorical(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    if np.any(p < 0) or not np.isclose(p.sum(), 1, atol=1e-6):
        raise ModelError(f"the probabilities of Categorical have the sum {p.sum():g}, not 1", code="out-of-range")
    inside = (x >= 0) & (x < len(p)) & (x == np.floor(x))
    with np.errstate(divide="ignore"):
        return np.where(inside, np.log(p)[np.where(inside, x, 0).astype(int)], -np.inf)


def _values(model: Model, data: Data) -> np.ndarray:
    """The observed column: positions in the states, or numbers."""
    spec = _spec(model)
    term = bound(model, data).term(spec.observed, missing=True)
    values = term.codes if spec.states else term.value
    if values is None or np.ndim(values) != 1:
        raise DataError(
            f"'{spec.observed}' is not a column of {'names' if spec.states else 'numbers'}", code="not-a-column"
        )
    values = np.asarray(values, float)
    gone = (values < 0) if spec.states else np.isnan(values)
    if np.any(gone):
        raise DataError(
            f"column '{spec.observed}', row {int(np.flatnonzero(gone)[0]) + 1} is missing: drop the row", code="missing"
        )
    return values


def _log_likelihood(model: Model, data: Data) -> np.ndarray:
    """Of each row under each hypothesis, (rows, hypotheses)."""
    spec, x = _spec(model), _values(model, data)
    if spec.states:
        with np.errstate(divide="ignore"):
            return np.log(spec.table)[:, x.astype(int)].T
    columns = []
    for name, hypothesis in spec.hypotheses.items():
        try:
            columns.append(_of_distribution(hypothesis, data, x))
        except ModelError as error:
            raise ModelError(error.message, path=("model", "hypotheses", name, "likelihood"), code=error.code) from None
    return np.stack(columns, axis=1)


def _of_distribution(hypothesis: Hypothesis, data: Data, x: np.ndarray) -> np.ndarray:
    call = _call(hypothesis)
    word = str(call_name(call))
    given = {
        key: np.asarray(data.evaluator.eval(tree).value, float) for key, tree in bound_arguments(call, word).items()
    }
    if word == "Categorical":
        return _categorical(x, **given)
    if word == "Binomial" and np.any(given["n"] % 1):
        raise ModelError(f"Binomial needs n a whole number, not {np.ravel(given['n'])[0]:g}", code="out-of-range")
    return log_densities(word, given, x)


# --------------------------------------------------------------------------------- the answer


def learned(model: Model, data: Data) -> Finite:
    """The hypotheses after the data, observation by observation."""
    return Finite(_spec(model).prior, _log_likelihood(model, data))


def exact(model: Model, data: Data) -> Plan | str:
    """Bayes' theorem."""
    after = learned(model, data)
    if not np.isfinite(after.log_evidence[-1]):
        first = int(np.argmax(~np.isfinite(after.log_evidence))) - 1
        raise DataError(
            f"observation {first + 1} of '{_spec(model).observed}' is impossible under every hypothesis left",
            code="probability-zero",
        )
    count = len(_spec(model).hypotheses)
    return Plan(f"Bayes' theorem over {count} hypotheses", lambda: _Answer(_spec(model), after))


@dataclass(frozen=True, eq=False)
class _Answer:
    """Which hypothesis is true: ``is_true`` has one element for each, whose mean is its probability."""

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
        """``learning``: what was known after 0, 1, … observations (``seen``)."""
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


# --------------------------------------------------------------------------------- predictions


def probabilities(model: Model, seen: Data, new: Data, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Posterior-weighted probability of each value, for every new row; None with distributions.

    Parameters
    ----------
    seen
        The data of the fit.
    new
        The rows to predict.
    """
    spec = _spec(model)
    if not spec.states:
        return None
    chances = learned(model, seen).posterior[-1] @ spec.table
    rows = new.labels.get(model.data.rows, np.arange(1))
    columns = {model.data.rows: rows}
    return columns | {
        f"P({spec.observed}={state})": np.full(len(rows), chance)
        for state, chance in zip(spec.states, chances, strict=True)
    }


def log_likelihoods(
    model: Model, data: Data, draws: Mapping[str, np.ndarray]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Log likelihood of each row at each draw of the hypothesis."""
    values = _log_likelihood(model, data).T[np.asarray(draws["_which"], int)]
    return {_spec(model).observed: ((model.data.rows,), values)}
