"""Bayes nets whose posterior has a closed form: Dirichlet rows, and every relevant family of variables complete.

A variable that is missing in a row of the data and has no observed descendant sums out to one: the row carries no
information about it. If all the other variables of an unknown table are observed, the likelihood is a product of powers
of the table's entries, and the posterior of its rows is a product of independent Dirichlet distributions, as the prior.

References
----------
.. [1] Spiegelhalter, Lauritzen (1990). Sequential updating of conditional probabilities on directed graphical
   structures. Networks 20, 579-605.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from scipy.special import betaincinv, gammaln

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.errors import DataError
from bayeslab.exact.conjugate import NormalInverseGamma
from bayeslab.families.bayes_net.local_distributions.table import Table
from bayeslab.families.bayes_net.net import Net, Resolved
from bayeslab.families.bayes_net.normal_nodes import Linear, prior_of
from bayeslab.latents.networks.counting import family_counts
from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.posterior.answer import Plan

__all__ = ["exact", "relevant"]


def relevant(net: Net, codes: np.ndarray) -> np.ndarray:
    """Whether each variable is observed or has an observed descendant, for each row; shape of ``codes``."""
    out = codes >= 0
    place = {v: k for k, v in enumerate(net.states)}
    for v in reversed([v for v in nx.topological_sort(net.graph) if v in place]):
        for parent in net.parents.get(v, ()):
            out[:, place[parent]] |= out[:, place[v]]
    return out


def exact(resolved: Resolved) -> Plan | str:
    """Plan of the Dirichlet posteriors, or the reason why there is none."""
    net, codes, values, times = resolved
    learned = net.learned
    if not learned and not net.regressions:
        return "every table is given, so that there is nothing to learn; `bayeslab query` answers questions"
    odd = [v for v in learned if not isinstance(net.locals[v], Table) or net.locals[v].rows is None]
    if odd or net.parameters:
        shared = f"tables share the parameter '{next(iter(net.parameters), '')}'"
        return shared if net.parameters else f"the distribution of '{odd[0]}' has no conjugate prior"
    if net.linears and (np.any(codes < 0) or np.any(np.isnan(values))):
        return "cells are missing in a net with continuous variables; method em takes them"
    place = {v: k for k, v in enumerate(net.states)}
    matters, observed = relevant(net, codes), codes >= 0
    for v in learned:
        columns = [place[w] for w in (*net.parents[v], v)]
        gaps = matters[:, place[v]] & ~observed[:, columns].all(axis=1)
        if np.any(gaps):
            n_gaps = gaps.sum() if times is None else times[gaps].sum()
            never = [w for w in (*net.parents[v], v) if not observed[:, place[w]].any()]
            why = f"'{never[0]}' is hidden" if never else f"cells are missing in {n_gaps:.0f} rows"
            return f"{why}, which is summed out"
    parts = (
        [f"rows of {len(learned)} tables are independent Dirichlet distributions given the counts"] if learned else []
    )
    if net.regressions:
        parts.append(f"{len(net.regressions)} linear Gaussian variables are conjugate regressions")
    dims = {rows.name: net.dims(v) for v in learned if (rows := net.locals[v].rows) is not None}
    dims |= {name: names for node in net.linears.values() if node.known is None for name, names in node.dims.items()}
    return Plan("; ".join(parts), lambda: _answer(net, codes, values, matters, times), dims=dims, labels=net.labels())


def _answer(
    net: Net, codes: np.ndarray, values: np.ndarray, matters: np.ndarray, times: np.ndarray | None
) -> _Parameters:
    place = {v: k for k, v in enumerate(net.states)}
    cards = [len(s) for s in net.states.values()]
    # A row does not count for a family that is irrelevant in it.
    counted = np.where(matters, codes, -1)
    families = [[place[w] for w in (*net.parents[v], v)] for v in net.learned]
    counts = family_counts(counted, cards, families, times)
    before, after, evidence = {}, {}, 0.0
    for v, count in zip(net.learned, counts, strict=True):
        rows = net.locals[v].rows
        assert rows is not None
        flat = count.reshape(-1, count.shape[-1])
        other = np.setdiff1d(np.arange(len(flat)), rows.index)
        fixed = getattr(net.locals[v], "fixed")[other]  # noqa: B009 - a table
        evidence += _fixed_evidence(v, flat[other], fixed)
        before[rows.name], after[rows.name] = rows.concentration, rows.concentration + flat[rows.index]
        evidence += float(_log_evidence(rows.concentration, flat[rows.index]).sum())
    evidence += _rest(net, codes, np.ones(len(codes)) if times is None else times)
    names = {rows.name: v for v in net.learned if (rows := net.locals[v].rows) is not None}
    regressions = {}
    for v, node in net.linears.items():
        posterior, gained = _regression(net, node, codes, values)
        evidence += gained
        if posterior is not None:
            regressions[v] = posterior
    return _Parameters(net, names, after, regressions, evidence)


def _regression(net: Net, node: Linear, codes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray | None, float]:
    """Posterior of the regression in each row of the discrete parents, and the log evidence of the column."""
    column = {v: k for k, v in enumerate(net.linears)}
    discrete = {v: k for k, v in enumerate(net.states)}
    y = values[:, column[node.variable]]
    design = np.column_stack([np.ones(len(y)), *(values[:, column[p]] for p in node.continuous)])
    at = tuple(codes[:, discrete[p]] for p in node.discrete)
    if node.known is not None:
        mean = node.known.intercept[at] + (design[:, 1:] * node.known.slopes[at]).sum(axis=1)
        sd = node.known.sd[at] * np.ones(len(y))
        return None, float(np.sum(-0.5 * ((y - mean) / sd) ** 2 - np.log(sd) - HALF_LOG_2PI))
    prior = prior_of(node, net.linears, net.measured)
    out, evidence = np.empty(node.shape, dtype=object), 0.0
    for row in np.ndindex(*node.shape):
        mine = np.all([a == i for a, i in zip(at, row, strict=True)], axis=0) if row else np.ones(len(y), bool)
        out[row] = prior.update(design[mine], y[mine])
        evidence += prior.log_evidence(design[mine], y[mine])
    return out, evidence


def _fixed_evidence(variable: str, counts: np.ndarray, table: np.ndarray) -> float:
    if np.any((counts > 0) & (table == 0)):
        raise DataError(
            f"a row of the data has probability zero under the table given for '{variable}'", code="probability-zero"
        )
    return float(np.sum(counts[counts > 0] * np.log(table[counts > 0])))


def _log_evidence(prior: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Log evidence of each row of counts, its Dirichlet integrated out (for observations in a known order)."""
    total = prior.sum(axis=-1)
    out = (
        gammaln(total) - gammaln(total + counts.sum(axis=-1)) + (gammaln(prior + counts) - gammaln(prior)).sum(axis=-1)
    )
    return np.asarray(out)


def _rest(net: Net, codes: np.ndarray, times: np.ndarray) -> float:
    """Log probability of the data under the known tables, without the factors of the unknown ones."""
    known = [v for v in net.states if net.locals[v].known is not None]
    if not known:
        return 0.0

    scopes = tuple((*net.parents[v], v) for v in known)
    tables = tuple(np.asarray(net.locals[v].known) for v in known)
    involved = {w for scope in scopes for w in scope}
    states = {v: s for v, s in net.states.items() if v in involved}
    columns = [k for k, v in enumerate(net.states) if v in involved]
    # Missing cells of learned variables are irrelevant here, so that any table with rows that sum to one will do.
    fill = [v for v in states if v not in known]
    scopes += tuple((v,) for v in fill)
    tables += tuple(np.ones(len(states[v])) for v in fill)
    hidden = sum(np.log(len(states[v])) * float(times @ (codes[:, list(net.states).index(v)] < 0)) for v in fill)
    values = JunctionTree.of(FactorGraph(states, scopes, tables)).log_evidence_of(codes[:, columns])
    if not np.all(np.isfinite(values)):
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise DataError(
            f"row {row + 1} of the data has probability zero under the tables that are given", code="probability-zero"
        )
    return float(times @ values) - float(hidden)


@dataclass(frozen=True, eq=False)
class _Parameters:
    """Independent Dirichlet rows and conjugate regressions."""

    net: Net
    names: dict[str, str]
    after: dict[str, np.ndarray]
    regressions: dict[str, np.ndarray]
    log_evidence: float

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        table_dims = {name: self.net.dims(v) for name, v in self.names.items()}
        return table_dims | {name: dims for v in self.regressions for name, dims in self.net.linears[v].dims.items()}

    @property
    def labels(self) -> dict[str, np.ndarray]:
        return self.net.labels()

    def _shaped(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {n: v.reshape((*v.shape[:-2], *self.net.shape(self.names[n]))) for n, v in values.items()}

    def mean(self) -> dict[str, np.ndarray]:
        tables = self._shaped({n: a / a.sum(axis=-1, keepdims=True) for n, a in self.after.items()})
        return tables | self._each(lambda p: (p.mu, sd_moments(p)[0]))

    def sd(self) -> dict[str, np.ndarray]:
        out = {}
        for name, a in self.after.items():
            total = a.sum(axis=-1, keepdims=True)
            out[name] = np.sqrt(a * (total - a) / (total**2 * (total + 1)))
        return self._shaped(out) | self._each(lambda p: (p.sd()[0], sd_moments(p)[1]))

    def quantile(self, probability: float) -> dict[str, np.ndarray]:
        tables = {n: betaincinv(a, a.sum(axis=-1, keepdims=True) - a, probability) for n, a in self.after.items()}

        def one(posterior: NormalInverseGamma) -> tuple[np.ndarray, float]:
            coefficients, variance = posterior.quantile(probability)
            return coefficients, float(np.sqrt(variance))

        return self._shaped(tables) | self._each(one)

    def _each(self, statistic: Callable[[NormalInverseGamma], tuple[np.ndarray, Any]]) -> dict[str, np.ndarray]:
        """A statistic of (coefficients, sd) of every regression, by the posterior's names; leading axes first."""
        out = {}
        for v, posteriors in self.regressions.items():
            node = self.net.linears[v]
            intercept, slope, sd = node.names
            statistics = [statistic(p) for p in posteriors.ravel()]
            lead = np.shape(statistics[0][1])
            coefficients = np.stack([c for c, _ in statistics], axis=len(lead))  # (lead, rows, coefficients)
            out[intercept] = coefficients[..., 0].reshape((*lead, *node.shape))
            out[sd] = np.stack([s for _, s in statistics], axis=-1).reshape((*lead, *node.shape))
            if node.continuous:
                out[slope] = coefficients[..., 1:].reshape((*lead, *node.shape, len(node.continuous)))
        return out

    def draws(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        out = {}
        for name, a in self.after.items():
            g = rng.standard_gamma(np.broadcast_to(a, (n, *a.shape)))
            # With tiny concentrations every entry of a row can underflow: then one state gets probability 1.
            total = g.sum(axis=-1, keepdims=True)
            out[name] = np.divide(g, total, out=np.full_like(g, 1 / g.shape[-1]), where=total > 0)

        def one(posterior: NormalInverseGamma) -> tuple[np.ndarray, np.ndarray]:
            coefficients, variance = posterior.draws(rng, n)
            return coefficients, np.sqrt(variance)

        return self._shaped(out) | self._each(one)


# Half the degrees of freedom above which a series in their inverse is accurate to 1e-12.
_MANY = 100


def sd_moments(posterior: NormalInverseGamma) -> tuple[float, float]:
    """Mean and sd of the standard deviation, whose square is inverse gamma (alpha > 1 under the priors here)."""
    a, b, x = posterior.alpha, posterior.beta, posterior.alpha - 0.5
    if x < _MANY:
        mean = float(np.sqrt(b) * np.exp(gammaln(x) - gammaln(a)))
        return mean, float(np.sqrt(max(b / (a - 1) - mean**2, 0.0)))
    # For many rows both differences cancel. (Γ(x + 1/2) / Γ(x))² = x - 1/4 + 1/32x + 1/128x² - ...: Stirling.
    rest = 1 / (32 * x) + 1 / (128 * x**2) - 5 / (2048 * x**3) - 23 / (8192 * x**4)
    square = x - 0.25 + rest
    return float(np.sqrt(b / square)), float(np.sqrt(b * (0.25 + rest) / ((a - 1) * square)))
