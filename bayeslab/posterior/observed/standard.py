"""Columns of one of the standard words (gaussian, categorical, poisson, ...), whose M-steps are mostly closed.

Default priors are normal and inverse gamma for means and variances [1]_, Dirichlet and beta for probabilities, gamma
for rates.

References
----------
.. [1] Fraley, Raftery (2007). Bayesian regularization for normal mixture estimation. J. Classification 24, 155-181.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from bayeslab.data.weak_priors import scaled, shown
from bayeslab.posterior.observed import given_priors
from bayeslab.posterior.observed.part import StatePart
from bayeslab.posterior.observed.prior import PARAMETERS, standard_name
from bayeslab.posterior.observed.prior_variables import across, named_variables

__all__ = ["StandardPart"]


@dataclass(frozen=True, eq=False, kw_only=True)
class StandardPart(StatePart):
    """See :class:`bayeslab.posterior.observed.part.StatePart`."""

    def called(self, parameter: str) -> str:
        return standard_name(parameter, self.name, self.columns) + self.suffix

    def parameter(self, name: str) -> str:
        return next(p for p in PARAMETERS[self.word] if self.called(p) == name)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameters by the word's own names."""
        return tuple(p for p in PARAMETERS[self.word] if not (p == "dof" and self.fixed_dof))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.called(p) for p in self.parameters)

    @property
    def fixed_dof(self) -> bool:
        return self.word == "student_t" and self.emission.dof is not None

    @property
    def spherical(self) -> bool:
        return self.word == "gaussian" and self.emission.covariance == "spherical"

    @property
    def n_free(self) -> int:
        # Probabilities that sum to one have one less.
        rows = sum(self.shape(name)[0] for name in self.learned if self.parameter(name) == "p")
        return super().n_free - rows

    def shape(self, name: str) -> tuple[int, ...]:
        if self.word == "categorical":
            return (self.n_states, len(self.levels))
        wide = len(self.columns) > 1 and not (self.spherical and name == self.called("sd"))
        return (self.n_states, len(self.columns)) if wide else (self.n_states,)

    def dims(self, name: str, state: str) -> tuple[str, ...]:
        if self.word == "categorical":
            return (state, f"{self.columns[0]}_state")
        return (state, "feature") if len(self.shape(name)) == 2 else (state,)

    def labels(self) -> dict[str, np.ndarray]:
        return {f"{self.columns[0]}_state": self.levels} if self.word == "categorical" else super().labels()

    @property
    def ruled_by(self) -> str:
        return f"the probability of '{self.levels[0]}'" if self.word == "categorical" else super().ruled_by

    # ------------------------------------------------------------------ exact kernels

    def to_exact(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        get = {p: np.asarray({**values, **self.known}[self.called(p)], float) for p in self.parameters}
        k, d = self.n_states, len(self.columns)
        match self.word:
            case "gaussian":
                variance = get["sd"] ** 2
                return {
                    "mean": get["mean"].reshape(k, d),
                    "variance": variance if self.spherical else variance.reshape(k, d),
                }
            case "student_t":
                dof = np.full(k, float(self.emission.dof)) if self.fixed_dof else get["dof"]
                return {"mean": get["location"][:, None], "scale": get["scale"][:, None, None] ** 2, "dof": dof}
            case "categorical":
                return {"probability": get["p"][:, None, :]}
        return {name: value.reshape(k, d) for name, value in get.items()}

    def from_exact(self, theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        match self.word:
            case "gaussian":
                out = {"mean": theta["mean"], "sd": np.sqrt(theta["variance"])}
            case "student_t":
                out = {"location": theta["mean"], "scale": np.sqrt(theta["scale"][:, 0, 0]), "dof": theta["dof"]}
            case "categorical":
                out = {"p": theta["probability"]}
            case _:
                out = dict(theta)
        named = {self.called(p): out[p] for p in self.parameters}
        return {n: v.reshape(self.shape(n)) for n, v in named.items()}

    def internal(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        spread = self.called({"gaussian": "sd", "student_t": "scale"}.get(self.word, self.word))
        if spread not in self.learned or spread in self.priors:
            return {}
        return {f"_{self.called('variance')}": np.asarray(values[spread]) ** 2}

    # ------------------------------------------------------------------ EM

    def coordinates(self, name: str) -> str:
        learned_dof = self.word == "student_t" and self.parameter(name) == "dof"
        return "dof" if learned_dof else self.kind(name)

    def log_prior(self, values: Mapping[str, Any]) -> float:
        return given_priors.log_prior(self, values) if self.known or self.priors else super().log_prior(values)

    def _best(self, statistics: Mapping[str, Any], values: Mapping[str, Any], prior: bool) -> dict[str, np.ndarray]:
        if given_priors.searched(self, prior=prior):
            return given_priors.climbed(self, statistics, values, prior=prior)
        found = super()._best(statistics, values, prior)
        if self.word == "gaussian" and self.called("mean") in self.known and self.called("sd") in self.learned:
            found[self.called("sd")] = self._about_known(statistics, prior)
        return found

    def _about_known(self, statistics: Mapping[str, Any], prior: bool) -> np.ndarray:
        """Standard deviations about known means."""
        n, scatter = statistics["weight"], statistics["scatter"]
        mean = self.known[self.called("mean")].reshape(scatter.shape)
        scatter = scatter + n * (statistics["mean"] - mean) ** 2
        if self.spherical:
            n, scatter = n.sum(axis=1), scatter.sum(axis=1)
        own = self.emission.prior
        scale = np.mean(own.scale) if self.spherical else own.scale
        variance = (scale + scatter) / (own.nu + n + 2) if prior else scatter / np.maximum(n, 1e-300)
        return np.sqrt(variance).reshape(self.shape(self.called("sd")))

    # ------------------------------------------------------------------ Gibbs

    @property
    def no_gibbs(self) -> str:
        if self.word == "student_t":
            return "student_t has no conjugate prior; use nuts or em"
        if self.priors:
            return f"the prior written for '{next(iter(self.priors))}' is taken as not conjugate; use nuts"
        return ""

    def draw(self, rng: np.random.Generator, statistics: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        if not (self.known and self.word == "gaussian"):
            return super().draw(rng, statistics)
        # Means where the standard deviations are known, or these where the means are.
        prior, n, mean, scatter = self.emission.prior, *(statistics[name] for name in ("weight", "mean", "scatter"))
        name = self.learned[0]
        if name == self.called("mean"):
            sd = np.broadcast_to(self.known[self.called("sd")].reshape(len(n), -1), n.shape)
            centre = prior.mean + (mean - prior.mean) * n / (prior.kappa + n)
            drawn = centre + rng.standard_normal(n.shape) * sd / np.sqrt(prior.kappa + n)
            return {name: drawn.reshape(self.shape(name))}
        scatter = scatter + n * (mean - self.known[self.called("mean")].reshape(n.shape)) ** 2
        if self.spherical:
            variance = (np.mean(prior.scale) + scatter.sum(axis=1)) / rng.chisquare(prior.nu + n.sum(axis=1))
        else:
            variance = (prior.scale + scatter) / rng.chisquare(prior.nu + n)
        return {name: np.sqrt(variance).reshape(self.shape(name))}

    # ------------------------------------------------------------------ PyMC

    def default_prior(self, name: str) -> str:
        if name in self.priors:
            return self.priors[name].text
        parameter, prior = self.parameter(name), self.emission.prior
        match self.word, parameter:
            case "gaussian" | "student_t", "mean" | "location":
                spread = "sd" if self.word == "gaussian" else "scale"
                return f"Normal({shown(prior.mean)}, {self.called(spread)} / {np.sqrt(prior.kappa):.4g})"
            case "gaussian" | "student_t", "sd" | "scale":
                half = 0.5 * np.ravel(_diagonal(prior.scale))
                return f"sqrt(InverseGamma({prior.nu / 2:.4g}, {shown(half)}))"
            case "student_t", "dof":
                return "Gamma(2, 0.1), between 0.5 and 200"
            case "categorical", _:
                a = np.broadcast_to(prior, (1, len(self.levels)))[0]
                return f"Dirichlet([{', '.join(f'{x:g}' for x in a)}]) in every row"
            case "bernoulli" | "binomial", _:
                return f"Beta({shown(prior[0])}, {shown(prior[1])})"
        return f"Gamma({shown(prior[0])}, {shown(prior[1])})"

    def variables(self, state: str) -> dict[str, Any]:
        return named_variables(self, state, self._variable)

    def _variable(self, name: str, state: str, made: Mapping[str, Any]) -> Any:
        """A parameter with its default prior."""
        import pymc as pm

        shape, dims, start, prior = self.shape(name), self.dims(name, state), self.start.get(name), self.emission.prior
        own: dict[str, Any] = {}
        match self.word, self.parameter(name):
            case ("gaussian", "sd") | ("student_t", "scale"):
                half = 0.5 * (np.mean(prior.scale) if self.spherical else _diagonal(prior.scale))
                own = {"initval": np.maximum(start, 1e-12) ** 2} if start is not None else {}
                variance = pm.InverseGamma(
                    f"_{self.called('variance')}", prior.nu / 2, across(half, shape, last=True), shape=shape, **own
                )
                return pm.Deterministic(name, pm.math.sqrt(variance), dims=dims)
            case ("gaussian", "mean") | ("student_t", "location"):
                spread = made[self.called("sd" if self.word == "gaussian" else "scale")]
                centre = across(prior.mean, shape, last=True)
                spread = spread[:, None] if np.ndim(centre) == 2 and spread.ndim == 1 else spread
                step = across(np.maximum(self.spread, 1e-300) / self.n_states, shape, last=True)
                own = {"initval": start} if start is not None else {}
                return pm.Normal(
                    name, centre, spread / np.sqrt(prior.kappa), default_transform=scaled(centre, step), dims=dims,
                    **own,
                )  # fmt: skip
            case "student_t", "dof":
                return pm.Truncated(name, pm.Gamma.dist(2, 0.1), 0.5, 200, dims=dims)
            case "categorical", _:
                own = {"initval": _inside(start)} if start is not None else {}
                return pm.Dirichlet(name, np.broadcast_to(prior, shape), dims=dims, **own)
            case (("bernoulli" | "binomial"), _):
                own = {"initval": np.clip(start, 0.02, 0.98)} if start is not None else {}
                return pm.Beta(name, prior[0], prior[1], dims=dims, **own)
        own = {"initval": np.maximum(start, 1e-12)} if start is not None else {}
        return pm.Gamma(name, prior[0], across(prior[1], shape, last=True), dims=dims, **own)

    def density(self, values: Mapping[str, Any], rows: np.ndarray) -> Any:
        own = {p: values[self.called(p)] for p in self.parameters}
        if self.word == "categorical":
            return _categorical(own["p"], rows[:, self.at[0]])
        total: Any = 0.0
        for j, at in enumerate(self.at):
            column = {p: v[:, j] if v.ndim == 2 else v for p, v in own.items()}
            total = total + self._cells(column, rows[:, at])
        return total

    def _cells(self, own: Mapping[str, Any], values: np.ndarray) -> Any:
        """log p(cell | state), (N, K)."""
        import pytensor.tensor as pt

        seen = ~np.isnan(values)
        filled = np.where(seen, values, np.nanmin(values) if seen.any() else 0.0)
        x = filled[:, None]
        match self.word:
            case "gaussian":
                z = (x - own["mean"]) / own["sd"]
                out = -0.5 * z**2 - pt.log(own["sd"]) - 0.5 * np.log(2 * np.pi)
            case "student_t":
                dof = own["dof"] if "dof" in own else pt.constant(float(self.emission.dof))
                z = (x - own["location"]) / own["scale"]
                constant = pt.gammaln((dof + 1) / 2) - pt.gammaln(dof / 2) - 0.5 * pt.log(dof * np.pi)
                out = constant - pt.log(own["scale"]) - 0.5 * (dof + 1) * pt.log1p(z**2 / dof)
            case "bernoulli":
                out = x * pt.log(own["probability"]) + (1 - x) * pt.log1p(-own["probability"])
            case "binomial":
                n = float(self.emission.trials)
                base = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
                out = base + x * pt.log(own["probability"]) + (n - x) * pt.log1p(-own["probability"])
            case "poisson":
                out = x * pt.log(own["rate"]) - own["rate"] - gammaln(x + 1)
            case _:
                out = pt.log(own["rate"]) - own["rate"] * x
        return out if seen.all() else pt.where(seen[:, None], out, 0.0)

    def drawn(self, values: Mapping[str, Any], states: Any, rows: np.ndarray) -> dict[str, Any]:
        import pymc as pm
        import pytensor.tensor as pt

        n_rows, out = len(rows), {}
        for j, column in enumerate(self.columns):
            own = {p: pt.as_tensor_variable(values[self.called(p)]) for p in self.parameters}
            if self.word == "categorical":
                out[column] = pm.Categorical.dist(p=own["p"][states], shape=n_rows)
                continue
            at = {p: (v[:, j] if v.ndim == 2 else v)[states] for p, v in own.items()}
            match self.word:
                case "gaussian":
                    out[column] = pm.Normal.dist(at["mean"], at["sd"], shape=n_rows)
                case "student_t":
                    dof = at.get("dof", self.emission.dof)
                    out[column] = pm.StudentT.dist(dof, at["location"], at["scale"], shape=n_rows)
                case "bernoulli":
                    out[column] = pm.Bernoulli.dist(p=at["probability"], shape=n_rows)
                case "binomial":
                    out[column] = pm.Binomial.dist(self.emission.trials, at["probability"], shape=n_rows)
                case "poisson":
                    out[column] = pm.Poisson.dist(at["rate"], shape=n_rows)
                case _:
                    out[column] = pm.Exponential.dist(at["rate"], shape=n_rows)
        return out


def _inside(p: np.ndarray) -> np.ndarray:
    """Probabilities away from zero."""
    p = 0.95 * p + 0.05 / p.shape[-1]
    return p / p.sum(axis=-1, keepdims=True)


def _categorical(probability: Any, codes: np.ndarray) -> Any:
    import pytensor.tensor as pt

    seen = ~np.isnan(codes)
    picked = pt.log(probability).T[np.where(seen, codes, 0).astype(np.int64)]
    return picked if seen.all() else pt.where(seen[:, None], picked, 0.0)


def _diagonal(scale: np.ndarray) -> np.ndarray:
    return np.diag(scale) if np.ndim(scale) == 2 else np.asarray(scale)
