"""Tests of conditional independence for constraint-based search.

The null hypothesis is that X is independent of Y given Z. For discrete variables, X and Y are tabulated within
each joint state of Z (a *stratum*); the likelihood ratio G² = 2 Σ n log(n / e) and Pearson's
χ² = Σ (n - e)² / e, with e the expected counts under independence within strata, are approximately χ²
distributed [1]_. Empty rows and columns of a stratum's table do not count towards its degrees of freedom [2]_.
G² is 2 N times the conditional mutual information in nats. With few rows per stratum, compare with tables of
the same margins instead: the permutation p-value is exact for any counts [3]_. For normally distributed numbers
the null hypothesis is a partial correlation of zero; Fisher's z = atanh(r) √(N - |Z| - 3) is approximately
standard normal [4]_, and r √(dof / (1 - r²)) follows Student's t with dof = N - |Z| - 2 degrees of freedom.

References
----------
.. [1] Agresti (2013). Categorical Data Analysis, 3rd ed., sections 3.2 and 4.3.
.. [2] Spirtes, Glymour, Scheines (2000). Causation, Prediction, and Search, 2nd ed., section 5.5.
.. [3] Tsamardinos, Borboudakis (2010). Permutation testing improves Bayesian network learning. ECML PKDD,
   322-337; Phipson, Smyth (2010) for the added one.
.. [4] Fisher (1924). The distribution of the partial correlation coefficient. Metron 3, 329-332.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import DataError, OptionError, hint
from bayeslab.structure.dag import d_connected, names_in
from bayeslab.structure.data import Observations

__all__ = [
    "CorrelationTest",
    "IndependenceTest",
    "Oracle",
    "Outcome",
    "TableTest",
    "chi_squared",
    "contingency",
    "fisher_z",
    "g_squared",
    "independence_test",
    "mutual_information",
    "partial_correlation",
    "permutation_p_value",
]

_TABLE_TESTS = ("g2", "chi2", "mi")
_CORRELATION_TESTS = ("fisher_z", "t")
TESTS = (*_TABLE_TESTS, *_CORRELATION_TESTS)
# Largest table counted in one pass; for larger tables only the occurring strata are numbered.
_DENSE = 1 << 22
# Relative residual variance below which it counts as rounding error.
_EXPLAINED = 1e-12


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a test of independence.

    Attributes
    ----------
    statistic : float
    dof : float
        Degrees of freedom.
    p_value : float
        Probability of a statistic at least as large under independence; 1 if there are no degrees of freedom.
    """

    statistic: float
    dof: float
    p_value: float


class IndependenceTest(Protocol):
    """Interface of a test: variables are given by number; x, y and the given variables are distinct."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""

    def __call__(self, x: int, y: int, given: Sequence[int] = ()) -> Outcome:
        """Test the independence of x and y, given others."""


def contingency(observations: Observations, x: int, y: int, given: Sequence[int] = ()) -> NDArray[np.float64]:
    """Return the counts of two variables in each stratum of others.

    Returns
    -------
    ndarray, shape (n_strata, states of x, states of y)
        Weighted counts. Strata without rows may be omitted.
    """
    from bayeslab.structure.independence_kernels import count_table

    cards = observations.cards
    n_x, n_y = int(cards[x]), int(cards[y])
    n_cells = math.prod(int(cards[v]) for v in (*given, x, y))
    if n_cells <= _DENSE:
        chosen = np.array([*given, x, y], dtype=np.int64)
        counts = count_table(observations.codes.T, cards, observations.weights, chosen, n_cells)
        return counts.reshape(-1, n_x, n_y)
    strata = np.zeros(len(observations.codes), np.int64)
    for v in given:
        strata = np.unique(strata * cards[v] + observations.codes[:, v], return_inverse=True)[1]
    cells = (strata * n_x + observations.codes[:, x]) * n_y + observations.codes[:, y]
    size = (int(strata.max(initial=0)) + 1) * n_x * n_y
    return np.bincount(cells, observations.weights, minlength=size).reshape(-1, n_x, n_y)


def _of_table(counts: NDArray[Any], pearson: bool) -> Outcome:
    from scipy.special import chdtrc

    from bayeslab.structure.independence_kernels import table_statistic

    statistic, dof = table_statistic(_strata(counts), pearson)
    return Outcome(statistic, dof, float(chdtrc(dof, statistic)) if dof else 1.0)


def _strata(counts: NDArray[Any]) -> NDArray[np.float64]:
    """Return counts of shape (strata, rows, columns); a plain table is one stratum."""
    table = np.ascontiguousarray(counts, dtype=np.float64)
    return table if table.ndim == 3 else table.reshape(-1, *table.shape[-2:])


def g_squared(counts: NDArray[Any]) -> Outcome:
    """Likelihood-ratio test of counts of shape (..., rows, columns), summed over the tables."""
    return _of_table(counts, False)


def chi_squared(counts: NDArray[Any]) -> Outcome:
    """Pearson's test of counts of shape (..., rows, columns), summed over the tables, without correction."""
    return _of_table(counts, True)


def mutual_information(counts: NDArray[Any]) -> float:
    """Return the empirical conditional mutual information in nats of counts of shape (..., rows, columns)."""
    total = float(np.sum(counts))
    return g_squared(counts).statistic / (2.0 * total) if total else 0.0


def permutation_p_value(
    counts: NDArray[Any], rng: np.random.Generator, *, draws: int = 1000, pearson: bool = False
) -> float:
    """Return the permutation p-value of G² or χ²: the share of tables, at equal margins, with at least this statistic.

    Permuting x within strata gives tables with a multivariate hypergeometric distribution; they are drawn cell by
    cell, so that the cost does not depend on the number of rows.

    Parameters
    ----------
    counts : ndarray of whole numbers, shape (..., rows, columns)
    draws
        Number of random tables; the observed table counts as one more.

    Raises
    ------
    DataError
        Some weights are not whole numbers.
    """
    table = _strata(counts)
    if np.any(table != np.floor(table)):
        raise DataError(
            "a permutation test counts rows, and these weights are not whole numbers; take 'g2' or 'chi2'",
            code="not-whole",
        )
    cells = table[table.sum(axis=(1, 2)) > 0].astype(np.int64)
    observed = _statistics(cells[None], pearson)[0]
    drawn = _statistics(_shuffled(cells, draws, rng), pearson)
    # Statistics that differ only by the order of summation count as equal to the observed one.
    return float((1 + np.count_nonzero(drawn >= observed - 1e-9 * (1 + observed))) / (draws + 1))


def _shuffled(table: NDArray[np.int64], draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw tables with the margins of each stratum, shape (draws, strata, rows, columns)."""
    n_strata, n_x, n_y = table.shape
    out = np.zeros((draws, n_strata, n_x, n_y), np.int64)
    free = np.broadcast_to(table.sum(axis=1), (draws, n_strata, n_y)).copy()
    for i, row in enumerate(table.sum(axis=2).T[:-1]):
        left = np.broadcast_to(row, (draws, n_strata)).copy()
        for j in range(n_y - 1):
            out[:, :, i, j] = rng.hypergeometric(free[:, :, j], free[:, :, j + 1 :].sum(axis=2), left)
            left -= out[:, :, i, j]
        out[:, :, i, -1] = left
        free -= out[:, :, i]
    out[:, :, -1] = free
    return out


def _statistics(tables: NDArray[np.int64], pearson: bool) -> NDArray[Any]:
    """Return the statistic of many stratified tables with common margins, shape (draws, strata, rows, columns)."""
    rows, columns = tables[0].sum(axis=2, keepdims=True), tables[0].sum(axis=1, keepdims=True)
    expected = rows * columns / np.maximum(rows.sum(axis=1, keepdims=True), 1)
    safe = np.where(expected > 0, expected, 1.0)
    if pearson:
        return np.sum((tables - expected) ** 2 / safe, axis=(1, 2, 3))
    ratio = np.where(tables > 0, tables / safe, 1.0)
    return 2.0 * np.sum(tables * np.log(ratio), axis=(1, 2, 3))


@dataclass(frozen=True, eq=False)
class TableTest:
    """Tests of independence of discrete variables.

    Parameters
    ----------
    observations : Observations
    statistic : {"g2", "chi2", "mi"}
        ``mi`` is G² expressed as mutual information in nats.
    permutations : int
        Number of tables drawn for a permutation p-value; 0 uses the χ² distribution.
    seed : int
        Seed of the permutations. The result of a test does not depend on when it is run or on the order of its
        variables.
    """

    observations: Observations
    statistic: Literal["g2", "chi2", "mi"] = "g2"
    permutations: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.statistic not in _TABLE_TESTS:
            raise OptionError(
                f"no statistic '{self.statistic}'{hint(self.statistic, _TABLE_TESTS)}", code="unknown-word"
            )
        if self.permutations < 0:
            raise OptionError(
                f"permutations is a number of tables, 0 or more, not {self.permutations}", code="out-of-range"
            )
        if self.observations.continuous.any():
            name = self.observations.names[int(np.argmax(self.observations.continuous))]
            raise DataError(
                f"'{name}' holds numbers, and the test '{self.statistic}' is for states: sort its values into classes,"
                f" or take 'fisher_z' if all columns are numbers",
                code="not-states",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.observations.names

    def __call__(self, x: int, y: int, given: Sequence[int] = ()) -> Outcome:
        """Test the independence of x and y given others, all by number."""
        counts = self._counts(x, y, given)
        outcome = _of_table(counts, self.statistic == "chi2")
        p_value = self._permuted(x, y, given) if self.permutations and outcome.dof else outcome.p_value
        if self.statistic == "mi":
            return Outcome(outcome.statistic / max(2.0 * counts.sum(), 1.0), outcome.dof, p_value)
        return Outcome(outcome.statistic, outcome.dof, p_value)

    @cached_property
    def _cards(self) -> NDArray[np.int64]:
        return self.observations.cards

    @cached_property
    def _bits(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Bit rows, one per state, and the first row of each variable; empty if weights differ from one."""
        from bayeslab.structure.independence_kernels import pack_bits

        starts = np.cumsum(self._cards) - self._cards
        single = bool(np.all(self.observations.weights == 1))
        bits = np.zeros((int(self._cards.sum()) * single, (len(self.observations.codes) + 63) // 64), np.uint64)
        if single:
            pack_bits(self.observations.codes.T, starts, bits)
        return bits, starts

    def _counts(self, x: int, y: int, given: Sequence[int]) -> NDArray[np.float64]:
        """As :func:`contingency`, by bits if that is faster."""
        from bayeslab.structure.independence_kernels import count_bits

        chosen, n_rows = [*given, x, y], len(self.observations.codes)
        n_cells = math.prod(self._cards[chosen].tolist())
        # Measured: a word of a cell takes about a sixth of the time of a table row, and a cell as long as 16 words.
        if n_cells * (n_rows // 64 + 16) > 6 * n_rows or not len(self._bits[0]):
            return contingency(self.observations, x, y, given)
        counts = count_bits(*self._bits, self._cards, np.array(chosen), n_rows, n_cells)
        return counts.reshape(-1, int(self._cards[x]), int(self._cards[y]))

    def _permuted(self, x: int, y: int, given: Sequence[int]) -> float:
        def key(v: int) -> str:
            return self.names[v]

        x, y = sorted((x, y), key=key)
        given = sorted(given, key=key)
        words = "\0".join(map(key, (x, y, *given)))
        rng = np.random.default_rng([self.seed, zlib.crc32(words.encode())])
        counts = self._counts(x, y, given)
        return permutation_p_value(counts, rng, draws=self.permutations, pearson=self.statistic == "chi2")


def partial_correlation(covariance: NDArray[np.float64], x: int, y: int, given: Sequence[int] = ()) -> float:
    """Return the correlation of the residuals of x and y after linear regression on the given variables.

    Parameters
    ----------
    covariance : ndarray, shape (n, n)
        Covariances or correlations.

    Returns
    -------
    float
        0 if the given variables determine x or y.
    """
    pair, z = [x, y], list(given)
    left = covariance[np.ix_(pair, pair)]
    if z:
        cross = covariance[np.ix_(pair, z)]
        left = left - cross @ _solved(covariance[np.ix_(z, z)], cross.T)
    scale = left[0, 0] * left[1, 1]
    if left[0, 0] <= _EXPLAINED * covariance[x, x] or left[1, 1] <= _EXPLAINED * covariance[y, y]:
        return 0.0
    return float(np.clip(left[0, 1] / math.sqrt(scale), -1.0, 1.0))


def _solved(matrix: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(matrix, rcond=1e-10, hermitian=True) @ right
    return np.linalg.solve(matrix, right)


def fisher_z(r: float, n_rows: float, n_given: int = 0) -> Outcome:
    """Test a partial correlation of zero by Fisher's z, two-sided; ``statistic`` is z."""
    dof = n_rows - n_given - 3
    if dof <= 0:
        return Outcome(0.0, dof, 1.0)
    z = math.sqrt(dof) * (math.atanh(r) if abs(r) < 1.0 else math.copysign(math.inf, r))
    return Outcome(z, dof, math.erfc(abs(z) / math.sqrt(2.0)))


def _student(r: float, n_rows: float, n_given: int) -> Outcome:
    from scipy.special import stdtr

    dof = n_rows - n_given - 2
    if dof <= 0:
        return Outcome(0.0, dof, 1.0)
    t = math.copysign(math.inf, r) if abs(r) >= 1.0 else r * math.sqrt(dof / (1.0 - r * r))
    return Outcome(t, dof, 2.0 * float(stdtr(dof, -abs(t))))


@dataclass(frozen=True, eq=False)
class CorrelationTest:
    """Tests of independence of numbers from a joint normal distribution.

    Parameters
    ----------
    observations : Observations
        Observations of continuous variables only.
    statistic : {"fisher_z", "t"}
    """

    observations: Observations
    statistic: Literal["fisher_z", "t"] = "fisher_z"

    def __post_init__(self) -> None:
        if self.statistic not in _CORRELATION_TESTS:
            raise OptionError(
                f"no statistic '{self.statistic}'{hint(self.statistic, _CORRELATION_TESTS)}", code="unknown-word"
            )
        if not self.observations.continuous.all():
            name = self.observations.names[int(np.argmin(self.observations.continuous))]
            raise DataError(
                f"'{name}' holds states, and the test '{self.statistic}' is for numbers: leave the column out, or sort"
                f" the numbers into classes and take 'g2'",
                code="not-numbers",
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.observations.names

    @cached_property
    def correlation(self) -> NDArray[np.float64]:
        """Correlations of the variables, shape (n, n); 0 for constant variables."""
        weights = self.observations.weights.astype(float)
        values = self.observations.in_range[0]
        centred = values - np.average(values, axis=0, weights=weights)
        scale = np.sqrt(np.average(centred**2, axis=0, weights=weights))
        # A column that varies only by rounding is constant.
        still = scale <= 1e-13 * np.abs(values).max(axis=0, initial=0.0)
        scaled = np.where(still, 0.0, centred / np.where(still, 1.0, scale))
        out = (scaled * weights[:, None]).T @ scaled / weights.sum()
        np.fill_diagonal(out, 1.0)
        return out

    def __call__(self, x: int, y: int, given: Sequence[int] = ()) -> Outcome:
        """Test the independence of x and y given others, all by number."""
        r = partial_correlation(self.correlation, x, y, given)
        test = fisher_z if self.statistic == "fisher_z" else _student
        return test(r, self.observations.n_rows, len(given))


@dataclass(frozen=True, eq=False)
class Oracle:
    """Results from a known DAG: independent if and only if d-separated.

    Parameters
    ----------
    dag : networkx.DiGraph
    hidden : collection of str
        Hidden variables, which tests cannot use.
    selected : collection of str
        Selection variables: every test is conditional on them.
    """

    dag: nx.DiGraph
    hidden: Collection[str] = ()
    selected: Collection[str] = ()
    _reach: dict[tuple[int, frozenset[int]], frozenset[str]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        names_in(self.dag, [*self.hidden, *self.selected])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The observed variables."""
        return tuple(v for v in self.dag if v not in self.hidden and v not in self.selected)

    def __call__(self, x: int, y: int, given: Sequence[int] = ()) -> Outcome:
        """Return p-value 1 if x and y are d-separated by the given variables, else 0."""
        key = (x, frozenset(given))
        if key not in self._reach:
            names = [self.names[v] for v in given]
            self._reach[key] = d_connected(self.dag, self.names[x], [*names, *self.selected])
        open_ = self.names[y] in self._reach[key]
        return Outcome(float(open_), 1, 0.0 if open_ else 1.0)


def independence_test(name: str, data: Any, *, permutations: int = 0, seed: int = 0) -> TableTest | CorrelationTest:
    """Return a test by its name.

    Parameters
    ----------
    name : {"g2", "chi2", "mi", "fisher_z", "t"}
    data
        Observations, or a table as :meth:`bayeslab.structure.data.Observations.of` reads it.
    permutations, seed
        See :class:`TableTest`.

    Raises
    ------
    OptionError
        The name is unknown, or permutations are requested for continuous variables.
    """
    if name in _TABLE_TESTS:
        return TableTest(Observations.of(data), name, permutations, seed)  # type: ignore[arg-type]
    if name not in _CORRELATION_TESTS:
        raise OptionError(f"no test of independence '{name}'{hint(name, TESTS)}", code="unknown-word")
    if permutations:
        raise OptionError(
            f"the test '{name}' has no permutation p-value; take 'g2', 'chi2' or 'mi', or permutations: 0",
            code="not-applicable",
        )
    return CorrelationTest(Observations.of(data, kind="continuous"), name)  # type: ignore[arg-type]
