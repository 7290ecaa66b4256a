"""Scores of a given graph on data, and tests of conditional independence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx

from bayeslab.arrays import count
from bayeslab.errors import DataError, ModelError, OptionError, hint
from bayeslab.networks import Network
from bayeslab.questions import names_of
from bayeslab.structure.constraints import edge_of
from bayeslab.structure.data import Observations, columns_of
from bayeslab.structure.incomplete import Incomplete
from bayeslab.structure.independence import TESTS, Outcome, independence_test
from bayeslab.structures import Learned, local_score, read_rows, refuse_slips, suited_score

__all__ = ["GraphScore", "Independence", "independence", "score"]

# The test of independence for columns that a score suits.
_TEST = {"bdeu": "g2", "bge": "fisher_z"}


@dataclass(frozen=True)
class GraphScore:
    """The log score of a directed acyclic graph: a sum over its families.

    Attributes
    ----------
    criterion : str
        Such as ``bdeu`` or ``bic``.
    by_variable : mapping of str to float
        The log score of each variable given its parents, which sum to the total.
    """

    criterion: str
    by_variable: Mapping[str, float]

    @property
    def total(self) -> float:
        """The log score of the graph; the higher, the better."""
        return sum(self.by_variable.values())

    def __float__(self) -> float:
        return self.total

    def __repr__(self) -> str:
        return f"<{self.criterion} of {len(self.by_variable)} variables: {self.total:,.3f}>"


def score(
    graph: nx.DiGraph | Network | Learned | Iterable[str | Sequence[str]],
    data: Any,
    score: str | None = None,
    *,
    score_options: Mapping[str, Any] | None = None,
) -> GraphScore:
    """Score a graph on data, as :func:`bayeslab.learn` does in its search.

    Parameters
    ----------
    graph
        A directed acyclic graph, a network, a result of ``bl.learn``, or a list of edges, ``"a -> b"`` or pairs. With a
        list of edges, the remaining columns are variables without edges; otherwise, columns that are not in the graph
        are ignored.
    data
        A dataframe, a mapping of columns, or the path of a table, without missing cells.
    score
        ``bdeu``, ``bds``, ``k2``, ``bic``, ``aic``, ``mdl``, ``log_likelihood``, ``bge``, ``gaussian_bic``,
        ``mixed_bic``. Default: chosen by the type of the columns.
    score_options
        Options of the score, such as ``{"equivalent_sample_size": 10}``.

    Returns
    -------
    GraphScore
        ``float(result)`` is the log score; ``result.by_variable`` its terms.

    Raises
    ------
    ModelError
        The graph has a cycle, or a variable that is not a column of the data.
    OptionError, DataError
        The score is unknown or does not suit the columns, or cells are missing.

    Examples
    --------
    >>> import bayeslab as bl
    >>> rows = {"rain": ["no", "no", "yes", "yes"] * 5, "wet": ["no", "no", "yes", "no"] * 5}
    >>> float(bl.score(["rain -> wet"], rows)) > float(bl.score([], rows))
    True
    """
    stated = (score_options or {}).get("states")
    table = _columns(data, stated or (graph.states if isinstance(graph, Network) else None))
    known = table.names if isinstance(table, Observations) else tuple(table)
    edges: Any = graph.graph if isinstance(graph, Network | Learned) else graph
    if isinstance(edges, nx.DiGraph):
        directed = edges
    elif isinstance(edges, nx.Graph | str | Mapping) or not isinstance(edges, Iterable):
        raise ModelError(
            "a graph is a networkx.DiGraph, a network, or a list of edges such as 'a -> b', not"
            f" {type(graph).__name__}",
            code="not-a-graph",
        )
    else:
        directed = nx.DiGraph()
        directed.add_nodes_from(known)
        directed.add_edges_from(edge_of(edge) for edge in edges)
    for v in directed:
        if v not in known:
            raise ModelError(
                f"the graph's variable '{v}' is not a column of the data{hint(str(v), known)}", code="unknown-variable"
            )
    if not nx.is_directed_acyclic_graph(directed):
        circle = [u for u, _ in nx.find_cycle(directed)]
        raise ModelError(f"the graph has a cycle: {' -> '.join([*circle, circle[0]])}", code="cycle")
    if not isinstance(table, Observations):
        table = {v: table[v] for v in known if v in directed}
    criterion = score or suited_score(table, (score_options or {}).get("states") or ())
    _, local = local_score(table, criterion, score_options)
    number = {v: k for k, v in enumerate(local.names)}
    terms = {
        v: float(local.local(number[v], tuple(sorted(number[u] for u in directed.predecessors(v))))) for v in directed
    }
    return GraphScore(criterion, terms)


@dataclass(frozen=True)
class Independence:
    """A test of conditional independence.

    Attributes
    ----------
    x, y : str
    given : tuple of str
    test : str
    statistic : float
        G², χ², mutual information in nats, Fisher's z or Student's t.
    dof : float
        Degrees of freedom of the statistic's distribution under independence.
    p_value : float
        Probability of a statistic at least as large if x and y are independent given ``given``.
    """

    x: str
    y: str
    given: tuple[str, ...]
    test: str
    statistic: float
    dof: float
    p_value: float

    def __repr__(self) -> str:
        given = f" | {', '.join(self.given)}" if self.given else ""
        return (
            f"<{self.x} ⊥ {self.y}{given}: {self.test} {self.statistic:.4g}, {self.dof:g} degrees of freedom,"
            f" p = {self.p_value:.3g}>"
        )


def independence(
    data: Any,
    x: str,
    y: str,
    given: str | Iterable[str] = (),
    *,
    test: str | None = None,
    permutations: int = 0,
    seed: int = 0,
) -> Independence:
    """Test whether two variables are independent given others.

    Parameters
    ----------
    data
        A dataframe, a mapping of columns, or the path of a table, without missing cells.
    x, y
        Columns.
    given
        Columns to condition on.
    test
        For states ``g2``, ``chi2`` or ``mi``; for numbers ``fisher_z`` or ``t``. Default: ``g2`` for states,
        ``fisher_z`` for numbers.
    permutations
        Number of permuted tables for a permutation p-value, for tests of states; 0: the χ² distribution.
    seed
        Seed of the permutations.

    Raises
    ------
    ModelError
        A variable is unknown or named twice.
    OptionError, DataError
        The test is unknown, or the columns mix states and numbers, for which there is no test.

    References
    ----------
    Agresti (2013). Categorical Data Analysis, third edition, chapter 3 (G², χ²).
    Fisher (1924). The distribution of the partial correlation coefficient. Metron 3, 329-332.

    Examples
    --------
    >>> import bayeslab as bl
    >>> coins = {"a": ["h", "h", "t", "t"] * 25, "b": ["h", "t", "h", "t"] * 25}
    >>> bl.independence(coins, "a", "b")
    <a ⊥ b: g2 0, 1 degrees of freedom, p = 1>
    """
    others = names_of(given, "given")
    names = (x, y, *others)
    table = _columns(data)
    known = table.names if isinstance(table, Observations) else tuple(table)
    for v in names:
        if v not in known:
            raise ModelError(f"'{v}' is not a column of the data{hint(str(v), known)}", code="unknown-variable")
    if len(set(names)) < len(names):
        raise ModelError(f"x, y and the given variables are all different; given {', '.join(names)}", code="duplicate")
    rows = table if isinstance(table, Observations) else {v: table[v] for v in names}
    if test is None:
        test = _TEST.get(suited_score(rows))
        if test is None:
            raise OptionError(
                "of these columns some hold states and some numbers, for which there is no test: sort the numbers into"
                " classes and take test='g2'",
                code="not-states",
            )
    elif test not in TESTS:
        raise OptionError(f"no test of independence '{test}'{hint(test, TESTS)}", code="unknown-word")
    asked = independence_test(test, rows, permutations=count(permutations, "permutations"), seed=count(seed, "seed"))
    places = [asked.names.index(v) for v in names]
    outcome: Outcome = asked(places[0], places[1], places[2:])
    return Independence(x, y, tuple(others), test, outcome.statistic, outcome.dof, outcome.p_value)


def _columns(data: Any, states: Mapping[str, Iterable[Any]] | None = None) -> Any:
    """The columns of the data by name; data that are already read are returned unchanged."""
    table = read_rows(data, states)
    if isinstance(table, Observations):
        return table
    if isinstance(table, Incomplete):
        raise DataError("a score needs complete rows; structural_em takes missing cells", code="missing")
    refuse_slips(table, ())
    return columns_of(table)
