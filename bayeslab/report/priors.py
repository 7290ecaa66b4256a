"""The priors of a fit: their texts by quantity, and densities of those whose parameters are numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayeslab.distributions import DISTRIBUTIONS, SCALARS, log_densities
from bayeslab.errors import BayeslabError
from bayeslab.language.nodes import nodes_of
from bayeslab.language.numeric_priors import has_numbers, read_prior
from bayeslab.report.contract import Reported

__all__ = ["Priors", "priors_of"]

type Array = NDArray[np.float64]
type Density = Callable[[Array], Array]


@dataclass(frozen=True)
class Priors:
    """The priors of a fit.

    Attributes
    ----------
    texts : mapping of str to str
        Priors in the model language, by label (``b[size]``) or by variable.
    """

    texts: Mapping[str, str]

    def text(self, label: str) -> str:
        """The prior of a quantity, that of its variable if its elements share one; empty if there is none."""
        return self.texts.get(label) or self.texts.get(label.partition("[")[0], "")

    def density(self, label: str) -> Density | None:
        """The prior density of a continuous quantity; None if it is improper, or if its parameters are not numbers."""
        text = self.text(label)
        if not text:
            return None
        try:
            name, given = read_prior(text)
        except BayeslabError:
            return None
        if name is None or name not in SCALARS or not has_numbers(given) or not DISTRIBUTIONS[name].proper:
            return None

        def density(x: Array) -> Array:
            return np.exp(log_densities(name, given, np.asarray(x, float)))

        try:
            density(np.zeros(1))
        except BayeslabError:
            return None
        return density


def priors_of(fit: Reported) -> Priors:
    """The priors of a fit: those of its family, or those of the random nodes of its graph."""
    if fit.model.model.is_learner or fit.has_group("parent_sets"):
        return Priors({})
    texts = dict(fit.bound_model.priors())
    written = getattr(fit.model.model, "nodes", None)
    if not texts and isinstance(written, Mapping):
        columns = fit.data.names()
        nodes = nodes_of(written).values()
        texts = {
            node.name: node.expression.text for node in nodes if node.kind == "random" and node.name not in columns
        }
    # The family names vectors with their dimensions (``sd[group]``), and rows with their labels (``b[size]``).
    dims = {str(dim) for values in fit.posterior.data_vars.values() for dim in values.dims}
    out = {}
    for name, text in texts.items():
        bare, bracket, inside = name.partition("[")
        of_variable = bracket and {part.strip() for part in inside.rstrip("]").split(",")} <= dims
        out[bare if of_variable else name] = text
    return Priors(out)
