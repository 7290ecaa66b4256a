"""The priors of a fit: their texts by quantity, and densities of those whose parameters are numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayeslab.distributions import DISTRIBUTIONS, SCALARS, log_densities
from bayeslab.errors import BayeslabError
from bayeslab.language.numeric_priors import has_numbers, read_prior
from bayeslab.report.contract import Reported
from bayeslab.results.priors import prior_texts

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
    if fit.has_group("parent_sets"):
        return Priors({})
    dims = {str(dim) for values in fit.posterior.data_vars.values() for dim in values.dims}
    return Priors(prior_texts(fit.bound_model, dims))
