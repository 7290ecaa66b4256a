"""Charts as SVG: densities, intervals, traces, ranks, predictive checks and sketches of columns.

Every chart is narrow enough for a phone, takes its colours from the style sheet of the page, and has a sentence as its
accessible name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from bayeslab.plots.kernel_density import bounds, kernel_density, limits
from bayeslab.plots.svg import shorten, text_width
from bayeslab.report.markup import EMPTY, Markup, element, joined

__all__ = [
    "Interval",
    "check_bars",
    "check_curves",
    "curve",
    "density",
    "intervals",
    "pair",
    "points",
    "ranks",
    "scatter",
    "sketch",
    "trace",
    "uniformity",
]

type Array = NDArray[np.float64]

WIDTH = 340.0
_LEFT, _RIGHT = 8.0, 8.0
_BINS = 20
# Number of points of a smoothed density.
_GRID = 90
# Number of draws of a chain in a trace, and of replications in a check.
TRACE_POINTS, REPLICATIONS = 200, 25
# Number of points of a scatter plot.
POINTS = 1_000


@dataclass(frozen=True)
class Interval:
    """A row of a forest plot: its label, point estimate, and intervals from the shortest to the longest."""

    label: str
    middle: float
    ends: Sequence[tuple[float, float]]


def density(
    draws: Array,
    ends: Sequence[tuple[float, float]],
    name: str,
    says: str,
    prior: Callable[[Array], Array] | None = None,
) -> Markup:
    """A density plot of a quantity, with its intervals, and its prior on the same scale.

    Parameters
    ----------
    draws
        Shape (draw,), finite.
    ends
        Intervals, from the shortest to the longest.
    says
        The accessible name.
    prior
        The prior density of numbers. Where it is above one and a half times the highest posterior density, the line is
        cut off.
    """
    within = bounds(draws)
    low, high = (float(end) for end in np.quantile(draws, [0.003, 0.997]))
    low, high = limits(low, high, 0.06, within)
    x = _Scale(low, high, _LEFT, WIDTH - _RIGHT)
    top, base = 24.0, 84.0
    before = EMPTY
    if np.all(draws[:2000] == np.floor(draws[:2000])) and np.ptp(draws) <= 30:  # few whole numbers
        values, counts = np.unique(draws[(draws >= low) & (draws <= high)], return_counts=True)
        shape = joined(
            element("rect", x=x(v) - 3, y=base - h, width=6.0, height=h, class_="area")
            for v, h in zip(values, (base - top) * counts / counts.max(), strict=True)
        )
    else:
        grid, height = kernel_density(draws, low, high, _GRID, within)
        ceiling = float(height.max())
        if prior is not None:
            known = _shares(prior, low, high)
            ceiling = max(ceiling, min(float(known.max()), 1.5 * ceiling))
            y = base - (base - top) * np.minimum(known / ceiling, 1.0)
            before = element("path", d=_path(x(np.linspace(low, high, len(y))), y), class_="prior")
        path = _path(x(grid), base - (base - top) * height / ceiling)
        shape = element("path", d=f"M{x(grid[0]):.1f} {base}L{path[1:]}L{x(grid[-1]):.1f} {base}Z", class_="area")
    bars = joined(
        element("line", x1=x(a), x2=x(b), y1=base + 7, y2=base + 7, class_=f"i{k}")
        for k, (a, b) in reversed(list(enumerate(ends)))
    )
    return _chart(116, says, _label(name, 15), shape, before, bars, _axis(x, base + 13))


def intervals(rows: Sequence[Interval], says: str) -> Markup:
    """A forest plot: the point estimate and the intervals of each row, on a common axis."""
    names = [shorten(row.label, 24) for row in rows]
    # Readers' fonts are up to an eighth wider than the one that is measured.
    label = min(180.0, 12 + 1.125 * max(text_width(name, 11) for name in names))
    ends = np.array([end for row in rows for pair in row.ends for end in pair] + [row.middle for row in rows])
    ends = ends[np.isfinite(ends)]
    low, high = (float(ends.min()), float(ends.max())) if len(ends) else (0.0, 1.0)
    x = _Scale(*_padded(low, high), label, WIDTH - _RIGHT)
    step, parts = 17.0, []
    if low < 0 < high:
        parts.append(element("line", x1=x(0), x2=x(0), y1=2, y2=step * len(rows) + 4, class_="zero"))
    for number, row in enumerate(rows):
        y = step * number + 11
        whole = element("title", row.label)
        parts.append(element("text", names[number], whole, x=label - 6, y=y + 4, text_anchor="end", class_="s"))
        parts += [
            element("line", x1=x(a), x2=x(b), y1=y, y2=y, class_=f"i{k}")
            for k, (a, b) in reversed(list(enumerate(row.ends)))
            if math.isfinite(a) and math.isfinite(b)
        ]
        if math.isfinite(row.middle):
            parts.append(element("circle", cx=x(row.middle), cy=y, r=2.6, class_="dot"))
    base = step * len(rows) + 6
    return _chart(base + 22, says, joined(parts), _axis(x, base))


def points(rows: Sequence[tuple[str, float, float]], says: str) -> Markup:
    """Estimates with plus and minus one standard error, one for each row."""
    return intervals([Interval(label, middle, [(middle - se, middle + se)]) for label, middle, se in rows], says)


def trace(chains: Array, name: str, says: str) -> Markup:
    """A trace plot: the draws of every chain in order.

    Parameters
    ----------
    chains
        Shape (chain, draw). At most :data:`TRACE_POINTS` draws of each chain are drawn, evenly spaced.
    """
    n = chains.shape[1]
    kept = np.unique(np.linspace(0, n - 1, min(n, TRACE_POINTS)).astype(int))
    values = chains[:, kept]
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    x, y = _Scale(0, max(n - 1, 1), 44, WIDTH - _RIGHT), _Scale(*_padded(low, high), 96, 24)
    lines = [
        element("path", d=_path(x(kept[there]), y(row[there])), class_=f"line c{k % 4}")
        for k, row in enumerate(values)
        if (there := np.isfinite(row)).any()
    ]
    return _chart(124, says, _label(name, 15), *lines, *_marks(y), _axis(x, 98, whole=True))


def ranks(chains: Array, name: str, says: str) -> Markup:
    """Rank histograms of the chains among all draws, which are flat if the chains agree.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021). Bayesian Analysis 16(2), 667-718.
    """
    n = chains.shape[1]
    # Equal draws share their mean rank.
    _, places, shares = np.unique(chains, return_inverse=True, return_counts=True)
    order = (np.cumsum(shares) - (shares + 1) / 2)[places].reshape(chains.shape)
    edges = np.linspace(0, chains.size, _BINS + 1)
    counts = np.array([np.histogram(row, edges)[0] for row in order])
    mean = n / _BINS
    x, y = _Scale(0, chains.size, 44, WIDTH - _RIGHT), _Scale(0, max(counts.max(), 2 * mean), 96, 24)
    lines = [
        element("path", d=_path(np.repeat(x(edges), 2)[1:-1], np.repeat(y(row), 2)), class_=f"line c{k % 4}")
        for k, row in enumerate(counts)
    ]
    level = element("line", x1=x(0), x2=x(chains.size), y1=y(mean), y2=y(mean), class_="zero")
    return _chart(124, says, _label(f"{name}: ranks", 15), level, *lines, _axis(x, 98, whole=True))


def check_curves(observed: Array, replicated: Array, name: str, says: str) -> Markup:
    """Smoothed densities of the data and of replications.

    Parameters
    ----------
    observed
        Shape (cell,).
    replicated
        Shape (draw, cell); :data:`REPLICATIONS` of them are drawn.
    """
    rows = replicated[np.linspace(0, len(replicated) - 1, min(REPLICATIONS, len(replicated))).astype(int)]
    rows = [row[np.isfinite(row)] for row in rows]
    both = np.concatenate([observed, *rows])
    low = min(float(observed.min()), float(np.quantile(both, 0.002)))
    high = max(float(observed.max()), float(np.quantile(both, 0.998)))
    within = bounds(both)
    low, high = limits(low, high, 0.08, within)
    curves = [kernel_density(row, low, high, _GRID, within)[1] for row in rows if len(row) > 1]
    grid, real = kernel_density(observed, low, high, _GRID, within)
    x, y = _Scale(low, high, _LEFT, WIDTH - _RIGHT), _Scale(0, max(c.max() for c in (*curves, real)), 150, 24)
    lines = [element("path", d=_path(x(grid), y(curve)), class_="replicated") for curve in curves]
    return _chart(
        178, says, _label(name, 15), *lines, element("path", d=_path(x(grid), y(real)), class_="real"), _axis(x, 152)
    )


def check_bars(
    values: Sequence[str], observed: Array, low: Array, high: Array, middle: Array, name: str, says: str
) -> Markup:
    """Relative frequencies of discrete data, with the median and an interval of the replications.

    Parameters
    ----------
    values
        Labels of the values.
    observed, low, high, middle
        Relative frequencies, one for each value.
    """
    x, y = _Scale(-0.6, len(values) - 0.4, _LEFT, WIDTH - _RIGHT), _Scale(0, max(observed.max(), high.max()), 150, 24)
    wide = min(26.0, 0.7 * (x(1) - x(0)))
    every = -(-len(values) // 12)
    parts = []
    for k, word in enumerate(values):
        parts.append(
            element("rect", x=x(k) - wide / 2, y=y(observed[k]), width=wide, height=150 - y(observed[k]), class_="area")
        )
        parts.append(element("line", x1=x(k), x2=x(k), y1=y(low[k]), y2=y(high[k]), class_="i1 other"))
        parts.append(element("circle", cx=x(k), cy=y(middle[k]), r=2.6, class_="dot other"))
        if k % every == 0:
            parts.append(
                element(
                    "text", shorten(word, 10), element("title", word), x=x(k), y=166, text_anchor="middle", class_="s"
                )
            )
    return _chart(174, says, _label(name, 15), joined(parts))


def uniformity(values: Array, points: Array, lower: Array, upper: Array, name: str, says: str) -> Markup:
    """The empirical distribution function of probabilities minus the uniform one, with simultaneous bands.

    Parameters
    ----------
    values
        Shape (cell,), from 0 to 1.
    points, lower, upper
        Points at which the bands are given, and the lowest and highest shares of values up to each point.
    """
    at = np.linspace(0, 1, 201)
    curve = np.searchsorted(np.sort(values), at, side="right") / len(values) - at
    ends = np.concatenate([[0.0], points, [1.0]])
    low, high = (np.concatenate([[0.0], share - points, [0.0]]) for share in (lower, upper))
    most = max(float(np.abs(part).max()) for part in (curve, low, high))
    x, y = _Scale(0, 1, 44, WIDTH - _RIGHT), _Scale(-1.1 * most, 1.1 * most, 146, 24)
    band = _path(np.concatenate([x(ends), x(ends[::-1])]), np.concatenate([y(low), y(high[::-1])]))
    return _chart(
        174,
        says,
        _label(name, 15),
        element("path", d=f"{band}Z", class_="band"),
        element("line", x1=x(0), x2=x(1), y1=y(0), y2=y(0), class_="zero"),
        element("path", d=_path(x(at), y(curve)), class_="real"),
        *_marks(y),
        _axis(x, 148),
    )


def scatter(x: Array, y: Array, levels: Sequence[float], name: str, says: str) -> Markup:
    """Points, with dashed horizontal lines at ``levels``.

    Of more than :data:`POINTS` points, those evenly spaced and those beyond the outer levels are drawn.

    Parameters
    ----------
    x, y
        Shape (point,), finite.
    """
    kept = np.zeros(len(x), bool)
    kept[np.linspace(0, len(x) - 1, min(len(x), POINTS)).astype(int)] = True
    beyond = np.flatnonzero((y > max(levels)) | ((y < min(levels)) if len(levels) > 1 else False))
    kept[beyond[:POINTS]] = True
    across = _Scale(*_padded(float(x.min()), float(x.max())), 44, WIDTH - _RIGHT)
    up = _Scale(*_padded(min(float(y.min()), *levels), max(float(y.max()), *levels), 0.06), 146, 24)
    dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(across(x[kept]), up(y[kept]), strict=True))
    lines = [
        element("line", x1=across.start, x2=across.end, y1=up(level), y2=up(level), class_="zero") for level in levels
    ]
    return _chart(
        174, says, _label(name, 15), *lines, element("path", d=dots, class_="dots"), *_marks(up), _axis(across, 148)
    )


def pair(x: Array, y: Array, marked: NDArray[np.bool_], name: str, says: str) -> Markup:
    """Draws of two quantities; ``marked`` ones, all of them up to :data:`POINTS`, lie on top in another colour.

    Parameters
    ----------
    x, y, marked
        Shape (draw,), numbers finite.
    """
    kept = np.linspace(0, len(x) - 1, min(len(x), POINTS // 2)).astype(int)
    across = _Scale(*_padded(float(x.min()), float(x.max())), 44, WIDTH - _RIGHT)
    up = _Scale(*_padded(float(y.min()), float(y.max())), 146, 24)

    def dots(at: NDArray[np.intp]) -> str:
        return "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(across(x[at]), up(y[at]), strict=True))

    above = np.flatnonzero(marked)[:POINTS]
    return _chart(
        174,
        says,
        _label(name, 15),
        element("path", d=dots(kept), class_="dots"),
        element("path", d=dots(above), class_="dots marked") if len(above) else EMPTY,
        *_marks(up),
        _axis(across, 148),
    )


def curve(x: Array, middle: Array, low: Array, high: Array, name: str, says: str) -> Markup:
    """A function with its interval at increasing points, shape (point,) each."""
    across = _Scale(float(x[0]), float(x[-1]), 50, WIDTH - _RIGHT)
    up = _Scale(*_padded(float(low.min()), float(high.max()), 0.06), 146, 24)
    band = _path(np.concatenate([across(x), across(x[::-1])]), np.concatenate([up(low), up(high[::-1])]))
    return _chart(
        174,
        says,
        _label(name, 15),
        element("path", d=f"{band}Z", class_="band"),
        element("path", d=_path(across(x), up(middle)), class_="real"),
        *_marks(up),
        _axis(across, 148),
    )


def _marks(scale: _Scale) -> list[Markup]:
    """Numbers along a vertical scale."""
    return [
        element("text", _number(v, _step(scale)), x=40, y=scale(v) + 4, text_anchor="end", class_="s")
        for v in _ticks(scale, 3)
    ]


def sketch(counts: Array, says: str) -> Markup:
    """Bars without an axis, for a cell of a table."""
    wide = 120.0 / len(counts)
    tallest = max(float(counts.max()), 1.0)
    bars = [
        element(
            "rect", x=k * wide, y=28 - 27 * c / tallest, width=max(wide - 1, 0.6), height=27 * c / tallest, class_="bar"
        )
        for k, c in enumerate(counts)
        if c
    ]
    return element(
        "svg", element("title", says), *bars, viewBox="0 0 120 28", width=120, height=28, role="img", class_="sketch"
    )


@dataclass(frozen=True)
class _Scale:
    """A linear scale from values to pixels."""

    low: float
    high: float
    start: float
    end: float

    @overload
    def __call__(self, value: float) -> float: ...
    @overload
    def __call__(self, value: Array) -> Array: ...
    def __call__(self, value: float | Array) -> float | Array:
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)


def _padded(low: float, high: float, by: float = 0.03) -> tuple[float, float]:
    return limits(low, high, by, (-math.inf, math.inf))


def _shares(density: Callable[[Array], Array], low: float, high: float, n: int = 181) -> Array:
    """A density at points from ``low`` to ``high``, in units of this range; infinite ones are cut off."""
    values = density(np.linspace(low, high, n)) * (high - low)
    finite = values[np.isfinite(values)]
    return np.nan_to_num(values, nan=0.0, posinf=float(finite.max()) if len(finite) else 0.0)


def _path(x: Array, y: Array) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(np.ravel(x), np.ravel(y), strict=True))


def _label(name: str, y: float) -> Markup:
    return element("text", shorten(name, 44), element("title", name), x=_LEFT, y=y, class_="name")


def _step(scale: _Scale) -> float:
    return float(np.diff(_ticks(scale, 3))[0]) if len(_ticks(scale, 3)) > 1 else abs(scale.high - scale.low)


def _ticks(scale: _Scale, most: int, *, whole: bool = False) -> list[float]:
    """At most ``most`` + 1 round numbers inside the scale, with a step of 1, 2 or 5 times a power of ten."""
    rough = (scale.high - scale.low) / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(m * unit for m in (1, 2, 5, 10) if m * unit >= rough * 0.999)
    step = max(step, 1.0) if whole else step
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def _number(value: float, step: float) -> str:
    if abs(value) >= 1e6 or (value and abs(step) < 1e-4):
        return f"{value:.3g}"
    return f"{value:,.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


def _axis(scale: _Scale, y: float, *, whole: bool = False) -> Markup:
    ticks = _ticks(scale, 4, whole=whole)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else abs(scale.high - scale.low)
    marks = [
        part
        for v in ticks
        for part in (
            element("line", x1=scale(v), x2=scale(v), y1=y, y2=y + 4, class_="axis"),
            element("text", _number(v, step), x=scale(v), y=y + 16, text_anchor=_anchor(scale(v)), class_="s"),
        )
    ]
    return joined([element("line", x1=scale.start, x2=scale.end, y1=y, y2=y, class_="axis"), *marks])


def _anchor(x: float) -> str:
    return "start" if x < 22 else "end" if x > WIDTH - 22 else "middle"


def _chart(height: float, says: str, *inside: object) -> Markup:
    return element(
        "svg", element("title", says), *inside, viewBox=f"0 0 {WIDTH:g} {height:g}", role="img", class_="chart"
    )
