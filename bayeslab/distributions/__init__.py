"""The vocabulary of distributions: one file each, named by PyMC's name in small letters.

Contract. A distribution's module has

``DECLARATION``
    a :class:`Distribution`: parameters by PyMC's names and in PyMC's order, what they may be, what is drawn.

and, for single numbers, on arrays that broadcast (:class:`Maths`):

``canonical(**given) -> tuple``
    the parameters of the functions below from those given, with PyMC's alternatives and defaults.
``log_density(x, *parameters)``
    log density of each number inside the support.
``slopes(x, *parameters) -> tuple``
    its derivatives, by x and by each parameter; None of whole numbers.
``draw(rng, size, *parameters)``
    independent draws.
``moments(*parameters) -> (mean, variance)`` (optional)
    where both have a closed form.

``CONJUGATE`` (optional)
    a :class:`Conjugate`: the parameter that has a conjugate prior, and what each number adds to it. Its closed forms
    are those of the prior: :mod:`bayeslab.distributions.toolbox.conjugate_pairs`.

``pymc_class() -> class`` (optional) is there where PyMC has no distribution of that name.

The folder ``emissions`` has columns of distributions with parameters for each of several states, and ``toolbox`` what
distributions share: which parameters can be learned, weak priors, the search for the most probable parameters.

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
