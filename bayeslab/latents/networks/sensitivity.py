"""Sensitivity of a Bayes net's posterior probabilities to its parameters, the evidence and further observations.

Let θ be an entry of a table, and let the other entries of its row keep their proportions. Then P(evidence) and
P(target, evidence) are linear in θ, and the posterior probability is a quotient

.. math:: P(t \\mid e)(\\theta) = \\frac{a\\,\\theta + b}{c\\,\\theta + d},

the *sensitivity function* of the query [1]_ [2]_. The derivative of P(e) in an entry is the expected count of the entry
divided by the entry; therefore one calibration for e and one for (e, t) give the coefficients of all parameters of the
network [3]_. They determine the derivative at the current value, the range over all values, the value at which a
threshold is reached, and the interval in which the most probable state does not change.

The influence of a finding is measured by leaving it out: its weight of evidence is the change of the target's log odds
[5]_. The value of a further observation is its mutual information with the target, the expected reduction of the
target's entropy.

References
----------
.. [1] Castillo, Gutiérrez, Hadi (1997). Sensitivity analysis in discrete Bayesian networks. IEEE
   Transactions on Systems, Man, and Cybernetics 27, 412-423.
.. [2] Coupé, van der Gaag (2002). Properties of sensitivity analysis of Bayesian belief networks.
   Annals of Mathematics and Artificial Intelligence 36, 323-356.
.. [3] Kjærulff, van der Gaag (2000). Making sensitivity analysis computationally efficient. UAI 16, 317-325.
.. [4] Chan, Darwiche (2002). When do numbers really matter? JAIR 17, 265-287.
.. [5] Good (1950). Probability and the Weighing of Evidence. Griffin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bayeslab.arrays import count, number
from bayeslab.errors import EvidenceError, ModelError, hint
from bayeslab.latents.networks.factors import Evidence, FactorGraph, read_evidence
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = [
    "Bar",
    "EvidenceInfluence",
    "Information",
    "Parameter",
    "SensitivityFunction",
    "Tolerance",
    "conflict",
    "evidence_influence",
    "information_value",
    "sensitivity",
    "tolerances",
    "tornado",
]

_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: one entry of a table.

    Attributes
    ----------
    variable, state : str
    given : mapping of str to str
        The states of the parents.
    value : float
        The current value of the entry.
    """

    variable: str
    state: str
    given: Mapping[str, str]
    value: float

    def __str__(self) -> str:
        above = ", ".join(f"{p}={s}" for p, s in self.given.items())
        return f"P({self.variable}={self.state}{' | ' + above if above else ''}) = {self.value:.6g}"


@dataclass(frozen=True, slots=True)
class SensitivityFunction:
    """A posterior probability as a function of one parameter: ``(a θ + b) / (c θ + d)``.

    The denominator is scaled to 1 at the current value. The other entries of the row keep their proportions; if they
    are all zero, they change equally.
    """

    parameter: Parameter
    a: float
    b: float
    c: float
    d: float

    def __call__(self, theta: float) -> float:
        """The posterior probability if the parameter were ``theta``; NaN where the evidence is impossible."""
        below = self.c * theta + self.d
        return (self.a * theta + self.b) / below if below > 0 else float("nan")

    @property
    def probability(self) -> float:
        """The posterior probability at the current value."""
        return self.a * self.parameter.value + self.b

    @property
    def derivative(self) -> float:
        """The derivative at the current value; its absolute value is the *sensitivity value*."""
        return self.a - self.c * self.probability

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest probability over all values of the parameter, in which it is monotone.

        If the evidence is impossible at an end, the limit at that end.
        """
        ends = [self(0.0), self(1.0)]
        # 0 / 0: numerator and denominator vanish together, so the quotient is constant.
        ends = [self.a / self.c if np.isnan(end) and self.c else end for end in ends]
        return min(ends), max(ends)

    def threshold(self, probability: float) -> float | None:
        """The value of the parameter in [0, 1] at which the result is ``probability``; ``None`` if there is none.

        If the result does not depend on the parameter, there is none either.
        """
        low, high = self.bounds
        slope = self.a - probability * self.c
        if slope == 0 or high - low <= _ROUNDING or not low - _ROUNDING <= probability <= high + _ROUNDING:
            return None
        return min(max((probability * self.d - self.b) / slope, 0.0), 1.0)


class _Lines(NamedTuple):
    """Coefficients for the entries of one table: a, b (event, row, state); c, d (row, state)."""

    variable: str
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    d: np.ndarray


def sensitivity(
    network: DiscreteNetwork,
    target: Mapping[str, str],
    given: Mapping[str, Any] | None = None,
    *,
    variables: Iterable[str] | None = None,
    certain: bool = False,
) -> list[SensitivityFunction]:
    """Sensitivity functions of a posterior probability, one for each parameter.

    Parameters
    ----------
    target
        Variable to state; several variables mean their joint state.
    given
        Variable to its state, or to a mapping from states to likelihoods.
    variables
        Variables whose tables are included; all if left out.
    certain
        Whether entries of 0 or 1 are included. They usually express logic, and they need one more calibration for each
        variable that has some.

    Returns
    -------
    list of SensitivityFunction
        Sorted by the absolute value of the derivative, largest first.

    Raises
    ------
    EvidenceError
        The evidence has probability zero, or the target is observed.
    EngineRefusal
        The network is too large for exact inference.

    Examples
    --------
    P(disease | positive) as a function of the prior θ is 0.98 θ / (0.98 θ + 0.03 (1 − θ))::

        first = sensitivity(network, {"disease": "yes"}, {"test": "positive"})[0]
        first.derivative, first.threshold(0.5)
    """
    wanted = read_evidence(network.states, target)
    if wanted.likelihood or not wanted.hard:
        raise EvidenceError(
            "a target is a state of one or more variables, such as {'disease': 'yes'}", code="wrong-type"
        )
    functions = [
        SensitivityFunction(
            parameter, float(lines.a[0][at]), float(lines.b[0][at]), float(lines.c[at]), float(lines.d[at])
        )
        for lines in _coefficients(network, [wanted.hard], given, variables, certain)
        for parameter, at in _parameters(network, lines.variable, certain)
    ]
    return sorted(functions, key=lambda f: -abs(f.derivative))


def _parameters(network: DiscreteNetwork, variable: str, certain: bool) -> Iterator[tuple[Parameter, tuple[int, int]]]:
    """The free entries of a table, with their (row, state) positions."""
    table, above, states = network.tables[variable], network.parents[variable], network.states[variable]
    if len(states) < 2:
        return
    for row, place in enumerate(np.ndindex(table.shape[:-1])):
        given = {p: network.states[p][i] for p, i in zip(above, place, strict=True)}
        for k, state in enumerate(states):
            value = float(table[(*place, k)])
            if certain or 0 < value < 1:
                yield Parameter(variable, state, given, value), (row, k)


def _coefficients(
    network: DiscreteNetwork,
    events: Sequence[Mapping[str, int]],
    given: Mapping[str, Any] | None,
    variables: Iterable[str] | None,
    certain: bool,
) -> Iterator[_Lines]:
    """Numerators of each event and the common denominator, table by table."""
    names = _names(network, variables)
    evidence = read_evidence(network.states, given)
    for event in events:
        for variable in event.keys() & evidence.hard.keys():
            raise EvidenceError(
                f"'{variable}' is both the target and observed: leave it out of the evidence", code="conflict"
            )
    tree = _tree(network, evidence)
    rows = _rows(network, evidence, [{}, *events])
    logs, counts = _calibrated(tree, rows)
    if logs[0] == -np.inf:
        tree.query({v: network.states[v][code] for v, code in evidence.hard.items()}, targets=())
        raise EvidenceError("the evidence has probability zero", code="probability-zero")
    shares = np.exp(logs - logs[0])
    numbers = list(network.states)
    for variable in names:
        table = network.tables[variable]
        flat, i = table.reshape(-1, table.shape[-1]), numbers.index(variable)
        cells = shares[:, None, None] * np.stack([c[i].reshape(flat.shape) for c in counts])
        slopes = np.divide(cells, flat, out=np.zeros_like(cells), where=flat > 0)
        if certain and np.any(flat == 0):
            slopes = _slopes_at_zero(tree, network, evidence, variable, rows, logs[0])
        yield _lines(variable, flat, cells, slopes, shares)


def _lines(variable: str, table: np.ndarray, cells: np.ndarray, slopes: np.ndarray, shares: np.ndarray) -> _Lines:
    """Slope and intercept of each event's probability in each entry; event 0 is the evidence alone.

    ``cells`` are P(event, row, state | e), ``slopes`` are these divided by the entries, ``shares`` are P(event | e).
    """
    n_states = table.shape[1]
    others = np.ones((n_states, n_states)) - np.eye(n_states)
    left = table @ others
    # Change of each event's probability per unit of probability that the other entries of the row receive.
    spread = np.divide(cells @ others, left, out=slopes @ others / max(n_states - 1, 1), where=left > 0)
    outside = shares[:, None, None] - cells.sum(axis=2, keepdims=True)
    # If the evidence implies the row, nothing is outside of it; remove rounding errors.
    outside[outside < _ROUNDING * shares[:, None, None]] = 0
    slope, intercept = _rounded(slopes - spread, slopes + spread), spread + outside
    return _Lines(variable, slope[1:], intercept[1:], slope[0], intercept[0])


def _rounded(difference: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Differences of numbers of this size, zero where rounding alone makes them differ.

    A parameter without effect would otherwise have a slope of 1e-17, and would decide between tied states.
    """
    return np.where(np.abs(difference) > _ROUNDING * size, difference, 0.0)


def _slopes_at_zero(
    tree: JunctionTree,
    network: DiscreteNetwork,
    evidence: Evidence,
    variable: str,
    rows: np.ndarray,
    log_evidence: float,
) -> np.ndarray:
    """P(event | row, state) P(row), also where the table is zero: from a calibration with ones instead of the table."""
    tables = [*network.tables.values(), *evidence.likelihood.values()]
    i = list(network.states).index(variable)
    tables[i] = np.ones_like(tables[i])
    logs, counts = _calibrated(tree.with_tables(tables), rows)
    return np.stack(
        [
            np.exp(log - log_evidence) * c[i].reshape(-1, tables[i].shape[-1])
            for log, c in zip(logs, counts, strict=True)
        ]
    )


def _names(network: DiscreteNetwork, variables: Iterable[str] | None) -> list[str]:
    names = list(network.states) if variables is None else list(variables)
    for name in names:
        if not isinstance(name, str) or name not in network.states:
            raise ModelError(f"'{name}' is not a variable{hint(str(name), network.states)}", code="unknown-variable")
    return names


def _tree(network: DiscreteNetwork, evidence: Evidence) -> JunctionTree:
    """The junction tree of the network, with an additional factor for each likelihood."""

    if not evidence.likelihood:
        return JunctionTree.of(network)
    plain = FactorGraph.of(network)
    scopes = (*plain.scopes, *((v,) for v in evidence.likelihood))
    return JunctionTree.of(FactorGraph(plain.states, scopes, (*plain.tables, *evidence.likelihood.values())))


def _rows(network: DiscreteNetwork, evidence: Evidence, events: Sequence[Mapping[str, int]]) -> np.ndarray:
    names = list(network.states)
    out = np.full((len(events), len(names)), -1)
    for row, event in zip(out, events, strict=True):
        for variable, code in {**evidence.hard, **event}.items():
            row[names.index(variable)] = code
    return out


def _calibrated(tree: JunctionTree, rows: np.ndarray) -> tuple[np.ndarray, list[list[np.ndarray]]]:
    """Log evidence and expected counts of each row."""
    results = [tree.expected_counts(row[None, :]) for row in rows]
    return np.array([log[0] for log, _ in results]), [counts for _, counts in results]


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a tornado diagram.

    Attributes
    ----------
    low, high : float
        The probability with the odds of the parameter divided, and multiplied, by the factor.
    """

    parameter: Parameter
    low: float
    high: float

    @property
    def width(self) -> float:
        return abs(self.high - self.low)


def tornado(functions: Iterable[SensitivityFunction], odds: float = 2.0, top: int = 10) -> list[Bar]:
    """The probability with the odds of each parameter divided and multiplied by a factor, widest range first.

    A factor on the odds treats small and large probabilities alike [4]_. A row with two states has one bar, because
    its entries determine each other.
    """
    odds, top = number(odds, "odds", 1, above=True), count(top, "top")
    bars: list[Bar] = []
    for f in functions:
        bar = Bar(f.parameter, *(f(_moved(f.parameter.value, by)) for by in (1 / odds, odds)))
        if not any(_mirrored(bar, other) for other in bars):
            bars.append(bar)
    return sorted(bars, key=lambda bar: -bar.width)[:top]


def _mirrored(bar: Bar, other: Bar) -> bool:
    """Whether two bars belong to a row with two states, whose odds are the inverse of each other."""
    p, q = bar.parameter, other.parameter
    same_row = (p.variable, p.given) == (q.variable, q.given)
    return same_row and abs(p.value + q.value - 1) < 1e-12 and abs(bar.low - other.high) < 1e-9


def _moved(p: float, by: float) -> float:
    return p * by / (1 - p + p * by)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The interval of a parameter in which the most probable state does not change.

    Attributes
    ----------
    low, high : float
        The interval.
    below, above : str or None
        The most probable state below and above the interval; ``None`` where the interval ends at 0 or 1.
    """

    parameter: Parameter
    low: float
    high: float
    below: str | None
    above: str | None

    @property
    def distance(self) -> float:
        """Distance to the nearer change, in log odds; infinite if there is none."""
        with np.errstate(divide="ignore"):
            at, low, high = (np.log(p) - np.log1p(-p) for p in (self.parameter.value, self.low, self.high))
        down = at - low if self.below is not None else np.inf
        up = high - at if self.above is not None else np.inf
        return float(min(down, up))


def tolerances(
    network: DiscreteNetwork,
    variable: str,
    given: Mapping[str, Any] | None = None,
    *,
    variables: Iterable[str] | None = None,
    certain: bool = False,
) -> list[Tolerance]:
    """Parameters that can change the most probable state of a variable, the most critical first.

    Parameters
    ----------
    variable
        The variable whose most probable state is considered.
    given, variables, certain
        As in :func:`sensitivity`.

    References
    ----------
    van der Gaag, Renooij (2001). Analysing sensitivity data from probabilistic networks. UAI 17, 530-537.
    """
    (name,) = _names(network, [variable])
    states = network.states[name]
    events = [{name: code} for code in range(len(states))]
    every = [
        _tolerance(parameter, states, lines.a[(slice(None), *at)], lines.b[(slice(None), *at)])
        for lines in _coefficients(network, events, given, variables, certain)
        for parameter, at in _parameters(network, lines.variable, certain)
    ]
    critical = [tolerance for tolerance in every if tolerance.below is not None or tolerance.above is not None]
    return sorted(critical, key=lambda tolerance: tolerance.distance)


def _tolerance(parameter: Parameter, states: tuple[str, ...], a: np.ndarray, b: np.ndarray) -> Tolerance:
    """The interval up to the crossings with the highest line; all lines have a common denominator."""
    now = parameter.value
    best = int(np.argmax(a * now + b))
    lead, slope = (a * now + b)[best] - (a * now + b), _rounded(a[best] - a, np.abs(a[best]) + np.abs(a))
    low, high, below, above = 0.0, 1.0, None, None
    for j in np.flatnonzero(slope):
        crossing = float(now - lead[j] / slope[j])
        if slope[j] > 0 and low < crossing <= now:
            low, below = crossing, states[j]
        if slope[j] < 0 and now <= crossing < high:
            high, above = crossing, states[j]
    return Tolerance(parameter, low, high, below, above)


@dataclass(frozen=True, slots=True)
class EvidenceInfluence:
    """The influence of a finding on the target.

    Attributes
    ----------
    variable : str
    finding : object
        The state, or the likelihoods.
    probability : float
        Probability of the target with all findings.
    without : float
        Probability of the target with all findings except this one.
    weight : float
        Change of the log odds of the target: the log Bayes factor of the finding given the others, in nats. Positive if
        it supports the target; 0 where the target is certain with and without the finding.
    divergence : float
        Kullback-Leibler divergence of the target variable's distribution with all findings from the
        one without this finding, in nats.
    """

    variable: str
    finding: Any
    probability: float
    without: float
    weight: float
    divergence: float


def evidence_influence(
    network: DiscreteNetwork, target: Mapping[str, str], given: Mapping[str, Any]
) -> list[EvidenceInfluence]:
    """The influence of each finding, by leaving it out; the most influential first.

    Parameters
    ----------
    target
        One variable and its state.
    given
        Variable to its state, or to a mapping from states to likelihoods.
    """

    wanted = read_evidence(network.states, target).hard
    if len(target) != 1 or len(wanted) != 1:
        raise EvidenceError("the target is one variable and its state, such as {'disease': 'yes'}", code="wrong-type")
    variable, code = next(iter(wanted.items()))
    if variable in given:
        raise EvidenceError(
            f"'{variable}' is both the target and observed: leave it out of the evidence", code="conflict"
        )
    tree = JunctionTree.of(network)
    full = tree.query(given, [variable]).marginals[variable]
    influences = []
    for left_out, finding in given.items():
        rest = {v: s for v, s in given.items() if v != left_out}
        without = tree.query(rest, [variable]).marginals[variable]
        after, before = _log_odds(full, code), _log_odds(without, code)
        weight = 0.0 if after == before else after - before
        divergence = float(np.sum(_times_log_ratio(full, full, without)))
        influences.append(
            EvidenceInfluence(left_out, finding, float(full[code]), float(without[code]), weight, divergence)
        )
    return sorted(influences, key=lambda item: (-item.divergence, item.variable))


def _log_odds(probabilities: np.ndarray, code: int) -> float:
    rest = np.delete(probabilities, code).sum()
    with np.errstate(divide="ignore"):
        return float(np.log(probabilities[code]) - np.log(rest))


def _times_log_ratio(weight: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """w log(p / q), which is zero where w is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weight > 0, weight * (np.log(p) - np.log(q)), 0.0)


def conflict(network: DiscreteNetwork, given: Mapping[str, Any]) -> float:
    """Conflict measure log ∏ P(finding) / P(all findings), in nats: positive if the findings conflict.

    References
    ----------
    Jensen, Chamberlain, Nordahl, Jensen (1991). Analysis in HUGIN of data conflict. UAI 6, 519-528.
    """

    tree = JunctionTree.of(network)
    alone = (tree.query({v: s}, targets=()).log_evidence for v, s in given.items())
    return float(sum(alone) - tree.query(given, targets=()).log_evidence)


@dataclass(frozen=True, slots=True)
class Information:
    """The expected information of a variable about the target.

    Attributes
    ----------
    variable : str
    bits : float
        Mutual information given the evidence: the expected reduction of the target's entropy.
    share : float
        This reduction as a share of the target's entropy.
    """

    variable: str
    bits: float
    share: float


def information_value(
    network: DiscreteNetwork,
    target: str,
    given: Mapping[str, Any] | None = None,
    candidates: Iterable[str] | None = None,
) -> list[Information]:
    """What to observe next: the unobserved variables, sorted by their expected information about the target.

    Parameters
    ----------
    target
        A variable.
    given
        The evidence.
    candidates
        Variables that could be observed; all unobserved variables if left out.
    """
    (name,) = _names(network, [target])
    evidence = read_evidence(network.states, given)
    if name in evidence.hard:
        raise EvidenceError(f"'{name}' is both the target and observed: leave it out of the evidence", code="conflict")
    asked = [v for v in _names(network, candidates) if v != name and v not in evidence.hard]
    tree = _tree(network, evidence)
    n_states = len(network.states[name])
    answer = tree.query_many(_rows(network, evidence, [{}, *({name: code} for code in range(n_states))]), targets=asked)
    if answer.log_evidence[0] == -np.inf:
        raise EvidenceError("the evidence has probability zero", code="probability-zero")
    share = np.exp(answer.log_evidence[1:] - answer.log_evidence[0])
    possible = share > 0
    p = share[possible] / share[possible].sum()
    entropy = float(-np.sum(p * np.log2(p)))
    out = []
    for variable in asked:
        rows = answer.marginals[variable][1:][possible]
        gain = _times_log_ratio(p[:, None] * rows, rows, p @ rows).sum() / np.log(2)
        bits = max(float(gain), 0.0)
        out.append(Information(variable, bits, bits / entropy if entropy > 0 else 0.0))
    return sorted(out, key=lambda item: (-item.bits, item.variable))
