"""A mixture with known labels, solved in closed form for each component.

The weights have a Dirichlet posterior, and each component's parameters the conjugate posterior given its rows.
Marginals of means are Student's t, of variances inverse gamma, of rates gamma, of probabilities beta [1]_.

References
----------
.. [1] Murphy (2012). Machine Learning: a Probabilistic Perspective, sections 3.3-3.5 and 4.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln

from bayeslab.distributions.emissions import Categorical, DiagonalGaussian, FullGaussian
from bayeslab.errors import OptionError
from bayeslab.posterior.mixtures.problem import MixtureProblem

__all__ = ["KnownComponents", "Marginal", "component_marginals"]


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
