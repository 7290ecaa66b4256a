"""Order MCMC: a chain over orders of the variables, each weighted by the sum over its consistent DAGs [1]_.

Chains over orders mix better than chains over DAGs, because a step crosses valleys between many DAGs at once. The price
is an order-modular prior: a DAG counts once for each consistent order. :func:`log_orders` counts these orders; draws
weighted by the inverse have the prior of the table, as long as enough effective draws remain [2]_ (:func:`weights`
returns their number).

Steps: swap two neighbours, swap any two variables, or move one variable to another position; the proposals are
symmetric. A step is rejected early if the remaining variables cannot gain enough for it to be accepted.

References
----------
.. [1] Friedman, Koller (2003). Being Bayesian about network structure. Machine Learning 50, 95-125.
.. [2] Ellis, Wong (2008). Learning causal Bayesian network structures from experimental data. JASA 103, 778-789.
"""

from __future__ import annotations

from math import lgamma

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import EngineRefusal
from bayeslab.structure.chains import Info, State
from bayeslab.structure.chains.toolbox.common import Schedule, random_start, ready, seeds
from bayeslab.structure.score_table import ScoreTable

__all__ = ["COLD", "KINDS", "PRIOR", "init", "log_orders", "log_weight", "run", "weights"]

PRIOR = "orders"
KINDS = ("neighbours", "swap", "insertion")
# Steps of the cold copy for each step of a hot copy (parallel tempering).
COLD = 1


def init(table: ScoreTable, rng: np.random.Generator) -> State:
    """Return a random order."""
    order, _ = random_start(table, rng)
    return {"order": order, "rng": seeds(rng), "steps": np.zeros(1, np.int64)}


def run(table: ScoreTable, state: State, n_steps: int, thin: int = 1) -> tuple[State, NDArray[np.int32], Info]:
    """Run more steps (see :mod:`bayeslab.structure.chains`); each draw is a DAG drawn given the current order."""
    from bayeslab.structure.chains.toolbox.kernels import order_run

    known, plan = ready(table), Schedule.of(table, state, n_steps, thin, len(KINDS))
    order, rng = state["order"].copy(), state["rng"].copy()
    order_run(known.arrays, order, rng, n_steps, plan.until_draw, thin, plan.draws, plan.counts)
    return {"order": order, "rng": rng, "steps": plan.steps}, plan.draws, plan.info(table, KINDS)


def log_weight(table: ScoreTable, state: State) -> float:
    """Return the log of the sum over the DAGs consistent with the order."""
    from bayeslab.structure.chains.toolbox.kernels import order_weight

    return float(order_weight(ready(table).arrays, state["order"])[0])


def log_orders(table: ScoreTable, choice: NDArray[np.integer], limit: int = 1_000_000) -> float:
    """Return the log of the number of orders consistent with a DAG, which is given by numbers of parent sets.

    Parameters
    ----------
    limit
        The largest number of ancestral sets to enumerate in each component of the graph.

    Raises
    ------
    EngineRefusal
        There are more ancestral sets, or more than 64 variables.
    """
    from bayeslab.structure.chains.toolbox.kernels import log_linear_extensions

    if table.n > 64:
        raise EngineRefusal(
            f"orders of a DAG are counted for 64 variables at most; there are {table.n}", code="too-costly"
        )
    parents = table.sets[choice, 0]
    graph = nx.Graph()
    graph.add_nodes_from(range(table.n))
    graph.add_edges_from((u, v) for v, number in enumerate(choice) for u in table.parents(int(number)))
    # Orders of components without edges between them can be interleaved in all ways.
    total = lgamma(table.n + 1)
    for part in nx.connected_components(graph):
        members = np.uint64(sum(1 << v for v in part))
        total += float(log_linear_extensions(parents, members, limit)) - lgamma(len(part) + 1)
    if np.isnan(total):
        raise EngineRefusal(
            f"the DAG has more than {limit:,} sets closed under parents; raise limit, or sample DAGs", code="too-costly"
        )
    return total


def weights(table: ScoreTable, draws: NDArray[np.integer]) -> tuple[NDArray[np.float64], float]:
    """Return weights that correct draws for the order bias, shape (n_draws,), and their effective sample size.

    The weights sum to 1; the effective size is the inverse of the sum of their squares. Draws of the same DAG share its
    weight.
    """
    unique, of_draw = np.unique(draws, axis=0, return_inverse=True)
    log_inverse = -np.array([log_orders(table, choice) for choice in unique])[of_draw]
    weight = np.exp(log_inverse - log_inverse.max())
    weight /= weight.sum()
    return weight, float(1.0 / np.sum(weight**2))
