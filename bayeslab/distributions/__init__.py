"""The vocabulary of distributions: one file each, named by PyMC's name in small letters.

Contract. A distribution's module has

``DECLARATION``
    a :class:`Distribution`: parameters by PyMC's names and in PyMC's order, their domains, and the support.

and, if univariate, functions of arrays that broadcast (:class:`Maths`):

``canonical(**given) -> tuple``
    converts given parameters, with PyMC's alternatives and defaults, to the parameters of the functions below.
``log_density(x, *parameters)``
    log density of each number inside the support.
``slopes(x, *parameters) -> tuple``
    derivatives of the log density by x and by each parameter; None for integer arguments.
``fused(x, *parameters) -> tuple``
    log density of one number and its derivatives by x and by each parameter, in plain Python that numba compiles;
    ``FORMS`` (optional) has variants by the link of a parameter (:class:`Form`), such as the log odds of a probability.
``log_cumulative(x, *parameters)``, ``log_survival(x, *parameters) -> tuple`` (optional)
    log P(X ≤ x) and log P(X > x) of one number with derivatives, for censored and truncated data.
``draw(rng, size, *parameters)``
    independent draws.
``moments(*parameters) -> (mean, variance)`` (optional)
    if both have a closed form.

``CONJUGATE`` (optional)
    a :class:`Conjugate`: the parameter with a conjugate prior, and the contribution of each number to its posterior.
    The closed forms of the priors are in :mod:`bayeslab.distributions.toolbox.conjugate_pairs`.

``pymc_class() -> class`` (optional) is defined if PyMC has no distribution of that name.

The folder ``emissions`` holds distributions of data columns with parameters for each of several states. The folder
``toolbox`` holds shared code: which parameters can be learned, weak priors, the search for posterior modes.

References
----------
Johnson, Kotz, Balakrishnan (1994, 1995). Continuous Univariate Distributions, 2nd ed., volumes 1 and 2.
Johnson, Kemp, Kotz (2005). Univariate Discrete Distributions, 3rd ed.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Distribution, Domain, Interval, Maths
from bayeslab.distributions.toolbox.graph import cell_draws, cell_log_density
from bayeslab.distributions.toolbox.law import Law
from bayeslab.distributions.toolbox.parameters import allowed, interval, never_learned, usable
from bayeslab.distributions.toolbox.response import Response
from bayeslab.distributions.toolbox.scalar import SCALARS, Density, log_densities, log_density, log_size
from bayeslab.distributions.toolbox.table import (
    DISTRIBUTIONS,
    MODIFIERS,
    NEEDS_CODE,
    closed_moments,
    conjugate,
    maths,
    pymc_class,
)

__all__ = [
    "DISTRIBUTIONS",
    "MODIFIERS",
    "NEEDS_CODE",
    "SCALARS",
    "Conjugate",
    "Density",
    "Distribution",
    "Domain",
    "Interval",
    "Law",
    "Maths",
    "Response",
    "allowed",
    "cell_draws",
    "cell_log_density",
    "closed_moments",
    "conjugate",
    "interval",
    "log_densities",
    "log_density",
    "log_size",
    "maths",
    "never_learned",
    "pymc_class",
    "usable",
]
