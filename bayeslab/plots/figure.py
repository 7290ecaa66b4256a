"""Creation of figures, with a clear error if matplotlib is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from io import BytesIO
from typing import Any

from bayeslab.errors import BayeslabError, printable

__all__ = ["ACCENT", "BAND", "COLOURS", "MUTED", "OTHER", "drawn_elsewhere", "entry", "figure", "grid", "plain"]

# Distinguishable with red-green colour blindness (Okabe and Ito 2008).
ACCENT, OTHER, MUTED, BAND = "#0072B2", "#D55E00", "#8a8a8a", "#cfe3f1"
COLOURS = (ACCENT, OTHER, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8a8a8a")
# Palette and sizes of every figure.
_STYLE: dict[str, Any] = {
    "axes.edgecolor": "#3d4757",
    "axes.labelcolor": "#1d2433",
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.titlesize": 10,
    "figure.titlesize": 11,
    "font.size": 10,
    "legend.fontsize": 9,
    "savefig.facecolor": "white",
    "text.color": "#1d2433",
    "xtick.color": "#3d4757",
    "xtick.labelsize": 9,
    "ytick.color": "#3d4757",
    "ytick.labelsize": 9,
}


def figure(width: float = 6.4, height: float = 4.0) -> tuple[Any, Any]:
    """Return a figure with one pair of axes, not registered with pyplot, so that it need not be closed."""
    figures, axes = grid(1, width, height)
    return figures, axes[0]


def grid(n: int, width: float, height: float, columns: int = 1) -> tuple[Any, list[Any]]:
    """Return a figure with ``n`` pairs of axes.

    Raises
    ------
    BayeslabError
        matplotlib is not installed.
    """
    kind, style = _kind_and_style()
    rows = -(-n // columns)
    with style:
        made = kind(figsize=(width, height), layout="constrained")
        # Jupyter displays figures automatically only after pyplot has been used.
        made._repr_png_ = partial(_png, made)
        axes = made.subplots(rows, columns, squeeze=False).ravel().tolist()
    for spare in axes[n:]:
        spare.set_axis_off()
    return made, axes[:n]


def drawn_elsewhere(draw: Callable[[dict[str, Any]], Any]) -> Any:
    """Return a figure that a library makes by pyplot, in our style, and not registered with pyplot any more.

    Parameters
    ----------
    draw
        Takes the options of the figure, and returns the figure.

    Raises
    ------
    BayeslabError
        matplotlib is not installed.
    """
    kind, style = _kind_and_style()
    from matplotlib import pyplot

    with style:
        made = draw({"FigureClass": kind, "layout": "constrained"})
    pyplot.close(made)
    made._repr_png_ = partial(_png, made)
    return made


def _kind_and_style() -> tuple[type, Any]:
    try:
        import matplotlib.figure
        from cycler import cycler

        style: Any = _STYLE | {"axes.prop_cycle": cycler(color=COLOURS)}
        return _kind(), matplotlib.rc_context(style)
    except ImportError:
        raise BayeslabError("plots need matplotlib: pip install 'bayeslab[notebook]'", code="not-installed") from None


@cache
def _kind() -> type:
    """Return a figure class without mathtext: dollar signs in names of columns and levels are literal."""
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
                    # Tick labels by matplotlib (such as powers of 10) keep mathtext; labels of levels are names.
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
    """Names as tick labels, with control characters escaped."""

    func: Callable[..., str]

    def __call__(self, *at: Any) -> str:
        return printable(self.func(*at), keep="\n")


def entry(name: object) -> str:
    """Return a name for a legend; matplotlib would omit names that begin with an underscore."""
    return f" {name}" if str(name).startswith("_") else str(name)


def _png(made: Any) -> bytes:
    file = BytesIO()
    made.savefig(file, format="png", dpi=100)
    return file.getvalue()


def plain(axes: Any) -> None:
    """Hide the top and right spines."""
    axes.spines[["top", "right"]].set_visible(False)
