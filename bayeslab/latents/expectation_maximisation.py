"""Expectation maximisation: the maximum of a likelihood with incomplete data.

With complete data the maximum would follow from a few sufficient statistics. EM replaces them by their expectations at
the current parameters (E-step), maximises given these (M-step), and repeats. No step lowers the likelihood [1]_. The
speed depends on the missing data: every step multiplies the error by the fraction of missing information, so that the
last digits are slow. Three faster variants use the same expected statistics, which by Fisher's identity are also the
gradient of the observed log likelihood:

- ``accelerated``: SQUAREM [2]_ extrapolates from two EM steps, and accepts the result only if it is not lower;
- ``newton``: EM for the first, large gains, a quasi-Newton method (BFGS) for the last digits [3]_;
- ``gradient``: gradient ascent in the probabilities, projected to sums of one [4]_.

``stochastic`` draws the missing data instead of summing them out and averages the statistics over the iterations with
decreasing weights [5]_, for models without a tractable E-step.

All variants end in a local maximum, and some starting points are exactly at a saddle; several starts help
(:func:`restarted`).

References
----------
.. [1] Dempster, Laird, Rubin (1977). Maximum likelihood from incomplete data via the EM algorithm.
   Journal of the Royal Statistical Society B 39, 1-38.
.. [2] Varadhan, Roland (2008). Simple and globally convergent methods for accelerating the convergence
   of any EM algorithm. Scandinavian Journal of Statistics 35, 335-353.
.. [3] Meilijson (1989). A fast improvement to the EM algorithm on its own terms. Journal of the Royal
   Statistical Society B 51, 127-138.
.. [4] Russell, Binder, Koller, Kanazawa (1995). Local learning in probabilistic networks with hidden
   variables. IJCAI 14, 1146-1152.
.. [5] Delyon, Lavielle, Moulines (1999). Convergence of a stochastic approximation version of the EM
   algorithm. Annals of Statistics 27, 94-128.
.. [6] Böhning, Dietz, Schaub, Schlattmann, Lindsay (1994). The distribution of the likelihood ratio for
   mixtures of densities from the one-parameter exponential family. Annals of the Institute of
   Statistical Mathematics 46, 373-388 (when to stop: Aitken's estimate of what is left to gain).
.. [7] Barzilai, Borwein (1988). Two-point step size gradient methods. IMA Journal of Numerical Analysis 8, 141-148.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bayeslab.blas import one_blas_thread
from bayeslab.errors import OptionError, hint

__all__ = [
    "VARIANTS",
    "Ascending",
    "Drawing",
    "EMResult",
    "Problem",
    "Restarts",
    "Smooth",
    "Variant",
    "maximise",
    "restarted",
    "standard_errors",
]

Array = NDArray[np.float64]
type Parameters = Mapping[str, Array]
type Statistics = Mapping[str, Array]
type Step = Callable[[int, Parameters, float], None]
Variant = Literal["em", "accelerated", "newton", "gradient", "stochastic"]

# Relative rounding error of a log likelihood, a sum of many terms: smaller gains count as zero.
_ROUNDING = 1e-13


class Problem(Protocol):
    """A problem for plain EM. Parameters and expected statistics are arrays by name."""

    def expect(self, theta: Parameters) -> tuple[float, Statistics]:
        """The observed log likelihood at ``theta`` and the expected statistics, in one pass over the data."""
        ...

    def update(self, statistics: Statistics, theta: Parameters) -> Parameters:
        """The parameters that maximise the expected log likelihood (plus the log prior, if there is one).

        ``theta``: the parameters that gave the statistics, as the start of iterative M-steps.
        """
        ...

    def log_prior(self, theta: Parameters) -> float:
        """Log density of the prior; 0 for maximum likelihood."""
        ...


@runtime_checkable
class Smooth(Problem, Protocol):
    """A problem with unconstrained coordinates, for variants that extrapolate or use gradients."""

    def flatten(self, theta: Parameters) -> Array:
        """Coordinates that may take any real value; they may be redundant."""
        ...

    def unflatten(self, x: Array) -> Parameters:
        """The inverse of :meth:`flatten`."""
        ...

    def gradient(self, theta: Parameters, statistics: Statistics) -> Array:
        """Slope of log likelihood plus log prior in the coordinates, by Fisher's identity from the expected totals."""
        ...


class Ascending(Problem, Protocol):
    """A problem for gradient ascent in its parameters."""

    def slope(self, theta: Parameters, statistics: Statistics) -> Parameters:
        """Derivative of log likelihood plus log prior by each parameter, without constraints."""
        ...

    def project(self, values: Parameters) -> Parameters:
        """Projection to the nearest valid parameters."""
        ...


class Drawing(Problem, Protocol):
    """A problem that can draw the missing data."""

    def chain(self, theta: Parameters, rng: np.random.Generator) -> Callable[[Parameters], Statistics]:
        """A Markov chain over the missing data: each call takes steps at the given parameters.

        It returns the statistics of the drawn data.
        """
        ...


@dataclass(frozen=True, eq=False)
class EMResult:
    """Result of a search.

    Attributes
    ----------
    parameters : mapping of str to ndarray
    log_likelihood, log_posterior : float
        At the parameters; the posterior up to the evidence.
    trace, posterior_trace : ndarray
        Both at the start and after each iteration.
    iterations, evaluations : int
        Steps taken, and passes over the data they cost.
    converged : bool
        Whether another step would add less than the tolerance.
    reason : str
        Why the search ended.
    """

    parameters: Parameters
    log_likelihood: float
    log_posterior: float
    trace: Array
    posterior_trace: Array
    iterations: int
    evaluations: int
    converged: bool
    reason: str


@dataclass(frozen=True, eq=False)
class Restarts:
    """Searches from several starting points.

    Attributes
    ----------
    best : EMResult
        The one with the highest log posterior.
    ends : tuple of EMResult
        All of them, in the order of their starting points.
    interrupted : bool
    """

    best: EMResult
    ends: tuple[EMResult, ...]
    interrupted: bool = False

    def reaching(self, within: float = 1e-3) -> int:
        """Number of searches that ended within this distance of the best log posterior."""
        return sum(self.best.log_posterior - end.log_posterior <= within for end in self.ends)


class _Point(NamedTuple):
    theta: Parameters
    value: float  # log posterior
    log_likelihood: float
    statistics: Statistics


@dataclass
class _Trail:
    """Progress of a search, kept if it is interrupted."""

    problem: Problem
    progress: Step | None
    max_iterations: int
    point: _Point = field(init=False)
    trace: list[float] = field(default_factory=list)
    posteriors: list[float] = field(default_factory=list)
    evaluations: int = 0

    def at(self, theta: Parameters) -> _Point:
        """Evaluate one pass over the data at these parameters."""
        self.evaluations += 1
        log_likelihood, statistics = self.problem.expect(theta)
        return _Point(theta, log_likelihood + self.problem.log_prior(theta), log_likelihood, statistics)

    def accept(self, point: _Point) -> None:
        self.point = point
        self.trace.append(point.log_likelihood)
        self.posteriors.append(point.value)
        if self.progress is not None:
            self.progress(len(self.trace) - 1, point.theta, point.value)

    def offer(self, point: _Point) -> float:
        """Accept the point unless it is lower; the gain."""
        if self.spent:
            raise _Spent
        gain = point.value - self.point.value
        if not gain >= 0:  # at the top, by rounding; an M-step that is itself an iteration may be a little off, too
            return 0.0
        self.accept(point)
        return gain

    @property
    def iterations(self) -> int:
        return len(self.trace) - 1

    @property
    def spent(self) -> bool:
        return self.iterations >= self.max_iterations

    def result(self, converged: bool, reason: str) -> EMResult:
        return EMResult(
            self.point.theta,
            self.point.log_likelihood,
            self.point.value,
            np.array(self.trace),
            np.array(self.posteriors),
            self.iterations,
            self.evaluations,
            converged,
            reason,
        )


def maximise(
    problem: Problem,
    start: Parameters,
    *,
    variant: Variant = "em",
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    rng: np.random.Generator | None = None,
    progress: Step | None = None,
) -> EMResult:
    """The nearest maximum of the log posterior (without a prior: of the log likelihood).

    Parameters
    ----------
    problem
        With a likelihood and expected totals; the variants ask for more (:class:`Smooth` for ``accelerated`` and
        ``newton``, :class:`Ascending` for ``gradient``, :class:`Drawing` for ``stochastic``).
    start : mapping of str to ndarray
    variant
        The algorithm; see the module.
    tolerance : float
        Stop when the estimated remaining gain of the log posterior is smaller.
    max_iterations : int
    rng
        Random generator for ``stochastic``.
    progress : callable, optional
        Called with the number of the iteration, the parameters and the log posterior, for the start and after each
        iteration. A KeyboardInterrupt, there or elsewhere, ends the search with what it has.

    Raises
    ------
    OptionError
        The variant is unknown or not supported by the problem, or the data have probability zero at the start.
    """
    if variant not in VARIANTS:
        raise OptionError(f"'{variant}' is not a variant of EM{hint(variant, VARIANTS)}", code="unknown-word")
    climb, needs = VARIANTS[variant]
    lacking = [name for name in needs if not hasattr(problem, name)]
    if lacking:
        raise OptionError(f"variant {variant} is not possible for this problem; use em", code="not-suited")
    trail = _Trail(problem, progress, max_iterations)
    try:
        first = trail.at(start)
        if not math.isfinite(first.value):
            raise OptionError(
                f"the log posterior at the starting point is {first.value}: the data have probability zero there; start"
                " where no probability is zero, and look at tables that are known",
                code="probability-zero",
            )
        trail.accept(first)
        try:
            converged, reason = climb(trail, tolerance, rng)
        except _Spent:
            converged, reason = False, f"stopped after {trail.iterations} iterations"
    except KeyboardInterrupt:
        if not trail.trace:
            raise
        converged, reason = False, "interrupted"
    return trail.result(converged, reason)


class _Spent(Exception):
    """No iterations are left."""


def _em_step(trail: _Trail) -> float:
    """One step of EM from the current point; its gain."""
    if trail.spent:
        raise _Spent
    point = trail.point
    return trail.offer(trail.at(trail.problem.update(point.statistics, point.theta)))


def _nothing(gain: float, trail: _Trail) -> bool:
    return gain <= _ROUNDING * max(1.0, abs(trail.point.value))


def _left(gains: Sequence[float]) -> float:
    """Estimated remaining gain if gains keep shrinking by the same factor [6]_; infinite if they do not shrink.

    The factor is that of the last tenth of the gains, and not less than the last: where the maximum is at a bound,
    gains fall ever more slowly, and the ratio of two of them is told from 1 by many steps only.
    """
    if len(gains) < 2 or not all(0 < gain < math.inf for gain in gains[-2:]):
        return math.inf
    window = max(1, len(gains) // 10)
    before = gains[-1 - window]
    factor = gains[-1] / gains[-2]
    if 0 < before < math.inf:
        factor = max(factor, (gains[-1] / before) ** (1 / window))
    return gains[-1] * factor / (1 - factor) if factor < 1 else math.inf


def _small(gains: Sequence[float], trail: _Trail, tolerance: float) -> bool:
    """Whether the last gain is zero, or the remaining gain is below the tolerance."""
    return _nothing(gains[-1], trail) or (gains[-1] < tolerance and _left(gains) < tolerance)


def _done(tolerance: float) -> tuple[bool, str]:
    return True, f"less than {tolerance:g} left to gain"


def _em(trail: _Trail, tolerance: float, rng: Any) -> tuple[bool, str]:
    gains: list[float] = []
    n_small = 0
    while n_small < 2:
        gains.append(_em_step(trail))
        n_small = n_small + 1 if _small(gains, trail, tolerance) else 0
    return _done(tolerance)


def _accelerated(trail: _Trail, tolerance: float, rng: Any) -> tuple[bool, str]:
    """SQUAREM, scheme S3 of [2]_, made monotone by falling back to the second EM step."""
    problem = cast(Smooth, trail.problem)
    able, longest, n_small, polished = isinstance(trail.problem, Smooth), 1.0, 0, False
    while n_small < 2:
        before = trail.point.value
        x0 = problem.flatten(trail.point.theta)
        first = _em_step(trail)
        x1 = problem.flatten(trail.point.theta)
        second = problem.update(trail.point.statistics, trail.point.theta)
        r, v = x1 - x0, problem.flatten(second) - 2 * x1 + x0
        bend = float(np.linalg.norm(v))
        length = min(max(float(np.linalg.norm(r)) / bend, 1.0), longest) if bend > 0 else 1.0
        # At length 1 the guess is the second EM step itself.
        guess = second if length == 1.0 else problem.unflatten(x0 + 2 * length * r + length**2 * v)
        point = trail.at(guess)
        if guess is not second and not point.value >= trail.point.value:
            longest = max(1.0, longest / 4)
            point = trail.at(second)
        elif length == longest:
            longest *= 4
        trail.offer(point)
        # Small gains in a row may be the slow ones of a flat ridge, or of a maximum at a bound. EM's own, which shrink
        # by the squared ratio of its steps, say how much is left only where the slowest direction has won; a
        # quasi-Newton method, which learns the curvature, finds what there is.
        ratio = float(np.linalg.norm(r + v) / np.linalg.norm(r)) if np.any(r) else 0.0
        left = not (_nothing(first, trail) or first < tolerance * (1 - ratio**2))
        small = trail.point.value - before < tolerance / 10
        n_small = n_small + 1 if small and (able or not left) else 0
        if able and not polished and (n_small == 2 or (left and trail.iterations >= _LONG)):
            before = trail.point.value
            _quasi_newton(trail, tolerance)
            gained = trail.point.value - before
            if n_small == 2 and not left and gained < tolerance:
                break
            n_small, polished = 0, gained < tolerance or trail.iterations >= _LONG
    return _done(tolerance)


def _newton(trail: _Trail, tolerance: float, rng: Any) -> tuple[bool, str]:
    """EM while gains are large, then BFGS, then EM again to confirm convergence."""
    polished = False
    while True:
        gains: list[float] = []
        n_small = 0
        for _ in range(_EM_PHASE):
            gains.append(_em_step(trail))
            n_small = n_small + 1 if _small(gains, trail, tolerance) else 0
            if n_small == 2 or (len(gains) > 3 and gains[-1] > _SLOW * gains[-2]):
                break
        if n_small == 2 and polished:
            return _done(tolerance)
        _quasi_newton(trail, tolerance)
        polished = True


# From here on gains of EM shrink slowly, and a method that learns the curvature is faster.
_SLOW, _EM_PHASE = 0.5, 20
# Iterations after which extrapolated EM is slow.
_LONG = 300
# A quasi-Newton search ends where so many steps gain less than this share of the tolerance.
_STILL, _SHARE = 4, 0.01
# Largest number of coordinates for BFGS with a full matrix.
_DENSE = 300
# Of more coordinates no gradient is taken, since the cost of differences grows with their square: with 200,000 one
# takes hours. EM goes on by itself.
_MOST = 10_000


def _quasi_newton(trail: _Trail, tolerance: float) -> None:
    """BFGS from where the trail is, until several steps in a row gain next to nothing of the tolerance."""
    from scipy.optimize import minimize

    problem, best = cast(Smooth, trail.problem), [trail.point]
    floor = trail.point.value

    def falling(x: Array) -> tuple[float, Array]:
        # A line search may try a step beyond what numbers hold: no density there.
        with np.errstate(all="ignore"):
            point = trail.at(problem.unflatten(x))
        if not math.isfinite(point.value):
            return 1e6 - floor, np.zeros_like(x)
        if point.value > best[0].value:
            best[0] = point
        # At an end of what a prior allows differences have no slope: along such coordinates the search stays.
        with np.errstate(all="ignore"):
            slope = problem.gradient(point.theta, point.statistics)
        return floor - point.value, -np.where(np.isfinite(slope), slope, 0.0)

    heights = [floor]

    def take() -> None:
        if best[0].value > trail.point.value:
            trail.offer(best[0])

    def step(_: Array) -> None:
        take()
        heights.append(best[0].value)
        if len(heights) > _STILL and heights[-1] - heights[-1 - _STILL] < _SHARE * tolerance:
            raise StopIteration

    x = problem.flatten(trail.point.theta)
    if x.size > _MOST:
        return
    method = "BFGS" if x.size <= _DENSE else "L-BFGS-B"
    limits = {"gtol": 1e-7} if method == "BFGS" else {"gtol": 1e-7, "ftol": 1e-15, "maxfun": 10**6}
    with one_blas_thread():
        minimize(
            falling, x, jac=True, method=method, callback=step, options={"maxiter": trail.max_iterations, **limits}
        )
    take()


def _gradient(trail: _Trail, tolerance: float, rng: Any) -> tuple[bool, str]:
    """Projected gradient, steps as long as the last change of slope suggests [7]_, halved until they lead uphill.

    [4]_ and Mitchell (1997, section 6.11.5) step along dL/dw = sum_d P(y, u | d) / w and then "renormalise". Dividing
    by the sum is not a step uphill: it stands still where w is proportional to the square roots of the expected counts.
    The nearest point where rows sum to one is meant, and taken here.
    """
    problem = cast(Ascending, trail.problem)
    slope = problem.slope(trail.point.theta, trail.point.statistics)
    step, n_small = 1e-3 / max(1e-300, *(float(np.abs(g).max(initial=0.0)) for g in slope.values())), 0
    while True:
        before = trail.point
        for _ in range(_HALVINGS):
            theta = problem.project({name: before.theta[name] + step * g for name, g in slope.items()})
            moved = sum(float(((theta[name] - before.theta[name]) ** 2).sum()) for name in slope)
            point = trail.at(theta)
            if point.value >= before.value + _ENOUGH * moved / step:
                break
            step /= 2
        gain = trail.offer(point)
        n_small = n_small + 1 if gain < tolerance / 10 else 0
        if n_small >= _N_SMALL:
            if _em_step(trail) < tolerance:
                return _done(tolerance)
            n_small = 0
        old, slope = slope, problem.slope(trail.point.theta, trail.point.statistics)
        change = {name: trail.point.theta[name] - before.theta[name] for name in slope}
        length = sum(float((d**2).sum()) for d in change.values())
        curve = sum(float((change[name] * (old[name] - slope[name])).sum()) for name in slope)
        step = length / curve if curve > 0 and length > 0 else 2 * step


# A step counts as uphill if it gains this part of what the slope promises (Armijo 1966).
_ENOUGH, _HALVINGS, _N_SMALL = 1e-4, 60, 5


def _stochastic(trail: _Trail, tolerance: float, rng: np.random.Generator | None) -> tuple[bool, str]:
    """Statistics from draws, averaged with weight 1 for the first half and 1/k afterwards [5]_."""
    if rng is None:
        raise OptionError("variant stochastic draws what is hidden: give rng", code="incomplete")
    theta, totals = trail.point.theta, dict[str, Array]()
    chain = cast(Drawing, trail.problem).chain(theta, rng)
    warm = max(1, trail.max_iterations // 2)
    for k in range(trail.max_iterations):
        drawn = chain(theta)
        share = 1.0 if k < warm else 1.0 / (k - warm + 2)
        totals = {name: (1 - share) * totals[name] + share * d if totals else d for name, d in drawn.items()}
        theta = trail.problem.update(totals, theta)
        trail.accept(trail.at(theta))
    point = trail.at(trail.problem.update(trail.point.statistics, theta))
    left = point.value - trail.point.value
    return left < max(tolerance, 0.1), f"{trail.iterations} steps; one of exact EM would add {left:.2g}"


VARIANTS: Mapping[str, tuple[Callable[[_Trail, float, Any], tuple[bool, str]], tuple[str, ...]]] = {
    "em": (_em, ()),
    "accelerated": (_accelerated, ("flatten", "unflatten")),
    "newton": (_newton, ("flatten", "unflatten", "gradient")),
    "gradient": (_gradient, ("slope", "project")),
    "stochastic": (_stochastic, ("chain",)),
}


def restarted(
    problem: Problem,
    draw: Callable[[np.random.Generator], Parameters],
    *,
    restarts: int,
    rng: np.random.Generator,
    cores: int = 1,
    progress: Callable[[int, int, Parameters, float], None] | None = None,
    **options: Any,
) -> Restarts:
    """The best of several searches from random starting points.

    Each has a generator of its own, spawned from ``rng``: the results do not depend on ``cores``.

    Parameters
    ----------
    draw : callable
        A starting point, from a generator.
    restarts : int
        Number of starting points.
    cores : int
        Searches at a time, in threads (kernels release the interpreter's lock).
    progress : callable, optional
        Called with the number of the search first, else as in :func:`maximise`.
    **options
        Of :func:`maximise`.
    """
    stop, ends = threading.Event(), dict[int, EMResult]()

    def search(k: int, restart_rng: np.random.Generator) -> None:
        def step(iteration: int, theta: Parameters, value: float) -> None:
            if stop.is_set():
                raise KeyboardInterrupt
            if progress is not None:
                progress(k, iteration, theta, value)

        ends[k] = maximise(problem, draw(restart_rng), rng=restart_rng, progress=step, **options)
        if ends[k].reason == "interrupted":
            stop.set()

    sources = rng.spawn(restarts)
    if cores == 1:
        for k, restart_rng in enumerate(sources):
            if stop.is_set():
                break
            search(k, restart_rng)
    else:
        _in_threads(search, sources, cores, stop)
    results = tuple(ends[k] for k in sorted(ends))
    return Restarts(max(results, key=lambda end: end.log_posterior), results, stop.is_set())


def _in_threads(search: Callable[..., None], sources: list[np.random.Generator], cores: int, stop: Any) -> None:
    # SciPy silences its line search for a while, and threads lift that from each other.
    with warnings.catch_warnings(), ThreadPoolExecutor(cores) as pool:
        warnings.filterwarnings("ignore", "The line search algorithm did not converge")
        waiting = [pool.submit(search, k, restart_rng) for k, restart_rng in enumerate(sources)]
        try:
            for future in waiting:
                future.result()
        except KeyboardInterrupt:
            stop.set()
            for future in waiting:
                future.cancel()


def standard_errors(
    problem: Smooth, theta: Parameters, values: Callable[[Parameters], Parameters] = lambda theta: theta
) -> Parameters:
    """Standard errors from the observed information at a maximum.

    The Hessian comes from central differences of the exact gradient; the errors of the parameters from those of
    the coordinates by the delta method. They describe the posterior (or the sampling distribution) where it is normal:
    not at a boundary. Parameters that the data do not determine have infinite errors, and there are none (NaN) where
    the point is no maximum.

    Parameters
    ----------
    problem
    theta : mapping of str to ndarray
        A maximum.
    values : callable, optional
        Function of the parameters whose errors are computed; default: the parameters themselves.

    Returns
    -------
    mapping of str to ndarray
        Standard errors, in the shapes of ``values(theta)``.
    """
    x = problem.flatten(theta)
    step = 1e-4 * np.maximum(1.0, np.abs(x) / 10)
    information, jacobian = np.empty((x.size, x.size)), []
    for i in range(x.size):
        sides = []
        for sign in (1, -1):
            there = problem.unflatten(x + sign * step[i] * np.eye(x.size)[i])
            sides.append((problem.gradient(there, problem.expect(there)[1]), _stacked(values(there))))
        information[i] = (sides[1][0] - sides[0][0]) / (2 * step[i])
        jacobian.append((sides[0][1] - sides[1][1]) / (2 * step[i]))
    curves, vectors = np.linalg.eigh((information + information.T) / 2)
    along = np.array(jacobian).T @ vectors  # how the parameters move along each eigenvector
    # Whatever the units: against the most that a parameter moves along any of them.
    unit = np.abs(along).max(axis=1, keepdims=True)
    far = np.abs(along) > 1e-5 * unit
    moves = far.any(axis=0)  # not along what is redundant in the coordinates
    size = max(1e-300, float(np.abs(curves).max(initial=0.0)))
    if np.any(moves & (curves < -1e-6 * size)):
        return {name: np.full_like(value, np.nan) for name, value in values(theta).items()}
    spread = np.zeros(along.shape[0])
    for k in np.flatnonzero(moves):
        flat = curves[k] <= 1e-8 * size
        spread += np.where(far[:, k], np.inf, 0.0) if flat else along[:, k] ** 2 / curves[k]
    shapes = {name: np.shape(value) for name, value in values(theta).items()}
    parts = np.split(np.sqrt(spread), np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


def _stacked(theta: Parameters) -> Array:
    return np.concatenate([np.ravel(value) for value in theta.values()])
