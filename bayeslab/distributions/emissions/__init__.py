"""Emissions of hidden states: distributions of rows with one set of parameters for each of K states.

Mixtures and hidden Markov models share them. Rows are a float array (N, D), with NaN for a missing cell and level codes
0, 1, … for categories; missing cells are summed out. Parameters are dictionaries of arrays whose first axis is the
state, unless all states share a parameter.

:mod:`bayeslab.distributions` and its toolbox treat single distributions: densities, supports, conjugate priors and
their closed forms, weak priors, numerical posterior modes. This package adds columns and states: missing cells,
products, normal rows, collapsed states. :mod:`bayeslab.posterior.observed` adds the names, priors and graphs of a
model.

Methods of an emission, some for conjugate ones only:

===========================  ==========================================================================
``log_density``              log p(row | state), (N, K)
``statistics``               expected sufficient statistics under responsibilities (N, K)
``statistics_of_states``     the same for rows whose states are known
``maximise``                 the M-step: maximum likelihood, or the joint mode when ``prior`` is set
``expected_log_likelihood``  from the statistics; terms without parameters may be left out
``log_prior``                log density of the prior, up to a constant; 0 without a prior
``n_free``                   number of free parameters, for BIC
``with_prior``               the same emission with a weak prior scaled by the data
``without_prior``            the same emission without a prior
``degenerate``               which states collapsed (no rows, no spread), given the columns' variances
``sample``                   rows from given states
``complete``                 rows from given states, missing cells given the row's others
``imputed``                  rows with those missing cells drawn that ``draw`` needs [conjugate]
``draw``                     parameters from the conjugate posterior given statistics [conjugate]
``expected_log_density``     E log p(row | state) under that posterior, for variational EM [conjugate]
``log_marginal``             log evidence of weighted rows, parameters integrated out [conjugate]
``log_base``                 the part of the log density without parameters [conjugate]
===========================  ==========================================================================

References
----------
.. [1] McLachlan, Krishnan (2008). The EM Algorithm and Extensions, 2nd ed.
.. [2] Little, Rubin (2002). Statistical Analysis with Missing Data, 2nd ed., section 11.2 (missing cells).
.. [3] Bishop (2006). Pattern Recognition and Machine Learning, section 10.2.
"""

from __future__ import annotations

from bayeslab.distributions.emissions.any_distribution import AnyDistribution
from bayeslab.distributions.emissions.categorical import Categorical
from bayeslab.distributions.emissions.cells import (
    column_variances,
    dependent_columns,
    refuse_dependent,
    renumbered,
    with_names,
)
from bayeslab.distributions.emissions.joint_normal import FullGaussian
from bayeslab.distributions.emissions.normal import DiagonalGaussian, gaussian
from bayeslab.distributions.emissions.normal_mixture import GaussianMixture
from bayeslab.distributions.emissions.normal_prior import NormalPrior
from bayeslab.distributions.emissions.one_parameter import OneParameter
from bayeslab.distributions.emissions.product import Product
from bayeslab.distributions.emissions.protocol import (
    ConjugateEmission,
    Emission,
    EmissionWithoutParameters,
    Parameters,
    Statistics,
    WrappedEmission,
)
from bayeslab.distributions.emissions.regression import Regression
from bayeslab.distributions.emissions.student_t import StudentT, dof_from_real, dof_to_real

__all__ = [
    "AnyDistribution",
    "Categorical",
    "ConjugateEmission",
    "DiagonalGaussian",
    "Emission",
    "EmissionWithoutParameters",
    "FullGaussian",
    "GaussianMixture",
    "NormalPrior",
    "OneParameter",
    "Parameters",
    "Product",
    "Regression",
    "Statistics",
    "StudentT",
    "WrappedEmission",
    "column_variances",
    "dependent_columns",
    "dof_from_real",
    "dof_to_real",
    "gaussian",
    "refuse_dependent",
    "renumbered",
    "with_names",
]
