"""Binary features by Gibbs sampling: a fixed number, or an unbounded one under the Indian buffet process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bayeslab.digits import Moments
from bayeslab.families.latent_features.model import Resolved, Written
from bayeslab.latents.features.binary_features import BinaryDraws, BinaryPrior, FeatureSampler, draws_of
from bayeslab.latents.features.feature_matching import match_columns, permutations
from bayeslab.latents.sampler import Arrays, recorded
from bayeslab.posterior.answer import GibbsDraws, GibbsPlan, Note

__all__ = ["by_gibbs", "prior_of"]

# Number of draws for summaries of the features.
_DRAWS = 500


def prior_of(resolved: Resolved) -> BinaryPrior:
    """The prior in the sampler's form."""

    def scale(given: Any) -> Any:
        return given.density() if isinstance(given, Written) else given

    return BinaryPrior(
        resolved.features,
        scale(resolved.noise[0]),
        scale(resolved.scale[0]),
        resolved.probability,
        resolved.alpha,
        resolved.centre if resolved.offset else None,
        float(resolved.offset_scale[0]),
    )


def by_gibbs(resolved: Resolved, rows: str) -> GibbsPlan:
    """Gibbs sampling of the entries of Z, with the weights integrated out."""

    def finish(kept: Mapping[int, Arrays], n_draws: int) -> GibbsDraws:
        chains = [draws_of(chain, n_draws) for chain in kept.values()]
        if resolved.offset:
            chains = _facing(resolved, chains)
        values = {name: np.stack([getattr(one, name) for one in chains]) for name in _monitored(resolved)}
        groups: dict[str, Any] = {"features": _summaries(resolved, chains, rows)}
        if resolved.features is None:
            groups["states"] = _padded(chains, groups["features"]["z"][1])
        else:
            values["loading"] = np.stack([np.stack([a.T for a in one.loading]) for one in chains])
            values["probability"] = np.stack([np.stack(one.probability) for one in chains])
        if resolved.offset:
            values["mean"] = np.stack([one.offset for one in chains])
        stats = {"lp": np.stack([one.log_joint for one in chains])}
        return GibbsDraws(values, stats, groups, (_number(resolved, chains),))

    n, d = resolved.rows.shape
    many = "as many features as the buffet brings" if resolved.features is None else f"{resolved.features} features"
    dims: dict[str, tuple[str, ...]] = dict.fromkeys(_monitored(resolved), ())
    if resolved.features is not None:
        dims |= {"loading": ("column", "feature"), "probability": ("feature",)}
    if resolved.offset:
        dims["mean"] = ("column",)
    how = f"{n:,} rows of {d} columns, {many}, their weights integrated out"
    sampler = FeatureSampler(resolved.rows, prior_of(resolved))
    return GibbsPlan(how, recorded(sampler, finish), dims, resolved.labels)


def _monitored(resolved: Resolved) -> list[str]:
    """Names of the label-invariant parameters."""
    out = ["n_features", "log_likelihood"]
    out += ["noise"] if isinstance(resolved.noise[0], Written) else []
    out += ["scale"] if isinstance(resolved.scale[0], Written) else []
    out += ["alpha"] if resolved.features is None and isinstance(resolved.alpha, tuple) else []
    return out


def _facing(resolved: Resolved, chains: Sequence[BinaryDraws]) -> list[BinaryDraws]:
    """Draws with consistent feature orientation: with an offset, a feature and its complement are equivalent.

    The orientation is that of the draw with the highest joint density, in which fewer than half of the rows have it.
    """
    best = max(chains, key=lambda one: float(one.log_joint.max()))
    pivot = best.z[int(best.log_joint.argmax())]
    pivot = np.where(2 * pivot.sum(axis=0) > len(pivot), 1 - pivot, pivot)
    for one in chains:
        for s, z in enumerate(one.z):
            names = match_columns(np.hstack([pivot, 1 - pivot]), z)
            n, k = z.shape[0], pivot.shape[1]
            back = np.where(names < 0, 2 * z.sum(axis=0) > n, names >= k)
            if back.any():
                one.offset[s] += one.loading[s][back].sum(axis=0)
                one.z[s] = np.where(back, 1 - z, z).astype(np.int8)
                one.loading[s] = np.where(back[:, None], -one.loading[s], one.loading[s])
                one.probability[s] = np.where(back, 1 - one.probability[s], one.probability[s])
    return list(chains)


def _number(resolved: Resolved, chains: Sequence[BinaryDraws]) -> Note:
    number = np.concatenate([one.n_features for one in chains])
    shares = np.bincount(number) / len(number)
    ends = ", ".join(f"{k}: {p:.2f}" for k, p in enumerate(shares) if p >= 0.005)
    return Note("pass", "features", f"posterior of the number of features that some row has {ends}")


def _padded(chains: Sequence[BinaryDraws], pivot: np.ndarray) -> dict[str, Any]:
    """Weights and probabilities of every draw: the pivot draw's features come first; absent features are zero."""
    names = [[_slots(match_columns(pivot, z), pivot.shape[1]) for z in one.z] for one in chains]
    most = max((int(n.max()) + 1 for chain in names for n in chain if len(n)), default=1)
    most = max(most, pivot.shape[1], 1)
    shape = (len(chains), len(chains[0].noise))
    loading, probability = np.zeros((*shape, chains[0].offset.shape[1], most)), np.zeros((*shape, most))
    for c, one in enumerate(chains):
        for s, slots in enumerate(names[c]):
            loading[c, s][:, slots], probability[c, s, slots] = one.loading[s].T, one.probability[s]
    return {
        "loading": (("chain", "draw", "column", "slot"), loading),
        "probability": (("chain", "draw", "slot"), probability),
        "named": (("chain", "draw", "slot"), np.broadcast_to(np.arange(most) < pivot.shape[1], probability.shape)),
    }


def _slots(names: np.ndarray, first: int) -> np.ndarray:
    """Features that the pivot draw lacks come after the others."""
    out = names.copy()
    out[names < 0] = first + np.arange((names < 0).sum())
    return out


def _summaries(resolved: Resolved, chains: Sequence[BinaryDraws], rows: str) -> dict[str, Any]:
    """Features of all draws under a common numbering, and the draw with the highest joint density."""
    every = [(one, s) for one in chains for s in range(len(one.z))]
    top = int(np.argmax(np.concatenate([one.log_joint for one in chains])))
    best, at = every[top]
    if resolved.features is None:
        order = np.argsort(-best.z[at].sum(axis=0), kind="stable")
        pivot = best.z[at][:, order]
    else:
        # The same numbering as in the posterior.
        places = np.argsort(permutations(np.stack([one.loading[s].T for one, s in every]))[0], axis=1)
        pivot = best.z[at][:, np.argsort(places[top])]
    n, k = pivot.shape
    d = best.offset.shape[1]
    active, present = np.zeros((n, k)), np.zeros(k)
    weights, rebuilt = Moments((k, d)), np.zeros((n, d))
    some = np.unique(np.linspace(0, len(every) - 1, min(len(every), _DRAWS)).astype(int))
    for i in some:
        one, s = every[i]
        z, loading = one.z[s], one.loading[s]
        rebuilt += one.offset[s] + z @ loading
        names = match_columns(pivot, z) if resolved.features is None else places[i]
        mine = names >= 0
        active[:, names[mine]] += z[:, mine]
        present[names[mine]] += z[:, mine].any(axis=0)
        weights.add(loading[mine], names[mine])
    return {
        "active": ((rows, "feature"), active / len(some)),
        "z": ((rows, "feature"), pivot),
        "present": (("feature",), present / len(some)),
        "loading": (("column", "feature"), weights.mean.T),
        "loading_sd": (("column", "feature"), weights.sd.T),
        "reconstruction": ((rows, "column"), rebuilt / len(some)),
    }
