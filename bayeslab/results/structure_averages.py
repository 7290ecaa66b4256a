r"""Answers averaged over sampled structures and their parameters.

*Queries* are about a new case. Its evidence e also informs the structures and parameters:

.. math:: P(y \mid e, D) =
   \frac{\sum_G P(G \mid D)\, E[P(y, e \mid \theta, G)]}{\sum_G P(G \mid D)\, E[P(e \mid \theta, G)]}

In a discrete net the rows of tables are independent given the structure and each enters a joint probability once. So
the expectations are probabilities under the posterior means of the tables, and no draws of parameters are needed. In
nets with continuous variables parameters are drawn. The interval is that of P(y | e, θ, G) over draws of θ and G with
weights P(e | θ, G), so that its mean is the answer [3]_.

*Effects* are averaged over the posterior given the data alone. Given a structure, an intervention on x has the
truncated factorisation [1]_. In a Gaussian net the effect of one unit of x on y is the sum over directed paths of
products of slopes, which are independent of each other [2]_, so that means are exact here too.

References
----------
.. [1] Pearl (2009). Causality, 2nd ed., section 3.2.
.. [2] Geiger, Heckerman (2002). Parameter priors for directed acyclic graphical models. Annals of Statistics 30,
   1412-1440.
.. [3] Madigan, Raftery (1994). Model selection and accounting for model uncertainty in graphical models using Occam's
   window. JASA 89, 1535-1546.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from bayeslab.arrays import number
from bayeslab.errors import EvidenceError, OptionError, hint
from bayeslab.latents.networks import strong_junction_tree
from bayeslab.latents.networks.factors import read_evidence
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.mixed_network import MixedNetwork
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.strong_junction_tree import NormalMixture
from bayeslab.networks import Query
from bayeslab.questions import check_evidence, names_of
from bayeslab.results.structure_checks import mean_error
from bayeslab.streams import stream
from bayeslab.structure import causal

if TYPE_CHECKING:
    import pandas as pd

    from bayeslab.results.structure_draws import StructureDraws
__all__ = ["AveragedQuery", "Effect", "average_effect", "interventional", "linear_effects", "predictions", "query"]

Array = NDArray[np.float64]
type Parents = list[tuple[int, ...]]
# Number of graphs to average over, and number of parameter draws for an interval.
_GRAPHS, _DRAWS = 1000, 400


# --------------------------------------------------------------------------------- which draws


@dataclass(frozen=True, eq=False)
class _Chosen:
    """The draws to average over, as indices of distinct cases, shape (chain, draw).

    A case is a distinct graph; with missing cells, a distinct pair of a graph and a completion of the cells.
    """

    structures: StructureDraws
    of_draw: NDArray[np.int64]

    @classmethod
    def of(cls, structures: StructureDraws, most: int) -> _Chosen:
        """All draws if they have few cases, else evenly spaced draws."""
        if most < 1:
            raise OptionError(f"the number of draws to average over is 1 or more, not {most}", code="out-of-range")
        every = structures.of_case
        if every.max(initial=0) < most:
            return cls(structures, every)
        return cls.spaced(structures, most)

    @classmethod
    def spaced(cls, structures: StructureDraws, most: int) -> _Chosen:
        every = structures.of_case
        chains, draws = every.shape
        if not draws:
            raise OptionError("none of these draws has its imputed cells stored: ask for more draws", code="not-kept")
        per_chain = max(1, min(draws, most // chains))
        return cls(structures, every[:, np.linspace(0, draws - 1, per_chain).round().astype(int)])

    def each_case(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The distinct cases, and for each draw the index of its case."""
        cases, of_draw = np.unique(self.of_draw, return_inverse=True)
        return cases, of_draw.reshape(self.of_draw.shape)

    @property
    def n_graphs(self) -> int:
        """Number of distinct graphs."""
        return len({self.structures.graph_of(case) for case in np.unique(self.of_draw).tolist()})

    def parents(self) -> dict[int, Parents]:
        """The parents of each variable, by case."""
        structures = self.structures
        return {case: structures.parents(structures.graph_of(case)) for case in np.unique(self.of_draw).tolist()}

    def means(self, part: Callable[[Parents], _Part] | None = None) -> Iterator[DiscreteNetwork | MixedNetwork]:
        """Yield the net of each case at the posterior means of its parameters, or a part of it."""
        parts = self._parts(part)
        return (
            self.structures.learned(case).mean(case_part.parents, case_part.among) for case, case_part in parts.items()
        )

    def nets(
        self, rng: np.random.Generator, part: Callable[[Parents], _Part] | None = None
    ) -> Iterator[DiscreteNetwork | MixedNetwork]:
        """Yield the net of each draw, chain by chain, with parameters drawn from their posterior, or a part of it."""
        parts = self._parts(part)
        drawn = ((self.structures.learned(case), parts[case]) for case in self.of_draw.ravel().tolist())
        return (learned.draw(case_part.parents, rng, case_part.among) for learned, case_part in drawn)

    def _parts(self, part: Callable[[Parents], _Part] | None) -> dict[int, _Part]:
        parts = {case: part(parents) if part else _Part(parents, None) for case, parents in self.parents().items()}
        self.structures.prepare((v, one.parents[v]) for one in parts.values() for v in one.variables)
        return parts


@dataclass(frozen=True, slots=True)
class _Part:
    """A graph, and its relevant variables; None: all."""

    parents: Parents
    among: frozenset[int] | None

    @property
    def variables(self) -> Iterable[int]:
        return range(len(self.parents)) if self.among is None else self.among


@dataclass(frozen=True)
class _Above:
    """The ancestral part of a graph for some variables, with the edges into given variables cut."""

    wanted: frozenset[int]
    cut: frozenset[int] = frozenset()

    def __call__(self, parents: Parents) -> _Part:
        kept: Parents = [() if v in self.cut else above for v, above in enumerate(parents)]
        ancestors, stack = set(self.wanted), list(self.wanted)
        while stack:
            new = [u for u in kept[stack.pop()] if u not in ancestors]
            ancestors.update(new)
            stack += new
        return _Part(kept, frozenset(ancestors))


def _tails(ci_prob: float) -> tuple[float, float]:
    number(ci_prob, "ci_prob", 0, 1, above=True, below=True)
    return (1 - ci_prob) / 2, (1 + ci_prob) / 2


def _quantiles(values: Array, weights: Array, probabilities: Sequence[float]) -> Array:
    """Weighted quantiles along the first axis."""
    order = np.argsort(values, axis=0)
    ordered = np.take_along_axis(values, order, axis=0)
    share = np.cumsum(weights[order], axis=0) / weights.sum()
    last = len(values) - 1
    places = [np.minimum((share < p).sum(axis=0), last) for p in probabilities]
    return np.stack([np.take_along_axis(ordered, place[None], axis=0)[0] for place in places])


def _ratio_error(top: Array, bottom: Array) -> Array:
    """Monte Carlo standard errors of mean(top) / mean(bottom), for series (..., chain, draw) and (chain, draw)."""
    ratio = top.mean(axis=(-1, -2)) / bottom.mean()
    away = (top - ratio[..., None, None] * bottom) / bottom.mean()
    # If top is a multiple of bottom, only rounding is left, which is not a Monte Carlo error.
    away[np.abs(away) < 1e-12] = 0.0
    return mean_error(away)[0]


# --------------------------------------------------------------------------------- queries


@dataclass(frozen=True, eq=False, repr=False)
class AveragedQuery(Query):
    """Posterior distributions of the variables of a new case, averaged over structures and parameters.

    Attributes
    ----------
    errors : mapping
        Monte Carlo standard errors of the probabilities.
    intervals : mapping of str to mapping of str to (float, float)
        Interval of the probability of each state over structures and parameters; for a continuous variable, under
        ``mean``, the interval of its mean.
    ci_prob : float
        Probability of the intervals.
    n_graphs : int
        Number of distinct graphs in the average.
    """

    intervals: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    ci_prob: float = 0.89
    n_graphs: int = 0

    def __repr__(self) -> str:
        worst = max((e for errors in self.errors.values() for e in errors.values()), default=0.0)
        error = f", Monte Carlo errors up to {worst:.2g}" if worst else ""
        return f"{super().__repr__()}\naveraged over {self.n_graphs:,} graphs{error}"

    def to_frame(self) -> pd.DataFrame:
        """A table with one row per state: variable, state, probability, error, and the ends of the interval."""
        frame = super().to_frame()
        percent = f"{100 * self.ci_prob:g}"
        rows = zip(frame["variable"], frame["state"] if "state" in frame else [None] * len(frame), strict=True)
        ends = [self.intervals[v]["mean" if v in self.continuous else s] for v, s in rows]
        frame[f"eti{percent}_lb"], frame[f"eti{percent}_ub"] = zip(*ends, strict=True) if ends else ((), ())
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        spans = {v: {s: list(ends) for s, ends in intervals.items()} for v, intervals in self.intervals.items()}
        return super().to_dict() | {"intervals": spans, "ci_prob": self.ci_prob, "n_graphs": self.n_graphs}


def query(
    structures: StructureDraws,
    given: Mapping[str, Any] | None = None,
    targets: str | Iterable[str] | None = None,
    *,
    do: Mapping[str, Any] | None = None,
    ci_prob: float = 0.89,
    graphs: int = _GRAPHS,
    draws: int = _DRAWS,
    seed: int | None = None,
) -> AveragedQuery:
    """Posterior distributions of the variables of a new case, averaged over structures and parameters.

    Parameters
    ----------
    given
        The evidence: for each observed variable its state (or value, if continuous), or ``{state: likelihood}``.
    targets
        The variables whose posteriors are returned; None: all.
    do
        The interventions: variable to its state (or value). An intervention is no evidence about the structure.
    ci_prob
        Probability of the equal-tailed intervals.
    graphs, draws
        Maximum number of graphs in the average, evenly spaced draws if there are more; and number of draws of graph
        and parameters for the intervals.
    seed
        Seed of the draws of parameters.

    Raises
    ------
    EvidenceError
        An unknown variable or state, or evidence of probability zero.
    """
    low, high = _tails(ci_prob)
    check_evidence(given)
    check_evidence(do, "do")
    wanted = list(structures.names) if targets is None else names_of(targets)
    known, acts = dict(given or {}), dict(do or {})
    for v in (*wanted, *known, *acts):
        if v not in structures.names:
            raise EvidenceError(f"'{v}' is not a variable{hint(v, structures.names)}", code="unknown-variable")
    rng = stream(structures.seed if seed is None else seed, "parameters")
    number = structures.names.index
    part = _Above(frozenset(map(number, (*wanted, *known, *acts))), frozenset(map(number, acts)))
    ask = _Ask(known, wanted, acts)
    spaced = _Chosen.spaced(structures, draws)
    drawn = _Answers.of(ask(net) for net in spaced.nets(rng, part))
    chosen, answers = spaced, drawn
    order = np.arange(spaced.of_draw.size).reshape(spaced.of_draw.shape)
    if structures.discrete:
        chosen = _Chosen.of(structures, graphs)
        answers, order = _Answers.of(ask(net) for net in chosen.means(part)), chosen.each_case()[1]
    weight = answers.weights[order]
    if not weight.sum() > 0:
        raise EvidenceError(
            f"what is given has probability zero in every sampled structure: {_listed(known)}", code="probability-zero"
        )
    marginals, errors, intervals = {}, {}, {}
    for v, values in answers.marginals.items():
        states = structures.states[v]
        series = np.moveaxis(values[order], -1, 0) * weight
        ends = _quantiles(drawn.marginals[v], drawn.weights, (low, high))
        marginals[v] = dict(zip(states, (series.mean(axis=(1, 2)) / weight.mean()).tolist(), strict=True))
        errors[v] = dict(zip(states, _ratio_error(series, weight).tolist(), strict=True))
        intervals[v] = dict(zip(states, zip(*ends.tolist(), strict=True), strict=True))
    continuous = {}
    for v, mixtures in answers.continuous.items():
        continuous[v] = _joined(mixtures, answers.weights)
        ends = _quantiles(np.array([m.mean for m in mixtures]), answers.weights, (low, high))
        intervals[v] = {"mean": (float(ends[0]), float(ends[1]))}
    log_evidence = float(np.log(weight.mean()) + answers.scale) if known else 0.0
    n_graphs = chosen.n_graphs
    shown = known | {f"do({v})": s for v, s in acts.items()}
    return AveragedQuery(
        structures.consensus(), shown, log_evidence, marginals, continuous, errors, intervals, ci_prob, n_graphs
    )


def _listed(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{v} = {s}" for v, s in given.items())


@dataclass(frozen=True, eq=False)
class _Ask:
    """Query one net: log evidence, marginals of discrete variables, and mixtures for continuous ones."""

    given: dict[str, Any]
    targets: list[str]
    do: dict[str, Any]

    def __call__(self, net: DiscreteNetwork | MixedNetwork) -> tuple[float, dict[str, Array], dict[str, Any]]:

        if isinstance(net, DiscreteNetwork):
            acted = causal.intervene(net, self.do) if self.do else net
            try:
                result = JunctionTree.of(acted).query(self.given, self.targets)
            except EvidenceError as error:
                return self._impossible(net, error)
            return result.log_evidence, dict(result.marginals), {}
        acted_mixed = net.do(self.do) if self.do else net
        answer = strong_junction_tree.query(acted_mixed, self.given, self.targets)
        return answer.log_evidence, dict(answer.discrete), dict(answer.continuous)

    def _impossible(self, net: DiscreteNetwork, error: EvidenceError) -> tuple[float, dict[str, Array], dict[str, Any]]:
        """The answer of a net in which the evidence has probability zero: weight zero. Other errors are raised."""

        read_evidence(net.states, self.given)
        if not self.given:
            raise error
        return -np.inf, {v: np.zeros(len(net.states[v])) for v in self.targets}, {}


@dataclass(frozen=True, eq=False)
class _Answers:
    """Answers of several nets: weights relative to exp(scale), and marginals by variable (nets on the first axis)."""

    weights: Array
    scale: float
    marginals: dict[str, Array]
    continuous: dict[str, list[Any]]

    @classmethod
    def of(cls, answers: Iterable[tuple[float, dict[str, Array], dict[str, Any]]]) -> _Answers:
        logs, discrete, mixtures = zip(*answers, strict=True)
        log_evidence = np.array(logs, dtype=float)
        scale = float(log_evidence.max())
        weights = np.exp(log_evidence - scale) if np.isfinite(scale) else np.zeros(len(log_evidence))
        marginals = {v: np.stack([one[v] for one in discrete]) for v in discrete[0]}
        return cls(weights, scale, marginals, {v: [one[v] for one in mixtures] for v in mixtures[0]})


def _joined(mixtures: Sequence[Any], weights: Array) -> Any:
    """The weighted mixture of the mixtures of several nets."""

    share = weights / weights.sum()
    parts = [np.concatenate([np.atleast_1d(getattr(m, name)) for m in mixtures]) for name in ("means", "sds")]
    every = np.concatenate([w * np.atleast_1d(m.weights) for w, m in zip(share, mixtures, strict=True)])
    return NormalMixture.collapsed(every, *parts)


def predictions(
    structures: StructureDraws,
    codes: NDArray[np.integer],
    targets: Sequence[str],
    *,
    graphs: int = _GRAPHS,
) -> tuple[dict[str, Array], Array]:
    """Probabilities of the states of the targets for rows of evidence, and the log evidence of each row.

    Parameters
    ----------
    codes : ndarray of int, shape (n_rows, n_variables)
        Codes of states, -1 for unobserved cells.
    targets
        Discrete variables; if rows have values of them, these are evidence too.
    """

    if not structures.discrete:
        raise OptionError(
            "tables of predictions are for variables with states; query row by row", code="not-applicable"
        )
    chosen = _Chosen.of(structures, graphs)
    _, order = chosen.each_case()
    counts = np.bincount(order.ravel()).astype(float)
    distinct, back = np.unique(codes, axis=0, return_inverse=True)
    states = structures.states
    total = {v: np.zeros((len(distinct), len(states[v]))) for v in targets}
    weight, scale = np.zeros(len(distinct)), np.full(len(distinct), -np.inf)
    for net, count in zip(chosen.means(), counts, strict=True):
        assert isinstance(net, DiscreteNetwork)
        answer = JunctionTree.of(net).query_many(distinct, targets)
        higher = np.maximum(scale, answer.log_evidence)
        safe = np.where(np.isfinite(higher), higher, 0.0)
        added, kept = count * np.exp(answer.log_evidence - safe), np.exp(scale - safe)
        weight, scale = weight * kept + added, higher
        for v in targets:
            share = np.where(added[:, None] > 0, answer.marginals[v], 0.0)
            total[v] = total[v] * kept[:, None] + added[:, None] * share
    back = back.ravel()
    with np.errstate(divide="ignore", invalid="ignore"):
        log_evidence = np.log(weight) + scale - np.log(counts.sum())
        return {v: (t / weight[:, None])[back] for v, t in total.items()}, log_evidence[back]


# --------------------------------------------------------------------------------- effects


@dataclass(frozen=True, eq=False)
class Effect:
    """The causal effect of one variable on another, averaged over structures and parameters.

    Attributes
    ----------
    treatment, outcome : str
    contrast : tuple
        The states (or values) of the treatment that are compared, from and to.
    mean, sd : float
        Mean and standard deviation of the effect over structures and parameters.
    mcse : float
        Monte Carlo standard error of the mean.
    interval : tuple of float
        Equal-tailed interval of probability ``ci_prob``.
    path : float
        Probability of any effect, that is of a directed path from treatment to outcome.
    draws : ndarray, shape (chain, draw)
        Effects at draws of structure and parameters.
    """

    treatment: str
    outcome: str
    contrast: tuple[Any, Any]
    mean: float
    sd: float
    mcse: float
    interval: tuple[float, float]
    ci_prob: float
    path: float
    draws: Array

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"<effect of {self.treatment} ({self.contrast[0]} → {self.contrast[1]}) on {self.outcome}:"
            f" {self.mean:.4g} ± {self.mcse:.2g}, {100 * self.ci_prob:g}% in [{low:.4g}, {high:.4g}],"
            f" probability of any {self.path:.3g}>"
        )


def average_effect(
    structures: StructureDraws,
    treatment: str,
    outcome: str,
    *,
    values: str | Mapping[str, float] | None = None,
    contrast: tuple[Any, Any] | None = None,
    ci_prob: float = 0.89,
    graphs: int = _GRAPHS,
    draws: int = _DRAWS,
    seed: int | None = None,
) -> Effect:
    """E[outcome | do(treatment = second)] − E[outcome | do(treatment = first)], averaged over structures.

    Parameters
    ----------
    values
        For a discrete outcome: a number for each state, or the state whose probability is the outcome. Default: the
        second of two states.
    contrast
        The two states (or values, if continuous) of the treatment, from and to. Default: its two states in order, or
        one unit of a continuous treatment.
    ci_prob, graphs, draws, seed
        As in :func:`query`.
    """
    measure = _Measure.of(structures, treatment, outcome, values, contrast)
    averages = _Averages.of(structures, measure, measure.part, ci_prob=ci_prob, graphs=graphs, draws=draws, seed=seed)
    (mean, path), (error, _), drawn = averages.mean, averages.error, averages.drawn[0]
    sd = float(np.sqrt(np.mean((drawn - mean) ** 2)))
    span = (float(averages.ends[0, 0]), float(averages.ends[1, 0]))
    return Effect(
        treatment, outcome, measure.contrast, float(mean), sd, float(error), span, ci_prob, float(path), drawn
    )


@dataclass(frozen=True, eq=False)
class _Averages:
    """Quantities computed from nets, averaged over structures and parameters.

    Attributes
    ----------
    series : ndarray, shape (..., chain, draw)
        Quantities at the posterior means of the parameters.
    drawn : ndarray, shape (..., chain, draw)
        Quantities at draws of the parameters, for fewer draws of the graph.
    ends : ndarray, shape (2, ...)
        Quantiles of ``drawn``.
    """

    series: Array
    drawn: Array
    ends: Array

    @classmethod
    def of(
        cls,
        structures: StructureDraws,
        asked: Callable[[DiscreteNetwork | MixedNetwork], Array],
        part: Callable[[Parents], _Part] | None = None,
        *,
        ci_prob: float,
        graphs: int,
        draws: int,
        seed: int | None,
    ) -> _Averages:
        tails = _tails(ci_prob)
        chosen, spaced = _Chosen.of(structures, graphs), _Chosen.spaced(structures, draws)
        rng = stream(structures.seed if seed is None else seed, "parameters")
        cases = np.stack([asked(net) for net in chosen.means(part)])
        drawn = np.stack([asked(net) for net in spaced.nets(rng, part)])
        series = np.moveaxis(cases[chosen.each_case()[1]], (0, 1), (-2, -1))
        by_draw = np.moveaxis(drawn, 0, -1).reshape(*drawn.shape[1:], *spaced.of_draw.shape)
        return cls(series, by_draw, np.quantile(drawn, tails, axis=0))

    @property
    def mean(self) -> Array:
        return np.asarray(self.series.mean(axis=(-1, -2)))

    @property
    def error(self) -> Array:
        """Monte Carlo standard errors of the means."""
        return mean_error(self.series)[0]


@dataclass(frozen=True, eq=False)
class _Measure:
    """The effect in one net with the edges into the treatment cut, and whether a directed path exists."""

    treatment: str
    outcome: str
    contrast: tuple[Any, Any]
    scores: Array | None
    part: _Above

    @classmethod
    def of(cls, structures: StructureDraws, treatment: str, outcome: str, values: Any, contrast: Any) -> _Measure:
        states = structures.states_of
        x, y = structures.variable(treatment), structures.variable(outcome)
        if treatment == outcome:
            raise OptionError(f"treatment and outcome are the same variable, '{treatment}'", code="self-reference")
        options = states[treatment]
        if contrast is None:
            if options and len(options) != 2:
                raise OptionError(
                    f"'{treatment}' has {len(options)} states: choose two to compare (contrast)", code="incomplete"
                )
            contrast = options[:2] or (0.0, 1.0)
        for state in contrast if options else ():
            if state not in options:
                raise OptionError(
                    f"'{state}' is not a state of '{treatment}'{hint(str(state), options)}", code="unknown-state"
                )
        first, second = contrast
        levels = states[outcome]
        if not levels and values is not None:
            raise OptionError(f"'{outcome}' is continuous; `values` is for outcomes with states", code="not-applicable")
        scores = causal._scores(levels, outcome, values) if levels else None
        return cls(treatment, outcome, (first, second), scores, _Above(frozenset({x, y}), frozenset({x})))

    def __call__(self, net: DiscreteNetwork | MixedNetwork) -> Array:
        """The effect, and 1 if a directed path leads from treatment to outcome, else 0."""
        if not nx.has_path(net.graph, self.treatment, self.outcome):
            return np.zeros(2)
        return np.array([self._effect(net), 1.0])

    def _effect(self, net: DiscreteNetwork | MixedNetwork) -> float:

        if isinstance(net, DiscreteNetwork):
            assert self.scores is not None
            means = _after(net, self.treatment, self.outcome) @ self.scores
            first, second = (means[net.states[self.treatment].index(state)] for state in self.contrast)
            return float(second - first)
        if not net.states:
            names = list(net.continuous)
            step = float(self.contrast[1]) - float(self.contrast[0])
            return step * float(_total_effects(net, names)[names.index(self.treatment), names.index(self.outcome)])
        ends = []
        for state in self.contrast:
            answer = strong_junction_tree.query(net.do({self.treatment: state}), None, [self.outcome])
            mean = (
                answer.continuous[self.outcome].mean
                if self.scores is None
                else answer.discrete[self.outcome] @ self.scores
            )
            ends.append(float(mean))
        return ends[1] - ends[0]


def _after(net: DiscreteNetwork, treatment: str, outcome: str) -> Array:
    """P(outcome | do(treatment)), one row per state of the treatment, which must have no parents in the net."""

    n = len(net.states[treatment])
    codes = np.full((n, len(net.states)), -1, np.int64)
    codes[:, list(net.states).index(treatment)] = np.arange(n)
    even = causal.intervene(net, {treatment: dict.fromkeys(net.states[treatment], 1 / n)})
    return np.asarray(JunctionTree.of(even).query_many(codes, [outcome]).marginals[outcome])


def interventional(
    structures: StructureDraws,
    treatment: str,
    outcome: str,
    *,
    ci_prob: float = 0.89,
    graphs: int = _GRAPHS,
    draws: int = _DRAWS,
    seed: int | None = None,
) -> pd.DataFrame:
    """P(outcome | do(treatment)), averaged over structures, with one row per pair of states.

    Returns
    -------
    pandas.DataFrame
        ``treatment``, ``outcome`` (states), ``probability``, ``mcse`` and the ends of the interval over structures and
        parameters.
    """
    import pandas as pd

    states = structures.states_of
    x, y = structures.variable(treatment), structures.variable(outcome)
    for v in (treatment, outcome):
        if not states[v]:
            raise OptionError(f"'{v}' is continuous; see average_effect", code="not-applicable")
    if x == y:
        raise OptionError(f"treatment and outcome are the same variable, '{treatment}'", code="self-reference")

    def asked(net: DiscreteNetwork | MixedNetwork) -> Array:
        # Discrete variables have no continuous parents, so the ancestral part of two of them is discrete.
        return _after(_tables(net), treatment, outcome)

    part = _Above(frozenset({x, y}), frozenset({x}))
    averages = _Averages.of(structures, asked, part, ci_prob=ci_prob, graphs=graphs, draws=draws, seed=seed)
    mean, error, ends = averages.mean, averages.error, averages.ends
    percent = f"{100 * ci_prob:g}"
    rows = [
        {
            "treatment": first, "outcome": second, "probability": mean[i, j], "mcse": error[i, j],
            f"eti{percent}_lb": ends[0, i, j], f"eti{percent}_ub": ends[1, i, j],
        }
        for i, first in enumerate(states[treatment]) for j, second in enumerate(states[outcome])
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _tables(net: DiscreteNetwork | MixedNetwork) -> DiscreteNetwork:
    return net if isinstance(net, DiscreteNetwork) else DiscreteNetwork(net.states, net.parents, net.tables)


def _total_effects(net: MixedNetwork, names: Sequence[str]) -> Array:
    """Effect of one unit of each variable on each other, [source, target], in a net of continuous variables."""
    place = {v: k for k, v in enumerate(names)}
    slopes = np.zeros((len(names), len(names)))
    for v, node in net.continuous.items():
        slopes[[place[u] for u in node.parents], place[v]] = node.slopes
    # I + B + B^2 + ...: the sum over directed paths of products of slopes.
    return np.linalg.inv(np.eye(len(names)) - slopes)


def linear_effects(
    structures: StructureDraws,
    *,
    ci_prob: float = 0.89,
    graphs: int = _GRAPHS,
    draws: int = _DRAWS,
    seed: int | None = None,
) -> pd.DataFrame:
    """Effect of one unit of each variable on each other in Gaussian nets, averaged over structures, largest first.

    Returns
    -------
    pandas.DataFrame
        ``source``, ``target``, ``mean``, ``sd``, ``mcse``, the ends of the interval, and ``path``, the probability
        of any effect.

    Raises
    ------
    OptionError
        A variable is discrete.
    """
    import pandas as pd

    if not structures.gaussian:
        raise OptionError(
            "linear effects between all variables need a net of continuous variables; see average_effect",
            code="not-applicable",
        )
    names = list(structures.names)

    def asked(net: DiscreteNetwork | MixedNetwork) -> Array:
        assert isinstance(net, MixedNetwork)
        return _total_effects(net, names)

    averages = _Averages.of(structures, asked, ci_prob=ci_prob, graphs=graphs, draws=draws, seed=seed)
    mean, error, ends, there = averages.mean, averages.error, averages.ends, (averages.series != 0).mean(axis=(-1, -2))
    sd = np.sqrt(np.mean((averages.drawn - mean[..., None, None]) ** 2, axis=(-1, -2)))
    u, v = np.nonzero((there > 0) & ~np.eye(len(names), dtype=bool))
    order = np.argsort(-np.abs(mean[u, v]), kind="stable")
    u, v = u[order], v[order]
    percent, words = f"{100 * ci_prob:g}", np.array(names, dtype=object)
    return pd.DataFrame(
        {
            "source": words[u], "target": words[v], "mean": mean[u, v], "sd": sd[u, v], "mcse": error[u, v],
            f"eti{percent}_lb": ends[0][u, v], f"eti{percent}_ub": ends[1][u, v], "path": there[u, v],
        }
    )  # fmt: skip
