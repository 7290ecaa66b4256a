"""Structure MCMC: a chain over DAGs with single-edge steps and two larger steps [1]_ [2]_ [3]_.

*edge*
    An ordered pair (u, v) is drawn. If there is no edge between the two, u -> v is added; u -> v is deleted if present;
    v -> u is reversed if present. A step that creates a cycle or a parent set outside the table is rejected. The
    proposals are symmetric whatever the number of neighbours, so that only the ratio of the scores matters.
*reversal*
    An edge is reversed, and both of its ends draw new parents from sums over the table [2]_.
*renewal*
    One variable draws new parents from their conditional distribution given the rest, among sets without descendants of
    the variable. This Gibbs step is always accepted; it can bypass sets that pruning removed from the table.

Edge steps cost some nanoseconds: the gain of a step is cached until the parents of its child change, and acyclicity is
checked only if the score accepts the step.

References
----------
.. [1] Madigan, York (1995). Bayesian graphical models for discrete data. Int. Stat. Review 63, 215-232;
   Giudici, Castelo (2003). Improving Markov chain Monte Carlo model search for data mining. Machine Learning 50,
   127-158.
.. [2] Grzegorczyk, Husmeier (2008). Improving the structure MCMC sampler for Bayesian networks by introducing a new
   edge reversal move. Machine Learning 71, 265-305.
.. [3] Goudie, Mukherjee (2016). A Gibbs sampler for learning DAGs. JMLR 17(30), 1-39.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import OptionError
from bayeslab.structure.chains import Info, State
from bayeslab.structure.chains.toolbox.common import Schedule, random_start, ready, seeds
from bayeslab.structure.score_table import ScoreTable

__all__ = ["COLD", "KINDS", "PRIOR", "init", "log_weight", "run"]

PRIOR = "dags"
KINDS = ("edge", "reversal", "renewal")
# Steps of the cold copy for each step of a hot one (parallel tempering): hot steps cost twice as much; five of them
# should take about half of the time.
COLD = 8


def init(table: ScoreTable, rng: np.random.Generator) -> State:
    """Return a DAG drawn from a random order."""
    _, choice = random_start(table, rng)
    return {"choice": choice, "rng": seeds(rng), "steps": np.zeros(1, np.int64)}


def run(
    table: ScoreTable, state: State, n_steps: int, thin: int = 1, *, reversal: float = 0.01, renewal: float = 0.01
) -> tuple[State, NDArray[np.int32], Info]:
    """Run more steps (see :mod:`bayeslab.structure.chains`).

    Parameters
    ----------
    reversal, renewal
        Shares of reversal and renewal steps; the rest are edge steps.
    """
    if not (reversal >= 0 and renewal >= 0 and reversal + renewal <= 1):
        raise OptionError(
            f"reversal and renewal are shares of the steps, 1 at most together; given {reversal}, {renewal}",
            code="out-of-range",
        )
    from bayeslab.structure.chains.toolbox.kernels import structure_run

    known, plan = ready(table), Schedule.of(table, state, n_steps, thin, len(KINDS))
    choice, rng = state["choice"].copy(), state["rng"].copy()
    structure_run(
        known.arrays, known.keys, known.slots, choice, rng, n_steps, plan.until_draw, thin, float(reversal),
        float(renewal), plan.draws, plan.counts,
    )  # fmt: skip
    return {"choice": choice, "rng": rng, "steps": plan.steps}, plan.draws, plan.info(table, KINDS)


def log_weight(table: ScoreTable, state: State) -> float:
    """Return the score of the DAG."""
    return float(table.scores[state["choice"]].sum())
