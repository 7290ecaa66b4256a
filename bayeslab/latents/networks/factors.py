"""Products of tables over named discrete variables, and evidence.

A Bayes net is a product of one conditional table for each variable, with the normalising constant 1. A Markov random
field or a factor graph is a product of any non-negative tables. Inference treats them alike.

References
----------
.. [1] Kschischang, Frey, Loeliger (2001). Factor graphs and the sum-product algorithm. IEEE
   Transactions on Information Theory 47, 498-519.
.. [2] Pearl (1988). Probabilistic Reasoning in Intelligent Systems, section 2.3.3 (virtual evidence).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.arrays import number
from bayeslab.errors import EvidenceError, ModelError, hint
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.questions import check_evidence

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Evidence", "FactorGraph", "impossible", "read_evidence", "variables_of"]


@dataclass(frozen=True, eq=False)
class FactorGraph:
    """A product of non-negative tables, ``p(x) = (1/Z) prod_f f(x_f)``.

    Parameters
    ----------
    states : mapping of str to tuple of str
        The states of each variable, in order. The order of the mapping is the order of the variables.
    scopes : tuple of tuple of str
        The variables of each factor, in the order of its table's axes.
    tables : tuple of ndarray
        One non-negative table for each factor.
    name : str

    Raises
    ------
    ModelError
        An unknown or repeated variable in a scope, a table of the wrong shape, or an entry that is
        negative or not finite.
    """

    states: Mapping[str, tuple[str, ...]]
    scopes: tuple[tuple[str, ...], ...]
    tables: tuple[np.ndarray, ...]
    name: str = "factors"

    def __post_init__(self) -> None:
        states = {str(v): tuple(map(str, s)) for v, s in self.states.items()}
        for variable, labels in states.items():
            if not labels or len(set(labels)) < len(labels):
                raise ModelError(f"variable '{variable}' needs at least one state, each state once", code="duplicate")
        if len(self.scopes) != len(self.tables):
            raise ModelError(f"{len(self.scopes)} scopes for {len(self.tables)} tables", code="wrong-length")
        scopes = tuple(tuple(scope) for scope in self.scopes)
        tables = tuple(_factor(s, t, states) for s, t in zip(scopes, self.tables, strict=True))
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "scopes", scopes)
        object.__setattr__(self, "tables", tables)

    @classmethod
    def of(cls, network: DiscreteNetwork) -> FactorGraph:
        """The factor graph of a Bayes net: its tables in order of the variables; scopes are (parents..., variable)."""
        scopes = tuple((*network.parents[v], v) for v in network.states)
        return cls(network.states, scopes, tuple(network.tables[v] for v in network.states), network.name)

    @property
    def graph(self) -> nx.Graph:
        """The Markov graph: variables that share a factor are neighbours. For a Bayes net it is the moral graph."""
        import networkx as nx

        out = nx.Graph(name=self.name)
        out.add_nodes_from((v, {"states": s}) for v, s in self.states.items())
        out.add_edges_from(pair for scope in self.scopes for pair in combinations(scope, 2))
        return out


def _factor(scope: tuple[str, ...], table: np.ndarray, states: Mapping[str, tuple[str, ...]]) -> np.ndarray:
    for variable in scope:
        if variable not in states:
            raise ModelError(
                f"'{variable}', in a factor, is not a variable{hint(variable, states)}", code="unknown-variable"
            )
    if len(set(scope)) < len(scope):
        raise ModelError(f"the factor over {', '.join(scope)} has a variable twice", code="duplicate")
    out = np.array(table, dtype=float)
    shape = tuple(len(states[v]) for v in scope)
    if out.shape != shape:
        given, want = (" × ".join(map(str, s)) or "a number" for s in (out.shape, shape))
        raise ModelError(f"the table over {', '.join(scope)} is {given}, not {want}", code="wrong-shape")
    if not np.all(np.isfinite(out)) or np.any(out < 0):
        raise ModelError(
            f"the table over {', '.join(scope)} has an entry that is negative or not finite", code="not-probabilities"
        )
    return out


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence on some variables.

    Parameters
    ----------
    hard : dict of str to int
        Observed variables and the index of their state.
    likelihood : dict of str to ndarray
        Virtual evidence: P(observation | state), up to a factor, for each state of a variable.
    """

    hard: dict[str, int]
    likelihood: dict[str, np.ndarray]


def read_evidence(states: Mapping[str, tuple[str, ...]], given: Mapping[str, Any] | None) -> Evidence:
    """Evidence with names replaced by indices.

    Parameters
    ----------
    states : mapping of str to tuple of str
        The states of each variable.
    given : mapping or None
        For each variable the name of its state, or a mapping from states to likelihoods (states left out have
        likelihood zero).

    Raises
    ------
    EvidenceError
        An unknown variable or state, or likelihoods that are negative or all zero.
    """
    check_evidence(given)
    hard: dict[str, int] = {}
    likelihood: dict[str, np.ndarray] = {}
    for variable, value in (given or {}).items():
        if variable not in states:
            raise EvidenceError(f"'{variable}' is not a variable{hint(variable, states)}", code="unknown-variable")
        if isinstance(value, Mapping):
            likelihood[variable] = _likelihood(variable, states[variable], value)
        else:
            hard[variable] = _code(variable, states[variable], value)
    return Evidence(hard, likelihood)


def _code(variable: str, states: tuple[str, ...], state: object) -> int:
    if str(state) not in states:
        word = " ".join(str(state).split())[:60]
        raise EvidenceError(f"'{word}' is not a state of '{variable}'{hint(word, states)}", code="unknown-state")
    return states.index(str(state))


def _likelihood(variable: str, states: tuple[str, ...], value: Mapping[str, Any]) -> np.ndarray:
    out = np.zeros(len(states))
    for state, weight in value.items():
        plain = weight.item() if isinstance(weight, np.ndarray) and weight.ndim == 0 else weight
        place = _code(variable, states, state)
        out[place] = number(plain, f"the likelihood of '{variable}={state}'", error=EvidenceError)
    if np.any(out < 0) or not np.any(out > 0):
        raise EvidenceError(
            f"likelihoods of '{variable}' must be non-negative numbers, not all zero", code="not-probabilities"
        )
    return out


def variables_of(states: Mapping[str, Sequence[str]], targets: Iterable[str] | str | None) -> tuple[str, ...]:
    """The requested variables; all variables for None.

    Raises
    ------
    EvidenceError
        An unknown or repeated name.
    """
    if targets is None:
        return tuple(states)
    names = (targets,) if isinstance(targets, str) else tuple(targets)
    for name in names:
        if name not in states:
            raise EvidenceError(f"'{name}' is not a variable{hint(name, states)}", code="unknown-variable")
    if len(set(names)) < len(names):
        raise EvidenceError("a target is given twice", code="duplicate")
    return names


def impossible(given: Mapping[str, Any], possible: Callable[[Mapping[str, Any]], bool]) -> EvidenceError:
    """The error for evidence of probability zero; it names a minimal impossible part of the evidence.

    Parameters
    ----------
    given
        The evidence.
    possible
        Whether a part of the evidence has a positive probability.
    """
    if not given:
        return EvidenceError("the product of the factors is zero everywhere", code="probability-zero")
    kept = dict(given)
    for variable in given:
        rest = {v: s for v, s in kept.items() if v != variable}
        if not possible(rest):
            kept = rest
    if not kept:
        return EvidenceError(
            "the product of the factors is zero everywhere, even without evidence", code="probability-zero"
        )
    words = ", ".join(f"{v} = {s}" if not isinstance(s, Mapping) else f"{v}: {dict(s)}" for v, s in kept.items())
    return EvidenceError(
        f"the evidence has probability zero: {words} cannot occur" + (" together" if len(kept) > 1 else ""),
        code="probability-zero",
    )
