"""The score table: all candidate parent sets of every variable with their scores, computed once.

A structure is then one number per variable (the number of its parent set) and its score is a sum of table entries, so
that a long job never counts a row again. Scores are log local scores plus the log prior of the parent set: sums are log
posteriors of structures up to a constant.

If only the best structure is needed, a set with a better subset can be dropped, because the subset can replace it in
every DAG [1]_. For sums over structures, sets are dropped only if a subset is better by more than ``prune`` nats.

References
----------
.. [1] Teyssier, Koller (2005). Ordering-based search. UAI 21, 584-590, section 3.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import EngineRefusal, ModelError, OptionError, RunError, hint
from bayeslab.files import read_npz
from bayeslab.structure.constraints import Constraints, mask_of, members_of, n_words
from bayeslab.structure.counts import n_sets
from bayeslab.structure.priors import StructurePrior, structure_prior
from bayeslab.structure.scores import LocalScore, Work

__all__ = ["Forecast", "Note", "ScoreTable", "best_candidates", "checked", "forecast", "half_of_memory"]

_FORMAT = 1


class Note(Protocol):
    """Receiver of progress reports, such as :class:`bayeslab.progress.Progress`."""

    def note(self, text: str) -> None:
        """Report one line about the current work."""


@dataclass(frozen=True)
class Forecast:
    """Forecast of the cost of a table."""

    n_sets: int
    megabytes: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.n_sets:,} parent sets, about {self.megabytes:,.0f} MB and {self.seconds:,.1f} s"


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Candidate parent sets of every variable with their scores, best first; arrays are read-only.

    Attributes
    ----------
    names : tuple of str
    pointer : ndarray of int64, shape (n + 1,)
        The parent sets of variable v have the numbers pointer[v] .. pointer[v + 1].
    sets : ndarray of uint64, shape (n_sets, n_words)
        Bit u % 64 of word u // 64 is set if u is a parent.
    scores : ndarray of float, shape (n_sets,)
        Log local score plus log prior of the parent set; best first for each variable, the smaller set first on a tie.
    score, prior : str
        Names of the score and of the prior.
    """

    names: tuple[str, ...]
    pointer: NDArray[np.int64]
    sets: NDArray[np.uint64]
    scores: NDArray[np.float64]
    score: str
    prior: str = "uniform"

    def __post_init__(self) -> None:
        # Always read-only, so that compiled loops see one type of array.
        for name, kind in (("pointer", np.int64), ("sets", np.uint64), ("scores", np.float64)):
            array = np.ascontiguousarray(getattr(self, name), dtype=kind).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @property
    def n(self) -> int:
        """Number of variables."""
        return len(self.names)

    @property
    def n_sets(self) -> NDArray[np.int64]:
        """Number of parent sets of each variable."""
        return np.diff(self.pointer)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of parents of each set."""
        return np.bitwise_count(self.sets).sum(axis=1, dtype=np.int64)

    @property
    def max_parents(self) -> int:
        """The largest number of parents of any set."""
        return int(self.sizes.max(initial=0))

    @cached_property
    def number_of(self) -> Mapping[str, int]:
        """Numbers of the variables."""
        return {v: i for i, v in enumerate(self.names)}

    @cached_property
    def _order(self) -> list[tuple[NDArray[Any], NDArray[np.int64]]]:
        """For each variable, the sets as sorted keys, and their numbers."""
        orders = []
        for v in range(self.n):
            keys = _keys(self.sets[self.pointer[v] : self.pointer[v + 1]])
            order = np.argsort(keys, kind="stable")
            orders.append((keys[order], order + self.pointer[v]))
        return orders

    def numbers(self, child: int, sets: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the numbers of a variable's parent sets, given as shape (m, n_words); -1 if not in the table."""
        keys, numbers = self._order[child]
        wanted = _keys(np.ascontiguousarray(sets, dtype=np.uint64))
        place = np.searchsorted(keys, wanted)
        inside = place < len(keys)
        inside[inside] = keys[place[inside]] == wanted[inside]
        return np.where(inside, numbers[np.minimum(place, len(keys) - 1)] if len(keys) else -1, -1)

    def number(self, child: int, parents: Iterable[int]) -> int:
        """Number of a parent set of a variable; -1 if it is not in the table."""
        return int(self.numbers(child, mask_of(parents, self.n)[None])[0])

    def local(self, child: int, parents: Iterable[int]) -> float:
        """Score of a parent set of a variable; -inf if it is not in the table."""
        number = self.number(child, parents)
        return float(self.scores[number]) if number >= 0 else -np.inf

    def parents(self, number: int) -> tuple[int, ...]:
        """The variables in a parent set."""
        return members_of(self.sets[number])

    def of_graph(self, graph: nx.DiGraph) -> float:
        """Score of a graph; -inf if one of its parent sets is not in the table."""
        return sum(self.local(v, above) for v, above in enumerate(self._parents_in(graph)))

    def choice(self, graph: nx.DiGraph) -> NDArray[np.int64]:
        """Return a graph as the number of the parent set of each variable.

        Raises
        ------
        ModelError
            A parent set is not in the table.
        """
        above = self._parents_in(graph)
        numbers = np.array([self.number(v, parents) for v, parents in enumerate(above)], dtype=np.int64)
        if np.any(numbers < 0):
            v = int(np.flatnonzero(numbers < 0)[0])
            listed_parents = ", ".join(self.names[u] for u in above[v]) or "none"
            raise ModelError(
                f"the parents of '{self.names[v]}' ({listed_parents}) are not in the score table: more than"
                f" {self.max_parents}, ruled out by constraints, or pruned",
                code="contradiction",
            )
        return numbers

    def graph(self, choice: NDArray[np.integer] | Sequence[int]) -> nx.DiGraph:
        """Return the graph given by one parent set number per variable, in the order of ``names``."""
        out = nx.DiGraph()
        out.add_nodes_from(self.names)
        for v, number in enumerate(choice):
            if not self.pointer[v] <= number < self.pointer[v + 1]:
                raise ModelError(
                    f"{number} is not the number of a parent set of '{self.names[v]}'", code="out-of-range"
                )
            out.add_edges_from((self.names[u], self.names[v]) for u in self.parents(int(number)))
        return out

    def _parents_in(self, graph: nx.DiGraph) -> list[list[int]]:
        for v in graph:
            if v not in self.number_of:
                raise ModelError(
                    f"the graph has a variable '{v}', which is not in the score table{hint(v, self.names)}",
                    code="unknown-variable",
                )
        above = [graph.predecessors(v) if v in graph else () for v in self.names]
        return [sorted(self.number_of[u] for u in parents) for parents in above]

    def pruned(self, nats: float = 0.0) -> ScoreTable:
        """Return the table without sets that have a subset whose score is better by more than ``nats``.

        With 0 a set is dropped if a proper subset is at least as good. The best DAG remains the best.
        """
        kept = [
            _undominated(self.sets[a:b], self.scores[a:b], nats)
            for a, b in zip(self.pointer[:-1], self.pointer[1:], strict=True)
        ]
        pointer = np.cumsum([0, *(int(k.sum()) for k in kept)], dtype=np.int64)
        keep = np.concatenate(kept) if kept else np.zeros(0, bool)
        return ScoreTable(self.names, pointer, self.sets[keep], self.scores[keep], self.score, self.prior)

    def digest(self) -> str:
        """SHA-256 of the table."""
        sha = hashlib.sha256(json.dumps([_FORMAT, self.names, self.score, self.prior]).encode())
        for part in (self.pointer, self.sets, self.scores):
            sha.update(part.tobytes())
        return sha.hexdigest()

    def save(self, path: str | os.PathLike[str], origin: str = "") -> None:
        """Write the table to a file atomically.

        Parameters
        ----------
        path
        origin
            What the table was built from, such as a digest of the model and the data.
        """
        target = Path(path)
        content = {"format": _FORMAT, "names": self.names, "score": self.score, "prior": self.prior, "origin": origin}
        head = json.dumps(content)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            with temporary.open("xb") as stream:
                np.savez(
                    stream,
                    head=np.frombuffer(head.encode(), np.uint8),
                    pointer=self.pointer,
                    sets=self.sets,
                    scores=self.scores,
                    digest=np.frombuffer(bytes.fromhex(self.digest()), np.uint8),
                )
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(target)
        except OSError as error:
            raise RunError(
                f"the score table cannot be written: {error.strerror}", where=str(target), code="cannot-write"
            ) from error
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str], origin: str | None = None) -> ScoreTable:
        """Read a file written by :meth:`save`.

        Parameters
        ----------
        path
        origin
            The origin that the table must have; None: any.

        Raises
        ------
        RunError
            The file does not exist, is damaged, or has another origin.
        """
        damaged = RunError(
            "this is not a score table, or it is damaged; build it again", where=str(path), code="damaged"
        )
        if not Path(path).exists():
            raise RunError("there is no score table", where=str(path), code="no-such-file")
        try:
            held = read_npz(Path(path))
            head = json.loads(held["head"].tobytes())
            table = cls(
                tuple(head["names"]), held["pointer"], held["sets"], held["scores"], head["score"], head["prior"]
            )
            digest, format_, given_origin = held["digest"].tobytes(), head["format"], head.get("origin", "")
        except (RunError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            raise damaged from None
        if origin is not None and given_origin != origin:
            raise RunError(
                "this score table was built from another model or other data; build it again",
                where=str(path),
                code="other-run",
            )
        if format_ != _FORMAT or bytes.fromhex(table.digest()) != digest:
            raise damaged
        return table

    @classmethod
    def build(
        cls,
        score: LocalScore,
        *,
        max_parents: int = 3,
        constraints: Constraints | None = None,
        prior: str | StructurePrior | NDArray[np.float64] = "uniform",
        candidates: int | Mapping[str, Sequence[str]] | None = None,
        prune: float | None = None,
        progress: Note | None = None,
        memory: float | None = None,
        threads: int | None = None,
    ) -> ScoreTable:
        """Build the table by scoring all parent sets.

        Parameters
        ----------
        score
            A score with its data (:mod:`bayeslab.structure.scores`).
        max_parents
            Largest number of parents; constraints may lower it for some variables.
        constraints
            Required and forbidden edges, tiers, limits, candidates.
        prior
            ``uniform``, ``sparse``, a table [from, to] of edge probabilities, or a structure prior.
        candidates
            Possible parents of each variable; a number k selects the k that raise its score most as the only parent.
        prune
            Drop sets with a subset that is better by more than this many nats: use 0 to search for the best structure,
            about 15 for sums over structures. None keeps all.
        progress
            Receives the forecast and progress reports.
        memory
            Memory limit in megabytes; default: half of the machine's memory.
        threads
            Number of threads; default: one per core. The result does not depend on it.

        Raises
        ------
        EngineRefusal
            The table would need more memory than allowed; the message has the numbers.
        """
        n = len(score.names)
        known = constraints or Constraints(tuple(score.names))
        if known.names != tuple(score.names):
            raise ModelError(
                "the constraints are about other variables than the score, or in another order", code="different-data"
            )
        if max_parents < 0:
            raise OptionError(f"max_parents is 0 or more; given {max_parents}", code="out-of-range")
        limits = np.minimum(known.limits, max_parents)
        allowed = _allowed(score, known, candidates)
        cost = checked(score, allowed, limits, max_parents, memory, progress)
        work = Work(threads or os.cpu_count() or 1, _ticker(progress, cost))
        weights = structure_prior(prior)
        scored = score.all_sets(np.arange(n), limits, allowed, work)
        rows: list[tuple[NDArray[np.uint64], NDArray[np.float64]]] = []
        for v, (sets, scores) in enumerate(scored):
            total = scores + weights.log_weights(v, sets, n)
            keep = known.allowed_sets(v, sets) & (total > -np.inf)
            sets, total = sets[keep], total[keep]
            if not len(sets):
                raise ModelError(
                    f"no parent set of '{score.names[v]}' is left: raise max_parents to the number of its required"
                    f" parents, or use a score that can take them",
                    code="contradiction",
                )
            best = np.argsort(-total, kind="stable")
            sets, total = sets[best], total[best]
            if prune is not None:
                kept = _undominated(sets, total, prune)
                sets, total = sets[kept], total[kept]
            rows.append((sets, total))
            scored[v] = (sets[:0], scores[:0])
        pointer = np.cumsum([0, *(len(sets) for sets, _ in rows)], dtype=np.int64)
        every = np.concatenate([sets for sets, _ in rows]) if rows else np.zeros((0, n_words(n)), np.uint64)
        scores_ = np.concatenate([local_scores for _, local_scores in rows]) if rows else np.zeros(0)
        return cls(tuple(score.names), pointer, every, scores_, score.score, weights.name)


def _undominated(sets: NDArray[np.uint64], scores: NDArray[np.float64], nats: float) -> NDArray[np.bool_]:
    """Whether each set, sorted best first, has no subset that is better by more than ``nats``."""
    if not nats >= 0:
        raise OptionError(f"prune is a number of nats, 0 or more; given {nats}", code="out-of-range")
    from bayeslab.structure.score_kernels import undominated

    # Always read-only, as in tables: otherwise the loop would be compiled twice.
    sets, scores = sets.view(), scores.view()
    sets.flags.writeable = scores.flags.writeable = False
    kept: NDArray[np.bool_] = undominated(sets, scores, float(nats))
    return kept


def forecast(score: LocalScore, allowed: NDArray[np.bool_], limits: NDArray[np.int64]) -> Forecast:
    """Return the forecast for a table of all sets of allowed parents, from the number of sets."""
    n = len(score.names)
    sizes = [n_sets(int(row.sum()), int(limit)) for row, limit in zip(allowed, limits, strict=True)]
    cliques = n_sets(n, int(limits.max(initial=0)) + 1)
    # Sets and scores, unsorted and sorted, and one sum per clique.
    total = sum(sizes) * (8 * n_words(n) + 8) * 2 + min(cliques, 2 * sum(sizes)) * 8
    return Forecast(sum(sizes), total / 1e6, score.seconds(sum(sizes)))


def best_candidates(score: LocalScore, k: int, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the k allowed parents of each variable that raise its score most as the only parent; shape (n, n)."""
    n = len(score.names)
    out = np.zeros((n, n), dtype=bool)
    for v, (sets, scores) in enumerate(score.all_sets(np.arange(n), np.ones(n, np.int64), allowed)):
        single = np.flatnonzero(np.bitwise_count(sets).sum(axis=1) == 1)
        best = single[np.argsort(-scores[single], kind="stable")][:k]
        out[v, [members_of(sets[i])[0] for i in best]] = True
    return out


def _allowed(
    score: LocalScore, known: Constraints, candidates: int | Mapping[str, Sequence[str]] | None
) -> NDArray[np.bool_]:
    if candidates is None:
        return known.allowed
    if isinstance(candidates, int):
        if candidates < 0:
            raise OptionError(f"candidates is a number of parents, 0 or more; given {candidates}", code="out-of-range")
        return best_candidates(score, candidates, known.allowed) | known.needed
    return Constraints.of(known.names, required=known.required, candidates=candidates).allowed & known.allowed


def checked(
    score: LocalScore,
    allowed: NDArray[np.bool_],
    limits: NDArray[np.int64],
    max_parents: int,
    memory: float | None,
    progress: Note | None,
) -> Forecast:
    cost = forecast(score, allowed, limits)
    limit = memory if memory is not None else half_of_memory()
    if cost.megabytes > limit:
        raise EngineRefusal(
            f"the score table would hold {cost}; {limit:,.0f} MB may be used. Lower max_parents (now {max_parents}), or"
            f" give candidates=k, which keeps the k most promising parents of each variable",
            code="too-costly",
        )
    if progress:
        progress.note(f"score table: {cost}")
    return cost


def half_of_memory() -> float:
    """Return half of the machine's memory in megabytes; 4,000 if unknown (Windows)."""
    if not hasattr(os, "sysconf"):
        return 4_000.0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2e6


def _ticker(progress: Note | None, cost: Forecast) -> Any:
    """Return a callback for finished parts of the work, which reports every few seconds."""
    if progress is None or cost.seconds < 2:
        return None

    begun = last = time.monotonic()
    done = 0

    def tick() -> None:
        nonlocal last, done
        done += 1
        if time.monotonic() - last > 5:
            last = time.monotonic()
            progress.note(f"score table: {done} parts done after {last - begun:,.0f} s")

    return tick


def _keys(sets: NDArray[np.uint64]) -> NDArray[Any]:
    """Return sets as sortable and searchable keys."""
    if sets.shape[1] == 1:
        return sets[:, 0]
    return np.ascontiguousarray(sets.astype(">u8")).view([("", np.void, 8 * sets.shape[1])]).ravel()
