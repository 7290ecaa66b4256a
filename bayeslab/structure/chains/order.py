"""Order MCMC: a walk over orders of the variables, each the sum of all DAGs that agree with it [1]_.

Orders mix where DAGs do not: a step crosses valleys between many DAGs at once. The price is the prior: a DAG weighs
once for each order that it agrees with.

Steps: two neighbours swapped, any two swapped, one variable moved to another place; each is proposed with the
probability of its way back. A step ends as soon as what the variables still to be summed can gain at most would not be
accepted.

References
----------
.. [1] Friedman, Koller (2003). Being Bayesian about network structure. Machine Learning 50, 95-125.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayeslab.structure.chains import Info, State
from bayeslab.structure.chains._common import Schedule, random_start, ready, seeds
from bayeslab.structure.score_table import ScoreTable

__all__ = ["KINDS", "PRIOR", "init", "log_weight", "run"]

PRIOR = "orders"
KINDS = ("neighbours", "swap", "insertion")


def init(table: ScoreTable, rng: np.random.Generator) -> State:
    """A random order."""
    order, _ = random_start(table, rng)
    return {"order": order, "rng": seeds(rng), "steps": np.zeros(1, np.int64)}


def run(table: ScoreTable, state: State, n_steps: int, thin: int = 1) -> tuple[State, NDArray[np.int32], Info]:
    """More steps (see :mod:`bayeslab.structure.chains`); each draw is a DAG drawn from the order of that step."""
    from bayeslab.structure.chains._kernels import order_run

    known, plan = ready(table), Schedule.of(table, state, n_steps, thin, len(KINDS))
    order, rng = state["order"].copy(), state["rng"].copy()
    order_run(*known.arrays, order, rng, n_steps, plan.until_draw, thin, plan.draws, plan.counts)
    return {"order": order, "rng": rng, "steps": plan.steps}, plan.draws, plan.info(table, KINDS)


def log_weight(table: ScoreTable, state: State) -> float:
    """Log of the sum over the DAGs that agree with the order."""
    from bayeslab.structure.chains._kernels import order_weight

    return float(order_weight(*ready(table).arrays, state["order"])[0])
