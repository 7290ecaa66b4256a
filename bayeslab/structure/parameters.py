r"""Posterior of the parameters of a net given its structure, under the prior implied by the structure score.

The prior of a family, and hence its posterior, does not depend on the rest of the structure: each family is computed
once for all structures that contain it.

Scores that are marginal likelihoods imply a prior on the parameters: Dirichlet with an equivalent sample size for BDeu
and BDs, Dirichlet with ones for K2, and a normal-Wishart distribution for BGe, which gives a variable with parents P
the posterior

.. math:: \sigma^2 \sim \text{InvGamma}\big(\tfrac{\nu}{2}, \tfrac{1}{2} R_{v \cdot P}\big), \quad
   \beta \mid \sigma^2 \sim N(R_{PP}^{-1} R_{Pv}, \sigma^2 R_{PP}^{-1}), \quad \nu = \alpha_w + N - n + |P| + 1

with the matrix R of the score [1]_. Penalised scores (BIC and similar) correspond to priors worth about one row, which
are used for them.

With missing cells, the parameters are conditional on the completion in a draw (:class:`Incomplete`): the complete rows
are counted once, and the completed rows of the draw are added.

References
----------
.. [1] Geiger, Heckerman (2002). Parameter priors for directed acyclic graphical models. Annals of Statistics 30,
   1412-1440.
.. [2] Heckerman, Geiger, Chickering (1995). Learning Bayesian networks. Machine Learning 20, 197-243.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import DataError
from bayeslab.exact.conjugate import NormalInverseGamma
from bayeslab.latents.networks.counting import family_counts
from bayeslab.latents.networks.mixed_network import LinearGaussian, MixedNetwork
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.structure.data import Observations
from bayeslab.structure.scores import bge
from bayeslab.structure.scores.bge import Wishart

__all__ = ["Family", "Incomplete", "Parameters"]

Array = NDArray[np.float64]
# The child, and its parents in ascending order.
type Family = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Parameters:
    """Posteriors of families, each computed on first use.

    Attributes
    ----------
    observations : Observations
        Complete rows.
    score : str
        The structure score, whose parameter prior is used.
    options : mapping
        Options of the score.
    filled : ndarray of int, shape (n_rows, n), optional
        Additional completed rows, as state numbers.
    """

    observations: Observations
    score: str
    options: Mapping[str, Any] = field(default_factory=dict)
    filled: NDArray[np.integer] | None = None
    _counts: dict[Family, Array] = field(default_factory=dict, repr=False)
    _tables: dict[Family, Array] = field(default_factory=dict, repr=False)
    _regressions: dict[Family, NDArray[Any]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.observations.elsewhere is not None:
            raise DataError(
                "parameters are learned from rows in memory; raise 'fetch' so that DuckDB hands them over",
                code="unsupported",
            )

    @property
    def names(self) -> tuple[str, ...]:
        return self.observations.names

    @cached_property
    def discrete(self) -> bool:
        """Whether every variable has states."""
        return not self.observations.continuous.any()

    @cached_property
    def gaussian(self) -> bool:
        """Whether every variable is continuous."""
        return bool(self.observations.continuous.all())

    def prepare(self, families: Iterable[Family]) -> None:
        """Compute many families in one pass over the rows."""
        states = self.observations.cards
        new = [f for f in dict.fromkeys(families) if states[f[0]] and f not in self._tables]
        if not new:
            return
        for v, parents in new:
            if any(states[u] == 0 for u in parents):
                raise DataError(
                    f"'{self.names[v]}' has states and a continuous parent: its table cannot be learned",
                    code="unsupported",
                )
        for key, n in zip(new, self._counted(new), strict=True):
            self._tables[key] = n + self._concentration(n)

    def _counted(self, families: Sequence[Family]) -> list[Array]:
        """Counts of families; counts of the observations are cached for all completions."""
        observations, cards = self.observations, np.maximum(self.observations.cards, 1)
        new = [f for f in families if f not in self._counts]
        weights = np.asarray(observations.weights, dtype=float)
        self._counts.update(zip(new, family_counts(observations.codes, cards, _axes(new), weights), strict=True))
        if self.filled is None:
            return [self._counts[f] for f in families]
        more = family_counts(self.filled, cards, _axes(families))
        return [self._counts[f] + n for f, n in zip(families, more, strict=True)]

    def completed(self, filled: NDArray[np.integer]) -> Parameters:
        """Return the same posteriors with other additional rows."""
        return Parameters(self.observations, self.score, self.options, filled, self._counts)

    def concentration(self, child: int, parents: tuple[int, ...]) -> Array:
        """Concentrations of the Dirichlet posteriors of the rows of a table, axes (parents..., child)."""
        self.prepare([(child, parents)])
        return self._tables[child, parents]

    def _concentration(self, counts: Array) -> Array | float:
        if self.score == "k2":
            return 1.0
        default = {"bdeu": 10.0, "bds": 10.0}.get(self.score, 1.0)
        size = float(self.options.get("equivalent_sample_size", default))
        if self.score == "bds":
            # Parent configurations that never occur have no prior mass under BDs; their rows are uniform anyway.
            present = counts.sum(axis=-1, keepdims=True) > 0
            return np.where(present, size / max(1, int(present.sum())), size / present.size) / counts.shape[-1]
        return size / counts.size

    def regressions(self, child: int, parents: tuple[int, ...]) -> NDArray[Any]:
        """Posterior of (intercept, slopes...) and variance for each configuration of the discrete parents."""
        key = (child, parents)
        if key not in self._regressions:
            self._regressions[key] = self._wishart(*key) if self.score == "bge" else self._by_configuration(*key)
        return self._regressions[key]

    @cached_property
    def _bge(self) -> Wishart:
        return bge.posterior(self.observations, self.options)

    def _wishart(self, child: int, parents: tuple[int, ...]) -> NDArray[Any]:
        known, above = self._bge, list(parents)
        inner, cross = known.matrix[np.ix_(above, above)], known.matrix[above, child]
        slopes = np.linalg.solve(inner, cross) if above else np.zeros(0)
        rest = known.matrix[child, child] - cross @ slopes
        # In the units of the columns.
        unit, units = known.scale[child], known.scale[above]
        slopes = slopes * unit / units
        mu = np.concatenate([[known.centre[child] - slopes @ known.centre[above]], slopes])
        # The intercept is the mean of the variable minus that explained by its parents, as known from `rows` rows.
        precision = np.zeros((1 + len(above), 1 + len(above)))
        precision[0, 0], precision[1:, 1:] = known.rows, inner * np.outer(units, units)
        alpha = (known.df - self.observations.n + len(above) + 1) / 2
        out = np.empty((), dtype=object)
        out[()] = NormalInverseGamma.about(known.centre[above], mu, precision, alpha, float(rest * unit**2) / 2)
        return out

    def _by_configuration(self, child: int, parents: tuple[int, ...]) -> NDArray[Any]:
        observations = self.observations
        discrete = [u for u in parents if observations.cards[u]]
        linear = [u for u in parents if not observations.cards[u]]
        weights = np.asarray(observations.weights, dtype=float)
        design = np.column_stack([np.ones(len(weights)), observations.values[:, linear]])
        y = observations.values[:, child]
        prior = _one_row(observations.values[:, linear], y, weights)
        out = np.empty(tuple(int(observations.cards[u]) for u in discrete), dtype=object)
        for at in np.ndindex(out.shape):
            rows = np.ones(len(y), dtype=bool)
            for u, code in zip(discrete, at, strict=True):
                rows &= observations.codes[:, u] == code
            repeated = np.repeat(np.flatnonzero(rows), np.round(weights[rows]).astype(np.int64))
            out[at] = prior.update(design[repeated], y[repeated])
        return out

    # -- whole nets

    def mean(
        self, parents: Sequence[tuple[int, ...]], among: Collection[int] | None = None
    ) -> DiscreteNetwork | MixedNetwork:
        """Return the net with parameters at their posterior means.

        Parameters
        ----------
        parents
            The parents of each variable, ascending.
        among
            Restrict the net to these variables, which include their parents. None: all.
        """
        return self._network(parents, among, lambda a: a / a.sum(axis=-1, keepdims=True), _mean)

    def draw(
        self, parents: Sequence[tuple[int, ...]], rng: np.random.Generator, among: Collection[int] | None = None
    ) -> DiscreteNetwork | MixedNetwork:
        """Return the net with parameters drawn from their posterior."""

        def one(posterior: NormalInverseGamma) -> tuple[Array, float]:
            coefficients, variance = posterior.draws(rng, 1)
            return coefficients[0], float(np.sqrt(variance[0]))

        return self._network(parents, among, lambda a: _dirichlet(a, rng), one)

    def _network(
        self,
        parents: Sequence[tuple[int, ...]],
        among: Collection[int] | None,
        table: Callable[[Array], Array],
        regression: Callable[[NormalInverseGamma], tuple[Array, float]],
    ) -> DiscreteNetwork | MixedNetwork:
        observations, names = self.observations, self.names
        keys = [(v, tuple(parent_set)) for v, parent_set in enumerate(parents) if among is None or v in among]
        self.prepare(keys)
        states = {names[v]: observations.states[v] for v, _ in keys if observations.cards[v]}
        above = {names[v]: tuple(names[u] for u in parent_set) for v, parent_set in keys if observations.cards[v]}
        tables = {names[v]: table(self._tables[v, parent_set]) for v, parent_set in keys if observations.cards[v]}
        if self.discrete:
            return DiscreteNetwork(states, above, tables)
        continuous = {
            names[v]: self._linear(v, parent_set, regression) for v, parent_set in keys if not observations.cards[v]
        }
        return MixedNetwork(states, above, tables, continuous)

    def _linear(
        self, child: int, parents: tuple[int, ...], regression: Callable[[NormalInverseGamma], tuple[Array, float]]
    ) -> LinearGaussian:
        posteriors: Any = self.regressions(child, parents)
        n_slopes = sum(not self.observations.cards[u] for u in parents)
        intercept, slopes, sd = (
            np.empty(posteriors.shape),
            np.empty((*posteriors.shape, n_slopes)),
            np.empty(posteriors.shape),
        )
        for at in np.ndindex(posteriors.shape):
            coefficients, sd[at] = regression(posteriors[at])
            intercept[at], slopes[at] = coefficients[0], coefficients[1:]
        return LinearGaussian(tuple(self.names[u] for u in parents), intercept, slopes, sd)


@dataclass(frozen=True, eq=False)
class Incomplete:
    """Posteriors of families with missing cells, given completions.

    Attributes
    ----------
    whole : Parameters
        Posteriors from the complete rows.
    codes : ndarray of int, shape (n_rows, n)
        The incomplete rows; -1 for a missing cell.
    """

    whole: Parameters
    codes: NDArray[np.integer]

    @classmethod
    def of(
        cls, codes: NDArray[np.integer], states: Mapping[str, Sequence[str]], score: str, options: Mapping[str, Any]
    ) -> Incomplete:
        """Create from rows of state numbers, -1 for a missing cell."""
        lacking = np.any(codes < 0, axis=1)
        return cls(Parameters(Observations.of_codes(codes[~lacking], states), score, options), codes[lacking])

    @property
    def n_missing(self) -> int:
        """Number of missing cells."""
        return int((self.codes < 0).sum())

    def given(self, completion: NDArray[np.integer]) -> Parameters:
        """Return the posteriors given the states of the missing cells, row by row."""
        filled = self.codes.copy()
        filled[filled < 0] = completion
        return self.whole.completed(filled)


def _axes(families: Iterable[Family]) -> list[tuple[int, ...]]:
    return [(*parents, v) for v, parents in families]


def _mean(posterior: NormalInverseGamma) -> tuple[Array, float]:
    """Posterior mean coefficients, and the square root of the mean variance (of its mode if the mean is infinite)."""
    coefficients, variance = posterior.mean()
    return coefficients, float(np.sqrt(variance if np.isfinite(variance) else posterior.beta / (posterior.alpha + 1)))


def _dirichlet(a: Array, rng: np.random.Generator) -> Array:
    drawn = rng.standard_gamma(a)
    total = drawn.sum(axis=-1, keepdims=True)
    # Concentrations near zero may all underflow; then the whole mass is on one state.
    one = np.eye(a.shape[-1])[rng.integers(a.shape[-1], size=total.shape[:-1])]
    return np.where(total > 0, drawn / np.where(total > 0, total, 1.0), one)


def _one_row(x: Array, y: Array, weights: Array) -> NormalInverseGamma:
    """Prior of a regression worth one row: zero slopes, and the marginal mean and variance of the variable."""
    total = weights.sum()
    middle, centre = weights @ x / total, float(weights @ y / total)
    spread = weights @ (x - middle) ** 2 / total
    variance = float(weights @ (y - centre) ** 2 / total) or 1.0
    precision = np.diag([1.0, *np.where(spread > 0, spread, 1.0)])
    mu = np.concatenate([[centre], np.zeros(x.shape[1])])
    return NormalInverseGamma.about(middle, mu, precision, 1.5, 0.5 * variance)
