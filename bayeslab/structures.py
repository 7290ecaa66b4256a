"""One good structure from data, and the network that follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from bayeslab.errors import OptionError, hint
from bayeslab.exact.mixed_network import MixedNetwork
from bayeslab.structure import scores, searches
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.data import Observations

if TYPE_CHECKING:
    from bayeslab.networks import Network

__all__ = ["SEARCHES", "Learned", "learn"]

# Searches by score; those by tests of independence give classes of graphs, and are called by themselves.
SEARCHES = ("tabu", "hill_climbing", "order_search", "annealing", "greedy_parents", "chow_liu")
# Weight of the prior of tables, spread over each, where the score does not say.
_SAMPLE = 1.0


@dataclass(frozen=True, eq=False)
class Learned:
    """A structure learned from data.

    Attributes
    ----------
    graph : networkx.DiGraph
    score : float
        Log score of the graph, plus the log prior of structures.
    method, criterion : str
        The search, and what was scored.
    observations : Observations
    found : Found
        What the search says of itself.
    """

    found: searches.Found
    method: str
    criterion: str
    observations: Observations

    @property
    def graph(self) -> nx.DiGraph:
        return self.found.graph

    @property
    def score(self) -> float:
        return self.found.score

    @cached_property
    def compelled(self) -> tuple[tuple[str, str], ...]:
        """Edges that have the same direction in every graph of the equivalence class."""
        from bayeslab.structure.cpdag import cpdag

        return tuple(sorted(cpdag(self.graph).directed))

    def network(self, *, equivalent_sample_size: float = _SAMPLE) -> Network:
        """The network with tables at their posterior means (continuous variables: least squares).

        Parameters
        ----------
        equivalent_sample_size
            Weight of the uniform prior of each table.
        """
        from bayeslab.exact import learning, mixed_learning
        from bayeslab.networks import Network

        seen = self.observations
        parents = {v: tuple(self.graph.predecessors(v)) for v in seen.names}
        states = dict(zip(seen.names, seen.states, strict=True))
        discrete = {v: own for v, own in states.items() if own}
        above = {v: parents[v] for v in discrete}
        if len(discrete) == len(states):
            prior = learning.equivalent_sample(discrete, above, equivalent_sample_size)
            weights = np.asarray(seen.weights, dtype=float)
            return Network(learning.posterior_counts(seen.codes, discrete, above, prior, weights).mean())
        continuous = {v: parents[v] for v, own in states.items() if not own}
        columns = [k for k, v in enumerate(seen.names) if v in discrete]
        numbers = [k for k, v in enumerate(seen.names) if v in continuous]
        repeats = np.round(np.asarray(seen.weights, dtype=float)).astype(np.int64)
        blank = MixedNetwork.blank(discrete, above, continuous)
        codes, values = (np.repeat(a, repeats, axis=0) for a in (seen.codes[:, columns], seen.values[:, numbers]))
        return Network(mixed_learning.maximum_likelihood(blank, codes, values))

    def __repr__(self) -> str:
        edges = ", ".join(f"{a} → {b}" for a, b in self.graph.edges)
        return f"<Learned by {self.method}, {self.criterion} {self.score:,.3f}: {edges or 'no edges'}>"

    def _repr_html_(self) -> str:
        return self.network()._repr_html_()


def learn(
    data: Any,
    method: str = "tabu",
    score: str = "bdeu",
    *,
    required: Iterable[Sequence[str]] = (),
    forbidden: Iterable[Sequence[str]] = (),
    tiers: Iterable[Sequence[str]] = (),
    max_parents: int | None = None,
    seed: int = 0,
    score_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Learned:
    """Search for the structure with the highest score.

    Parameters
    ----------
    data
        A dataframe, a mapping of columns, or the path of a table. Without missing cells.
    method
        ``tabu``, ``hill_climbing``, ``order_search``, ``annealing``, ``greedy_parents`` or ``chow_liu``.
    score
        Of states: ``bdeu``, ``bds``, ``k2``, ``bic``, ``aic``, ``mdl``, ``log_likelihood``, ``noisy_or_bic``; of
        numbers: ``bge``, ``gaussian_bic``; of both: ``mixed_bic``.
    required, forbidden : iterables of (from, to)
    tiers : groups of variables, earliest first
        No edge leads back.
    max_parents
    seed
        Of searches that draw random numbers.
    score_options
        Such as ``{"equivalent_sample_size": 10}``.
    **options
        Of the search.

    Raises
    ------
    DataError, ModelError, OptionError
        Missing cells, constraints that contradict each other, unknown words.
    """
    import inspect
    import os

    if method not in SEARCHES:
        raise OptionError(f"unknown search '{method}'{hint(method, SEARCHES)}")
    if isinstance(data, str | os.PathLike):
        from bayeslab.io.tables import read_dataset
        from bayeslab.spec import DataSource

        data = read_dataset(DataSource(), None, data)
    local = scores.load(score, data, **dict(score_options or {}))
    search = searches.load(method).search
    known = inspect.signature(search).parameters
    for word in options:
        if word not in known or word in ("source", "constraints", "rng"):
            raise OptionError(f"the search '{method}' has no option '{word}'{hint(word, known)}")
    own: dict[str, Any] = dict(options)
    if "rng" in known:
        own["rng"] = np.random.default_rng(seed)
    limits = Constraints.of(local.names, required=required, forbidden=forbidden, tiers=tiers, max_parents=max_parents)
    if "constraints" in known:
        own["constraints"] = limits
    elif list(required) or list(forbidden) or list(tiers):
        raise OptionError(f"the search '{method}' takes no constraints; use tabu")
    if max_parents is not None and "max_parents" in known:
        own["max_parents"] = max_parents
    kind = {"bge": "continuous", "gaussian_bic": "continuous", "mixed_bic": "mixed"}.get(score, "discrete")
    return Learned(search(local, **own), method, score, Observations.of(data, kind=kind))  # type: ignore[arg-type]
