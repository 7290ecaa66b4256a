"""Family ``learner``: a classical learner, trained on the columns of a table and scored like any other model.

The value of ``learner:`` names a module of :mod:`bayeslab.learners`; its options stand beside it. Columns of names
become codes or indicators, and numbers are standardised if the learner needs it, with parameters from the training rows
only. Scores are calibrated to probabilities (``calibration``), and options can be tuned within the training rows
(``tune``).

References
----------
.. [1] Platt (2000). Probabilistic outputs for support vector machines. In: Advances in Large Margin Classifiers.
.. [2] Zadrozny, Elkan (2002). Transforming classifier scores into accurate multiclass probability estimates. KDD 8.
"""

from __future__ import annotations

from bayeslab.data.bound import Data
from bayeslab.errors import unknown_column
from bayeslab.families.learner.posterior import LearnerPosterior
from bayeslab.families.learner.spec import Learner
from bayeslab.language.spec import Model

__all__ = ["Learner", "Spec", "check", "compile"]

Spec = Learner


def _spec(model: Model) -> Learner:
    assert isinstance(model.model, Learner)
    return model.model


def check(model: Model, columns: set[str] | None) -> None:
    """Check that the data have the columns that the model names."""
    spec = _spec(model)
    if not columns:
        return
    # New data may lack the target.
    for i, name in enumerate(spec.inputs):
        if name not in columns:
            raise unknown_column(name, columns, ("model", "inputs", i))


def compile(model: Model, data: Data) -> LearnerPosterior:
    """Bind the model to its data."""
    return LearnerPosterior(model, data)
