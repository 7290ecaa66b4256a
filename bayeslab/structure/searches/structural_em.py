r"""Structural EM: structure learning from rows with missing cells or hidden variables.

Ordinary EM replaces the counts of one structure by their expectations. Structural EM [1]_ computes the expected counts
of *all* families under the current net and uses them to search over structures:

1. run EM over the tables of the current graph to convergence;
2. compute expected counts at these tables; search, from the current graph, for the graph with the best expected score;
3. compute its tables from the same counts, and repeat from 1 until no graph is better.

For penalised log likelihoods (BIC and similar) a graph whose expected score is higher by d has an observed score higher
by at least d, so that neither ever decreases [1]_. For Bayesian scores the score of the expected counts approximates
the expected score [2]_, and graphs are compared by the Cheeseman-Stutz approximation [3]_,

.. math:: \log p(\hat D \mid G) + \log p(D \mid \hat\theta, G) - \log p(\hat D \mid \hat\theta, G)

with the expected counts :math:`\hat D` at the tables :math:`\hat\theta`; a graph for which it is lower is rejected.

Hidden variables may be given with their numbers of states, or *invented*: a new variable is placed above a nearly
complete set of variables [4]_, between the set and its parents, with the number of states that has the best score; the
number of states may be changed by one, and a hidden variable may be removed. Each change is made only if it increases
the score. Cells are assumed to be missing at random.

References
----------
.. [1] Friedman (1997). Learning belief networks in the presence of missing values and hidden variables. ICML 14,
   125-133.
.. [2] Friedman (1998). The Bayesian structural EM algorithm. UAI 14, 129-138.
.. [3] Cheeseman, Stutz (1996). Bayesian classification (AutoClass): theory and results. Advances in Knowledge Discovery
   and Data Mining, 153-180; Chickering, Heckerman (1997). Machine Learning 29, 181-212.
.. [4] Elidan, Lotner, Friedman, Koller (2000). Discovering hidden variables: a structure-based approach. NIPS 13.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from bayeslab.errors import OptionError, hint
from bayeslab.latents.expectation_maximisation import maximise
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.structure import scores, searches
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.data import Observations
from bayeslab.structure.incomplete import Incomplete
from bayeslab.structure.priors import StructurePrior, structure_prior
from bayeslab.structure.scores import LocalScore
from bayeslab.structure.searches import Found
from bayeslab.structure.searches.toolbox.scorer import Prior, Scorer

__all__ = ["SCORES", "Completed", "Move", "outer_inner", "search"]

# Scores of expected counts: Bayesian scores with the concentration of an entry, and penalised likelihoods.
_BAYESIAN = ("bdeu", "k2")
SCORES = (*_BAYESIAN, "bic", "aic", "mdl", "log_likelihood")
_INNER = ("tabu", "hill_climbing")
# Largest number of positions tried for a new hidden variable.
_PLACES = 12
# Largest number of states of a new hidden variable before it is evaluated.
_STATES = 6
# Number of random starts of the tables for each change of hidden variables.
_TRIES = 3
# Smaller gains of a score count as zero.
_GAIN = 1e-6

Array = NDArray[np.float64]
type Tables = Mapping[str, Array]


@dataclass(frozen=True)
class Move:
    """An attempted change of hidden variables.

    Attributes
    ----------
    what : str
        Description of the change.
    before, after : float
        Scores without and with the change.
    """

    what: str
    before: float
    after: float

    @property
    def accepted(self) -> bool:
        return self.after > self.before + _GAIN


@dataclass(frozen=True, eq=False, repr=False)
class Completed(Found):
    """A structure from incomplete rows; ``score`` is the observed score, ``trace`` its values during the search.

    Attributes
    ----------
    network : DiscreteNetwork
        Network with the final tables of EM.
    log_likelihood : float
        Log likelihood of the observed cells.
    expected : tuple of (float, float)
        For each search on expected counts, the expected score of the initial and of the final graph.
    e_steps : int
        Number of passes over the rows, over all starts.
    hidden : mapping of str to int
        Hidden variables and their numbers of states.
    moves : tuple of Move
        Attempted changes of hidden variables, in order.
    observations : Observations
        All completions of the rows, weighted by their probabilities.
    """

    network: DiscreteNetwork
    log_likelihood: float
    expected: tuple[tuple[float, float], ...]
    e_steps: int
    hidden: Mapping[str, int]
    moves: tuple[Move, ...]
    observations: Observations

    @property
    def n_parameters(self) -> int:
        """Number of free parameters of all tables."""
        return sum(table.size - table.size // table.shape[-1] for table in self.network.tables.values())

    def __repr__(self) -> str:
        hidden = "".join(f", {h} with {k} states hidden" for h, k in self.hidden.items())
        return f"Completed({len(self.graph.edges)} edges, score {self.score:,.3f}{hidden}, {self.e_steps:,} E-steps)"


def search(
    data: Any,
    *,
    score: str = "bic",
    score_options: Mapping[str, Any] | None = None,
    hidden: Mapping[str, int] | None = None,
    invent: int = 0,
    start: nx.DiGraph | None = None,
    starts: int | None = None,
    constraints: Constraints | None = None,
    prior: Prior = "uniform",
    inner: str = "tabu",
    max_iterations: int = 100,
    tolerance: float = 1e-4,
    rng: np.random.Generator | None = None,
) -> Completed:
    """Return the best structure of several starts.

    Parameters
    ----------
    data
        A table of states (:meth:`bayeslab.structure.incomplete.Incomplete.of`), with or without missing cells.
    score, score_options
        ``bic``, ``aic``, ``mdl``, ``log_likelihood``, ``bdeu`` or ``k2``.
    hidden
        Names of hidden variables and their numbers of states.
    invent
        Largest number of hidden variables that may be invented.
    start
        Initial graph; default: the required edges only, with hidden variables as parents of all others.
    starts
        Number of initial graphs; default: 2, or 6 with hidden variables.
    constraints
        Constraints on the columns, and on given hidden variables if they contain their names.
    prior
        Structure prior: ``uniform``, ``sparse``, or a prior over all variables.
    inner
        The search on expected counts: ``tabu`` or ``hill_climbing``.
    max_iterations
        Largest number of searches per start; each EM has at most ten times as many steps.
    tolerance
        EM over tables stops when the remaining gain is smaller, in nats.
    rng
        Random generator for starts; required with hidden variables.

    Raises
    ------
    OptionError
        The score cannot be computed from expected counts.
    EngineRefusal
        Some rows have too many completions.
    """
    rows = Incomplete.of(data)
    if hidden:
        rows = rows.with_hidden(hidden)
    known = Setting(score, dict(score_options or {}), constraints, prior, inner, max_iterations, tolerance)
    if starts is not None and starts < 1:
        raise OptionError(f"starts is a number of graphs, 1 or more; given {starts}", code="out-of-range")
    generator = np.random.default_rng(0) if rng is None else rng
    task, tally = Task(rows, known), Tally()
    begins = _starts(task, start, starts or (6 if rows.hidden else 2), tally, generator)
    if rows.complete:
        begins = begins[:1]
    best = max((_climb(task, graph, tally, generator) for graph in begins), key=lambda run: run.fit.score)
    moves: list[Move] = []
    if invent:
        best = _invented(best, invent, moves, tally, generator)
    return _result(best, tuple(moves), tally)


# --------------------------------------------------------------------------------- one structure


@dataclass(frozen=True, eq=False)
class Setting:
    """Settings that do not depend on the hidden variables."""

    score: str
    options: dict[str, Any]
    constraints: Constraints | None
    prior: Prior
    inner: str
    max_iterations: int
    tolerance: float

    def __post_init__(self) -> None:
        if self.score not in SCORES:
            raise OptionError(
                f"structural EM needs a score of expected counts, {', '.join(SCORES)}, not"
                f" '{self.score}'{hint(self.score, SCORES)}",
                code="not-suited",
            )
        if self.inner not in _INNER:
            raise OptionError(f"the inner search is tabu or hill_climbing, not '{self.inner}'", code="unknown-word")

    @property
    def bayesian(self) -> bool:
        return self.score in _BAYESIAN


@dataclass
class Tally:
    """Counters of the work done so far."""

    e_steps: int = 0
    n_scored: int = 0


@dataclass(frozen=True, eq=False)
class _Fit:
    """A graph with its tables after EM.

    Attributes
    ----------
    expected : ndarray
        Expected number of each distinct completed row.
    score : float
        Observed score (penalised, or Cheeseman-Stutz) plus the log prior.
    """

    graph: nx.DiGraph
    tables: Tables
    log_likelihood: float
    expected: Array
    score: float


@dataclass(frozen=True, eq=False)
class _Run:
    """The result of one start."""

    task: Task
    fit: _Fit
    trace: tuple[float, ...]
    expected: tuple[tuple[float, float], ...]


@dataclass(frozen=True, eq=False)
class Task:
    """Rows with particular hidden variables, and the settings of the search."""

    rows: Incomplete
    setting: Setting

    @cached_property
    def constraints(self) -> Constraints:
        given, names = self.setting.constraints, self.rows.names
        if given is None:
            return Constraints(names)
        new = tuple(v for v in names if v not in given.names)
        candidates = {v: (*parents, *new) for v, parents in given.candidates.items()}
        return Constraints(names, given.required, given.forbidden, given.tiers, given.max_parents, candidates)

    @cached_property
    def prior(self) -> StructurePrior:
        return structure_prior(self.setting.prior)

    def parents(self, graph: nx.DiGraph) -> dict[str, tuple[str, ...]]:
        """Return the parents of each variable in the order of the columns."""
        place = {v: i for i, v in enumerate(self.rows.names)}
        return {v: tuple(sorted(graph.predecessors(v), key=place.__getitem__)) for v in self.rows.names}

    def scored(self, expected: Array) -> LocalScore:
        """Return the score on expected counts."""
        observations = self.rows.completions.observations(expected)
        return scores.load(self.setting.score, observations, **self.setting.options)

    def total(self, score: LocalScore, graph: nx.DiGraph) -> float:
        """Return the score on expected counts plus the log prior."""
        scorer = Scorer(score, None, self.prior)
        return sum(scorer.local(v, mask) for v, mask in enumerate(scorer.parents_of(graph)))

    def fitted(self, graph: nx.DiGraph, tables: Tables, tally: Tally) -> _Fit:
        """Run EM over the tables, and compute the observed score."""
        problem = GraphTables.of(self, graph)
        setting = self.setting
        if self.rows.complete:
            end = problem.update(problem.counts(self.rows.completions.weighted(np.zeros(problem.n))[1]), tables)
        else:
            limit = 10 * setting.max_iterations
            result = maximise(problem, tables, tolerance=setting.tolerance, max_iterations=limit)
            end = dict(result.parameters)
            # The last E-step gives the final expected counts.
            tally.e_steps += result.evaluations + 1
        log_likelihood, expected = problem.complete(end)
        counts = problem.counts(expected)
        # BIC is evaluated at its maximum for these counts; the Cheeseman-Stutz score at the tables.
        at = end if setting.bayesian else {v: _shares(n) for v, n in counts.items()}
        of_counts = sum(float(xlogy(counts[v], at[v]).sum()) for v in counts)
        total = self.total(self.scored(expected), graph)
        return _Fit(graph, end, log_likelihood, expected, log_likelihood + total - of_counts)


@dataclass(frozen=True, eq=False)
class GraphTables:
    """The tables of one graph as a problem for EM, over all completions of the rows."""

    task: Task
    index: Mapping[str, NDArray[np.int64]]
    shapes: Mapping[str, tuple[int, ...]]
    alphas: Mapping[str, float]

    @classmethod
    def of(cls, task: Task, graph: nx.DiGraph) -> GraphTables:
        rows, setting = task.rows, task.setting
        place, codes = {v: i for i, v in enumerate(rows.names)}, rows.completions.distinct.astype(np.int64)
        index, shapes, alphas = {}, {}, {}
        for v, parents in task.parents(graph).items():
            family = [place[u] for u in (*parents, v)]
            shapes[v] = tuple(int(rows.cards[u]) for u in family)
            index[v] = np.ravel_multi_index(tuple(codes[:, family].T), shapes[v])
            size = float(setting.options.get("equivalent_sample_size", 10.0)) / float(np.prod(shapes[v]))
            alphas[v] = {"bdeu": size, "k2": 1.0}.get(setting.score, 0.0)
        return cls(task, index, shapes, alphas)

    @property
    def n(self) -> int:
        """Number of distinct completions."""
        return len(self.task.rows.completions.distinct)

    def counts(self, expected: Array) -> dict[str, Array]:
        """Return the expected counts of the families."""
        sizes = {v: int(np.prod(shape)) for v, shape in self.shapes.items()}
        return {v: np.bincount(at, expected, sizes[v]).reshape(self.shapes[v]) for v, at in self.index.items()}

    def complete(self, theta: Tables) -> tuple[float, Array]:
        """Return the log likelihood and the expected number of each completion."""
        with np.errstate(divide="ignore"):
            logs = sum((np.log(theta[v].ravel())[at] for v, at in self.index.items()), np.zeros(self.n))
        return self.task.rows.completions.weighted(logs)

    def expect(self, theta: Tables) -> tuple[float, dict[str, Array]]:
        log_likelihood, expected = self.complete(theta)
        return log_likelihood, self.counts(expected)

    def update(self, statistics: Mapping[str, Array], theta: Tables) -> dict[str, Array]:
        return {v: _shares(n + self.alphas[v]) for v, n in statistics.items()}

    def log_prior(self, theta: Tables) -> float:
        """Log Dirichlet prior as a density of the logits of the tables, so that the mode equals the posterior mean."""
        return sum(a * float(np.log(theta[v]).sum()) for v, a in self.alphas.items() if a)


def _shares(counts: Array) -> Array:
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1.0 / counts.shape[-1])


# --------------------------------------------------------------------------------- one start


def _climb(task: Task, graph: nx.DiGraph, tally: Tally, rng: np.random.Generator) -> _Run:
    """Run structural EM from a graph until no graph is better."""
    fit = task.fitted(graph, first_tables(task, graph, rng), tally)
    trace, expected = [fit.score], []
    for _ in range(task.setting.max_iterations):
        score = task.scored(fit.expected)
        before = task.total(score, fit.graph)
        inner = searches.load(task.setting.inner).search(
            score, start=fit.graph, constraints=task.constraints, prior=task.prior
        )
        tally.n_scored += inner.n_scored
        expected.append((before, inner.score))
        if inner.score <= before + _GAIN:
            break
        counts = GraphTables.of(task, inner.graph).counts(fit.expected)
        tables = GraphTables.of(task, inner.graph).update(counts, fit.tables)
        after = task.fitted(inner.graph, tables, tally)
        if after.score <= fit.score + _GAIN:
            break
        fit = after
        trace.append(fit.score)
        if task.rows.complete:
            break
    return _Run(task, fit, tuple(trace), tuple(expected))


def first_tables(task: Task, graph: nx.DiGraph, rng: np.random.Generator) -> Tables:
    """Initial tables from equally probable completions; random for families with hidden variables.

    Tables that are symmetric in the states of a hidden variable are a saddle point that EM does not leave.
    """
    problem = GraphTables.of(task, graph)
    _, expected = task.rows.completions.weighted(np.zeros(problem.n))
    out = {}
    for v, n in problem.counts(expected).items():
        near = {v, *graph.predecessors(v)} & set(task.rows.hidden)
        noise = np.exp(rng.normal(0, 1.5, n.shape)) if near else 1.0
        out[v] = _shares((n + 1.0) * noise)
    return out


def _starts(
    task: Task, start: nx.DiGraph | None, many: int, tally: Tally, rng: np.random.Generator
) -> list[nx.DiGraph]:
    """Initial graphs, the simplest first."""
    return [graph for _, graph in zip(range(many), _start_graphs(task, start, tally, rng), strict=False)]


def _start_graphs(task: Task, start: nx.DiGraph | None, tally: Tally, rng: np.random.Generator) -> Iterator[nx.DiGraph]:
    rows, names = task.rows, task.rows.names
    observed = [v for v in names if v not in rows.hidden]
    bare = nx.DiGraph()
    bare.add_nodes_from(names)
    bare.add_edges_from(sorted(task.constraints.required))
    if start is not None:
        yield nx.compose(bare, start)
    if not rows.hidden:
        if start is None:
            yield bare
        whole = rows.whole_rows()
        if whole is not None and whole.n_rows >= rows.n_rows / 20:
            score = scores.load(task.setting.score, whole, **task.setting.options)
            load = searches.load(task.setting.inner).search
            yield load(score, constraints=task.constraints, prior=task.prior).graph
    else:
        plain = _without(task, rows.hidden)
        above = _climb(plain, _starts(plain, None, 1, tally, rng)[0], tally, rng).fit.graph
        yield _under(task, bare, dict.fromkeys(rows.hidden, observed))
        for where in _places(above):
            if len(rows.hidden) == 1:
                yield _beneath(task, above, rows.hidden[0], *where)
    while True:
        if rows.hidden:
            chosen = {h: [v for v in observed if rng.random() < 0.6] for h in rows.hidden}
            yield _under(task, bare, chosen)
        else:
            pairs = [
                (observed[i], observed[j]) for i, j in rng.integers(len(observed), size=(len(observed), 2)) if i != j
            ]
            yield _with_edges(task, bare, pairs)


def _without(task: Task, names: Iterable[str]) -> Task:
    """Return the task without some of the hidden variables."""
    left = {h: len(task.rows.states[h]) for h in task.rows.hidden if h not in set(names)}
    setting, gone = task.setting, set(names)
    given = setting.constraints
    if given is not None and gone & set(given.names):
        setting = replace(setting, constraints=_restricted(given, gone))
    return Task(task.rows.with_hidden(left), setting)


def _restricted(given: Constraints, gone: set[str]) -> Constraints:
    """Return the constraints without some variables."""

    def free(edges: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        return frozenset(edge for edge in edges if not gone & set(edge))

    limit = given.max_parents
    return Constraints(
        tuple(v for v in given.names if v not in gone),
        free(given.required),
        free(given.forbidden),
        tuple(tuple(v for v in tier if v not in gone) for tier in given.tiers),
        {v: k for v, k in limit.items() if v not in gone} if isinstance(limit, Mapping) else limit,
        {v: tuple(u for u in parents if u not in gone) for v, parents in given.candidates.items() if v not in gone},
    )


def _with_edges(task: Task, graph: nx.DiGraph, edges: Iterable[tuple[str, str]]) -> nx.DiGraph:
    """Add as many of the edges, in order, as constraints and acyclicity allow."""
    out, known = graph.copy(), task.constraints
    number = {v: i for i, v in enumerate(known.names)}
    for u, v in edges:
        room = out.in_degree(v) < known.limits[number[v]]
        if room and known.allowed[number[v], number[u]] and not nx.has_path(out, v, u):
            out.add_edge(u, v)
    return out


def _under(task: Task, graph: nx.DiGraph, children: Mapping[str, Sequence[str]]) -> nx.DiGraph:
    """Add hidden variables as parents of others."""
    return _with_edges(task, graph, [(h, v) for h, below in children.items() for v in below])


# --------------------------------------------------------------------------------- hidden variables


def _places(graph: nx.DiGraph) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Candidate positions (parents, children) of a hidden variable, from nearly complete sets of variables.

    If a hidden variable is omitted, its children become connected with each other and with its parents: in topological
    order, the first members of such a set may be its parents and the others its children.
    """
    order = list(nx.lexicographical_topological_sort(graph))
    skeleton = nx.Graph(graph.to_undirected())
    groups: dict[tuple[str, ...], None] = {}
    for clique in sorted(nx.find_cliques(skeleton), key=lambda c: (-len(c), sorted(c))):
        grown = _grown(skeleton, set(clique))
        if len(grown) >= 3:
            groups[tuple(sorted(grown, key=order.index))] = None
    sets = sorted(groups, key=lambda names: (-len(names), names)) or [
        tuple(sorted({v, *graph.successors(v)}, key=order.index)) for v in order if graph.out_degree(v) >= 1
    ]
    return [(names[:k], names[k:]) for names in sets for k in range(max(1, len(names) - 1))][:_PLACES]


def _grown(skeleton: nx.Graph, members: set[str]) -> set[str]:
    """Grow a semi-clique, in which each variable is connected to more than half of the others."""
    while True:
        for v in sorted(set(skeleton) - members):
            larger = members | {v}
            if all(2 * len(set(skeleton[u]) & larger) > len(larger) - 1 for u in larger):
                members = larger
                break
        else:
            return members


def _beneath(task: Task, graph: nx.DiGraph, name: str, above: Sequence[str], below: Sequence[str]) -> nx.DiGraph:
    """Insert a hidden variable that replaces the edges among its children and between its parents and children."""
    out = graph.copy()
    out.add_node(name)
    required = task.constraints.required
    parents = set(above) | {u for v in below for u in graph.predecessors(v)} - set(below)
    gone = [(u, v) for u, v in graph.edges if v in below and (u in below or u in parents) and (u, v) not in required]
    out.remove_edges_from(gone)
    edges = [(name, v) for v in below] + [(u, name) for u in sorted(parents)]
    return _with_edges(task, out, edges)


def _invented(run: _Run, limit: int, moves: list[Move], tally: Tally, rng: np.random.Generator) -> _Run:
    """Add, delete and resize hidden variables as long as the score increases."""
    invented = 0
    while True:
        tried = list(_changed(run, invented < limit, tally, rng))
        moves += [Move(what, run.fit.score, other.fit.score) for what, other in tried]
        what, best = max(tried, key=lambda pair: pair[1].fit.score, default=("", run))
        if not best.fit.score > run.fit.score + _GAIN:
            return run
        invented += what.startswith("add") - what.startswith("delete")
        run = best


def _changed(run: _Run, more: bool, tally: Tally, rng: np.random.Generator) -> Iterator[tuple[str, _Run]]:
    """Yield every change of the hidden variables: its description and its result."""
    hidden = run.task.rows.hidden
    if more:
        added = _added(run, tally, rng)
        name = added.task.rows.hidden[-1]
        yield f"add {name} with {len(added.task.rows.states[name])} states", added
    for h in hidden:
        card = len(run.task.rows.states[h])
        for k in (card + 1, card - 1):
            if k >= 2:
                yield f"{h}: {card} to {k} states", _resized(run, h, k, tally, rng)
        yield f"delete {h}", _deleted(run, h, tally, rng)


def _added(run: _Run, tally: Tally, rng: np.random.Generator) -> _Run:
    """Add one hidden variable in the best position, with 2, 3, ... states as long as the score increases.

    Two states may give no gain although more states do.
    """
    rows = run.task.rows
    name = next(f"hidden{i}" for i in range(1, 1000) if f"hidden{i}" not in rows.states)
    everything = (), tuple(v for v in rows.names if v not in rows.hidden)
    places = list(dict.fromkeys([everything, *_places(run.fit.graph)]))
    best: _Run | None = None
    for card in range(2, _STATES + 1):
        cards = {h: len(rows.states[h]) for h in rows.hidden} | {name: card}
        task = Task(rows.with_hidden(cards), run.task.setting)
        graphs = [_beneath(task, run.fit.graph, name, *where) for where in places for _ in range(_TRIES)]
        ends = [_climb(task, graph, tally, rng) for graph in graphs]
        candidate = max(ends, key=lambda end: end.fit.score)
        if best is not None and candidate.fit.score <= best.fit.score + _GAIN:
            break
        best = candidate
    assert best is not None
    return best


def _resized(run: _Run, name: str, card: int, tally: Tally, rng: np.random.Generator) -> _Run:
    rows = run.task.rows
    cards = {h: len(rows.states[h]) for h in rows.hidden} | {name: card}
    task = Task(rows.with_hidden(cards), run.task.setting)
    ends = [_climb(task, run.fit.graph, tally, rng) for _ in range(_TRIES)]
    return max(ends, key=lambda end: end.fit.score)


def _deleted(run: _Run, name: str, tally: Tally, rng: np.random.Generator) -> _Run:
    task, graph = _without(run.task, [name]), run.fit.graph.copy()
    graph.remove_node(name)
    return _climb(task, graph, tally, rng)


def _result(run: _Run, moves: tuple[Move, ...], tally: Tally) -> Completed:
    task, fit = run.task, run.fit
    network = DiscreteNetwork(dict(task.rows.states), task.parents(fit.graph), dict(fit.tables))
    hidden = {h: len(task.rows.states[h]) for h in task.rows.hidden}
    graph = nx.DiGraph()
    graph.add_nodes_from(task.rows.names)
    graph.add_edges_from(sorted(fit.graph.edges))
    observations = task.rows.completions.observations(fit.expected)
    return Completed(
        graph, fit.score, run.trace, tally.n_scored, network, fit.log_likelihood, run.expected, tally.e_steps, hidden,
        moves, observations,
    )  # fmt: skip


# --------------------------------------------------------------------------------- outer-inner baseline


def outer_inner(
    data: Any,
    *,
    score: str = "bic",
    score_options: Mapping[str, Any] | None = None,
    hidden: Mapping[str, int] | None = None,
    start: nx.DiGraph | None = None,
    constraints: Constraints | None = None,
    prior: Prior = "uniform",
    max_iterations: int = 100,
    tolerance: float = 1e-4,
    rng: np.random.Generator | None = None,
) -> Completed:
    """Hill climbing with a full EM run for every neighbour: slow, a reference for structural EM.

    Parameters
    ----------
    data, score, score_options, hidden, start, constraints, prior, max_iterations, tolerance, rng
        As in :func:`search`.
    """
    rows = Incomplete.of(data)
    rows = rows.with_hidden(hidden) if hidden else rows
    setting = Setting(score, dict(score_options or {}), constraints, prior, "tabu", max_iterations, tolerance)
    task, tally, generator = Task(rows, setting), Tally(), np.random.default_rng(0) if rng is None else rng
    graph = _starts(task, start, 1, tally, generator)[0]
    fit = task.fitted(graph, first_tables(task, graph, generator), tally)
    trace = [fit.score]
    for _ in range(max_iterations):
        tried = [task.fitted(g, first_tables(task, g, generator), tally) for g in _neighbours(task, fit.graph)]
        best = max(tried, key=lambda other: other.score, default=fit)
        if best.score <= fit.score + _GAIN:
            break
        fit = best
        trace.append(fit.score)
    return _result(_Run(task, fit, tuple(trace), ()), (), tally)


def _neighbours(task: Task, graph: nx.DiGraph) -> Iterator[nx.DiGraph]:
    """Yield the allowed graphs with one edge added, deleted or reversed."""
    required = task.constraints.required
    for u, v in combinations(task.rows.names, 2):
        without = graph.copy()
        there = [edge for edge in ((u, v), (v, u)) if graph.has_edge(*edge)]
        if any(edge in required for edge in there):
            continue
        without.remove_edges_from(there)
        if there:
            yield without
        for edge in ((u, v), (v, u)):
            other = _with_edges(task, without, [edge]) if edge not in there else without
            if other.has_edge(*edge):
                yield other
