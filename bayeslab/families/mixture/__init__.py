"""Family ``mixture``: every row comes from one of K components, and which one is unknown.

The component is summed out of the likelihood exactly (:mod:`bayeslab.distributions.emissions.components`), so that the
same pass over the rows serves EM, NUTS and clustering. The numbering of components is arbitrary unless known labels, an
``order`` or different priors identify them. Draws are therefore relabelled to agree (Stephens 2000), and
``Fit.clusters`` gives label-invariant summaries.

References
----------
.. [1] McLachlan, Peel (2000). Finite Mixture Models. Wiley.
.. [2] Frühwirth-Schnatter (2006). Finite Mixture and Markov Switching Models. Springer.
"""

from __future__ import annotations

from bayeslab.data.bound import Data
from bayeslab.errors import unknown_column
from bayeslab.families.mixture.posterior import MixturePosterior
from bayeslab.families.mixture.spec import Mixture
from bayeslab.language.formula import parse_formula
from bayeslab.language.spec import Model

__all__ = ["Mixture", "Spec", "check", "compile"]

Spec = Mixture


def check(model: Model, columns: set[str] | None) -> None:
    """Check that the data have the columns that the model names."""
    assert isinstance(model.model, Mixture)
    spec = model.model
    if not columns:
        return
    wanted = {
        "columns" if spec.regression is None else "regression": spec.modelled,
        "gating": spec.gating,
        "labels": [spec.labels] if spec.labels else [],
    }
    wanted["trials"] = [spec.trials] if isinstance(spec.trials, str) else []
    # Data to be simulated may have no column yet.
    simulated = not any(name in columns for name in spec.modelled)
    if spec.regression is not None:
        wanted["regression"] = [*spec.modelled, *sorted(parse_formula(spec.regression).predictor_columns())]
    for key, names in wanted.items():
        for i, name in enumerate(names):
            if name not in columns and not (simulated and key in ("columns", "regression", "labels")):
                path = ("model", key) if isinstance(getattr(spec, key), str) else ("model", key, i)
                raise unknown_column(name, columns, path)


def compile(model: Model, data: Data) -> MixturePosterior:
    """Bind the model to its data."""
    return MixturePosterior(model, data)
