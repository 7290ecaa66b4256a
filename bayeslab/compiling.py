"""Report compilation: the first use of a kernel on a machine takes seconds, which would look like a hang.

numba notifies listeners when it compiles, but not when it loads from its cache. A thread writes one line to standard
error after one second of compiling (three in a log). In a terminal the line is updated and removed at the end; in a log
it stays. In a notebook it is an output of the cell, emptied when compiling has ended, so that it is not saved.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Protocol, TextIO

__all__ = ["announce"]

# In seconds: compiling before the first report, time between updates, and pause after which compiling has ended.
_PATIENCE, _PATIENCE_OF_A_LOG, _EVERY, _PAUSE = 1.0, 3.0, 0.2, 0.6
_WORDS = "compiling, once on this machine"
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

_announced = threading.Lock()


def announce(stream: TextIO | None = None) -> None:
    """Report compilation by numba from now on; further calls in the same process do nothing.

    Parameters
    ----------
    stream
        Where the report is written; default: standard error, or the notebook.
    """
    if stream is None and sys.stderr is None:  # closed, as under a service
        return
    if _announced.acquire(blocking=False):
        place = _Notebook() if stream is None and _in_notebook() else Stream(stream or sys.stderr)
        threading.Thread(target=_watch, args=(place,), name="compiling", daemon=True).start()


def _in_notebook() -> bool:
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class Clock:
    """The duration of compiling, from numba's events, which nest."""

    def __init__(self) -> None:
        self.depth, self.begun, self.ended = 0, 0.0, 0.0

    def on_start(self, _: Any) -> None:
        now = time.monotonic()
        if not self.depth and now - self.ended > _PAUSE:
            self.begun = now
        self.depth += 1

    def on_end(self, _: Any) -> None:
        self.depth -= 1
        self.ended = time.monotonic()

    def running(self) -> float:
        """Seconds since the current compiling began; 0 when there is none. Short pauses between kernels count in."""
        now = time.monotonic()
        return now - self.begun if self.depth or now - self.ended < _PAUSE else 0.0

    def notify(self, event: Any) -> None:
        (self.on_start if event.is_start else self.on_end)(event)


class _Place(Protocol):
    """Where compiling is reported."""

    patience: float

    @property
    def closed(self) -> bool: ...
    def show(self, seconds: float, *, first: bool) -> None: ...
    def end(self, seconds: float) -> None: ...


def _watch(place: _Place) -> None:
    # Wait until numba has been imported elsewhere; its Listener class is defined at the end of its module.
    while (module := sys.modules.get("numba.core.event")) is None or not hasattr(module, "Listener"):
        time.sleep(_EVERY)
    clock = Clock()
    module.Listener.register(Clock)
    module.register("numba:compile", clock)
    shown = 0.0
    while True:
        time.sleep(_EVERY)
        if place.closed:
            return
        seconds = clock.running()
        if seconds > place.patience:
            place.show(seconds, first=not shown)
            shown = seconds
        elif shown and not seconds:
            place.end(shown)
            shown = 0.0


class Stream:
    """A terminal, whose line is updated and finally removed, or a log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.patience = _PATIENCE if stream.isatty() else _PATIENCE_OF_A_LOG

    @property
    def closed(self) -> bool:
        """Whether the stream has been closed, as when a test replaces standard error."""
        return self._stream.closed

    def show(self, seconds: float, *, first: bool) -> None:
        if self._stream.isatty():
            frame = _FRAMES[int(seconds / _EVERY) % len(_FRAMES)]
            self._stream.write(f"\r\x1b[2K{frame} {_WORDS} … {seconds:.0f} s")
        elif first:
            self._stream.write(f"{_WORDS} …\n")
        self._stream.flush()

    def end(self, seconds: float) -> None:
        self._stream.write("\r\x1b[2K" if self._stream.isatty() else f"compiled in {seconds:.0f} s\n")
        self._stream.flush()


class _Notebook:
    """An output of a cell, emptied when compiling has ended or, if that comes first, the cell."""

    patience, closed = _PATIENCE, False

    def __init__(self) -> None:
        self._handle: Any = None
        self._lock = threading.Lock()
        # Before the kernel reports the cell as idle: programs that save notebooks stop listening then.
        sys.modules["IPython"].get_ipython().events.register("post_run_cell", lambda _: self.end(0.0))

    def show(self, seconds: float, *, first: bool) -> None:
        from IPython.display import display

        text = {"text/plain": f"{_WORDS} … {seconds:.0f} s"}
        with self._lock:
            if first:
                self._handle = display(text, raw=True, display_id=True)
            elif self._handle is not None:
                self._handle.update(text, raw=True)

    def end(self, seconds: float) -> None:
        with self._lock:
            if self._handle is not None:
                self._handle.update({"text/plain": ""}, raw=True)
            self._handle = None
