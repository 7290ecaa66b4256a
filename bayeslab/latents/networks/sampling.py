"""Monte Carlo for discrete nets: forward sampling, likelihood weighting, Gibbs.

Forward (logic) sampling draws parents before children [1]_. Likelihood weighting does so with observed variables fixed
and weights each row by their likelihood [2]_: the estimate of P(evidence) is unbiased, and the effective sample size is
small if the evidence is improbable. Gibbs sampling draws variables from their conditional distributions given the
Markov blanket [3]_, also in Markov random fields. It is valid only if the chain is irreducible; zeros in tables can
divide the states into parts that it cannot leave, which is checked before the first step.

References
----------
.. [1] Henrion (1988). Propagating uncertainty in Bayesian networks by probabilistic logic sampling. UAI 2.
.. [2] Fung, Chang (1990); Shachter, Peot (1990). Both in UAI 5.
.. [3] Geman, Geman (1984). Stochastic relaxation, Gibbs distributions, and the Bayesian restoration of
   images. IEEE Transactions on Pattern Analysis and Machine Intelligence 6, 721-741.
.. [4] Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021). Rank-normalization, folding, and localization:
   an improved R-hat. Bayesian Analysis 16, 667-718.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, NamedTuple

import networkx as nx
import numpy as np

from bayeslab.errors import EngineRefusal, EvidenceError, OptionError, hint, listed
from bayeslab.latents.networks.belief_propagation import FlatFactors, check_possible, flatten, local_evidence
from bayeslab.latents.networks.factors import Evidence, FactorGraph, read_evidence
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.sampler import Arrays, Sampler

__all__ = ["FieldSampler", "GibbsDraws", "Weighted", "forward_sample", "gibbs", "likelihood_weighting"]

# Number of rows in a task of a thread.
CHUNK = 1 << 16
# Maximum number of joint states of variables linked by zeros for which irreducibility is checked by enumeration.
_LARGEST_CHECK = 1 << 15


def forward_sample(network: DiscreteNetwork, n: int, rng: np.random.Generator) -> np.ndarray:
    """Independent rows from a net.

    Parameters
    ----------
    network : DiscreteNetwork
    n : int
        Number of rows.
    rng : Generator
        Source of the stream's key; the rows do not depend on the number of processors.

    Returns
    -------
    ndarray of int, shape (n, n_variables)
        State indices, columns in the order of ``network.states``; the smallest integer type that holds them.
    """
    from bayeslab.latents.networks import sampling_kernels as kernels

    net = flat_network(network)
    out = np.empty((_count("n", n, 0), len(network.states)), _code_type(network.states))
    nothing, key = _nothing(net), key_of(rng)
    _in_chunks(n, lambda a, b: kernels.weighted_rows(net, key, a, *nothing, out[a:b], np.empty(0)))
    return out


@dataclass(frozen=True, eq=False)
class Weighted:
    """Estimates by likelihood weighting.

    Parameters
    ----------
    marginals : dict of str to ndarray
        P(variable | evidence), estimated.
    standard_errors : dict of str to ndarray
        Monte Carlo standard errors of the marginals. A state in none or all of the rows gets the error of one row in
        the effective sample size, because no sample proves a probability of zero.
    log_evidence : float
        Log of the estimate of P(evidence); the estimate itself is unbiased.
    log_evidence_error : float
        Its standard error: to first order, the relative error of the estimate of P(evidence).
    effective_sample_size : float
        Kish's (sum w)² / sum w²: roughly the number of unweighted rows of the same precision.
    n : int
    """

    marginals: dict[str, np.ndarray]
    standard_errors: dict[str, np.ndarray]
    log_evidence: float
    log_evidence_error: float
    effective_sample_size: float
    n: int


def likelihood_weighting(
    network: DiscreteNetwork, given: Mapping[str, Any] | None, n: int, rng: np.random.Generator
) -> Weighted:
    """Approximate marginals and probability of the evidence, with standard errors.

    Parameters
    ----------
    network : DiscreteNetwork
    given : mapping or None
        Variable to state, or to likelihoods of its states.
    n : int
        Number of rows.
    rng : Generator

    Raises
    ------
    EvidenceError
        The evidence is unknown, or no row agrees with it.

    Notes
    -----
    Standard errors are those of a ratio of means by the delta method,
    sum w² (1[x = s] - p)² / (sum w)².
    """
    from bayeslab.latents.networks import sampling_kernels as kernels

    evidence = read_evidence(network.states, given)
    net = flat_network(network)
    weighing, key = weighing_of(net, network.states, evidence), key_of(rng)
    parts = _in_chunks(_count("n", n, 1), lambda a, b: kernels.weighted_totals(net, key, a, b - a, *weighing))
    peak = max(part[0] for part in parts)
    if peak == -np.inf:
        raise EvidenceError(
            f"none of {n} rows agrees with the evidence: its probability is zero or too small for likelihood weighting;"
            " ask an exact engine (the junction tree)",
            code="probability-zero",
        )
    shrink = [math.exp(part[0] - peak) for part in parts]
    total, of_states = (sum(s * part[k] for s, part in zip(shrink, parts, strict=True)) for k in (1, 3))
    squares, squares_of_states = (sum(s**2 * part[k] for s, part in zip(shrink, parts, strict=True)) for k in (2, 4))
    p, size = of_states / total, float(total**2 / squares)
    spread = np.sqrt(np.maximum(squares_of_states * (1 - 2 * p) + p**2 * squares, 0)) / total
    marginals, errors = _by_variable(net, network.states, p), _by_variable(net, network.states, spread)
    return Weighted(
        marginals=marginals,
        standard_errors=_without_certainty(errors, marginals, size, evidence.hard),
        log_evidence=math.log(total / n) + peak,
        log_evidence_error=math.sqrt(max(1 / size - 1 / n, 0.0)),
        effective_sample_size=size,
        n=n,
    )


@dataclass(frozen=True, eq=False)
class GibbsDraws:
    """Draws of Gibbs sampling and their summaries.

    Parameters
    ----------
    states : mapping of str to tuple of str
    codes : ndarray of int, shape (chains, n, n_variables)
        State indices, variables in the order of ``states``.
    observed : frozenset of str
        The observed variables, which are constant.
    """

    states: Mapping[str, tuple[str, ...]]
    codes: np.ndarray
    observed: frozenset[str]

    @cached_property
    def marginals(self) -> dict[str, np.ndarray]:
        """P(variable | evidence), estimated by the relative frequency of each state."""
        return {
            v: np.bincount(self.codes[:, :, k].ravel(), minlength=len(states)) / self.codes[:, :, k].size
            for k, (v, states) in enumerate(self.states.items())
        }

    @cached_property
    def standard_errors(self) -> dict[str, np.ndarray]:
        """Monte Carlo standard errors of the marginals, from the effective sample sizes.

        A state in none or all of the draws gets the error of one draw in the smallest effective sample size of the run.
        """
        finite = [size[np.isfinite(size)].min(initial=np.inf) for size in self.effective_sample_size.values()]
        smallest = min([*finite, float(self.codes[:, :, 0].size)])
        with np.errstate(invalid="ignore"):
            errors = {v: np.sqrt(p * (1 - p) / self.effective_sample_size[v]) for v, p in self.marginals.items()}
        errors = {v: np.nan_to_num(e) for v, e in errors.items()}
        return _without_certainty(errors, self.marginals, smallest, self.observed)

    @property
    def effective_sample_size(self) -> dict[str, np.ndarray]:
        """Effective sample size of the indicator of each state; NaN for constant indicators."""
        return self._diagnostics[0]

    @property
    def r_hat(self) -> dict[str, np.ndarray]:
        """Split R-hat of the indicator of each state.

        NaN for constant indicators; infinite if chains are stuck in different states.
        """
        return self._diagnostics[1]

    @property
    def worst_r_hat(self) -> float:
        """The largest R-hat of a state; above 1.01 the chains have not converged [4]_. NaN if no indicator varies."""
        values = np.concatenate(list(self.r_hat.values()))
        return float(np.nanmax(values)) if np.any(~np.isnan(values)) else math.nan

    @cached_property
    def _diagnostics(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        size = {v: np.full(len(states), np.nan) for v, states in self.states.items()}
        r_hat = {v: np.full(len(states), np.nan) for v, states in self.states.items()}
        names = [v for v in self.states if v not in self.observed]
        places = {v: k for k, v in enumerate(self.states)}
        for state in range(max(map(len, self.states.values()), default=0)):
            having = [v for v in names if len(self.states[v]) > max(state, 1)]
            for first in range(0, len(having), _COLUMNS):
                some = having[first : first + _COLUMNS]
                diagnostics = _ess_and_r_hat(self.codes[:, :, [places[v] for v in some]] == state)
                for v, ess, r in zip(some, *diagnostics, strict=True):
                    size[v][state], r_hat[v][state] = ess, r
        return size, r_hat


# Number of indicators diagnosed at once, which bounds the memory of their Fourier transforms.
_COLUMNS = 256


def gibbs(
    model: DiscreteNetwork | FactorGraph,
    given: Mapping[str, Any] | None = None,
    *,
    n: int = 1000,
    warmup: int = 500,
    chains: int = 4,
    scan: Literal["systematic", "random"] = "systematic",
    rng: np.random.Generator,
) -> GibbsDraws:
    """Gibbs sampling of the unobserved variables.

    Parameters
    ----------
    model : DiscreteNetwork or FactorGraph
    given : mapping, optional
        Variable to state, or to likelihoods of its states.
    n, warmup : int
        Numbers of kept and of discarded sweeps in each chain.
    chains : int
        Number of chains, with different starts, in parallel.
    scan : {"systematic", "random"}
        Whether a sweep visits all variables in order, or as many random ones.
    rng : Generator
        ``rng.spawn`` gives each chain a generator.

    Raises
    ------
    EngineRefusal
        Zeros in tables divide the possible states into parts that the chain cannot leave, or no possible start was
        drawn.
    EvidenceError
        The evidence is unknown or impossible.

    Warns
    -----
    RuntimeWarning
        Zeros link too many variables for a check that every state can be reached.

    Notes
    -----
    Check ``worst_r_hat``: chains mix slowly if tables are nearly deterministic. Pairs of variables that share a table
    with zeros are also drawn jointly in each sweep, so that the chain can pass most deterministic nodes.
    """
    if scan not in ("systematic", "random"):
        raise OptionError(f"'{scan}' is not a scan{hint(scan, ('systematic', 'random'))}", code="unknown-word")
    for name, value, least in (("n", n, 1), ("warmup", warmup, 0), ("chains", chains, 1)):
        _count(name, value, least)
    evidence = read_evidence(model.states, given)
    factors = FactorGraph.of(model) if isinstance(model, DiscreteNetwork) else model
    possible, tied, walk = _walk(factors, evidence, scan)
    chain_rngs = rng.spawn(chains)
    starts = [_start(model, evidence, possible, walk, bool(tied), r) for r in chain_rngs]
    with ThreadPoolExecutor(min(chains, os.cpu_count() or 1)) as pool:
        runs = pool.map(lambda start, r: walk.run(start, r, warmup, n), starts, chain_rngs)
        codes = np.stack(list(runs))
    return GibbsDraws(factors.states, codes, frozenset(evidence.hard))


@dataclass(frozen=True, eq=False)
class FieldSampler(Sampler):
    """Gibbs sampling of a factor graph as a sampler, one sweep for each step; see :func:`gibbs`.

    A draw has ``codes``, the state indices of all variables, and ``log_density``, the log of the product of all tables
    and likelihoods.
    """

    factors: FactorGraph
    evidence: Evidence
    possible: Mapping[str, np.ndarray]
    has_ties: bool
    walk: _Walk

    @classmethod
    def of(cls, factors: FactorGraph, given: Mapping[str, Any] | None = None) -> FieldSampler:
        """The sampler given evidence, with the errors of :func:`gibbs`."""
        evidence = read_evidence(factors.states, given)
        possible, tied, walk = _walk(factors, evidence, "systematic")
        return cls(factors, evidence, possible, bool(tied), walk)

    def init(self, rng: np.random.Generator, tune: int) -> Arrays:
        start = _start(self.factors, self.evidence, self.possible, self.walk, self.has_ties, rng)
        return {"codes": start.astype(self.walk.code_type)}

    def step(self, rng: np.random.Generator, state: Arrays) -> tuple[Arrays, Arrays]:
        from bayeslab.latents.networks import message_kernels as messages

        codes = self.walk.run(state["codes"].astype(np.int64), rng, 0, 1)[0]
        log_density = messages.score(self.walk.flat, self.walk.local, codes.astype(np.int64))
        return {"codes": codes}, {"codes": codes, "log_density": np.array(log_density)}


class _FlatNetwork(NamedTuple):
    """A net as flat arrays; ``cuts`` are cumulative probabilities in units of 2^-53."""

    order: np.ndarray
    n_states: np.ndarray
    variable_offset: np.ndarray
    parent_offset: np.ndarray
    parents: np.ndarray
    parent_strides: np.ndarray
    cut_offset: np.ndarray
    cuts: np.ndarray
    table_offset: np.ndarray
    log_tables: np.ndarray


def flat_network(network: DiscreteNetwork) -> _FlatNetwork:
    number = {v: k for k, v in enumerate(network.states)}
    n_states = [len(s) for s in network.states.values()]
    tables = [network.tables[v] for v in network.states]
    strides = [math.prod(t.shape[axis + 1 : -1]) for t in tables for axis in range(t.ndim - 1)]
    entries = np.concatenate([t.ravel() for t in tables]) if tables else np.empty(0)
    with np.errstate(divide="ignore"):
        log_tables = np.log(entries)
    return _FlatNetwork(
        order=np.array([number[v] for v in nx.topological_sort(network.graph)], dtype=np.int64),
        n_states=np.array(n_states, dtype=np.int64),
        variable_offset=_offsets(n_states),
        parent_offset=_offsets([t.ndim - 1 for t in tables]),
        parents=np.array([number[p] for v in network.states for p in network.parents[v]], dtype=np.int64),
        parent_strides=np.array(strides, dtype=np.int64),
        cut_offset=_offsets([t.size // t.shape[-1] * (t.shape[-1] - 1) for t in tables]),
        cuts=np.concatenate([cuts_of(t) for t in tables]) if tables else np.empty(0, dtype=np.int64),
        table_offset=_offsets([t.size for t in tables]),
        log_tables=log_tables,
    )


def cuts_of(table: np.ndarray) -> np.ndarray:
    """Cumulative probabilities as integers: the state is the first j whose threshold exceeds 53 random bits."""
    rows = table.reshape(-1, table.shape[-1])
    cumulative = np.cumsum(rows, axis=1)
    left = np.cumsum(rows[:, ::-1], axis=1)[:, ::-1] - rows
    cumulative[left == 0] = 1.0  # rounding must not give probability to impossible last states
    return np.ceil(np.minimum(cumulative[:, :-1], 1.0) * 2.0**53).astype(np.int64).ravel()


def _offsets(sizes: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def _nothing(net: _FlatNetwork) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n_variables = len(net.n_states)
    return np.full(n_variables, -1), np.zeros(net.variable_offset[-1]), np.zeros(n_variables, dtype=bool)


def weighing_of(
    net: _FlatNetwork, states: Mapping[str, tuple[str, ...]], evidence: Evidence
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Observed states (-1: none), log likelihoods of all states, and whether a variable has virtual evidence."""
    hard, local, virtual = _nothing(net)
    for k, v in enumerate(states):
        hard[k] = evidence.hard.get(v, -1)
        if v in evidence.likelihood:
            virtual[k] = True
            with np.errstate(divide="ignore"):
                local[net.variable_offset[k] : net.variable_offset[k + 1]] = np.log(evidence.likelihood[v])
    return hard, local, virtual


def key_of(rng: np.random.Generator) -> np.uint64:
    return np.uint64(rng.integers(2**64, dtype=np.uint64))


def _code_type(states: Mapping[str, tuple[str, ...]]) -> np.dtype:
    """The smallest integer type for all state indices and -1 (not observed)."""
    return np.min_scalar_type(-max([1, *map(len, states.values())]))


def _count(name: str, value: int, least: int) -> int:
    if value < least:
        raise OptionError(f"{name} is {value}; it must be at least {least}", code="out-of-range")
    return value


def _in_chunks(n: int, work: Callable[[int, int], Any]) -> list[Any]:
    """Results of ``work(first, last)`` over ranges of rows, in threads; kernels release the interpreter's lock."""
    firsts = range(0, n, CHUNK)
    with ThreadPoolExecutor(max(1, min(len(firsts), os.cpu_count() or 1))) as pool:
        return list(pool.map(lambda first: work(first, min(n, first + CHUNK)), firsts))


def _by_variable(net: _FlatNetwork, states: Mapping[str, Any], entries: np.ndarray) -> dict[str, np.ndarray]:
    return {v: entries[net.variable_offset[k] : net.variable_offset[k + 1]] for k, v in enumerate(states)}


def _without_certainty(
    errors: Mapping[str, np.ndarray], marginals: Mapping[str, np.ndarray], size: float, observed: Collection[str]
) -> dict[str, np.ndarray]:
    """Errors that are positive also for states in none or all of the rows; those of observed variables are zero."""
    p = 1 / (size + 2)
    least = math.sqrt(p * (1 - p) / size)
    out = dict(errors)
    for v, marginal in marginals.items():
        if v not in observed and len(marginal) > 1:
            out[v] = np.where((marginal <= 0) | (marginal >= 1), np.maximum(errors[v], least), errors[v])
    return out


class _Surroundings(NamedTuple):
    """The factors of each variable v, from ``offset[v]`` to ``offset[v + 1]``, and its strides in their tables."""

    n_states: np.ndarray
    variable_offset: np.ndarray
    table_offset: np.ndarray
    offset: np.ndarray
    factor: np.ndarray
    stride: np.ndarray

    @classmethod
    def of(cls, flat: FlatFactors) -> _Surroundings:
        order = flat.edges_of
        layout = (flat.n_states, flat.variable_offset, flat.table_offset)
        return cls(*layout, flat.variable_edges, flat.edge_factor[order], flat.edge_stride[order])


class _Walk(NamedTuple):
    flat: FlatFactors
    local: np.ndarray
    free: np.ndarray
    pairs: np.ndarray
    random_scan: bool
    code_type: np.dtype

    def run(self, start: np.ndarray, rng: np.random.Generator, warmup: int, n: int) -> np.ndarray:
        return self._run(self.flat.log_tables, self.local, start, rng, warmup, n)

    def search(self, start: np.ndarray, floor: float, rng: np.random.Generator) -> np.ndarray | None:
        """A possible state, visited by a chain with small instead of zero probabilities; None if it visits none."""
        from bayeslab.latents.networks import message_kernels as messages

        softer = np.maximum(self.flat.log_tables, floor)
        for state in self._run(softer, np.maximum(self.local, floor), start, rng, 0, 50).astype(np.int64):
            if messages.score(self.flat, self.local, state) > -np.inf:
                return state
        return None

    def _run(
        self,
        log_tables: np.ndarray,
        local: np.ndarray,
        start: np.ndarray,
        rng: np.random.Generator,
        warmup: int,
        n: int,
    ) -> np.ndarray:
        from bayeslab.latents.networks import sampling_kernels as kernels

        out = np.empty((n, len(start)), dtype=self.code_type)
        options = (self.free, self.pairs, self.random_scan, key_of(rng), warmup)
        kernels.gibbs_chain(_Surroundings.of(self.flat), log_tables, local, *options, start, out)
        return out


def _walk(
    factors: FactorGraph, evidence: Evidence, scan: str
) -> tuple[dict[str, np.ndarray], list[tuple[str, ...]], _Walk]:
    """The possible states of each variable, the variables linked by zeros, and the moves of the chain."""
    possible = _possible_states(factors, evidence)
    tied = _tied(factors, possible)
    _check_reach(factors, possible, tied)
    flat = flatten(factors)
    number = {v: k for k, v in enumerate(factors.states)}
    pairs = sorted({tuple(sorted((number[a], number[b]))) for scope in tied for a, b in combinations(scope, 2)})
    walk = _Walk(
        flat,
        local_evidence(flat, factors.states, evidence),
        np.array([k for v, k in number.items() if possible[v].sum() > 1], dtype=np.int64),
        np.array(pairs, dtype=np.int64).reshape(-1, 2),
        scan == "random",
        _code_type(factors.states),
    )
    return possible, tied, walk


def _possible_states(factors: FactorGraph, evidence: Evidence) -> dict[str, np.ndarray]:
    """For each variable, the states that no table excludes, by repeated elimination."""
    possible = {v: np.ones(len(s), dtype=bool) for v, s in factors.states.items()}
    for v, likelihood in evidence.likelihood.items():
        possible[v] = likelihood > 0
    for v, code in evidence.hard.items():
        possible[v] = np.arange(len(possible[v])) == code
    with_zeros = [(s, t > 0) for s, t in zip(factors.scopes, factors.tables, strict=True) if not np.all(t > 0)]
    changed = True
    while changed:
        changed = False
        for scope, positive in with_zeros:
            inside = positive & _product(possible, scope)
            for axis, v in enumerate(scope):
                left = inside.any(axis=tuple(k for k in range(len(scope)) if k != axis))
                changed |= bool(np.any(left != possible[v]))
                possible[v] = left
            check_possible(bool(inside.any()))
    return possible


def _product(possible: Mapping[str, np.ndarray], scope: tuple[str, ...]) -> np.ndarray:
    return (
        np.array(True)
        if not scope
        else np.logical_and.reduce(np.meshgrid(*(possible[v] for v in scope), indexing="ij"))
    )


def _tied(factors: FactorGraph, possible: Mapping[str, np.ndarray]) -> list[tuple[str, ...]]:
    """For each table in which possible states exclude each other, its variables with more than one possible state.

    Without such a table, all combinations of possible states are possible and can be reached.
    """
    out = []
    for scope, table in zip(factors.scopes, factors.tables, strict=True):
        if np.all(table > 0):
            continue
        if np.any((table <= 0) & _product(possible, scope)):
            out.append(tuple(v for v in scope if possible[v].sum() > 1))
    return out


def _check_reach(factors: FactorGraph, possible: Mapping[str, np.ndarray], tied: list[tuple[str, ...]]) -> None:
    """Refuse states that moves of the chain do not connect; warn if there are too many states to check."""
    ties: nx.Graph = nx.Graph()
    for scope in tied:
        ties.add_edges_from(combinations(scope, 2))
    unsure = []
    for part in nx.connected_components(ties):
        names = [v for v in factors.states if v in part]
        if math.prod(int(possible[v].sum()) for v in names) > _LARGEST_CHECK:
            unsure += names
            continue
        support = _support(factors, possible, names)
        check_possible(bool(support.any()))
        if not _connected(support, _axes(tied, names)):
            raise EngineRefusal(
                f"zeros in tables divide the possible states of {listed(names)} into parts that Gibbs sampling cannot"
                " leave; use an exact engine (the junction tree) or likelihood weighting",
                code="not-suited",
            )
    if unsure:
        warnings.warn(
            f"zeros in tables link {len(unsure)} variables ({listed(unsure, 6)}): Gibbs sampling may not reach all"
            " their states, which R-hat shows only if the chains started in different parts; an exact engine is safer",
            RuntimeWarning,
            stacklevel=4,
        )


def _support(factors: FactorGraph, possible: Mapping[str, np.ndarray], names: list[str]) -> np.ndarray:
    """Mask of the joint states of some variables that the tables with zeros allow."""
    out = np.ones([int(possible[v].sum()) for v in names], dtype=bool)
    for scope, table in zip(factors.scopes, factors.tables, strict=True):
        inside = [v for v in scope if v in names]
        if not inside or np.all(table > 0):
            continue
        # Other variables have one possible state, or this table excludes no possible states.
        picked = (table > 0)[np.ix_(*(np.flatnonzero(possible[v]) for v in scope))]
        positive = picked.any(axis=tuple(k for k, v in enumerate(scope) if v not in names))
        order = np.argsort([names.index(v) for v in inside])
        out &= positive.transpose(order).reshape(
            [n if v in inside else 1 for v, n in zip(names, out.shape, strict=True)]
        )
    return out


def _axes(tied: list[tuple[str, ...]], names: list[str]) -> set[tuple[int, int]]:
    return {(names.index(a), names.index(b)) for scope in tied if scope[0] in names for a, b in combinations(scope, 2)}


def _connected(support: np.ndarray, moves: set[tuple[int, int]]) -> bool:
    """Whether moves along pairs of axes connect all states of the support."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    places = np.argwhere(support)
    start, rows, columns = len(places), [], []
    for pair in moves:
        rest = np.delete(places, pair, axis=1)
        shape = np.delete(support.shape, pair)
        label = np.ravel_multi_index(tuple(rest.T), tuple(shape)) if len(shape) else np.zeros(len(places), dtype=int)
        rows.append(np.arange(len(places)))
        columns.append(start + np.unique(label, return_inverse=True)[1])
        start = int(columns[-1].max()) + 1
    edges = (np.ones(len(places) * len(moves)), (np.concatenate(rows), np.concatenate(columns)))
    return int(connected_components(coo_array(edges, shape=(start, start)), directed=False)[0]) == 1


def _start(
    model: DiscreteNetwork | FactorGraph,
    evidence: Evidence,
    possible: Mapping[str, np.ndarray],
    walk: _Walk,
    ties: bool,
    rng: np.random.Generator,
) -> np.ndarray:
    """A possible start, different between chains: for a net, one of 1,000 weighted rows."""
    if isinstance(model, DiscreteNetwork):
        row = _weighted_row(model, evidence, rng)
        if row is not None:
            return row
    state = np.array([rng.choice(np.flatnonzero(allowed)) for allowed in possible.values()], dtype=np.int64)
    if not ties:
        return state
    for floor in np.repeat([-3.0, -6.0, -12.0, -24.0], 5):
        start = walk.search(state, floor, rng)
        if start is not None:
            return start
    raise EngineRefusal(
        "Gibbs sampling has no start: no state that the tables and the evidence allow was drawn; use an exact engine",
        code="no-start",
    )


def _weighted_row(network: DiscreteNetwork, evidence: Evidence, rng: np.random.Generator) -> np.ndarray | None:
    from bayeslab.latents.networks import sampling_kernels as kernels

    net = flat_network(network)
    rows, log_weights = np.empty((1000, len(network.states)), dtype=_code_type(network.states)), np.empty(1000)
    kernels.weighted_rows(net, key_of(rng), 0, *weighing_of(net, network.states, evidence), rows, log_weights)
    if not np.any(log_weights > -np.inf):
        return None
    weights = np.exp(log_weights - log_weights.max())
    return rows[rng.choice(1000, p=weights / weights.sum())].astype(np.int64)


def _ess_and_r_hat(indicators: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Effective sample size and split R-hat of columns, shape (chains, n, columns); equations 3-13 of [4]_.

    The ranks of [4]_ would change only the scale of an indicator.
    """
    half = indicators.shape[1] // 2
    if half < 2:
        nothing = np.full(indicators.shape[2], np.nan)
        return nothing, nothing
    x = np.concatenate([indicators[:, :half], indicators[:, -half:]]).astype(float)
    chains, n, _ = x.shape
    means = x.mean(axis=1, keepdims=True)
    within = x.var(axis=1, ddof=1).mean(axis=0)
    between = means[:, 0].var(axis=0, ddof=1)
    total = within * (n - 1) / n + between
    transform = np.fft.rfft(x - means, n=2 * n, axis=1)
    covariance = np.fft.irfft(np.abs(transform) ** 2, axis=1)[:, :n].mean(axis=0) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = np.sqrt(total / within)
        correlation = 1 - (within - covariance) / total
        correlation[0] = 1.0
        pairs = correlation[: n // 2 * 2].reshape(n // 2, 2, -1).sum(axis=1)
        kept = np.logical_and.accumulate(pairs > 0, axis=0)
        time = -1 + 2 * np.where(kept, np.minimum.accumulate(pairs, axis=0), 0).sum(axis=0)
        # Negatively correlated draws count more than independent ones, up to the limit of [4]_, section 3.2.
        size = chains * n / np.maximum(time, 1 / np.log10(chains * n))
    return np.where(total > 0, size, np.nan), np.where(total > 0, r_hat, np.nan)
