"""EM for conditional linear-Gaussian nets with missing cells: exact expected statistics, in batches.

What is hidden in a row falls apart into groups of variables that the observed ones separate. The same
group occurs in many rows; for all of them at once the configurations of its discrete variables
are enumerated, and given each configuration its continuous variables are normal with moments that
share one covariance across rows. The log density of a row is the sum over its groups and over
the variables whose families are observed, and the expected statistics are those that complete
data would have: counts for tables, and for a continuous variable y with continuous parents x the
matrix E[z z'], z = (1, x, y), for each configuration of its discrete parents. A mixture of normals is the
net C -> X with C never observed.

The M-step is maximum likelihood from these. A normal that settles on a single row would send the
likelihood to infinity; so no sd may fall below a small share of its column's sd. This bounds the
parameters and changes nothing else: the M-step is then the maximum under the bound, and the
likelihood still never falls.

References
----------
.. [1] Dempster, Laird, Rubin (1977). Maximum likelihood from incomplete data via the EM algorithm.
   JRSS B 39, 1-38.
.. [2] Lauritzen (1995). The EM algorithm for graphical association models with missing data.
   Computational Statistics & Data Analysis 19, 191-201.
.. [3] Hathaway (1985). A constrained formulation of maximum-likelihood estimation for normal mixture
   distributions. Annals of Statistics 13, 795-800 (why a bound).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import networkx as nx
import numpy as np

from bayeslab.errors import DataError, EngineRefusal, OptionError
from bayeslab.exact.gaussian_network import observe
from bayeslab.exact.mixed_learning import check_data, maximum_likelihood
from bayeslab.exact.mixed_network import LinearGaussian, MixedNetwork

__all__ = ["EMFit", "Options", "Statistics", "em", "expected_statistics", "random_start", "restarts"]

_LOG_2PI = float(np.log(2 * np.pi))
_MOST_CONFIGURATIONS = 2**16
# Numbers in the arrays of one batch: 32 MB.
_BATCH = 2**22
# Eigenvalues of E[x x'] below this share of the largest leave a direction undetermined.
_RANK = 1e-12


@dataclass(frozen=True)
class Options:
    """How EM runs, and the prior that makes it find a posterior mode.

    Attributes
    ----------
    table_count : float
        Added to each expected count: the mode under Dirichlet(1 + table_count) rows.
    noise_count, noise_share : float
        Added rows of variance ``noise_share`` times that of the column: the mode under an
        inverse-gamma prior of σ² (in units of the column's variance) with shape noise_count / 2 - 1 and
        scale noise_count * noise_share / 2.
    floor : float
        Smallest sd, as a share of the sd of the column (of 1 for a column never observed).
    max_iterations : int
    tolerance : float
        Stop when the log posterior gains less than this a row.
    """

    table_count: float = 0.0
    noise_count: float = 0.0
    noise_share: float = 0.1
    floor: float = 1e-3
    max_iterations: int = 1000
    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        for name in ("table_count", "noise_count", "noise_share", "tolerance"):
            if not getattr(self, name) >= 0:
                raise OptionError(f"{name} must not be negative, not {getattr(self, name)}")
        if not self.floor > 0:
            raise OptionError(f"floor must be positive, not {self.floor}: without it a normal can collapse on one row")
        if self.max_iterations < 1:
            raise OptionError(f"max_iterations must be at least 1, not {self.max_iterations}")


@dataclass(frozen=True, eq=False)
class Statistics:
    """Expected sufficient statistics of rows with missing cells.

    Attributes
    ----------
    counts : dict of str to ndarray
        Of each entry of a table.
    moments : dict of str to ndarray (states of discrete parents..., q + 2, q + 2)
        Sums of E[z z'], z = (1, continuous parents..., variable).
    log_density : ndarray (n,)
        Of what is observed in each row.
    """

    counts: dict[str, np.ndarray]
    moments: dict[str, np.ndarray]
    log_density: np.ndarray


@dataclass(frozen=True, eq=False)
class EMFit:
    """What EM found.

    Attributes
    ----------
    network : MixedNetwork
    log_likelihood : ndarray
        Of the data at the start and after each iteration.
    log_posterior : ndarray
        The same plus the log prior, up to a constant: what never falls.
    converged : bool
    """

    network: MixedNetwork
    log_likelihood: np.ndarray
    log_posterior: np.ndarray
    converged: bool

    @property
    def n_iterations(self) -> int:
        return len(self.log_likelihood) - 1


def expected_statistics(network: MixedNetwork, codes: np.ndarray, values: np.ndarray) -> Statistics:
    """The E-step, for all rows.

    Parameters
    ----------
    network : MixedNetwork
    codes : ndarray of int (n, number of discrete variables)
        -1 is a missing cell.
    values : ndarray (n, number of continuous variables)
        NaN is a missing cell.

    Raises
    ------
    DataError
        Data that do not fit the net, or a row of probability zero.
    EngineRefusal
        An sd of zero, or too many configurations of hidden discrete variables at once.
    """
    return _Plan.of(network, *check_data(network, codes, values)).expect(network)


def em(network: MixedNetwork, codes: np.ndarray, values: np.ndarray, options: Options = Options()) -> EMFit:
    """Parameters of largest likelihood, or posterior density, near those of ``network``.

    Parameters
    ----------
    network : MixedNetwork
        Structure and start. Equal starts for the states of a hidden variable stay equal: see `random_start`.
    codes, values : ndarray
        Rows; -1 and NaN are missing cells.
    options : Options

    Raises
    ------
    DataError, EngineRefusal
        As `expected_statistics`.
    """
    codes, values = check_data(network, codes, values)
    shift, scale = _units(values)
    plan = _Plan.of(network, codes, (values - shift) / scale)
    now = _rescaled(network, shift, scale)
    jacobian = float(((~np.isnan(values)).sum(axis=0) * np.log(scale)).sum())
    likelihood, posterior, converged = [], [], False
    for iteration in range(options.max_iterations + 1):
        found = plan.expect(now)
        likelihood.append(float(found.log_density.sum()) - jacobian)
        posterior.append(likelihood[-1] + _log_prior(now, options))
        converged = iteration > 0 and posterior[-1] - posterior[-2] <= options.tolerance * len(codes)
        if converged or iteration == options.max_iterations:
            break
        now = _maximise(now, found, options)
    fitted = _rescaled(now, -shift / scale, 1 / scale)
    return EMFit(fitted, np.array(likelihood), np.array(posterior), converged)


def restarts(
    network: MixedNetwork,
    codes: np.ndarray,
    values: np.ndarray,
    rng: np.random.Generator,
    n: int,
    options: Options = Options(),
) -> EMFit:
    """The best of n runs from random starts."""
    fits = [em(random_start(network, codes, values, rng), codes, values, options) for _ in range(n)]
    return max(fits, key=lambda fit: fit.log_posterior[-1])


def random_start(
    network: MixedNetwork, codes: np.ndarray, values: np.ndarray, rng: np.random.Generator
) -> MixedNetwork:
    """A start that tells the states of hidden variables apart.

    Missing cells are filled at random and the complete data fitted; then the tables that involve missing
    cells are mixed with random rows, and the intercepts that depend on them moved by about the sd of their column.
    """
    codes, values = check_data(network, codes, values)
    missing = {v: bool(np.any(codes[:, k] < 0)) for k, v in enumerate(network.states)}
    filled, known = codes.copy(), values.copy()
    shift, scale = _units(values)
    for k, own in enumerate(network.states.values()):
        gaps = codes[:, k] < 0
        filled[gaps, k] = rng.integers(len(own), size=gaps.sum())
    for k in range(values.shape[1]):
        gaps = np.isnan(values[:, k])
        known[gaps, k] = shift[k] + scale[k] * rng.standard_normal(gaps.sum())
    start = maximum_likelihood(network, filled, known)
    tables, continuous = dict(start.tables), dict(start.continuous)
    for v, table in start.tables.items():
        if any(missing[u] for u in (*network.parents[v], v)):
            tables[v] = 0.5 * table + 0.5 * rng.dirichlet(np.ones(table.shape[-1]), size=table.shape[:-1])
        else:
            tables[v] = 0.99 * table + 0.01 / table.shape[-1]
    for k, (v, node) in enumerate(start.continuous.items()):
        hidden = any(missing[u] for u in network.discrete_parents(v))
        moved = node.intercept + hidden * scale[k] * rng.standard_normal(node.intercept.shape)
        continuous[v] = replace(node, intercept=moved, sd=np.maximum(node.sd, 0.1 * scale[k]))
    return replace(start, tables=tables, continuous=continuous)


# ------------------------------------------------------------------------------------------- units


def _units(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of each column's observed cells; 0 and 1 where there is nothing to measure by."""
    seen = ~np.isnan(values)
    n = np.maximum(seen.sum(axis=0), 1)
    shift = np.where(seen, values, 0.0).sum(axis=0) / n
    scale = np.sqrt((np.where(seen, values - shift, 0.0) ** 2).sum(axis=0) / n)
    return shift, np.where(scale > 0, scale, 1.0)


def _rescaled(network: MixedNetwork, shift: np.ndarray, scale: np.ndarray) -> MixedNetwork:
    """The same net for (x - shift) / scale."""
    place = {v: k for k, v in enumerate(network.continuous)}
    out = {}
    for v, node in network.continuous.items():
        own, above = place[v], [place[p] for p in network.continuous_parents(v)]
        intercept = (node.intercept + node.slopes @ shift[above] - shift[own]) / scale[own]
        out[v] = LinearGaussian(node.parents, intercept, node.slopes * scale[above] / scale[own], node.sd / scale[own])
    return replace(network, continuous=out)


# ------------------------------------------------------------------------------------------ M-step


def _log_prior(network: MixedNetwork, options: Options) -> float:
    out = 0.0
    if options.table_count > 0:
        with np.errstate(divide="ignore"):
            out += options.table_count * sum(float(np.log(t).sum()) for t in network.tables.values())
    for node in network.continuous.values():
        variance = node.sd**2
        out -= 0.5 * options.noise_count * float((np.log(variance) + options.noise_share / variance).sum())
    return out


def _maximise(network: MixedNetwork, found: Statistics, options: Options) -> MixedNetwork:
    tables = {}
    for v, expected in found.counts.items():
        counts = expected + options.table_count
        total = counts.sum(axis=-1, keepdims=True)
        tables[v] = np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1 / counts.shape[-1])
    continuous = {}
    for v, node in network.continuous.items():
        moments = found.moments[v].copy()
        # A configuration that no row can have is given what all others say together.
        unseen = moments[..., 0, 0] <= 0
        moments[unseen] = moments.sum(axis=tuple(range(moments.ndim - 2)))
        n = moments[..., 0, 0]
        if np.all(n <= 0):
            continuous[v] = node
            continue
        coefficients = _solve(moments[..., :-1, :-1], moments[..., :-1, -1])
        contrast = np.concatenate([-coefficients, np.ones((*n.shape, 1))], axis=-1)
        squares = np.einsum("...i,...ij,...j->...", contrast, moments, contrast)
        variance = (squares + options.noise_count * options.noise_share) / (n + options.noise_count)
        sd = np.sqrt(np.maximum(variance, options.floor**2))
        continuous[v] = LinearGaussian(node.parents, coefficients[..., 0], coefficients[..., 1:], sd)
    return replace(network, tables=tables, continuous=continuous)


def _solve(gram: np.ndarray, cross: np.ndarray) -> np.ndarray:
    """Least squares; the smallest solution where rows leave a direction open."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > _RANK * values[..., -1:]
    inverse = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)
    return np.einsum("...ij,...j,...kj,...k->...i", vectors, inverse, vectors, cross)


# ------------------------------------------------------------------------------------------ E-step


@dataclass(frozen=True, eq=False)
class _Family:
    """A variable and its parents: where their columns are."""

    variable: str
    discrete: tuple[str, ...]
    continuous: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Batch:
    """Rows with the same hidden group, and the same states of the observed parents that matter to its covariance.

    An entry of an array of parameters has the flat index ``base + offset``: a base for each row
    (or for the batch) and an offset for each configuration of the hidden discrete variables.

    Attributes
    ----------
    rows : ndarray (n,)
    multiplicity : ndarray (n,) or None
        How many rows each stands for, where rows that look the same to the group are taken together.
    back : ndarray or None
        Then, for each row of the data in the batch, which one it is; ``rows`` are those of the data.
    n_configurations : int
    tables : list of (variable, base (n,), offset (K,))
    regressions : list of (variable, index (K,))
    hidden : tuple of str
        Continuous.
    """

    rows: np.ndarray
    multiplicity: np.ndarray | None
    back: np.ndarray | None
    n_configurations: int
    tables: list[tuple[str, np.ndarray, np.ndarray]]
    regressions: list[tuple[str, np.ndarray]]
    hidden: tuple[str, ...]


class _Plan:
    """Which rows share which hidden groups: made once for a structure and its data."""

    def __init__(self, network: MixedNetwork, codes: np.ndarray, values: np.ndarray) -> None:
        self.network, self.codes, self.values = network, codes, values
        self.column = {v: k for k, v in enumerate(network.states)} | {v: k for k, v in enumerate(network.continuous)}
        self.families = {v: _Family(v, (*network.parents[v], v), ()) for v in network.states}
        for v in network.order:
            above = network.continuous_parents(v)
            self.families[v] = _Family(v, network.discrete_parents(v), (*above, v))
        self.missing = {v: codes[:, self.column[v]] < 0 for v in network.states}
        self.missing |= {v: np.isnan(values[:, self.column[v]]) for v in network.continuous}
        self.batches = [batch for group, rows in self._groups().items() for batch in self._batches(group, rows)]

    @classmethod
    def of(cls, network: MixedNetwork, codes: np.ndarray, values: np.ndarray) -> _Plan:
        for v, node in network.continuous.items():
            if np.any(node.sd == 0):
                raise EngineRefusal(
                    f"'{v}' has an sd of zero: rows have no density to learn from; leave it out (it is a function of"
                    " its parents) or give it a small positive sd"
                )
        return cls(network, codes, values)

    # -------------------------------------------------------------------------------------- grouping

    @cached_property
    def _moral(self) -> nx.Graph:
        out = nx.Graph()
        for family in self.families.values():
            members = (*family.discrete, *family.continuous)
            out.add_nodes_from(members)
            out.add_edges_from((members[-1], u) for u in members[:-1])
            out.add_edges_from((a, b) for a in members for b in members if a < b)
        return out

    def _groups(self) -> dict[tuple[str, ...], np.ndarray]:
        """Hidden variables that no observed one separates, and the rows in which they are so."""
        names = list(self.missing)
        mask = np.stack([self.missing[v] for v in names], axis=1) if names else np.zeros((len(self.codes), 0), bool)
        patterns, which = np.unique(mask, axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(which.ravel(), minlength=len(patterns)))
        found: dict[tuple[str, ...], list[np.ndarray]] = {}
        for pattern, rows in zip(patterns, np.split(order, ends[:-1]), strict=True):
            hidden = self._moral.subgraph(v for v, gone in zip(names, pattern, strict=True) if gone)
            for members in nx.connected_components(hidden):
                found.setdefault(tuple(v for v in names if v in members), []).append(rows)
        return {group: np.sort(np.concatenate(rows)) for group, rows in found.items()}

    def _batches(self, group: tuple[str, ...], rows: np.ndarray) -> list[_Batch]:
        states = self.network.states
        discrete = [v for v in group if v in states]
        sizes = [len(states[v]) for v in discrete]
        if prod(sizes) > _MOST_CONFIGURATIONS:
            raise EngineRefusal(
                f"{len(discrete)} discrete variables hidden together in {len(rows)} rows have {prod(sizes):,}"
                f" configurations; at most {_MOST_CONFIGURATIONS:,} are enumerated: observe some of"
                f" {', '.join(discrete[:8])}, or sample with NUTS"
            )
        config = dict(zip(discrete, np.indices(sizes).reshape(len(sizes), prod(sizes)), strict=True))
        touched = [f for f in self.families.values() if any(u in group for u in (*f.discrete, *f.continuous))]
        tables = [f for f in touched if not f.continuous]
        regressions = [f for f in touched if f.continuous]
        relevant = list(dict.fromkeys(u for f in regressions for u in f.discrete if u not in config))
        hidden = tuple(v for v in group if v not in states)
        out = []
        for part in self._split(rows, relevant):
            bases = [(f, *self._index(f, part, config)) for f in tables]
            found = []
            for f in regressions:
                base, offset = self._index(f, part[:1], config)
                found.append((f.variable, base[0] + offset))
            if not regressions:
                out.append(self._distinct(part, prod(sizes), bases))
                continue
            step = max(1, _BATCH // (prod(sizes) * (len(regressions) + 2) ** 2))
            for begin in range(0, len(part), step):
                cut = slice(begin, begin + step)
                chunk = [(f.variable, base[cut], offset) for f, base, offset in bases]
                out.append(_Batch(part[cut], None, None, prod(sizes), chunk, found, hidden))
        return out

    def _distinct(
        self, rows: np.ndarray, n_configurations: int, tables: list[tuple[_Family, np.ndarray, np.ndarray]]
    ) -> _Batch:
        """Rows of tables alone: those that look the same are done once."""
        bases = np.stack([base for _, base, _ in tables], axis=1)
        kinds, back, times = np.unique(bases, axis=0, return_inverse=True, return_counts=True)
        found = [(f.variable, kinds[:, k], offset) for k, (f, _, offset) in enumerate(tables)]
        return _Batch(rows, times.astype(float), back.ravel(), n_configurations, found, [], ())

    def _split(self, rows: np.ndarray, variables: Sequence[str]) -> list[np.ndarray]:
        """Rows by the states of some observed variables."""
        if not variables:
            return [rows]
        seen = self.codes[rows][:, [self.column[v] for v in variables]]
        _, which = np.unique(seen, axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        return [rows[part] for part in np.split(order, np.cumsum(np.bincount(which.ravel()))[:-1])]

    def _index(self, family: _Family, rows: np.ndarray, config: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        n = len(next(iter(config.values()))) if config else 1
        base, offset = np.zeros(len(rows), np.int64), np.zeros(n, np.int64)
        stride = 1
        for v in reversed(family.discrete):
            if v in config:
                offset = offset + stride * config[v]
            else:
                base = base + stride * self.codes[rows, self.column[v]]
            stride *= len(self.network.states[v])
        return base, offset

    # --------------------------------------------------------------------------- what is fully observed

    @cached_property
    def _complete(self) -> list[tuple[_Family, np.ndarray, np.ndarray, np.ndarray]]:
        """For each family its complete rows, their flat index, and z = (1, parents, variable)."""
        out = []
        for f in self.families.values():
            members = (*f.discrete, *f.continuous)
            gone = np.any([self.missing[v] for v in members], axis=0)
            rows = np.flatnonzero(~gone)
            index = self._index(f, rows, {})[0]
            z = np.column_stack([np.ones(len(rows)), self.values[rows][:, [self.column[v] for v in f.continuous]]])
            out.append((f, rows, index, z))
        return out

    @cached_property
    def _constant(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        counts, moments = {}, {}
        for f, _, index, z in self._complete:
            if not f.continuous:
                shape = self.network.tables[f.variable].shape
                counts[f.variable] = np.bincount(index, minlength=prod(shape)).astype(float)
                continue
            shape = self.network.continuous[f.variable].intercept.shape
            total = np.zeros((prod(shape), z.shape[1], z.shape[1]))
            for k in np.unique(index):
                own = z[index == k]
                total[k] = own.T @ own
            moments[f.variable] = total
        return counts, moments

    # -------------------------------------------------------------------------------- the computation

    def expect(self, network: MixedNetwork) -> Statistics:
        """Expected statistics under the parameters of a net with this structure."""
        counts = {v: c.copy() for v, c in self._constant[0].items()}
        moments = {v: m.copy() for v, m in self._constant[1].items()}
        log_density = np.zeros(len(self.codes))
        with np.errstate(divide="ignore"):
            logs = {v: np.log(table).ravel() for v, table in network.tables.items()}
        nodes = {v: _flat(node) for v, node in network.continuous.items()}
        for f, rows, index, z in self._complete:
            if f.continuous:
                intercept, slopes, sd = nodes[f.variable]
                mean = intercept[index] + np.einsum("nk,nk->n", slopes[index], z[:, 1:-1])
                score = (z[:, -1] - mean) / sd[index]
                log_density[rows] -= 0.5 * (score**2 + _LOG_2PI) + np.log(sd[index])
            else:
                log_density[rows] += logs[f.variable][index]
        for batch in self.batches:
            self._expect(batch, logs, nodes, counts, moments, log_density)
        if np.any(np.isneginf(log_density)):
            row = int(np.argmax(np.isneginf(log_density)))
            raise DataError(f"row {row} (counted from 0) has probability zero under the net")
        shaped = {v: c.reshape(network.tables[v].shape) for v, c in counts.items()}
        shapes = {v: network.continuous[v].intercept.shape for v in moments}
        return Statistics(shaped, {v: m.reshape((*shapes[v], *m.shape[1:])) for v, m in moments.items()}, log_density)

    def _expect(
        self,
        batch: _Batch,
        logs: dict[str, np.ndarray],
        nodes: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
        counts: dict[str, np.ndarray],
        moments: dict[str, np.ndarray],
        log_density: np.ndarray,
    ) -> None:
        n = len(batch.rows) if batch.multiplicity is None else len(batch.multiplicity)
        weights = np.zeros((n, batch.n_configurations))
        for v, base, offset in batch.tables:
            weights += logs[v][base[:, None] + offset]
        means, factors, evidence = self._moments(batch, nodes) if batch.regressions else ({}, {}, None)
        if evidence is not None:
            weights += evidence
        top = weights.max(axis=1)
        top = np.where(np.isfinite(top), top, 0.0)
        weights = np.exp(weights - top[:, None])
        total = weights.sum(axis=1)
        with np.errstate(divide="ignore"):
            found = np.log(total) + top
        log_density[batch.rows] += found if batch.back is None else found[batch.back]
        weights /= np.where(total > 0, total, 1.0)[:, None]
        if batch.multiplicity is not None:
            weights *= batch.multiplicity[:, None]
        for v, base, offset in batch.tables:
            index = base[:, None] + offset
            counts[v] += np.bincount(index.ravel(), weights.ravel(), minlength=len(counts[v]))
        for v, at in batch.regressions:
            np.add.at(moments[v], at, self._second_moments(batch, v, weights, means, factors))

    def _moments(
        self, batch: _Batch, nodes: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], np.ndarray | None]:
        """Means (n or 1, K) of the batch's continuous variables, square-root rows (K, c) of the hidden ones, and
        the log density (n, K) of the observed ones."""
        width = len(batch.regressions)
        value = {v: self.values[batch.rows, self.column[v]][:, None] for v, _ in batch.regressions}
        means: dict[str, np.ndarray] = {}
        factors: dict[str, np.ndarray] = {}
        seen, seen_means, seen_factors = [], [], []
        for c, (v, at) in enumerate(batch.regressions):
            intercept, slopes, sd = (a[at] for a in nodes[v])
            mean = np.broadcast_to(intercept, (1, batch.n_configurations))
            factor = np.zeros((batch.n_configurations, width))
            factor[:, c] = sd
            for k, p in enumerate(self.families[v].continuous[:-1]):
                known = means[p] if p in batch.hidden else self.values[batch.rows, self.column[p]][:, None]
                mean = mean + slopes[:, k] * known
                if p in batch.hidden:
                    factor += slopes[:, k, None] * factors[p]
            if v in batch.hidden:
                means[v], factors[v] = mean, factor
            else:
                seen.append(v)
                seen_means.append(mean)
                seen_factors.append(factor)
        if not seen:
            return means, factors, None
        shape = (len(batch.rows), batch.n_configurations)
        mean = np.stack([np.broadcast_to(m, shape) for m in seen_means], axis=-1)
        values = np.stack([value[v] for v in seen], axis=-1)
        found = observe(mean, np.stack(seen_factors, axis=-2), values)
        for v in batch.hidden:
            means[v], factors[v] = found.update(means[v], factors[v])
        return means, factors, found.log_density

    def _second_moments(
        self,
        batch: _Batch,
        variable: str,
        weights: np.ndarray,
        means: dict[str, np.ndarray],
        factors: dict[str, np.ndarray],
    ) -> np.ndarray:
        """Sum over rows of the weighted E[z z'] of a family, for each configuration: (K, q + 2, q + 2)."""
        members = self.families[variable].continuous
        z = np.ones((*weights.shape, len(members) + 1))
        spread = np.zeros((batch.n_configurations, len(members) + 1, len(batch.regressions)))
        for k, u in enumerate(members, start=1):
            if u in batch.hidden:
                z[..., k], spread[:, k] = means[u], factors[u]
            else:
                z[..., k] = self.values[batch.rows, self.column[u]][:, None]
        out = np.matmul((weights[..., None] * z).transpose(1, 2, 0), z.transpose(1, 0, 2))
        out += weights.sum(axis=0)[:, None, None] * np.matmul(spread, spread.transpose(0, 2, 1))
        return out


def _flat(node: LinearGaussian) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return node.intercept.ravel(), node.slopes.reshape(node.intercept.size, -1), node.sd.ravel()
