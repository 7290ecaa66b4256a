"""Normal columns that go together in every state: one covariance matrix a state, or one for all.

The PyMC side is :class:`bayeslab.posterior.observed.whitened.FullNodes`: normal-inverse-Wishart priors in coordinates
without constraints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from bayeslab.exact.hidden_gibbs import draw_tied, imputed
from bayeslab.posterior.observed.part import StatePart
from bayeslab.posterior.observed.whitened import FullNodes

__all__ = ["Joint"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Joint(StatePart):
    """Normal columns with covariance matrices; see :class:`bayeslab.posterior.observed.part.StatePart`."""

    word: str = "gaussian"

    @property
    def tied(self) -> bool:
        return bool(self.emission.covariance == "tied")

    @property
    def names(self) -> tuple[str, ...]:
        return ("mean", "covariance")

    @property
    def n_free(self) -> int:
        d = len(self.columns)
        matrices = 1 if self.tied else self.n_states
        return self.n_states * d + matrices * d * (d + 1) // 2

    @property
    def computed(self) -> bool:
        """Columns of one row are drawn together."""
        return True

    def shape(self, name: str) -> tuple[int, ...]:
        d = len(self.columns)
        return (self.n_states, d) if name == "mean" else (d, d) if self.tied else (self.n_states, d, d)

    def dims(self, name: str, state: str) -> tuple[str, ...]:
        if name == "mean":
            return (state, "feature")
        return ("feature", "feature_2") if self.tied else (state, "feature", "feature_2")

    def labels(self) -> dict[str, np.ndarray]:
        return {"feature": np.array(self.columns), "feature_2": np.array(self.columns)}

    def to_exact(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {name: np.asarray(values[name], float) for name in self.names}

    def from_exact(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: theta[name] for name in self.names}

    def default_prior(self, name: str) -> str:
        prior = self.emission.prior
        if name == "mean":
            return f"Normal(mean of the data, covariance / {prior.kappa:g})"
        return f"InverseWishart({prior.nu:g}, covariance of the data / {self.n_states ** (2 / len(self.columns)):.3g})"

    # ------------------------------------------------------------------ Gibbs

    def imputed(
        self, rng: np.random.Generator, rows: np.ndarray, states: np.ndarray, values: Mapping[str, Any]
    ) -> np.ndarray:
        theta = self.to_exact(values)
        return imputed(rng, rows, states, theta["mean"], self.emission.covariances(theta))

    def draw(self, rng: np.random.Generator, statistics: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return (
            self.from_exact(draw_tied(rng, self.emission, statistics)) if self.tied else super().draw(rng, statistics)
        )

    # ------------------------------------------------------------------ PyMC

    def variables(self, state: str) -> dict[str, Any]:
        import pymc as pm

        sd = ("feature",) if self.tied else (state, "feature")
        own = _Named(self.emission, {name: self.dims(name, state) for name in self.names} | {"sd": sd})
        nodes = FullNodes.of(cast(Any, own), self.n_states, self.start or None)
        built = pm.modelcontext(None)
        return {"mean": built["mean"], "covariance": built["covariance"], "_nodes": nodes}

    def density(self, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        return values["_nodes"].log_density(rows[:, list(self.at)])

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        return dict(zip(self.columns, values["_nodes"].draw(states, rows), strict=True))


@dataclass(frozen=True, eq=False)
class _Named:
    """What :meth:`FullNodes.of` asks of a part."""

    emission: Any
    dims: Mapping[str, tuple[str, ...]]
    prefix: str = ""

    @property
    def covariance(self) -> str:
        return str(self.emission.covariance)
