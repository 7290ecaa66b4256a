"""Family ``regressions``: regressions of several responses of the same rows, as one model.

Each response has a formula, a likelihood and priors, as a model of the family ``regression`` has. They become one
graph, in which the parts of each have its response before their names: ``y_b``, ``y_sigma``, ``y_sd_g``. Default priors
are those of the regressions alone. What responses share:

``corr_g_p[g_p_effect, g_p_effect_with]``
    Correlations of the effects of terms ``(1 | p | g)`` with the same id, in formulas of any response; LKJ(2).
``corr_residuals[residual, residual_with]``, ``nu_residuals``
    Correlations of ``residuals``, LKJ(1), and degrees of freedom if they are Student t, Gamma(2, 0.1).

A response may be a predictor of others. Predictions use its values in the rows that have them, and otherwise draw it.
"""

from __future__ import annotations

from bayeslab.data.bound import Data
from bayeslab.families import regression
from bayeslab.families.regressions.checks import check_agreement, of_response
from bayeslab.families.regressions.posterior import RegressionsPosterior
from bayeslab.families.regressions.residuals import check_residuals
from bayeslab.families.regressions.spec import Regressions
from bayeslab.language.spec import Model

__all__ = ["Regressions", "Spec", "check", "compile"]

Spec = Regressions


def check(model: Model, columns: set[str] | None) -> None:
    """Check everything that can be checked without the values of the data."""
    spec = model.model
    assert isinstance(spec, Regressions)
    check_agreement(spec)
    check_residuals(spec)
    for name, each in spec.regressions().items():
        with of_response(name):
            regression.check(model.model_copy(update={"model": each}), columns)


def compile(model: Model, data: Data) -> RegressionsPosterior:
    """Bind the model to its data."""
    return RegressionsPosterior(model, data)
