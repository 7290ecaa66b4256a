"""Exact marginals of conditional linear-Gaussian nets: continuous variables first, then discrete ones.

Marginalising a discrete variable leaves a mixture of normals, which a table of means and variances cannot represent.
Therefore all continuous variables are eliminated before any discrete one, and the discrete neighbours of a connected
group of continuous variables are in one *strong* clique [1]_. The steps are:

1. An observed continuous variable is a constant for its children, so the edges to them are removed. The other
   continuous variables form groups, each of which depends only on the discrete parents of its variables.
2. For every configuration of these parents, the group is a multivariate normal in square-root form
   (`gaussian_network`). Conditioning on its evidence gives a log density for each configuration, and posterior means
   and factors. This is the stable form of local computation [2]_: no covariance is inverted and no variances are
   subtracted.
3. The log densities are tables over discrete variables. A clique tree over all discrete tables, which contains the
   strong cliques, gives the discrete marginals on the log scale. It also gives the probability of each configuration of
   a strong clique, the weights in the mixture of normals of each continuous variable.

For any method, the work grows with the number of configurations of the largest strong clique; `forecast` counts them
in advance.

References
----------
.. [1] Lauritzen (1992). Propagation of probabilities, means and variances in mixed graphical
   association models. JASA 87, 1098-1108.
.. [2] Lauritzen, Jensen (2001). Stable local computation with conditional Gaussian distributions.
   Statistics and Computing 11, 191-203.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import networkx as nx
import numpy as np

from bayeslab.arrays import lengths
from bayeslab.distributions.toolbox.logarithms import log_sum
from bayeslab.errors import EngineRefusal, EvidenceError, hint
from bayeslab.latents.networks.gaussian_network import observe
from bayeslab.latents.networks.mixed_network import MixedEvidence, MixedNetwork, read_mixed_evidence

__all__ = ["Forecast", "JointMixture", "MixedMarginals", "NormalMixture", "forecast", "query", "query_joint"]

# Maximum number of floats in memory: 400 MB.
_MOST_NUMBERS = 50_000_000
# Components of a mixture this close, relative to the sd of the mixture, are merged.
_SAME_DIGITS = 12

Axes = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class NormalMixture:
    """The exact distribution of one continuous variable: a mixture of normals.

    Parameters
    ----------
    weights, means, sds : ndarray (K,)
        Weights, means and standard deviations of the components; an sd of zero is a point mass.
    """

    weights: np.ndarray
    means: np.ndarray
    sds: np.ndarray

    @classmethod
    def collapsed(cls, weights: np.ndarray, means: np.ndarray, sds: np.ndarray) -> NormalMixture:
        """A mixture in which components that are equal up to rounding are merged, and those of weight zero left out."""
        kept = weights > 0
        weights, means, sds = weights[kept], means[kept], sds[kept]
        size = max(float(np.abs(means).max()), float(sds.max())) or 1.0
        keys = np.round(np.stack([means, sds], axis=1) / size, _SAME_DIGITS) + 0.0
        _, first, group = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        total = np.bincount(group.ravel(), weights)
        return cls(total / total.sum(), means[first], sds[first])

    @cached_property
    def mean(self) -> float:
        return float(self.weights @ self.means)

    @cached_property
    def sd(self) -> float:
        weights = np.sqrt(self.weights)
        return float(lengths(np.concatenate((weights * self.sds, weights * (self.means - self.mean)))))

    def density(self, x: np.ndarray | float) -> np.ndarray:
        """Density at x; infinite at point masses."""
        apart = np.asarray(x, float)[..., None] - self.means
        safe = np.where(self.sds > 0, self.sds, 1.0)
        normal = np.exp(-0.5 * (apart / safe) ** 2) / (safe * np.sqrt(2 * np.pi))
        return np.where(self.sds > 0, normal, np.where(apart == 0, np.inf, 0.0)) @ self.weights

    def cdf(self, x: np.ndarray | float) -> np.ndarray:
        """Distribution function at x."""
        from scipy.special import ndtr

        apart = np.asarray(x, float)[..., None] - self.means
        safe = np.where(self.sds > 0, self.sds, 1.0)
        return np.where(self.sds > 0, ndtr(apart / safe), apart >= 0) @ self.weights

    def quantile(self, probability: float) -> float:
        """The smallest x whose distribution function is at least ``probability``, up to rounding."""
        from scipy.special import ndtri

        if len(self.means) == 1:
            spread = self.sds[0] * ndtri(probability) if self.sds[0] > 0 else 0.0
            return float(self.means[0] + spread)
        if not 0 < probability < 1:
            end = np.inf if probability >= 1 else -np.inf
            ends = np.where(self.sds > 0, end, self.means)
            return float(ends.max() if probability >= 1 else ends.min())
        from bayeslab.exact.kernels import mixture_quantiles

        # In units of the mixture's standard deviation.
        unit = self.sd or 1.0
        means, sds, start = (self.means - self.mean) / unit, self.sds / unit, np.array([ndtri(probability)])
        return self.mean + unit * float(mixture_quantiles(self.weights, means[None], sds[None], start, probability)[0])

    def interval(self, probability: float = 0.94) -> tuple[float, float]:
        """The equal-tailed interval."""
        tail = (1 - probability) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Independent draws, shape (n,)."""
        part = rng.choice(len(self.weights), size=n, p=self.weights)
        return self.means[part] + self.sds[part] * rng.standard_normal(n)


@dataclass(frozen=True, eq=False)
class MixedMarginals:
    """Posterior marginals.

    Attributes
    ----------
    discrete : dict of str to ndarray
        Probability of each state.
    continuous : dict of str to NormalMixture
        Posterior of each continuous variable.
    log_evidence : float
        Log of the probability of the discrete times the density of the continuous evidence.
    """

    discrete: dict[str, np.ndarray]
    continuous: dict[str, NormalMixture]
    log_evidence: float


@dataclass(frozen=True, eq=False)
class JointMixture:
    """The exact joint distribution of some variables: a normal for each of K configurations.

    Attributes
    ----------
    discrete, continuous : tuple of str
        The variables, in the requested order.
    codes : ndarray (K, number of discrete variables)
        State indices of the discrete variables. States may occur more than once, where other discrete variables
        differ; then the continuous variables have a mixture of normals.
    weights : ndarray (K,)
    means : ndarray (K, d)
    covariances : ndarray (K, d, d)
    log_evidence : float
        Log of the probability of the discrete times the density of the continuous evidence.
    """

    discrete: tuple[str, ...]
    continuous: tuple[str, ...]
    codes: np.ndarray
    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    log_evidence: float = 0.0

    @property
    def mean(self) -> np.ndarray:
        """Mean of the continuous variables, shape (d,)."""
        return self.weights @ self.means

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the continuous variables, shape (d, d)."""
        apart = self.means - self.mean
        return np.einsum("k,kij->ij", self.weights, self.covariances + apart[:, :, None] * apart[:, None, :])

    def draws(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Independent draws: state indices (n, number of discrete variables) and values (n, d)."""
        part = rng.choice(len(self.weights), size=n, p=self.weights / self.weights.sum())
        roots = _roots(self.covariances)[part]
        noise = rng.standard_normal((n, len(self.continuous), 1))
        return self.codes[part], self.means[part] + np.matmul(roots, noise)[..., 0]


def _roots(matrices: np.ndarray) -> np.ndarray:
    """R with R R' = Σ, for matrices that may be singular."""
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :])


@dataclass(frozen=True)
class Forecast:
    """The cost of a query.

    Attributes
    ----------
    configurations : int
        Number of configurations of the largest strong clique.
    variables : tuple of str
        Those variables.
    numbers : int
        Number of floats in memory.
    """

    configurations: int
    variables: tuple[str, ...]
    numbers: int


def query(
    network: MixedNetwork,
    given: Mapping[str, Any] | None = None,
    targets: Iterable[str] | None = None,
    *,
    most_numbers: int = _MOST_NUMBERS,
) -> MixedMarginals:
    """Exact marginals given evidence.

    Parameters
    ----------
    network : MixedNetwork
    given : mapping, optional
        Discrete variable to its state or to {state: likelihood}; continuous variable to its value or to
        ``{"value": reading, "sd": error of the measurement}``.
    targets : iterable of str, optional
        Variables whose marginals are returned; default all. Fewer targets may need fewer configurations.
    most_numbers : int
        Maximum number of floats in memory.

    Raises
    ------
    EvidenceError
        An unknown variable or state, or evidence of probability zero.
    EngineRefusal
        There are too many configurations; or observed values are point masses under some states and have densities
        under others, and cannot be compared.
    """
    problem = _Problem.of(network, given, targets)
    _accept(problem.forecast(), most_numbers)
    return problem.solve()


def query_joint(
    network: MixedNetwork,
    variables: Sequence[str],
    given: Mapping[str, Any] | None = None,
    *,
    most_numbers: int = _MOST_NUMBERS,
) -> JointMixture:
    """The exact joint distribution of some variables given evidence.

    Parameters
    ----------
    network : MixedNetwork
    variables : sequence of str
        Discrete and continuous.
    given : mapping, optional
        As in `query`.
    most_numbers : int
        Maximum number of floats in memory.

    Raises
    ------
    EvidenceError, EngineRefusal
        As for `query`.
    """
    problem = _Problem.of(network, given, variables)
    together = problem.together()
    _accept(problem.forecast([together]), most_numbers)
    return problem.solve_joint(together)


def forecast(
    network: MixedNetwork, given: Mapping[str, Any] | None = None, targets: Iterable[str] | None = None
) -> Forecast:
    """The cost of `query`, from the structure only."""
    return _Problem.of(network, given, targets).forecast()


def _accept(cost: Forecast, most: int) -> None:
    if cost.numbers > most:
        names = ", ".join(cost.variables[:8]) + (", ..." if len(cost.variables) > 8 else "")
        raise EngineRefusal(
            f"exact inference needs {cost.configurations:,} configurations of {len(cost.variables)} discrete variables"
            f" ({names}) at once and {cost.numbers * 8 / 1e9:,.2g} GB in all; ask for fewer targets, observe some of"
            " these, or sample with likelihood weighting or NUTS",
            code="too-costly",
        )


# ------------------------------------------------------------------- one variable given the evidence


@dataclass(frozen=True, eq=False)
class _Local:
    """A continuous variable given the evidence.

    ``axes`` are its unobserved discrete parents; all arrays have these axes. ``value`` is its observed value.
    """

    axes: Axes
    intercept: np.ndarray
    slopes: dict[str, np.ndarray]
    sd: np.ndarray
    value: float | None = None


@dataclass(frozen=True, eq=False)
class _Part:
    """Mean of a variable and its row of a square root of the covariance, for each configuration.

    ``mean`` has the axes ``axes``; ``factor`` has an additional axis for the noises with indices ``columns``.
    """

    axes: Axes
    mean: np.ndarray
    columns: tuple[int, ...]
    factor: np.ndarray


@dataclass(frozen=True, eq=False)
class _Group:
    """Continuous variables linked by evidence: observed nodes and their hidden ancestors, parents first."""

    hidden: tuple[str, ...]
    observed: tuple[str, ...]
    axes: Axes


@dataclass(frozen=True, eq=False)
class _Table:
    """A table of logarithms over discrete variables."""

    axes: Axes
    logs: np.ndarray


class _Problem:
    """A query: the relevant part of a net, given the evidence."""

    def __init__(self, network: MixedNetwork, evidence: MixedEvidence, targets: Sequence[str]) -> None:
        self.network, self.evidence, self.targets = network, evidence, targets
        graph = network.graph
        relevant = {*evidence.hard, *evidence.likelihood, *evidence.exact, *evidence.noisy, *targets}
        keep = relevant.union(*(nx.ancestors(graph, v) for v in relevant))
        self.sizes = {v: len(s) for v, s in network.states.items() if v in keep and v not in evidence.hard}
        self.rank = {v: i for i, v in enumerate(self.sizes)}
        self.nodes = self._nodes([v for v in network.order if v in keep])
        self.groups = self._grouped()
        in_group = {v for group in self.groups for v in group.hidden}
        self.barren = [v for v, node in self.nodes.items() if node.value is None and v not in in_group]
        self.axes = self._axes()

    @classmethod
    def of(cls, network: MixedNetwork, given: Mapping[str, Any] | None, targets: Iterable[str] | None) -> _Problem:
        evidence = read_mixed_evidence(network, given)
        known = [*network.states, *network.continuous]
        wanted = known if targets is None else list(targets)
        for name in wanted:
            if name not in network.states and name not in network.continuous:
                raise EvidenceError(f"'{name}' is not a variable{hint(name, known)}", code="unknown-variable")
        return cls(network, evidence, wanted)

    def _sorted(self, variables: Iterable[str]) -> Axes:
        return tuple(sorted(set(variables), key=self.rank.__getitem__))

    def _shape(self, axes: Axes) -> tuple[int, ...]:
        return tuple(self.sizes[v] for v in axes)

    def _taken(self, array: np.ndarray, parents: Axes) -> tuple[Axes, np.ndarray]:
        """The array at the observed parents' states, its axes in the order of the net."""
        hard = self.evidence.hard
        out = array[tuple(hard.get(p, slice(None)) for p in parents)]
        free = [p for p in parents if p not in hard]
        axes = self._sorted(free)
        tail = range(len(free), out.ndim)
        return axes, out.transpose([*(free.index(v) for v in axes), *tail])

    def _nodes(self, order: Sequence[str]) -> dict[str, _Local]:
        """The nodes, parents first; a noisy reading is an additional observed child."""
        out: dict[str, _Local] = {}
        for v in order:
            node, above = self.network.continuous[v], self.network.discrete_parents(v)
            axes, intercept = self._taken(node.intercept, above)
            slopes, sd = self._taken(node.slopes, above)[1], self._taken(node.sd, above)[1]
            hidden = {}
            for k, parent in enumerate(self.network.continuous_parents(v)):
                if parent in self.evidence.exact:
                    intercept = intercept + slopes[..., k] * self.evidence.exact[parent]
                else:
                    hidden[parent] = slopes[..., k]
            out[v] = _Local(axes, intercept, hidden, sd, self.evidence.exact.get(v))
            if v in self.evidence.noisy:
                value, error = self.evidence.noisy[v]
                known = v in self.evidence.exact
                slope = {} if known else {v: np.array(1.0)}
                out[f"{v}\0reading"] = _Local((), np.array(0.0), slope, np.array(error), value)
        return out

    def _grouped(self) -> list[_Group]:
        """Observed variables and their hidden ancestors, in groups that observed variables separate."""
        core: dict[str, None] = {}
        for v in reversed(self.nodes):
            if self.nodes[v].value is not None or v in core:
                core[v] = None
                core.update(dict.fromkeys(self.nodes[v].slopes))
        graph = nx.Graph()
        graph.add_nodes_from(v for v in self.nodes if v in core)
        graph.add_edges_from((v, p) for v in core for p in self.nodes[v].slopes)
        out = []
        for members in nx.connected_components(graph):
            ordered = [v for v in self.nodes if v in members]
            hidden = tuple(v for v in ordered if self.nodes[v].value is None)
            observed = tuple(v for v in ordered if self.nodes[v].value is not None)
            out.append(_Group(hidden, observed, self._sorted(a for v in ordered for a in self.nodes[v].axes)))
        return out

    def _axes(self) -> dict[str, Axes]:
        """The discrete variables on which each hidden continuous variable depends, given the evidence."""
        out = {v: group.axes for group in self.groups for v in group.hidden}
        for v in self.barren:
            out[v] = self._sorted([*self.nodes[v].axes, *(a for p in self.nodes[v].slopes for a in out[p])])
        return out

    def _wanted(self) -> list[Axes]:
        """Strong cliques, whose joint probabilities are needed."""
        return list(dict.fromkeys(self.axes[v] for v in self.targets if v in self.axes))

    def together(self) -> Axes:
        """The discrete variables on which the joint distribution of the targets depends."""
        return self._sorted(a for v in self.targets for a in (self.axes.get(v, ()) if v not in self.sizes else (v,)))

    # --------------------------------------------------------------------------------------------- cost

    def forecast(self, extra: Sequence[Axes] = ()) -> Forecast:
        strong = {self.axes[v] for v in self.axes} | {group.axes for group in self.groups} | set(extra)
        largest = max(strong, key=lambda axes: prod(self._shape(axes)), default=())
        numbers = 0
        for group in self.groups:
            width = len(group.hidden) + len(group.observed)
            numbers += prod(self._shape(group.axes)) * width * width
        widths = {v: len(group.hidden) + len(group.observed) for group in self.groups for v in group.hidden}
        for v in self.barren:
            widths[v] = min(1 + sum(widths[p] for p in self.nodes[v].slopes), len(self.nodes))
            numbers += prod(self._shape(self.axes[v])) * widths[v]
        numbers += sum(prod(self._shape(axes)) * len(self.targets) * (len(self.nodes) + 1) for axes in extra)
        scopes = [axes for axes, _ in self._discrete_scopes()] + [g.axes for g in self.groups]
        scopes += [*self._wanted(), *extra]
        cliques = _eliminate(self.sizes, scopes)
        numbers += 2 * sum(prod(self._shape(clique)) for _, clique in cliques)
        return Forecast(prod(self._shape(largest)), largest, numbers)

    def _discrete_scopes(self) -> list[tuple[Axes, str]]:
        hard = self.evidence.hard
        names = [v for v in self.network.states if v in self.sizes or v in hard]
        return [(self._sorted(p for p in (*self.network.parents[v], v) if p not in hard), v) for v in names]

    # -------------------------------------------------------------------------------- the computation

    def solve(self) -> MixedMarginals:
        """Marginals of all targets."""
        parts, tree = self._infer(self._wanted())
        return MixedMarginals(
            {v: self._states(v, tree) for v in self.targets if v in self.network.states},
            {v: self._mixture(v, parts, tree) for v in self.targets if v in self.network.continuous},
            tree.log_total,
        )

    def solve_joint(self, axes: Axes) -> JointMixture:
        """The joint distribution of the targets for each configuration of ``axes``."""
        parts, tree = self._infer([axes])
        weights = tree.joint(axes).ravel()
        shape, n = self._shape(axes), len(weights)
        index = dict(zip(axes, np.indices(shape).reshape(len(axes), n), strict=True))
        discrete = tuple(v for v in self.targets if v in self.network.states)
        continuous = tuple(v for v in self.targets if v in self.network.continuous)
        codes = np.empty((n, len(discrete)), np.int64)
        for k, v in enumerate(discrete):
            codes[:, k] = self.evidence.hard[v] if v in self.evidence.hard else index[v]
        columns = sorted({c for v in continuous if v in parts for c in parts[v].columns})
        means, factors = np.empty((*shape, len(continuous))), np.zeros((*shape, len(continuous), len(columns)))
        for k, v in enumerate(continuous):
            if v in self.evidence.exact:
                means[..., k] = self.evidence.exact[v]
                continue
            means[..., k] = _spread(parts[v].mean, parts[v].axes, axes)
            at = np.searchsorted(columns, parts[v].columns)
            factors[..., k, at] = _spread(parts[v].factor, parts[v].axes, axes)
        rows = factors.reshape(n, *factors.shape[len(axes) :])
        kept = weights > 0
        covariances = np.matmul(rows, rows.transpose(0, 2, 1))
        means = means.reshape(n, len(continuous))
        return JointMixture(
            discrete, continuous, codes[kept], weights[kept], means[kept], covariances[kept], tree.log_total
        )

    def _infer(self, wanted: Sequence[Axes]) -> tuple[dict[str, _Part], _CliqueTree]:
        """Posterior means and factors of the continuous variables, and the calibrated clique tree."""
        parts: dict[str, _Part] = {}
        densities, column = [], 0
        for group in self.groups:
            densities.append(self._observe(group, parts, column))
            column += len(group.hidden) + len(group.observed)
        tree = self._calibrated(self._discrete_tables(), densities, wanted)
        for v in self.barren:
            parts[v] = self._linear(self.nodes[v], parts, column)
            column += 1
        return parts, tree

    def _discrete_tables(self) -> list[_Table]:
        out = []
        with np.errstate(divide="ignore"):
            for _, v in self._discrete_scopes():
                axes, table = self._taken(self.network.tables[v], (*self.network.parents[v], v))
                out.append(_Table(axes, np.log(table)))
            for v, likelihood in self.evidence.likelihood.items():
                weights = likelihood[self.evidence.hard[v]] if v in self.evidence.hard else likelihood
                out.append(_Table(() if v in self.evidence.hard else (v,), np.log(weights)))
        return out

    def _linear(self, node: _Local, parts: Mapping[str, _Part], column: int) -> _Part:
        """Mean and factor of a variable from its parents'; ``column`` is the index of its noise."""
        above = {p: parts[p] for p in node.slopes}
        axes = self._sorted([*node.axes, *(a for part in above.values() for a in part.axes)])
        shape = self._shape(axes)
        columns = (*sorted({c for part in above.values() for c in part.columns}), column)
        mean = np.broadcast_to(_spread(node.intercept, node.axes, axes), shape)
        factor = np.zeros((*shape, len(columns)))
        for parent, part in above.items():
            slope = _spread(node.slopes[parent], node.axes, axes)
            mean = mean + slope * _spread(part.mean, part.axes, axes)
            at = np.searchsorted(columns, part.columns)
            row = slope[..., None] * _spread(part.factor, part.axes, axes)
            if len(at) == at[-1] - at[0] + 1:
                factor[..., at[0] : at[-1] + 1] += row
            else:
                factor[..., at] += row
        factor[..., -1] = _spread(node.sd, node.axes, axes)
        return _Part(axes, mean, columns, factor)

    def _observe(self, group: _Group, parts: dict[str, _Part], column: int) -> tuple[_Table, np.ndarray]:
        """Log density of a group's evidence, and the determined values, for each configuration.

        Posterior means and factors are written to ``parts``."""
        prior: dict[str, _Part] = {}
        order = [v for v in self.nodes if v in {*group.hidden, *group.observed}]
        for k, v in enumerate(order):
            prior[v] = self._linear(self.nodes[v], prior, column + k)
        columns = tuple(range(column, column + len(order)))
        shape = self._shape(group.axes)
        mean = np.empty((*shape, len(group.observed)))
        factor = np.zeros((*shape, len(group.observed), len(columns)))
        for i, v in enumerate(group.observed):
            mean[..., i] = _spread(prior[v].mean, prior[v].axes, group.axes)
            factor[..., i, np.array(prior[v].columns) - column] = _spread(prior[v].factor, prior[v].axes, group.axes)
        observation = observe(mean, factor, np.array([self.nodes[v].value for v in group.observed]))
        for v in group.hidden:
            part = prior[v]
            wide = np.zeros((*self._shape(part.axes), len(columns)))
            wide[..., np.array(part.columns) - column] = part.factor
            after, left = observation.update(
                _spread(part.mean, part.axes, group.axes), _spread(wide, part.axes, group.axes)
            )
            parts[v] = _Part(group.axes, after, columns, left)
        return _Table(group.axes, observation.log_density), observation.determined

    def _calibrated(
        self, tables: list[_Table], groups: list[tuple[_Table, np.ndarray]], wanted: Sequence[Axes]
    ) -> _CliqueTree:
        """The clique tree over all tables.

        States under which a value is a point mass have infinite density relative to others: the result is the tree over
        the possible configurations with the largest number of determined values.
        """
        fixed: list[list[_Table]] = []
        mixed: list[list[_Table]] = []
        for table, determined in groups:
            levels = _levels(table, determined)
            (fixed if len(levels) == 1 else mixed).append(levels)
        if len(mixed) > 1:
            raise EngineRefusal(
                "several observed values are points of positive probability under some states and have a density"
                " under others, which cannot be compared; give their variables a small positive sd",
                code="degenerate",
            )
        certain = tables + [levels[0] for levels in fixed]
        for extra in mixed[0] if mixed else [None]:
            tree = _CliqueTree(self.sizes, certain + ([extra] if extra else []), wanted)
            if tree.log_total > -np.inf:
                return tree
        raise EvidenceError(
            "the evidence has probability zero: its items cannot occur together", code="probability-zero"
        )

    def _states(self, variable: str, tree: _CliqueTree) -> np.ndarray:
        if variable in self.evidence.hard:
            return np.eye(len(self.network.states[variable]))[self.evidence.hard[variable]]
        return tree.joint((variable,))

    def _mixture(self, variable: str, parts: Mapping[str, _Part], tree: _CliqueTree) -> NormalMixture:
        if variable in self.evidence.exact:
            return NormalMixture(np.ones(1), np.array([self.evidence.exact[variable]]), np.zeros(1))
        part = parts[variable]
        weights = tree.joint(part.axes).ravel()
        sds = lengths(part.factor).ravel()
        return NormalMixture.collapsed(weights, np.ravel(part.mean), sds)


def _levels(table: _Table, determined: np.ndarray) -> list[_Table]:
    """A group's log densities, split by the determined values; the largest number of determined values first."""
    possible = table.logs > -np.inf
    flags = determined & possible[..., None]
    if not possible.any() or not flags.any() or np.all(flags[possible] == flags[possible][0]):
        return [table]
    kinds = np.unique(flags[possible], axis=0)
    kinds = kinds[np.argsort(-kinds.sum(axis=1), kind="stable")]
    if any(np.any(low & ~high) for high, low in pairwise(kinds)):
        raise EngineRefusal(
            "different observed values are points of positive probability under different states, which cannot be"
            " compared; give their variables a small positive sd",
            code="degenerate",
        )
    return [
        replace(table, logs=np.where(possible & np.all(flags == kind, axis=-1), table.logs, -np.inf)) for kind in kinds
    ]


def _spread(array: np.ndarray, axes: Axes, wanted: Axes) -> np.ndarray:
    """The array with an axis of length one for each variable on which it does not depend."""
    tail = array.shape[len(axes) :]
    sizes = dict(zip(axes, array.shape, strict=False))
    return array.reshape(tuple(sizes.get(v, 1) for v in wanted) + tail)


# ------------------------------------------------------------------------------ discrete clique tree


def _eliminate(sizes: Mapping[str, int], scopes: Iterable[Axes]) -> list[tuple[str, Axes]]:
    """A greedy elimination order, smallest clique first, and the clique of each variable, in the order of ``sizes``."""
    near: dict[str, set[str]] = {v: set() for v in sizes}
    for scope in scopes:
        for v in scope:
            near[v].update(scope)
    for v in near:
        near[v].discard(v)
    rank = {v: i for i, v in enumerate(sizes)}
    weight = {v: sizes[v] * prod(sizes[u] for u in near[v]) for v in near}
    out = []
    while near:
        v = min(near, key=lambda u: (weight[u], rank[u]))
        around = near.pop(v)
        out.append((v, tuple(sorted({v, *around}, key=rank.__getitem__))))
        for u in around:
            near[u] |= around
            near[u] -= {u, v}
        for u in around:
            weight[u] = sizes[u] * prod(sizes[w] for w in near[u])
    return out


class _CliqueTree:
    """Tables over discrete variables, calibrated on the log scale.

    Densities of evidence differ by thousands of log units between configurations, and a configuration whose
    probability would underflow may be the only possible one given the other tables.
    """

    def __init__(self, sizes: Mapping[str, int], tables: Sequence[_Table], wanted: Sequence[Axes]) -> None:
        self.order = _eliminate(sizes, [*(t.axes for t in tables), *wanted])
        self.number = {v: i for i, (v, _) in enumerate(self.order)}
        self.cliques = [clique for _, clique in self.order]
        self.beliefs = [np.zeros(tuple(sizes[v] for v in clique)) for clique in self.cliques]
        self.log_total = 0.0
        for table in tables:
            if table.axes:
                i = self._home(table.axes)
                self.beliefs[i] = self.beliefs[i] + _spread(table.logs, table.axes, self.cliques[i])
            else:
                self.log_total += float(table.logs)
        self._collect_and_distribute()

    def _home(self, axes: Axes) -> int:
        return min(self.number[v] for v in axes)

    def _collect_and_distribute(self) -> None:
        sent: list[tuple[int, Axes, np.ndarray]] = []
        for i, (v, clique) in enumerate(self.order):
            rest = tuple(u for u in clique if u != v)
            message = log_sum(self.beliefs[i], (clique.index(v),))
            if not rest:
                self.log_total += float(message)
                continue
            parent = self._home(rest)
            self.beliefs[parent] = self.beliefs[parent] + _spread(message, rest, self.cliques[parent])
            sent.append((i, rest, message))
        for i, rest, message in reversed(sent):
            possible = np.isfinite(message)
            above = self._marginal(self._home(rest), rest)
            ratio = np.where(possible, above - np.where(possible, message, 0.0), -np.inf)
            self.beliefs[i] = self.beliefs[i] + _spread(ratio, rest, self.cliques[i])

    def _marginal(self, i: int, axes: Axes) -> np.ndarray:
        return log_sum(self.beliefs[i], tuple(k for k, v in enumerate(self.cliques[i]) if v not in axes))

    def joint(self, axes: Axes) -> np.ndarray:
        """Joint probabilities of variables in one clique."""
        if not axes:
            return np.ones(())
        logs = self._marginal(self._home(axes), axes)
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()
