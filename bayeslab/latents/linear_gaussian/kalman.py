r"""Linear dynamical systems: hidden Markov chains with vector states and normal distributions.

    x_1 ~ N(m, P)      x_t = A x_{t-1} + b_t + w_t,  w_t ~ N(0, Q)      y_t = C x_t + d_t + e_t,  e_t ~ N(0, R)

The filter carries mean and covariance of x_t given y_1..y_t [1]_, the smoother goes back over what it
found [2]_. Missing cells of a row are left out of its update, a missing row leaves the prediction as it is.
Means and covariances, with those of neighbours, are what EM needs [3]_. Q may be singular, as when
part of the state is fixed; R of the cells seen, plus what the state adds, may not.

A vague start is a start covariance much larger than the data's; what the first rows then contribute
to the evidence depends on it, and what later rows do does not.

References
----------
.. [1] Kalman (1960). A new approach to linear filtering and prediction problems. Journal of Basic
   Engineering 82, 35-45.
.. [2] Rauch, Tung, Striebel (1965). Maximum likelihood estimates of linear dynamic systems. AIAA Journal 3,
   1445-1450.
.. [3] Shumway, Stoffer (1982). An approach to time series smoothing and forecasting using the EM
   algorithm. Journal of Time Series Analysis 3, 253-264.
.. [4] Koopman, Shephard (1992). Exact score for time series models in state space form. Biometrika 79, 823-826.
.. [5] Durbin, Koopman (2012). Time Series Analysis by State Space Methods, 2nd ed. Oxford University Press.
.. [6] Frühwirth-Schnatter (1994). Data augmentation and dynamic linear models. Journal of Time Series Analysis
   15, 183-202 (drawing states backwards).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from bayeslab.errors import DataError, EvidenceError, ModelError, OptionError, hint

__all__ = [
    "KERNEL",
    "FilteredStates",
    "LinearGaussian",
    "SmoothedStates",
    "em_step",
    "filter_states",
    "forecast",
    "sample_states",
    "simulate",
    "smooth",
]

# For `bayeslab.evidence.log_evidence`: (parameters, rows, offsets, sizes); see `LinearGaussian.flat`.
KERNEL = "bayeslab.latents.linear_gaussian.kalman_kernels:log_evidence_and_gradient"

_COVARIANCES = ("start_covariance", "state_noise", "observation_noise")


@dataclass(frozen=True, eq=False)
class LinearGaussian:
    """A linear dynamical system with d states and p columns.

    Parameters
    ----------
    start_mean, start_covariance : arrays of shape (d,) and (d, d)
        m and P, of the first state of each sequence.
    transition : array of shape (d, d)
        A.
    state_noise : array of shape (d, d)
        Q, a covariance.
    observation : array of shape (p, d)
        C.
    observation_noise : array of shape (p, p)
        R, a covariance.
    state_offset : array of shape (n_rows, d), optional
        b; row t moves the state from row t - 1 to row t. Those at the first rows of sequences are not used.
    observation_offset : array of shape (n_rows, p), optional
        d.

    Raises
    ------
    ModelError
        Shapes are wrong, entries are not finite, or covariances are not symmetric or have a negative eigenvalue.
    """

    start_mean: np.ndarray
    start_covariance: np.ndarray
    transition: np.ndarray
    state_noise: np.ndarray
    observation: np.ndarray
    observation_noise: np.ndarray
    state_offset: np.ndarray | None = None
    observation_offset: np.ndarray | None = None

    def __post_init__(self) -> None:
        d, p = np.size(self.start_mean), np.shape(self.observation)[0] if np.ndim(self.observation) else 0
        shapes: dict[str, tuple[int, ...]] = {
            "start_mean": (d,),
            "start_covariance": (d, d),
            "transition": (d, d),
            "state_noise": (d, d),
            "observation": (p, d),
            "observation_noise": (p, p),
        }
        for name, shape in shapes.items():
            value = np.require(getattr(self, name), float, ["C", "W"])
            if value.shape != shape or 0 in shape:
                raise ModelError(
                    f"{name} of {d} states and {p} columns is {shape}, not {value.shape}", code="wrong-shape"
                )
            if not np.all(np.isfinite(value)):
                raise ModelError(f"{name} has entries that are not finite", code="not-finite")
            if name in _COVARIANCES:
                value = _covariance(name, value)
            object.__setattr__(self, name, value)
        for name, width in (("state_offset", d), ("observation_offset", p)):
            if getattr(self, name) is not None:
                value = np.require(getattr(self, name), float, ["C", "W"])
                if value.ndim != 2 or value.shape[1] != width or not np.all(np.isfinite(value)):
                    raise ModelError(
                        f"{name} is n_rows × {width} finite numbers, not {value.shape}", code="wrong-shape"
                    )
                object.__setattr__(self, name, value)

    @property
    def n_states(self) -> int:
        return len(self.start_mean)

    @property
    def n_columns(self) -> int:
        return len(self.observation)

    def arrays(self) -> tuple[np.ndarray, ...]:
        """All arrays in the order of the fields, for kernels; a missing offset is one row of zeros."""
        b, d = self.state_offset, self.observation_offset
        return (
            *(getattr(self, f.name) for f in fields(self)[:6]),
            np.zeros((1, self.n_states)) if b is None else b,
            np.zeros((1, self.n_columns)) if d is None else d,
        )

    def flat(self) -> tuple[np.ndarray, np.ndarray]:
        """``(parameters, sizes)`` as `KERNEL` takes them."""
        each = [getattr(self, f.name) for f in fields(self)]
        sizes = np.array([0 if a is None else len(a) for a in each[6:]])
        return np.concatenate([np.ravel(a) for a in each if a is not None]), sizes


def _covariance(name: str, value: np.ndarray) -> np.ndarray:
    scale = np.abs(value).max()
    if not np.allclose(value, value.T, rtol=1e-8, atol=1e-12 * scale):
        raise ModelError(f"{name} is a covariance; it must be symmetric", code="not-a-covariance")
    value = 0.5 * (value + value.T)
    least = np.linalg.eigvalsh(value)[0]
    if least < -1e-10 * scale:
        raise ModelError(f"{name} is a covariance; it has the eigenvalue {least:.3g}", code="not-a-covariance")
    return value


@dataclass(frozen=True, eq=False)
class FilteredStates:
    """The state at each row given the rows up to it, and predicted by those before it.

    Parameters
    ----------
    mean, covariance : ndarray of shape (n_rows, d), (n_rows, d, d)
    predicted_mean, predicted_covariance : ndarray of shape (n_rows, d), (n_rows, d, d)
    log_predictive : ndarray of shape (n_rows,)
        log p(y_t | y_1..y_{t-1}) of the observed cells.
    log_evidence : ndarray of shape (n_sequences,)
    """

    mean: np.ndarray
    covariance: np.ndarray
    predicted_mean: np.ndarray
    predicted_covariance: np.ndarray
    log_predictive: np.ndarray
    log_evidence: np.ndarray


@dataclass(frozen=True, eq=False)
class SmoothedStates:
    """The state at each row given all rows of its sequence.

    Parameters
    ----------
    mean, covariance : ndarray of shape (n_rows, d), (n_rows, d, d)
    lag_covariance : ndarray of shape (n_rows, d, d)
        Cov(x_t, x_{t-1} | y) at row t; zero at the first row of a sequence.
    gain, spread : ndarray of shape (n_rows, d, d)
        Given also x_{t+1}, x_t has mean ``filtered.mean + gain (x_{t+1} - filtered.predicted_mean[t + 1])`` and
        covariance ``spread``.
    filtered : FilteredStates
    """

    mean: np.ndarray
    covariance: np.ndarray
    lag_covariance: np.ndarray
    gain: np.ndarray
    spread: np.ndarray
    filtered: FilteredStates

    @property
    def log_evidence(self) -> np.ndarray:
        """log p(y) of each sequence."""
        return self.filtered.log_evidence


def _read(model: LinearGaussian, rows: Any, offsets: Any) -> tuple[np.ndarray, np.ndarray]:
    rows = np.require(rows, float, ["C", "W"])
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or rows.shape[1] != model.n_columns:
        raise DataError(f"rows have {model.n_columns} columns, not {rows.shape}", code="wrong-shape")
    if np.any(np.isinf(rows)):
        raise DataError(
            f"row {int(np.argwhere(np.isinf(rows))[0, 0])} has an infinite cell; NaN is missing", code="not-finite"
        )
    n_rows = len(rows)
    offsets = np.array([0, n_rows]) if offsets is None else np.asarray(offsets)
    if (
        offsets.ndim != 1
        or len(offsets) < 2
        or offsets[0] != 0
        or offsets[-1] != n_rows
        or np.any(np.diff(offsets) < 0)
    ):
        raise DataError(f"offsets rise from 0 to the number of rows, {n_rows}", code="not-in-order")
    for name in ("state_offset", "observation_offset"):
        value = getattr(model, name)
        if value is not None and len(value) != n_rows:
            raise DataError(f"{name} has {len(value)} rows, the data {n_rows}", code="wrong-length")
    return rows, offsets.astype(np.int64)


def filter_states(model: LinearGaussian, rows: Any, offsets: Any = None) -> FilteredStates:
    """Kalman's filter.

    Parameters
    ----------
    model : LinearGaussian
    rows : array of shape (n_rows, p), or (n_rows,) where p is 1
        NaN is missing.
    offsets : array of shape (n_sequences + 1,), optional
        Where sequences begin, and the number of rows; without it, one sequence.

    Raises
    ------
    EvidenceError
        A row is predicted without any noise.
    """
    from bayeslab.latents.linear_gaussian import kalman_kernels as kernels

    rows, offsets = _read(model, rows, offsets)
    n_rows, d = len(rows), model.n_states
    mean, predicted_mean = np.empty((n_rows, d)), np.empty((n_rows, d))
    covariance, predicted_covariance = np.empty((n_rows, d, d)), np.empty((n_rows, d, d))
    log_predictive = np.empty(n_rows)
    outputs = (predicted_mean, predicted_covariance, mean, covariance, log_predictive)
    arrays: tuple[Any, ...] = (*model.arrays(), rows, offsets, *outputs)
    singular = kernels.filter_sequences(*arrays)
    if singular >= 0:
        raise EvidenceError(
            f"row {singular} is predicted with a singular covariance; give observation_noise full rank",
            code="degenerate",
        )
    sums = np.add.reduceat(np.append(log_predictive, 0.0), offsets[:-1])
    log_evidence = np.where(np.diff(offsets) > 0, sums, 0.0)
    return FilteredStates(mean, covariance, predicted_mean, predicted_covariance, log_predictive, log_evidence)


def smooth(model: LinearGaussian, rows: Any, offsets: Any = None) -> SmoothedStates:
    """States given all rows of their sequence; see `filter_states` for the arguments.

    Examples
    --------
    A constant seen three times with noise: the mean, known to a third of the variance of the noise.

    >>> model = LinearGaussian([0.0], [[1e9]], [[1.0]], [[0.0]], [[1.0]], [[3.0]])
    >>> smoothed = smooth(model, [1.0, 2.0, 6.0])
    >>> smoothed.mean[:, 0].round(6), smoothed.covariance[:, 0, 0].round(6)
    (array([3., 3., 3.]), array([1., 1., 1.]))
    """
    from bayeslab.latents.linear_gaussian import kalman_kernels as kernels

    filtered = filter_states(model, rows, offsets)
    rows, offsets = _read(model, rows, offsets)
    n_rows, d = len(rows), model.n_states
    mean, covariance, gain, spread = (np.empty((n_rows, *shape)) for shape in ((d,), (d, d), (d, d), (d, d)))
    forward = (filtered.predicted_mean, filtered.predicted_covariance, filtered.mean, filtered.covariance)
    kernels.smooth_sequences(model.transition, model.state_noise, offsets, *forward, mean, covariance, gain, spread)
    lag = np.zeros((n_rows, d, d))
    inner = _followers(offsets)
    lag[inner] = covariance[inner] @ np.swapaxes(gain[inner - 1], 1, 2)
    return SmoothedStates(mean, covariance, lag, gain, spread, filtered)


def _followers(offsets: np.ndarray) -> np.ndarray:
    """Rows with a predecessor in their sequence."""
    inner = np.ones(offsets[-1], bool)
    inner[offsets[:-1][np.diff(offsets) > 0]] = False
    return np.flatnonzero(inner)


def em_step(
    model: LinearGaussian,
    rows: Any,
    offsets: Any = None,
    *,
    fixed: Collection[str] = (),
    diagonal: Collection[str] = (),
) -> tuple[LinearGaussian, np.ndarray]:
    """One step of EM, which never lowers the evidence.

    Parameters
    ----------
    model, rows, offsets
        As for `smooth`.
    fixed : collection of str
        Names among start_mean, start_covariance, transition, state_noise, observation and observation_noise that stay
        unchanged. Offsets always do.
    diagonal : collection of str
        Names of diagonal covariances.

    Returns
    -------
    model : LinearGaussian
        The updated model.
    log_evidence : ndarray of shape (n_sequences,)
        Log evidence of the given model.
    """
    free = [f.name for f in fields(LinearGaussian)[:6]]
    for name in fixed:
        if name not in free:
            raise OptionError(f"'{name}' cannot be fixed{hint(name, free)}", code="unknown-parameter")
    for name in diagonal:
        if name not in _COVARIANCES:
            raise OptionError(f"'{name}' cannot be diagonal{hint(name, _COVARIANCES)}", code="unknown-parameter")
    smoothed = smooth(model, rows, offsets)
    rows, offsets = _read(model, rows, offsets)
    new = _start(model, smoothed, offsets, fixed) | _dynamics(model, smoothed, offsets, fixed)
    new |= _output(model, smoothed, rows, fixed)
    new = {name: value for name, value in new.items() if name not in fixed}
    for name in set(diagonal) & set(new):
        new[name] = np.diag(np.diag(new[name]))
    return replace(model, **new), smoothed.log_evidence


def _start(
    model: LinearGaussian, smoothed: SmoothedStates, offsets: np.ndarray, fixed: Collection[str]
) -> dict[str, np.ndarray]:
    first = offsets[:-1][np.diff(offsets) > 0]
    if not len(first):
        return {}
    mean = model.start_mean if "start_mean" in fixed else smoothed.mean[first].mean(0)
    away = smoothed.mean[first] - mean
    return {"start_mean": mean, "start_covariance": smoothed.covariance[first].mean(0) + away.T @ away / len(first)}


def _dynamics(
    model: LinearGaussian, smoothed: SmoothedStates, offsets: np.ndarray, fixed: Collection[str]
) -> dict[str, np.ndarray]:
    inner = _followers(offsets)
    if not len(inner):
        return {}
    moved = smoothed.mean[inner] - (0 if model.state_offset is None else model.state_offset[inner])
    now = smoothed.covariance[inner].sum(0) + moved.T @ moved
    cross = smoothed.lag_covariance[inner].sum(0) + moved.T @ smoothed.mean[inner - 1]
    before = smoothed.covariance[inner - 1].sum(0) + smoothed.mean[inner - 1].T @ smoothed.mean[inner - 1]
    transition = model.transition if "transition" in fixed else _ratio(cross, before)
    return {"transition": transition, "state_noise": _left(now, cross, before, transition) / len(inner)}


def _output(
    model: LinearGaussian, smoothed: SmoothedStates, rows: np.ndarray, fixed: Collection[str]
) -> dict[str, np.ndarray]:
    """Update from E[y y'], E[y x'] and E[x x'], with missing cells of y treated as unknown like the states."""
    p, d = model.n_columns, model.n_states
    values = rows if model.observation_offset is None else rows - model.observation_offset
    observed = ~np.isnan(values)
    used = observed.any(1)
    if not used.any():
        return {}
    now, cross, before = np.zeros((p, p)), np.zeros((p, d)), np.zeros((d, d))
    for pattern in np.unique(observed[used], axis=0):
        at = np.flatnonzero(used & (observed == pattern).all(1))
        # y given the state and its observed cells is affine in the state: y = known + slope x + noise.
        weight = np.zeros((p, p))
        block = model.observation_noise[np.ix_(pattern, pattern)]
        weight[:, pattern] = np.linalg.solve(block, model.observation_noise[pattern]).T
        slope = model.observation - weight @ model.observation
        noise = model.observation_noise - weight @ model.observation_noise
        known = np.where(pattern, values[at], 0) @ weight.T
        mean, spread = smoothed.mean[at], smoothed.covariance[at].sum(0)
        y = known + mean @ slope.T
        now += y.T @ y + slope @ spread @ slope.T + len(at) * noise
        cross += y.T @ mean + slope @ spread
        before += mean.T @ mean + spread
    observation = model.observation if "observation" in fixed else _ratio(cross, before)
    return {"observation": observation, "observation_noise": _left(now, cross, before, observation) / used.sum()}


def _ratio(cross: np.ndarray, before: np.ndarray) -> np.ndarray:
    """cross before⁻¹, where ``before`` may be singular."""
    return np.linalg.lstsq(before, cross.T, rcond=None)[0].T


def _left(now: np.ndarray, cross: np.ndarray, before: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """E[(y - slope x)(y - slope x)'], symmetric."""
    part = slope @ cross.T
    out = now - part - part.T + slope @ before @ slope.T
    return 0.5 * (out + out.T)


def sample_states(
    model: LinearGaussian, rows: Any, n_draws: int, rng: np.random.Generator, offsets: Any = None
) -> np.ndarray:
    """Independent draws of all states given the rows, shape (n_draws, n_rows, d), drawn backwards."""
    smoothed = smooth(model, rows, offsets)
    rows, offsets = _read(model, rows, offsets)
    noise = rng.standard_normal((n_draws, len(rows), model.n_states))
    out = np.einsum("tij,ntj->nti", _roots(smoothed.spread), noise) + smoothed.filtered.mean
    for begin, end in pairwise(offsets):
        for t in range(end - 2, begin - 1, -1):
            out[:, t] += (out[:, t + 1] - smoothed.filtered.predicted_mean[t + 1]) @ smoothed.gain[t].T
    return out


def _roots(covariances: np.ndarray) -> np.ndarray:
    """Square roots of non-negative matrices (..., d, d), singular ones too."""
    values, vectors = np.linalg.eigh(covariances)
    return vectors * np.sqrt(np.maximum(values, 0))[..., None, :]


def simulate(model: LinearGaussian, offsets: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """States (n_rows, d) and rows (n_rows, p) of sequences with these offsets."""
    offsets = np.asarray(offsets)
    n_rows = int(offsets[-1])
    start, state, output = (_roots(getattr(model, name)) for name in _COVARIANCES)
    states = rng.standard_normal((n_rows, model.n_states))
    for begin, end in pairwise(offsets):
        for t in range(begin, end):
            if t == begin:
                states[t] = model.start_mean + start @ states[t]
            else:
                moved = model.transition @ states[t - 1] + state @ states[t]
                states[t] = moved if model.state_offset is None else moved + model.state_offset[t]
    rows = states @ model.observation.T + rng.standard_normal((n_rows, model.n_columns)) @ output.T
    return states, rows if model.observation_offset is None else rows + model.observation_offset


def forecast(
    model: LinearGaussian, mean: Any, covariance: Any, n_steps: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Means and covariances of the next ``n_steps`` states, and of their rows, from those of the last state.

    Raises
    ------
    ModelError
        The model has offsets, whose future values are unknown.
    """
    if model.state_offset is not None or model.observation_offset is not None:
        raise ModelError(
            "the model has offsets a row; filter rows of NaN with the offsets to come instead", code="not-applicable"
        )
    states = [(np.asarray(mean, float), np.asarray(covariance, float))]
    for _ in range(n_steps):
        last_mean, last = states[-1]
        states.append((model.transition @ last_mean, model.transition @ last @ model.transition.T + model.state_noise))
    means, covariances = (np.array([s[k] for s in states[1:]]) for k in (0, 1))
    rows = model.observation @ covariances @ model.observation.T + model.observation_noise
    return means, covariances, means @ model.observation.T, rows
