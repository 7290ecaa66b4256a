"""Exact inference by junction tree: marginals, evidence, explanations, draws and expected counts.

The cliques of a triangulation form a tree in which the cliques of each variable are connected. Each factor is assigned
to one clique. The message of a clique to its parent is the sum of its table over the variables that the parent lacks.
Messages from the leaves to a root give the probability of the evidence; messages back give the posterior of every
clique [1]_ [2]_.

A network becomes flat arrays, and a query is one call of compiled code. Small networks have one tree for all evidence,
whose loops skip states that the evidence excludes. Larger networks get a tree for each piece of evidence. First, the
evidence and the zeros of the tables eliminate states: a state that no positive entry of some factor supports cannot
occur (arc consistency [3]_). Then variables with a single state are removed, and the rest, often smaller by orders of
magnitude, is triangulated.

The derivative of the log evidence with respect to the log of a factor's entry is the expected count of that entry, so
:meth:`JunctionTree.expected_counts` gives both the E-step of EM and the gradient [4]_.

References
----------
.. [1] Lauritzen and Spiegelhalter (1988). Local computations with probabilities on graphical structures
   and their application to expert systems. JRSS B 50, 157-224.
.. [2] Jensen, Lauritzen and Olesen (1990). Bayesian updating in causal probabilistic networks by local
   computations. Computational Statistics Quarterly 4, 269-282.
.. [3] Dechter (2003). Constraint Processing, chapter 3. Morgan Kaufmann.
.. [4] Darwiche (2003). A differential approach to inference in Bayesian networks. JACM 50, 280-305.
.. [5] Lawler (1972). A procedure for computing the K best solutions to discrete optimization problems.
   Management Science 18, 401-405.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np

from bayeslab.arrays import number
from bayeslab.errors import EngineRefusal, EvidenceError, ModelError, OptionError
from bayeslab.latents.networks import triangulation
from bayeslab.latents.networks.factors import Evidence, FactorGraph, impossible, read_evidence, variables_of
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.network_answers import BatchMarginals, Explanation, Marginals
from bayeslab.latents.networks.triangulation import Forecast
from bayeslab.latents.networks.variable_elimination import marginal_map

__all__ = ["BatchMarginals", "Explanation", "JunctionTree", "Marginals"]

# With fewer entries than this, one tree for all evidence is faster than a tree for each piece of evidence.
_ONE_TREE = 20_000

# Number of parts in which rows are processed, for any number of cores, so that sums do not depend on the cores.
_PARTS = 16


class _Given(NamedTuple):
    """Evidence as arrays for the kernels."""

    codes: np.ndarray
    likelihood: np.ndarray
    has_likelihood: np.ndarray


class _Conditioned(NamedTuple):
    """The problem reduced by evidence, with its tree."""

    tree: Any
    tables: np.ndarray
    likelihood: np.ndarray
    has_likelihood: np.ndarray
    log_constant: float
    base: np.ndarray  # the only state of settled variables
    variables: np.ndarray
    states: np.ndarray

    def restored(self, assignments: np.ndarray) -> np.ndarray:
        """Assignments over the remaining variables and states, as assignments over all."""
        out = np.repeat(self.base[None, :], len(assignments), axis=0)
        out[:, self.variables] = self.states[self.tree.starts[:-1] + assignments]
        return out


@dataclass(frozen=True, eq=False)
class JunctionTree:
    """A compiled network or factor graph. Build one with :meth:`of`.

    Parameters
    ----------
    states : mapping of str to tuple of str
    forecast : Forecast
        Forecast of size and time without evidence.
    """

    states: Mapping[str, tuple[str, ...]]
    forecast: Forecast
    _factors: FactorGraph = field(repr=False)
    _parents: Mapping[str, tuple[str, ...]] | None = field(repr=False)
    _problem: Any = field(repr=False)
    _tables: np.ndarray = field(repr=False)
    _tree: Any = field(repr=False)
    _limit: float = field(repr=False)

    @classmethod
    def of(cls, model: DiscreteNetwork | FactorGraph) -> JunctionTree:
        """Triangulate and compile.

        Raises
        ------
        EngineRefusal
            The tables would not fit into memory; the message has the size and alternatives.
        """
        from bayeslab.latents.networks import tree_kernels as kernels

        factors = FactorGraph.of(model) if isinstance(model, DiscreteNetwork) else model
        names = tuple(factors.states)
        cards = np.array([len(s) for s in factors.states.values()], np.int64)
        scopes = triangulation.scopes_of(factors)
        problem, tables = _problem(cards, scopes, factors.tables)
        order, sets, total = triangulation.elimination(scopes, cards)
        ahead = triangulation.forecast_of(names, cards, order, sets)
        limit = triangulation.available_bytes()
        ahead.refuse_beyond(limit)
        tree = None
        if total <= _ONE_TREE:
            tree = kernels.assemble(
                cards, problem.factor_pointer, problem.factor_variables, problem.table_start, order, sets
            )
        parents = model.parents if isinstance(model, DiscreteNetwork) else None
        return cls(factors.states, ahead, factors, parents, problem, tables, tree, limit)

    def with_tables(self, tables: Sequence[np.ndarray]) -> JunctionTree:
        """The same structure with other tables.

        Parameters
        ----------
        tables : sequence of ndarray
            Tables in the order of the factors; for a Bayes net, in the order of its variables with axes (parents...,
            variable). They are not normalised: those of a Bayes net need not sum to one.
        """
        shapes = [table.shape for table in self._factors.tables]
        if [np.shape(table) for table in tables] != shapes:
            raise ModelError(f"the tables must have the shapes {shapes}", code="wrong-shape")
        flat = np.concatenate([np.asarray(t, float).ravel() for t in tables]) if shapes else np.zeros(0)
        # The sum detects nan and inf, the minimum negative entries.
        if flat.size and not (np.isfinite(flat.sum()) and flat.min() >= 0):
            raise ModelError("a table has an entry that is negative or not finite", code="not-probabilities")
        problem = self._problem._replace(has_zero=_zeros(self._problem.table_start, flat))
        return replace(self, _problem=problem, _tables=flat)

    # Queries.

    def query(
        self,
        given: Mapping[str, Any] | None = None,
        targets: Iterable[str] | None = None,
        believed: Mapping[str, Mapping[str, float]] | None = None,
    ) -> Marginals:
        """Posterior marginals.

        Parameters
        ----------
        given : mapping, optional
            Variable to its state, or to {state: likelihood} (virtual evidence).
        targets : iterable of str, optional
            Default: all variables. Observed variables have all mass on one state.
        believed : mapping, optional
            Soft evidence, variable to {state: probability}: marginals of the posterior (Jeffrey's rule; iterative
            proportional fitting for several variables). ``log_evidence`` is that of ``given``.

        Raises
        ------
        EvidenceError
            Unknown names; evidence of probability zero; contradictory soft evidence.
        """
        names = variables_of(self.states, targets)
        evidence = read_evidence(self.states, given)
        state = self._given(evidence)
        if believed:
            state, log_evidence = self._fitted(state, given or {}, believed)
            _, marginals = self._one(state, names)
        else:
            log_evidence, marginals = self._one(state, names)
        if log_evidence == -np.inf:
            raise self._impossible(given or {})
        return Marginals(log_evidence, self._split(marginals, names))

    def joint(self, targets: Sequence[str], given: Mapping[str, Any] | None = None) -> np.ndarray:
        """The joint posterior of several variables, which need not share a clique.

        Parameters
        ----------
        targets : sequence of str
        given : mapping, optional

        Returns
        -------
        ndarray
            One axis for each target, in the given order; sums to one.

        Raises
        ------
        EvidenceError
        EngineRefusal
            The table, or an intermediate one, would not fit into memory.
        """
        names = variables_of(self.states, targets)
        state = self._given(read_evidence(self.states, given))
        entries = float(np.prod([float(len(self.states[v])) for v in names]))
        self._refuse_beyond(entries if entries > self._limit / 8 else 0)
        # A factor of ones over the targets puts them into one clique; its expected counts are their joint posterior.
        scopes = (*self._factors.scopes, names)
        tables = [*self._by_factor(self._tables), np.ones([len(self.states[v]) for v in names])]
        factors = FactorGraph(self.states, scopes, tuple(tables))
        problem, flat = _problem(self._problem.cards, triangulation.scopes_of(factors), tables)
        wider = replace(self, _factors=factors, _problem=problem, _tables=flat, _tree=None)
        needed = self._needed(self._wanted(names) | (state.codes >= 0) | state.has_likelihood)
        log_evidence, _, counts = wider._rows(state.codes[None, :], np.ones(1), state, None, True, needed)
        if log_evidence[0] == -np.inf:
            raise self._impossible(given or {})
        return counts[problem.table_start[-2] :].reshape(tables[-1].shape)

    def log_evidence_of(self, codes: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """Log probability of each row of evidence.

        Parameters
        ----------
        codes : ndarray of int, shape (n_rows, n_variables)
            State indices, columns in the order of ``states``; -1 where not observed.
        weights : ndarray, shape (n_rows,), optional
            Factors of the results.

        Returns
        -------
        ndarray, shape (n_rows,)
            -inf where impossible.
        """
        codes = self._codes(codes)
        rows, inverse = _distinct(codes)
        out = self._batch(rows, np.ones(len(rows)), None, False)[0][inverse]
        return out if weights is None else out * self._weights(weights, len(codes))

    def query_many(self, codes: np.ndarray, targets: Iterable[str] | None = None) -> BatchMarginals:
        """Posterior marginals for each row of evidence; rows may observe different variables.

        Parameters
        ----------
        codes : ndarray of int, shape (n_rows, n_variables)
            -1 where not observed.
        targets : iterable of str, optional
        """
        names = variables_of(self.states, targets)
        rows, inverse = _distinct(self._codes(codes))
        log_evidence, marginals, _ = self._batch(rows, np.ones(len(rows)), names, False)
        marginals[log_evidence == -np.inf] = np.nan
        return BatchMarginals(log_evidence[inverse], self._split(marginals[inverse], names))

    def expected_counts(
        self, codes: np.ndarray, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Log evidence of each row, and the expected count of each entry of each factor.

        Parameters
        ----------
        codes : ndarray of int, shape (n_rows, n_variables)
            -1 where missing.
        weights : ndarray, shape (n_rows,), optional
            Weight of each row.

        Returns
        -------
        log_evidence : ndarray, shape (n_rows,)
            Unweighted; -inf for rows of probability zero, which add nothing to the counts.
        counts : list of ndarray
            In the shapes of the factors' tables: the sum over rows of the weight times the posterior of the factor's
            variables, which is the derivative of the weighted log evidence with respect to the log of the table.
        """
        codes = self._codes(codes)
        each = np.ones(len(codes)) if weights is None else self._weights(weights, len(codes))
        rows, inverse = _distinct(codes)
        total = np.bincount(inverse, each, minlength=len(rows))
        complete = (rows >= 0).all(axis=1)
        log_evidence = np.empty(len(rows))
        log_evidence[complete], counts = self._counted(rows[complete], total[complete])
        if not complete.all():
            rest = ~complete
            log_evidence[rest], _, more = self._batch(rows[rest], total[rest], None, True)
            counts += more
        return log_evidence[inverse], self._by_factor(counts)

    def most_probable(self, given: Mapping[str, Any] | None = None, k: int = 1) -> list[Explanation]:
        """The ``k`` most probable assignments of all variables, best first; fewer if fewer are possible.

        Log probabilities are those of the assignment given the evidence. Equally probable assignments have a fixed but
        arbitrary order. The later ones come from Lawler's method [5]_, which partitions the remaining assignments and
        takes the best of each part.
        """
        if k < 1:
            raise OptionError(f"k is {k}; it must be at least 1", code="out-of-range")
        evidence = read_evidence(self.states, given)
        whole = self._given(evidence)
        log_evidence, _ = self._one(whole, ())
        if log_evidence == -np.inf:
            raise self._impossible(given or {})
        out: list[Explanation] = []
        # Heap with the best assignment of each part; the counter keeps equal ones in order of insertion.
        heap: list[tuple[float, int, np.ndarray, np.ndarray]] = []
        parts: Iterable[np.ndarray] = [self._allowed(whole)]
        made = count()
        while len(out) < k:
            for part in parts:
                explanation = self._explained(whole, part)
                if explanation is not None:
                    heapq.heappush(heap, (-explanation[0], next(made), explanation[1], part))
            if not heap:
                break
            value, _, best, allowed = heapq.heappop(heap)
            out.append(Explanation(self._named(best), -value - log_evidence))
            parts = self._partition(best, allowed)
        return out

    def marginal_map(self, targets: Sequence[str], given: Mapping[str, Any] | None = None) -> Explanation:
        """The most probable joint state of some variables, the others summed out.

        Sums precede maxima in the elimination order, so this query may cost far more than either kind alone.

        Raises
        ------
        EvidenceError
        EngineRefusal
            An intermediate table would not fit into memory.
        """

        names = variables_of(self.states, targets)
        state = self._given(read_evidence(self.states, given))
        log_evidence, _ = self._one(state, ())
        if log_evidence == -np.inf:
            raise self._impossible(given or {})
        codes, log_value = marginal_map(self._model, names, given)
        return Explanation({v: self.states[v][c] for v, c in zip(names, codes, strict=True)}, log_value - log_evidence)

    def sample(self, n: int, rng: np.random.Generator, given: Mapping[str, Any] | None = None) -> np.ndarray:
        """Independent draws from the posterior.

        Returns
        -------
        ndarray of int, shape (n, n_variables)
            State indices, columns in the order of ``states``.
        """
        from bayeslab.latents.networks import tree_kernels as kernels

        state = self._given(read_evidence(self.states, given))
        left = self._conditioned(state, self._allowed(state))
        if left is None:
            raise self._impossible(given or {})
        log_total, beliefs = kernels.collected(left.tree, left.tables, left.likelihood, left.has_likelihood)
        if log_total == -np.inf:
            raise self._impossible(given or {})
        draws = np.zeros((n, left.variables.size), np.int64)
        kernels.draw(left.tree, beliefs, rng.random((n, left.tree.parent.size)), draws)
        return left.restored(draws)

    # Shared parts of the queries.

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The tree as arguments of :func:`bayeslab.latents.networks.tree_kernels.log_evidence_and_gradient`.

        Raises
        ------
        EngineRefusal
            The net is large, so that each row's evidence has a separate tree.
        """
        if self._tree is None:
            raise EngineRefusal(
                f"one tree for all evidence would have {self.forecast.total_entries:.3g} entries; "
                "learn its tables by EM",
                code="too-costly",
            )
        return tuple(self._tree)

    @property
    def _model(self) -> DiscreteNetwork | FactorGraph:
        """The model with the current tables."""
        tables = tuple(self._by_factor(self._tables))
        if self._parents is None or not self._sums_to_one:
            return FactorGraph(self.states, self._factors.scopes, tables, self._factors.name)
        return DiscreteNetwork(self.states, self._parents, dict(zip(self.states, tables, strict=True)))

    @cached_property
    def _possible(self) -> tuple[np.ndarray, bool]:
        """States that the zeros of the tables allow, and whether an assignment may be possible."""
        from bayeslab.latents.networks import tree_kernels as kernels

        allowed = np.ones(int(self._problem.starts[-1]), np.bool_)
        everything = np.ones(self._problem.cards.size, np.bool_)
        return allowed, bool(kernels.propagate(self._problem, self._tables, allowed, everything))

    @cached_property
    def _scaled(self) -> tuple[np.ndarray, float]:
        """Tables scaled to maximum one, so that products do not overflow, and the log scale; not of Bayes nets."""
        if self._sums_to_one or not self._tables.size:
            return self._tables, 0.0
        starts = self._problem.table_start
        tops = np.maximum.reduceat(self._tables, starts[:-1])
        if not np.all(tops > 0):
            return self._tables, -np.inf
        return self._tables / np.repeat(tops, np.diff(starts)), float(np.log(tops).sum())

    def _codes(self, codes: np.ndarray) -> np.ndarray:
        out = np.ascontiguousarray(codes, np.int64)
        if out.ndim != 2 or out.shape[1] != len(self.states):
            raise EvidenceError(
                f"rows of evidence have shape {out.shape}; there are {len(self.states)} variables", code="wrong-shape"
            )
        beyond = (out >= self._problem.cards) | (out < -1)
        if beyond.any():
            row, column = np.argwhere(beyond)[0]
            name = list(self.states)[column]
            raise EvidenceError(
                f"row {row}: {out[row, column]} is not a state of '{name}'; known: 0 to {len(self.states[name]) - 1}, "
                "and -1 for not observed",
                code="unknown-state",
            )
        return out

    def _weights(self, weights: np.ndarray, n: int) -> np.ndarray:
        out = np.asarray(weights, float)
        if out.shape != (n,):
            raise EvidenceError(f"weights have shape {out.shape} for {n} rows", code="wrong-shape")
        return out

    def _given(self, evidence: Evidence) -> _Given:
        codes = np.full(len(self.states), -1, np.int64)
        likelihood = np.ones(int(self._problem.starts[-1]))
        has = np.zeros(len(self.states), np.bool_)
        if evidence.hard or evidence.likelihood:
            number = self._number
            for variable, code in evidence.hard.items():
                codes[number[variable]] = code
            for variable, vector in evidence.likelihood.items():
                v = number[variable]
                has[v] = True
                likelihood[self._problem.starts[v] : self._problem.starts[v + 1]] = vector
        return _Given(codes, likelihood, has)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {v: i for i, v in enumerate(self.states)}

    def _wanted(self, names: Sequence[str]) -> np.ndarray:
        if len(names) == len(self.states):
            return np.ones(len(self.states), np.bool_)
        out = np.zeros(len(self.states), np.bool_)
        out[[self._number[v] for v in names]] = True
        return out

    def _split(self, flat: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
        starts = self._starts
        return {v: flat[..., starts[i] : starts[i + 1]] for v in names for i in (self._number[v],)}

    @cached_property
    def _starts(self) -> list[int]:
        return [int(s) for s in self._problem.starts]

    def _by_factor(self, flat: np.ndarray) -> list[np.ndarray]:
        starts = self._problem.table_start
        return [flat[starts[f] : starts[f + 1]].reshape(table.shape) for f, table in enumerate(self._factors.tables)]

    def _one(self, state: _Given, names: Sequence[str]) -> tuple[float, np.ndarray]:
        log_evidence, marginals, _ = self._rows(state.codes[None, :], np.ones(1), state, names or None, False)
        return float(log_evidence[0]), marginals[0]

    def _rows(
        self,
        rows: np.ndarray,
        weights: np.ndarray,
        state: _Given,
        names: Sequence[str] | None,
        counting: bool,
        needed: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One call of compiled code: log evidence, marginals as flat vectors over all states, counts as flat tables."""
        from bayeslab.latents.networks import tree_kernels as kernels

        n_states = int(self._problem.starts[-1])
        log_evidence = np.full(len(rows), -np.inf)
        marginals = np.zeros((len(rows), n_states if names is not None else 0))
        counts = np.zeros(self._tables.size if counting else 0)
        wanted = self._wanted(names or ())
        evidence = [rows, weights, state.likelihood, state.has_likelihood]
        answer = [wanted, names is not None, counting, log_evidence, marginals, counts]
        tables, log_scale = self._scaled
        if log_scale == -np.inf:
            return log_evidence, marginals, counts
        if self._tree is not None:
            arguments: list[Any] = [self._tree, tables, *evidence, *answer]
            kernels.calibrate_rows(*arguments)
            if counting:
                constants = [f for f, scope in enumerate(self._factors.scopes) if not scope]
                counts[self._problem.table_start[constants]] = weights[log_evidence > -np.inf].sum()
        elif self._possible[1]:
            if needed is None:
                observed = (rows >= 0).any(axis=0) | state.has_likelihood
                needed = self._needed(wanted | observed | counting)
            search = [self._possible[0], needed, self._limit / 8, float(triangulation.SMALL), triangulation.RESTARTS]
            arguments = [self._problem, tables, *evidence, *search, *answer]
            self._refuse_beyond(kernels.condition_rows(*arguments))
        log_evidence += log_scale
        return log_evidence, marginals, counts

    def _needed(self, concerned: np.ndarray) -> np.ndarray:
        """For a Bayes net, these variables and their ancestors: the tables of the others sum to one."""
        if not self._sums_to_one:
            return np.ones(len(self.states), np.bool_)
        out, stack = concerned.copy(), np.flatnonzero(concerned).tolist()
        pointer, variables = self._problem.factor_pointer, self._problem.factor_variables
        while stack:
            v = stack.pop()
            for parent in variables[pointer[v] : pointer[v + 1] - 1].tolist():
                if not out[parent]:
                    out[parent] = True
                    stack.append(parent)
        return out

    @cached_property
    def _sums_to_one(self) -> bool:
        """Whether the tables are normalised conditional distributions, which those of ``with_tables`` need not be."""
        return self._parents is not None and _conditional(self._by_factor(self._tables))

    def _refuse_beyond(self, entries: float) -> None:
        if entries > 0:
            raise EngineRefusal(
                f"under this evidence the cliques have {entries:.3g} entries and {self._limit / 8:.3g} fit "
                "into memory; ask for few targets by variable elimination, or give more evidence",
                code="too-costly",
            )

    def _batch(
        self, rows: np.ndarray, weights: np.ndarray, names: Sequence[str] | None, counting: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Process rows in parts, on all cores; the parts do not depend on the number of cores."""
        state = self._given(Evidence({}, {}))

        def run(part: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            return self._rows(rows[part], weights[part], state, names, counting)

        parts = _parts(len(rows))
        # Computed here, before threads would compute it concurrently.
        _ = self._scaled, self._possible if self._tree is None else None
        results = _mapped(run, parts)
        return (
            np.concatenate([r[0] for r in results]),
            np.concatenate([r[1] for r in results]),
            np.sum([r[2] for r in results], axis=0),
        )

    def _counted(self, rows: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows: their factors' entries are looked up and counted."""
        log_evidence = np.zeros(len(rows))
        counts = np.zeros(self._tables.size)
        if not len(rows):
            return log_evidence, counts
        places = []
        with np.errstate(divide="ignore"):
            log_tables = np.log(self._tables)
        for f, (scope, table) in enumerate(zip(self._factors.scopes, self._factors.tables, strict=True)):
            columns = [rows[:, self._number[v]] for v in scope]
            place = np.ravel_multi_index(tuple(columns), table.shape) if scope else np.zeros(len(rows), np.int64)
            places.append(place)
            log_evidence += log_tables[self._problem.table_start[f] + place]
        weights = np.where(log_evidence == -np.inf, 0.0, weights)
        for f, place in enumerate(places):
            start, end = self._problem.table_start[f : f + 2]
            counts[start:end] = np.bincount(place, weights, minlength=end - start)
        return log_evidence, counts

    def _impossible(self, given: Mapping[str, Any]) -> EvidenceError:
        """The error for evidence of probability zero."""
        return impossible(given, lambda part: self._one(self._given(read_evidence(self.states, part)), ())[0] > -np.inf)

    def _fitted(
        self, state: _Given, given: Mapping[str, Any], believed: Mapping[str, Mapping[str, float]]
    ) -> tuple[_Given, float]:
        """Likelihoods whose posterior has the believed marginals, by iterative proportional fitting."""
        wanted = {v: _belief(v, p) for v, p in believed.items()}
        vectors = read_evidence(self.states, wanted).likelihood
        for v in vectors:
            if v in given:
                raise EvidenceError(f"'{v}' is both given and believed; leave one of them out", code="conflict")
        names = tuple(self.states)
        log_evidence, flat = self._one(state, names)
        if log_evidence == -np.inf:
            raise self._impossible(given)
        state = state._replace(likelihood=state.likelihood.copy(), has_likelihood=state.has_likelihood.copy())
        for _ in range(1000):
            current = self._split(flat, names)
            if max(np.abs(current[v] - p).max() for v, p in vectors.items()) < 1e-11:
                return state, log_evidence
            for v, p in vectors.items():
                now = self._split(self._one(state, names)[1], (v,))[v]
                if np.any((now == 0) & (p > 0)):
                    raise EvidenceError(
                        f"'{v}' is believed to have a state that is impossible given the rest", code="probability-zero"
                    )
                i = self._number[v]
                at = slice(self._starts[i], self._starts[i + 1])
                state.has_likelihood[i] = True
                ratio = np.divide(p, now, out=np.zeros_like(p), where=now > 0)
                state.likelihood[at] *= ratio
                top = state.likelihood[at].max()
                if not 0 < top < np.inf:
                    raise EvidenceError(
                        "the beliefs contradict each other: no distribution has these marginals", code="contradiction"
                    )
                state.likelihood[at] /= top
            flat = self._one(state, names)[1]
        raise EvidenceError(
            "the beliefs contradict each other: no distribution has these marginals", code="contradiction"
        )

    # Trees for one piece of evidence.

    def _allowed(self, state: _Given) -> np.ndarray:
        allowed = np.ones(int(self._problem.starts[-1]), np.bool_)
        for v in np.flatnonzero(state.codes >= 0):
            at = slice(self._starts[v], self._starts[v + 1])
            keep = allowed[at][state.codes[v]]
            allowed[at] = False
            allowed[self._starts[v] + state.codes[v]] = keep
        return allowed

    def _conditioned(self, state: _Given, allowed: np.ndarray) -> _Conditioned | None:
        """The problem reduced by evidence; None if the evidence is impossible."""
        from bayeslab.latents.networks import tree_kernels as kernels

        base, possible = self._possible
        scaled, log_scale = self._scaled
        left = np.empty_like(allowed)
        unobserved = np.full(len(self.states), -1, np.int64)
        mask = np.where(allowed & base, state.likelihood, 0.0)
        every = np.ones(len(self.states), np.bool_)
        if not possible or log_scale == -np.inf:
            return None
        if not kernels.restrict(self._problem, scaled, unobserved, mask, every, base, left):
            return None
        tree, tables, _, variables, states, log_constant, total = kernels.condition(
            self._problem, scaled, left, every, float(triangulation.SMALL), triangulation.RESTARTS
        )
        if log_constant == -np.inf:
            return None
        if total > self._limit / 8:
            self._refuse_beyond(total)
        likelihood, has, log_fixed = kernels.restrict_likelihood(
            self._problem, tree, variables, states, state.likelihood, state.has_likelihood, left
        )
        settled = np.zeros(len(self.states), np.int64)
        for v in range(len(self.states)):
            settled[v] = int(np.argmax(left[self._starts[v] : self._starts[v + 1]]))
        return _Conditioned(
            tree, tables, likelihood, has, log_scale + log_constant + log_fixed, settled, variables, states
        )

    def _explained(self, state: _Given, allowed: np.ndarray) -> tuple[float, np.ndarray] | None:
        """The best assignment with allowed states, and the log of its product."""
        from bayeslab.latents.networks import tree_kernels as kernels

        left = self._conditioned(state, allowed)
        if left is None:
            return None
        best = np.zeros(left.variables.size, np.int64)
        value = kernels.explain(left.tree, left.tables, left.likelihood, left.has_likelihood, best)
        if value == -np.inf:
            return None
        return value + left.log_constant, left.restored(best[None, :])[0]

    def _partition(self, best: np.ndarray, allowed: np.ndarray) -> Iterable[np.ndarray]:
        """The allowed assignments except ``best``, partitioned by the first variable in which they differ from it."""
        fixed = allowed.copy()
        for v, code in enumerate(best):
            at = slice(self._starts[v], self._starts[v + 1])
            if np.count_nonzero(allowed[at]) > 1:
                part = fixed.copy()
                part[self._starts[v] + code] = False
                yield part
            fixed[at] = False
            fixed[self._starts[v] + code] = True

    def _named(self, codes: np.ndarray) -> dict[str, str]:
        return {v: s[int(code)] for (v, s), code in zip(self.states.items(), codes, strict=True)}


def _problem(cards: np.ndarray, scopes: Sequence[np.ndarray], tables: Sequence[np.ndarray]) -> tuple[Any, np.ndarray]:
    """Factors as flat arrays."""
    from bayeslab.latents.networks import tree_kernels as kernels

    def pointer(lengths: Iterable[int]) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(np.fromiter(lengths, np.int64), dtype=np.int64)]).astype(np.int64)

    flat = np.concatenate([t.ravel() for t in tables]) if tables else np.zeros(0)
    factor_pointer = pointer(len(s) for s in scopes)
    variables = np.concatenate([*scopes, np.zeros(0, np.int64)]).astype(np.int64)
    owner = np.repeat(np.arange(len(scopes), dtype=np.int64), np.diff(factor_pointer))
    starts = pointer(int(t.size) for t in tables)
    by_variable = np.argsort(variables, kind="stable")
    touching = pointer(np.bincount(variables, minlength=len(cards)))
    problem = kernels.Problem(
        cards, pointer(cards), factor_pointer, variables, starts, _zeros(starts, flat), touching, owner[by_variable]
    )
    return problem, flat


def _zeros(starts: np.ndarray, flat: np.ndarray) -> np.ndarray:
    return np.minimum.reduceat(flat, starts[:-1]) == 0 if flat.size else np.zeros(0, np.bool_)


def _conditional(tables: Sequence[np.ndarray]) -> bool:
    """Whether all tables are normalised conditional distributions."""
    return all(np.abs(t.sum(axis=-1) - 1).max() < 1e-9 for t in tables)


def _belief(variable: str, probabilities: Mapping[str, float]) -> Mapping[str, float]:
    for state, p in probabilities.items():
        number(p, f"the believed probability of '{variable}={state}'", 0, 1, error=EvidenceError)
    total = sum(probabilities.values())
    if abs(total - 1) > 1e-6:
        raise EvidenceError(
            f"the believed probabilities of '{variable}' sum to {total:g}, not to 1", code="not-probabilities"
        )
    return {state: p / total for state, p in probabilities.items()}


def _distinct(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows, and the index of each row among them."""
    if len(codes) < 2 or codes.shape[1] == 0:
        return codes, np.arange(len(codes))
    # Sorting 64-bit hashes is many times faster than sorting rows; collisions are detected.
    mix = np.random.default_rng(0).integers(1, 2**63, codes.shape[1], dtype=np.uint64) | np.uint64(1)
    _, first, inverse = np.unique(codes.astype(np.uint64) @ mix, return_index=True, return_inverse=True)
    rows = codes[first]
    if not np.array_equal(rows[inverse], codes):
        rows, inverse = np.unique(codes, axis=0, return_inverse=True)
    return np.ascontiguousarray(rows), inverse


def _parts(n: int) -> list[slice]:
    if n < 4 * _PARTS:
        return [slice(0, n)]
    edges = np.linspace(0, n, _PARTS + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(edges)]


def _mapped(run: Callable[[slice], Any], parts: Sequence[slice]) -> list[Any]:
    cores = os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()
    if len(parts) == 1 or (cores or 1) == 1:
        return [run(part) for part in parts]
    with ThreadPoolExecutor(min(cores or 1, len(parts))) as pool:
        return list(pool.map(run, parts))
