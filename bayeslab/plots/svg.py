"""Pieces of SVG: elements, escaped text, and estimates of text width."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import hypot
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from bayeslab.errors import printable

__all__ = [
    "ARROW",
    "INK",
    "LINE",
    "PAPER",
    "SHADE",
    "SOFT",
    "Box",
    "Waypoint",
    "arrow",
    "curve",
    "fmt",
    "rectangle",
    "shorten",
    "tag",
    "text",
    "text_width",
    "xml",
]

type Waypoint = tuple[float, float, float]  # x, y, dx/dy

ARROW = 7.5  # length of an arrow's head, in CSS pixels
INK, SOFT, LINE, SHADE, PAPER = "#1d2433", "#566071", "#3d4757", "#d6dce5", "#ffffff"


@dataclass(frozen=True)
class Box:
    """A rectangle; y grows downwards."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def middle(self) -> tuple[float, float]:
        return self.left + self.width / 2, self.top + self.height / 2


def rectangle(box: Box, look: Mapping[str, Any]) -> str:
    return tag("rect", x=box.left, y=box.top, width=box.width, height=box.height, **look)


def curve(way: list[Waypoint]) -> str:
    """Return the path of a route, with each cubic Hermite piece as a Bézier curve."""
    parts = [f"M{fmt(way[0][0])} {fmt(way[0][1])}"]
    for (x0, y0, slope0), (x1, y1, slope1) in pairwise(way):
        third = (y1 - y0) / 3
        controls = (x0 + slope0 * third, y0 + third, x1 - slope1 * third, y1 - third, x1, y1)
        parts.append("C" + " ".join(map(fmt, controls)))
    return "".join(parts)


def arrow(x: float, y: float, slope: float, colour: str) -> tuple[str, Waypoint]:
    """Return the head of an arrow that points down to (x, y) with this dx/dy, and the end of its line."""
    length = hypot(slope, 1)
    right, down = ARROW * slope / length, ARROW / length
    corners = [(x, y), *((x - right + k * down, y - down - k * right) for k in (0.38, -0.38))]
    points = " ".join(f"{fmt(x)},{fmt(y)}" for x, y in corners)
    return tag("polygon", points=points, fill=colour), (x - right, y - down, slope)


def tag(name: str, *inside: str, **attributes: str | float) -> str:
    listed = "".join(
        f" {key.replace('_', '-')}={quoteattr(_legal(value) if isinstance(value, str) else fmt(value))}"
        for key, value in attributes.items()
    )
    return f"<{name}{listed}>{''.join(inside)}</{name}>" if inside else f"<{name}{listed}/>"


def text(line: str, size: float, x: float, y: float, colour: str) -> str:
    return tag("text", xml(line), x=x, y=y, font_size=size, fill=colour) if line else ""


def text_width(line: str, size: float) -> float:
    """Return an estimate of the width, slightly above that of Helvetica."""
    return size * sum(map(_em, line))


def _em(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return 1.0
    if char in "ijl'|.,:; !ft()[]r-":
        return 0.36
    return 0.9 if char in "mwMW@%" else 0.74 if char.isupper() else 0.6


def shorten(line: str, longest: int) -> str:
    line = " ".join(line.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def fmt(value: float) -> str:
    return f"{round(value, 1) + 0.0:.7g}"


def _legal(line: str) -> str:
    """Escape control characters, and replace other characters that XML 1.0 forbids."""
    line = printable(line, keep="\t\n\r")
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", line)


def xml(line: str) -> str:
    return escape(_legal(line))
