"""Expected statistics of conditional linear-Gaussian nets for rows with missing cells, exactly and in batches.

The missing cells of a row form groups that are independent given the observed cells. The same group occurs in many
rows, which are processed together: the configurations of the group's discrete variables are enumerated, and given a
configuration its continuous variables are normal, with one covariance for all rows. The log density of a row is a sum
over its groups and its observed families. The expected statistics are counts for tables, and for a continuous variable
y with continuous parents x the matrix E[z z'], z = (1, x, y), for each configuration of its discrete parents. They also
give the gradient of the log density (Fisher's identity).

References
----------
.. [1] Lauritzen (1995). The EM algorithm for graphical association models with missing data.
   Computational Statistics & Data Analysis 19, 191-201.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import networkx as nx
import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.errors import DataError, EngineRefusal
from bayeslab.latents.networks.gaussian_network import observe
from bayeslab.latents.networks.mixed_learning import check_data
from bayeslab.latents.networks.mixed_network import LinearGaussian, MixedNetwork

__all__ = ["Plan", "Statistics", "expected_statistics"]

_MOST_CONFIGURATIONS = 2**16
# Maximum number of floats in the arrays of a batch: 32 MB.
_BATCH = 2**22


@dataclass(frozen=True, eq=False)
class Statistics:
    """Expected sufficient statistics of rows with missing cells.

    Attributes
    ----------
    counts : dict of str to ndarray
        Expected count of each entry of a table.
    moments : dict of str to ndarray (states of discrete parents..., q + 2, q + 2)
        Sums of E[z z'], z = (1, continuous parents..., variable).
    log_density : ndarray (n,)
        Log density of the observed cells of each row.
    """

    counts: dict[str, np.ndarray]
    moments: dict[str, np.ndarray]
    log_density: np.ndarray


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
        The data do not fit the net, or a row has probability zero.
    EngineRefusal
        An sd is zero, or hidden discrete variables have too many configurations.
    """
    return Plan.of(network, *check_data(network, codes, values)).expect(network)


@dataclass(frozen=True, eq=False)
class _Family:
    """Column indices of a variable and its parents."""

    variable: str
    discrete: tuple[str, ...]
    continuous: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Batch:
    """Rows with the same hidden group and the same states of observed parents, if these affect the group's covariance.

    The entries of a parameter array have the flat indices ``base + offset``, with a base for each row (or for the
    batch) and an offset for each configuration of the hidden discrete variables.

    Attributes
    ----------
    rows : ndarray (n,)
    multiplicity : ndarray (n,) or None
        Number of data rows that each row represents, if rows that are equal for the group are merged.
    back : ndarray or None
        With merged rows, the index of the merged row of each data row; ``rows`` are the data rows.
    n_configurations : int
    tables : list of (variable, base (n,), offset (K,))
    regressions : list of (variable, index (K,))
    hidden : tuple of str
        The hidden continuous variables.
    """

    rows: np.ndarray
    multiplicity: np.ndarray | None
    back: np.ndarray | None
    n_configurations: int
    tables: list[tuple[str, np.ndarray, np.ndarray]]
    regressions: list[tuple[str, np.ndarray]]
    hidden: tuple[str, ...]


class Plan:
    """Batches of rows with common hidden groups, computed once for a structure and its data."""

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
    def of(cls, network: MixedNetwork, codes: np.ndarray, values: np.ndarray) -> Plan:
        for v, node in network.continuous.items():
            if np.any(node.sd == 0):
                raise EngineRefusal(
                    f"'{v}' has an sd of zero: rows have no density to learn from; leave it out (it is a function of"
                    " its parents) or give it a small positive sd",
                    code="degenerate",
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
        """Groups of hidden variables that no observed variable separates, and their rows."""
        names = list(self.missing)
        mask = np.stack([self.missing[v] for v in names], axis=1) if names else np.zeros((len(self.codes), 0), bool)
        patterns, which = np.unique(mask, axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(which.ravel(), minlength=len(patterns)))
        groups: dict[tuple[str, ...], list[np.ndarray]] = {}
        for pattern, rows in zip(patterns, np.split(order, ends[:-1]), strict=True):
            hidden = self._moral.subgraph(v for v, gone in zip(names, pattern, strict=True) if gone)
            for members in nx.connected_components(hidden):
                groups.setdefault(tuple(v for v in names if v in members), []).append(rows)
        return {group: np.sort(np.concatenate(rows)) for group, rows in groups.items()}

    def _batches(self, group: tuple[str, ...], rows: np.ndarray) -> list[_Batch]:
        states = self.network.states
        discrete = [v for v in group if v in states]
        sizes = [len(states[v]) for v in discrete]
        if prod(sizes) > _MOST_CONFIGURATIONS:
            raise EngineRefusal(
                f"{len(discrete)} discrete variables hidden together in {len(rows)} rows have {prod(sizes):,}"
                f" configurations; at most {_MOST_CONFIGURATIONS:,} are enumerated: observe some of"
                f" {', '.join(discrete[:8])}, or sample with NUTS",
                code="too-costly",
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
            places = []
            for f in regressions:
                base, offset = self._index(f, part[:1], config)
                places.append((f.variable, base[0] + offset))
            if not regressions:
                out.append(self._distinct(part, prod(sizes), bases))
                continue
            step = max(1, _BATCH // (prod(sizes) * (len(regressions) + 2) ** 2))
            for begin in range(0, len(part), step):
                cut = slice(begin, begin + step)
                chunk = [(f.variable, base[cut], offset) for f, base, offset in bases]
                out.append(_Batch(part[cut], None, None, prod(sizes), chunk, places, hidden))
        return out

    def _distinct(
        self, rows: np.ndarray, n_configurations: int, tables: list[tuple[_Family, np.ndarray, np.ndarray]]
    ) -> _Batch:
        """Merge rows that are equal for a group without continuous variables."""
        bases = np.stack([base for _, base, _ in tables], axis=1)
        kinds, back, times = np.unique(bases, axis=0, return_inverse=True, return_counts=True)
        columns = [(f.variable, kinds[:, k], offset) for k, (f, _, offset) in enumerate(tables)]
        return _Batch(rows, times.astype(float), back.ravel(), n_configurations, columns, [], ())

    def _split(self, rows: np.ndarray, variables: Sequence[str]) -> list[np.ndarray]:
        """Rows by the states of some observed variables."""
        if not variables:
            return [rows]
        codes = self.codes[rows][:, [self.column[v] for v in variables]]
        _, which = np.unique(codes, axis=0, return_inverse=True)
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

    # --------------------------------------------------------------------------------- observed families

    @cached_property
    def _complete(self) -> list[tuple[_Family, np.ndarray, np.ndarray, np.ndarray]]:
        """For each family: its complete rows, their flat indices, and z = (1, parents, variable)."""
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
                cases = z[index == k]
                total[k] = cases.T @ cases
            moments[f.variable] = total
        return counts, moments

    # -------------------------------------------------------------------------------- the computation

    def expect(self, network: MixedNetwork) -> Statistics:
        """Expected statistics for a net with this structure."""
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
                log_density[rows] -= 0.5 * (score**2 + LOG_2PI) + np.log(sd[index])
            else:
                log_density[rows] += logs[f.variable][index]
        for batch in self.batches:
            self._expect(batch, logs, nodes, counts, moments, log_density)
        if np.any(np.isneginf(log_density)):
            row = int(np.argmax(np.isneginf(log_density)))
            raise DataError(f"row {row} (counted from 0) has probability zero under the net", code="probability-zero")
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
            log_sum = np.log(total) + top
        log_density[batch.rows] += log_sum if batch.back is None else log_sum[batch.back]
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
        observed, observed_means, observed_factors = [], [], []
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
                observed.append(v)
                observed_means.append(mean)
                observed_factors.append(factor)
        if not observed:
            return means, factors, None
        shape = (len(batch.rows), batch.n_configurations)
        mean = np.stack([np.broadcast_to(m, shape) for m in observed_means], axis=-1)
        values = np.stack([value[v] for v in observed], axis=-1)
        observation = observe(mean, np.stack(observed_factors, axis=-2), values)
        for v in batch.hidden:
            means[v], factors[v] = observation.update(means[v], factors[v])
        return means, factors, observation.log_density

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
