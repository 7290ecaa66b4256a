"""Latent features resolved on their data: rows, scales of the priors, and names in results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.rows import read_columns
from bayeslab.digits import check_digits, check_size, constant
from bayeslab.distributions import SCALARS, log_density
from bayeslab.errors import DataError, ModelError, Reason, errors_at, hint
from bayeslab.families.latent_features.spec import LatentFeatures
from bayeslab.language.numeric_priors import has_numbers, read_prior
from bayeslab.language.spec import Model

__all__ = ["MOST_SUMMED", "Resolved", "Written", "refused_patterns", "resolved"]

# Width of the normal prior of the means, in sds of the data.
_WIDE = 10.0
_WIDE_BINARY = 3.0
# Levels of columns without means, in sds of the columns, above which the noise loses precision: for binary features
# with a known scale of the weights, and with a sampled one; for normal features, whose covariances have the squares.
_FARTHEST_KNOWN, _FARTHEST_DRAWN, _FARTHEST_NORMAL = 1e7, 1e5, 1e5


@dataclass(frozen=True)
class Written:
    """A prior of a positive parameter, as in the model language: distribution and parameters."""

    word: str
    arguments: Mapping[str, float]

    def __str__(self) -> str:
        return f"{self.word}({', '.join(f'{v:.4g}' for v in self.arguments.values())})"

    def density(self) -> Any:
        """Log density at a positive number."""
        log_p, _, _, _ = log_density(self.word, self.arguments)
        return lambda value: float(log_p(np.asarray(value)))


type Scale = float | Written


@dataclass(frozen=True, eq=False)
class Resolved:
    """The model resolved on its data.

    Attributes
    ----------
    rows : ndarray (N, D)
        NaN where a cell is missing.
    centre, spread : ndarray (D,)
        Means and sds of the columns of the fit.
    features : int or None
        None: unbounded, from an Indian buffet process.
    noise, scale : tuple of float or Written
        Priors of the sd of the noise and of the sd of the loadings, each one for all columns or one for each.
    probability, alpha : (float, float), float or (float, float)
        Parameters of the Beta and Gamma priors.
    """

    spec: LatentFeatures
    columns: tuple[str, ...]
    rows: np.ndarray
    centre: np.ndarray
    spread: np.ndarray
    features: int | None
    noise: tuple[Scale, ...]
    scale: tuple[Scale, ...]
    probability: tuple[float, float]
    alpha: float | tuple[float, float]

    @property
    def binary(self) -> bool:
        return self.spec.kind == "binary"

    @property
    def offset(self) -> bool:
        """Whether the columns have means to estimate."""
        return self.spec.with_mean

    @property
    def offset_scale(self) -> np.ndarray:
        """Sd of the prior of the means (D,)."""
        if self.binary:
            return np.full(len(self.spread), _WIDE_BINARY * self.pooled)
        return _WIDE * self.spread

    @property
    def pooled(self) -> float:
        """Pooled sd of all columns around their means."""
        return float(np.sqrt(np.mean(self.spread**2)))

    @property
    def size(self) -> np.ndarray:
        """Scale of the loadings (D,): sds around the means or, without means, around zero."""
        return _sizes(self.centre, self.spread, self.offset)

    @property
    def labels(self) -> dict[str, np.ndarray]:
        out = {"column": np.array(self.columns)}
        if self.features is not None:
            out["feature"] = np.arange(1, self.features + 1)
        return out

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        """Dimensions of the parameters in results, if their number is fixed."""
        out: dict[str, tuple[str, ...]] = {}
        if self.binary:
            out["probability"] = ("feature",)
        if self.offset:
            out["mean"] = ("column",)
        out["loading"] = ("column", "feature")
        out["noise"] = () if len(self.noise) == 1 else ("column",)
        if isinstance(self.scale[0], Written):
            out["scale"] = ()
        return out


def resolved(model: Model, data: Data, origin: Resolved | None = None) -> Resolved:
    """Resolve the model on its data. New data use the scales of the fit.

    Parameters
    ----------
    origin
        The model on the data of the fit, if the model's data are others; None: computed from the model.
    """
    if data.origin is None:
        return _first(model, data)
    fitted = resolved(model, data.origin) if origin is None else origin
    return replace(fitted, rows=_rows(fitted.spec, data))


def _first(model: Model, data: Data) -> Resolved:
    spec: Any = model.model
    rows = _rows(spec, data)
    centre, spread = _scales(spec, rows)
    pooled = float(np.sqrt(np.mean(spread**2)))
    each = tuple(spread) if spec.noise == "own" else (pooled,)
    noise = _written(spec, "noise")
    own_noise: tuple[Scale, ...] = tuple(Written("HalfNormal", {"sigma": float(s)}) for s in each)
    if noise is not None:
        own_noise = (noise,) * len(each)
    scale = _written(spec, "scale")
    # If columns have no means, loadings are as large as the columns' level.
    size = _sizes(centre, spread, spec.with_mean)
    whole = float(np.sqrt(np.mean(size**2)))
    own_scale: tuple[Scale, ...] = tuple(float(s) for s in size) if spec.noise == "own" else (whole,)
    if scale is not None:
        own_scale = (scale,)
    elif spec.kind == "binary":
        own_scale = (Written("HalfNormal", {"sigma": whole}),)
    if not spec.with_mean:
        drawn = isinstance(own_scale[0], Written)
        binary = _FARTHEST_DRAWN if drawn else _FARTHEST_KNOWN
        _check_level(spec.columns, centre, pooled, binary if spec.kind == "binary" else _FARTHEST_NORMAL)
    alpha = _pair(spec, "alpha", "Gamma", (1.0, 1.0))
    probability = _pair(spec, "probability", "Beta", (1.0, 1.0))
    assert isinstance(probability, tuple)
    features = None if spec.features == "ibp" else spec.features
    return Resolved(spec, tuple(spec.columns), rows, centre, spread, features, own_noise, own_scale, probability, alpha)


def _rows(spec: LatentFeatures, data: Data) -> np.ndarray:
    if not any(data.has(name) for name in spec.columns):
        return np.empty((0, len(spec.columns)))
    out = read_columns(data, spec.columns, text=lambda name: f"column '{name}' is text; latent features are of numbers")
    for j, name in enumerate(spec.columns if data.origin is not None else ()):
        check_size(out[:, j], f"column '{name}'")
    return out


def _sizes(centre: np.ndarray, spread: np.ndarray, with_mean: bool) -> np.ndarray:
    return spread if with_mean else np.hypot(centre, spread)


def _scales(spec: LatentFeatures, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and sds of the columns; 0 and 1 if there are no data and the file gives all scales."""
    if not len(rows):
        given = {"noise", "scale"} <= set(spec.priors) and not spec.with_mean
        if not given:
            raise ModelError(
                "priors are on the scale of the data, and there are none: give data, or priors of noise and scale"
                " with mean: zero",
                path=("model", "priors"),
                code="no-data",
            )
        return np.zeros(len(spec.columns)), np.ones(len(spec.columns))
    if len(rows) < 2:
        raise DataError("latent features need at least two rows", code="too-few")
    for j, name in enumerate(spec.columns):
        observed = rows[~np.isnan(rows[:, j]), j]
        if len(observed) < 2:
            raise DataError(f"column '{name}' has {len(observed)} values: too few; leave it out", code="too-few")
        check_digits(name, observed)
        if spec.noise == "own" and constant(observed):
            raise DataError(f"column '{name}' is constant: it has no noise of its own; leave it out", code="constant")
    centre, spread = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
    spread[[constant(column[~np.isnan(column)]) for column in rows.T]] = 0.0
    if not spread.any():
        raise DataError("every column is constant; there is nothing to explain", code="constant")
    return centre, spread


def _check_level(columns: Sequence[str], centre: np.ndarray, pooled: float, farthest: float) -> None:
    """Refuse columns whose level the features must explain and is so large that the noise loses all precision.

    Weights of the size of the level have a precision of (noise / level)^2, added to counts of rows: double precision
    holds both for levels up to 10^7 sds of the noise. If the weights' scale is sampled, chains pass through values too
    small for the level, at which every row needs many similar features. A covariance with that level has a condition
    number of (level / noise)^2: at 10^5 the log likelihood of hundreds of rows is right to 1e-4 still.
    """
    j = int(np.argmax(np.abs(centre)))
    if (level := abs(float(centre[j]))) > farthest * pooled:
        raise DataError(
            f"column '{columns[j]}' has the mean {centre[j]:.3g}, and columns vary by {pooled:.2g}: with mean: zero the"
            f" features would explain {level / pooled:.2g} standard deviations of level, which leaves no digits for the"
            f" noise; write mean: own, or subtract a reference value from the columns",
            code="not-allowed",
        )


def _written(spec: LatentFeatures, name: str) -> Scale | None:
    """The prior of an sd: a known number, or a distribution of positive numbers."""
    given, path = spec.priors.get(name), ("model", "priors", name)
    if given is None:
        return None
    if isinstance(given, float | int) and not isinstance(given, bool):
        if not 0 < given < np.inf:
            raise ModelError(
                f"'{name}' is a standard deviation, a positive number, not {given!r}", path=path, code="out-of-range"
            )
        return float(given)
    word, arguments = read_prior(str(given), path)
    if word is None or word not in SCALARS:
        raise ModelError(
            f"the prior of '{name}' is a number or one of {hint(str(word), SCALARS)}, not {given!r}",
            path=path,
            code="bad-prior",
        )
    if not has_numbers(arguments):
        raise ModelError(
            f"the prior of '{name}' has numbers for parameters, not {given!r}", path=path, code="bad-prior"
        )
    with errors_at(path):
        _, low, _, proper = log_density(word, arguments)
    if low < 0 or not proper:
        raise ModelError(
            f"'{name}' is a standard deviation: its prior is proper and of positive numbers",
            path=path,
            code="bad-prior",
        )
    return Written(word, {name: float(value) for name, value in arguments.items()})


def _pair(spec: LatentFeatures, name: str, word: str, default: tuple[float, float]) -> float | tuple[float, float]:
    given, path = spec.priors.get(name), ("model", "priors", name)
    if given is None:
        return default
    if name == "alpha" and isinstance(given, float | int) and not isinstance(given, bool) and 0 < given < np.inf:
        return float(given)
    called, numbers = read_prior(str(given), path)
    if called == word and has_numbers(numbers) and numbers.keys() >= {"alpha", "beta"}:
        a, b = float(numbers["alpha"]), float(numbers["beta"])
        if 0 < a < np.inf and 0 < b < np.inf:
            return a, b
    more = " or a positive number" if name == "alpha" else ""
    raise ModelError(
        f"the prior of '{name}' is {word}(a, b) with positive numbers{more}, not {given!r}", path=path, code="bad-prior"
    )


# Largest number of binary features whose patterns are enumerated.
MOST_SUMMED = 12


def refused_patterns(resolved: Resolved) -> Reason | None:
    """Reason why patterns of binary features cannot be enumerated; None if they can."""
    if resolved.features is None:
        return Reason("a number of features that is not given has no parameters of fixed size", code="no-graph")
    if resolved.features > MOST_SUMMED:
        return Reason(
            f"{resolved.features} binary features have 2^{resolved.features} patterns;"
            f" they are summed up to {MOST_SUMMED}",
            code="too-costly",
        )
    if np.isnan(resolved.rows).any():
        return Reason("patterns of binary features are not summed for rows with missing cells", code="missing")
    return None
