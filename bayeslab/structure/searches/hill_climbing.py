"""Hill climbing over graphs: add, delete or reverse the edge that increases the score most, until none does.

Level steps lead to graphs with an equal score: with a score-equivalent score they reverse edges within an equivalence
class until another edge has a gain. From a local optimum there are three ways to continue. *Reinsertion* removes all
edges of one variable and adds the best edges one by one [3]_. A *tabu* list forbids the last graphs, so that the search
takes the smallest decrease and may reach another optimum [1]_. *Restarts* change some edges of the best graph at random
and climb again. The matrix of the gains of all moves is cached; a move updates only the columns of variables whose
parents changed. Variables for which no edge has a gain, such as constant columns, get no edges.

References
----------
.. [1] Glover (1989). Tabu search, part I. ORSA Journal on Computing 1, 190-206; Bouckaert (1995). Bayesian Belief
   Networks: from Construction to Inference, PhD thesis, Utrecht.
.. [2] Heckerman, Geiger, Chickering (1995). Learning Bayesian networks. Machine Learning 20, 197-243.
.. [3] Moore, Wong (2003). Optimal reinsertion: a new search operator for accelerated and more accurate Bayesian
   network structure learning. ICML 20, 552-559 (there with the best of all parent sets, here greedily).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import networkx as nx
import numpy as np

from bayeslab.errors import OptionError
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.searches import Found
from bayeslab.structure.searches.toolbox.climber import Climber
from bayeslab.structure.searches.toolbox.scorer import Prior, Scorer, Source

__all__ = ["search"]

type Parents = list[int]

# Level moves after the reinsertion of a variable: enough to reverse a chain of edges.
_LEVEL_AFTER_REINSERTION = 5


def search(
    source: Source,
    *,
    start: nx.DiGraph | None = None,
    constraints: Constraints | None = None,
    prior: Prior = "uniform",
    tabu: int = 0,
    patience: int | None = None,
    level: int = 30,
    reinsertion: bool = True,
    restarts: int = 0,
    changes: int = 10,
    max_steps: int = 100_000,
    rng: np.random.Generator | None = None,
    watch: Callable[[nx.DiGraph, float], None] | None = None,
) -> Found:
    """Climb to a graph that is improved neither by a single edge nor by the reinsertion of a variable.

    Parameters
    ----------
    source
        A score of a data set, or an unpruned score table (the search cannot pass through missing parent sets).
    start
        The initial graph; default: the required edges only.
    constraints, prior
        See :mod:`bayeslab.structure.searches`.
    tabu
        Number of recent graphs that are not revisited; 0: the score never decreases.
    patience
        With a tabu list: the climb ends after this many moves without a new best graph; default: ``tabu``.
    level
        Without a tabu list: largest number of consecutive moves to new graphs with an equal score; 0 stops at the first
        local optimum.
    reinsertion
        Whether to try the reinsertion of every variable before a local optimum is accepted.
    restarts
        Number of restarts from the best graph after ``changes`` random moves.
    changes
        Number of random moves at each restart.
    max_steps
        Maximum number of moves in a climb.
    rng
        Needed for restarts.
    watch
        Callback that receives each graph and its score.

    Returns
    -------
    Found
        The best graph. Its trace has the scores of all visited graphs; without tabu and restarts it never decreases
        except by rounding.

    Raises
    ------
    ModelError
        The initial graph violates a constraint.
    """
    given = (("tabu", tabu), ("patience", patience or 0), ("level", level))
    for name, value in (*given, ("restarts", restarts), ("changes", changes)):
        if value < 0:
            raise OptionError(f"{name} is a number, 0 or more; given {value}", code="out-of-range")
    if restarts and rng is None:
        raise OptionError(
            "restarts need random numbers: give rng, such as numpy.random.default_rng(1)", code="incomplete"
        )
    scorer = Scorer(source, constraints, prior)
    rules = _Rules(tabu, tabu if patience is None else patience, level, max_steps)
    scorer.isolate()
    climber = Climber(scorer, scorer.parents_of(start))
    trace: list[float] = []

    def climbed(climber: Climber) -> tuple[Parents, float]:
        top = _climb(climber, rules, trace, watch)
        return _reinserted(scorer, *top, rules, trace, watch) if reinsertion and max_steps else top

    best, score = climbed(climber)
    for _ in range(restarts):
        assert rng is not None
        climber = Climber(scorer, best)
        _shake(climber, changes, rng)
        other, its_score = climbed(climber)
        if its_score > score + scorer.tolerance:
            best, score = other, its_score
    return scorer.result(best, trace)


@dataclass(frozen=True)
class _Rules:
    """Stopping rules of a climb."""

    tabu: int
    patience: int
    level: int
    max_steps: int


def _climb(
    climber: Climber, rules: _Rules, trace: list[float], watch: Callable[[nx.DiGraph, float], None] | None
) -> tuple[Parents, float]:
    """Return the best graph of one climb."""
    tolerance = climber.scorer.tolerance
    best, top = list(climber.parents), climber.score
    patience = rules.patience if rules.tabu else rules.level
    recent: deque[int] = deque([climber.state], maxlen=rules.tabu or None)
    waited = 0
    _tell(climber, trace, watch)
    for _ in range(rules.max_steps):
        move = climber.best(climber.gains(), set(recent) if waited or rules.tabu else None)
        if move is None or (move[1] <= tolerance and waited >= patience):
            break
        if not rules.tabu and move[1] < -tolerance:
            break
        climber.apply(move[0])
        recent.append(climber.state)
        _tell(climber, trace, watch)
        waited += 1
        if climber.score > top + tolerance:
            best, top, waited = list(climber.parents), climber.score, 0
    return best, top


def _reinserted(
    scorer: Scorer,
    best: Parents,
    score: float,
    rules: _Rules,
    trace: list[float],
    watch: Callable[[nx.DiGraph, float], None] | None,
) -> tuple[Parents, float]:
    """Reinsert variables until none has a gain, and return the best graph; only better graphs are reported."""
    quick = _Rules(0, 0, _LEVEL_AFTER_REINSERTION, rules.max_steps)
    v, failures = 0, 0
    while failures < scorer.n:
        other, its_score = _climb(_put_in_anew(scorer, best, v), quick, [], None)
        failures += 1
        if its_score > score + scorer.tolerance:
            best, score, failures = other, its_score, 0
            _tell(Climber(scorer, best), trace, watch)
        v = (v + 1) % scorer.n
    return best, score


def _put_in_anew(scorer: Scorer, parents: Parents, v: int) -> Climber:
    """Remove all edges of ``v``, then add, one by one, those with a gain; the other edges are unchanged."""
    bare = [mask & (~(1 << v) | scorer.required(child)) for child, mask in enumerate(parents)]
    bare[v] = scorer.required(v)
    climber = Climber(scorer, bare)
    while True:
        gains = climber.gains()
        touching = np.full_like(gains, -np.inf)
        touching[v], touching[:, v] = gains[v], gains[:, v]
        move = climber.best(touching)
        if move is None or move[1] <= scorer.tolerance:
            return climber
        climber.apply(move[0])


def _tell(climber: Climber, trace: list[float], watch: Callable[[nx.DiGraph, float], None] | None) -> None:
    trace.append(climber.score)
    if watch:
        watch(climber.scorer.graph(climber.parents), climber.score)


def _shake(climber: Climber, changes: int, rng: np.random.Generator) -> None:
    """Make random moves, all equally probable."""
    for _ in range(changes):
        possible = np.flatnonzero(climber.gains().reshape(-1) > -np.inf)
        if not possible.size:
            return
        climber.apply(climber.move_at(int(possible[rng.integers(possible.size)])))
