"""The edges of sampled structures whose probability is above a threshold of choice."""

from __future__ import annotations

from math import cos, hypot, pi, sin

from bayeslab.plots.svg import shorten
from bayeslab.report.markup import EMPTY, Markup, element, joined
from bayeslab.results.fitted import Fitted
from bayeslab.results.structures import structures_of

__all__ = ["edge_panel"]

# Maximum number of variables on the circle, and the smallest probability of an edge that is drawn.
_VARIABLES, _LEAST = 40, 0.01
_WIDTH, _RADIUS, _GAP = 440.0, 125.0, 7.0
_START = 0.5


def edge_panel(fit: Fitted) -> Markup:
    """The variables on a circle with their edges, and a slider for the threshold; empty for many variables."""
    structures = structures_of(fit)
    names = list(structures.names)
    if len(names) > _VARIABLES:
        return EMPTY
    frame = structures.edges(least=_LEAST)
    edges = list(zip(frame["source"], frame["target"], frame["probability"].astype(float), strict=True))
    angles = {name: 2 * pi * k / len(names) - pi / 2 for k, name in enumerate(names)}
    shown = [p for *_, p in edges if p >= _START]
    says = f"{len(shown)} edges have a probability of {_START:g} or more; {len(shown) - sum(shown):.2f} of them are"
    drawing = element(
        "svg",
        element("title", "Edges with a probability above the threshold; a table of all edges follows"),
        *(_edge(angles[source], angles[target], f"{source} → {target}", p) for source, target, p in edges),
        *(_name(name, angle) for name, angle in angles.items()),
        viewBox=f"0 0 {_WIDTH:g} {2 * _RADIUS + 60:g}",
        role="img",
        class_="chart",
    )
    slider = element("input", type="range", min=0, max=1, step=0.01, value=_START)
    return joined(
        [
            element("h3", "Edges above a threshold"),
            element(
                "div",
                element("label", "probability of at least ", slider, element("output", f"{_START:.2f}")),
                element("p", f"{says} expected to be false.", class_="answer", aria_live="polite"),
                drawing,
                class_="edges",
            ),
        ]
    )


def _place(angle: float, radius: float = _RADIUS) -> tuple[float, float]:
    return _WIDTH / 2 + radius * cos(angle), _RADIUS + 30 + radius * sin(angle)


def _name(name: str, angle: float) -> Markup:
    x, y = _place(angle, _RADIUS + 8)
    anchor = "middle" if abs(cos(angle)) < 0.1 else "start" if cos(angle) > 0 else "end"
    # Names above and below the circle are centred, and need room for their height.
    y += 4 + 5 * sin(angle)
    return element("text", shorten(name, 18), element("title", name), x=x, y=y, text_anchor=anchor, class_="s")


def _edge(start: float, end: float, label: str, p: float) -> Markup:
    """An arrow that bends to one side, so that both directions of an edge are apart."""
    (x1, y1), (x2, y2) = _place(start, _RADIUS - _GAP), _place(end, _RADIUS - _GAP)
    xm, ym = (x1 + x2) / 2 + 0.08 * (y2 - y1), (y1 + y2) / 2 - 0.08 * (x2 - x1)
    far = hypot(x2 - xm, y2 - ym)
    dx, dy = (x2 - xm) / far, (y2 - ym) / far
    head = f"M{x2:.1f} {y2:.1f}L{x2 - 8 * dx + 3 * dy:.1f} {y2 - 8 * dy - 3 * dx:.1f}"
    head += f"L{x2 - 8 * dx - 3 * dy:.1f} {y2 - 8 * dy + 3 * dx:.1f}Z"
    return element(
        "g",
        element("title", f"{label}: {p:.3g}"),
        element("path", d=f"M{x1:.1f} {y1:.1f}Q{xm:.1f} {ym:.1f} {x2:.1f} {y2:.1f}", class_="real"),
        element("path", d=head, class_="head"),
        data_p=f"{p:.15g}",
        class_="edge" if p >= _START else "edge off",
    )
