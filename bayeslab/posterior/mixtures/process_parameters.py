"""Steps over partitions in which clusters keep their parameters: components without a conjugate prior."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from bayeslab.errors import ModelError
from bayeslab.language.numeric_priors import numbers
from bayeslab.latents.labels.clusters import canonical
from bayeslab.latents.partitions import auxiliary_process as process
from bayeslab.latents.partitions.auxiliary_process import Atoms, BaseLaw, IndependentNormals, StudentsT, sweep
from bayeslab.latents.partitions.dirichlet_process import ProcessPrior, draw_concentration, restaurant
from bayeslab.latents.sampler import Arrays, frozen, thawed
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture
from bayeslab.posterior.mixtures.partition_chains import PartitionSteps
from bayeslab.posterior.observed.normal import Normal
from bayeslab.posterior.observed.student_t import StudentT
from bayeslab.streams import place_among_spawned

__all__ = ["PARAMETERS", "AuxiliarySteps", "base_law"]

# Parameters of the clusters, with their dimensions.
PARAMETERS: dict[str, tuple[str, ...]] = {
    "means": ("cluster", "coordinate"),
    "roots": ("cluster", "coordinate", "coordinate_2"),
    "dofs": ("cluster",),
}
# Number of updates of the parameters to reach the posterior after rows are added to a fit.
_SETTLING = 20

# Priors of means and sds as SciPy distributions: parameters in the model language, and SciPy's arguments.
_LAWS: dict[str, tuple[tuple[str, ...], Callable[..., tuple[str, dict[str, float]]]]] = {
    "Normal": (("mu", "sigma"), lambda mu, sigma: ("norm", {"loc": mu, "scale": sigma})),
    "StudentT": (("nu", "mu", "sigma"), lambda nu, mu, sigma: ("t", {"df": nu, "loc": mu, "scale": sigma})),
    "Cauchy": (("alpha", "beta"), lambda alpha, beta: ("cauchy", {"loc": alpha, "scale": beta})),
    "Laplace": (("mu", "b"), lambda mu, b: ("laplace", {"loc": mu, "scale": b})),
    "Uniform": (("lower", "upper"), lambda lower, upper: ("uniform", {"loc": lower, "scale": upper - lower})),
    "HalfNormal": (("sigma",), lambda sigma: ("halfnorm", {"scale": sigma})),
    "HalfCauchy": (("beta",), lambda beta: ("halfcauchy", {"scale": beta})),
    "Exponential": (("lam",), lambda lam: ("expon", {"scale": 1 / lam})),
    "Gamma": (("alpha", "beta"), lambda alpha, beta: ("gamma", {"a": alpha, "scale": 1 / beta})),
    "InverseGamma": (("alpha", "beta"), lambda alpha, beta: ("invgamma", {"a": alpha, "scale": beta})),
    "LogNormal": (("mu", "sigma"), lambda mu, sigma: ("lognorm", {"s": sigma, "scale": float(np.exp(mu))})),
}


def base_law(mixture: BoundMixture) -> BaseLaw | str:
    """The base distribution of components, or the reason why these steps do not support it."""
    parts = list(mixture.parts.values())
    if len(parts) > 1:
        return "columns of several kinds need conjugate priors only; use nuts"
    part = parts[0]
    if np.isnan(mixture.rows).any():
        return "components without a conjugate prior take no missing cells here; use nuts"
    if isinstance(part, StudentT):
        assert part.emission.prior is not None
        return StudentsT(part.emission.prior, part.emission.dof)
    if not isinstance(part, Normal):
        return "these components have no conjugate prior; use nuts"
    words = {name: law for name, (law, _) in _LAWS.items()}
    try:
        laws = {name: _frozen(*numbers(part.free[name], words, name)) for name in ("mean", "sd")}
    except ModelError as error:
        return f"{error.message}; use nuts"
    return IndependentNormals(laws["mean"], laws["sd"], mixture.rows.std(axis=0))


def _frozen(word: str, given: tuple[Any, ...]) -> Any:
    """A SciPy distribution."""
    name, parameters = _LAWS[word][1](*(float(x) for x in given))
    return getattr(stats, name)(**parameters)


@dataclass(frozen=True, eq=False)
class AuxiliarySteps(PartitionSteps):
    """Labels of the rows and parameters of their clusters in turns, with auxiliary components."""

    law: BaseLaw
    rows: np.ndarray
    prior: ProcessPrior

    recorded = ("n_clusters", "entropy", "largest", "log_likelihood", "alpha")

    def first(self, rng: np.random.Generator) -> Arrays:
        """Every other chain starts in one cluster, the others at a partition from the prior."""
        n, alpha = len(self.rows), self.prior.begin
        labels = np.zeros(n, np.int64)
        if place_among_spawned(rng) % 2:
            labels = restaurant(n, alpha, discount=self.prior.discount, rng=rng)
        atoms = self.law.update(rng, self.rows, labels, self.law.draw(rng, int(labels.max()) + 1))
        return _state(labels, atoms, alpha, rng)

    def joined(self, labels: np.ndarray, alpha: float, rng: np.random.Generator) -> Arrays:
        first = self.rows[: len(labels)]
        atoms = self.law.draw(rng, int(labels.max()) + 1)
        for _ in range(_SETTLING):
            atoms = self.law.update(rng, first, labels, atoms)
        given = (self.law, self.rows, labels, atoms, alpha, self.prior.discount, rng)
        return _state(*process.seated(*given), alpha, rng)

    def advance(
        self, state: Arrays, keep: np.ndarray, search: np.ndarray
    ) -> tuple[Arrays, np.ndarray, Iterable[Arrays]]:
        rng, labels, alpha = thawed(state["rng"]), state["labels"].astype(np.int64), float(state["alpha"])
        atoms = Atoms(*(state[name] for name in PARAMETERS))
        values, stored = np.empty((len(keep), len(self.recorded))), []
        for k, kept in enumerate(keep):
            labels, atoms = sweep(self.law, self.rows, labels, atoms, alpha, self.prior.discount, rng)
            if isinstance(self.prior.alpha, tuple):
                alpha = draw_concentration(self.prior, alpha, len(atoms.means), len(labels), rng)
            values[k] = self._numbers(labels, atoms, alpha)
            if kept:
                shown = atoms.some(np.argsort(np.unique(labels, return_index=True)[1]))
                parameters = {name: getattr(shown, name) for name in PARAMETERS}
                stored.append(
                    {"labels": canonical(labels).astype(np.int32), "concentration": np.array(alpha), **parameters}
                )
        return _state(labels, atoms, alpha, rng), values, stored

    def _numbers(self, labels: np.ndarray, atoms: Atoms, alpha: float) -> tuple[float, ...]:
        share = np.bincount(labels) / len(labels)
        fit = atoms.log_density(self.rows)[np.arange(len(labels)), labels].sum()
        return len(share), float(-np.sum(share * np.log(share))), float(share.max()), float(fit), alpha


def _state(labels: np.ndarray, atoms: Atoms, alpha: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    parameters = {name: getattr(atoms, name) for name in PARAMETERS}
    return {"labels": labels.astype(np.int32), "alpha": np.array(alpha), "rng": frozen(rng), **parameters}
