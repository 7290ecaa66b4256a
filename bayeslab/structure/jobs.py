"""The job that samples structures: chains in segments, on any number of processes, that stop and go on exactly.

A segment is so many draws of one chain: a pure function of the score table, the chain's state before it and the
sampler, wherever it is computed. The driver hands out one segment of every chain that is not finished, a round, keeps
each as soon as it is back, and begins the next round. What is kept includes the state after the segment, so that a job
that was stopped, killed or made longer goes on from its last whole segments and draws what it would have drawn without
the break, to the last bit.

Segments are computed in this process, on processes of this machine or on threads (joblib), or on the workers of a Dask
cluster: the table goes to each once.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bayeslab.errors import OptionError, RunError
from bayeslab.structure.chains import State, load
from bayeslab.structure.chains.toolbox.common import ready
from bayeslab.structure.chains.toolbox.tempering import Tempered, scaled
from bayeslab.structure.score_table import ScoreTable

__all__ = [
    "Chain",
    "MemorySegments",
    "Piece",
    "Sampler",
    "Segments",
    "Task",
    "Work",
    "Workers",
    "follow",
    "run",
    "unbroken",
]

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Sampler:
    """Which chain, with what options.

    Attributes
    ----------
    word : str
        ``structure``, ``order`` or ``partition``.
    betas : tuple of float
        Inverse temperatures; one: no tempering.
    every : int
        Steps between exchanges of temperatures.
    options : mapping of str to float
        Options of the chain.
    """

    word: str = "structure"
    betas: tuple[float, ...] = (1.0,)
    every: int = 5000
    options: Mapping[str, float] = field(default_factory=dict)

    @property
    def prior(self) -> Literal["dags", "orders"]:
        """What the draws are draws of."""
        prior: Literal["dags", "orders"] = load(self.word).PRIOR
        return prior

    def prepare(self, table: ScoreTable) -> None:
        """Work out what all chains need of a table, before several of them begin at once."""

        ready(table)
        for beta in self.betas:
            scaled(table, beta)

    def init(self, table: ScoreTable, rng: np.random.Generator) -> State:
        """A start."""
        state: State = self._chain().init(table, rng)
        return state

    def run(self, table: ScoreTable, state: State, n_steps: int, thin: int) -> Any:
        """More steps: (state, draws, info)."""
        options = dict(self.options) if len(self.betas) == 1 else {}
        return self._chain().run(table, state, n_steps, thin, **options)

    def _chain(self) -> Any:

        if len(self.betas) == 1:
            return load(self.word)
        return Tempered(self.word, self.betas, self.every, dict(self.options))


@dataclass(frozen=True)
class Work:
    """How much is to be drawn.

    Attributes
    ----------
    draws, tune : int
        Draws to keep of each chain, and those before, thrown away.
    thin : int
        Steps from draw to draw.
    chains : int
    segment : int
        Draws of a segment.
    seed : int
    """

    draws: int
    tune: int
    thin: int
    chains: int
    segment: int
    seed: int

    def next(self, done: int) -> int:
        """Draws of the segment that follows so many draws; tuning and draws do not share one."""
        end = self.tune if done < self.tune else self.tune + self.draws
        return min(self.segment, end - done)

    def seed_of(self, chain: int) -> np.random.SeedSequence:
        """It depends on the job's seed and the chain's number only."""
        return np.random.SeedSequence(self.seed, spawn_key=(chain,))


@dataclass(frozen=True, eq=False)
class Shared:
    """A score table on its way to where it is needed: it arrives once at each process."""

    digest: str
    parts: tuple[Any, ...]

    @classmethod
    def of(cls, table: ScoreTable) -> Shared:
        parts = (table.names, table.pointer, table.sets, table.scores, table.score, table.prior)
        return cls(table.digest(), parts)

    def table(self) -> ScoreTable:
        """The table; the same object in every task of a process, with what has been worked out about it."""
        if self.digest not in _ARRIVED:
            # One job at a time: the table of an earlier one is let go.
            _ARRIVED.clear()
            _ARRIVED[self.digest] = ScoreTable(*self.parts)
        return _ARRIVED[self.digest]


# What workers have been sent, by digest.
_ARRIVED: dict[str, ScoreTable] = {}


@dataclass(frozen=True, eq=False)
class Task:
    """One segment to be computed.

    Attributes
    ----------
    chain : int
    sampler : Sampler
    state : mapping or SeedSequence
        The chain's state, or what a new one starts from.
    n_draws, thin : int
    """

    chain: int
    sampler: Sampler
    state: State | np.random.SeedSequence
    n_draws: int
    thin: int


@dataclass(frozen=True, eq=False)
class Piece:
    """One segment that has been computed."""

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
    """Where segments go as soon as they are computed: a run folder, or memory."""

    def read(self, chain: int) -> list[dict[str, NDArray[Any]]]:
        """The whole segments of a chain, in order."""

    def write(self, chain: int, number: int, arrays: Arrays) -> None:
        """Keep one, whole or not at all."""

    def stopping(self) -> bool:
        """Whether somebody has asked the job to stop."""


class MemorySegments:
    """Segments of a job that has no folder: the chains themselves hold what has been drawn."""

    def read(self, chain: int) -> list[dict[str, NDArray[Any]]]:
        return []

    def write(self, chain: int, number: int, arrays: Arrays) -> None:
        pass

    def stopping(self) -> bool:
        return False


@dataclass(eq=False)
class Chain:
    """One chain and what it has drawn so far.

    Attributes
    ----------
    done : int
        Draws, those of tuning included.
    draws, scores, completions : lists of ndarray
        After tuning, by segment; completions of chains that draw missing cells only.
    proposed, accepted : dict of str to int
        Steps after tuning, by kind; as long as there are none, those of tuning.
    score : float
        Of the last draw, in tuning or after it.
    seconds : float
        Time that its segments took, those of tuning included.
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

    @property
    def acceptance(self) -> dict[str, float]:
        """Share of the steps that changed the structure, by kind."""
        return {kind: self.accepted[kind] / many for kind, many in self.proposed.items() if many}

    def take(self, piece: Piece, tuning: bool) -> dict[str, NDArray[Any]]:
        """Go on from a new segment; returns what has to be kept of it."""
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
        """Go on from a segment that was kept."""
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
    """SHA-256 of everything that draws depend on: what a kept segment must have come from to be gone on from."""
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


def _restored(work: Work, number: int, store: Segments, job: str) -> Chain:
    """A chain as far as it was kept."""
    chain = Chain(number, work.seed_of(number))
    for arrays in store.read(number):
        if str(arrays["job"]) != job:
            raise RunError(
                f"chain {number} was drawn from another score table, sampler, seed, tuning or thinning than this run"
                f" has now; start a new run",
                code="other-run",
            )
        chain.replay(arrays)
    return chain


# --------------------------------------------------------------------------------- where segments are computed

type Compute = Callable[[Sequence[Task]], Iterable[Piece]]


@dataclass(frozen=True)
class Workers:
    """Who computes segments.

    Attributes
    ----------
    cores : int
        Segments at once; 1: in this process.
    threads : bool
        On threads of this process instead of processes.
    scheduler : str, optional
        Address of a Dask scheduler, such as ``tcp://host:8786``; then its workers are taken.
    """

    cores: int = 1
    threads: bool = False
    scheduler: str | None = None

    @contextmanager
    def ready(self, table: ScoreTable, sampler: Sampler) -> Iterator[Compute]:
        """What computes a round of segments, giving each as soon as it is there."""
        if self.scheduler is not None:
            with _dask(self.scheduler, table) as compute_round:
                yield compute_round
        elif self.cores == 1:
            yield lambda tasks: (compute(table, task) for task in tasks)
        else:
            from joblib import Parallel

            how: dict[str, Any] = {"backend": "threading"}
            if self.threads:
                sampler.prepare(table)
            else:
                # Large arrays of a task are mapped into the memory of all workers by joblib, once.
                how = {"backend": "loky", "initializer": follow, "initargs": (os.getpid(),)}
            how |= {"return_as": "generator_unordered", "batch_size": 1, "pre_dispatch": "all"}
            with _quietly(), Parallel(self.cores, **how) as pool:
                yield _through(pool, table if self.threads else Shared.of(table))


@contextmanager
def _quietly() -> Iterator[None]:
    """Segments that are under way when something goes wrong are given up, and drawn again when it is resumed."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*tasks which were still being processed by the workers")
        yield


def _through(pool: Any, table: ScoreTable | Shared) -> Compute:
    from joblib import delayed

    return lambda tasks: pool(delayed(compute)(table, task) for task in tasks)


def follow(driver: int) -> None:
    """A worker leaves Ctrl-C, which reaches every process, to its driver, and ends when that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(1.0)
        os._exit(1)

    if os.getppid() == driver:
        threading.Thread(target=watch, daemon=True).start()


@contextmanager
def unbroken(advice: str) -> Iterator[None]:
    """Say in one line that a worker was killed from outside, and what to do."""
    try:
        yield
    except BrokenExecutor as error:
        raise RunError(f"a worker process was killed, perhaps for want of memory; {advice}", code="failed") from error


@contextmanager
def _dask(address: str, table: ScoreTable) -> Iterator[Compute]:
    try:
        from distributed import Client
    except ImportError:
        raise OptionError(
            "a scheduler is one of Dask, which is not installed: pip install 'bayeslab[distributed]'",
            code="not-installed",
        ) from None

    # The client finds out as well, after which it hangs when it is thrown away.
    if not re.fullmatch(r"((tcp|tls)://)?.+:\d+|(?!tcp|tls)\w+://.+", address):
        raise RunError(f"no address of a Dask scheduler: '{address}'; one is tcp://host:8786", code="no-connection")
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise RunError(f"no Dask scheduler answers at {address}: {error}", code="no-connection") from None
    with client:
        yield _Cluster(client, Shared.of(table))


class _Cluster:
    """The workers of a Dask cluster, each of which holds the table.

    Dask computes again what a worker had under way when it was killed, except where the data it was computed from went
    with the worker. Those segments are left out of their round, so that the next round draws them.
    """

    # Rounds in a row that may give nothing.
    patience = 3

    def __init__(self, client: Any, table: Shared) -> None:
        self.client, self.table = client, table
        self.copies: Any = None
        self.n_lost = 0

    def __call__(self, tasks: Sequence[Task]) -> Iterator[Piece]:
        from distributed import KilledWorker, as_completed

        if self.copies is None:
            if not self.client.ncores():
                self.client.wait_for_workers(1, timeout=60)
            self.copies = self.client.scatter(self.table, broadcast=True, hash=False)
        # Tasks travel within the graph: what is sent apart lies on one worker only.
        futures = [self.client.submit(compute, self.copies, task, pure=False) for task in tasks]
        n_given, lost = 0, None
        for future in as_completed(futures, loop=self.client.loop):
            try:
                piece = future.result()
            except CancelledError as error:
                self.copies, lost = None, error
            except KilledWorker as error:
                raise BrokenExecutor(str(error)) from error
            else:
                n_given += 1
                yield piece
        self.n_lost = 0 if n_given else self.n_lost + 1
        if self.n_lost > self.patience:
            raise BrokenExecutor(str(lost)) from lost


# --------------------------------------------------------------------------------- the job


def run(
    table: ScoreTable,
    sampler: Sampler,
    work: Work,
    store: Segments,
    workers: Workers,
    report: Callable[[list[Chain], bool], None] = lambda chains, whole: None,
) -> list[Chain]:
    """Draw what is missing, round by round, until everything is there or the job is asked to stop.

    Parameters
    ----------
    table
        The score table to sample from.
    store
        Where segments are kept; what is there already is gone on from.
    report
        Called with the chains after each segment, and with True after each round.

    Returns
    -------
    list of Chain
        With fewer draws than asked for if the job was stopped (Ctrl-C, or the store says so).

    Raises
    ------
    RunError
        The store cannot be written, or holds another job's segments; what was kept stays.
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
                    store.write(chain.number, chain.n_segments - 1, arrays | {"job": np.array(job)})
                    report(chains, False)
            report(chains, True)
    return chains


def _waiting(chains: list[Chain], work: Work) -> list[Chain]:
    return [chain for chain in chains if chain.done < work.tune + work.draws]


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed: the first is remembered, so that running segments can be kept; the second breaks."""
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
