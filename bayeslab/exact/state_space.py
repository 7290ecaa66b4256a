r"""Gaussian processes in time whose cost grows with the number of rows, not with its cube.

A stationary process whose spectral density is a ratio of polynomials is one coordinate of a linear
stochastic differential equation [1]_

    dx = F x dt + L dβ        f(t) = h'x(t)        x ~ N(0, P) at any time,

so that given its state at one time the past says nothing of the future: Kalman's filter gives the log
likelihood in n steps, equally spaced or not, and a pass back gives its gradient and the posterior at all times.
The covariance function is h' exp(Fτ) P h.

Matérn processes of half-integer order are such processes exactly, constants and cosines trivially. A periodic
kernel is a sum of cosines [2]_, an exponentiated quadratic one the limit of rational spectra; both are cut
short, and `LinearSDE.error` says what that costs. Sums put states side by side, products multiply
them (Kronecker products). White noise is no state: it is added to the noise of the rows.

The filter carries D = Cov(x) - P, which moves by exp(Fδ) D exp(Fδ)' without any noise covariance, and the backward
pass carries the derivatives with respect to mean and D; what it collects is the derivative with respect to F, for
changes that commute with F, and to P. Changes of lengthscales and periods do commute.

References
----------
.. [1] Hartikainen, Särkkä (2010). Kalman filtering and smoothing solutions to temporal Gaussian process regression
   models. IEEE MLSP 2010, 379-384.
.. [2] Solin, Särkkä (2014). Explicit link between periodic covariance functions and state space models. AISTATS 2014,
   904-912.
.. [3] Särkkä, Solin (2019). Applied Stochastic Differential Equations. Cambridge University Press, chapter 12.
.. [4] Karvonen, Särkkä (2016). Approximate state-space Gaussian processes via spectral transformation. IEEE MLSP 2016.
.. [5] Durbin, Koopman (2012). Time Series Analysis by State Space Methods, 2nd ed. Oxford University Press, chapter 4
   (smoothing without inverses, leaving rows out, and draws by correcting a path drawn from the prior).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.errors import DataError, ModelError, OptionError
from bayeslab.exact.gaussian_process import LeaveOneOut

if TYPE_CHECKING:
    from bayeslab.exact.covariance import Kernel, Node

__all__ = [
    "LinearSDE",
    "Smoothed",
    "StateSpaceProcess",
    "StateSpaceRegression",
    "constant",
    "cosine",
    "draw",
    "exponentiated_quadratic",
    "log_likelihood",
    "log_likelihood_and_gradient",
    "matern",
    "of_kernel",
    "periodic",
    "reason_against",
    "smooth",
    "white",
]

_JORDAN, _ROTATION = 0, 1
_MOST_STATES = 200
_NILPOTENT = {
    1: np.zeros((1, 1)),
    2: np.array([[1.0, 1.0], [-1.0, -1.0]]),
    3: np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [-1.0, -3.0, -2.0]]),
}


@dataclass(frozen=True, slots=True)
class Factor:
    """A Jordan block of rate ``decay`` (kind 0), or a rotation that decays (kind 1)."""

    kind: int
    order: int
    decay: float
    frequency: float = 0.0


@dataclass(frozen=True, eq=False)
class LinearSDE:
    """A stationary process in time as a linear stochastic differential equation; ``+`` and ``*`` combine two.

    Parameters
    ----------
    blocks : tuple of tuple of Factor
        F is block diagonal; a block is the Kronecker sum of its factors.
    stationary : ndarray of shape (d, d)
        P.
    output : ndarray of shape (d,)
        h.
    to_transition, to_stationary : ndarray of shape (k, d, d)
        Derivatives of F and P with respect to the k hyperparameters.
    white : float
        Variance of white noise.
    to_white : ndarray of shape (k,)
    terms : tuple of (int, int)
        The states of each summand of the process.
    error : float
        How much the covariance function may differ from the one meant, anywhere.
    """

    blocks: tuple[tuple[Factor, ...], ...]
    stationary: np.ndarray
    output: np.ndarray
    to_transition: np.ndarray
    to_stationary: np.ndarray
    white: float = 0.0
    to_white: np.ndarray = field(default_factory=lambda: np.zeros(0))
    terms: tuple[tuple[int, int], ...] = ()
    error: float = 0.0

    def __post_init__(self) -> None:
        if len(self.to_white) != self.n_hyperparameters:
            object.__setattr__(self, "to_white", np.zeros(self.n_hyperparameters))
        if not self.terms:
            object.__setattr__(self, "terms", ((0, self.n_states),))
        _affordable(self.n_states)

    @property
    def n_states(self) -> int:
        return len(self.output)

    @property
    def n_hyperparameters(self) -> int:
        return len(self.to_transition)

    @property
    def variance(self) -> float:
        """Variance of the process without its white noise."""
        return float(self.output @ self.stationary @ self.output)

    def to_variance(self) -> np.ndarray:
        """Derivatives of `variance`."""
        return np.einsum("kij,i,j->k", self.to_stationary, self.output, self.output)

    def covariance(self, lags: Any) -> np.ndarray:
        """The covariance function at some lags, without white noise."""
        from bayeslab.exact import _state_space_kernels as kernels

        lags = np.abs(np.asarray(lags, float))
        a, found = np.zeros((self.n_states, self.n_states)), np.empty(lags.shape)
        right, layout = self.stationary @ self.output, self.layout()
        for index in np.ndindex(lags.shape):
            kernels.transition(float(lags[index]), *self.rates(), *layout, a)
            found[index] = self.output @ a @ right
        return found

    def rates(self) -> tuple[np.ndarray, np.ndarray]:
        """Decay and frequency of each factor."""
        factors = [f for block in self.blocks for f in block]
        return np.array([f.decay for f in factors]), np.array([f.frequency for f in factors])

    def layout(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What the compiled recursions know of the shape: kinds, orders, starts, offsets."""
        factors = [f for block in self.blocks for f in block]
        starts = np.cumsum([0, *(len(block) for block in self.blocks)])
        return (
            np.array([f.kind for f in factors], np.int64),
            np.array([f.order for f in factors], np.int64),
            starts.astype(np.int64),
            _offsets(self.blocks),
        )

    def __add__(self, other: LinearSDE) -> LinearSDE:
        n, more = self.n_states, other.n_states
        k, others = self.n_hyperparameters, other.n_hyperparameters
        to_f, to_p = np.zeros((2, k + others, n + more, n + more))
        to_f[:k, :n, :n], to_f[k:, n:, n:] = self.to_transition, other.to_transition
        to_p[:k, :n, :n], to_p[k:, n:, n:] = self.to_stationary, other.to_stationary
        stationary = np.zeros((n + more, n + more))
        stationary[:n, :n], stationary[n:, n:] = self.stationary, other.stationary
        return LinearSDE(
            blocks=self.blocks + other.blocks,
            stationary=stationary,
            output=np.concatenate([self.output, other.output]),
            to_transition=to_f,
            to_stationary=to_p,
            white=self.white + other.white,
            to_white=np.concatenate([self.to_white, other.to_white]),
            terms=self.terms + tuple((low + n, high + n) for low, high in other.terms),
            error=self.error + other.error,
        )

    def __mul__(self, other: LinearSDE) -> LinearSDE:
        _affordable(self.n_states * other.n_states)  # before matrices of that size are made
        pairs = [(left, right) for left in range(len(self.blocks)) for right in range(len(other.blocks))]
        rows, columns = _offsets(self.blocks), _offsets(other.blocks)
        order = [
            i * other.n_states + j
            for a, b in pairs
            for i in range(rows[a], rows[a + 1])
            for j in range(columns[b], columns[b + 1])
        ]
        at = np.ix_(order, order) if order else (np.zeros((0, 1), int), np.zeros((1, 0), int))
        one, two = np.eye(self.n_states), np.eye(other.n_states)
        n = len(order)
        to_f = [np.kron(m, two)[at] for m in self.to_transition] + [np.kron(one, m)[at] for m in other.to_transition]
        to_p = [np.kron(m, other.stationary)[at] for m in self.to_stationary]
        to_p += [np.kron(self.stationary, m)[at] for m in other.to_stationary]
        return LinearSDE(
            blocks=tuple(_product(self.blocks[a], other.blocks[b]) for a, b in pairs),
            stationary=np.kron(self.stationary, other.stationary)[at],
            output=np.kron(self.output, other.output)[np.asarray(order, int)],
            to_transition=np.reshape(to_f, (len(to_f), n, n)),
            to_stationary=np.reshape(to_p, (len(to_p), n, n)),
            white=self.white * other.variance + other.white * self.variance + self.white * other.white,
            to_white=np.concatenate(
                [
                    self.to_white * (other.variance + other.white) + other.white * self.to_variance(),
                    other.to_white * (self.variance + self.white) + self.white * other.to_variance(),
                ]
            ),
            terms=((0, n),),
            error=self.error * other.variance + other.error * self.variance + self.error * other.error,
        )


def _affordable(n_states: int) -> None:
    if n_states > _MOST_STATES:
        raise ModelError(
            f"the kernel needs {n_states} states, more than {_MOST_STATES}; a step costs their cube. Multiply fewer"
            " kernels, or take longer lengthscales of periodic ones"
        )


def _product(left: tuple[Factor, ...], right: tuple[Factor, ...]) -> tuple[Factor, ...]:
    """Constant factors change nothing beside others."""
    still = Factor(_JORDAN, 1, 0.0)
    return tuple(f for f in left + right if f != still) or (still,)


def _offsets(blocks: tuple[tuple[Factor, ...], ...]) -> np.ndarray:
    return np.cumsum([0, *(math.prod(f.order for f in block) for block in blocks)]).astype(np.int64)


def matern(order: float, lengthscale: float, variance: float = 1.0) -> LinearSDE:
    """Matérn process of order 1/2, 3/2 or 5/2; its hyperparameters are lengthscale and variance.

    Parameters
    ----------
    order : {0.5, 1.5, 2.5}
    lengthscale : float
        In the parametrisation by √(2 order) |x - x'| / lengthscale.
    variance : float

    Examples
    --------
    >>> matern(0.5, 2.0).covariance([0.0, 2.0]).round(4)
    array([1.    , 0.3679])
    """
    if order not in (0.5, 1.5, 2.5):
        raise OptionError(f"order is 0.5, 1.5 or 2.5, not {order}")
    n = int(order + 0.5)
    rate = math.sqrt(2.0 * order) / lengthscale
    # States are f, f' / rate, f'' / rate²: F is rate times a constant, P the variance times one.
    shape = np.array([[1.0, 0.0, -1 / 3], [0.0, 1 / 3, 0.0], [-1 / 3, 0.0, 1.0]]) if n == 3 else np.eye(n)
    unit = _NILPOTENT[n] - np.eye(n)
    return LinearSDE(
        blocks=((Factor(_JORDAN, n, rate),),),
        stationary=variance * shape,
        output=np.eye(n)[0],
        to_transition=np.stack([-rate / lengthscale * unit, 0.0 * unit]),
        to_stationary=np.stack([0.0 * shape, shape]),
    )


def constant(variance: float = 1.0) -> LinearSDE:
    """A value that never changes; its hyperparameter is the variance."""
    one = np.ones((1, 1))
    return LinearSDE(((Factor(_JORDAN, 1, 0.0),),), variance * one, np.ones(1), np.zeros((1, 1, 1)), one[None])


def white(variance: float = 1.0) -> LinearSDE:
    """White noise; its hyperparameter is the variance."""
    nothing = np.zeros((1, 0, 0))
    return LinearSDE((), np.zeros((0, 0)), np.zeros(0), nothing, nothing, variance, np.ones(1))


_TURN = np.array([[0.0, -1.0], [1.0, 0.0]])


def cosine(period: float, variance: float = 1.0) -> LinearSDE:
    """Covariance ``variance cos(2π τ / period)``; its hyperparameters are period and variance."""
    frequency = 2.0 * math.pi / period
    return LinearSDE(
        blocks=((Factor(_ROTATION, 2, 0.0, frequency),),),
        stationary=variance * np.eye(2),
        output=np.array([1.0, 0.0]),
        to_transition=np.stack([-frequency / period * _TURN, 0.0 * _TURN]),
        to_stationary=np.stack([np.zeros((2, 2)), np.eye(2)]),
    )


def periodic(period: float, lengthscale: float, variance: float = 1.0, harmonics: int | None = None) -> LinearSDE:
    """Covariance ``variance exp(-2 sin²(π τ / period) / lengthscale²)`` by its first cosines.

    Its hyperparameters are period, lengthscale and variance. What is cut off is spread over the harmonics that are
    kept, so that the variance is right.

    Parameters
    ----------
    period, lengthscale, variance : float
    harmonics : int, optional
        How many; without it, as many as leave out a share of the variance below 1e-9, at most 60.
    """
    from scipy.special import ive

    z = lengthscale**-2.0
    every = np.arange(62)
    weights = np.where(every > 0, 2.0, 1.0) * ive(every, z)
    if harmonics is None:
        tail = 1.0 - np.cumsum(weights)
        harmonics = int(np.argmax(tail[:61] < 1e-9)) if np.any(tail[:61] < 1e-9) else 60
    kept, lost = weights[: harmonics + 1], 1.0 - weights[: harmonics + 1].sum()
    # d/dz e^-z I_j(z) = e^-z ((I_{j-1} + I_{j+1}) / 2 - I_j)
    slopes = 0.5 * (ive(np.abs(every - 1), z) + ive(every + 1, z)) - ive(every, z)
    slopes = (np.where(every > 0, 2.0, 1.0) * slopes)[: harmonics + 1] * (-2.0 * lengthscale**-3.0)
    total = kept.sum()
    share, to_share = kept / total, slopes / total - kept * slopes.sum() / total**2
    return _resonators(period, variance, share, to_share, 2.0 * variance * max(lost, 0.0))


def _resonators(period: float, variance: float, share: np.ndarray, to_share: np.ndarray, error: float) -> LinearSDE:
    frequency = 2.0 * math.pi / period
    blocks: list[tuple[Factor, ...]] = [(Factor(_JORDAN, 1, 0.0),)]
    blocks += [(Factor(_ROTATION, 2, 0.0, j * frequency),) for j in range(1, len(share))]
    n = 2 * len(share) - 1
    harmonic = (np.arange(n) + 1) // 2
    to_f = np.zeros((3, n, n))
    for j in range(1, len(share)):
        to_f[0, 2 * j - 1 : 2 * j + 1, 2 * j - 1 : 2 * j + 1] = -j * frequency / period * _TURN
    to_p = np.stack([np.zeros((n, n)), variance * np.diag(to_share[harmonic]), np.diag(share[harmonic])])
    output = np.where(np.arange(n) % 2 == 1, 1.0, 0.0)
    output[0] = 1.0
    return LinearSDE(tuple(blocks), variance * np.diag(share[harmonic]), output, to_f, to_p, error=error)


def exponentiated_quadratic(lengthscale: float, variance: float = 1.0, order: int = 8) -> LinearSDE:
    """Covariance ``variance exp(-τ² / (2 lengthscale²))``, approximately.

    The spectral density exp(-z), z = (lengthscale ω)² / 2, is replaced by its Padé approximant with a numerator
    of degree two [4]_, which is positive on the real axis. Hyperparameters are lengthscale and variance.

    Parameters
    ----------
    lengthscale, variance : float
    order : {8, 6, 10, 12}
        Number of states. The largest errors of the correlation are 3e-4, 3e-3, 4e-5 and 5e-6.
    """
    poles, residues, error = _pade(order)
    n = 2 * len(poles)
    unit, shape = _modes(poles)
    output = np.empty(n)
    output[0::2], output[1::2] = 2.0 * residues.real, -2.0 * residues.imag
    shape = shape / (output @ shape @ output)
    return LinearSDE(
        blocks=tuple((Factor(_ROTATION, 2, -p.real / lengthscale, p.imag / lengthscale),) for p in poles),
        stationary=variance * shape,
        output=output,
        to_transition=np.stack([-(lengthscale**-2.0) * unit, 0.0 * unit]),
        to_stationary=np.stack([0.0 * shape, shape]),
        error=variance * error,
    )


def _modes(poles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F and P of dx_j = p_j x_j dt + dβ in real and imaginary parts, one β for all."""
    n = 2 * len(poles)
    f, shape = np.zeros((n, n)), np.empty((n, n))
    hermitian = -1.0 / (poles[:, None] + poles[None, :].conj())  # E x_j x_k*
    plain = -1.0 / (poles[:, None] + poles[None, :])  # E x_j x_k
    shape[0::2, 0::2] = 0.5 * (hermitian + plain).real
    shape[1::2, 1::2] = 0.5 * (hermitian - plain).real
    shape[1::2, 0::2] = 0.5 * (hermitian + plain).imag
    shape[0::2, 1::2] = shape[1::2, 0::2].T
    for j, p in enumerate(poles):
        f[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = p.real * np.eye(2) + p.imag * _TURN
    return f, shape


def _pade(order: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Poles in the upper left quarter of the plane, their residues, and the largest error of the correlation."""
    if order not in (6, 8, 10, 12):
        raise OptionError(f"order is 6, 8, 10 or 12, not {order}")
    above = 2
    # Padé approximant of exp(-z) with degrees `above` and `order`
    top = [
        (-1) ** j * math.comb(above, j) * math.factorial(above + order - j) / math.factorial(above + order)
        for j in range(above + 1)
    ]
    bottom = [
        math.comb(order, j) * math.factorial(above + order - j) / math.factorial(above + order)
        for j in range(order + 1)
    ]
    # z = -s²/2 with s = iω: roots in z give pairs ±s; those on the left belong to the causal factor
    poles, zeros = (_left(np.roots(c[::-1])) for c in (bottom, top))
    values = np.array([np.prod(p - zeros) / np.prod([p - q for q in poles if q != p]) for p in poles])
    kept = poles.imag > 0.0
    poles, values = poles[kept], values[kept]
    lags = np.linspace(0.0, 8.0, 401)
    _, shape = _modes(poles)
    output = np.empty(2 * len(poles))
    output[0::2], output[1::2] = 2.0 * values.real, -2.0 * values.imag
    right = shape @ output
    found = np.array([_correlation(poles, output, right, lag) for lag in lags]) / (output @ right)
    return poles, values, float(np.abs(found - np.exp(-0.5 * lags**2)).max())


def _correlation(poles: np.ndarray, output: np.ndarray, right: np.ndarray, lag: float) -> float:
    turn = np.exp(poles * lag)
    real, imaginary = right[0::2], right[1::2]
    return float(
        output[0::2] @ (turn.real * real - turn.imag * imaginary)
        + output[1::2] @ (turn.imag * real + turn.real * imaginary)
    )


def _left(roots_in_z: np.ndarray) -> np.ndarray:
    s = np.sqrt(-2.0 * roots_in_z.astype(complex))
    return np.where(s.real > 0.0, -s, s)


_MATERN = {"Matern12": 0.5, "Matern32": 1.5, "Matern52": 2.5}
_WORDS = frozenset((*_MATERN, "ExpQuad", "Periodic", "Cosine", "White", "Constant", "factor"))


def reason_against(kernel: Kernel) -> str | None:
    """Why a covariance function is not that of a linear stochastic differential equation; None where it is."""
    for leaf in kernel.root.leaves():
        if leaf.word not in _WORDS:
            words = ", ".join(sorted(_WORDS - {"factor"}))
            return f"{leaf.word} has no state-space form here; those of {words}, their sums and products have"
    if len(kernel.columns) != 1:
        return f"a state-space form is of one input column, and the kernel has {len(kernel.columns)}"
    return None


def of_kernel(kernel: Kernel, theta: Any, order: int = 8) -> LinearSDE:
    """A covariance function at given hyperparameters, with derivatives with respect to them.

    Parameters
    ----------
    kernel : Kernel
        Of one column.
    theta : array of shape (n_hyperparameters,)
        In the order of ``kernel.parameters``.
    order : int
        States for each ``ExpQuad``; see `exponentiated_quadratic`.

    Raises
    ------
    ModelError
        There is no such form; see `reason_against`.
    """
    reason = reason_against(kernel)
    if reason is not None:
        raise ModelError(reason)
    theta = np.asarray(theta, float)
    found, slots = _of_node(kernel.root, dict(zip(kernel.names, theta, strict=True)), order)
    jacobian = np.zeros((len(theta), found.n_hyperparameters))
    for column, (name, slope) in enumerate(slots):
        if name:
            jacobian[kernel.names.index(name), column] = slope
    return replace(
        found,
        to_transition=np.tensordot(jacobian, found.to_transition, 1),
        to_stationary=np.tensordot(jacobian, found.to_stationary, 1),
        to_white=jacobian @ found.to_white,
    )


def _of_node(node: Node, values: Mapping[str, float], order: int) -> tuple[LinearSDE, list[tuple[str, float]]]:
    """The process, and for each of its hyperparameters the name it depends on and the slope of that."""
    if node.word in ("+", "*"):
        parts = [_of_node(child, values, order) for child in node.children]
        whole = parts[0][0]
        for part, _ in parts[1:]:
            whole = whole + part if node.word == "+" else whole * part
        return whole, [slot for _, slots in parts for slot in slots]
    given = {role: arguments[0] for role, arguments in node.arguments.items()}
    value = {role: values[a.name] if a.name else float(a.value or 0.0) for role, a in given.items()}
    if "scale" in value:
        variance, scaled = value["scale"] ** 2, (given["scale"].name, 2.0 * value["scale"])
    else:
        variance, scaled = value["variance"], (given["variance"].name, 1.0)
    if node.word == "White":
        return white(variance), [scaled]
    if node.word in ("Constant", "factor"):
        return constant(variance), [scaled]
    slots = [(given[role].name, 1.0) for role in ("period", "lengthscale") if role in given]
    match node.word:
        case "Periodic":
            found = periodic(value["period"], value["lengthscale"], variance)
        case "Cosine":
            found = cosine(value["period"], variance)
        case "ExpQuad":
            found = exponentiated_quadratic(value["lengthscale"], variance, order)
        case _:
            found = matern(_MATERN[node.word], value["lengthscale"], variance)
    return found, [*slots, scaled]


@dataclass(frozen=True, eq=False)
class _Path:
    """Rows in the order of time."""

    order: np.ndarray
    steps: np.ndarray
    values: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(cls, sde: LinearSDE, times: Any, values: Any, noise: Any) -> _Path:
        times, values = np.asarray(times, float), np.asarray(values, float)
        noise = np.atleast_1d(np.asarray(noise, float)) + sde.white
        if times.ndim != 1 or values.shape != times.shape:
            raise DataError(f"times and values are vectors of one length, not {times.shape} and {values.shape}")
        if len(noise) not in (1, len(times)) or not np.all(noise >= 0.0):
            raise DataError("noise is one variance, or one for each row, none negative")
        if not np.all(np.isfinite(times)) or np.any(np.isinf(values)):
            raise DataError("times are finite numbers; values are finite, or NaN where missing")
        order = np.argsort(times, kind="stable")
        return cls(order, _steps(times[order]), values[order], noise[order] if len(noise) > 1 else noise)


def _steps(times: np.ndarray) -> np.ndarray:
    """Differences of times; equal ones where they differ by the rounding of the times only."""
    steps = np.diff(times, prepend=times[:1])
    if len(times) > 2:
        even = (times[-1] - times[0]) / (len(times) - 1)
        if np.abs(steps[1:] - even).max() <= 8.0 * np.finfo(float).eps * np.abs(times).max():
            steps[1:] = even
    return steps


def _arguments(sde: LinearSDE, noise: np.ndarray, *rows: np.ndarray) -> tuple[Any, ...]:
    return (*sde.rates(), sde.stationary, sde.output, noise, *sde.layout(), *rows)


_SINGULAR = (
    "a value is known from those before it: the covariance matrix is singular. Give noise, or white noise in the "
    "kernel, or leave duplicated inputs out"
)


def log_likelihood(sde: LinearSDE, times: Any, values: Any, noise: Any) -> float:
    """log p(values), normal with mean zero.

    Parameters
    ----------
    sde : LinearSDE
    times, values : array of shape (n,)
        In any order; NaN among the values is missing.
    noise : float or array of shape (n,)
        Variance of the values around the process.

    Raises
    ------
    ModelError
        The covariance matrix is singular.
    """
    from bayeslab.exact import _state_space_kernels as kernels

    path = _Path.of(sde, times, values, noise)
    found = kernels.log_evidence(*_arguments(sde, path.noise, path.steps, path.values))
    if math.isnan(found):
        raise ModelError(_SINGULAR)
    return float(found)


@dataclass(frozen=True, eq=False)
class Gradient:
    """Derivatives of a log likelihood.

    Parameters
    ----------
    hyperparameters : ndarray of shape (k,)
    noise : ndarray of shape (n,)
        With respect to the noise of each row; their sum where it is the same for all.
    values : ndarray of shape (n,)
        With respect to each value: minus the weights of the values in predictions.
    """

    hyperparameters: np.ndarray
    noise: np.ndarray
    values: np.ndarray


def log_likelihood_and_gradient(sde: LinearSDE, times: Any, values: Any, noise: Any) -> tuple[float, Gradient]:
    """`log_likelihood`, and its derivatives, in two passes over the rows."""
    from bayeslab.exact import _state_space_kernels as kernels

    path = _Path.of(sde, times, values, noise)
    value, to_f, to_p, to_noise, to_values = kernels.log_evidence_and_gradient(
        *_arguments(sde, path.noise, path.steps, path.values)
    )
    if math.isnan(value):
        raise ModelError(_SINGULAR)
    hyperparameters = np.einsum("kij,ij->k", sde.to_transition, to_f) + np.einsum("kij,ij->k", sde.to_stationary, to_p)
    back = np.empty(len(path.order), int)
    back[path.order] = np.arange(len(path.order))
    hyperparameters += sde.to_white * to_noise.sum()
    return float(value), Gradient(hyperparameters, to_noise[back], to_values[back])


@dataclass(frozen=True, eq=False)
class Smoothed:
    """The process given all values.

    Parameters
    ----------
    mean, variance : ndarray of shape (m,)
        Of the process, without noise, at the times asked for.
    term_mean, term_variance : ndarray of shape (n_terms, m)
        Of each summand of the kernel.
    left_out_mean, left_out_variance : ndarray of shape (n,)
        Of each value (with its noise) given all others.
    """

    mean: np.ndarray
    variance: np.ndarray
    term_mean: np.ndarray
    term_variance: np.ndarray
    left_out_mean: np.ndarray
    left_out_variance: np.ndarray


def smooth(sde: LinearSDE, times: Any, values: Any, noise: Any, at: Any = None) -> Smoothed:
    """The process at the times of the data, or at others, given all values.

    Parameters
    ----------
    sde, times, values, noise
        As for `log_likelihood`.
    at : array of shape (m,), optional
        Times, in any order; those of the data without it.
    """
    from bayeslab.exact import _state_space_kernels as kernels

    times = np.asarray(times, float)
    n, more = len(times), np.zeros(0) if at is None else np.asarray(at, float)
    path = _extended(sde, times, values, noise, more)
    wanted = np.zeros((1 + len(sde.terms), sde.n_states))
    wanted[0] = sde.output
    for row, (low, high) in enumerate(sde.terms):
        wanted[row + 1, low:high] = sde.output[low:high]
    found = kernels.smooth_path(*_arguments(sde, path.noise, path.steps, path.values, wanted))
    sorted_back = np.empty(len(path.order), int)
    sorted_back[path.order] = np.arange(len(path.order))
    mean, variance, left_mean, left_variance = (f[sorted_back] for f in found)
    asked = slice(0, n) if at is None else slice(n, None)
    if not np.all(np.isfinite(mean)):
        raise ModelError(_SINGULAR)
    return Smoothed(
        mean[asked, 0],
        variance[asked, 0],
        mean[asked, 1:].T,
        variance[asked, 1:].T,
        left_mean[:n],
        left_variance[:n],
    )


def _extended(sde: LinearSDE, times: np.ndarray, values: Any, noise: Any, more: np.ndarray) -> _Path:
    noise = np.atleast_1d(np.asarray(noise, float))
    if len(noise) > 1:
        noise = np.concatenate([noise, np.ones(len(more))])
    both = np.concatenate([np.asarray(values, float), np.full(len(more), np.nan)])
    return _Path.of(sde, np.concatenate([times, more]), both, noise)


def draw(sde: LinearSDE, times: Any, values: Any, noise: Any, at: Any, rng: np.random.Generator, n: int) -> np.ndarray:
    """Joint draws of the process at some times given all values, (n, m).

    A path drawn from the prior is corrected by what the data say of its difference from them [5]_.
    """
    from bayeslab.exact import _state_space_kernels as kernels

    times, more, values = np.asarray(times, float), np.asarray(at, float), np.asarray(values, float)
    path = _extended(sde, times, values, noise, more)
    rates, layout = sde.rates(), sde.layout()
    asked = path.order >= len(times)
    out = np.empty((n, len(more)))
    for i in range(n):
        standard = rng.standard_normal((len(path.order), sde.n_states))
        states = kernels.draw_path(*rates, sde.stationary, sde.output, *layout, path.steps, standard)
        prior = states @ sde.output
        rows = prior + np.sqrt(path.noise) * rng.standard_normal(len(prior))
        difference = path.values - rows
        mean = kernels.smooth_path(*_arguments(sde, path.noise, path.steps, difference, sde.output[None]))[0][:, 0]
        out[i, path.order[asked] - len(times)] = (prior + mean)[asked]
    return out


@dataclass(frozen=True, eq=False)
class StateSpaceProcess:
    """A Gaussian process in time given its hyperparameters and normal observations.

    Parameters
    ----------
    kernel : Kernel
    theta : ndarray of shape (parameters,)
    times, residuals, noise : ndarray of shape (n,)
        Times, observations minus the mean function, and the variances of the observations.
    order : int
        States for each ``ExpQuad``.
    """

    kernel: Kernel
    theta: np.ndarray
    times: np.ndarray
    residuals: np.ndarray
    noise: np.ndarray
    order: int = 8
    jitter: float = 0.0

    @cached_property
    def sde(self) -> LinearSDE:
        return of_kernel(self.kernel, self.theta, self.order)

    @property
    def log_evidence(self) -> float:
        """Log density of the observations."""
        return log_likelihood(self.sde, self.times, self.residuals, self.noise)

    def _number(self, term: Kernel) -> int:
        return [k.root for k in self.kernel.components().values()].index(term.root)

    def predict(self, z: np.ndarray, term: Kernel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the function at ``z`` (m, 1), or of one term, white noise left out."""
        found = smooth(self.sde, self.times, self.residuals, self.noise, np.asarray(z, float)[:, 0])
        if term is None:
            return found.mean, found.variance
        row = self._number(term)
        return found.term_mean[row], found.term_variance[row]

    def components(self, z: np.ndarray) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        """Posterior mean and variance at ``z`` of each term of the kernel's sum, by its text; white noise left out."""
        found = smooth(self.sde, self.times, self.residuals, self.noise, np.asarray(z, float)[:, 0])
        return {
            name: (found.term_mean[row], found.term_variance[row])
            for row, (name, term) in enumerate(self.kernel.components().items())
            if term.free_of_noise() is not None
        }

    def joint(self, z: np.ndarray, term: Kernel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and covariance matrix of the function at ``z``, or of one term: a smoothing pass for each row.

        A column of K(z, x) C⁻¹ K(x, z) is what smoothing makes of the covariances with one row of ``z``.
        """
        z = np.ascontiguousarray(z, float)
        part = self.kernel.free_of_noise() if term is None else term.free_of_noise()
        row = 0 if term is None else self._number(term)
        if part is None:
            return np.zeros(len(z)), np.zeros((len(z), len(z)))
        known = np.empty((len(z), len(z)))
        alone = of_kernel(part, self.theta, self.order)
        for j in range(len(z)):
            values = alone.covariance(self.times - z[j, 0])
            found = smooth(self.sde, self.times, values, self.noise, z[:, 0])
            known[:, j] = found.mean if term is None else found.term_mean[row]
        prior = alone.covariance(z - z.T)
        return self.predict(z, term)[0], prior - 0.5 * (known + known.T)

    def draw(self, z: np.ndarray, rng: np.random.Generator, n: int) -> np.ndarray:
        """Joint draws of the function at ``z``, (n, m)."""
        return draw(self.sde, self.times, self.residuals, self.noise, np.asarray(z, float)[:, 0], rng, n)

    def leave_one_out(self) -> LeaveOneOut:
        """Every observation predicted from all others."""
        found = smooth(self.sde, self.times, self.residuals, self.noise)
        variance, gap = found.left_out_variance, self.residuals - found.left_out_mean
        return LeaveOneOut(found.left_out_mean, variance, -0.5 * np.log(2 * np.pi * variance) - 0.5 * gap**2 / variance)


@dataclass(frozen=True, eq=False)
class StateSpaceRegression:
    """Data in time, as functions of the hyperparameters.

    Parameters
    ----------
    kernel : Kernel
    x : ndarray of shape (n, 1)
    y : ndarray of shape (n,)
    design : ndarray of shape (n, p)
        Of the mean function.
    known : ndarray of shape (n,)
        Known variances of the observations, added to the noise.
    order : int
        States for each ``ExpQuad``.
    """

    kernel: Kernel
    x: np.ndarray
    y: np.ndarray
    design: np.ndarray
    known: np.ndarray
    order: int = 8

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        by_time = np.argsort(self.x[:, 0], kind="stable")
        return by_time, _steps(self.x[by_time, 0])

    def _split(self, parameters: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        k = len(self.kernel.parameters)
        return parameters[:k], float(parameters[k]), parameters[k + 1 :]

    def posterior(self, parameters: np.ndarray) -> StateSpaceProcess:
        """The process at θ, the standard deviation of the noise, and the coefficients of the mean, in one vector."""
        theta, sd, coefficients = self._split(np.asarray(parameters, float))
        residuals, noise = self.y - self.design @ coefficients, self.known + sd**2
        return StateSpaceProcess(self.kernel, theta, self.x[:, 0], residuals, noise, self.order)

    def log_marginal(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its gradient; minus infinity where the covariance matrix is singular."""
        from bayeslab.exact import _state_space_kernels as kernels

        parameters = np.asarray(parameters, float)
        theta, sd, coefficients = self._split(parameters)
        sde = of_kernel(self.kernel, theta, self.order)
        by_time, steps = self._sorted
        residuals = (self.y - self.design @ coefficients)[by_time]
        same = np.ptp(self.known) == 0.0
        noise = (self.known[:1] if same else self.known[by_time]) + (sd**2 + sde.white)
        value, to_f, to_p, to_noise, to_rows = kernels.log_evidence_and_gradient(
            *_arguments(sde, noise, steps, residuals)
        )
        if not value > -np.inf:
            return -np.inf, np.zeros(len(parameters))
        total = to_noise.sum()
        to_theta = np.tensordot(sde.to_transition, to_f, 2) + np.tensordot(sde.to_stationary, to_p, 2)
        to_coefficients = -to_rows @ self.design[by_time]
        return float(value), np.concatenate([to_theta + sde.to_white * total, [2.0 * sd * total], to_coefficients])

    def stretch(self, share: float) -> StateSpaceRegression:
        """The rows of a stretch of time, one beside the other as they are in the whole."""
        rows = self._sorted[0][: max(int(share * len(self.y)), 1)]
        return replace(self, x=self.x[rows], y=self.y[rows], design=self.design[rows], known=self.known[rows])

    def remarks(self) -> list[str]:
        """What is approximated, and how."""
        words = {leaf.word for leaf in self.kernel.root.leaves()}
        out = []
        if "ExpQuad" in words:
            error = _pade(self.order)[2]
            out.append(f"ExpQuad has a rational spectrum with {self.order} states: correlations err by {error:.1g}")
        if "Periodic" in words:
            out.append(
                "Periodic is a sum of cosines that leaves out less than 1e-9 of the variance (lengthscale above 0.11)"
            )
        return out
