"""Models that are Gaussian given a few scales: closed form for coefficients, quadrature over scales.

Every Gaussian statement of a model, in the likelihood or a prior, is written as rows ``t = B β + s(θ) ε`` with ε
standard normal: an observation is a row, and so is a prior ``β_j ~ Normal(m, s)`` (t = m, B picks β_j) or
``β_j ~ Normal(β_0, τ)`` (t = 0, B = β_j - β_0). Rows whose scale is the same function f of the scale parameters θ, up
to known factors, form a *class*; only B'B, B't, t't of each class are needed. Given θ, β is normal with precision
``sum_m B'B_m / f_m^2``. The remaining density ``p(θ | t)`` has one or two dimensions and is integrated by the trapezoid
rule on a scale where it is smooth and vanishes at both ends, so that the rule converges faster than any power of the
step [1]_.

References
----------
.. [1] Trefethen, Weideman (2014). The exponentially convergent trapezoidal rule. SIAM Review 56.
.. [2] Gelman et al. (2013). Bayesian Data Analysis, 3rd ed., chapters 5 and 14.
.. [3] Rue, Martino, Chopin (2009). Approximate Bayesian inference for latent Gaussian models by
   integrated nested Laplace approximations. JRSS B 71.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeslab import special
from bayeslab.constants import LOG_2PI
from bayeslab.digits import remainders
from bayeslab.errors import ModelError
from bayeslab.exact import quadrature
from bayeslab.exact.coordinates import Coordinates, Observations, coordinates, independent_columns

__all__ = ["GaussianModel", "Posterior", "Rows", "Scale", "empirical_bayes", "integrate"]

# Grid points with a smaller share of the posterior mass are left out of moments and quantiles.
_NEGLIGIBLE = 1e-14
_ROUNDING = 1e-14
# Length of u over which a tail's slope is measured; largest share of a moment that may lie beyond the grid.
_WINDOW, _MOST_BEYOND = 1.0, 0.05
# Distances from a bounded scale's upper end, e^-14 to e^-20, from which its log density is extrapolated.
_NEAR_UPPER = (14.0, 17.0, 20.0)
# A scale below this share of its guess counts as zero.
_SMALL = 1e-6
_SINGULAR = (
    "the coefficients cannot be told apart (columns that are combinations of others): drop one, or give"
    " them proper priors"
)


@dataclass(frozen=True, slots=True)
class Rows:
    """Sufficient statistics of the rows of one class.

    Attributes
    ----------
    gram : ndarray (P, P)
        B'WB with W = 1 / k^2, k the known factor of a row's scale.
    cross : ndarray (P,)
        B'Wt.
    square : float
        t'Wt.
    count : float
        Number of rows.
    log_factors : float
        Sum of log k.
    """

    gram: np.ndarray
    cross: np.ndarray
    square: float
    count: float
    log_factors: float

    @classmethod
    def of(cls, design: np.ndarray, target: np.ndarray, factors: np.ndarray | float = 1.0) -> Rows:
        """Reduce rows to their statistics in one pass over the data."""
        factors = np.broadcast_to(np.asarray(factors, float), target.shape)
        if np.all(factors == 1.0):
            scaled, wanted = design, target
        else:
            scaled, wanted = design / factors[:, None], target / factors
        return cls(
            scaled.T @ scaled, scaled.T @ wanted, float(wanted @ wanted), len(target), float(np.log(factors).sum())
        )

    def shifted(self, point: np.ndarray) -> Rows:
        """The statistics of the same rows as functions of β - point."""
        cross = self.cross - self.gram @ point
        square = self.square - float(point @ (self.cross + cross))
        return Rows(self.gram, cross, max(square, 0.0), self.count, self.log_factors)


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale parameter: its prior, and the coordinate u on the real line over which it is integrated.

    Attributes
    ----------
    name : str
    log_prior : callable
        Log density at an array of values, normalised unless improper.
    lower, upper : float
        Support; a finite upper end requires a finite lower one.
    proper : bool
    """

    name: str
    log_prior: Callable[[np.ndarray], np.ndarray]
    lower: float = 0.0
    upper: float = np.inf
    proper: bool = True

    def value(self, u: np.ndarray) -> np.ndarray:
        if np.isfinite(self.upper):
            return self.lower + (self.upper - self.lower) / (1 + np.exp(-u))
        if np.isinf(self.lower):
            return np.sinh(u)
        return self.lower + np.exp(u)

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """Log prior density of u."""
        if np.isfinite(self.upper):
            slope = np.log(self.upper - self.lower) - np.logaddexp(0, u) - np.logaddexp(0, -u)
        elif np.isinf(self.lower):
            slope = np.logaddexp(u, -u) - np.log(2)
        else:
            slope = u
        with np.errstate(divide="ignore", invalid="ignore"):
            density = self.log_prior(self.value(u))
            if np.isfinite(self.upper) and np.any(far := u > _NEAR_UPPER[-1]):
                # Very near the upper end, where values round, the log density is extrapolated as a polynomial of u:
                # linear for a power of the distance (Beta), quadratic for the square of its logarithm (LogitNormal).
                at = np.array(_NEAR_UPPER)
                near = self.log_prior(self.value(at))
                if np.all(np.isfinite(near)):
                    density = np.where(far, np.polyval(np.polyfit(at - at[-1], near, 2), u - at[-1]), density)
        return np.where(np.isnan(density), -np.inf, density) + slope

    def middle(self, guess: float) -> float:
        """The u of a value, moved inside the support."""
        if np.isfinite(self.upper):
            share = np.clip((guess - self.lower) / (self.upper - self.lower), 0.05, 0.95)
            return float(np.log(share / (1 - share)))
        if np.isinf(self.lower):
            return float(np.arcsinh(guess))
        return float(np.log(max(guess - self.lower, 1e-3 * max(abs(guess), 1e-300))))


@dataclass(frozen=True, eq=False)
class GaussianModel:
    """Classes of rows, with the scales to integrate over.

    Parameters
    ----------
    rows : sequence of Rows
    factors : callable
        Maps values of the scales, a list of arrays (K,), to f_m of each class: shape (K, number of classes).
    scales : sequence of Scale
        At most two scales.
    guesses : sequence of float
        A plausible value of each scale, where the search starts.
    outputs : ndarray (R, P), optional
        The requested quantities as combinations of β; default: β itself.
    origin : ndarray (R,), optional
        Constants added to the outputs.
    coordinates : Coordinates, optional
        Coordinates of the statistics; ``outputs`` and ``origin`` refer to β in any case.
    """

    rows: Sequence[Rows]
    factors: Callable[[list[np.ndarray]], np.ndarray]
    scales: Sequence[Scale]
    guesses: Sequence[float]
    outputs: np.ndarray | None = None
    origin: np.ndarray | None = None
    coordinates: Coordinates | None = None

    @classmethod
    def of(
        cls,
        classes: Sequence[Sequence[Observations]],
        factors: Callable[[list[np.ndarray]], np.ndarray],
        scales: Sequence[Scale],
        guesses: Sequence[float],
        outputs: np.ndarray | None = None,
        origin: np.ndarray | None = None,
    ) -> GaussianModel:
        """A model from its rows, reduced in coordinates in which no digits are lost."""
        near, far = (factors([np.array([g * by]) for g in guesses] or [np.zeros(1)])[0] for by in (1.0, 2.0))
        at, sums = coordinates(classes, near, near != far)
        rows = [
            Rows(*totals, float(sum(r.count for r in part)), float(sum(r.log_factors for r in part)))
            for totals, part in zip(sums, classes, strict=True)
        ]
        return cls(rows, factors, scales, guesses, outputs, origin, at)

    def log_density(self, *axes: np.ndarray) -> np.ndarray:
        """Log posterior density of the coordinates of the scales on the grid of these axes, up to a constant."""
        grid = [a.ravel() for a in np.meshgrid(*axes, indexing="ij")]
        values = [s.value(u) for s, u in zip(self.scales, grid, strict=True)]
        height = self.solve(values)[0] + sum(s.log_density(u) for s, u in zip(self.scales, grid, strict=True))
        return np.where(np.isnan(height), -np.inf, height).reshape([len(a) for a in axes])

    @cached_property
    def limits(self) -> list[tuple[float, float]]:
        """The interval of each scale's coordinate that holds the posterior mass.

        Raises
        ------
        ModelError
            The posterior is improper, or coefficients are not identified.
        """
        if not self.scales:
            if not np.all(np.isfinite(self.solve([np.zeros(1)])[0])):
                raise ModelError(_SINGULAR, code="not-a-covariance")
            return []
        middles = [s.middle(g) for s, g in zip(self.scales, self.guesses, strict=True)]
        start, names = [(u - 8.0, u + 8.0) for u in middles], [s.name for s in self.scales]
        ends = quadrature.box(self.log_density, start, names, nowhere=_SINGULAR)
        coarse = [np.linspace(low, high, 33) for low, high in ends]
        top = np.unravel_index(np.argmax(self.log_density(*coarse)), [33] * len(ends))
        for d, (scale, guess) in enumerate(zip(self.scales, self.guesses, strict=True)):
            peak = float(scale.value(coarse[d][top[d]]))
            if scale.lower == 0 and peak < _SMALL * guess:
                raise ModelError(
                    f"the density grows without bound as '{scale.name}' goes to zero: the data are fitted without error"
                    f" (as many coefficients as rows?); give the coefficients tighter priors, or fix '{scale.name}'",
                    code="degenerate",
                )
            if peak > 1e60 * max(abs(guess), 1.0):
                raise ModelError(
                    f"the posterior is improper: the density of '{scale.name}' does not die out; give it a proper"
                    " prior",
                    code="improper",
                )
        return [(float(low), float(high)) for low, high in ends]

    def probe(self) -> None:
        """Raise what :attr:`limits` raises. Where nothing points to an error, no density is computed.

        The posterior can be degenerate only if a combination of coefficients fits rows of unknown scale (nearly)
        without error, if a scale has no proper prior, or if coefficients are (nearly) not identified.
        """
        if not all(scale.proper for scale in self.scales) or self._nearly_singular or self._fits_without_error:
            _ = self.limits

    @property
    def _nearly_singular(self) -> bool:
        weights = np.ones(len(self.rows)) if self.coordinates is None else self.coordinates.precisions
        total = sum(w * r.gram for w, r in zip(weights, self.rows, strict=True))
        size = np.sqrt(np.diagonal(total))
        if np.any(size == 0):
            return True
        try:
            return float(np.diagonal(np.linalg.cholesky(total / (size[:, None] * size))).min(initial=1.0)) < 1e-5
        except np.linalg.LinAlgError:
            return True

    @property
    def _fits_without_error(self) -> bool:
        near, far = (self.factors([np.array([g * by]) for g in self.guesses] or [np.zeros(1)])[0] for by in (1.0, 2.0))
        for row, at, further in zip(self.rows, near, far, strict=True):
            size = np.diagonal(row.gram)
            prior = row.square == 0 and row.count == np.count_nonzero(row.gram) == np.count_nonzero(size)
            if at == further or not row.count or prior:
                continue
            live = size > 0
            gram = row.gram[np.ix_(live, live)]
            best = np.linalg.solve(gram + np.diag(1e-10 * size[live]), row.cross[live])
            rest = row.square - float(best @ (2 * row.cross[live] - gram @ best))
            if rest * self._unit**2 <= row.count * (1e-3 * at) ** 2:
                return True
        return False

    @property
    def size(self) -> int:
        return len(self.rows[0].cross)

    @cached_property
    def _wanted(self) -> np.ndarray:
        """The outputs as combinations of the coefficients in the solution."""
        wanted = np.eye(self.size) if self.outputs is None else self.outputs
        return wanted if self.coordinates is None else self.coordinates.combinations(wanted)

    @cached_property
    def start(self) -> np.ndarray:
        """Constants added to those combinations, shape (R,)."""
        wanted = np.eye(self.size) if self.outputs is None else self.outputs
        origin = np.zeros(len(wanted)) if self.origin is None else np.asarray(self.origin, float)
        return origin if self.coordinates is None else remainders(wanted, origin, -self.coordinates.point)

    @property
    def _unit(self) -> float:
        return 1.0 if self.coordinates is None else self.coordinates.unit

    @property
    def shape(self) -> tuple[int, int]:
        """Sizes of the dense and of the diagonal block: a solution costs dense^3 / 3 + diagonal * dense^2."""
        dense, _, diagonal = self._blocks[:3]
        return dense.shape[-1], diagonal.shape[-1]

    @cached_property
    def _blocks(self) -> tuple[np.ndarray, ...]:
        """Statistics in the kernel's order: dense coefficients first, then a diagonal block.

        Coefficients are scaled to a unit diagonal and (except shrunken ones) centred at the least-squares point, so
        that neither units nor a distant origin lose precision.
        """
        grams = np.stack([r.gram for r in self.rows])
        weights = np.ones(len(grams)) if self.coordinates is None else self.coordinates.precisions
        total = np.einsum("m,mij->ij", weights, grams)
        scale = np.sqrt(np.diagonal(total))
        if np.any(scale == 0):
            raise ModelError("a coefficient has neither data nor a proper prior", code="improper")
        grams = grams / (scale[:, None] * scale)
        point = np.zeros(len(scale))
        if self.coordinates is None:
            free = ~self._shrunk
            cross = sum(r.cross for r in self.rows) / scale
            point[free] = np.linalg.lstsq(grams.sum(axis=0)[free][:, free], cross[free], rcond=1e-13)[0] / scale[free]
        rows = [r.shifted(point) for r in self.rows] if point.any() else self.rows
        crosses = np.stack([r.cross for r in rows]) / scale
        apart = independent_columns(np.abs(grams).sum(axis=0) > 0)
        dense = np.setdiff1d(np.arange(len(scale)), apart)
        order = np.concatenate([dense, apart])
        c = np.ascontiguousarray
        return (
            c(grams[:, dense[:, None], dense]), c(crosses[:, dense]),
            c(grams[:, apart, apart]), c(grams[:, dense[:, None], apart]), c(crosses[:, apart]),
            scale[order], point[order], np.argsort(order), np.array([r.square for r in rows]),
        )  # fmt: skip

    @cached_property
    def _shrunk(self) -> np.ndarray:
        """Coefficients with a prior at zero of unknown scale, which stay centred at zero: with another origin
        only rounding would be left when that scale is tiny."""
        near, far = (self.factors([np.array([g * by]) for g in self.guesses] or [np.zeros(1)])[0] for by in (1.0, 2.0))
        out = np.zeros(self.size, bool)
        for row, varies in zip(self.rows, near != far, strict=True):
            if varies and row.square == 0:
                out |= np.diagonal(row.gram) > 0
        return out

    @cached_property
    def _sparse(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of ``outputs`` for the kernel, in its order and scaling of the coefficients."""
        scale, back = self._blocks[5], self._blocks[7]
        wanted = self._wanted
        rows, columns = np.nonzero(wanted)
        starts = np.searchsorted(rows, np.arange(len(wanted) + 1))
        return starts, back[columns], wanted[rows, columns] / scale[back[columns]]

    def solve(
        self, values: list[np.ndarray], noise: np.ndarray | None = None, *, variances: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log density of the data given the scales, and conditional moments (or draws) of the outputs.

        Parameters
        ----------
        values
            Values of the scales, shape (K,) each.
        noise : ndarray (K, P), optional
            Standard normal draws; if given, the means are replaced by draws.

        Returns
        -------
        log_likelihood : ndarray (K,)
            Log density with β integrated out; NaN where the system is singular.
        means : ndarray (K, R)
            Means without :attr:`start`, which may be so large that adding it loses precision.
        variances : ndarray (K, R)
            Empty unless asked for.
        """
        from bayeslab.exact.kernels import solve_each

        dense, cross, diagonal, mixed, cross_diagonal, scale, point, back, squares = self._blocks
        f = np.asarray(self.factors(values), float)
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = self._unit / f
            # Beyond these limits the square overflows.
            ratio = np.where((ratio > 1e-153) & (ratio < 1e153), ratio, np.nan)
        precisions = np.ascontiguousarray(ratio**2)
        noise = np.zeros((0, len(scale))) if noise is None else noise
        sparse = self._sparse if variances else (np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))
        log_det, quadratic, means, spread = solve_each(
            precisions, dense, cross, diagonal, mixed, cross_diagonal, noise, *sparse
        )
        counts = np.array([r.count for r in self.rows])
        constant = -0.5 * counts.sum() * LOG_2PI - sum(r.log_factors for r in self.rows)
        whole = precisions @ squares
        # A residual of the size of rounding errors is not a perfect fit.
        rest = np.maximum(whole - quadratic, _ROUNDING * whole)
        log_likelihood = constant - np.log(f) @ counts - 0.5 * (rest + log_det)
        log_likelihood += 0.5 * len(scale) * LOG_2PI - np.log(scale).sum()
        if self.coordinates is not None:
            log_likelihood += self.coordinates.log_volume
        beta = (means / scale + point)[:, back]
        return log_likelihood, beta @ self._wanted.T, spread


@dataclass(frozen=True, eq=False)
class Posterior:
    """The exact posterior: a grid over the scales, and a normal for β at each point.

    Attributes
    ----------
    model : GaussianModel
    axes : list of ndarray
        Grid of u for each scale.
    log_weights : ndarray
        Log posterior mass of each grid point, shape of the grid (a scalar without scales).
    log_evidence : float
        Log density of the data, if every prior is proper.
    means, variances : ndarray (K, R)
        Moments of the outputs at the grid points in C order, relative to ``origin``.
    origin : ndarray (R,)
        Origin of the means.
    """

    model: GaussianModel
    axes: list[np.ndarray]
    log_weights: np.ndarray
    log_evidence: float
    means: np.ndarray
    variances: np.ndarray
    origin: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        return np.exp(self.log_weights).ravel()

    def mean(self) -> np.ndarray:
        """Posterior means of the outputs, shape (R,); NaN if they do not exist."""
        return np.where(np.isnan(self._beyond(self._spread, 1)), np.nan, self.origin + self._centre)

    @property
    def _centre(self) -> np.ndarray:
        return self.weights @ self.means

    def variance(self) -> np.ndarray:
        """Posterior variances of the outputs, shape (R,); NaN if they are infinite."""
        return (self.weights @ self._spread**2) * (1 + self._beyond(self._spread, 2))

    @cached_property
    def _spread(self) -> np.ndarray:
        """Root mean squares of the outputs around their means, shape (K, R)."""
        return np.sqrt(self.variances + (self.means - self._centre) ** 2)

    def _beyond(self, size: np.ndarray, power: int) -> np.ndarray:
        """Relative contribution to the moments from beyond the grid; NaN if it is too large.

        The grid ends where the density is e^-36 of its maximum. A tail that is a power of a scale is exponential in its
        logarithm u, and so are the terms of a moment: increasing if the moment does not exist, otherwise decreasing,
        and then their slope at the end gives the integral beyond it. If the moment consists mostly of that integral, it
        depends on the prior's far tail and is meaningless.

        Parameters
        ----------
        size : ndarray (K, R)
            Non-negative sizes at the grid points.

        Returns
        -------
        ndarray (R,)
        """
        shape, mass = self.log_weights.shape, np.exp(self.log_weights)
        lacking = np.zeros(size.shape[1])
        kept = (mass > _NEGLIGIBLE)[..., None]
        unit = size.max(axis=0, initial=0.0)
        terms = (size / np.where(unit > 0, unit, 1.0)).reshape(*shape, -1) ** power
        for d, axis in enumerate(self.axes):
            if len(axis) < 3:
                continue
            others = tuple(other for other in range(len(shape)) if other != d)
            inside = np.sum(np.where(kept, mass[..., None], 0.0), axis=others)
            there = np.flatnonzero(inside[:, 0] > 0)
            # Where the others are kept a moment is taken; all of them make the weight.
            along = np.sum(np.where(kept, mass[..., None] * terms, 0.0), axis=others)[there] / inside[there]
            along = along * self._marginal(d)[there, None]
            u, step = axis[there], axis[1] - axis[0]
            if len(u) < 3:
                continue
            # Along a part of the tail only: data that say much leave it short.
            window = min(_WINDOW, (u[-1] - u[0]) / 8)
            left = max(int(np.searchsorted(u, u[0] + window)), 1)
            right = min(int(np.searchsorted(u, u[-1] - window, side="right")) - 1, len(u) - 2)
            for end, inner in ((0, left), (-1, right)):
                with np.errstate(divide="ignore", invalid="ignore"):
                    fall = (np.log(along[inner]) - np.log(along[end])) / abs(u[inner] - u[end])
                    rest = along[end] / (step * fall) / along.sum(axis=0)
                lacking += np.where(along[end] > 0, np.where(fall > 0, rest, np.inf), 0.0)
        return np.where(lacking < _MOST_BEYOND, lacking, np.nan)

    def quantile(self, probability: float) -> np.ndarray:
        """Quantiles of the outputs, shape (R,), of the mixture of normals by Newton's method, bracketed."""
        # Leave out points that together have a billionth of the mass.
        order = np.argsort(self.weights)
        kept = order[np.cumsum(self.weights[order]) > 1e-9]
        from bayeslab.exact.kernels import mixture_quantiles

        weights, means, sds = self.weights[kept], self.means[kept], np.sqrt(self.variances[kept])
        weights = weights / weights.sum()
        centre = weights @ means
        width = np.sqrt(weights @ (sds**2 + (means - centre) ** 2))
        start = centre + special.ndtri(probability) * width
        return self.origin + mixture_quantiles(
            weights, np.ascontiguousarray(means.T), np.ascontiguousarray(sds.T), start, probability
        )

    def scale_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the scales; NaN if infinite."""
        if not self.axes:
            return np.zeros(0), np.zeros(0)
        grid = np.meshgrid(*(s.value(u) for s, u in zip(self.model.scales, self.axes, strict=True)), indexing="ij")
        return self.moments(np.stack([values.ravel() for values in grid], axis=1))

    def moments(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of functions of the scales; NaN if infinite.

        Parameters
        ----------
        values : ndarray (K, F)
            Values at the grid points, in C order.
        """
        means = self.weights @ values
        rest = self._beyond(np.abs(values), 1)
        apart = np.abs(values - means)
        sds = np.sqrt((self.weights @ apart**2) * (1 + self._beyond(apart, 2)))
        return means * (1 + rest), np.where(np.isnan(rest), np.nan, sds)

    def scale_quantile(self, d: int, probability: float) -> float:
        """Quantile of one scale."""
        if len(self.axes[d]) == 1:
            return float(self.model.scales[d].value(self.axes[d])[0])
        u = quadrature.quantile(self.axes[d], np.log(np.maximum(self._marginal(d), 1e-300)), probability)
        return float(self.model.scales[d].value(np.array(u)))

    def _marginal(self, d: int) -> np.ndarray:
        mass = np.exp(self.log_weights)
        return mass.sum(axis=tuple(other for other in range(mass.ndim) if other != d))

    def draws(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """Independent draws of the outputs, shape (n, R), and of each scale, shape (n,)."""
        values = [scale.value(u) for scale, u in zip(self.model.scales, self._scale_draws(rng, n), strict=True)] or [
            np.zeros(n)
        ]
        beta = self.model.solve(values, rng.standard_normal((n, self.model.size)))[1]
        return self.model.start + beta, values if self.model.scales else []

    def _scale_draws(self, rng: np.random.Generator, n: int) -> list[np.ndarray]:
        if not self.axes:
            return []
        if self.log_weights.size == 1:
            return [np.full(n, axis[0]) for axis in self.axes]
        return list(quadrature.grid_draws(self.axes, self.log_weights, rng, n).T)


def empirical_bayes(model: GaussianModel) -> Posterior:
    """The posterior with the scales at the maximum of the marginal likelihood, without their priors.

    Type-II maximum likelihood, which ignores the uncertainty of the scales ([2]_, section 5.1).
    """
    from scipy.optimize import minimize

    if not model.scales:
        return integrate(model)
    middles = np.array([s.middle(g) for s, g in zip(model.scales, model.guesses, strict=True)])

    def loss(u: np.ndarray) -> float:
        height = model.solve([s.value(np.array([x])) for s, x in zip(model.scales, u, strict=True)])[0][0]
        return -float(height) if np.isfinite(height) and np.all(np.abs(u - middles) < 20) else 1e300

    starts = [middles + np.array(shift) - 2.0 for shift in np.ndindex(*(5,) * len(middles))]
    best = min(starts, key=loss)
    limits = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    result = minimize(loss, best, method="Nelder-Mead", options=limits)
    axes = [np.array([u]) for u in result.x]
    _, means, variances = model.solve([s.value(u) for s, u in zip(model.scales, axes, strict=True)], variances=True)
    weights = np.zeros((1,) * len(axes))
    return Posterior(model, axes, weights, -float(result.fun), means, variances, model.start)


def integrate(model: GaussianModel) -> Posterior:
    """The exact posterior of a model with at most two scales.

    Raises
    ------
    ModelError
        The posterior is improper, or coefficients are not identified.
    """
    ends = model.limits
    if not model.scales:
        height, means, variances = model.solve([np.zeros(1)], variances=True)
        return Posterior(model, [], np.zeros(()), float(height[0]), means, variances, model.start)

    axes, log_mass = quadrature.converged(model.log_density, ends)
    log_evidence = float(np.logaddexp.reduce(log_mass, axis=None))
    grid = [a.ravel() for a in np.meshgrid(*axes, indexing="ij")]
    log_weights = log_mass - log_evidence
    kept = np.exp(log_weights.ravel()) > _NEGLIGIBLE
    _, some, spread = model.solve([s.value(u[kept]) for s, u in zip(model.scales, grid, strict=True)], variances=True)
    means, variances = np.zeros((kept.size, some.shape[1])), np.zeros((kept.size, some.shape[1]))
    means[kept], variances[kept] = some, spread
    proper = all(s.proper for s in model.scales)
    return Posterior(model, axes, log_weights, log_evidence if proper else np.nan, means, variances, model.start)
