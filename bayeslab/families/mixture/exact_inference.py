"""Closed-form posterior of mixtures whose labels are all known, for the engine ``exact``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.errors import OptionError, Reason
from bayeslab.families.mixture.model import Resolved
from bayeslab.posterior.answer import Plan
from bayeslab.posterior.mixtures.known_labels import KnownComponents, Marginal, component_marginals
from bayeslab.posterior.observed.categories import Categories

__all__ = ["exact"]


def exact(resolved: Resolved) -> Plan | str:
    """The closed form, if every label is known and every prior is conjugate."""
    allowed = resolved.problem.latent.allowed
    if allowed is None:
        return "components are summed out"
    unknown = int((allowed.sum(axis=1) != 1).sum())
    if unknown:
        return f"the components of {unknown} rows are summed out"
    if not resolved.conjugate:
        return Reason("the priors of mean, sd or correlation are not conjugate", code="not-conjugate")
    answer = Known(KnownComponents(resolved.problem), resolved)
    try:
        if not np.isfinite(answer.log_evidence):
            return "the evidence is not finite"
    except (OptionError, AttributeError) as error:
        if isinstance(error, OptionError):
            return Reason(error.message, code=error.code)
        return Reason("the components have no conjugate prior", code="not-conjugate")
    how = f"all labels are known: {len(resolved.names)} conjugate components"
    return Plan(how, lambda: answer, dims=answer.dims, labels=answer.labels)


@dataclass(frozen=True, eq=False)
class Known:
    """The exact posterior: see :class:`bayeslab.posterior.answer.Answer`."""

    components: KnownComponents
    resolved: Resolved

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        return self.resolved.dims

    @property
    def labels(self) -> Mapping[str, np.ndarray]:
        return self.resolved.labels

    @property
    def log_evidence(self) -> float:
        return self.components.log_evidence

    @cached_property
    def _marginals(self) -> dict[str, tuple[Marginal, tuple[Any, ...]]]:
        """Names in results, with the part of the array that each takes."""
        out: dict[str, tuple[Marginal, tuple[Any, ...]]] = {"weights": (self.components.weights, ())}
        for name, part in self.resolved.parts.items():
            statistics = self.resolved.parameters_of(name, self.components.statistics)
            laws = component_marginals(part.emission, statistics)
            if isinstance(part, Categories):
                for j, column in enumerate(part.columns):
                    out[f"p_{column}"] = (laws["probability"], (slice(None), j, slice(len(part.states[j]))))
                continue
            out |= {part.called(key): (law, ()) for key, law in laws.items()}
        return out

    def mean(self) -> Mapping[str, np.ndarray]:
        return {name: law.mean()[at] for name, (law, at) in self._marginals.items()}

    def sd(self) -> Mapping[str, np.ndarray]:
        return {name: law.sd()[at] for name, (law, at) in self._marginals.items()}

    def quantile(self, probability: float) -> Mapping[str, np.ndarray]:
        return {name: law.quantile(probability)[at] for name, (law, at) in self._marginals.items()}

    def draws(self, rng: np.random.Generator, n: int) -> Mapping[str, np.ndarray]:
        each = [self.resolved.values(theta) for theta in self.components.draws(rng, n)]
        return {name: np.stack([values[name] for values in each]) for name in self.dims}
