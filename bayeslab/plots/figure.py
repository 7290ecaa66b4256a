"""Figures, and a clear word where matplotlib is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from io import BytesIO
from typing import Any

from bayeslab.errors import BayeslabError, printable

__all__ = ["ACCENT", "BAND", "MUTED", "OTHER", "entry", "figure", "grid", "plain"]

# Distinguishable without red and green (Okabe and Ito 2008).
ACCENT, OTHER, MUTED, BAND = "#0072B2", "#D55E00", "#8a8a8a", "#cfe3f1"


def figure(width: float = 6.4, height: float = 4.0) -> tuple[Any, Any]:
    """A figure with one pair of axes, outside pyplot's register, so that nothing is left open."""
    figures, axes = grid(1, width, height)
    return figures, axes[0]


def grid(n: int, width: float, height: float, columns: int = 1) -> tuple[Any, list[Any]]:
    """A figure with ``n`` pairs of axes.

    Raises
    ------
    BayeslabError
        matplotlib is not installed.
    """
    try:
        import matplotlib.figure  # noqa: F401 (the kind of figure is kept, and outlives what it is made of)

        kind = _kind()
    except ImportError:
        raise BayeslabError("plots need matplotlib: pip install 'bayeslab[notebook]'", code="not-installed") from None
    rows = -(-n // columns)
    made = kind(figsize=(width, height), layout="constrained")
    # Jupyter shows figures by itself only once pyplot has drawn one.
    made._repr_png_ = partial(_png, made)
    axes = made.subplots(rows, columns, squeeze=False).ravel().tolist()
    for spare in axes[n:]:
        spare.set_axis_off()
    return made, axes[:n]


@cache
def _kind() -> type:
    """Figures whose words are drawn as they are: names of columns and levels are no formulas in dollar signs."""
    from matplotlib.category import StrCategoryFormatter
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.ticker import FixedFormatter, FuncFormatter, NullFormatter

    named = FixedFormatter | FuncFormatter | NullFormatter | StrCategoryFormatter

    class Literal(Figure):
        def draw(self, renderer: Any) -> None:
            numbers = set()
            for axes in self.axes:
                for axis in (axes.xaxis, axes.yaxis):
                    # Ticks that matplotlib writes, 10 to a power among them; those at levels have their names.
                    writer = axis.get_major_formatter()
                    if not isinstance(writer, named):
                        numbers.update(axis.findobj(Text))
                        numbers.discard(axis.label)
                    elif isinstance(writer, FuncFormatter) and not isinstance(writer.func, _Printable):
                        writer.func = _Printable(writer.func)
            for text in self.findobj(Text):
                if text not in numbers:
                    text.set_parse_math(False)
                    text.set_text(printable(text.get_text(), keep="\n"))
            super().draw(renderer)

    return Literal


@dataclass(frozen=True)
class _Printable:
    """Names at ticks, with control characters written out."""

    func: Callable[..., str]

    def __call__(self, *at: Any) -> str:
        return printable(self.func(*at), keep="\n")


def entry(name: object) -> str:
    """A name in a legend, which leaves out what begins with an underscore."""
    return f" {name}" if str(name).startswith("_") else str(name)


def _png(made: Any) -> bytes:
    file = BytesIO()
    made.savefig(file, format="png", dpi=100)
    return file.getvalue()


def plain(axes: Any) -> None:
    """Only the two lines that carry numbers."""
    axes.spines[["top", "right"]].set_visible(False)
