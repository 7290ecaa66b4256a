"""Standard deviations of the weights of sines that approximate a function, from its hyperparameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayeslab.language.backends import Backend
from bayeslab.latents.gaussian_process.covariance import Argument
from bayeslab.latents.gaussian_process.hilbert_gp import HilbertBasis

__all__ = ["roots_of_spectrum"]

# Terms of the recurrence beyond the harmonics.
_BEYOND = 60


def roots_of_spectrum(backend: Backend, basis: HilbertBasis, values: Mapping[str, Any]) -> Any:
    """√S of each function of a basis, from hyperparameters by name: see :meth:`HilbertBasis.variances`.

    No root is taken of S itself: where that is below the smallest number, the derivative of the root would be NaN.
    """

    def of(argument: Argument) -> Any:
        return values[argument.name] if argument.name else backend.constant(np.array(argument.value or 0.0))

    parts = []
    for term, size in zip(basis.terms, basis.sizes, strict=True):
        scale: Any = backend.constant(np.ones(()))
        for argument, power in term.scales:
            scale = scale * of(argument) ** (power / 2)
        if term.spectral:
            shape = _density(backend, basis, term, of)
        elif term.other is not None and term.other.word == "Periodic":
            shape = _series(backend, of(term.other.arguments["lengthscale"][0]), basis.harmonics)
        else:
            shape = np.ones(size)
        parts.append(scale * shape * np.ones(size))
    return backend.concatenate(parts)


def _density(backend: Backend, basis: HilbertBasis, term: Any, of: Callable[[Argument], Any]) -> Any:
    """Root of the spectral density at the frequencies of the sines, of the product of the term's functions."""
    frequency, shape = basis.frequencies(term), 1.0
    for part in term.spectral:
        lengths = [of(argument) for argument in part.arguments["lengthscale"]]
        total: Any = 0.0
        volume: Any = 1.0
        for column, length in zip(part.columns, lengths, strict=True):
            total = total + length**2 * frequency[column] ** 2
            volume = volume * length
        d, nu = len(part.columns), basis.order(part)
        if math.isinf(nu):
            shape = shape * (2.0 * np.pi) ** (d / 4) * volume**0.5 * backend.function("exp")(-0.25 * total)
        else:
            constant = 2.0**d * np.pi ** (d / 2) * math.gamma(nu + d / 2) * (2 * nu) ** nu / math.gamma(nu)
            shape = shape * constant**0.5 * volume**0.5 * (2 * nu + total) ** -(nu / 2 + d / 4)
    return shape


def _series(backend: Backend, length: Any, harmonics: int) -> Any:
    """Roots of the variances of a constant, cosines and sines: 2 I_j(ℓ⁻²) exp(-ℓ⁻²), of the constant half of that.

    Ratios I_j / I_(j-1) = 1 / (2 j / x + I_(j+1) / I_j) are a continued fraction, and the variances add up to 1
    (Abramowitz and Stegun 1964, 9.6.26 and 9.6.37).
    """
    x: Any = length**-2.0
    ratio: Any = 0.0
    ratios = []
    for j in range(harmonics + _BEYOND, 0, -1):
        ratio = 1.0 / (2.0 * j / x + ratio)
        ratios.append(ratio)
    relative = backend.along("cumprod", backend.stack(ratios[::-1]), 0)
    whole = 1.0 + 2.0 * backend.reduction("sum", relative, (0,))
    roots = [backend.function("sqrt")(ratio) for ratio in ratios[::-1][:harmonics]]
    waves = backend.along("cumprod", backend.stack(roots), 0) * (2.0 / whole) ** 0.5
    return backend.concatenate([backend.stack([whole**-0.5]), waves, waves])
