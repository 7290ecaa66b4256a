"""A Bayes net with discrete and continuous variables as plain data: conditional linear Gaussian.

Discrete variables have tables, and discrete parents only. A continuous variable is normal given its parents: for each
configuration d of its discrete parents, its mean is linear in its continuous parents, and its standard deviation is
constant,

    y | d, x  ~  Normal(intercept[d] + slopes[d] · x, sd[d]).

Given all discrete variables, the continuous ones are jointly normal; without discrete variables the net is a
multivariate normal. A discrete variable with a continuous parent is outside this class and is an error.

References
----------
.. [1] Lauritzen, Wermuth (1989). Graphical models for associations between variables, some of which
   are qualitative and some quantitative. Annals of Statistics 17, 31-57.
.. [2] Shachter, Kenley (1989). Gaussian influence diagrams. Management Science 35, 527-550.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import networkx as nx
import numpy as np

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.errors import EvidenceError, ModelError, hint
from bayeslab.latents.networks.factors import read_evidence
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["LinearGaussian", "MixedEvidence", "MixedNetwork", "draws", "log_density", "read_mixed_evidence"]


@dataclass(frozen=True, eq=False)
class LinearGaussian:
    """A continuous variable given its parents.

    Parameters
    ----------
    parents : tuple of str
        Discrete and continuous parents, in any order.
    intercept : ndarray (states of the discrete parents...)
    slopes : ndarray (states of the discrete parents..., number of continuous parents)
    sd : ndarray (states of the discrete parents...)
        Non-negative. With an sd of zero the variable is a function of its parents, which queries allow and learning
        does not.
    """

    parents: tuple[str, ...]
    intercept: np.ndarray
    slopes: np.ndarray
    sd: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "parents", tuple(map(str, self.parents)))
        for name in ("intercept", "slopes", "sd"):
            array = np.array(getattr(self, name), dtype=float)
            if not np.all(np.isfinite(array)):
                raise ModelError(f"{name} of a linear Gaussian must be finite numbers", code="not-finite")
            object.__setattr__(self, name, array)
        if np.any(self.sd < 0):
            raise ModelError("sd of a linear Gaussian must not be negative", code="out-of-range")


@dataclass(frozen=True, eq=False)
class MixedNetwork:
    """A conditional linear Gaussian net.

    Parameters
    ----------
    states, parents, tables
        The discrete variables, as in `DiscreteNetwork`.
    continuous : mapping of str to LinearGaussian
        The continuous variables. The order of the mapping is the order of data columns.
    name : str
    notes : mapping
        Further contents of a network file.

    Raises
    ------
    ModelError
        An error of `DiscreteNetwork`; a discrete variable with a continuous parent; arrays that do not fit the parents.
    """

    states: Mapping[str, tuple[str, ...]]
    parents: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, np.ndarray]
    continuous: Mapping[str, LinearGaussian]
    name: str = "network"
    notes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        continuous = {str(v): node for v, node in self.continuous.items()}
        for variable, above in self.parents.items():
            for parent in above:
                if parent in continuous and variable in self.states:
                    raise ModelError(
                        f"'{variable}' is discrete and its parent '{parent}' continuous: not conditional linear"
                        " Gaussian; declare it as a sigmoid or softmax of its parent, which is sampled with NUTS",
                        code="unsupported",
                    )
        discrete = DiscreteNetwork(self.states, self.parents, self.tables, self.name, self.notes)
        for name in ("states", "parents", "tables"):
            object.__setattr__(self, name, getattr(discrete, name))
        object.__setattr__(self, "continuous", continuous)
        for variable, node in continuous.items():
            self._check(variable, node)
        if not nx.is_directed_acyclic_graph(self.graph):
            circle = next(iter(nx.simple_cycles(self.graph)))
            raise ModelError(f"the network has a cycle: {' -> '.join([*circle, circle[0]])}", code="cycle")

    def _check(self, variable: str, node: LinearGaussian) -> None:
        if variable in self.states:
            raise ModelError(f"'{variable}' is both discrete and continuous", code="name-clash")
        known = [*self.states, *self.continuous]
        for parent in node.parents:
            if parent not in self.states and parent not in self.continuous:
                raise ModelError(
                    f"'{parent}', a parent of '{variable}', is not a variable{hint(parent, known)}",
                    code="unknown-variable",
                )
        if len(set(node.parents)) < len(node.parents):
            raise ModelError(f"variable '{variable}' has a parent twice", code="duplicate")
        shape = tuple(len(self.states[p]) for p in self.discrete_parents(variable))
        wanted = {"intercept": shape, "slopes": (*shape, len(self.continuous_parents(variable))), "sd": shape}
        for name, want in wanted.items():
            if getattr(node, name).shape != want:
                given = " × ".join(map(str, getattr(node, name).shape)) or "a number"
                need = " × ".join(map(str, want)) or "a number"
                raise ModelError(f"{name} of '{variable}' is {given}; its parents make {need}", code="wrong-shape")

    @classmethod
    def blank(
        cls,
        states: Mapping[str, tuple[str, ...]],
        parents: Mapping[str, tuple[str, ...]],
        continuous: Mapping[str, tuple[str, ...]],
        name: str = "network",
    ) -> Self:
        """A net with uniform tables, zero intercepts and slopes, and sd 1, for learning."""
        tables = {}
        for v, labels in states.items():
            shape = (*(len(states[p]) for p in parents.get(v, ()) if p in states), len(labels))
            tables[v] = np.full(shape, 1 / max(len(labels), 1))
        nodes = {}
        for v, above in continuous.items():
            shape = tuple(len(states[p]) for p in above if p in states)
            n_slopes = sum(p in continuous for p in above)
            nodes[v] = LinearGaussian(above, np.zeros(shape), np.zeros((*shape, n_slopes)), np.ones(shape))
        return cls(states, parents, tables, nodes, name)

    def discrete_parents(self, variable: str) -> tuple[str, ...]:
        """Discrete parents of a continuous variable, in the order of its arrays' axes."""
        return tuple(p for p in self.continuous[variable].parents if p in self.states)

    def continuous_parents(self, variable: str) -> tuple[str, ...]:
        """Continuous parents of a continuous variable, in the order of its slopes."""
        return tuple(p for p in self.continuous[variable].parents if p in self.continuous)

    @property
    def discrete(self) -> DiscreteNetwork:
        """The net of the discrete variables, which have no continuous ancestors."""
        return DiscreteNetwork(self.states, self.parents, self.tables, self.name, self.notes)

    @property
    def graph(self) -> nx.DiGraph:
        """The structure; discrete nodes have the attribute ``states``."""
        out = nx.DiGraph(name=self.name)
        out.add_nodes_from((v, {"states": s}) for v, s in self.states.items())
        out.add_nodes_from(self.continuous)
        out.add_edges_from((parent, v) for v, above in self.parents.items() for parent in above)
        out.add_edges_from((parent, v) for v, node in self.continuous.items() for parent in node.parents)
        return out

    @property
    def order(self) -> tuple[str, ...]:
        """The continuous variables, parents first."""
        return tuple(v for v in nx.lexicographical_topological_sort(self.graph) if v in self.continuous)

    @property
    def n_parameters(self) -> int:
        """Number of free table entries, and of intercepts, slopes and sds."""
        tables = sum(t.size // t.shape[-1] * (t.shape[-1] - 1) for t in self.tables.values())
        return tables + sum(n.intercept.size + n.slopes.size + n.sd.size for n in self.continuous.values())

    def do(self, actions: Mapping[str, Any]) -> Self:
        """The net under an intervention, which sets variables and removes the edges from their parents.

        Parameters
        ----------
        actions : mapping
            Discrete variable to the name of its state, continuous variable to its value.

        References
        ----------
        Pearl (2009). Causality, 2nd ed., section 3.2.
        """
        done = read_mixed_evidence(self, actions)
        if done.likelihood or done.noisy:
            raise EvidenceError("an intervention sets one state or value, not likelihoods", code="wrong-type")
        parents, tables, continuous = dict(self.parents), dict(self.tables), dict(self.continuous)
        for variable, code in done.hard.items():
            parents[variable], tables[variable] = (), np.eye(len(self.states[variable]))[code]
        for variable, value in done.exact.items():
            continuous[variable] = LinearGaussian((), np.array(value), np.zeros(0), np.array(0.0))
        return replace(self, parents=parents, tables=tables, continuous=continuous)


@dataclass(frozen=True, eq=False)
class MixedEvidence:
    """Evidence on some variables.

    Parameters
    ----------
    hard : dict of str to int
        Observed discrete variables and the index of their state.
    likelihood : dict of str to ndarray
        Virtual evidence on discrete variables.
    exact : dict of str to float
        Observed continuous variables.
    noisy : dict of str to tuple of float
        Continuous variables measured with a normal error: the reading and the error's sd.
    """

    hard: dict[str, int]
    likelihood: dict[str, np.ndarray]
    exact: dict[str, float]
    noisy: dict[str, tuple[float, float]]


def read_mixed_evidence(network: MixedNetwork, given: Mapping[str, Any] | None) -> MixedEvidence:
    """Evidence with names replaced by indices.

    Parameters
    ----------
    network : MixedNetwork
    given : mapping or None
        Discrete variable to the name of its state or to {state: likelihood}; continuous variable to
        its value or to ``{"value": reading, "sd": error of the measurement}``.

    Raises
    ------
    EvidenceError
        An unknown variable or state, or a value that is not a finite number.
    """
    given = given or {}
    known = [*network.states, *network.continuous]
    for variable in given:
        if variable not in network.states and variable not in network.continuous:
            raise EvidenceError(f"'{variable}' is not a variable{hint(variable, known)}", code="unknown-variable")
    discrete = read_evidence(network.states, {v: g for v, g in given.items() if v in network.states})
    exact: dict[str, float] = {}
    noisy: dict[str, tuple[float, float]] = {}
    for variable in network.continuous.keys() & given.keys():
        value = given[variable]
        if isinstance(value, Mapping):
            noisy[variable] = _reading(variable, value)
        else:
            exact[variable] = _number(variable, value)
    return MixedEvidence(discrete.hard, discrete.likelihood, exact, noisy)


def _number(variable: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = float("nan")
    if not np.isfinite(number):
        raise EvidenceError(f"'{variable}' is continuous: '{value}' is not a finite number", code="not-finite")
    return number


def _reading(variable: str, value: Mapping[str, Any]) -> tuple[float, float]:
    if set(value) != {"value", "sd"}:
        raise EvidenceError(
            f"'{variable}' is continuous: give a number, or value and sd of a noisy reading,"
            f" not {', '.join(map(str, value))}",
            code="wrong-type",
        )
    reading, sd = _number(variable, value["value"]), _number(variable, value["sd"])
    if sd <= 0:
        raise EvidenceError(
            f"the sd of a noisy reading of '{variable}' must be positive; for an exact reading, give the value",
            code="out-of-range",
        )
    return reading, sd


def draws(network: MixedNetwork, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Independent draws of all variables, parents first.

    Returns
    -------
    codes : ndarray (n, number of discrete variables)
    values : ndarray (n, number of continuous variables)
        Columns in the orders of ``states`` and ``continuous``.
    """
    codes = dict.fromkeys(network.states, np.zeros(n, np.int64))
    for variable in nx.topological_sort(network.graph.subgraph(network.states)):
        rows = network.tables[variable][tuple(codes[p] for p in network.parents[variable])]
        steps = np.broadcast_to(rows, (n, rows.shape[-1]))[:, :-1].cumsum(axis=1)
        codes[variable] = (rng.random(n)[:, None] >= steps).sum(axis=1)
    values = dict.fromkeys(network.continuous, np.zeros(n))
    for variable in network.order:
        mean, sd = _conditional(network, variable, codes, values)
        values[variable] = mean + sd * rng.standard_normal(n)
    return (
        np.stack([*codes.values()], axis=1) if codes else np.zeros((n, 0), np.int64),
        np.stack([*values.values()], axis=1) if values else np.zeros((n, 0)),
    )


def log_density(network: MixedNetwork, codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Log joint density of complete rows, shape (n,); every sd must be positive."""
    code = dict(zip(network.states, codes.T, strict=True))
    value = dict(zip(network.continuous, values.T, strict=True))
    out = np.zeros(len(codes))
    with np.errstate(divide="ignore"):
        for v, table in network.tables.items():
            out += np.log(table[(*(code[p] for p in network.parents[v]), code[v])])
    for v in network.continuous:
        mean, sd = _conditional(network, v, code, value)
        out -= 0.5 * ((value[v] - mean) / sd) ** 2 + np.log(sd) + HALF_LOG_2PI
    return out


def _conditional(
    network: MixedNetwork, variable: str, codes: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    node = network.continuous[variable]
    at = tuple(codes[p] for p in network.discrete_parents(variable))
    mean, slopes = node.intercept[at], node.slopes[at]
    for k, parent in enumerate(network.continuous_parents(variable)):
        mean = mean + slopes[..., k] * values[parent]
    return mean, node.sd[at]
