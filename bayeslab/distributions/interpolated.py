"""Interpolated: a density given at points, linear between them."""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "Interpolated",
    "x_points pdf_points",
    values="[x_points, x_points]",
    core={"x_points": 1, "pdf_points": 1},
    fixed=("x_points", "pdf_points"),
)
