"""Progress of long work: a live table in a terminal, one HTML block in Jupyter, plain lines elsewhere.

In Jupyter the display is a plain HTML output that is updated in place, not a widget, so that it
is still there when the notebook is saved or converted.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from html import escape
from types import TracebackType
from typing import Any, Protocol, Self

from bayeslab import compiling
from bayeslab.errors import printable

__all__ = ["ChainState", "Progress", "duration", "reporter"]


@dataclass
class ChainState:
    """Progress of one chain."""

    total: int
    tune: int
    done: int = 0
    divergences: int = 0
    step_size: float = float("nan")
    steps: int = 0
    finished: bool = False
    resumed: bool = False

    @property
    def phase(self) -> str:
        if self.resumed:
            return "kept"
        if self.finished:
            return "done"
        return "waiting" if not self.done else "tuning" if self.done < self.tune else "sampling"

    @property
    def cells(self) -> dict[str, str]:
        """The sampler's statistics of the chain, by column; a leading ``!`` marks a problem."""
        begun = bool(self.done)
        return {
            "divergences": f"!{self.divergences}" if self.divergences else "0",
            "step size": f"{self.step_size:.3g}" if begun else "",
            "steps/draw": str(self.steps) if begun else "",
        }

    @property
    def troubles(self) -> dict[str, int]:
        """The number of problems by kind, for a summary in one line."""
        return {"divergences": self.divergences}


class _View(Protocol):
    def note(self, text: str) -> None: ...
    def show(self, chains: list[ChainState], seconds: float, remark: str) -> None: ...
    def close(self, chains: list[ChainState], seconds: float, remark: str) -> None: ...


class Progress:
    """Report on chains, at most a few times per second; without a view it does nothing.

    Attributes
    ----------
    chains : list of ChainState
        Updated in place by the code that runs them.
    remark : str
        A remark about all chains together.
    """

    def __init__(self, view: _View | None, every: float = 0.25) -> None:
        self._view, self._every = view, every
        self.remark = ""
        self.chains: list[ChainState] = []
        self._start = self._last = time.monotonic()

    def note(self, text: str) -> None:
        """Show one line about the current work."""
        if self._view:
            self._view.note(text)

    def begin(self, chains: list[ChainState]) -> None:
        """Start reporting on these chains, which the caller updates in place."""
        self.chains, self._start, self._last = chains, time.monotonic(), 0.0
        self.refresh()

    def refresh(self) -> None:
        """Update the display if enough time has passed since the last update."""
        now = time.monotonic()
        if self._view and self.chains and now - self._last >= self._every:
            self._last = now
            self._view.show(self.chains, now - self._start, self.remark)

    def close(self) -> None:
        """Show the final state."""
        if self._view and self.chains:
            self._view.close(self.chains, time.monotonic() - self._start, self.remark)
        self.chains, self.remark = [], ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def reporter(wanted: bool) -> Progress:
    """The reporter that suits the environment: terminal, notebook or log.

    Output goes to standard error, so that ``--json`` on standard output stays clean.
    """
    if not wanted:
        return Progress(None)
    compiling.announce()
    if _in_jupyter():
        return Progress(_Html())
    if sys.stderr.isatty():
        return Progress(Terminal())
    return Progress(Lines(), every=5.0)


def _in_jupyter() -> bool:
    try:
        shell = get_ipython()  # type: ignore[name-defined]
    except NameError:
        return False
    return type(shell).__name__ == "ZMQInteractiveShell"


class Lines:
    """Plain lines with the time, for log files."""

    def _write(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        self._write(text)

    def show(self, chains: list[ChainState], seconds: float, remark: str) -> None:
        self._write(summary(chains, seconds, remark))

    def close(self, chains: list[ChainState], seconds: float, remark: str) -> None:
        self._write(summary(chains, seconds, remark))


def summary(chains: list[ChainState], seconds: float, remark: str) -> str:
    done, total = sum(c.done for c in chains), sum(c.total for c in chains)
    bad = {word: sum(c.troubles.get(word, 0) for c in chains) for word in chains[0].troubles}
    parts = [
        f"{done:,} of {total:,} draws",
        f"{sum(c.finished for c in chains)} of {len(chains)} chains done",
    ]
    parts += [f"{many} {word}" for word, many in bad.items() if many]
    return ", ".join([*parts, f"{seconds:.1f} s", *_left(chains, seconds), *([remark] if remark else [])])


# Seconds of work before an estimate of the time left is meaningful, and shortest time left that is shown.
_BEFORE_ESTIMATE, _WORTH_A_WORD = 3.0, 5.0


def _left(chains: list[ChainState], seconds: float) -> list[str]:
    """The estimated time left, from the rate of draws so far; empty near the end."""
    here = [c for c in chains if not c.resumed]
    done, total = sum(c.done for c in here), sum(c.total for c in here)
    if not done or seconds < _BEFORE_ESTIMATE or done >= total:
        return []
    rest = seconds * (total - done) / done
    return [f"about {duration(rest)} left"] if rest > _WORTH_A_WORD else []


def duration(seconds: float) -> str:
    """A duration as text: ``12 s``, ``3 min 20 s``, ``5 h 10 min``."""
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Terminal:
    """A live table of chains."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._live: Live | None = None

    def note(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(printable(text), style="dim"), highlight=False)

    def show(self, chains: list[ChainState], seconds: float, remark: str) -> None:
        from rich.live import Live

        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(self._table(chains, seconds, remark), refresh=True)

    def _table(self, chains: list[ChainState], seconds: float, remark: str) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for head in ("chain", "", "draws", *chains[0].cells, ""):
            table.add_column(head, justify="left" if head in ("chain", "") else "right")
        for k, chain in enumerate(chains):
            table.add_row(
                str(k),
                ProgressBar(total=chain.total, completed=chain.done, width=30),
                f"{chain.done:,}/{chain.total:,}",
                *(f"[red]{cell[1:]}[/red]" if cell.startswith("!") else cell for cell in chain.cells.values()),
                chain.phase,
            )
        parts = [f"{seconds:.0f} s", *_left(chains, seconds), *([remark] if remark else [])]
        table.caption = " · ".join([*parts, "Ctrl-C stops and keeps what is there"])
        return table

    def close(self, chains: list[ChainState], seconds: float, remark: str) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._console.print(f"[dim]{summary(chains, seconds, remark)}[/dim]", highlight=False)


class _Html:
    """One HTML output, updated in place; it stays in the saved notebook."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._notes: list[str] = []
        self._body = ""

    def _put(self, body: str) -> None:
        from IPython.display import HTML, display

        self._body = body
        notes = "".join(f"<div style='opacity:.7'>{escape(n)}</div>" for n in self._notes)
        block = HTML(f"<div style='font-family:monospace;font-size:.9em'>{notes}{body}</div>")
        if self._handle is None:
            self._handle = display(block, display_id=True)
        else:
            self._handle.update(block)

    def note(self, text: str) -> None:
        self._notes.append(text)
        self._put(self._body)

    def show(self, chains: list[ChainState], seconds: float, remark: str) -> None:
        rows = "".join(
            f"<tr><td>chain {k}</td><td><progress max='{c.total}' value='{c.done}'></progress></td>"
            f"<td>{c.done:,}/{c.total:,}</td>{html_cells(c)}<td>{c.phase}</td></tr>"
            for k, c in enumerate(chains)
        )
        foot = " · ".join([f"{seconds:.0f} s", *_left(chains, seconds), *([remark] if remark else [])])
        self._put(f"<table>{rows}</table>{escape(foot)}")

    def close(self, chains: list[ChainState], seconds: float, remark: str) -> None:
        self._put(f"<div>{escape(summary(chains, seconds, remark))}</div>")


def html_cells(chain: ChainState) -> str:
    """The statistics of a chain beside its progress bar, each with its label."""
    cells = {word: cell.removeprefix("!") for word, cell in chain.cells.items()}
    return "".join(f"<td>{escape(f'{word} {cell}' if cell else '')}</td>" for word, cell in cells.items())
