"""Gaussian process: an unknown function of data columns, whose values at any rows are jointly normal.

f ~ N(0, K) with K[i, j] = kernel(x[i], x[j]), a covariance function such as ``Matern52(x, lengthscale, scale)``. With
``approximation=hsgp`` f is a sum of ``functions`` sines on a box around ``domain``.

Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, chapters 2 and 4.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "GaussianProcess",
    "kernel approximation functions domain",
    positional=1,
    process=True,
    words={"approximation": ("hsgp",)},
)
