r"""Stationary processes in time as linear stochastic differential equations, and kernels as their sums and products.

A stationary process whose spectral density is a ratio of polynomials is one coordinate of a linear
stochastic differential equation [1]_

    dx = F x dt + L dβ        f(t) = h'x(t)        x ~ N(0, P) at any time,

with covariance function h' exp(Fτ) P h. Matérn processes of half-integer order are such processes exactly, constants
and cosines trivially. A periodic kernel is a sum of cosines [2]_, an exponentiated quadratic one the limit of rational
spectra; both are cut short, and `LinearSDE.error` says what that costs. Sums put states side by side, products multiply
them (Kronecker products). White noise is no state: it is added to the noise of the rows.

:mod:`bayeslab.latents.gaussian_process.state_space` filters and smooths rows with them.

References
----------
.. [1] Hartikainen, Särkkä (2010). Kalman filtering and smoothing solutions to temporal Gaussian process regression
   models. IEEE MLSP 2010, 379-384.
.. [2] Solin, Särkkä (2014). Explicit link between periodic covariance functions and state space models. AISTATS 2014,
   904-912.
.. [3] Särkkä, Solin (2019). Applied Stochastic Differential Equations. Cambridge University Press, chapter 12.
.. [4] Karvonen, Särkkä (2016). Approximate state-space Gaussian processes via spectral transformation. IEEE MLSP 2016.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.errors import ModelError, OptionError

if TYPE_CHECKING:
    from bayeslab.latents.gaussian_process.covariance import Kernel, Node

__all__ = [
    "Factor",
    "LinearSDE",
    "constant",
    "cosine",
    "exponentiated_quadratic",
    "matern",
    "of_kernel",
    "pade_error",
    "periodic",
    "reason_against",
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
        from bayeslab.latents.gaussian_process import state_space_kernels as kernels

        lags = np.abs(np.asarray(lags, float))
        a, values = np.zeros((self.n_states, self.n_states)), np.empty(lags.shape)
        right, layout = self.stationary @ self.output, self.layout()
        for index in np.ndindex(lags.shape):
            kernels.transition(float(lags[index]), *self.rates(), *layout, a)
            values[index] = self.output @ a @ right
        return values

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
            " kernels, or take longer lengthscales of periodic ones",
            code="too-costly",
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
        raise OptionError(f"order is 0.5, 1.5 or 2.5, not {order}", code="unknown-word")
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
        raise OptionError(f"order is 6, 8, 10 or 12, not {order}", code="unknown-word")
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
    correlations = np.array([_correlation(poles, output, right, lag) for lag in lags]) / (output @ right)
    return poles, values, float(np.abs(correlations - np.exp(-0.5 * lags**2)).max())


def pade_error(order: int) -> float:
    """The largest error of the correlation of `exponentiated_quadratic`."""
    return _pade(order)[2]


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
        raise ModelError(reason, code="unsupported")
    theta = np.asarray(theta, float)
    sde, slots = _of_node(kernel.root, dict(zip(kernel.names, theta, strict=True)), order)
    jacobian = np.zeros((len(theta), sde.n_hyperparameters))
    for column, (name, slope) in enumerate(slots):
        if name:
            jacobian[kernel.names.index(name), column] = slope
    return replace(
        sde,
        to_transition=np.tensordot(jacobian, sde.to_transition, 1),
        to_stationary=np.tensordot(jacobian, sde.to_stationary, 1),
        to_white=jacobian @ sde.to_white,
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
            sde = periodic(value["period"], value["lengthscale"], variance)
        case "Cosine":
            sde = cosine(value["period"], variance)
        case "ExpQuad":
            sde = exponentiated_quadratic(value["lengthscale"], variance, order)
        case _:
            sde = matern(_MATERN[node.word], value["lengthscale"], variance)
    return sde, [*slots, scaled]
