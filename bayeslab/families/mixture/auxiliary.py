"""Process mixtures whose components have no conjugate prior: Gibbs chains in which clusters keep their parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from bayeslab.distributions.emissions.normal_rows import fill_normal
from bayeslab.errors import ModelError, OptionError, Stopped
from bayeslab.families.mixture.model import Resolved
from bayeslab.families.mixture.prior_numbers import numbers
from bayeslab.families.mixture.shares import drawn_shares
from bayeslab.latents.labels.clusters import canonical
from bayeslab.latents.labels.labels import drawn_labels
from bayeslab.latents.partitions import auxiliary_process as process
from bayeslab.latents.partitions.auxiliary_process import Atoms, BaseLaw, IndependentNormals, StudentsT, sweep
from bayeslab.latents.partitions.dirichlet_process import ProcessPrior, draw_concentration, restaurant
from bayeslab.latents.sampler import Arrays, Chains, frozen, thawed
from bayeslab.posterior.answer import GibbsDraws, GibbsPlan, Note
from bayeslab.posterior.observed.normal import Normal
from bayeslab.posterior.observed.student_t import StudentT

__all__ = ["by_auxiliary", "joined", "kept_of"]

# Label-invariant quantities of each draw.
TOLD = ("n_clusters", "entropy", "largest", "log_likelihood", "alpha")
# Largest number of rows: each is reassigned in turn, with fresh auxiliary components.
_MOST_ROWS = 20_000
# Update of the components' parameters, and number of steps to reach the posterior after rows are added to a fit.
_ATOMS, _SETTLING = ("means", "roots", "dofs"), 20
# Number of prior draws that represent a new cluster, for a row with some observed cells.
_FRESH = 200
# Largest number of label cells stored in a chain, and smallest number of draws.
_KEPT_CELLS, _KEPT = 5_000_000, 10

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


def base_law(resolved: Resolved) -> BaseLaw | str:
    """The base distribution of components, or the reason why these steps do not support it."""
    parts = list(resolved.parts.values())
    if len(parts) > 1:
        return "columns of several kinds go with conjugate priors only; use nuts"
    part = parts[0]
    if np.isnan(resolved.rows).any():
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
    return IndependentNormals(laws["mean"], laws["sd"], resolved.rows.std(axis=0))


def _frozen(word: str, given: tuple[Any, ...]) -> Any:

    name, parameters = _LAWS[word][1](*(float(x) for x in given))
    return getattr(stats, name)(**parameters)


@dataclass(frozen=True, eq=False)
class _Sampler:
    """Chains as arrays: see :class:`bayeslab.latents.sampler.Chains`."""

    law: BaseLaw
    rows: np.ndarray
    prior: ProcessPrior

    def begin(self, rng: np.random.Generator, draws: int, tune: int) -> Arrays:
        """Every other chain starts in one cluster, the others at a partition from the prior."""
        seed: Any = rng.bit_generator.seed_seq
        n, alpha = len(self.rows), self.prior.begin
        labels = np.zeros(n, np.int64)
        if int(seed.spawn_key[-1]) % 2:
            labels = restaurant(n, alpha, discount=self.prior.discount, rng=rng)
        atoms = self.law.update(rng, self.rows, labels, self.law.draw(rng, int(labels.max()) + 1))
        return self.at(labels, atoms, alpha, rng, draws, tune)

    def joined(
        self, labels: np.ndarray, alpha: float, rng: np.random.Generator, draws: int, tune: int
    ) -> Mapping[str, np.ndarray]:
        """A chain that starts at a partition of the first rows, with the other rows assigned."""
        first = self.rows[: len(labels)]
        atoms = self.law.draw(rng, int(labels.max()) + 1)
        for _ in range(_SETTLING):
            atoms = self.law.update(rng, first, labels, atoms)
        given = (self.law, self.rows, labels, atoms, alpha, self.prior.discount, rng)
        return self.at(*process.seated(*given), alpha, rng, draws, tune)

    def at(
        self, labels: np.ndarray, atoms: Atoms, alpha: float, rng: np.random.Generator, draws: int, tune: int
    ) -> Arrays:
        """A chain that starts at this state, with room for the stored draws."""
        n, d = self.rows.shape
        kept = min(draws, max(_KEPT, _KEPT_CELLS // n))
        return {
            **_arrays(labels, atoms, alpha, rng),
            "kept_means": np.zeros((kept, 1, d)),
            "kept_roots": np.zeros((kept, 1, d, d)),
            "kept_dofs": np.zeros((kept, 1)),
            "done": np.array(0),
            "tune": np.array(tune),
            "told": np.zeros((draws, len(TOLD))),
            "kept": np.zeros((kept, n), np.int32),
            "kept_alpha": np.zeros(kept),
        }

    def advance(self, chain: Arrays, sweeps: int) -> Arrays:
        rng, labels, alpha = thawed(chain["rng"]), chain["labels"].astype(np.int64), float(chain["alpha"])
        atoms = Atoms(chain["means"], chain["roots"], chain["dofs"])
        summaries, kept, alphas = (chain[name].copy() for name in ("told", "kept", "kept_alpha"))
        held = [chain[f"kept_{name}"].copy() for name in _ATOMS]
        done, tune = int(chain["done"]), int(chain["tune"])
        for draw in range(done - tune, done - tune + sweeps):
            labels, atoms = sweep(self.law, self.rows, labels, atoms, alpha, self.prior.discount, rng)
            count = len(atoms.means)
            if isinstance(self.prior.alpha, tuple):
                alpha = draw_concentration(self.prior, alpha, count, len(labels), rng)
            if draw < 0:
                continue
            summaries[draw] = self._summary(labels, atoms, alpha)
            place = draw * len(kept) // len(summaries)
            if (draw + 1) * len(kept) // len(summaries) > place:
                kept[place], alphas[place] = canonical(labels), alpha
                sorted_atoms = atoms.some(np.argsort(np.unique(labels, return_index=True)[1]))
                held = [_with_room(values, count) for values in held]
                for values, name in zip(held, _ATOMS, strict=True):
                    values[place, :count] = getattr(sorted_atoms, name)
        now = {
            "done": np.array(done + sweeps),
            "tune": chain["tune"],
            "told": summaries,
            "kept": kept,
            "kept_alpha": alphas,
        }
        now |= {f"kept_{name}": values for name, values in zip(_ATOMS, held, strict=True)}
        return {**_arrays(labels, atoms, alpha, rng), **now}

    def _summary(self, labels: np.ndarray, atoms: Atoms, alpha: float) -> tuple[float, ...]:
        share = np.bincount(labels) / len(labels)
        fit = atoms.log_density(self.rows)[np.arange(len(labels)), labels].sum()
        return len(share), float(-np.sum(share * np.log(share))), float(share.max()), float(fit), alpha


def _with_room(values: np.ndarray, count: int) -> np.ndarray:
    """The same state, with room for this many clusters."""
    short = count - values.shape[1]
    if short <= 0:
        return values
    return np.concatenate([values, np.zeros((len(values), short, *values.shape[2:]))], axis=1)


def _arrays(labels: np.ndarray, atoms: Atoms, alpha: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    atom_arrays = {"means": atoms.means, "roots": atoms.roots, "dofs": atoms.dofs}
    return {"labels": labels.astype(np.int32), "alpha": np.array(alpha), "rng": frozen(rng), **atom_arrays}


def by_auxiliary(resolved: Resolved, rows: str) -> GibbsPlan | str:
    """Plan of Gibbs sampling of labels and cluster parameters with auxiliary components, or the reason against it."""
    prior = resolved.process
    assert prior is not None
    if isinstance(prior.alpha, str):
        return "empirical_bayes goes with conjugate components; give the concentration a number, or Gamma(1, 1)"
    law = base_law(resolved)
    if isinstance(law, str):
        return law
    if len(resolved.rows) > _MOST_ROWS:
        return (
            f"components without a conjugate prior are offered for up to {_MOST_ROWS:,} rows; use nuts or variational"
        )
    sampler = _Sampler(law, np.ascontiguousarray(resolved.rows, float), prior)
    names = TOLD if isinstance(prior.alpha, tuple) else TOLD[:-1]

    def finish(chains: Mapping[int, Arrays]) -> GibbsDraws:
        return _finished(names, chains, rows)

    how = f"{len(resolved.rows):,} labels and the parameters of their clusters in turns, with auxiliary components"
    dims: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    return GibbsPlan(how, Chains(sampler.begin, sampler.advance, finish), dims)


def _finished(names: tuple[str, ...], chains: Mapping[int, Arrays], rows: str) -> GibbsDraws:
    n_draws = min((int(chain["done"] - chain["tune"]) for chain in chains.values()), default=0)
    first = next(iter(chains.values()), None)
    many = 0 if first is None else n_draws * len(first["kept"]) // len(first["told"])
    if first is None or many < 1:
        raise Stopped(
            "stopped before every chain had kept a draw; go on with `bayeslab fit --resume RUN`", code="stopped"
        )
    summaries = np.stack([chain["told"][:n_draws] for chain in chains.values()])
    draws = {name: summaries[..., TOLD.index(name)] for name in names}
    draws["n_clusters"] = draws["n_clusters"].astype(np.int64)
    of_draw = np.minimum(np.arange(n_draws) * len(first["kept"]) // len(first["told"]), many - 1)
    counts = np.bincount(draws["n_clusters"].ravel())
    groups: dict[str, Any] = {
        "partitions": {
            "labels": (("chain", "kept", rows), np.stack([chain["kept"][:many] for chain in chains.values()])),
            "concentration": (("chain", "kept"), np.stack([c["kept_alpha"][:many] for c in chains.values()])),
            "of_draw": (("chain", "draw"), np.tile(of_draw, (len(chains), 1))),
            **_held(chains, many),
        },
        "number": {
            "n_clusters": (("number",), np.arange(1, len(counts))),
            "probability": (("number",), counts[1:] / counts.sum()),
        },
    }
    shown = ", ".join(f"{k}: {p:.2f}" for k, p in enumerate(counts / counts.sum()) if p >= 0.005)
    notes = (Note("pass", "clusters", f"posterior of the number of clusters {shown}"),)
    return GibbsDraws(draws, {"log_likelihood": summaries[..., TOLD.index("log_likelihood")]}, groups, notes)


def _held(chains: Mapping[int, Arrays], many: int) -> dict[str, Any]:
    """The parameters of clusters of all chains."""
    dims = {"means": ("coordinate",), "roots": ("coordinate", "coordinate_2"), "dofs": ()}
    room = max(chain["kept_dofs"].shape[1] for chain in chains.values())
    out = {}
    for name in _ATOMS:
        each = [_with_room(chain[f"kept_{name}"][:many], room) for chain in chains.values()]
        out[name] = (("chain", "kept", "cluster", *dims[name]), np.stack(each))
    return out


# --------------------------------------------------------------------------------- summaries of draws


@dataclass(frozen=True, eq=False)
class Held:
    """Stored partitions and the parameters of their clusters, as :class:`.dirichlet_process.Kept` for partitions.

    Attributes
    ----------
    law : BaseLaw
    rows : ndarray (N, d)
        Rows of the fit.
    discount : float
    labels : ndarray (S, N) of int
    alphas : ndarray (S,)
    of_draw : ndarray (draws,)
    atoms : Atoms
        Parameters of the clusters, (S, K, ...), with K the largest number of clusters of a partition.
    """

    law: BaseLaw
    rows: np.ndarray
    discount: float
    labels: np.ndarray
    alphas: np.ndarray
    of_draw: np.ndarray
    atoms: Atoms

    def _at(self, s: int) -> tuple[np.ndarray, Atoms, float, float]:
        """A partition, the components of its clusters, α and the discount."""
        labels, a = self.labels[s].astype(np.int64), self.atoms
        count = int(labels.max()) + 1
        atoms = Atoms(a.means[s, :count], a.roots[s, :count], a.dofs[s, :count])
        return labels, atoms, float(self.alphas[s]), self.discount

    @cached_property
    def _alone(self) -> np.ndarray:
        return self.law.log_marginal(self.rows)

    def predictions(self, rows: np.ndarray, which: Iterable[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        alone = self.law.log_marginal(rows)
        return (process.predict(*self._at(s), rows, alone) for s in which)

    def left_out(self) -> Iterator[np.ndarray]:
        return (process.leave_one_out(*self._at(s), self.rows, self._alone) for s in range(len(self.labels)))

    def replicated(self, resolved: Resolved, s: int, rng: np.random.Generator) -> np.ndarray:
        labels, atoms, alpha, discount = self._at(s)
        weights = drawn_shares(discount, labels, alpha, rng)
        atoms = atoms.joined(self.law.draw(rng, len(weights) - len(atoms.means)))
        return atoms.sample(rng, rng.choice(len(weights), size=len(resolved.rows), p=weights))

    def completed(self, resolved: Resolved, s: int, rng: np.random.Generator) -> np.ndarray:
        _, atoms, _, _ = self._at(s)
        ((_, probabilities),) = self.predictions(resolved.rows, [s])
        # A new cluster's parameters are chosen among many prior draws, with weights by their likelihood of the row.
        fresh = self.law.draw(rng, _FRESH)
        log_density = fresh.log_density(resolved.rows)
        chance = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        chance *= probabilities[:, -1:] / chance.sum(axis=1, keepdims=True)
        cluster = drawn_labels(np.hstack([probabilities[:, :-1], chance]), rng.random(len(probabilities)))
        every, rows = atoms.joined(fresh), resolved.rows.copy()
        lower = np.linalg.inv(every.roots)
        fill_normal(rows, cluster, every.means, lower @ lower.transpose(0, 2, 1), every.dofs, rng)
        return rows


def kept_of(resolved: Resolved, draws: Mapping[str, np.ndarray]) -> Held:
    """Read from draws and the group ``partitions``.

    Raises
    ------
    OptionError
        The fit is from an earlier version, which did not store parameters.
    """
    law = base_law(resolved)
    assert not isinstance(law, str)
    assert resolved.process is not None
    if "_means" not in draws:
        raise OptionError("the parameters of clusters were not kept in this fit; fit again", code="not-kept")
    atoms = Atoms(*(draws[f"_{name}"] for name in _ATOMS))
    kept = (draws["_labels"], draws["_concentration"], draws["_of_draw"])
    return Held(law, np.ascontiguousarray(resolved.rows, float), resolved.process.discount, *kept, atoms)


def joined(
    resolved: Resolved, labels: np.ndarray, alphas: np.ndarray, seed: int, options: Any
) -> dict[int, Mapping[str, np.ndarray]]:
    """Chains that start at partitions of the first rows (chains, n), with the other rows assigned."""
    law = base_law(resolved)
    if isinstance(law, str):
        raise OptionError(law, code="not-conjugate")
    assert resolved.process is not None
    sampler = _Sampler(law, np.ascontiguousarray(resolved.rows, float), resolved.process)
    begun = enumerate(np.random.default_rng(seed).spawn(len(labels)))
    given = (options.draws, options.tune)
    return {k: sampler.joined(labels[k].astype(np.int64), float(alphas[k]), rng, *given) for k, rng in begun}
