r"""Gaussian-process regression through m inducing points: n m² operations instead of n³.

The function at m places z stands for the rest. With Q = K_xz K_zz⁻¹ K_zx, the part of the covariance
that goes through them,

- ``vfe`` is Titsias's lower bound of the log evidence [1]_: log N(y | 0, Q + Λ) - ½ Σ (k_ii - q_ii) / λ_i, with the
  posterior that attains it; more inducing points never make it worse.
- ``fitc`` gives each row the variance that Q leaves out, as if it were noise of its own [2]_:
  log N(y | 0, Q + diag(k - q) + Λ). It is no bound, and flatters a model whose noise it explains away [3]_.

Λ is the noise, with the terms of the kernel that are white noise. Where the inducing points are the inputs, both
are exact.

Inducing points are a subset of the rows, centres of clusters, or rows chosen one by one where the variance given
those already chosen is largest (a pivoted Cholesky factor; [4]_ shows how few it needs); they can then be moved
uphill in the bound.

References
----------
.. [1] Titsias (2009). Variational learning of inducing variables in sparse Gaussian processes. AISTATS 5, 567-574.
.. [2] Snelson, Ghahramani (2006). Sparse Gaussian processes using pseudo-inputs. NIPS 18, 1257-1264.
.. [3] Bauer, van der Wilk, Rasmussen (2016). Understanding probabilistic sparse Gaussian process approximations.
   NIPS 29.
.. [4] Burt, Rasmussen, van der Wilk (2020). Convergence of sparse variational inference in Gaussian processes
   regression. JMLR 21(131), 1-63.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.errors import ModelError, OptionError, hint
from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gaussian_process import LeaveOneOut, NormalRows, NotPositiveDefinite, by_term

__all__ = ["SparseGaussianProcess", "SparseRegression", "choose_inducing", "move_inducing"]

type Bound = Literal["vfe", "fitc"]
_CHOICES = ("variance", "kmeans", "subset")
# Share of the mean variance added to K_zz: it has no noise of its own.
_NUGGET = 1e-10


@dataclass(frozen=True, eq=False)
class SparseGaussianProcess:
    """A Gaussian process given its hyperparameters and normal observations, through inducing points.

    Parameters
    ----------
    kernel : Kernel
    theta : ndarray of shape (parameters,)
    x : ndarray of shape (n, columns)
    residuals : ndarray of shape (n,)
        Observations minus the mean function.
    noise : ndarray of shape (n,)
        Variances of the observations.
    inducing : ndarray of shape (m, columns)
    bound : {"vfe", "fitc"}

    Raises
    ------
    NotPositiveDefinite
        Inducing points coincide, or there is no noise.
    """

    kernel: Kernel
    theta: np.ndarray
    x: np.ndarray
    residuals: np.ndarray
    noise: np.ndarray
    inducing: np.ndarray
    bound: Bound = "vfe"
    jitter: float = field(init=False)

    def __post_init__(self) -> None:
        if self.bound not in ("vfe", "fitc"):
            raise OptionError(
                f"bound is vfe or fitc, not '{self.bound}'{hint(self.bound, ('vfe', 'fitc'))}", code="unknown-word"
            )
        object.__setattr__(self, "jitter", self._root[1])

    @cached_property
    def signal(self) -> Kernel:
        """The kernel without white noise."""
        kept = self.kernel.free_of_noise()
        if kept is None:
            raise ModelError(
                "a kernel of white noise alone has nothing that inducing points could stand for", code="not-applicable"
            )
        return kept

    @cached_property
    def _root(self) -> tuple[np.ndarray, float]:
        matrix = self.signal.matrix(self.theta, self.inducing)
        mean = float(np.mean(np.diagonal(matrix)))
        for share in (_NUGGET, 1e-8, 1e-6):
            try:
                return np.linalg.cholesky(matrix + share * mean * np.eye(len(matrix))), share * mean
            except np.linalg.LinAlgError:
                continue
        raise NotPositiveDefinite(
            "the covariance matrix of the inducing points is not positive definite, even with a millionth of its mean"
            " variance added: take fewer, or points that lie farther apart",
            code="not-a-covariance",
        )

    @cached_property
    def _through(self) -> np.ndarray:
        """V = L⁻¹ K_zx, (m, n): Q is V'V."""
        from scipy.linalg import solve_triangular

        cross = self.signal.matrix(self.theta, self.inducing, self.x)
        return np.asarray(solve_triangular(self._root[0], cross, lower=True))

    @cached_property
    def _variances(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Noise Λ with white noise, what Q leaves out, and the diagonal that is added to Q."""
        whole, signal = self.kernel.diagonal(self.theta, self.x), self.signal.diagonal(self.theta, self.x)
        noise = self.noise + whole - signal
        left = np.maximum(signal - np.einsum("ij,ij->j", self._through, self._through), 0.0)
        diagonal = noise + left if self.bound == "fitc" else noise
        if not np.all(diagonal > 0.0):
            raise NotPositiveDefinite(
                "inducing points need noise: the covariance matrix is singular without any", code="not-a-covariance"
            )
        return noise, left, diagonal

    @cached_property
    def _inner(self) -> tuple[np.ndarray, np.ndarray]:
        """Cholesky factor of B = I + V D⁻¹ V', and its inverse times V D⁻¹ residuals."""
        from scipy.linalg import solve_triangular

        diagonal = self._variances[2]
        scaled = self._through / diagonal
        root = np.linalg.cholesky(np.eye(len(self.inducing)) + scaled @ self._through.T)
        return root, np.asarray(solve_triangular(root, scaled @ self.residuals, lower=True))

    @property
    def usual_jitter(self) -> float:
        """What is added to the covariance of the inducing points in any case."""
        return _NUGGET * float(np.mean(self.signal.diagonal(self.theta, self.inducing)))

    @property
    def condition(self) -> float:
        """An estimate of the condition number of B = I + V D⁻¹ V'."""
        diagonal = np.diagonal(self._inner[0])
        return float((diagonal.max() / diagonal.min()) ** 2)

    @property
    def log_evidence(self) -> float:
        """The bound, or FITC's log evidence."""
        noise, left, diagonal = self._variances
        root, beta = self._inner
        value = -0.5 * (
            len(diagonal) * LOG_2PI
            + np.log(diagonal).sum()
            + 2.0 * np.log(np.diagonal(root)).sum()
            + (self.residuals**2 / diagonal).sum()
            - beta @ beta
        )
        return float(value - 0.5 * (left / noise).sum() if self.bound == "vfe" else value)

    def gradient(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Derivatives of `log_evidence` with respect to θ, the noise of each row, and each residual."""
        to_cross, to_inducing, to_diagonal, to_noise, to_residuals = self._adjoints
        theta = (
            self.signal.gradient(self.theta, self.inducing, to_cross, self.x)
            + self.signal.gradient(self.theta, self.inducing, to_inducing)
            + self.signal.diagonal_gradient(self.theta, self.x, to_diagonal - to_noise)
            + self.kernel.diagonal_gradient(self.theta, self.x, to_noise)
        )
        return theta, to_noise, to_residuals

    @cached_property
    def _adjoints(self) -> tuple[np.ndarray, ...]:
        """With respect to K_zx, K_zz, the diagonal of K without white noise, the noise, and the residuals."""
        from scipy.linalg import solve_triangular

        noise, left, diagonal = self._variances
        root, _ = self._inner
        half = solve_triangular(root, self._through / diagonal, lower=True)  # L_B⁻¹ V D⁻¹
        solved = solve_triangular(root, half, lower=True, trans=1)  # V C⁻¹
        alpha = self.residuals / diagonal - half.T @ (half @ self.residuals)
        to_diagonal = 0.5 * (alpha**2 - 1.0 / diagonal + np.einsum("ij,ij->j", half, half))
        through = 0.5 * (np.outer(self._through @ alpha, alpha) - solved)  # V dL/dC
        if self.bound == "vfe":
            through += self._through * (0.5 / noise)
            to_variance, to_noise = -0.5 / noise, to_diagonal + 0.5 * left / noise**2
        else:
            through -= self._through * to_diagonal
            to_variance, to_noise = to_diagonal, to_diagonal
        root_z = self._root[0]
        back = solve_triangular(root_z, through, lower=True, trans=1)
        middle = solve_triangular(root_z, through @ self._through.T, lower=True, trans=1)
        to_inducing = -solve_triangular(root_z, middle.T, lower=True, trans=1)
        # The nugget is a share of the mean variance of the inducing points.
        share = self.jitter / float(np.mean(self.signal.diagonal(self.theta, self.inducing)))
        to_inducing = 0.5 * (to_inducing + to_inducing.T)
        to_inducing = to_inducing + share * np.trace(to_inducing) / len(to_inducing) * np.eye(len(to_inducing))
        return 2.0 * back, to_inducing, to_variance, to_noise, -alpha

    def inducing_gradient(self) -> np.ndarray:
        """Derivatives of `log_evidence` with respect to the inducing points, (m, columns).

        Covariances are differentiated by central differences: each depends on one point only, so that two matrices
        a column give the derivatives of all.
        """
        to_cross, to_inducing, *_ = self._adjoints
        out = np.empty(self.inducing.shape)
        for column in range(self.inducing.shape[1]):
            step = 1e-5 * max(float(np.ptp(self.x[:, column])), 1e-12)
            up, down = self.inducing.copy(), self.inducing.copy()
            up[:, column] += step
            down[:, column] -= step
            to_x = self.signal.matrix(self.theta, up, self.x) - self.signal.matrix(self.theta, down, self.x)
            fixed = self.inducing.copy()
            to_z = self.signal.matrix(self.theta, up, fixed) - self.signal.matrix(self.theta, down, fixed)
            out[:, column] = ((to_cross * to_x).sum(axis=1) + 2.0 * (to_inducing * to_z).sum(axis=1)) / (2.0 * step)
        return out

    def _at(self, z: np.ndarray, term: Kernel | None) -> tuple[Kernel | None, np.ndarray, np.ndarray]:
        """The term, L⁻¹ of its covariance with the inducing points, and L_B⁻¹ of that."""
        from scipy.linalg import solve_triangular

        part = self.signal if term is None else term.free_of_noise()
        if part is None:
            return None, np.zeros((0, len(z))), np.zeros((0, len(z)))
        cross = part.matrix(self.theta, self.inducing, np.ascontiguousarray(z))
        one = solve_triangular(self._root[0], cross, lower=True)
        return part, one, np.asarray(solve_triangular(self._inner[0], one, lower=True))

    def predict(self, z: np.ndarray, term: Kernel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the function at ``z``, or of one term, white noise left out."""
        part, one, two = self._at(z, term)
        if part is None:
            return np.zeros(len(z)), np.zeros(len(z))
        variance = part.diagonal(self.theta, z) - (one**2).sum(axis=0) + (two**2).sum(axis=0)
        return two.T @ self._inner[1], np.maximum(variance, 0.0)

    def joint(self, z: np.ndarray, term: Kernel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and covariance matrix of the function at ``z``, or of one term."""
        part, one, two = self._at(z, term)
        if part is None:
            return np.zeros(len(z)), np.zeros((len(z), len(z)))
        return two.T @ self._inner[1], part.matrix(self.theta, z) - one.T @ one + two.T @ two

    def components(self, z: np.ndarray) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        """Posterior mean and variance at ``z`` of each term of the kernel's sum, by its text; white noise left out."""
        return by_term(self.kernel, lambda term: self.predict(z, term))

    def leave_one_out(self) -> LeaveOneOut:
        """Every observation predicted from all others, under Q and the diagonal that is added to it."""
        from scipy.linalg import solve_triangular

        diagonal = self._variances[2]
        half = solve_triangular(self._inner[0], self._through / diagonal, lower=True)
        alpha = self.residuals / diagonal - half.T @ (half @ self.residuals)
        precision = 1.0 / diagonal - np.einsum("ij,ij->j", half, half)
        # With the bound, the variance of the function there that the points leave out is still in it.
        return LeaveOneOut.of(self.residuals, alpha, precision, self._variances[1] if self.bound == "vfe" else 0.0)


@dataclass(frozen=True, eq=False)
class SparseRegression(NormalRows):
    """Data and inducing points, as functions of the hyperparameters.

    Parameters
    ----------
    inducing : ndarray of shape (m, columns)
    bound : {"vfe", "fitc"}
    """

    inducing: np.ndarray
    bound: Bound = "vfe"

    def posterior(self, parameters: np.ndarray) -> SparseGaussianProcess:
        """The process at θ, the standard deviation of the noise, and the coefficients of the mean, in one vector."""
        theta, sd, coefficients = self.split(parameters)
        residuals = self.y - self.design @ coefficients
        noise = self.known + sd**2
        return SparseGaussianProcess(self.kernel, theta, self.x, residuals, noise, self.inducing, self.bound)

    def log_marginal(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """The bound, or FITC's log evidence, and its gradient; minus infinity where matrices are singular."""
        parameters = np.asarray(parameters, float)
        try:
            posterior = self.posterior(parameters)
            value, (theta, noise, residuals) = posterior.log_evidence, posterior.gradient()
        except (NotPositiveDefinite, np.linalg.LinAlgError):
            return -np.inf, np.zeros(len(parameters))
        sd = parameters[len(theta)]
        return value, np.concatenate([theta, [2.0 * sd * noise.sum()], -residuals @ self.design])

    def remarks(self) -> list[str]:
        """What is approximated, and how."""
        m, n = len(self.inducing), len(self.x)
        if self.bound == "vfe":
            return [f"{m} inducing points stand for {n} rows; the log evidence is a lower bound (VFE)"]
        return [f"{m} inducing points stand for {n} rows; the log evidence is FITC's, which is not a bound"]


def choose_inducing(
    kernel: Kernel,
    theta: np.ndarray,
    x: np.ndarray,
    m: int,
    rng: np.random.Generator,
    choice: str = "variance",
) -> np.ndarray:
    """Places for inducing points, (at most m, columns).

    Parameters
    ----------
    kernel, theta
        What ``variance`` is measured by.
    x : array of shape (n, columns)
    m : int
        How many; fewer where the inputs have fewer different rows, or leave no variance.
    rng : numpy.random.Generator
    choice : {"variance", "kmeans", "subset"}
        Rows of largest variance given those chosen before; centres of clusters of rows, columns scaled to their spread;
        or rows at random.
    """
    if choice not in _CHOICES:
        raise OptionError(
            f"inducing points are chosen by {', '.join(_CHOICES)}, not '{choice}'{hint(choice, _CHOICES)}",
            code="unknown-word",
        )
    x = np.asarray(x, float)
    if m < 1:
        raise OptionError(f"at least one inducing point, not {m}", code="out-of-range")
    different = np.unique(x, axis=0)
    if len(different) <= m:
        return different
    match choice:
        case "subset":
            return different[rng.choice(len(different), m, replace=False)]
        case "kmeans":
            return _centres(different, m, rng)
        case _:
            return _pivots(kernel, theta, different, m)


def _centres(x: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """Lloyd's algorithm from rows at random."""
    from scipy.spatial import cKDTree

    scale = np.where(x.std(axis=0) > 0.0, x.std(axis=0), 1.0)
    rows = x / scale
    centres = rows[rng.choice(len(rows), m, replace=False)]
    for _ in range(30):
        nearest = cKDTree(centres).query(rows)[1]
        sizes = np.bincount(nearest, minlength=m)
        sums = np.stack([np.bincount(nearest, column, m) for column in rows.T], axis=1)
        moved = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
        if np.allclose(moved, centres):
            break
        centres = moved
    return centres * scale


def _pivots(kernel: Kernel, theta: np.ndarray, x: np.ndarray, m: int) -> np.ndarray:
    """The rows that a pivoted Cholesky factor takes first."""
    signal = kernel.free_of_noise() or kernel
    left = signal.diagonal(theta, x).copy()
    stop = 1e-9 * float(left.max())
    factor, chosen = np.empty((m, len(x))), []
    for k in range(m):
        row = int(np.argmax(left))
        if not left[row] > stop:
            break
        column = signal.matrix(theta, x[row : row + 1], x)[0] - factor[:k, row] @ factor[:k]
        factor[k] = column / np.sqrt(left[row])
        left -= factor[k] ** 2
        chosen.append(row)
    return x[np.array(chosen)]


def move_inducing(start: SparseGaussianProcess, iterations: int = 50) -> SparseGaussianProcess:
    """Inducing points moved uphill in `log_evidence`, hyperparameters as they are.

    Where a step ends at points that coincide it counts as downhill.
    """
    from scipy.optimize import minimize

    shape = start.inducing.shape
    scale = np.where(start.x.std(axis=0) > 0.0, start.x.std(axis=0), 1.0)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            moved = replace(start, inducing=flat.reshape(shape) * scale)
            return -moved.log_evidence, -(moved.inducing_gradient() * scale).ravel()
        except (NotPositiveDefinite, np.linalg.LinAlgError):
            return 1e300, np.zeros(flat.size)

    ended = minimize(
        objective, (start.inducing / scale).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": iterations}
    )
    return replace(start, inducing=ended.x.reshape(shape) * scale)
