r"""Exact posteriors over structures, and the best structure, by dynamic programming over subsets of the variables.

*Uniform over DAGs.* Let z_v(U) be the sum over the parent sets of v inside U. The sum over the DAGs on S follows from
inclusion and exclusion over sets T of variables without children [1]_ [2]_,

.. math:: Z(S) = \sum_{\emptyset \ne T \subseteq S} (-1)^{|T|+1} Z(S \setminus T) \prod_{v \in T} z_v(S \setminus T),

in 3^n steps. The same expansion in the other direction, with Y(U) the sum over the ways to add the variables outside U
to a DAG on U, gives for each v and U the probability that the *non-descendants* of v are exactly U,

.. math:: h_v(U) = \frac{Z(U)}{Z(V)} \sum_{T \ni v} (-1)^{|T|+1} Y(U \cup T) \prod_{w \in T} z_w(U),

and from it the probabilities of edges and of directed paths:

.. math:: P(u \to v) = \sum_{U \ni u} h_v(U)\Big(1 - \frac{z_v(U \setminus u)}{z_v(U)}\Big),
   \qquad P(v \rightsquigarrow w) = \sum_{U \not\ni w} h_v(U).

The signs alternate, but little precision is lost: the absolute terms sum to at most 2^k times the result, where k is
the number of variables without children. The deviation of the sum of the h_v from one is reported with every result.

*Order-modular.* Each DAG counts once for each consistent order of the variables [3]_. This takes 2^n n steps and all
terms are positive, but the prior is different: DAGs with many consistent orders have more weight.

*The best DAG* [4]_: for each set of variables, the best last variable.

References
----------
.. [1] Tian, He (2009). Computing posterior probabilities of structural features in Bayesian networks. UAI 25, 538-547.
.. [2] Robinson (1973). Counting labeled acyclic digraphs. New Directions in the Theory of Graphs, 239-273.
.. [3] Koivisto, Sood (2004). Exact Bayesian structure discovery in Bayesian networks. JMLR 5, 549-573.
.. [4] Silander, Myllymäki (2006). A simple approach for finding the globally optimal Bayesian network structure.
   UAI 22, 445-452.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import log

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import EngineRefusal, ModelError
from bayeslab.structure.score_table import ScoreTable

__all__ = ["DagPosterior", "OrderPosterior", "best_graph", "dag_posterior", "log_count", "order_posterior"]

_LN2 = log(2.0)
_SECONDS = 3600.0


@dataclass(frozen=True, eq=False)
class DagPosterior:
    """Exact posterior probabilities with the prior of the score table over DAGs.

    Attributes
    ----------
    names : tuple of str
    edges : ndarray, shape (n, n)
        Probability of the edge u -> v at [u, v].
    paths : ndarray, shape (n, n)
        Probability of a directed path from u to v at [u, v].
    log_sum : float
        Log of the sum over DAGs of the exponentiated scores. Minus :func:`log_count` it is, with a uniform prior
        and a Bayesian score, the log evidence of the data.
    defect : float
        Largest deviation from 1 of probabilities that should sum to 1: the numerical accuracy.
    """

    names: tuple[str, ...]
    edges: NDArray[np.float64]
    paths: NDArray[np.float64]
    log_sum: float
    defect: float


@dataclass(frozen=True, eq=False)
class OrderPosterior:
    """Exact posterior probabilities with an order-modular prior: a DAG counts once for each consistent order.

    Attributes
    ----------
    names : tuple of str
    edges : ndarray, shape (n, n)
        Probability of the edge u -> v at [u, v].
    before : ndarray, shape (n, n)
        Probability that u comes before v at [u, v].
    log_sum : float
        Log of the sum over orders, and DAGs consistent with them, of the exponentiated scores.
    defect : float
        Largest deviation from 1 of probabilities that should sum to 1.
    """

    names: tuple[str, ...]
    edges: NDArray[np.float64]
    before: NDArray[np.float64]
    log_sum: float
    defect: float


def dag_posterior(table: ScoreTable, *, memory: float | None = None) -> DagPosterior:
    """Return the posterior probabilities of all edges and directed paths, by a sum over all DAGs.

    Parameters
    ----------
    table
        Scores of parent sets; sets that are not in it have probability zero.
    memory
        Memory limit in megabytes; default: half of the machine's memory.

    Raises
    ------
    EngineRefusal
        There are too many variables; the message has the forecast and the alternative.
    ModelError
        The parent sets form no DAG.

    Notes
    -----
    On one core this takes at most about 0.5 s for 16 variables, and three times as long for each further variable. The
    more informative the data, the more terms are negligible: 20 variables with 1,000 rows take some seconds.
    """
    n = _checked(table, "exact sums over DAGs", 1.2e-8 * 3.0**table.n, memory)
    from bayeslab.structure.exact_kernels import sum_over_dags, sums_below

    value, exponent = _subset_sums(table, table.scores)
    total, scale, scale_below = sum_over_dags(n, value, exponent)
    if not total[-1] > 0:
        raise _impossible()
    edges, paths, check = sums_below(n, value, exponent, total, scale, scale_below)
    log_sum = (np.log2(total[-1]) + scale[-1]) * _LN2
    return DagPosterior(table.names, edges.clip(0, 1), paths.clip(0, 1), float(log_sum), _defect(check))


def order_posterior(table: ScoreTable, *, memory: float | None = None) -> OrderPosterior:
    """Return the probabilities of all edges, by a sum over all orders and the DAGs consistent with them.

    Parameters and errors are those of :func:`dag_posterior`.
    """
    n = _checked(table, "exact sums over orders", 1e-8 * table.n**2 * 2.0**table.n, memory)
    from bayeslab.structure.exact_kernels import order_sums

    value, exponent = _subset_sums(table, table.scores)
    log_total, edges, after, check = order_sums(n, value, exponent)
    if log_total == -np.inf:
        raise _impossible()
    return OrderPosterior(table.names, edges.clip(0, 1), after.clip(0, 1), float(log_total * _LN2), _defect(check))


def log_count(table: ScoreTable, *, memory: float | None = None) -> float:
    """Return the log of the number of DAGs formed by the parent sets of a table."""
    n = _checked(table, "counting DAGs", 4e-9 * 3.0**table.n, memory)
    from bayeslab.structure.exact_kernels import sum_over_dags

    total, scale, _ = sum_over_dags(n, *_subset_sums(table, np.where(table.scores > -np.inf, 0.0, -np.inf)))
    if not total[-1] > 0:
        raise _impossible()
    return float((np.log2(total[-1]) + scale[-1]) * _LN2)


def best_graph(table: ScoreTable, *, memory: float | None = None) -> nx.DiGraph:
    """Return a DAG with the certified highest score, which is stored as ``graph.graph["score"]``.

    Parameters and errors are those of :func:`dag_posterior`; memory doubles with each variable, 0.3 GB for 25.
    """
    bytes_needed = 8.0 * 2**table.n
    n = _within(table, "the best graph by dynamic programming", 2e-8 * table.n * 2.0**table.n, bytes_needed, memory)
    from bayeslab.structure.exact_kernels import best_scores, best_sets

    kept = table.pruned(0.0)
    sets = kept.sets[:, 0].astype(np.int64)
    best = best_scores(n, kept.pointer, sets, kept.scores)
    if best[-1] == -np.inf:
        raise _impossible()
    graph = kept.graph(best_sets(n, kept.pointer, sets, kept.scores, best))
    graph.graph["score"] = float(best[-1])
    return graph


def _subset_sums(table: ScoreTable, scores: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    from bayeslab.structure.exact_kernels import subset_sums

    value, exponent = subset_sums(table.n, table.pointer, table.sets[:, 0], scores / _LN2)
    return value, exponent


def _checked(table: ScoreTable, what: str, seconds: float, memory: float | None, extra: float = 0.0) -> int:
    # Subset sums of each variable (a float and an exponent), and eight numbers per set.
    return _within(table, what, seconds, table.n * 2.0 ** (table.n - 1) * 12 + 2.0**table.n * 64 + extra, memory)


def _within(table: ScoreTable, what: str, seconds: float, bytes_needed: float, memory: float | None) -> int:
    n = table.n
    if n == 0:
        raise ModelError("there are no variables", code="no-columns")
    limit = memory if memory is not None else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2e6
    if n > 30 or bytes_needed / 1e6 > limit or seconds > _SECONDS:
        raise EngineRefusal(
            f"{what} of {n} variables would take up to {bytes_needed / 1e6:,.0f} MB and {seconds:,.0f} s;"
            f" {limit:,.0f} MB and {_SECONDS:,.0f} s may be used. Sample structures instead, or search",
            code="too-costly",
        )
    return n


def _impossible() -> ModelError:
    return ModelError("no acyclic graph can be made of the parent sets of the score table", code="no-acyclic-graph")


def _defect(check: NDArray[np.float64]) -> float:
    return float(np.max(np.abs(check - 1.0)))
