r"""Family ``latent_features``: every row is a linear combination of a few features, plus noise.

.. math:: x_n = m + W z_n + e_n, \qquad e_n \sim N(0, \Psi).

``kind: gaussian``: z_n is normal. With one noise variance for all columns this is probabilistic principal component
analysis [1]_, with one for each column factor analysis [2]_. The scores z_n are integrated out, and the data enter
through their means and covariances, so that the cost of a step does not depend on the number of rows.

``kind: binary``: z_n indicates the features that the row has. This is binary factor analysis or, with ``features: ibp``
and an unknown number of features, the linear-Gaussian model of the Indian buffet process [3]_.

References
----------
.. [1] Tipping, Bishop (1999). Probabilistic principal component analysis. JRSS B 61, 611-622.
.. [2] Bartholomew, Knott, Moustaki (2011). Latent Variable Models and Factor Analysis, 3rd ed. Wiley.
.. [3] Griffiths, Ghahramani (2011). The Indian buffet process: an introduction and review. JMLR 12, 1185-1224.
"""

from __future__ import annotations

from bayeslab.data.bound import Data
from bayeslab.errors import unknown_column
from bayeslab.families.latent_features.posterior import LatentFeaturesPosterior
from bayeslab.families.latent_features.spec import LatentFeatures
from bayeslab.language.spec import Model

__all__ = ["LatentFeatures", "Spec", "check", "compile"]

Spec = LatentFeatures


def _spec(model: Model) -> LatentFeatures:
    assert isinstance(model.model, LatentFeatures)
    return model.model


def check(model: Model, columns: set[str] | None) -> None:
    """Check that the data have the columns that the model names."""
    spec = _spec(model)
    if not columns or not any(name in columns for name in spec.columns):
        return  # to be simulated
    for i, name in enumerate(spec.columns):
        if name not in columns:
            raise unknown_column(name, columns, ("model", "columns", i))


def compile(model: Model, data: Data) -> LatentFeaturesPosterior:
    """Bind the model to its data."""
    return LatentFeaturesPosterior(model, data)
