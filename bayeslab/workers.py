"""Independent tasks, computed in this process, in processes of this machine, or on a Dask cluster."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import contextmanager
from typing import Any

from bayeslab.errors import OptionError, RunError

__all__ = ["OnCluster", "check_jobs", "cluster", "each", "follow", "unbroken"]

# Largest number of processes.
_MAX_JOBS = 1024
# Maximum number of consecutive losses of the shared data with their workers.
_MAX_LOSSES = 3
# Tasks in progress for each thread of a cluster.
_TASKS_PER_THREAD = 2
# PyTensor compiles in one thread at a time; a Dask worker may have several threads.
_compilation_lock = threading.Lock()


def check_jobs(jobs: object, name: str = "jobs") -> None:
    """Check a number of processes.

    Raises
    ------
    OptionError
        The number is neither None nor a whole number from 1 to 1,024.
    """
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or not 1 <= jobs <= _MAX_JOBS):
        raise OptionError(f"{name} is a whole number from 1 to {_MAX_JOBS:,}, not {jobs!r}", code="out-of-range")


def each[S, T, R](
    function: Callable[[S, T], R],
    shared: S,
    tasks: Iterable[T],
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    advice: str = "run it again, with fewer jobs",
) -> Iterator[R]:
    """Yield ``function(shared, task)`` for all tasks, in the order in which they finish.

    Parameters
    ----------
    function
        A module-level function, so that other processes can import it.
    shared
        Data for all tasks, sent to each process once if possible.
    tasks
        The tasks, consumed one by one shortly before they are computed.
    jobs
        Number of processes; 1: the tasks are computed in this process, in their order.
    scheduler
        Address of a Dask scheduler, such as ``tcp://host:8786``, whose workers compute all tasks. Dask repeats the
        tasks of a worker that is killed.
    advice
        Advice in the error raised if a process of this machine is killed.

    Raises
    ------
    RunError
        A worker was killed (on a cluster: repeatedly with the same task), or no scheduler answers.
    """
    if scheduler is not None:
        with unbroken(advice), cluster(scheduler) as client:
            yield from OnCluster(client, shared).each(function, tasks)
    elif jobs == 1:
        for task in tasks:
            yield function(shared, task)
    else:
        from joblib import Parallel, delayed

        with warnings.catch_warnings(), unbroken(advice):
            # Loky replaces workers that were idle for long or use much memory; its warning does not concern the user.
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
            pool = Parallel(jobs, "loky", return_as="generator_unordered", initializer=follow, initargs=(os.getpid(),))
            yield from pool(delayed(function)(shared, task) for task in tasks)


class OnCluster:
    """The workers of a Dask cluster, each with a copy of the shared data.

    Dask recomputes the tasks of a killed worker, unless the shared data were lost with it. Then the shared data are
    sent again, and the lost tasks are restarted.

    Parameters
    ----------
    client
        A client of the scheduler (:func:`cluster`).
    shared
        The data that all tasks share, their first argument.
    threads
        Whether a worker may compute several tasks at the same time, in threads.
    """

    def __init__(self, client: Any, shared: Any, *, threads: bool = False) -> None:
        self.client, self.shared, self.threads = client, shared, threads
        self.copies: Any = None
        self.sent = 0  # number of times the shared data were sent

    def each(self, function: Callable[[Any, Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        """Yield ``function(shared, task)`` for all tasks, as they finish.

        Raises
        ------
        BrokenExecutor
            A task repeatedly killed its worker, or the shared data were lost too often."""
        from distributed import KilledWorker, as_completed

        if self.copies is None:
            if not self.client.ncores():
                self.client.wait_for_workers(1, timeout=60)
            self._send()
        waiting, running = iter(tasks), dict[str, tuple[Any, int]]()
        completed = as_completed(loop=self.client.loop)
        work = (function,) if self.threads else (_one_at_a_time, function)

        def start(task: Any) -> None:
            # Tasks are sent in the graph, because scattered data would be on one worker only.
            future = self.client.submit(*work, self.copies, task, pure=False)
            running[future.key] = task, self.sent
            completed.add(future)

        def fill() -> None:
            wanted = _TASKS_PER_THREAD * max(1, sum(self.client.ncores().values()))
            while len(running) < wanted:
                try:
                    start(next(waiting))
                except StopIteration:
                    return

        fill()
        n_lost = 0
        for future in completed:
            task, sent = running.pop(future.key)
            try:
                result = future.result()
            except CancelledError as error:
                if sent == self.sent:  # the first of the tasks that were lost together
                    n_lost += 1
                    if n_lost > _MAX_LOSSES:
                        raise BrokenExecutor(str(error)) from error
                    self._send()
                start(task)
                continue
            except KilledWorker as error:
                raise BrokenExecutor(str(error)) from error
            n_lost = 0
            yield result
            fill()

    def _send(self) -> None:
        self.copies = self.client.scatter(self.shared, broadcast=True, hash=False)
        self.sent += 1


def _one_at_a_time[S, T, R](function: Callable[[S, T], R], shared: S, task: T) -> R:
    with _compilation_lock:
        return function(shared, task)


def follow(driver: int) -> None:
    """Make a worker ignore Ctrl-C, which the main process handles, and exit when the main process is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(1.0)
        os._exit(1)

    if os.getppid() == driver:
        threading.Thread(target=watch, daemon=True).start()


@contextmanager
def unbroken(advice: str) -> Iterator[None]:
    """Turn the error of a killed worker into a one-line error with advice."""
    try:
        yield
    except BrokenExecutor as error:
        raise RunError(f"a worker process was killed, perhaps for lack of memory; {advice}", code="failed") from error


@contextmanager
def cluster(address: str) -> Iterator[Any]:
    """A client of the Dask scheduler at an address.

    Raises
    ------
    OptionError
        Dask is not installed.
    RunError
        No scheduler answers there.
    """
    try:
        from distributed import Client
    except ImportError:
        raise OptionError(
            "a scheduler needs Dask, which is not installed: pip install 'bayeslab[distributed]'",
            code="not-installed",
        ) from None

    # The client would refuse such an address, too, and then hang when it is garbage-collected.
    if not re.fullmatch(r"((tcp|tls)://)?.+:\d+|(?!tcp|tls)\w+://.+", address):
        raise RunError(
            f"'{address}' is not the address of a Dask scheduler, such as tcp://host:8786", code="no-connection"
        )
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise RunError(f"no Dask scheduler answers at {address}: {error}", code="no-connection") from None
    with client:
        yield client
