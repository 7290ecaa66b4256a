"""The tables of a discrete net from data.

For complete data the likelihood is a product with one factor ``prod_k theta_k ** n_k`` for each row of a table. Rows
are estimated separately: relative frequencies maximise the likelihood, and a Dirichlet prior ``alpha`` gives a
Dirichlet posterior ``alpha + n``, whose normalising constant gives the evidence. With missing cells or hidden variables
the counts are expectations that depend on the tables; :class:`TableProblem` is the problem for expectation
maximisation.

References
----------
.. [1] Spiegelhalter, Lauritzen (1990). Sequential updating of conditional probabilities on directed graphical
   structures. Networks 20, 579-605.
.. [2] Heckerman, Geiger, Chickering (1995). Learning Bayesian networks: the combination of knowledge and
   statistical data. Machine Learning 20, 197-243 (evidence; equivalent sample size).
.. [3] Lauritzen (1995). The EM algorithm for graphical association models with missing data. Computational
   Statistics & Data Analysis 19, 191-201.
.. [4] Mitchell (1997). Machine Learning, sections 6.9.1 (m-estimate) and 6.11.5. McGraw-Hill.
.. [5] Wei, Tanner (1990). A Monte Carlo implementation of the EM algorithm. JASA 85, 699-704.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import cast

import networkx as nx
import numpy as np
from scipy.special import gammaln, xlogy

from bayeslab.errors import DataError, ModelError, OptionError, hint
from bayeslab.latents.expectation_maximisation import Parameters, Statistics
from bayeslab.latents.networks.counting import (
    Array,
    Codes,
    Families,
    check_codes,
    checked_weights,
    family_counts,
    skipped_weight,
)
from bayeslab.latents.networks.incomplete_rows import IncompleteRows
from bayeslab.latents.networks.local_models import FreeTable, LocalModel
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = [
    "DirichletPosterior",
    "TableEstimate",
    "TableProblem",
    "equivalent_sample",
    "laplace",
    "m_estimate",
    "maximum_likelihood",
    "posterior_counts",
]

type States = Mapping[str, tuple[str, ...]]
type Parents = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class TableEstimate:
    """A net with maximum-likelihood tables.

    Attributes
    ----------
    network : DiscreteNetwork
    counts : mapping of str to ndarray
        Counts of each family, axes (parents..., variable).
    skipped : mapping of str to float
        For each family, the weight of rows left out because one of its cells is missing. If values are not missing at
        random, the estimate is biased; expectation maximisation uses all rows.
    """

    network: DiscreteNetwork
    counts: Mapping[str, Array]
    skipped: Mapping[str, float]

    @property
    def unseen(self) -> dict[str, list[tuple[str, ...]]]:
        """Parent states that never occur, by variable; their rows of the table are uniform."""
        out = {}
        for variable, counts in self.counts.items():
            lacking = np.flatnonzero(counts.reshape(-1, counts.shape[-1]).sum(axis=1) == 0)
            if lacking.size:
                states = self.network.states
                rows = list(product(*(states[p] for p in self.network.parents[variable])))
                out[variable] = [rows[i] for i in lacking]
        return out

    @property
    def log_likelihood(self) -> float:
        """Log likelihood of the counted rows: the sum of the families' terms."""
        return sum(self.terms.values())

    @property
    def terms(self) -> dict[str, float]:
        """Each family's term of the log likelihood."""
        return {v: float(xlogy(n, self.network.tables[v]).sum()) for v, n in self.counts.items()}


def maximum_likelihood(codes: Codes, states: States, parents: Parents, weights: Array | None = None) -> TableEstimate:
    """Maximum-likelihood tables: relative frequencies.

    Parameters
    ----------
    codes : ndarray of int, shape (n_rows, n_variables)
        State indices, columns in the order of ``states``; a family leaves out rows in which one of its cells is
        missing (-1).
    states, parents : mapping
        The structure.
    weights : ndarray, optional
        Weight of each row; 1 if left out.

    Returns
    -------
    TableEstimate
        Table rows whose parent states never occur are uniform, and listed in ``unseen``.
    """
    families = Families.of(states, parents)
    counts = dict(zip(states, family_counts(codes, families.cards, families.families, weights), strict=True))
    skipped = _skipped(codes, families, weights)
    network = DiscreteNetwork(states, parents, {v: _shares(n) for v, n in counts.items()})
    return TableEstimate(network, counts, dict(zip(states, skipped, strict=True)))


def _skipped(codes: Codes, families: Families, weights: Array | None) -> list[float]:
    if codes.size == 0 or codes.min() >= 0:
        return [0.0] * len(families.families)
    return [float(w) for w in skipped_weight(codes, families.cards, families.families, weights)]


def _shares(counts: Array) -> Array:
    total = counts.sum(axis=-1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1.0 / counts.shape[-1])


def m_estimate(counts: Array, m: float, prior: Array | float | None = None) -> Array:
    """(n_k + m p_k) / (n + m) along the last axis [4]_.

    Parameters
    ----------
    counts : ndarray
    m : float
        Equivalent sample size of the prior.
    prior : ndarray or float, optional
        Prior distribution; uniform if left out.
    """
    counts = np.asarray(counts, dtype=float)
    if m < 0:
        raise OptionError(f"m is {m:g}; it must be at least 0", code="out-of-range")
    p = 1.0 / counts.shape[-1] if prior is None else np.asarray(prior, dtype=float)
    raised = counts + m * p
    return _shares(np.broadcast_to(raised, counts.shape))


def laplace(counts: Array, k: float = 1.0) -> Array:
    """(n_k + k) / (n + k K): ``k`` is added to each count, so that no probability is zero."""
    counts = np.asarray(counts, dtype=float)
    return m_estimate(counts, k * counts.shape[-1])


def equivalent_sample(states: States, parents: Parents, size: float) -> dict[str, Array]:
    """Concentrations with the equivalent sample size ``size``, spread evenly over each table [2]_ (BDeu)."""
    shapes = dict(zip(states, Families.of(states, parents).shapes, strict=True))
    return {v: np.full(shape, size / np.prod(shape)) for v, shape in shapes.items()}


# --------------------------------------------------------------------------------- Dirichlet posterior


@dataclass(frozen=True, eq=False)
class DirichletPosterior:
    """Independent Dirichlet distributions, one for each row of each table.

    Attributes
    ----------
    prior, counts : mapping of str to ndarray
        Prior concentrations and counts of the data; axes (parents..., variable).
    """

    states: States
    parents: Parents
    prior: Mapping[str, Array]
    counts: Mapping[str, Array]

    @property
    def concentration(self) -> dict[str, Array]:
        """Concentrations of the posterior."""
        return {v: self.prior[v] + n for v, n in self.counts.items()}

    @property
    def log_evidence(self) -> float:
        """Log probability of the rows in their order, with the tables integrated out."""
        return sum(self.log_evidence_terms.values())

    @property
    def log_evidence_terms(self) -> dict[str, float]:
        """Each family's term of the log evidence (Dirichlet-multinomial)."""
        out = {}
        for v, n in self.counts.items():
            a = self.prior[v]
            rows = gammaln(a.sum(axis=-1)) - gammaln((a + n).sum(axis=-1))
            out[v] = float(rows.sum() + (gammaln(a + n) - gammaln(a)).sum())
        return out

    def mean(self) -> DiscreteNetwork:
        """The net with posterior means as tables, which are the posterior predictive probabilities of a new case."""
        return self._network({v: a / a.sum(axis=-1, keepdims=True) for v, a in self.concentration.items()})

    def mode(self) -> DiscreteNetwork:
        """The net with the posterior modes as tables.

        Raises
        ------
        ModelError
            A concentration is below 1, so the density has no mode.
        """
        for v, a in self.concentration.items():
            if np.any(a < 1):
                raise ModelError(
                    f"the posterior of the table of '{v}' has no mode: a concentration is {a.min():g} < 1",
                    code="no-mode",
                )
        return self._network({v: _shares(a - 1) for v, a in self.concentration.items()})

    def sd(self) -> dict[str, Array]:
        """Posterior standard deviations."""
        out = {}
        for v, a in self.concentration.items():
            total = a.sum(axis=-1, keepdims=True)
            out[v] = np.sqrt(a * (total - a) / (total**2 * (total + 1)))
        return out

    def draws(self, rng: np.random.Generator, n: int) -> dict[str, Array]:
        """Independent draws, shape (n, parents..., variable)."""
        out = {}
        for v, a in self.concentration.items():
            drawn = rng.standard_gamma(a, size=(n, *a.shape))
            total = drawn.sum(axis=-1, keepdims=True)
            # With concentrations near zero all gamma draws may underflow; then all mass is on one state.
            one = np.eye(a.shape[-1])[rng.integers(a.shape[-1], size=total.shape[:-1])]
            out[v] = np.where(total > 0, drawn / np.where(total > 0, total, 1.0), one)
        return out

    def updated(self, codes: Codes, weights: Array | None = None) -> DirichletPosterior:
        """The posterior after more rows, with this one as prior [1]_."""
        more = posterior_counts(codes, self.states, self.parents, self.prior, weights)
        return replace(self, counts={v: n + more.counts[v] for v, n in self.counts.items()})

    def _network(self, tables: Mapping[str, Array]) -> DiscreteNetwork:
        return DiscreteNetwork(self.states, self.parents, tables)


def posterior_counts(
    codes: Codes,
    states: States,
    parents: Parents,
    concentration: float | Mapping[str, Array | float] = 1.0,
    weights: Array | None = None,
) -> DirichletPosterior:
    """The posterior of all tables given complete rows.

    Parameters
    ----------
    codes, states, parents, weights
        As in :func:`maximum_likelihood`.
    concentration : float or mapping of str to (ndarray or float)
        Concentration of the Dirichlet prior of each row: one number for all entries, or by variable, as from
        :func:`equivalent_sample`.

    Raises
    ------
    DataError
        There are missing cells, so the posterior is a mixture with too many components.
    """
    families = Families.of(states, parents)
    counts = dict(zip(states, family_counts(codes, families.cards, families.families, weights), strict=True))
    lacking = [v for v, w in zip(states, _skipped(codes, families, weights), strict=True) if w]
    if lacking:
        raise DataError(
            f"the family of '{lacking[0]}' has missing cells: the posterior has no closed form; use expectation"
            " maximisation, or sample with method nuts",
            code="missing",
        )
    prior = {}
    for v, n in counts.items():
        given = concentration.get(v, 1.0) if isinstance(concentration, Mapping) else concentration
        prior[v] = np.array(np.broadcast_to(np.asarray(given, dtype=float), n.shape))
        if np.any(prior[v] <= 0):
            raise ModelError(
                f"concentrations of the table of '{v}' must be positive; given {prior[v].min():g}", code="out-of-range"
            )
    return DirichletPosterior(dict(states), {v: tuple(parents.get(v, ())) for v in states}, prior, counts)


# --------------------------------------------------------------------------------- EM


@dataclass(frozen=True, eq=False)
class TableProblem:
    """Unknown tables of a net with hidden variables or missing cells, as a problem for EM; make it with :meth:`of`.

    Its parameters are an array for each variable with unknown ones: the parameters of its local model, or its table.

    Attributes
    ----------
    network : DiscreteNetwork
        A net with the known tables.
    local : mapping of str to LocalModel
        The local model of each variable with unknown parameters.
    """

    network: DiscreteNetwork
    local: Mapping[str, LocalModel]
    codes: Codes
    weights: Array | None

    @classmethod
    def of(
        cls,
        network: DiscreteNetwork,
        codes: Codes,
        local: Mapping[str, LocalModel] | None = None,
        weights: Array | None = None,
    ) -> TableProblem:
        """The problem for a net and its data.

        Parameters
        ----------
        network : DiscreteNetwork
            The structure and the known tables; of the unknown ones only the shapes are used.
        codes : ndarray of int, shape (n_rows, n_variables)
            State indices, columns in the order of ``network.states``; -1 where missing; columns of hidden variables are
            all -1.
        local : mapping of str to LocalModel, optional
            The unknown families. Default: all tables are unknown, without a prior.
        weights : ndarray, optional
            Weight of each row; 1 if left out.
        """
        if local is None:
            local = {v: FreeTable(table) for v, table in network.tables.items()}
        for v in local:
            if v not in network.states:
                raise ModelError(f"'{v}' is not a variable{hint(v, network.states)}", code="unknown-variable")
        codes = check_codes(codes, Families.of(network.states, network.parents).cards)
        checked_weights(weights, len(codes))
        return cls(network, dict(local), codes, weights)

    @cached_property
    def rows(self) -> IncompleteRows:
        """The preprocessed rows, computed at the first step, because compiling is slow and checks do not need them."""
        return IncompleteRows.of(self.network.states, self.network.parents, self.codes, self.weights)

    def tables(self, theta: Parameters) -> list[Array]:
        """All tables, in the order of the variables."""
        known = self.network.tables
        return [self.local[v].table(theta[v]) if v in self.local else known[v] for v in self.network.states]

    def network_at(self, theta: Parameters) -> DiscreteNetwork:
        """The net with these parameters."""
        tables = dict(zip(self.network.states, self.tables(theta), strict=True))
        return replace(self.network, tables=tables)

    def start(self, rng: np.random.Generator) -> dict[str, Array]:
        """Random parameters."""
        return {v: model.start(rng) for v, model in self.local.items()}

    def expect(self, theta: Parameters) -> tuple[float, Statistics]:
        log_likelihood, counts = self.rows.expected_counts(self.tables(theta))
        named = dict(zip(self.network.states, counts, strict=True))
        return log_likelihood, {v: named[v] for v in self.local}

    def update(self, statistics: Statistics, theta: Parameters) -> dict[str, Array]:
        return {v: model.fit(statistics[v], theta[v]) for v, model in self.local.items()}

    def log_prior(self, theta: Parameters) -> float:
        return sum(model.log_prior(theta[v]) for v, model in self.local.items())

    def flatten(self, theta: Parameters) -> Array:
        return np.concatenate([np.empty(0), *(model.flatten(theta[v]) for v, model in self.local.items())])

    def unflatten(self, x: Array) -> dict[str, Array]:
        parts = np.split(x, np.cumsum(self._sizes)[:-1])
        return {v: model.unflatten(part) for (v, model), part in zip(self.local.items(), parts, strict=True)}

    @cached_property
    def _sizes(self) -> list[int]:
        rng = np.random.default_rng(0)
        return [model.flatten(model.start(rng)).size for model in self.local.values()]

    def gradient(self, theta: Parameters, statistics: Statistics) -> Array:
        gradients = (model.gradient(theta[v], statistics[v]) for v, model in self.local.items())
        return np.concatenate([np.empty(0), *gradients])

    def slope(self, theta: Parameters, statistics: Statistics) -> dict[str, Array]:
        return {v: model.slope(theta[v], statistics[v]) for v, model in self.local.items()}

    def project(self, values: Parameters) -> dict[str, Array]:
        return {v: model.project(values[v]) for v, model in self.local.items()}

    def chain(self, theta: Parameters, rng: np.random.Generator) -> Callable[[Parameters], Statistics]:
        """A Gibbs sampler of the missing cells [5]_.

        Each call makes a few sweeps over all missing cells and returns the mean of the counts after each sweep. A row
        with an integer weight is drawn that many times.

        Raises
        ------
        OptionError
            There is no start: no completion of positive probability was drawn.
        """
        codes, weights = self.codes, self.weights
        if weights is not None and np.all(weights == np.round(weights)):
            codes, weights = np.repeat(codes, np.round(weights).astype(np.int64), axis=0), None
        state, cells = self._completed(codes, theta, rng), np.argwhere(codes < 0)
        return lambda at: self._swept(state, weights, cells, self.tables(at), rng)

    def _swept(
        self, state: Codes, weights: Array | None, cells: Codes, tables: list[Array], rng: np.random.Generator
    ) -> Statistics:
        from bayeslab.latents.networks.counting_kernels import gibbs_sweeps

        families = self.rows.families
        starts, members, strides, offsets = families.arrays()
        touching = [
            [f for f, family in enumerate(families.families) if v in family] for v in range(len(families.cards))
        ]
        touching_starts = np.cumsum([0, *map(len, touching)], dtype=np.int64)
        flat, dense = np.concatenate([np.ravel(t) for t in tables]), self.rows.strides
        total = {v: np.zeros(tables[i].shape) for i, v in enumerate(self.network.states) if v in self.local}
        for _ in range(_SWEEPS):
            stuck = gibbs_sweeps(
                state, cells, touching_starts, np.concatenate([*touching, []]).astype(np.int64), families.cards, starts,
                members, strides, dense, offsets, flat, rng.random((1, len(cells))),
            )  # fmt: skip
            if stuck:
                raise OptionError(
                    "Gibbs sampling cannot move: zeros in tables exclude all states of some cells; use variant em",
                    code="not-suited",
                )
            counts = family_counts(state, families.cards, families.families, weights)
            for v, n in zip(self.network.states, counts, strict=True):
                if v in total:
                    total[v] += n / _SWEEPS
        return cast(Statistics, total)

    def _completed(self, codes: Codes, theta: Parameters, rng: np.random.Generator) -> Codes:
        """Missing cells drawn given their parents."""
        state = np.array(codes, dtype=np.int64, order="C")
        number = {v: i for i, v in enumerate(self.network.states)}
        tables = self.tables(theta)
        for v in nx.topological_sort(self.network.graph):
            lacking = np.flatnonzero(state[:, number[v]] < 0)
            rows = tables[number[v]][tuple(state[lacking, number[p]] for p in self.network.parents[v])]
            bounds = np.cumsum(np.broadcast_to(rows, (len(lacking), len(self.network.states[v]))), axis=1)
            drawn = (rng.random((len(lacking), 1)) * bounds[:, -1:] >= bounds[:, :-1]).sum(axis=1)
            state[lacking, number[v]] = drawn
        return state


# Gibbs sweeps between two M-steps: the chain continues from its last state, so a few are enough.
_SWEEPS = 2
