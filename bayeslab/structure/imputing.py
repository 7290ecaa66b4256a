r"""Missing cells within a chain over structures: they are sampled together with the structures.

The joint posterior of a structure G and the missing cells Z is
:math:`p(G, Z \mid X) \propto p(G)\, p(X, Z \mid G)`, the Bayesian score of the completed rows with the tables
integrated out. Two kinds of steps that leave it invariant alternate (data augmentation [1]_ [2]_):

1. any chain over structures, on the score table of the completed rows;
2. Gibbs steps over the missing cells given the structure. All missing cells of a row are drawn jointly from the list of
   their completions, given the other completed rows. With the tables integrated out, the weight of a completion is
   :math:`\prod_v (a_v + n_v) / (r_v a_v + N_v)`, with counts that exclude the row, over the families that contain one
   of the cells. If a row has too many completions, its cells are drawn one by one.

Then the scores of the families that contain a column with missing cells are recomputed. The draws are structures from
:math:`p(G \mid X)`, with the missing cells integrated out; cells are assumed to be missing at random.

With tempering each copy has its own missing cells, and the joint density is tempered: a copy at the inverse temperature
b targets :math:`p(G, Z \mid X)^b`, and exchanges swap structures and cells together. For chains over orders and
partitions a structure is drawn from the order or partition, then the cells given that structure.

References
----------
.. [1] Tanner, Wong (1987). The calculation of posterior distributions by data augmentation. JASA 82, 528-540.
.. [2] Riggelsen (2006). Learning parameters of Bayesian networks from incomplete data via importance sampling. IJAR 42,
   69-83; York, Madigan, Heuch, Lie (1995). Birth defects registered by double sampling: a Bayesian approach
   incorporating covariates and model uncertainty. Applied Statistics 44, 227-242.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import DataError, OptionError
from bayeslab.structure import scores
from bayeslab.structure.chains import Info, State, load
from bayeslab.structure.chains.toolbox.common import Schedule, seeds, share
from bayeslab.structure.counts import n_sets
from bayeslab.structure.data import Observations
from bayeslab.structure.jobs import Sampler
from bayeslab.structure.priors import StructurePrior, Uniform
from bayeslab.structure.score_table import ScoreTable
from bayeslab.structure.scores import LocalScore

__all__ = ["SCORES", "Cells", "Imputing", "completed"]

# Scores that are log marginal likelihoods under a prior of the tables that does not depend on the rows.
SCORES = ("bdeu", "k2")
# The cells of a row with more completions are drawn one by one.
COMPLETIONS = 256
# Steps between two draws of the missing cells, per variable.
_EVERY = {"structure": 75, "order": 30, "partition": 10}
_NEVER = 1 << 62
# Largest mean size per draw of the stored completions.
KEPT_BYTES = 20_000

Codes = NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows with missing cells, and the score of their completions.

    Attributes
    ----------
    states : mapping of str to tuple of str
        Of each variable.
    codes : ndarray of int16, shape (n_rows, n)
        State numbers; -1 for a missing cell.
    score : str
        ``bdeu`` or ``k2``.
    options : mapping
        Of the score.
    prior : StructurePrior
        The prior that the score table contains.
    """

    states: Mapping[str, tuple[str, ...]]
    codes: Codes
    score: str = "bdeu"
    options: Mapping[str, Any] | None = None
    prior: StructurePrior = Uniform()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        if self.score not in SCORES:
            raise OptionError(
                f"drawing missing cells needs a score that is a probability of rows, {' or '.join(SCORES)}, not"
                f" '{self.score}'; or drop the rows with missing cells",
                code="not-suited",
            )
        codes = np.ascontiguousarray(self.codes, dtype=np.int16)
        object.__setattr__(self, "codes", codes)
        for k, v in enumerate(self.states):
            if len(codes) and np.all(codes[:, k] < 0):
                raise DataError(f"column '{v}' has no cell that is not missing; leave it out", code="no-values")

    @cached_property
    def cards(self) -> NDArray[np.int64]:
        return np.array([len(levels) for levels in self.states.values()], dtype=np.int64)

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Mask of the missing cells."""
        return self.codes < 0

    @property
    def packed(self) -> np.dtype[Any]:
        """The smallest integer type that holds any state."""
        return np.min_scalar_type(int(self.cards.max(initial=1)) - 1)

    @property
    def keep(self) -> int:
        """Interval of the draws whose completions are stored: 1 while a completion takes no more than 20 kB."""
        return max(1, -(-int(self.missing.sum()) * self.packed.itemsize // KEPT_BYTES))

    def digest(self) -> str:
        """SHA-256 of all contents."""
        options = sorted((self.options or {}).items())
        head = repr((list(self.states.items()), self.score, options, self.prior.name, self.codes.shape))
        return hashlib.sha256(head.encode() + self.codes.tobytes()).hexdigest()

    def scored(self, codes: Codes) -> LocalScore:
        """The score on completed rows."""
        return scores.load(self.score, Observations.of_codes(codes, self.states), **dict(self.options or {}))

    def alphas(self, parents: list[tuple[int, ...]]) -> NDArray[np.float64]:
        """Dirichlet concentration of an entry of each table."""
        if self.score == "k2":
            return np.ones(len(parents))
        size = float((self.options or {}).get("equivalent_sample_size", 10.0))
        entries = [float(np.prod(self.cards[[*parent_set, v]])) for v, parent_set in enumerate(parents)]
        return size / np.array(entries)

    @cached_property
    def blocks(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Blocks of cells drawn together: the row of each block, the start of its cells, and their columns."""
        rows, starts, cells = [], [0], []
        for r in np.flatnonzero(self.missing.any(axis=1)).tolist():
            lacking = np.flatnonzero(self.missing[r]).tolist()
            together = float(np.prod(self.cards[lacking].astype(float))) <= COMPLETIONS
            for block in [lacking] if together else [[v] for v in lacking]:
                rows.append(r)
                cells += block
                starts.append(len(cells))
        return np.array(rows, np.int64), np.array(starts, np.int64), np.array(cells, np.int64)


def completed(cells: Cells, rng: np.random.Generator) -> Codes:
    """Draw each missing cell from the observed values of its column: the start of chains and tables."""
    out = cells.codes.copy()
    for k in range(out.shape[1]):
        gone = cells.missing[:, k]
        out[gone, k] = rng.choice(out[~gone, k], int(gone.sum()))
    return out


class _Copy:
    """Completed rows with their score table, which is re-sorted whenever its scores change."""

    def __init__(self, book: Book, codes: Codes) -> None:
        self.book, self.codes = book, codes
        base, scores_ = book.base, book.rescored(codes)
        child = np.repeat(np.arange(base.n), base.n_sets)
        # Numbers in the base table in the order of the new table, and the inverse.
        self.base_number = np.lexsort((np.arange(len(scores_)), -scores_, child))
        self.own_number = np.empty_like(self.base_number)
        self.own_number[self.base_number] = np.arange(len(scores_))
        at = self.base_number
        self.table = ScoreTable(base.names, base.pointer, base.sets[at], scores_[at], base.score, base.prior)
        self._scaled: dict[float, ScoreTable] = {1.0: self.table}

    def at(self, beta: float) -> ScoreTable:
        """Return the table with scores multiplied by an inverse temperature."""
        if beta not in self._scaled:
            t = self.table
            made = ScoreTable(t.names, t.pointer, t.sets, t.scores * beta, t.score, t.prior)
            share(made, t)
            self._scaled[beta] = made
        return self._scaled[beta]


class Book:
    """Quantities that depend on the score table and the rows, but not on their completion."""

    def __init__(self, base: ScoreTable, cells: Cells) -> None:
        self.base, self.cells = base, cells
        gone = cells.missing.any(axis=0)
        weights = [cells.prior.log_weights(v, base.sets[a:b], base.n) for v, (a, b) in enumerate(self._ranges)]
        self._weights = np.concatenate(weights)
        members = np.stack([_holds(base.sets, u) for u in range(base.n)], axis=1)
        child = np.repeat(np.arange(base.n), base.n_sets)
        self._affected = gone[child] | np.any(members & gone, axis=1)
        self._candidates = np.stack([members[a:b].any(axis=0) for a, b in self._ranges])
        self._limits = np.array([base.sizes[a:b].max() for a, b in self._ranges], dtype=np.int64)
        every = sum(n_sets(int(c.sum()), int(k)) for c, k in zip(self._candidates, self._limits, strict=True))
        # Scoring all sets at once shares the counting, which pays unless only few sets are needed.
        self._at_once = 3 * int(self._affected.sum()) > every
        self._numbers: list[NDArray[np.int64]] = []

    @property
    def _ranges(self) -> list[tuple[int, int]]:
        return list(pairwise(self.base.pointer.tolist()))

    def rescored(self, codes: Codes) -> NDArray[np.float64]:
        """Scores of all sets of the base table on completed rows; sets without missing cells keep their score."""
        score, out = self.cells.scored(codes), self.base.scores.copy()
        scores = self._together(score) if self._at_once else self._apart(score)
        out[self._affected] = (scores + self._weights)[self._affected]
        return out

    def _apart(self, score: LocalScore) -> NDArray[np.float64]:
        out = np.zeros(len(self._affected))
        for v, (a, b) in enumerate(self._ranges):
            asked = a + np.flatnonzero(self._affected[a:b])
            if len(asked):
                out[asked] = score.many(v, self.base.sets[asked])
        return out

    def _together(self, score: LocalScore) -> NDArray[np.float64]:
        scored = score.all_sets(np.arange(self.base.n), self._limits, self._candidates)
        if not self._numbers:
            self._numbers = [self.base.numbers(v, sets) for v, (sets, _) in enumerate(scored)]
        out = np.zeros(len(self._affected))
        for number, (_, local_scores) in zip(self._numbers, scored, strict=True):
            out[number[number >= 0]] = local_scores[number >= 0]
        return out

    def redraw(self, codes: Codes, choice: NDArray[np.integer], beta: float, rng: NDArray[np.uint64]) -> int:
        """Draw all missing cells in place, given a DAG as numbers in the base table; return how many changed."""
        from bayeslab.structure.chains.toolbox.imputing_kernels import count, redraw
        from bayeslab.structure.chains.toolbox.kernels import uniforms

        n, cards = self.base.n, self.cells.cards
        parents = [self.base.parents(int(number)) for number in choice]
        starts = np.cumsum([0, *map(len, parents)], dtype=np.int64)
        strides = [
            int(np.prod(cards[list(parent_set[j + 1 :])])) for parent_set in parents for j in range(len(parent_set))
        ]
        above = np.array([u for parent_set in parents for u in parent_set], np.int64)
        configurations = np.array([int(np.prod(cards[list(parent_set)])) for parent_set in parents])
        rows_from = np.cumsum([0, *configurations], dtype=np.int64)
        offsets = np.cumsum([0, *(configurations * cards)], dtype=np.int64)
        holding = [[v, *(w for w in range(n) if v in parents[w])] for v in range(n)]
        child_starts = np.cumsum([0, *map(len, holding)], dtype=np.int64)
        children = np.array([w for families in holding for w in families], np.int64)
        counts, totals = np.zeros(offsets[-1]), np.zeros(rows_from[-1])
        tables = starts, above, np.array(strides, np.int64), offsets, rows_from, counts, totals
        count(codes, cards, *tables)
        rows, block_starts, cells = self.cells.blocks
        room = np.empty(max(COMPLETIONS, int(cards.max())))
        changed: int = redraw(
            codes, cards, *tables, self.cells.alphas(parents), child_starts, children, rows, block_starts, cells,
            float(beta), room, uniforms(rng, len(rows)),
        )  # fmt: skip
        return changed


def _holds(sets: NDArray[np.uint64], u: int) -> NDArray[np.bool_]:
    return (sets[:, u // 64] >> np.uint64(u % 64) & np.uint64(1)).astype(bool)


# Rows do not change in a job: what depends on them is computed once per process.
_BOOKS: WeakKeyDictionary[ScoreTable, tuple[str, Book]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Imputing(Sampler):
    """A chain over structures and missing cells with the interface of a chain; create it with :meth:`of`.

    It takes the unpruned score table of any completion of the rows, which defines the parent sets and contains the
    scores of families without missing cells. Draws are numbers of its parent sets.

    Attributes
    ----------
    cells : Cells
    inner : mapping
        Options of the chain over structures.
    imputation : int
        Steps between two draws of the missing cells; 0: a number per variable that gives about one draw of cells per
        draw.
    """

    cells: Cells = Cells({}, np.zeros((0, 0), np.int16))
    inner: Mapping[str, Any] = field(default_factory=dict)
    imputation: int = 0

    @classmethod
    def of(cls, sampler: Sampler, cells: Cells, *, imputation: int | None = None) -> Imputing:
        """Create a sampler for rows with missing cells."""
        if imputation is not None and imputation < 1:
            raise OptionError(f"missing cells are drawn every 1 or more steps; given {imputation}", code="out-of-range")
        every = imputation or _EVERY[sampler.word] * len(cells.states)
        # Stored segments must match: the options are part of the identity of the job.
        named: dict[str, Any] = {**sampler.options, "imputation": every, "cells": cells.digest(), "keep": cells.keep}
        return cls(sampler.word, sampler.betas, sampler.every, named, cells, dict(sampler.options), every)

    @property
    def PRIOR(self) -> str:
        """The prior of the inner chain."""
        return self.prior

    @property
    def KINDS(self) -> tuple[str, ...]:
        """Kinds of steps: those of the chain, draws of cells (``accepted``: changed cells), temperature exchanges."""
        kinds: tuple[str, ...] = self._walk.KINDS
        return (*kinds, "imputation", *(("exchange",) if len(self.betas) > 1 else ()))

    @property
    def _walk(self) -> Any:
        return load(self.word)

    def _book(self, table: ScoreTable) -> Book:
        digest = self.cells.digest()
        known = _BOOKS.get(table)
        if known is None or known[0] != digest:
            if table.names != tuple(self.cells.states):
                raise OptionError(
                    "the score table has other variables than the rows, or in another order", code="different-data"
                )
            known = _BOOKS[table] = digest, Book(table, self.cells)
        return known[1]

    def init(self, table: ScoreTable, rng: np.random.Generator) -> State:
        """Return a start: completions drawn column by column, with a structure for each copy."""
        book, copies, all_codes = self._book(table), [], []
        for beta in self.betas:
            one = _Copy(book, completed(self.cells, rng))
            copies.append(_renumbered(self._walk.init(one.at(beta), rng), one.base_number))
            all_codes.append(one.codes)
        return _packed(copies, all_codes, self.cells, seeds(rng), 0)

    def run(self, table: ScoreTable, state: State, n_steps: int, thin: int = 1) -> Any:
        """Run more steps (see :mod:`bayeslab.structure.chains`); steps of the cold chain are counted."""
        plan = Schedule.of(table, state, n_steps, thin, 2)
        book, rng = self._book(table), state["rng"].copy()
        walkers = [_Walker(self, book, state, k) for k in range(len(self.betas))]
        done, end, drawn, kept = plan.done, plan.done + n_steps, 0, np.empty(len(plan.draws))
        missing, keep, completions = self.cells.missing, self.cells.keep, []
        every = self.every if len(walkers) > 1 else _NEVER
        while done < end:
            steps = min(end, *((done // step + 1) * step for step in (thin, self.imputation, every))) - done
            done += steps
            to_draw, to_impute = done % thin == 0, done % self.imputation == 0
            for k, one in enumerate(walkers):
                one.walk(steps, to_impute or (to_draw and k == 0))
            if to_draw:
                plan.draws[drawn], kept[drawn] = walkers[0].choice, walkers[0].score
                drawn += 1
                if (done // thin - 1) % keep == 0:
                    completions.append(walkers[0].copy.codes[missing].astype(self.cells.packed))
            for one in walkers if to_impute else ():
                changed = one.impute(rng)
                if one is walkers[0]:
                    plan.counts[0] += int(missing.sum()), changed
            if done % every == 0:
                _exchange(walkers, rng, plan.counts[1])
        tallies = walkers[0].tallies | {kind: plan.counts[i] for i, kind in enumerate(("imputation", "exchange"))}
        proposed, accepted = ({kind: int(tallies[kind][i]) for kind in self.KINDS} for i in range(2))
        copies = [_renumbered(one.state, one.copy.base_number) for one in walkers]
        after = _packed(copies, [one.copy.codes for one in walkers], self.cells, rng, done)
        held = np.array(completions, self.cells.packed).reshape(len(completions), int(missing.sum()))
        return after, plan.draws, Info(kept, proposed, accepted, held)

    def log_weight(self, table: ScoreTable, state: State) -> float:
        """Log weight of the chain on the completed rows of the cold copy."""
        return _Walker(self, self._book(table), state, 0).log_weight(1.0)

    def codes(self, state: State) -> Codes:
        """Return the completed rows of the cold copy."""
        return _unpacked(state, 0, self.cells)


class _Walker:
    """One tempered copy: its structure, its completed rows, and their score table."""

    def __init__(self, sampler: Imputing, book: Book, state: State, k: int) -> None:
        self.sampler, self.book, self.beta = sampler, book, sampler.betas[k]
        self.copy = _Copy(book, _unpacked(state, k, sampler.cells))
        head = f"{k}."
        arrays = {word.removeprefix(head): array for word, array in state.items() if word.startswith(head)}
        del arrays["cells"]
        self.state = _renumbered(arrays, self.copy.own_number)
        self.choice = np.zeros(book.base.n, np.int64)
        self.score = float("nan")
        self.tallies = {kind: np.zeros(2, np.int64) for kind in sampler._walk.KINDS}

    def walk(self, steps: int, draw: bool) -> None:
        """Run steps of the chain, and draw a DAG after the last step if requested."""
        table = self.copy.at(self.beta)
        fresh = {**self.state, "steps": np.zeros(1, np.int64)}
        thin = steps if draw else _NEVER
        self.state, draws, info = self.sampler._walk.run(table, fresh, steps, thin, **self.sampler.inner)
        if draw:
            self.score = float(self.copy.table.scores[draws[0]].sum())
            self.choice = self.copy.base_number[draws[0]]
        for kind, counts in self.tallies.items():
            counts += info.proposed[kind], info.accepted[kind]

    def impute(self, rng: NDArray[np.uint64]) -> int:
        """Draw the missing cells given the last DAG; return how many changed."""
        codes = self.copy.codes.copy()
        changed = self.book.redraw(codes, self.choice, self.beta, rng)
        if changed:
            after = _Copy(self.book, codes)
            self.state = _renumbered(_renumbered(self.state, self.copy.base_number), after.own_number)
            self.copy = after
        return changed

    def log_weight(self, beta: float) -> float:
        """Log weight of the structure on its completed rows at an inverse temperature."""
        weight: float = self.sampler._walk.log_weight(self.copy.at(beta), self.state)
        return weight


def _exchange(walkers: list[_Walker], rng: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
    """Propose exchanges of structures and completed rows between neighbouring temperatures."""
    from bayeslab.structure.chains.toolbox.kernels import uniforms

    draws = uniforms(rng, len(walkers))
    for k, (a, b) in enumerate(pairwise(walkers)):
        there = b.log_weight(a.beta) + a.log_weight(b.beta)
        here = a.log_weight(a.beta) + b.log_weight(b.beta)
        counts[0] += 1
        if np.log(1.0 - draws[k]) < there - here:
            counts[1] += 1
            rngs = a.state["rng"], b.state["rng"]
            a.copy, b.copy = b.copy, a.copy
            a.state, b.state = {**b.state, "rng": rngs[0]}, {**a.state, "rng": rngs[1]}


def _renumbered(state: State, numbers: NDArray[np.integer]) -> State:
    """Return a state with renumbered parent sets, if it contains any."""
    if "choice" not in state:
        return state
    return {**state, "choice": numbers[state["choice"]].astype(np.int32)}


def _packed(copies: list[State], codes: list[Codes], cells: Cells, rng: NDArray[np.uint64], done: int) -> State:
    """Pack the states of the copies and their missing cells into one state."""
    out = {f"{k}.{word}": array for k, copy in enumerate(copies) for word, array in copy.items()}
    out |= {f"{k}.cells": rows[cells.missing] for k, rows in enumerate(codes)}
    return out | {"rng": rng, "steps": np.array([done], np.int64)}


def _unpacked(state: State, k: int, cells: Cells) -> Codes:
    out = cells.codes.copy()
    out[cells.missing] = state[f"{k}.cells"]
    return out
