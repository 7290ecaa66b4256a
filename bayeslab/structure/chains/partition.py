r"""Partition MCMC: a chain over ordered partitions of the variables, each weighted by the sum over its DAGs [1]_.

The first layer of a DAG consists of the variables without parents, the next of the variables with parents only in the
first layer, and so on: each variable of a layer has a parent in the preceding layer and none in its own or later
layers. Every DAG has exactly one such partition, so that sums over partitions are sums over DAGs without the bias of
orders:

.. math:: w(L_1, \dots, L_m) = \prod_k \prod_{v \in L_k}
   \sum_{P \subseteq L_1 \cup \dots \cup L_{k-1},\ P \cap L_{k-1} \ne \emptyset} e^{\text{score}(v, P)}

Steps: split a layer or join two, move one variable to another or a new layer, swap two variables; or draw a DAG given
the partition, reverse one of its edges with new parents for both ends [2]_, and take the partition of the result.

A split draws the layer, then the size of the first part, then its members, each uniformly; with k variables in the
layer and c in its first part the ratio of the proposals is (k - 1) C(k, c). The sums run over lists sorted by score,
without differences, and stop when further terms are negligible.

References
----------
.. [1] Kuipers, Moffa (2017). Partition MCMC for inference on acyclic digraphs. JASA 112(517), 282-299.
.. [2] Grzegorczyk, Husmeier (2008). Improving the structure MCMC sampler for Bayesian networks by introducing a new
   edge reversal move. Machine Learning 71, 265-305.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import OptionError
from bayeslab.structure.chains import Info, State
from bayeslab.structure.chains.toolbox.common import Schedule, random_start, ready, seeds
from bayeslab.structure.score_table import ScoreTable

__all__ = ["COLD", "KINDS", "PRIOR", "init", "layers_of", "log_weight", "run"]

PRIOR = "dags"
KINDS = ("split", "join", "move", "swap", "reversal")
# Steps of the cold copy for each step of a hot copy (parallel tempering): partitions move mainly by exchanges.
COLD = 1


def init(table: ScoreTable, rng: np.random.Generator) -> State:
    """Return the partition of a DAG drawn from a random order."""
    _, choice = random_start(table, rng)
    return {"layer": layers_of(table, choice), "rng": seeds(rng), "steps": np.zeros(1, np.int64)}


def run(
    table: ScoreTable, state: State, n_steps: int, thin: int = 1, *, reversal: float = 0.05
) -> tuple[State, NDArray[np.int32], Info]:
    """Run more steps (see :mod:`bayeslab.structure.chains`); each draw is a DAG drawn given the current partition.

    Parameters
    ----------
    reversal
        Share of steps that reverse an edge of a DAG drawn from the partition.
    """
    if not 0 <= reversal <= 1:
        raise OptionError(f"reversal is a share of the steps, from 0 to 1; given {reversal}", code="out-of-range")
    from bayeslab.structure.chains.toolbox.kernels import partition_run

    known, plan = ready(table), Schedule.of(table, state, n_steps, thin, len(KINDS))
    layer, rng = state["layer"].copy(), state["rng"].copy()
    partition_run(
        known.arrays, known.empty, layer, rng, n_steps, plan.until_draw, thin, float(reversal), plan.draws, plan.counts
    )
    return {"layer": layer, "rng": rng, "steps": plan.steps}, plan.draws, plan.info(table, KINDS)


def log_weight(table: ScoreTable, state: State) -> float:
    """Return the log of the sum over the DAGs of the partition."""
    from bayeslab.structure.chains.toolbox.kernels import partition_weight

    known = ready(table)
    return float(partition_weight(known.arrays, known.empty, state["layer"])[0])


def layers_of(table: ScoreTable, choice: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return the layer of each variable of a DAG (numbers of parent sets): the length of the longest path to it."""
    above = [table.parents(int(number)) for number in choice]
    layer = np.zeros(table.n, np.int32)
    for _ in range(table.n):
        for v, parents in enumerate(above):
            layer[v] = max((layer[u] + 1 for u in parents), default=0)
    return layer
