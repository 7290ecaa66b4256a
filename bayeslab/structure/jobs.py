"""The structure-sampling job: chains in segments, on any number of processes, resumable bit for bit.

A segment is a fixed number of draws of one chain: a pure function of the score table, the state of the chain before it
and the sampler, independent of where it is computed. In each round the driver hands out one segment of every unfinished
chain and stores each segment as soon as it is returned. A stored segment includes the state after it. A job that was
stopped, killed or extended therefore resumes from its last complete segments and gives the same draws as without the
interruption, bit for bit.

Segments are computed in this process, on local processes or threads (joblib), or on the workers of a Dask cluster; the
table is sent to each worker once.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import RunError
from bayeslab.files import digest_of
from bayeslab.structure.chains import State, load
from bayeslab.structure.chains.toolbox.common import ready
from bayeslab.structure.chains.toolbox.tempering import Tempered, scaled
from bayeslab.structure.score_table import ScoreTable
from bayeslab.workers import OnCluster, cluster, follow, unbroken

__all__ = [
    "Chain",
    "MemorySegments",
    "Piece",
    "Sampler",
    "Segments",
    "Task",
    "Work",
    "Workers",
    "run",
]

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Sampler:
    """A chain and its options.

    Attributes
    ----------
    word : str
        ``structure``, ``order`` or ``partition``.
    betas : tuple of float
        Inverse temperatures; a single one means no tempering.
    every : int
        Number of steps between temperature exchanges.
    options : mapping of str to float
        Options of the chain.
    """

    word: str = "structure"
    betas: tuple[float, ...] = (1.0,)
    every: int = 5000
    options: Mapping[str, float] = field(default_factory=dict)

    @property
    def prior(self) -> Literal["dags", "orders"]:
        """The prior of the draws."""
        prior: Literal["dags", "orders"] = load(self.word).PRIOR
        return prior

    def prepare(self, table: ScoreTable) -> None:
        """Compute what all chains need of a table, before they start in parallel."""

        ready(table)
        for beta in self.betas:
            scaled(table, beta)

    def init(self, table: ScoreTable, rng: np.random.Generator) -> State:
        """Return an initial state."""
        state: State = self._chain().init(table, rng)
        return state

    def run(self, table: ScoreTable, state: State, n_steps: int, thin: int) -> Any:
        """Run more steps and return (state, draws, info)."""
        options = dict(self.options) if len(self.betas) == 1 else {}
        return self._chain().run(table, state, n_steps, thin, **options)

    def _chain(self) -> Any:

        if len(self.betas) == 1:
            return load(self.word)
        return Tempered(self.word, self.betas, self.every, dict(self.options))


@dataclass(frozen=True)
class Work:
    """The amount of work: chains, draws and segments.

    Attributes
    ----------
    draws, tune : int
        Draws kept per chain, and discarded tuning draws before them.
    thin : int
        Steps per draw.
    chains : int
    segment : int
        Draws per segment.
    seed : int
    """

    draws: int
    tune: int
    thin: int
    chains: int
    segment: int
    seed: int

    def next(self, done: int) -> int:
        """Return the size of the segment after ``done`` draws; no segment contains both tuning and kept draws."""
        end = self.tune if done < self.tune else self.tune + self.draws
        return min(self.segment, end - done)

    def seed_of(self, chain: int) -> np.random.SeedSequence:
        """Return the seed of a chain, which depends only on the job's seed and the number of the chain."""
        return np.random.SeedSequence(self.seed, spawn_key=(chain,))


@dataclass(frozen=True, eq=False)
class Shared:
    """A score table that is sent to each process once."""

    digest: str
    parts: tuple[Any, ...]

    @classmethod
    def of(cls, table: ScoreTable) -> Shared:
        parts = (table.names, table.pointer, table.sets, table.scores, table.score, table.prior)
        return cls(table.digest(), parts)

    def table(self) -> ScoreTable:
        """Return the table: the same object in every task of a process, with its cached results."""
        if self.digest not in _ARRIVED:
            # One job at a time: the table of an earlier job is released.
            _ARRIVED.clear()
            _ARRIVED[self.digest] = ScoreTable(*self.parts)
        return _ARRIVED[self.digest]


# Tables sent to this worker, by digest.
_ARRIVED: dict[str, ScoreTable] = {}


@dataclass(frozen=True, eq=False)
class Task:
    """A segment to be computed.

    Attributes
    ----------
    chain : int
    sampler : Sampler
    state : mapping or SeedSequence
        The state of the chain, or the seed of a new chain.
    n_draws, thin : int
    """

    chain: int
    sampler: Sampler
    state: State | np.random.SeedSequence
    n_draws: int
    thin: int


@dataclass(frozen=True, eq=False)
class Piece:
    """A computed segment."""

    chain: int
    state: State
    draws: NDArray[np.int32]
    scores: NDArray[np.float64]
    proposed: Mapping[str, int]
    accepted: Mapping[str, int]
    seconds: float
    completions: NDArray[np.integer] | None = None


def compute(table: ScoreTable | Shared, task: Task) -> Piece:
    """Compute a segment."""
    if isinstance(table, Shared):
        table = table.table()
    begun = time.perf_counter()
    state = task.state
    if isinstance(state, np.random.SeedSequence):
        state = task.sampler.init(table, np.random.default_rng(state))
    state, draws, info = task.sampler.run(table, state, task.n_draws * task.thin, task.thin)
    seconds = time.perf_counter() - begun
    rates = dict(info.proposed), dict(info.accepted)
    return Piece(task.chain, state, draws, info.scores, *rates, seconds, info.completions)


# --------------------------------------------------------------------------------- what is kept


class Segments(Protocol):
    """Storage of computed segments: a run folder, or memory."""

    def read(self, chain: int) -> list[dict[str, NDArray[Any]]]:
        """Return the complete segments of a chain, in order."""

    def write(self, chain: int, number: int, arrays: Arrays) -> None:
        """Store a segment atomically."""

    def stopping(self) -> bool:
        """Return whether the job has been asked to stop."""


class MemorySegments:
    """Storage of a job without a folder: the chains themselves hold the draws."""

    def read(self, chain: int) -> list[dict[str, NDArray[Any]]]:
        return []

    def write(self, chain: int, number: int, arrays: Arrays) -> None:
        pass

    def stopping(self) -> bool:
        return False


@dataclass(eq=False)
class Chain:
    """A chain and its draws so far.

    Attributes
    ----------
    done : int
        Number of draws, including tuning.
    draws, scores, completions : lists of ndarray
        Results after tuning, by segment; completions only for chains that sample missing cells.
    proposed, accepted : dict of str to int
        Number of steps after tuning, by kind; during tuning, those of tuning.
    score : float
        Score of the last draw, in tuning or after it.
    seconds : float
        Computing time of its segments, including tuning.
    origin : str
        The origin of its last segment (:func:`_origin`).
    """

    number: int
    state: State | np.random.SeedSequence
    done: int = 0
    n_segments: int = 0
    draws: list[NDArray[np.int32]] = field(default_factory=list)
    scores: list[NDArray[np.float64]] = field(default_factory=list)
    completions: list[NDArray[np.integer]] = field(default_factory=list)
    proposed: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)
    score: float = float("nan")
    seconds: float = 0.0
    origin: str = ""

    @property
    def acceptance(self) -> dict[str, float]:
        """Share of the steps that changed the structure, by kind."""
        return {kind: self.accepted[kind] / many for kind, many in self.proposed.items() if many}

    def take(self, piece: Piece, tuning: bool) -> dict[str, NDArray[Any]]:
        """Append a new segment; return what must be stored of it."""
        arrays = {
            "done": np.array(self.done + len(piece.draws)),
            "draws": piece.draws[:0] if tuning else piece.draws,
            "scores": piece.scores,
            "kinds": np.array(list(piece.proposed)),
            "proposed": np.array(list(piece.proposed.values()), np.int64),
            "accepted": np.array(list(piece.accepted.values()), np.int64),
            "tuning": np.array(tuning),
            "seconds": np.array(piece.seconds),
        }
        if piece.completions is not None:
            arrays["completions"] = piece.completions[:0] if tuning else piece.completions
        arrays |= {f"state.{word}": array for word, array in piece.state.items()}
        self.replay(arrays)
        return arrays

    def replay(self, arrays: Arrays) -> None:
        """Append a stored segment."""
        self.state = {w.removeprefix("state."): a for w, a in arrays.items() if w.startswith("state.")}
        self.done, self.n_segments = int(arrays["done"]), self.n_segments + 1
        self.seconds += float(arrays["seconds"])
        self.score = float(arrays["scores"][-1])
        if not arrays["tuning"]:
            if not self.draws:
                self.proposed, self.accepted = {}, {}
            self.draws.append(arrays["draws"])
            self.scores.append(arrays["scores"])
            if "completions" in arrays:
                self.completions.append(arrays["completions"])
        for kind, proposed, accepted in zip(arrays["kinds"], arrays["proposed"], arrays["accepted"], strict=True):
            self.proposed[str(kind)] = self.proposed.get(str(kind), 0) + int(proposed)
            self.accepted[str(kind)] = self.accepted.get(str(kind), 0) + int(accepted)


def identity(table: ScoreTable, sampler: Sampler, work: Work) -> str:
    """SHA-256 of everything the draws depend on; stored segments can be resumed only if it is identical."""
    parts = [
        sampler.word,
        sampler.betas,
        sampler.every,
        sorted(sampler.options.items()),
        work.tune,
        work.thin,
        work.seed,
    ]
    return hashlib.sha256((table.digest() + json.dumps(parts)).encode()).hexdigest()


def _origin(job: str, chain: Chain, arrays: Arrays) -> str:
    """SHA-256 of a segment and of its place: the job, the chain and the segments before it.

    Without it a segment of another chain would be taken for one of this chain, and copies of a chain agree perfectly.
    """
    place = [job, chain.number, chain.origin, digest_of(arrays)]
    return hashlib.sha256(json.dumps(place).encode()).hexdigest()


def _stored(job: str, chain: Chain, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Return what is stored of a chain's new segment, with its origin."""
    content = dict(arrays) | {"job": np.array(job)}
    chain.origin = _origin(job, chain, content)
    return content | {"origin": np.array(chain.origin)}


def _restored(work: Work, number: int, store: Segments, job: str) -> Chain:
    """Return a chain restored from its stored segments, up to the first that is not what this chain stored there."""
    chain = Chain(number, work.seed_of(number))
    for arrays in store.read(number):
        if str(arrays.get("job", job)) != job:
            raise RunError(
                f"chain {number} was drawn from another score table, sampler, seed, tuning or thinning than this run"
                f" has now; start a new run",
                code="other-run",
            )
        origin = str(arrays.pop("origin", ""))
        if origin != _origin(job, chain, arrays):
            warnings.warn(
                f"segment {chain.n_segments} of chain {number} is not what this chain stored there: it and those after"
                " it are drawn again",
                stacklevel=2,
            )
            break
        chain.replay(arrays)
        chain.origin = origin
    return chain


# --------------------------------------------------------------------------------- where segments are computed

type Compute = Callable[[Sequence[Task]], Iterable[Piece]]


@dataclass(frozen=True)
class Workers:
    """The processes, threads or cluster that compute segments.

    Attributes
    ----------
    cores : int
        Number of segments computed in parallel; 1: in this process.
    threads : bool
        Use threads of this process instead of processes.
    scheduler : str, optional
        Address of a Dask scheduler, such as ``tcp://host:8786``, whose workers are used.
    """

    cores: int = 1
    threads: bool = False
    scheduler: str | None = None

    @contextmanager
    def ready(self, table: ScoreTable, sampler: Sampler) -> Iterator[Compute]:
        """Provide a function that computes a round of segments and yields each as soon as it is ready."""
        if self.scheduler is not None:
            with cluster(self.scheduler) as client:
                segments = OnCluster(client, Shared.of(table), threads=True)
                yield lambda tasks: segments.each(compute, tasks)
        elif self.cores == 1:
            yield lambda tasks: (compute(table, task) for task in tasks)
        else:
            from joblib import Parallel

            how: dict[str, Any] = {"backend": "threading"}
            if self.threads:
                sampler.prepare(table)
            else:
                # joblib maps large arrays of a task into the memory of all workers once.
                how = {"backend": "loky", "initializer": follow, "initargs": (os.getpid(),)}
            how |= {"return_as": "generator_unordered", "batch_size": 1, "pre_dispatch": "all"}
            with _quietly(), Parallel(self.cores, **how) as pool:
                yield _through(pool, table if self.threads else Shared.of(table))


@contextmanager
def _quietly() -> Iterator[None]:
    """On an error, abandon the segments in progress; they are drawn again when the job is resumed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*tasks which were still being processed by the workers")
        yield


def _through(pool: Any, table: ScoreTable | Shared) -> Compute:
    from joblib import delayed

    return lambda tasks: pool(delayed(compute)(table, task) for task in tasks)


# --------------------------------------------------------------------------------- the job


def run(
    table: ScoreTable,
    sampler: Sampler,
    work: Work,
    store: Segments,
    workers: Workers,
    report: Callable[[list[Chain], bool], None] = lambda chains, whole: None,
) -> list[Chain]:
    """Draw the missing segments round by round, until all are complete or the job is asked to stop.

    Parameters
    ----------
    table
        The score table to sample from.
    store
        Storage of segments; the job resumes from segments that it already contains.
    report
        Called with the chains after each segment, and with True after each round.

    Returns
    -------
    list of Chain
        The chains; with fewer draws than requested if the job was stopped (by Ctrl-C or the store).

    Raises
    ------
    RunError
        The store cannot be written, or contains segments of another job; stored segments remain.
    """
    job = identity(table, sampler, work)
    chains = [_restored(work, number, store, job) for number in range(work.chains)]
    report(chains, True)
    if not _waiting(chains, work):
        return chains
    with _interrupts() as interrupted, workers.ready(table, sampler) as compute_round:
        while (waiting := _waiting(chains, work)) and not (interrupted() or store.stopping()):
            tasks = [Task(c.number, sampler, c.state, work.next(c.done), work.thin) for c in waiting]
            with unbroken("what is drawn is kept: go on with `bayeslab fit --resume`, on fewer cores"):
                for piece in compute_round(tasks):
                    chain = chains[piece.chain]
                    arrays = chain.take(piece, chain.done < work.tune)
                    store.write(chain.number, chain.n_segments - 1, _stored(job, chain, arrays))
                    report(chains, False)
            report(chains, True)
    return chains


def _waiting(chains: list[Chain], work: Work) -> list[Chain]:
    return [chain for chain in chains if chain.done < work.tune + work.draws]


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Record the first Ctrl-C, so that running segments can be stored; the second interrupts at once."""
    pressed: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def remember(number: int, frame: Any) -> None:
        pressed.append(number)
        if len(pressed) > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)
