"""Structure MCMC: a walk over DAGs by single edges, with two longer steps [1]_ [2]_ [3]_.

*edge*
    An ordered pair (u, v) is drawn. Without an edge between the two u -> v is added; where u -> v is, it is deleted;
    where v -> u is, it is reversed. What makes a circle or is not in the table is refused. Each step is proposed with
    the probability of its way back, whatever the number of neighbours, so that the ratio of the scores alone decides.
*reversal*
    An edge is reversed and both of its ends draw their parents anew from sums over the table [2]_.
*renewal*
    One variable draws its parents anew from its distribution given the rest: sets without anything below it. Always
    accepted; it leads past sets that pruning took out of the table.

Edge steps cost some nanoseconds: what a step gains is kept until the parents of its child change, and whether it makes
a circle is asked only once the score has accepted it.

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
# Steps of the cold copy for each step of a hot one (parallel tempering): hot ones cost twice as much, and five of them
# are to take about half of the time.
COLD = 8


def init(table: ScoreTable, rng: np.random.Generator) -> State:
    """A DAG drawn from a random order."""
    _, choice = random_start(table, rng)
    return {"choice": choice, "rng": seeds(rng), "steps": np.zeros(1, np.int64)}


def run(
    table: ScoreTable, state: State, n_steps: int, thin: int = 1, *, reversal: float = 0.01, renewal: float = 0.01
) -> tuple[State, NDArray[np.int32], Info]:
    """More steps (see :mod:`bayeslab.structure.chains`).

    Parameters
    ----------
    reversal, renewal
        Share of steps of these kinds; the rest are edge steps.
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
    """Score of the DAG."""
    return float(table.scores[state["choice"]].sum())
