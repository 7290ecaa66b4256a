r"""Family ``latent_features``: every row is a sum of a few features, each times how much of it the row has.

.. math:: x_n = m + W z_n + e_n, \qquad e_n \sim N(0, \Psi).

``kind: gaussian``: z_n is normal. With one noise for all columns this is probabilistic principal components [1]_, with
one for each it is factor analysis [2]_. The scores z_n are integrated out, and the data enter through their means and
covariances: what a step costs does not depend on the number of rows.

``kind: binary``: z_n says which features the row has: binary factor analysis, and with ``features: ibp``, where the
number of features is not given, the factor model of the Indian buffet process [3]_.

References
----------
.. [1] Tipping, Bishop (1999). Probabilistic principal component analysis. JRSS B 61, 611-622.
.. [2] Bartholomew, Knott, Moustaki (2011). Latent Variable Models and Factor Analysis, 3rd ed. Wiley.
.. [3] Griffiths, Ghahramani (2011). The Indian buffet process: an introduction and review. JMLR 12, 1185-1224.
"""

from __future__ import annotations

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError, hint
from bayeslab.families.latent_features.posterior import LatentFeaturesPosterior
from bayeslab.families.latent_features.spec import LatentFeatures
from bayeslab.language.spec import Model

__all__ = ["LatentFeatures", "Spec", "check", "compile"]

Spec = LatentFeatures


def _spec(model: Model) -> LatentFeatures:
    assert isinstance(model.model, LatentFeatures)
    return model.model


def check(model: Model, columns: set[str] | None) -> None:
    """The data have the columns that are named."""
    spec = _spec(model)
    if not columns or not any(name in columns for name in spec.columns):
        return  # to be simulated
    for i, name in enumerate(spec.columns):
        if name not in columns:
            raise ModelError(
                f"the data have no column '{name}'{hint(name, columns)}",
                path=("model", "columns", i),
                code="unknown-column",
            )


def compile(model: Model, data: Data) -> LatentFeaturesPosterior:
    """The model on its data."""
    return LatentFeaturesPosterior(model, data)
