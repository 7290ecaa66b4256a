"""Family ``hypotheses``: a finite set of hypotheses, each with a prior and a likelihood.

The likelihood is a table of probabilities of the values of the observed column, or a distribution written as in the
family ``graph``. Observations are independent given the hypothesis. The posterior is exact; the group ``learning`` has
it after every observation, with the MAP and ML hypotheses, their predictions, and description lengths in bits. In the
PyMC graph the hypothesis is a categorical node that is summed out.
"""

from __future__ import annotations

from bayeslab.data.bound import Data
from bayeslab.distributions import SCALARS
from bayeslab.errors import ModelError, errors_at, hint, unknown_column
from bayeslab.families.hypotheses.posterior import HypothesesPosterior
from bayeslab.families.hypotheses.spec import DISCRETE, Hypotheses
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import call_name
from bayeslab.language.spec import Model

__all__ = ["Hypotheses", "Spec", "check", "compile"]

Spec = Hypotheses


def _spec(model: Model) -> Hypotheses:
    assert isinstance(model.model, Hypotheses)
    return model.model


def check(model: Model, columns: set[str] | None) -> None:
    """Check that distributions can be read and that the column exists."""
    spec = _spec(model)
    for name, hypothesis in spec.hypotheses.items():
        if isinstance(hypothesis.likelihood, str):
            path = ("model", "hypotheses", name, "likelihood")
            with errors_at(path):
                expression = parse(hypothesis.likelihood)
                word = call_name(expression.tree)
                if word not in DISCRETE and word not in SCALARS:
                    allowed = [*DISCRETE, *SCALARS]
                    raise ModelError(
                        f"'{expression.text}' is not a distribution that is known here{hint(word, allowed)}",
                        code="not-a-distribution",
                    )
    if columns is not None and spec.observed not in columns:
        raise unknown_column(spec.observed, columns, ("model", "observed"))


def compile(model: Model, data: Data) -> HypothesesPosterior:
    """Bind the model to its data."""
    return HypothesesPosterior(model, data)
