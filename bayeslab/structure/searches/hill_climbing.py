"""Hill climbing over graphs: add, delete or reverse the edge that raises the score most, until none does.

Steps on the level, to graphs as good as the last, cost nothing: with a score that is the same for equivalent graphs
they turn edges round within a class, until one more edge pays. From a local top there are three ways on: *reinsertion*
takes out all edges of one variable and puts it in again, edge by edge, where it fits best [3]_; a *tabu* list forbids
the last graphs, so that the climb goes down the least steep way and perhaps up another hill [1]_; *restarts* change
some edges of the best graph at random and climb again. The matrix of what each move adds is kept; a move makes only
the columns of the variables whose parents changed new. Variables that no edge tells anything about, such as constant
columns, get no edges.

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

# Moves on the level after a variable was put in anew: enough to turn a chain of edges round.
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
    """Climb to a graph that no single edge improves, nor one variable put in anew.

    Parameters
    ----------
    source
        A score with its data, or a score table (one that is not pruned: what is missing there cannot be passed).
    start
        The first graph; left out, that of the required edges only.
    constraints, prior
        See :mod:`bayeslab.structure.searches`.
    tabu
        Number of last graphs that are not gone back to; 0 never goes down.
    patience
        With a tabu list: how many moves without a new best graph end the climb; left out, as many as ``tabu``.
    level
        Without a tabu list: how many moves to graphs as good as the last, none of them passed before, are made in a
        row at most; 0 stops on the first top.
    reinsertion
        Whether each variable is tried elsewhere, with all its edges, before a top is the last.
    restarts
        How often to go on from the best graph with ``changes`` random moves.
    changes
        Moves made at random at each restart.
    max_steps
        Moves of one climb at most.
    rng
        Needed for restarts.
    watch
        Told each graph and its score.

    Returns
    -------
    Found
        The best graph. Its trace holds the scores of all graphs passed; without tabu and restarts it never falls,
        rounding aside.

    Raises
    ------
    ModelError
        A start graph that breaks a constraint.
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
    """When a climb ends."""

    tabu: int
    patience: int
    level: int
    max_steps: int


def _climb(
    climber: Climber, rules: _Rules, trace: list[float], watch: Callable[[nx.DiGraph, float], None] | None
) -> tuple[Parents, float]:
    """The best graph of one climb."""
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
    """The best graph after each variable has been tried elsewhere without gain; only better graphs are reported."""
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
    """A graph whose variable ``v`` has lost its edges and won, one by one, those that pay; the rest stays."""
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
    """Moves at random, each as probable as every other."""
    for _ in range(changes):
        possible = np.flatnonzero(climber.gains().reshape(-1) > -np.inf)
        if not possible.size:
            return
        climber.apply(climber.move_at(int(possible[rng.integers(possible.size)])))
