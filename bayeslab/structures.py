"""Learn one structure of high score from data, and the network with that structure."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from bayeslab.arrays import count
from bayeslab.data.cells import Cells, number_in
from bayeslab.data.dataset import Column, slip_of
from bayeslab.data.frames import is_frame
from bayeslab.data.tables import read_dataset
from bayeslab.errors import DataError, EngineRefusal, ModelError, OptionError, hint
from bayeslab.families.bayes_net import structure_spec, unknown_structure
from bayeslab.families.bayes_net.net import state_words
from bayeslab.language.spec import DataSource, Model
from bayeslab.latents.networks.mixed_network import MixedNetwork
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.networks import Network
from bayeslab.plots.structure import pattern
from bayeslab.preparation import Source
from bayeslab.streams import stream
from bayeslab.structure import scores, searches
from bayeslab.structure.bootstrap import bootstrap
from bayeslab.structure.constraint_search import Removal, Result
from bayeslab.structure.constraints import Constraints
from bayeslab.structure.cpdag import compare, cpdag, extension, hamming_distance
from bayeslab.structure.data import CodedColumn, Observations, columns_of, measured, read_column
from bayeslab.structure.incomplete import Incomplete
from bayeslab.structure.partial_graph import PartialGraph
from bayeslab.structure.priors import EdgePrior
from bayeslab.structure.score_table import best_candidates, forecast
from bayeslab.structure.searches.exact import most_parents

if TYPE_CHECKING:
    import pandas as pd

    from bayeslab.structure.bootstrap import EdgeConfidence

__all__ = [
    "BY_SCORE",
    "BY_TESTS",
    "SEARCHES",
    "Learned",
    "comparison",
    "learn",
    "local_score",
    "read_rows",
    "refuse_slips",
    "suited_score",
]

# Searches by score, and by tests of independence. Other searches in the folder have their own functions.
BY_SCORE = (
    "tabu",
    "hill_climbing",
    "order_search",
    "annealing",
    "exact",
    "a_star",
    "ges",
    "mmhc",
    "greedy_parents",
    "chow_liu",
    "tan",
)
BY_TESTS = ("pc", "fci")
# The search that accepts missing cells; it computes expected counts.
_INCOMPLETE = "structural_em"
SEARCHES = (*BY_SCORE, *BY_TESTS, _INCOMPLETE)
# Equivalent sample size of the tables' prior, if the score has none.
_SAMPLE = 1.0
# Limits of the default method: variables for `exact`; seconds and megabytes of the table of parent sets.
_CERTIFIED, _PATIENCE, _ROOM = 12, 5.0, 500.0
# Seconds of `tabu` are about this number times the cube of the number of variables; and what the default may take.
_CLIMB, _LONGEST = 4e-7, 120.0
_OWN = ("source", "data", "constraints", "rng", "max_parents", "score", "score_options")


@dataclass(frozen=True, eq=False)
class Learned:
    """A structure learned from data.

    Attributes
    ----------
    method, criterion : str
        Names of the search and of the score.
    observations : Observations
    found : Found or Result
        The result that the search returned.
    local : LocalScore
        Scores of a variable given its parents.
    remark : str
        A remark about the result, for the user.
    again : callable, optional
        Repeats the search on other rows.
    """

    found: searches.Found | Result
    method: str
    criterion: str
    observations: Observations
    local: scores.LocalScore
    remark: str = ""
    again: Callable[[Any], Learned] | None = None

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The learned DAG; after a search by tests, one member of the equivalence class.

        Raises
        ------
        ModelError
            The tests' result is not an equivalence class of DAGs; after ``fci`` it never is.
        """
        if isinstance(self.found, searches.Found):
            return self.found.graph
        if self.method == "fci":
            raise ModelError(
                "fci finds a graph of what may be hidden, which is no Bayes net: pc, or a search by score, gives one",
                code="not-a-graph",
            )

        return extension(self.found.graph)

    @cached_property
    def pattern(self) -> PartialGraph:
        """The equivalence class: ``a → b`` if all members agree, ``a — b`` if the direction is not identified."""
        if isinstance(self.found, Result):
            return self.found.graph

        return cpdag(self.found.graph)

    @cached_property
    def score(self) -> float:
        """Log score of the graph plus, after a search by score, the log prior of structures."""
        if isinstance(self.found, searches.Found):
            return self.found.score
        number = {v: k for k, v in enumerate(self.local.names)}
        above = {v: tuple(sorted(number[u] for u in self.graph.predecessors(v))) for v in number}
        return sum(self.local.local(number[v], parents) for v, parents in above.items())

    @property
    def separators(self) -> Mapping[frozenset[str], Removal]:
        """For each pair without an edge, the conditioning set given which a test found it independent.

        Raises
        ------
        OptionError
            The search was by score, which removes no edges by tests.
        """
        if not isinstance(self.found, Result):
            raise OptionError(
                f"separating sets are of searches by tests, pc and fci; this one is {self.method}",
                code="not-applicable",
            )
        return {frozenset(removal.pair): removal for removal in self.found.trace}

    def plot(self) -> Any:
        """Draw the learned equivalence class, as a matplotlib figure.

        An arrow has the same direction in every graph of the class, a line does not. After ``fci``, a circle at an end
        stands for a tail or an arrowhead, and an edge with two arrowheads for a hidden common cause.
        """
        return pattern(self.pattern)

    @property
    def compelled(self) -> tuple[tuple[str, str], ...]:
        """Edges that have the same direction in every graph of the equivalence class."""
        return tuple(sorted(self.pattern.directed))

    def network(self, *, equivalent_sample_size: float = _SAMPLE) -> Network:
        """The network with tables at their posterior means, and least-squares fits for continuous variables.

        Parameters
        ----------
        equivalent_sample_size
            Equivalent sample size of the uniform prior of each table.
        """
        from bayeslab.latents.networks import learning, mixed_learning

        observations = self.observations
        parents = {v: tuple(self.graph.predecessors(v)) for v in observations.names}
        states = dict(zip(observations.names, observations.states, strict=True))
        discrete = {v: levels for v, levels in states.items() if levels}
        above = {v: parents[v] for v in discrete}
        if len(discrete) == len(states):
            prior = learning.equivalent_sample(discrete, above, equivalent_sample_size)
            if observations.elsewhere is not None:
                return Network(_tables_elsewhere(observations, above, prior))
            weights = np.asarray(observations.weights, dtype=float)
            return Network(learning.posterior_counts(observations.codes, discrete, above, prior, weights).mean())
        continuous = {v: parents[v] for v, levels in states.items() if not levels}
        columns = [k for k, v in enumerate(observations.names) if v in discrete]
        numbers = [k for k, v in enumerate(observations.names) if v in continuous]
        repeats = np.round(np.asarray(observations.weights, dtype=float)).astype(np.int64)
        blank = MixedNetwork.blank(discrete, above, continuous)
        codes, values = (
            np.repeat(a, repeats, axis=0) for a in (observations.codes[:, columns], observations.values[:, numbers])
        )
        return Network(mixed_learning.maximum_likelihood(blank, codes, values))

    def bootstrap(
        self, samples: int = 200, *, seed: int = 0, jobs: int = 1, scheduler: str | None = None
    ) -> EdgeConfidence:
        """Edge frequencies when the structure is learned again from bootstrap samples of the rows.

        Parameters
        ----------
        samples
            Number of samples.
        seed
            Seed of the samples.
        jobs, scheduler
            Number of processes that learn in parallel, or the address of a Dask scheduler (``tcp://host:8786``) whose
            workers do.

        Raises
        ------
        OptionError
            The search was not by score, or its rows are incomplete or not in memory.
        """

        if self.again is None or self.method not in BY_SCORE:
            raise OptionError(
                f"the bootstrap is of searches by score on complete rows, such as tabu; this one is {self.method}",
                code="not-applicable",
            )
        if self.observations.elsewhere is not None:
            raise OptionError(
                "the bootstrap draws rows, which are in DuckDB here: draw some of the file's rows", code="unsupported"
            )
        once = self.again
        rng = stream(count(seed, "seed"), "bootstrap")
        return bootstrap(
            self.observations,
            lambda rows: once(rows).graph,
            rng=rng,
            samples=samples,
            jobs=jobs,
            scheduler=scheduler,
        )

    def __repr__(self) -> str:
        if isinstance(self.found, Result):
            return f"<Learned by {self.method}: {self.pattern}>"
        edges = ", ".join(f"{a} → {b}" for a, b in self.graph.edges)
        return f"<Learned by {self.method}, {self.criterion} {self.score:,.3f}: {edges or 'no edges'}>"

    def _repr_html_(self) -> str | None:
        return None if self.method == "fci" else self.network()._repr_html_()


def _tables_elsewhere(
    observations: Observations, parents: Mapping[str, tuple[str, ...]], prior: Mapping[str, Any]
) -> DiscreteNetwork:
    """Posterior means of tables, from counts made outside memory (DuckDB)."""
    number, rows = {v: k for k, v in enumerate(observations.names)}, observations.elsewhere
    assert rows is not None
    tables = {}
    for v, above in parents.items():
        counts = rows.table([*(number[u] for u in above), number[v]], observations.cards.tolist()) + prior[v]
        tables[v] = counts / counts.sum(axis=-1, keepdims=True)
    return DiscreteNetwork(dict(zip(observations.names, observations.states, strict=True)), parents, tables)


def learn(
    data: Any,
    method: str | None = None,
    score: str | None = None,
    *,
    required: Iterable[str | Sequence[str]] = (),
    forbidden: Iterable[str | Sequence[str]] = (),
    tiers: Iterable[Sequence[str]] = (),
    max_parents: int | Mapping[str, int] | None = None,
    candidates: int | Mapping[str, Sequence[str]] | None = None,
    seed: int | None = None,
    score_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Learned:
    """Search for one structure of high score, or test for one.

    Parameters
    ----------
    data
        A dataframe, a mapping of columns, or the path of a table, without missing cells except for ``structural_em``.
        Or a model of the family bayes_net with an unknown structure, or the path of its file: its data, score,
        constraints, search and hidden variables are then the defaults of the arguments.
    method
        Searches by score: ``order_search``, ``tabu``, ``hill_climbing``, ``annealing``, ``greedy_parents``, ``ges``
        (over equivalence classes), ``mmhc`` (among neighbours found by tests), ``chow_liu`` (trees), ``tan`` (trees of
        attributes below ``target``); with a certified optimum, for small nets, ``exact`` and ``a_star``. Tests of
        independence: ``pc``, and ``fci`` if variables may be hidden. ``structural_em`` accepts missing cells and hidden
        variables (``hidden={"h": 3}``; ``invent`` is the most that it may add). Default: the best search that takes
        seconds, which is ``exact`` up to 12 variables, ``order_search`` if its table of parent sets is small, else
        ``tabu``.
    score
        For states: ``bdeu``, ``bds``, ``k2``, ``bic``, ``aic``, ``mdl``, ``log_likelihood``, ``noisy_or_bic``; for
        numbers: ``bge``, ``gaussian_bic``; for both: ``mixed_bic``. Default: ``bdeu`` if all columns hold states
        (words, or whole numbers of at most 20 distinct values), ``bge`` if all hold numbers, else ``mixed_bic``.
    required, forbidden : iterables of edges, ``"from -> to"`` or pairs
    tiers : groups of variables, earliest first
        No edge leads to an earlier tier.
    max_parents
    candidates
        Candidate parents of each variable: their number, in which case those that raise its score most as single
        parents are taken, or their names by variable.
    seed
        Seed of searches that draw random numbers.
    score_options
        Options of the score, such as ``{"equivalent_sample_size": 10}``.
    **options
        Options of the search, such as ``alpha`` of tests or ``restarts`` of ``hill_climbing``. Searches by score have
        the option ``prior``, over structures: ``"uniform"``, ``"sparse"``, or ``{"a -> b": 0.9, "default": 0.2}``.

    Raises
    ------
    DataError, ModelError, OptionError, EngineRefusal
        Cells are missing, constraints contradict each other, a name is unknown, or the search would be too costly.
    """
    required, forbidden = ([edges] if isinstance(edges, str) else list(edges) for edges in (required, forbidden))
    tiers = list(tiers)
    if isinstance(data, Model) or (isinstance(data, str | os.PathLike) and Path(data).suffix in (".yaml", ".yml")):
        given: dict[str, Any] = {"method": method, "score": score, "seed": seed, "score_options": score_options or None}
        given |= {"max_parents": max_parents, "candidates": candidates}
        given |= {"required": required or None, "forbidden": forbidden or None, "tiers": tiers or None}
        return _of_model(data, {word: value for word, value in given.items() if value is not None} | options)
    seed = count(seed or 0, "seed")
    if method is not None and method not in SEARCHES:
        raise OptionError(f"unknown search '{method}'{hint(method, SEARCHES)}", code="unknown-word")
    stated = (score_options or {}).get("states") or {}
    table = read_rows(data, stated)
    refuse_slips(table, stated)
    if method == _INCOMPLETE:
        if isinstance(table, Observations) and table.elsewhere is not None:
            raise OptionError(
                f"the search '{method}' needs the rows in memory; they are in DuckDB: take tabu", code="unsupported"
            )
        known_edges = {"required": required, "forbidden": forbidden, "tiers": tiers, "candidates": candidates}
        return _completed(
            table, score or "bic", score_options, options, seed, {**known_edges, "max_parents": max_parents}
        )
    word = score or suited_score(table, (score_options or {}).get("states") or ())
    observations, local = local_score(table, word, score_options)
    limits = Constraints.of(local.names, required=required, forbidden=forbidden, tiers=tiers, max_parents=max_parents)
    if candidates is not None:
        limits = _narrowed(local, limits, candidates)
    if method is None:
        method = _suited(local, limits, observations, options)
    search = searches.load(method).search
    arguments = _arguments(method, search, options, limits)
    known = inspect.signature(search).parameters
    if "rng" in known:
        arguments["rng"] = stream(seed, "search")
    if observations.elsewhere is not None and ("data" in known or "source" not in known):
        raise OptionError(
            f"the search '{method}' needs the rows in memory; they are in DuckDB: take tabu, or raise 'fetch'",
            code="unsupported",
        )
    if "data" in known and "source" in known:
        arguments["data"] = observations
    if isinstance(max_parents, int) and "max_parents" in known:
        arguments["max_parents"] = max_parents
    result = search(local if "source" in known else observations, **arguments)
    again = partial(
        learn, method=method, score=word, required=required, forbidden=forbidden, tiers=tiers, seed=seed,
        max_parents=max_parents, candidates=candidates, score_options=score_options, **options,
    )  # fmt: skip
    return Learned(result, method, word, observations, local, _remark(method, arguments, local.names, result), again)


def local_score(
    table: Any, word: str, score_options: Mapping[str, Any] | None = None
) -> tuple[Observations, scores.LocalScore]:
    """The observations as a score reads them, and the score of variables given their parents on them."""
    kind = {"bge": "continuous", "gaussian_bic": "continuous", "mixed_bic": "mixed"}.get(word, "discrete")
    given = dict(score_options or {})
    if "states" not in given:
        rows = Observations.of(table, kind=kind)  # type: ignore[arg-type]
        return rows, scores.load(word, rows, **given)
    local = scores.load(word, table, **given)
    with warnings.catch_warnings():
        # The score has already read the same columns and given their warnings.
        warnings.simplefilter("ignore", UserWarning)
        return Observations.of(table, kind=kind, states=given["states"]), local  # type: ignore[arg-type]


def _of_model(source: Any, given: Mapping[str, Any]) -> Learned:
    """Learn a structure with the settings of a model whose structure is unknown."""
    read = Source(source)
    with read.located():
        spec: Any = read.model.model
        if not structure_spec.unknown(spec):
            raise ModelError(
                "a structure is learned where it is unknown: family bayes_net with `structure: {}`",
                path=("model",),
                code="not-applicable",
            )
        bound = read.bound(None)
        if not bound.names():
            raise DataError("the model names no table to learn from", path=("data",), code="no-data")
        plan, structure = unknown_structure.plan(read.model, bound), spec.structure
        method = given.get("method", structure.search)
        arguments: dict[str, Any] = {"method": method, "score": structure.score, "seed": read.model.seed}
        arguments |= {word: getattr(structure, word) for word in ("required", "forbidden", "tiers", "candidates")}
        arguments["score_options"] = structure.score_options
        if "max_parents" in structure.model_fields_set:
            arguments["max_parents"] = structure.max_parents
        if method == _INCOMPLETE:
            bound.refuse_folded(f"searches by {_INCOMPLETE}")
            if not all(plan.states.values()):
                raise DataError(
                    f"the search '{_INCOMPLETE}' is for columns of states, and some hold numbers", code="not-states"
                )
            arguments |= {"hidden": structure.hidden, "invent": structure.invent or 0, "prior": plan.prior}
            rows: Any = Incomplete.of_codes(plan.codes, plan.states)
        else:
            plan.check_missing()
            for word in ("hidden", "prior"):
                if getattr(structure, word) not in ({}, "uniform"):
                    raise ModelError(
                        f"the search '{method}' has no `{word}`; take {_INCOMPLETE}",
                        path=(*structure_spec.PATH, word),
                        code="unknown-option",
                    )
            arguments["score"] = plan.word
            rows = plan.observations
        return learn(rows, **(arguments | dict(given)))


def read_rows(data: Any, states: Mapping[str, Iterable[Any]] | None = None) -> Any:
    """Read rows from a dataframe, a mapping of columns, or the path of a table, one value per row and column.

    Cells are read alike from all sources: words are stripped of surrounding spaces, and ``NA`` and similar words are
    missing unless they are among the ``states`` of the column.
    """
    if isinstance(data, Observations | Incomplete):
        return data
    source = DataSource()
    levels = state_words(states or {})
    if is_frame(data):
        # A dataframe already has the distinct words of its columns.
        columns = columns_of(data)
        quick = all(
            isinstance(c, CodedColumn) or (isinstance(c, np.ndarray) and c.dtype.kind in "iuf")
            for c in columns.values()
        )
        if quick and source.rows not in columns:
            cells = Cells.of(source, levels)
            return {
                name: column.read(cells.missing(name)) if isinstance(column, CodedColumn) else column
                for name, column in columns.items()
            }
    dataset = read_dataset(source, None, data, levels).complete()
    for name, column in dataset.columns.items():
        if column.values.ndim != 1:
            raise DataError(f"column '{name}' does not hold one value a row", code="not-a-column")
    return dataset


def refuse_slips(table: Any, known: Container[str]) -> None:
    """Refuse columns of numbers that contain a stray word, unless the states of the column are known."""

    if isinstance(table, Observations | Incomplete):
        return
    for name, column in columns_of(table).items():
        if isinstance(column, CodedColumn):
            if all(number_in(word) is None for word in column.words):
                continue
            column = Column(np.array([*column.words, ""])[column.codes], None, column.codes < 0)
        if isinstance(column, Column) and column.text and name not in known and (slip := slip_of(name, column)):
            raise DataError(slip, code="odd-cell")


def _completed(
    table: Any,
    score: str,
    score_options: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    seed: int,
    given: Mapping[str, Any],
) -> Learned:
    """Run structural EM; its expected counts replace the rows in the result."""
    from bayeslab.structure.searches import structural_em

    if isinstance(given["candidates"], int):
        raise OptionError(
            f"the search '{_INCOMPLETE}' takes candidates by variable, not a number of them", code="unsupported"
        )
    rows = Incomplete.of(table)
    hidden = options.get("hidden") or {}
    if not isinstance(hidden, Mapping):
        raise OptionError(
            f"hidden variables are given with their numbers of states, {{name: 2}}; given {hidden!r}", code="wrong-type"
        )
    limits = Constraints.of((*rows.names, *(h for h in hidden if h not in rows.names)), **given)
    arguments = _arguments(_INCOMPLETE, structural_em.search, options, limits)
    rng = stream(seed, "search")
    result = structural_em.search(rows, score=score, score_options=score_options, rng=rng, **arguments)
    observations = result.observations
    local = scores.load(score, observations, **dict(score_options or {}))
    filled = f"{result.e_steps:,} passes over the rows" if result.e_steps else "no cell is missing"
    invented = [f"'{h}' with {k} states is hidden" for h, k in result.hidden.items()]
    return Learned(result, _INCOMPLETE, score, observations, local, "; ".join([*invented, filled]))


def suited_score(table: Any, stated: Container[str] = ()) -> str:
    """The default score for the columns; ``stated`` are columns whose states are given."""
    if isinstance(table, Observations):
        continuous = table.continuous
        return "bdeu" if not continuous.any() else "bge" if continuous.all() else "mixed_bic"
    columns = [None if v in stated else _as_column(v, column) for v, column in columns_of(table).items()]
    if not any(column is not None and measured(column.values[~column.absent()]) for column in columns):
        return "bdeu"
    return "mixed_bic" if None in columns else "bge"


def _as_column(name: str, column: Any) -> Column | None:
    """The column if it holds numbers; None if it holds text or truth values."""
    if isinstance(column, CodedColumn):
        return None
    column = read_column(name, column)
    return None if column.text or column.truth else column


def _suited(
    local: scores.LocalScore, limits: Constraints, observations: Observations, options: Mapping[str, Any]
) -> str:
    """The default search: the best that takes a few seconds and has the given options."""

    n = len(local.names)
    candidates = [("exact", n - 1)] if n <= _CERTIFIED else []
    candidates += [("order_search", 3)]
    if observations.elsewhere is None:
        for method, most in candidates:
            known = inspect.signature(searches.load(method).search).parameters
            cost = forecast(local, limits.allowed, np.minimum(limits.limits, most))
            if set(options) <= set(known) and cost.seconds <= _PATIENCE and cost.megabytes <= _ROOM:
                return method
    seconds = _CLIMB * n**3
    if seconds > _LONGEST:
        widest = round((_LONGEST / _CLIMB) ** (1 / 3))
        raise EngineRefusal(
            f"the default search over {n:,} variables would take about {seconds / 60:,.0f} minutes. Learn from fewer"
            f" columns ({widest} take two minutes), or name a search: method tabu with reinsertion: false takes about"
            " an eighth, method tabu all of it",
            code="too-costly",
        )
    known = inspect.signature(searches.load("tabu").search).parameters
    return "tabu" if set(options) <= set(known) else "hill_climbing"


def _narrowed(
    local: scores.LocalScore, limits: Constraints, candidates: int | Mapping[str, Sequence[str]]
) -> Constraints:
    """The constraints with candidate parents added."""
    if not isinstance(candidates, Mapping):
        if not isinstance(candidates, int) or isinstance(candidates, bool) or candidates < 0:
            raise OptionError(
                f"candidates is a whole number of parents, 0 or more; given {candidates!r}", code="out-of-range"
            )
        possible = best_candidates(local, candidates, limits.allowed) | limits.needed
        given = {v: tuple(limits.names[u] for u in np.flatnonzero(possible[k])) for k, v in enumerate(limits.names)}
    else:
        given = {v: tuple(parents) for v, parents in candidates.items()}
    return replace(limits, candidates=given)


def _arguments(method: str, search: Any, options: Mapping[str, Any], limits: Constraints) -> dict[str, Any]:
    """The keyword arguments of a search, from its options and the constraints."""
    known = inspect.signature(search).parameters
    offered = [word for word in known if word not in _OWN]
    for word, value in options.items():
        if word not in offered:
            raise OptionError(
                f"the search '{method}' has no option '{word}'{hint(word, offered)}", code="unknown-option"
            )
        scores.check_number(known[word], value)
    for word in offered:
        if known[word].default is inspect.Parameter.empty and word not in options:
            raise OptionError(f"the search '{method}' needs the option '{word}'", code="incomplete")
    free = limits == Constraints(limits.names)
    if "constraints" not in known and not free:
        raise OptionError(f"the search '{method}' takes no constraints; use tabu", code="unsupported")
    arguments = dict(options)
    if isinstance(arguments.get("prior"), Mapping):
        arguments["prior"] = EdgePrior.of_words(limits.names, arguments["prior"])
    return arguments | ({"constraints": limits} if "constraints" in known and not free else {})


def _remark(method: str, arguments: Mapping[str, Any], names: Sequence[str], result: Any) -> str:
    if isinstance(result, Result):
        return "; ".join(result.conflicts)
    if method not in ("exact", "a_star"):
        return ""

    most = most_parents(len(names), arguments.get("max_parents"))
    limited = f" with at most {most} parents a variable" if most < len(names) - 1 else ""
    limits = arguments.get("constraints")
    known = limits is not None and replace(limits, max_parents=None) != Constraints(limits.names)
    kept = " that keeps the constraints" if known else ""
    return f"certified: no graph{limited}{kept} has a higher score"


def comparison(results: Sequence[Learned], truth: nx.DiGraph | None = None) -> pd.DataFrame:
    """Compare results in a table with one row each, best score first.

    Parameters
    ----------
    results
        Results for the same data and score.
    truth
        The true graph. Adds columns: ``precision`` and ``recall`` of edges regardless of direction, the same for
        compelled arrows (``arrow_precision``, ``arrow_recall``), and structural Hamming distances, of the graphs
        (``shd``) and of the equivalence classes (``shd_class``). For ``fci``, columns that need a DAG are missing.
    """

    import pandas as pd

    rows = []
    for one in results:
        if not isinstance(one, Learned):
            raise OptionError(f"results are what bl.learn gives; given: {type(one).__name__}", code="wrong-type")
        graph = None if one.method == "fci" else one.graph
        row: dict[str, Any] = {"method": one.method, "score": np.nan if graph is None else one.score}
        row["edges"] = one.pattern.n_edges
        if truth is not None:
            right = compare(one.pattern, cpdag(truth))
            row |= {"precision": right.skeleton.precision, "recall": right.skeleton.recall}
            row |= {"arrow_precision": right.arrows.precision, "arrow_recall": right.arrows.recall}
            row |= {"shd": None if graph is None else hamming_distance(graph, truth), "shd_class": right.distance}
        rows.append(row)
    frame = pd.DataFrame(rows)
    if truth is not None:  # integer columns stay integers although fci has missing values
        frame["shd"] = pd.Series([row["shd"] for row in rows], dtype=object)
    return frame.sort_values("score", ascending=False, kind="stable", ignore_index=True)
