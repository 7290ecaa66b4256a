"""Gibbs sampling of mixtures: a fixed number of components, or a sampled one; and cluster summaries of draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bayeslab.distributions.emissions import ConjugateEmission
from bayeslab.errors import OptionError, Reason
from bayeslab.families.mixture.expectation_maximisation import first_guess
from bayeslab.families.mixture.model import Resolved
from bayeslab.latents.labels.clusters import MOST_PAIRED, coclustering_of_many, point_partition
from bayeslab.latents.labels.labels import drawn_labels
from bayeslab.latents.partitions.component_number import PartitionSampler, integrable
from bayeslab.latents.sampler import Arrays, recorded, stacked
from bayeslab.posterior.answer import GibbsDraws, GibbsPlan, Note
from bayeslab.posterior.latent_modes import ModeStarts
from bayeslab.posterior.mixtures.gibbs import mixture_sampler
from bayeslab.posterior.mixtures.search import MixtureOptions, fit_mixture
from bayeslab.posterior.mixtures.starts import Start
from bayeslab.posterior.relabelling import evenly

__all__ = ["by_gibbs", "cluster_summaries", "number_sampled"]

# Number of label draws for summaries.
_LABEL_DRAWS = 500
# Starts of searches for modes, in turn.
_STARTS: tuple[Start, ...] = ("k_means++", "random", "k_means")
# Number of label draws at each of them, for co-clustering probabilities.
_LABELS = 8
_WRITTEN = "the priors of mean, sd or correlation are not conjugate"


def by_gibbs(resolved: Resolved) -> GibbsPlan | str:
    """Plan of Gibbs sampling of labels and parameters, or the reason against it."""
    if resolved.problem.latent.no_gibbs:
        return Reason(resolved.problem.latent.no_gibbs, code="not-conjugate")
    if resolved.searched is not None:
        return resolved.searched
    if not resolved.conjugate:
        return Reason(f"{_WRITTEN}; use nuts", code="not-conjugate")
    for part in resolved.parts.values():
        if not isinstance(part.emission, ConjugateEmission):
            return Reason(
                f"{type(part.emission).__name__} components have no conjugate prior; use nuts", code="not-conjugate"
            )
    if resolved.tied is not None:
        return resolved.tied

    problem = resolved.problem

    def search(k: int, rng: np.random.Generator) -> Mapping[str, Any]:
        begin = _STARTS[k % len(_STARTS)]
        options = MixtureOptions(method="map", restarts=1, start=begin, max_iterations=50, repairs=1)
        return fit_mixture(problem, options, rng=rng, start=None if k else first_guess(resolved)).parameters

    exchangeable = problem.latent.allowed is None and "reported" not in resolved.parts
    starts = ModeStarts(problem.with_weak_prior(), search, exchangeable)

    def finish(kept: Mapping[int, Arrays], n_draws: int) -> GibbsDraws:
        values = [
            [resolved.values({name: v[i] for name, v in chain.items() if name != "log_likelihood"})
             for i in range(n_draws)]
            for chain in kept.values()
        ]  # fmt: skip
        arrays = {n: np.stack([np.stack([v[n] for v in chain]) for chain in values]) for n in resolved.dims}
        flat = {n: np.concatenate([chain[n][:n_draws] for chain in kept.values()]) for n in problem.kinds()}
        notes = () if exchangeable else starts.unseen(flat)
        return GibbsDraws(arrays, {"log_likelihood": stacked(kept, "log_likelihood", n_draws)}, notes=notes)

    # If only the weights' prior distinguishes components, the posterior has several modes.
    swaps = np.ndim(problem.latent.dirichlet) > 0 and exchangeable
    how = f"{len(resolved.rows):,} labels and the parameters of {resolved.n_components} components in turns"
    return GibbsPlan(how, recorded(mixture_sampler(problem, starts, swaps), finish), resolved.dims, resolved.labels)


def number_sampled(resolved: Resolved, rows: str) -> GibbsPlan | str:
    """Plan of sampling partitions, and so the number of components, with parameters integrated out; or the reason."""
    assert resolved.number is not None
    if not resolved.conjugate:
        return Reason(
            f"{_WRITTEN}, so that components cannot be integrated out; give those of components, or a number",
            code="not-conjugate",
        )
    try:
        integrable(resolved.problem.emission, resolved.rows)
    except OptionError as error:
        return Reason(error.message, code=error.code)
    prior = resolved.number
    highest = len(prior.log_probability)

    sampler = PartitionSampler(resolved.problem.emission, resolved.rows, prior)

    def finish(kept: Mapping[int, Arrays], n_draws: int) -> GibbsDraws:
        posterior = sampler.posterior(kept, n_draws)
        joint = prior.log_joint(len(resolved.rows))
        given = np.exp(joint - np.where(np.isfinite(joint), joint, -np.inf).max(axis=1, keepdims=True, initial=-1e300))
        cumulated = np.cumsum(given, axis=1)[posterior.n_clusters]
        point = stacked(kept, "uniform", n_draws)[..., None] * cumulated[..., -1:]
        number = 1 + (point >= cumulated).sum(axis=-1)
        flat = posterior.labels.reshape(-1, posterior.labels.shape[-1])
        groups: dict[str, Any] = {
            "number": {
                "probability": (("n_components",), posterior.probability),
                "probability_of_clusters": (("n_components",), posterior.clusters),
            },
            "clusters": _summaries(flat, rows),
        }
        ends = ", ".join(f"{k}: {p:.2f}" for k, p in enumerate(posterior.probability, 1) if p >= 0.005)
        accepted = 100 * float(np.mean(posterior.accepted))
        notes = (
            Note("pass", "components", f"posterior of the number of components {ends}"),
            Note("pass", "merge-split", f"{accepted:.0f} % of the proposals to merge or split clusters were accepted"),
        )
        drawn = {"n_components": number, "n_clusters": posterior.n_clusters}
        return GibbsDraws(drawn, {"lp": posterior.log_density}, groups, notes)

    labels = {"n_components": np.arange(1, highest + 1)}
    how = f"partitions of {len(resolved.rows):,} rows into up to {highest} components, parameters integrated out"
    return GibbsPlan(how, recorded(sampler, finish), {"n_components": (), "n_clusters": ()}, labels)


def _thinned(values: np.ndarray) -> np.ndarray:
    return values[evenly(len(values), _LABEL_DRAWS)]


def _summaries(labels: np.ndarray, rows: str) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The partition with the smallest expected variation of information, and the co-clustering probabilities."""
    if labels.shape[1] > MOST_PAIRED:
        return {}
    return {
        "partition": ((rows,), point_partition(_thinned(labels)).labels),
        "together": ((rows, f"{rows}_2"), coclustering_of_many(labels)),
    }


def cluster_summaries(
    resolved: Resolved, responsibilities: Iterable[tuple[Any, np.ndarray]], rows: str, rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Summaries from the responsibilities at every draw.

    Probabilities depend on component labels and are meaningful after relabelling; the partition and the co-clustering
    probabilities are label-invariant.
    """
    total, labels, n = np.zeros((len(resolved.rows), resolved.n_components)), [], 0
    for _, r in responsibilities:
        total += r
        n += 1
        labels += [drawn_labels(r, rng.random(len(r))) for _ in range(_LABELS)]
    probability = total / max(n, 1)
    out: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "probability": ((rows, "component"), probability),
        "component_of": ((rows,), probability.argmax(axis=1)),
    }
    return out | _summaries(np.stack(labels), rows)


def some_draws(draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A subset of the draws for cluster summaries."""
    return {name: _thinned(values) for name, values in draws.items()}
