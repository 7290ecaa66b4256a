"""A mixture with known labels, solved in closed form for each component.

The weights have a Dirichlet posterior, and each component's parameters the conjugate posterior given its rows.
Marginals of means are Student's t, of variances inverse gamma, of rates gamma, of probabilities beta [1]_.

References
----------
.. [1] Murphy (2012). Machine Learning: a Probabilistic Perspective, sections 3.3-3.5 and 4.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln

from bayeslab.distributions.emissions import Categorical, DiagonalGaussian, FullGaussian
from bayeslab.errors import OptionError, Reason
from bayeslab.posterior.answer import Plan
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.observed.categories import Categories

__all__ = ["KnownComponents", "Marginal", "component_marginals", "exact"]


@dataclass(frozen=True, eq=False)
class Marginal:
    """Marginal posteriors of an array of quantities: a SciPy distribution, or (``root``) that of the square root."""

    law: Any
    root: bool = False

    def mean(self) -> np.ndarray:
        if not self.root:
            return np.asarray(self.law.mean())
        # E √v of an inverse gamma (a, b) is √b Γ(a - ½) / Γ(a).
        a, b = self.law.args[0], self.law.kwds["scale"]
        return np.asarray(np.sqrt(b) * np.exp(gammaln(a - 0.5) - gammaln(a)))

    def sd(self) -> np.ndarray:
        if not self.root:
            return np.asarray(self.law.std())
        return np.asarray(np.sqrt(self.law.mean() - self.mean() ** 2))

    def quantile(self, probability: float) -> np.ndarray:
        at = np.asarray(self.law.ppf(probability))
        return np.sqrt(at) if self.root else at


@dataclass(frozen=True)
class Certain:
    """The distribution of a quantity that is always 1, with the interface of SciPy's distributions."""

    n: int

    def mean(self) -> np.ndarray:
        return np.ones(self.n)

    def std(self) -> np.ndarray:
        return np.zeros(self.n)

    def ppf(self, probability: float) -> np.ndarray:
        return np.ones(self.n)


def component_marginals(emission: Any, statistics: dict[str, Any]) -> dict[str, Marginal]:
    """Marginals of ``mean`` and ``sd``, of ``rate``, or of ``probability``."""
    if isinstance(emission, FullGaussian | DiagonalGaussian):
        return _normal(emission, statistics)
    if isinstance(emission, Categorical):
        a = emission.concentration(statistics)
        # Columns with fewer levels than others are padded.
        used = np.arange(a.shape[-1]) < np.array(emission.levels)[:, None]
        rest = np.where(used, a, 0.0).sum(axis=-1, keepdims=True) - a
        return {"probability": Marginal(stats.beta(a, np.where(used, rest, 1.0)))}
    a, b = emission.posterior(statistics)
    rate = emission.name == "rate"
    return {emission.name: Marginal(stats.gamma(a, scale=1 / b) if rate else stats.beta(a, b))}


def _normal(emission: FullGaussian | DiagonalGaussian, statistics: dict[str, Any]) -> dict[str, Marginal]:
    kappa, centre, nu, scale = emission.posterior(statistics)
    if isinstance(emission, FullGaussian):
        d = centre.shape[1]
        if emission.covariance == "known":
            variance = np.diag(emission.covariances({"mean": centre})[0])
            return {"mean": Marginal(stats.norm(centre, np.sqrt(variance / kappa[:, None])))}
        dof, spread = nu[:, None] - d + 1, np.einsum("kii->ki", scale)
        law = stats.t(dof, loc=centre, scale=np.sqrt(spread / (kappa[:, None] * dof)))
        return {"mean": Marginal(law), "sd": Marginal(stats.invgamma(0.5 * dof, scale=0.5 * spread), root=True)}
    law = stats.t(nu, loc=centre, scale=np.sqrt(scale / (kappa * nu)))
    a, b = (nu, scale) if emission.covariance == "diagonal" else (nu[:, 0], scale[:, 0])
    return {"mean": Marginal(law), "sd": Marginal(stats.invgamma(0.5 * a, scale=0.5 * b), root=True)}


@dataclass(frozen=True, eq=False)
class KnownComponents:
    """The posterior of a mixture with known labels.

    Attributes
    ----------
    problem : MixtureProblem
        The problem, with one ``allowed`` component per row and conjugate priors.
    """

    problem: MixtureProblem

    @cached_property
    def statistics(self) -> dict[str, Any]:
        allowed = self.problem.latent.allowed
        if allowed is None or not (allowed.sum(axis=1) == 1).all():
            raise OptionError("the component of every row must be known", code="incomplete")
        return self.problem.statistics(allowed.astype(float))

    @cached_property
    def concentration(self) -> np.ndarray:
        """Concentration of the Dirichlet posterior of the weights, shape (K,)."""
        return self.problem.latent.prior_counts + self.statistics["weights"]

    @property
    def weights(self) -> Marginal:
        """The marginal posterior of each weight."""
        a = self.concentration
        return Marginal(Certain(1) if len(a) == 1 else stats.beta(a, a.sum() - a))

    @cached_property
    def log_evidence(self) -> float:
        """Log marginal likelihood of rows and labels."""
        after = self.concentration
        before = after - self.statistics["weights"]
        labels = (gammaln(after) - gammaln(before)).sum() + gammaln(before.sum()) - gammaln(after.sum())
        emission = self.problem.emission
        rows = emission.log_marginal(self.statistics).sum() + emission.log_base(self.problem.rows).sum()
        return float(labels + rows)

    def draws(self, rng: np.random.Generator, n: int) -> list[dict[str, Any]]:
        """Independent draws of the parameters."""
        weights = rng.dirichlet(self.concentration, n)
        return [{"weights": w, **self.problem.emission.draw(rng, self.statistics)} for w in weights]


def exact(mixture: BoundMixture) -> Plan | str:
    """The closed form, if every label is known and every prior is conjugate."""
    allowed = mixture.problem.latent.allowed
    if allowed is None:
        return "components are summed out"
    unknown = int((allowed.sum(axis=1) != 1).sum())
    if unknown:
        return f"the components of {unknown} rows are summed out"
    if not mixture.conjugate:
        return Reason("the priors of mean, sd or correlation are not conjugate", code="not-conjugate")
    answer = Known(KnownComponents(mixture.problem), mixture)
    try:
        if not np.isfinite(answer.log_evidence):
            return "the evidence is not finite"
    except (OptionError, AttributeError) as error:
        if isinstance(error, OptionError):
            return Reason(error.message, code=error.code)
        return Reason("the components have no conjugate prior", code="not-conjugate")
    how = f"all labels are known: {len(mixture.names)} conjugate components"
    return Plan(how, lambda: answer, dims=answer.dims, labels=answer.labels)


@dataclass(frozen=True, eq=False)
class Known:
    """The exact posterior: see :class:`bayeslab.posterior.answer.Answer`."""

    components: KnownComponents
    mixture: BoundMixture

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        return self.mixture.dims

    @property
    def labels(self) -> Mapping[str, np.ndarray]:
        return self.mixture.labels

    @property
    def log_evidence(self) -> float:
        return self.components.log_evidence

    @cached_property
    def _marginals(self) -> dict[str, tuple[Marginal, tuple[Any, ...]]]:
        """Names in results, with the part of the array that each takes."""
        out: dict[str, tuple[Marginal, tuple[Any, ...]]] = {"weights": (self.components.weights, ())}
        for name, part in self.mixture.parts.items():
            statistics = self.mixture.parameters_of(name, self.components.statistics)
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
        each = [self.mixture.values(theta) for theta in self.components.draws(rng, n)]
        return {name: np.stack([values[name] for values in each]) for name in self.dims}
