"""Says so when code is compiled: the first use of a kernel on a machine takes seconds, and silence looks like a hang.

numba tells listeners when it compiles; what comes from its cache is not told. A thread writes one line to standard
error after a second of compiling, three in a log: in a terminal it is updated and goes away, elsewhere it stays.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, TextIO

__all__ = ["announce"]

# Seconds of compiling before anything is said, between looks, and of a pause after which compiling is over.
_PATIENCE, _PATIENCE_OF_A_LOG, _EVERY, _PAUSE = 1.0, 3.0, 0.2, 0.6
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

_announced = threading.Lock()


def announce(stream: TextIO | None = None) -> None:
    """Announce what numba compiles from now on, once a process.

    Parameters
    ----------
    stream
        Where to; standard error when left out.
    """
    if _announced.acquire(blocking=False):
        threading.Thread(target=_watch, args=(stream or sys.stderr,), name="compiling", daemon=True).start()


class _Clock:
    """How long code has been compiled, by numba's events (they nest)."""

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
        """Seconds of the compiling that goes on; 0 when none does. Short pauses between kernels do not end it."""
        now = time.monotonic()
        return now - self.begun if self.depth or now - self.ended < _PAUSE else 0.0

    def notify(self, event: Any) -> None:
        (self.on_start if event.is_start else self.on_end)(event)


def _watch(stream: TextIO) -> None:
    # numba is imported by who needs it. Of its module the class comes last, and the clock passes for one of its kind.
    while (module := sys.modules.get("numba.core.event")) is None or not hasattr(module, "Listener"):
        time.sleep(_EVERY)
    clock = _Clock()
    module.Listener.register(_Clock)
    module.register("numba:compile", clock)
    shown = 0.0
    while True:
        time.sleep(_EVERY)
        if stream.closed:  # who began it has put another in its place, as tests do
            return
        seconds = clock.running()
        if seconds > (_PATIENCE if stream.isatty() else _PATIENCE_OF_A_LOG):
            _show(stream, seconds, first=not shown)
            shown = seconds
        elif shown and not seconds:
            _end(stream, shown)
            shown = 0.0


def _show(stream: TextIO, seconds: float, *, first: bool) -> None:
    words = "compiling, once on this machine"
    if stream.isatty():
        frame = _FRAMES[int(seconds / _EVERY) % len(_FRAMES)]
        stream.write(f"\r\x1b[2K{frame} {words} … {seconds:.0f} s")
    elif first:
        stream.write(f"{words} …\n")
    stream.flush()


def _end(stream: TextIO, seconds: float) -> None:
    if stream.isatty():
        stream.write("\r\x1b[2K")
    else:
        stream.write(f"compiled in {seconds:.0f} s\n")
    stream.flush()
