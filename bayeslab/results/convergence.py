"""R-hat and effective sample sizes of plain arrays.

They are implemented here because importing ArviZ would delay the verdict; tests hold them equal to ArviZ's.

References
----------
.. [1] Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021). Rank-normalization, folding, and
   localization: an improved R-hat for assessing convergence of MCMC. Bayesian Analysis 16(2),
   667-718. arXiv:1903.08008
.. [2] Geyer (1992). Practical Markov chain Monte Carlo. Statistical Science 7(4), 473-483.
.. [3] Betancourt (2016). Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte
   Carlo. arXiv:1604.00695
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayeslab.labelled import Group

if TYPE_CHECKING:
    pass

__all__ = [
    "Array", "Block", "Convergence", "blocks", "convergence", "e_bfmi", "ess", "in_batches", "is_constant", "level",
    "quantile", "r_hat_and_ess", "split",
]  # fmt: skip

Array = NDArray[np.float64]

# A smaller range, relative to the value, is rounding error, as on the diagonal of a correlation matrix.
CONSTANT = 1e-12
BATCH = 1 << 18  # draws processed at a time: 2 MB, of which statistics make some twenty arrays


# The posterior as blocks of plain numbers


@dataclass(frozen=True)
class Block:
    """One variable of a posterior: its draws, and the labels of its elements."""

    name: str
    values: NDArray[Any]  # (chain, draw, *shape)
    levels: tuple[tuple[str, ...], ...]  # for each further dimension

    @property
    def size(self) -> int:
        return math.prod(self.values.shape[2:])

    def label(self, position: int) -> str:
        """The label of an element as ArviZ writes it, such as ``sigma`` or ``a[AITKIN]``."""
        if not self.levels:
            return self.name
        index = np.unravel_index(position, self.values.shape[2:])
        return f"{self.name}[{', '.join(names[i] for names, i in zip(self.levels, index, strict=True))}]"


def blocks(group: Group) -> list[Block]:
    """The numeric variables of a group with dimensions ``chain`` and ``draw``.

    A dimension without labels counts from 0.
    """
    out = []
    for name, variable in group.data_vars.items():
        if variable.dtype.kind in "biuf" and {"chain", "draw"} <= set(variable.dims):
            variable = variable.transpose("chain", "draw", ...)
            levels = tuple(tuple(level(x) for x in group[dim].values) for dim in variable.dims[2:])
            out.append(Block(name, variable.values, levels))
    return [block for block in out if block.size]


def level(value: Any) -> str:
    """The label of an element as text; a date without the time of day."""
    if isinstance(value, np.datetime64):
        return str(value).removesuffix(".000000000").removesuffix("T00:00:00")
    return str(value)


# Statistics of draws; arrays are (quantity, chain, draw) unless said otherwise


@dataclass(frozen=True)
class Convergence:
    """Convergence statistics per quantity; NaN where it is ``constant`` or not finite."""

    r_hat: Array
    ess_bulk: Array
    ess_tail: Array
    constant: NDArray[np.bool_]
    all_finite: NDArray[np.bool_]
    still: NDArray[np.bool_]  # (quantity, chain): never moves within the chain

    @property
    def varying(self) -> NDArray[np.bool_]:
        return self.all_finite & ~self.constant


def in_batches(variables: Sequence[Block], statistic: Callable[[Array], Array]) -> Array:
    """Apply ``statistic`` ((quantity, chain, draw) → (quantity, ...)) to all quantities, in threads."""

    def one(pieces: list[NDArray[Any]]) -> Array:
        draws = np.concatenate(pieces, axis=-1).astype(np.float64, copy=False)
        with np.errstate(all="ignore"):
            return statistic(np.ascontiguousarray(np.moveaxis(draws, -1, 0)))

    batches = list(batches_of(variables))
    if len(batches) == 1:
        return one(batches[0])
    with ThreadPoolExecutor(min(len(batches), os.cpu_count() or 1)) as pool:
        return np.concatenate(list(pool.map(one, batches)))


def batches_of(variables: Sequence[Block]) -> Iterator[list[NDArray[Any]]]:
    n_chains, n_draws = variables[0].values.shape[:2]
    whole = max(1, BATCH // (n_chains * n_draws))
    batch: list[NDArray[Any]] = []
    room = whole
    for block in variables:
        flat = block.values.reshape(n_chains, n_draws, -1)
        start = 0
        while start < block.size:
            piece = flat[:, :, start : start + room]
            batch.append(piece)
            start, room = start + piece.shape[-1], room - piece.shape[-1]
            if room == 0:
                yield batch
                batch, room = [], whole
    if batch:
        yield batch


def convergence(variables: Sequence[Block]) -> Convergence:
    """R-hat and ESS of every quantity, and whether it varies and is finite."""
    columns = in_batches(variables, _converged)
    r_hat, bulk, tail, constant, every = columns.T[:5]
    return Convergence(r_hat, bulk, tail, constant > 0, every > 0, columns[:, 5:] > 0)


def _converged(draws: Array) -> Array:
    finite = np.isfinite(draws)
    every = finite.all(axis=(1, 2))
    constant = every & is_constant(draws)
    still = draws.max(axis=2) == draws.min(axis=2)
    out = np.full((3, len(draws)), np.nan)
    varying = every & ~constant
    if varying.any():
        kept = draws if varying.all() else draws[varying]
        out[:, varying] = r_hat_and_ess(kept)
    return np.column_stack((*out, constant, every, still))


def is_constant(draws: Array) -> NDArray[np.bool_]:
    """Whether a quantity has the same value in all draws, up to rounding."""
    low, high = draws.min(axis=(1, 2)), draws.max(axis=(1, 2))
    return np.asarray(high - low <= CONSTANT * np.maximum(abs(low), abs(high)))


def r_hat_and_ess(draws: Array) -> tuple[Array, Array, Array]:
    """Rank-normalised split R-hat, bulk ESS and tail ESS of quantities that vary.

    Equal to ArviZ's, with two differences: a single chain has an R-hat too (from its halves), and the
    tail ESS uses the 5 % and 95 % quantiles, as in [1]_ (ArviZ 1.3 uses 11 % and 89 %).
    """
    halves = split(draws)
    flat = halves.reshape(len(halves), -1)
    order = _argsort(flat)
    ordered = flat.take(order)
    bulk = _scores(ordered, order).reshape(halves.shape)

    middle = flat.shape[-1] // 2  # the number of draws is even: two halves of each chain
    median = (ordered[:, middle - 1] + ordered[:, middle]) / 2
    folded = abs(ordered - median[:, None])
    nearest = _argsort(folded, kind="stable")  # two sorted runs to merge
    tails = _scores(folded.take(nearest), order.take(nearest)).reshape(halves.shape)
    # A quantity with two values is constant when folded; fmax ignores the resulting NaN.
    r_hat = np.fmax(_r_hat(bulk), _r_hat(tails))

    if draws.shape[-1] % 2:
        ordered = np.sort(draws.reshape(len(draws), -1), axis=-1)
    tail = [ess(halves <= quantile(ordered, p)[:, None, None]) for p in (0.05, 0.95)]
    return r_hat, ess(bulk), np.minimum(*tail)


def split(draws: Array) -> Array:
    """Split every chain into two halves; the middle draw of an odd number is left out."""
    half = draws.shape[-1] // 2
    return np.concatenate((draws[..., :half], draws[..., -half:]), axis=1)


def _argsort(rows: Array, kind: Literal["stable"] | None = None) -> NDArray[np.intp]:
    """Indices that sort each row, into the flattened array (faster than indexing along an axis)."""
    return np.argsort(rows, axis=-1, kind=kind) + np.arange(len(rows))[:, None] * rows.shape[-1]


def _scores(ordered: Array, order: NDArray[np.intp]) -> Array:
    """Normal scores of ranks in the original order ([1], eq. 14); ties share their mean rank."""
    n = ordered.shape[-1]
    scores = np.empty_like(ordered)
    flat = scores.reshape(-1)
    flat[order] = _score_table(n)[::2]
    same = ordered[:, 1:] == ordered[:, :-1]
    tied = same.any(axis=-1)
    if tied.any():
        begins = np.pad(~same[tied], ((0, 0), (1, 0)), constant_values=True)
        ends = np.pad(~same[tied], ((0, 0), (0, 1)), constant_values=True)
        place = np.arange(n)
        first = np.maximum.accumulate(np.where(begins, place, 0), axis=-1)
        last = np.minimum.accumulate(np.where(ends, place, n)[:, ::-1], axis=-1)[:, ::-1]
        flat[order[tied]] = _score_table(n)[first + last]
    return scores


@lru_cache(maxsize=4)
def _score_table(n: int) -> Array:
    """Normal scores of the ranks 1, 1.5, 2, ..., n among n, with Blom's offset 3/8."""
    ranks = np.arange(2, n + 2) / 2
    # SciPy's function would take longer to import than the standard library's takes to compute a table.
    quantile_of = NormalDist().inv_cdf
    lower = np.array([quantile_of(share) for share in ((ranks - 3 / 8) / (n + 1 / 4)).tolist()])
    return np.concatenate((lower, -lower[-2::-1]))


def _r_hat(halves: Array) -> Array:
    n = halves.shape[-1]
    between = n * halves.mean(axis=-1).var(axis=-1, ddof=1)
    # Relative to the first draw, so that a chain that does not move has a variance of exactly zero.
    within = (halves - halves[..., :1]).var(axis=-1, ddof=1).mean(axis=-1)
    return np.asarray(np.sqrt((between / within + n - 1) / n))


def quantile(ordered: Array, p: float) -> Array:
    place = p * (ordered.shape[-1] - 1)
    low = int(place)
    below, above = ordered[:, low], ordered[:, min(low + 1, ordered.shape[-1] - 1)]
    return np.asarray(below + (above - below) * (place - low))


def ess(series: NDArray[Any]) -> Array:
    """Effective sample size of the mean of each series, over its (split) chains.

    Autocorrelations combine all chains ([1], eq. 10). Sums of neighbouring pairs are added while they
    stay positive, and made monotone [2]_. The truncation of the sum is as in ArviZ.
    """
    n_chains, n = series.shape[1:]
    size = 1 << (2 * n - 1).bit_length()
    # Centred at one of the draws, so that rounding of means far from zero does not look like a difference of chains.
    series = np.subtract(series, series[:, :1, :1], dtype=float)
    mean = series.mean(axis=-1)
    spectrum = np.fft.rfft(series - mean[:, :, None], n=size)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    covariance = np.fft.irfft(power, n=size)[:, :n] / n
    variance = covariance[:, 0] + (mean.var(axis=-1, ddof=1) if n_chains > 1 else 0.0)
    rho = 1 - (covariance[:, :1] * n / (n - 1) - covariance) / variance[:, None]
    rho[:, 0] = 1

    last_pair = max(0, (n - 1) // 2 - 1)
    pairs = rho[:, 0 : 2 * last_pair + 2 : 2] + rho[:, 1 : 2 * last_pair + 2 : 2]
    ended = pairs <= 0
    stop = np.where(ended.any(axis=-1), ended.argmax(axis=-1), last_pair)
    kept = np.arange(last_pair + 1) < stop[:, None]
    total = np.where(kept, np.minimum.accumulate(pairs, axis=-1), 0).sum(axis=-1)
    rest = np.take_along_axis(rho, 2 * stop[:, None], axis=-1)[:, 0]
    rest = np.where((pairs[:, last_pair] < 0) | (stop < last_pair), np.maximum(rest, 0), rest)
    tau = np.maximum(-1 + 2 * total + rest, 1 / math.log10(n_chains * n))
    return np.asarray(np.where(variance > 0, n_chains * n / tau, n_chains * n))


def e_bfmi(energy: Array) -> Array:
    """Energy Bayesian fraction of missing information of each chain [3]_; ``energy`` is (chain, draw)."""
    return np.asarray((np.diff(energy, axis=1) ** 2).mean(axis=1) / energy.var(axis=1, ddof=1))
