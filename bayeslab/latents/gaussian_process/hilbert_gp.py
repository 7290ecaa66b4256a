r"""Hilbert-space Gaussian processes: sums of m fixed functions, at a cost of n m² once and m³ for each evaluation.

On a box that is larger than the data, a stationary process is approximately Σ √S(ω_j) φ_j(x) w_j with standard
normal w, where φ_j are the sines that vanish at the walls, ω_j their frequencies and S the spectral density of the
covariance function [1]_. The functions do not depend on the hyperparameters: the model is linear and normal, the log
evidence and its gradient need Φ'Φ and Φ'y only. Periodic kernels have a cosine series of their own, constants and
linear kernels are such sums as they stand.

The box must be wide enough for the longest lengthscale, and the sines fast enough for the shortest. As in [2]_
a box of half-width c s, for inputs in a domain of half-width s, has c at least 1.2, and m = b c s / ℓ_min functions,
but the rules here hold at the edges of the domain and with little noise, too. Walls mirror the process: at an edge the
variance is k(0) - k(2 d) with d the distance of the wall, which is a ℓ_max with a = 1.86 for ExpQuad, 1.79 for Matern52
and 1.92 for Matern32, so that 0.1 % of the variance is missing there (1 % for Matérn). The share of the variance at
frequencies above ω is that of Student's distribution with 2ν degrees of freedom outside ± ω ℓ: b leaves out 0.1 % of
it in one column (2.1, 4.4, 8.2) and 1 % in several (1.6, 2.6, 3.7; the values of [2]_ are 1.75, 2.65, 3.42). Functions
multiply over the columns of a term: more than three columns are too many. Inputs outside the domain are refused,
because the approximation fails near the walls.

References
----------
.. [1] Solin, Särkkä (2020). Hilbert space methods for reduced-rank Gaussian process regression. Statistics and
   Computing 30, 419-446.
.. [2] Riutort-Mayol, Bürkner, Andersen, Solin, Vehtari (2023). Practical Hilbert space approximate Bayesian Gaussian
   processes for probabilistic programming. Statistics and Computing 33, 17.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab import special
from bayeslab.constants import LOG_2PI
from bayeslab.errors import DataError, ModelError
from bayeslab.latents.gaussian_process.covariance import Argument, Kernel, Node
from bayeslab.latents.gaussian_process.gaussian_process import LeaveOneOut, NormalRows, NotPositiveDefinite, by_term
from bayeslab.latents.gaussian_process.gp_likelihoods import Likelihood

__all__ = [
    "HilbertBasis",
    "HilbertGaussianProcess",
    "HilbertLatent",
    "HilbertRegression",
    "Unserved",
    "WeightedFunctions",
    "choose_basis",
    "reason_against",
    "unserved",
]

# Order of the Matérn process, and the distance of the walls from the inputs in lengthscales.
_SPECTRA = {"ExpQuad": (math.inf, 1.86), "Matern52": (2.5, 1.79), "Matern32": (1.5, 1.92)}
# Share of the variance at frequencies above those of the sines, in one column and in several.
_LEFT_OUT = (1e-3, 1e-2)
_NARROWEST = 1.2
_MOST = 2000


@dataclass(frozen=True, slots=True)
class Box:
    """A column in a box.

    Attributes
    ----------
    low, high : float
        Ends of the domain, where the approximation holds.
    half_width : float
        Half-width of the box around the middle of the domain.
    n : int
        Number of sines.
    shortest, longest : float
        Range of lengthscales that they can approximate.
    """

    low: float
    high: float
    half_width: float
    n: int
    shortest: float
    longest: float

    @property
    def middle(self) -> float:
        return 0.5 * (self.low + self.high)

    def outside(self, column: np.ndarray) -> np.ndarray:
        """Which values are outside the domain."""
        slack = 1e-9 * self.half_width
        return (column < self.low - slack) | (column > self.high + slack)


@dataclass(frozen=True, eq=False)
class _Term:
    """A product: spectral factors on columns of their own, or one periodic, linear or constant function."""

    text: str
    node: Node
    scales: tuple[tuple[Argument, int], ...]
    spectral: tuple[Node, ...]
    other: Node | None
    columns: tuple[str, ...]


def _terms(kernel: Kernel) -> list[_Term] | str:
    """The terms of the sum, without white noise, or the reason why they have no such form."""
    children = kernel.root.children if kernel.root.word == "+" else (kernel.root,)
    signal = kernel.free_of_noise()
    kept = () if signal is None else (signal.root.children if signal.root.word == "+" else (signal.root,))
    out: list[_Term] = []
    for child in children:
        if not any(child is k for k in kept):
            continue
        term = _term(child)
        if isinstance(term, str):
            return term
        out.append(term)
    return out or "there is nothing but white noise"


def _factors(node: Node) -> list[Node]:
    return [f for child in node.children for f in _factors(child)] if node.word == "*" else [node]


def _term(node: Node) -> _Term | str:
    scales: list[tuple[Argument, int]] = []
    spectral: list[Node] = []
    others: list[Node] = []
    for part in _factors(node):
        if part.word == "factor" and part.option == 1:
            scales.append((part.arguments["variance"][0], 1))
            continue
        if part.word in ("+", "ChangePoint", "Brownian", "Polynomial", "Coregion", "RationalQuadratic", "Matern12",
                         "Cosine", "White"):  # fmt: skip
            what = "a sum within a product" if part.word == "+" else part.word
            return (
                f"{what} has no sum of fixed functions here; ExpQuad, Matern52, Matern32, Periodic, Linear and"
                " Constant have"
            )
        scales.append((part.arguments["scale"][0], 2))
        if part.word in _SPECTRA:
            spectral.append(part)
        elif part.word in ("Periodic", "Linear"):
            others.append(part)
    columns = tuple(c for part in (*spectral, *others) for c in part.columns)
    if len(others) > 1 or (others and spectral):
        return f"'{node.text}' is a product with {others[0].word}, which has no sum of fixed functions here"
    if len(set(columns)) < len(columns):
        return f"'{node.text}' is a product of functions of the same column, which has no spectral density here"
    if len(columns) > 3 and spectral:
        return (
            f"'{node.text}' has {len(columns)} columns; functions multiply over columns, and more than 3 are too many"
        )
    for part in others:
        role = "period" if part.word == "Periodic" else "center"
        if any(a.name for a in part.arguments[role]):
            return f"the {role} of '{part.text}' is not a number, and the functions would change with it"
    return _Term(node.text, node, tuple(scales), tuple(spectral), others[0] if others else None, columns)


def reason_against(kernel: Kernel) -> str | None:
    """Reason why a covariance function has no such form; None if it has."""
    terms = _terms(kernel)
    return terms if isinstance(terms, str) else None


@dataclass(frozen=True, eq=False)
class HilbertBasis:
    """The functions for a kernel.

    Parameters
    ----------
    kernel : Kernel
    walls : mapping of (str, str) to Box
        By term and column; see `choose_basis`.
    harmonics : int
        Cosines of each periodic term.
    """

    kernel: Kernel
    walls: Mapping[tuple[str, str], Box]
    harmonics: int = 12

    @cached_property
    def terms(self) -> list[_Term]:
        result = _terms(self.kernel)
        if isinstance(result, str):
            raise ModelError(result, code="unsupported")
        return result

    @cached_property
    def sizes(self) -> list[int]:
        """Number of functions of each term."""
        return [self._size(term) for term in self.terms]

    @property
    def n_functions(self) -> int:
        return sum(self.sizes)

    def _size(self, term: _Term) -> int:
        if term.spectral:
            return math.prod(self.walls[term.text, c].n for c in term.columns)
        if term.other is None:
            return 1
        return 2 * self.harmonics + 1 if term.other.word == "Periodic" else len(term.columns)

    def slices(self) -> dict[str, slice]:
        """The functions of each term."""
        ends = np.cumsum([0, *self.sizes])
        return {t.text: slice(int(a), int(b)) for t, a, b in zip(self.terms, ends[:-1], ends[1:], strict=True)}

    def features(self, x: np.ndarray) -> np.ndarray:
        """Φ, (n, n_functions).

        Raises
        ------
        DataError
            Inputs lie outside the domain of the functions.
        """
        x = np.asarray(x, float)
        return np.concatenate([self._of_term(term, x) for term in self.terms], axis=1)

    def _of_term(self, term: _Term, x: np.ndarray) -> np.ndarray:
        columns = [x[:, self.kernel.columns.index(c)] for c in term.columns]
        if term.spectral:
            out = np.ones((len(x), 1))
            for name, column in zip(term.columns, columns, strict=True):
                wall = self.walls[term.text, name]
                _inside(name, column, wall)
                angle = (
                    np.pi * np.arange(1, wall.n + 1) * ((column - wall.middle) / wall.half_width + 1.0)[:, None] / 2.0
                )
                sines = np.sin(angle) / math.sqrt(wall.half_width)
                out = (out[:, :, None] * sines[:, None, :]).reshape(len(x), -1)
            return out
        if term.other is None:
            return np.ones((len(x), 1))
        if term.other.word == "Linear":
            return np.column_stack(columns) - np.array([a.value for a in term.other.arguments["center"]])
        turn = 2.0 * np.pi * columns[0] / float(term.other.arguments["period"][0].value or 1.0)
        angle = turn[:, None] * np.arange(1, self.harmonics + 1)
        return np.column_stack([np.ones(len(x)), np.cos(angle), np.sin(angle)])

    def variances(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """S, (n_functions,), and its derivatives, (parameters, n_functions)."""
        values = dict(zip(self.kernel.names, theta, strict=True))
        spectra = [self._spectrum(term, values) for term in self.terms]
        s = np.concatenate([f[0] for f in spectra])
        slope = np.zeros((len(theta), len(s)))
        start = 0
        for part, slopes in spectra:
            for name, each in slopes:
                if name:
                    slope[self.kernel.names.index(name), start : start + len(part)] += each
            start += len(part)
        return s, slope

    def _spectrum(self, term: _Term, values: Mapping[str, float]) -> tuple[np.ndarray, list[tuple[str, np.ndarray]]]:
        def of(argument: Argument) -> float:
            return values[argument.name] if argument.name else float(argument.value or 0.0)

        powers = [(a, of(a), power) for a, power in term.scales]
        variance = math.prod(value**power for _, value, power in powers)
        if term.spectral:
            shape, slopes = self._density(term, of)
        elif term.other is not None and term.other.word == "Periodic":
            shape, slopes = self._series(term.other.arguments["lengthscale"][0], of)
        else:
            shape, slopes = np.ones(self._size(term)), []
        out = [(name, variance * slope) for name, slope in slopes]
        for k, (argument, value, power) in enumerate(powers):
            rest = math.prod(v**p for j, (_, v, p) in enumerate(powers) if j != k)
            out.append((argument.name, rest * power * value ** (power - 1) * shape))
        return variance * shape, out

    def frequencies(self, term: _Term) -> dict[str, np.ndarray]:
        """Of each function of a term, by column."""
        walls = [self.walls[term.text, c] for c in term.columns]
        grids = np.meshgrid(*(np.pi * np.arange(1, w.n + 1) / (2.0 * w.half_width) for w in walls), indexing="ij")
        return dict(zip(term.columns, (g.ravel() for g in grids), strict=True))

    @staticmethod
    def order(part: Node) -> float:
        """Of a Matérn process; infinity for ExpQuad."""
        return _SPECTRA[part.word][0]

    def _density(self, term: _Term, of: Any) -> tuple[np.ndarray, list[tuple[str, np.ndarray]]]:
        frequency = self.frequencies(term)
        shape, logs = np.ones(self._size(term)), []
        for part in term.spectral:
            arguments = part.arguments["lengthscale"]
            lengths = [of(a) for a in arguments]
            squares = [frequency[c] ** 2 for c in part.columns]
            total = sum(length**2 * s for length, s in zip(lengths, squares, strict=True))
            d, nu = len(part.columns), self.order(part)
            if math.isinf(nu):
                shape = shape * (2.0 * np.pi) ** (d / 2) * math.prod(lengths) * np.exp(-0.5 * total)
                falls = np.ones(len(shape))
            else:
                constant = 2.0**d * np.pi ** (d / 2) * math.gamma(nu + d / 2) * (2 * nu) ** nu / math.gamma(nu)
                shape = shape * constant * math.prod(lengths) * (2 * nu + total) ** -(nu + d / 2)
                falls = (2 * nu + d) / (2 * nu + total)
            for argument, length, square in zip(arguments, lengths, squares, strict=True):
                logs.append((argument.name, 1.0 / length - falls * length * square))
        return shape, [(name, shape * slope) for name, slope in logs]

    def _series(self, lengthscale: Argument, of: Any) -> tuple[np.ndarray, list[tuple[str, np.ndarray]]]:
        length, ive = of(lengthscale), special.ive
        z, j = length**-2.0, np.arange(self.harmonics + 1)
        double = np.where(j > 0, 2.0, 1.0)
        weights = double * ive(j, z)
        slopes = double * (0.5 * (ive(np.abs(j - 1), z) + ive(j + 1, z)) - ive(j, z)) * (-2.0 * length**-3.0)
        every = np.concatenate([j, j[1:]])
        return weights[every], [(lengthscale.name, slopes[every])]

    def error(self, theta: np.ndarray, x: np.ndarray) -> float:
        """The largest error of the covariances between some of the rows, as a share of the largest variance."""
        rows = x[np.linspace(0, len(x) - 1, min(len(x), 200)).astype(int)]
        signal = self.kernel.free_of_noise()
        assert signal is not None
        features = self.features(rows)
        exact = signal.matrix(theta, rows)
        return float(
            np.abs((features * self.variances(theta)[0]) @ features.T - exact).max() / np.diagonal(exact).max()
        )


def _inside(name: str, column: np.ndarray, box: Box) -> None:
    if box.outside(column).any():
        row = int(np.argmax(box.outside(column)))
        low, high = min(box.low, float(column.min())), max(box.high, float(column.max()))
        raise DataError(
            f"column '{name}', row {row + 1}: {column[row]:g} lies outside {box.low:.6g} to {box.high:.6g}, where the"
            f" functions of approximation: hsgp serve; fit with domain: {{{name}: [{low:.6g}, {high:.6g}]}}, or take"
            " another approximation",
            code="out-of-range",
        )


def choose_basis(
    kernel: Kernel,
    x: np.ndarray,
    lengthscales: Mapping[str, tuple[float, float]],
    *,
    functions: int | Sequence[int] | None = None,
    domain: Mapping[str, tuple[float, float]] | None = None,
    harmonics: int | None = None,
) -> HilbertBasis:
    """Choose a box and functions for a range of lengthscales.

    Parameters
    ----------
    kernel : Kernel
    x : array of shape (n, columns)
        The inputs.
    lengthscales : mapping of str to (float, float)
        By hyperparameter, the smallest and largest that matter: a central interval of the prior, say. Not needed for
        those that are fixed.
    functions : int or sequence of int, optional
        How many for each column, instead of what the rule says; a sequence is by the kernel's columns.
    domain : mapping of str to (float, float), optional
        Range of predictions by column; default: the range of the inputs.
    harmonics : int, optional
        Cosines for periodic terms; without it, as many as leave out a share of the variance below 1e-6 at the smallest
        lengthscale, at most 60.

    Raises
    ------
    ModelError
        The kernel has no such form, or more than 2,000 functions are needed.
    """
    terms = _terms(kernel)
    if isinstance(terms, str):
        raise ModelError(terms, code="unsupported")
    x = np.asarray(x, float)
    walls: dict[tuple[str, str], Box] = {}
    cosines = 1
    for term in terms:
        share = _LEFT_OUT[len(term.columns) > 1]
        for part in term.spectral:
            for k, name in enumerate(part.columns):
                column = kernel.columns.index(name)
                limits = _range(part.arguments["lengthscale"][k], lengthscales)
                given = functions[column] if isinstance(functions, Sequence) else functions
                span = (domain or {}).get(name, (float(x[:, column].min()), float(x[:, column].max())))
                walls[term.text, name] = _box(span, part.word, limits, given, share)
        if term.other is not None and term.other.word == "Periodic":
            cosines = max(cosines, _cosines(_range(term.other.arguments["lengthscale"][0], lengthscales)[0]))
    basis = HilbertBasis(kernel, walls, harmonics or cosines)
    if basis.n_functions > _MOST:
        raise ModelError(_too_many(basis, len(x)), code="too-costly")
    return basis


@dataclass(frozen=True, slots=True)
class Unserved:
    """A lengthscale outside the range that the sines of a column can approximate.

    Attributes
    ----------
    name, column : str
    value : float
        A quantile of the posterior: below the shortest lengthscale of the box, or far above the longest.
    box : Box
    """

    name: str
    column: str
    value: float
    box: Box

    @property
    def short(self) -> bool:
        return self.value < self.box.shortest

    @property
    def text(self) -> str:
        """The finding."""
        if self.short:
            served = f"{self.box.n} sines of {self.column} serve from {self.box.shortest:.3g}"
            return f"{self.name} reaches down to {self.value:.3g}; {served}"
        served = f"the box of {self.column} serves up to {self.box.longest:.3g}"
        return f"{self.name} reaches up to {self.value:.3g}; {served}"

    @property
    def functions(self) -> int:
        """Number of sines that would suffice."""
        return int(np.ceil(1.1 * self.box.n * self.box.shortest / self.value))

    @property
    def domain(self) -> tuple[float, float]:
        """A domain whose box would suffice."""
        span = 0.5 * (self.value - self.box.longest)
        return self.box.low - span, self.box.high + span


def unserved(basis: HilbertBasis, draws: Mapping[str, np.ndarray]) -> list[Unserved]:
    """Lengthscales, drawn or fixed, outside the range that the functions can approximate."""
    out = []
    for term in basis.terms:
        for part in term.spectral:
            for argument, column in zip(part.arguments["lengthscale"], part.columns, strict=False):
                if argument.value is None and argument.name not in draws:
                    continue
                values = draws[argument.name] if argument.value is None else np.array([argument.value])
                low, high = np.quantile(values, [0.05, 0.95])
                box, name = basis.walls[term.text, column], argument.name or f"the lengthscale of {column}"
                # The box suits a fixed number, unless there are fewer functions.
                if low < box.shortest * (1.0 - 1e-9):
                    out.append(Unserved(name, column, float(low), box))
                if high > 2.0 * box.longest:
                    out.append(Unserved(name, column, float(high), box))
    return out


def _too_many(basis: HilbertBasis, n: int) -> str:
    m = basis.n_functions
    each = "; ".join(
        f"{box.n} of {column} for lengthscales from {box.shortest:.3g}" for (_, column), box in basis.walls.items()
    )
    return (
        f"{m:,} functions are needed ({each}), more than {_MOST:,}: with {n:,} rows they fill {8e-9 * n * m:.2g} GB,"
        f" and an evaluation takes about {4.0 * m**3 / 15e9:.2g} s. Give lengthscales priors with less mass near zero,"
        " say `functions: 20` for so many a column (lengthscales too short for them are told after the fit), or take"
        " approximation: sparse"
    )


def _range(argument: Argument, lengthscales: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    if argument.value is not None:
        return argument.value, argument.value
    low, high = lengthscales[argument.name]
    return low, high


def _box(span: tuple[float, float], word: str, limits: tuple[float, float], functions: int | None, share: float) -> Box:
    from scipy import stats

    half = 0.5 * (span[1] - span[0]) or 1.0
    nu, distance = _SPECTRA[word]
    law = stats.norm if math.isinf(nu) else stats.t(2 * nu)
    frequency = 2.0 / np.pi * float(law.isf(0.5 * share))  # of the fastest sine, times lengthscale over half-width
    width = max(_NARROWEST * half, half + distance * limits[1])
    n = max(int(functions or math.ceil(frequency * width / limits[0])), 3)
    return Box(*span, width, n, frequency * width / n, (width - half) / distance)


def _cosines(shortest: float) -> int:

    tail = 1.0 - np.cumsum(np.where(np.arange(61) > 0, 2.0, 1.0) * special.ive(np.arange(61), shortest**-2.0))
    return int(np.argmax(tail < 1e-6)) or 1 if np.any(tail < 1e-6) else 60


@dataclass(frozen=True, eq=False)
class HilbertGaussianProcess:
    """The weights of the functions given the hyperparameters and normal observations.

    Parameters
    ----------
    basis : HilbertBasis
    theta : ndarray of shape (parameters,)
    features : ndarray of shape (n, m)
        Φ at the rows.
    residuals : ndarray of shape (n,)
    noise : ndarray of shape (n,)
        Variances of the observations, white noise included.
    """

    basis: HilbertBasis
    theta: np.ndarray
    features: np.ndarray
    residuals: np.ndarray
    noise: np.ndarray
    jitter: float = 0.0

    @cached_property
    def _solved(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """√S, the Cholesky factor of B = I + √S Φ'D⁻¹Φ √S, and the mean of the standard normal weights."""
        from scipy.linalg import cho_solve

        root = np.sqrt(self.basis.variances(self.theta)[0])
        scaled = self.features * root
        inner = np.linalg.cholesky(np.eye(len(root)) + scaled.T @ (scaled / self.noise[:, None]))
        return root, inner, np.asarray(cho_solve((inner, True), scaled.T @ (self.residuals / self.noise)))

    @cached_property
    def _half(self) -> np.ndarray:
        from scipy.linalg import solve_triangular

        root, inner, _ = self._solved
        return np.asarray(solve_triangular(inner, (self.features * root / self.noise[:, None]).T, lower=True))

    @property
    def log_evidence(self) -> float:
        """Log density of the observations."""
        root, inner, mean = self._solved
        explained = (self.residuals / self.noise) @ (self.features @ (root * mean))
        return float(
            -0.5 * (np.log(2.0 * np.pi * self.noise).sum() + (self.residuals**2 / self.noise).sum() - explained)
            - np.log(np.diagonal(inner)).sum()
        )

    def _at(self, z: np.ndarray, term: Kernel | None) -> tuple[np.ndarray, np.ndarray]:
        """Mean at z, and L⁻¹ √S Φ(z)'."""
        from scipy.linalg import solve_triangular

        root, inner, mean = self._solved
        features = self.basis.features(z) * root
        if term is not None:
            columns = self.basis.slices().get(term.root.text, slice(0, 0))
            only = np.zeros_like(features)
            only[:, columns] = features[:, columns]
            features = only
        return features @ mean, np.asarray(solve_triangular(inner, features.T, lower=True))

    def predict(self, z: np.ndarray, term: Kernel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and variance of the function at ``z``, or of one term."""
        mean, half = self._at(z, term)
        return mean, np.einsum("ij,ij->j", half, half)

    def joint(self, z: np.ndarray, term: Kernel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and covariance matrix of the function at ``z``, or of one term."""
        mean, half = self._at(z, term)
        return mean, half.T @ half

    def components(self, z: np.ndarray) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
        """Posterior mean and variance at ``z`` of each term of the kernel's sum, by its text; white noise left out."""
        return by_term(self.basis.kernel, lambda term: self.predict(z, term))

    def leave_one_out(self) -> LeaveOneOut:
        """Every observation predicted from all others."""
        alpha = self.residuals / self.noise - self._half.T @ (self._half @ self.residuals)
        precision = 1.0 / self.noise - np.einsum("ij,ij->j", self._half, self._half)
        return LeaveOneOut.of(self.residuals, alpha, precision)


@dataclass(frozen=True, eq=False)
class HilbertRegression(NormalRows):
    """Data and functions, as functions of the hyperparameters.

    Parameters
    ----------
    basis : HilbertBasis
    """

    basis: HilbertBasis

    @cached_property
    def _features(self) -> np.ndarray:
        return self.basis.features(self.x)

    @cached_property
    def _products(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Φ'Φ, Φ'[y X] and [y X]'[y X]."""
        right = np.column_stack([self.y, self.design])
        return self._features.T @ self._features, self._features.T @ right, right.T @ right

    def _white(self, theta: np.ndarray) -> float:
        signal = self.kernel.free_of_noise()
        assert signal is not None
        one = self.x[:1]
        return float(self.kernel.diagonal(theta, one)[0] - signal.diagonal(theta, one)[0])

    def posterior(self, parameters: np.ndarray) -> HilbertGaussianProcess:
        """The process at θ, the standard deviation of the noise, and the coefficients of the mean, in one vector."""
        theta, sd, coefficients = self.split(np.asarray(parameters, float))
        noise = self.known + sd**2 + self._white(theta)
        if not np.all(noise > 0.0):
            raise NotPositiveDefinite(
                "a sum of fixed functions needs noise: the covariance matrix is singular without",
                code="not-a-covariance",
            )
        residuals = self.y - self.design @ coefficients
        return HilbertGaussianProcess(self.basis, theta, self._features, residuals, noise)

    def log_marginal(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its gradient; minus infinity where matrices are singular."""
        parameters = np.asarray(parameters, float)
        theta, sd, _ = self.split(parameters)
        try:
            if np.ptp(self.known) == 0.0:
                result = self._from_products(parameters)
            else:
                result = self._from_rows(parameters)
        except (NotPositiveDefinite, np.linalg.LinAlgError):
            return -np.inf, np.zeros(len(parameters))
        value, to_log_s, to_noise, to_coefficients = result
        s, slope = self.basis.variances(theta)
        to_theta = slope @ np.where(s > 0.0, to_log_s / np.where(s > 0.0, s, 1.0), 0.0)
        to_theta += to_noise * self._white_slope(theta)
        return value, np.concatenate([to_theta, [2.0 * sd * to_noise], to_coefficients])

    def _white_slope(self, theta: np.ndarray) -> np.ndarray:
        signal = self.kernel.free_of_noise()
        assert signal is not None
        one, weight = self.x[:1], np.ones(1)
        return self.kernel.diagonal_gradient(theta, one, weight) - signal.diagonal_gradient(theta, one, weight)

    def _from_products(self, parameters: np.ndarray) -> tuple[float, np.ndarray, float, np.ndarray]:
        """For a common noise variance v of all rows: from A = √S Φ'Φ √S alone."""
        from scipy.linalg import cho_solve

        theta, sd, coefficients = self.split(parameters)
        v = float(self.known[0]) + sd**2 + self._white(theta) if len(self.known) else sd**2
        if not v > 0.0:
            raise NotPositiveDefinite("no noise", code="not-a-covariance")
        gram, to_right, squares = self._products
        mix = np.concatenate([[1.0], -coefficients])
        root = np.sqrt(self.basis.variances(theta)[0])
        a, b, total = root[:, None] * gram * root, root * (to_right @ mix), float(mix @ squares @ mix)
        n, m = len(self.y), len(root)
        inner = np.linalg.cholesky(a + v * np.eye(m))
        w = np.asarray(cho_solve((inner, True), b))
        inverse = np.diagonal(cho_solve((inner, True), np.eye(m)))
        log_determinant = 2.0 * np.log(np.diagonal(inner)).sum() + (n - m) * np.log(v)
        value = -0.5 * (n * LOG_2PI + log_determinant + (total - b @ w) / v)
        to_log_s = 0.5 * (w**2 - (1.0 - v * inverse))
        to_noise = 0.5 * ((total - 2.0 * b @ w + w @ a @ w) / v**2 - (n - m + v * inverse.sum()) / v)
        to_coefficients = ((squares @ mix)[1:] - (to_right[:, 1:].T * root) @ w) / v
        return float(value), to_log_s, float(to_noise), to_coefficients

    def _from_rows(self, parameters: np.ndarray) -> tuple[float, np.ndarray, float, np.ndarray]:
        """For noise variances that differ between rows."""
        from scipy.linalg import cho_solve

        posterior = self.posterior(parameters)
        _, inner, w = posterior._solved
        inverse = np.diagonal(cho_solve((inner, True), np.eye(len(w))))
        half = posterior._half
        alpha = posterior.residuals / posterior.noise - half.T @ (half @ posterior.residuals)
        to_noise = 0.5 * (alpha**2 - 1.0 / posterior.noise + np.einsum("ij,ij->j", half, half)).sum()
        return posterior.log_evidence, 0.5 * (w**2 - (1.0 - inverse)), float(to_noise), self.design.T @ alpha

    def remarks(self) -> list[str]:
        """What is approximated, and how."""
        return _remarks(self.basis)


@dataclass(frozen=True, eq=False)
class WeightedFunctions:
    """The process given the weights of its functions.

    Parameters
    ----------
    basis : HilbertBasis
    theta : ndarray of shape (parameters,)
    raw : ndarray of shape (m,)
        Weights in standard deviations.
    """

    basis: HilbertBasis
    theta: np.ndarray
    raw: np.ndarray

    def predict(self, z: np.ndarray, term: Kernel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The function at ``z``, or one term, and zeros: nothing about it is uncertain."""
        weights = np.sqrt(self.basis.variances(self.theta)[0]) * self.raw
        columns = slice(None) if term is None else self.basis.slices().get(term.root.text, slice(0, 0))
        return self.basis.features(z)[:, columns] @ weights[columns], np.zeros(len(z))

    def joint(self, z: np.ndarray, term: Kernel | None = None) -> tuple[np.ndarray, np.ndarray]:
        """As :meth:`predict`, with a matrix of zeros."""
        return self.predict(z, term)[0], np.zeros((len(z), len(z)))


@dataclass(frozen=True, eq=False)
class HilbertLatent:
    """Observations that need not be normal around a sum of functions with unknown weights.

    Parameters
    ----------
    kernel : Kernel
    x : ndarray of shape (n, columns)
    likelihood : Likelihood
    design : ndarray of shape (n, p)
        Of the mean function.
    basis : HilbertBasis
    """

    kernel: Kernel
    x: np.ndarray
    likelihood: Likelihood
    design: np.ndarray
    basis: HilbertBasis

    @cached_property
    def features(self) -> np.ndarray:
        """Φ at the rows, (n, m)."""
        return self.basis.features(self.x)

    def log_likelihood(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Log likelihood and its gradient, from θ, the likelihood's parameters, coefficients, and weights in sds."""
        sizes = np.cumsum([len(self.kernel.parameters), len(self.likelihood.parameters), self.design.shape[1]])
        theta, values, coefficients, raw = np.split(np.asarray(parameters, float), sizes)
        s, slope = self.basis.variances(theta)
        root = np.sqrt(s)
        log_p = self.likelihood.at(self.features @ (root * raw) + self.design @ coefficients, values)
        to_weights = self.features.T @ log_p.slope
        to_s = 0.5 * raw * to_weights / np.where(root > 0.0, root, np.inf)
        parts = (
            slope @ to_s,
            [v.sum() for v, _, _ in log_p.by_parameter],
            log_p.slope @ self.design,
            root * to_weights,
        )
        return float(log_p.value.sum()), np.concatenate(parts)

    def posterior(self, theta: np.ndarray, raw: np.ndarray) -> WeightedFunctions:
        """The process at hyperparameters and weights in standard deviations."""
        return WeightedFunctions(self.basis, theta, raw)

    def remarks(self) -> list[str]:
        """What is approximated, and how."""
        return _remarks(self.basis)


def _remarks(basis: HilbertBasis) -> list[str]:
    boxes = ", ".join(
        f"{box.n} sines of {column} for {box.low:.4g} to {box.high:.4g} and {_served(box)}"
        for (_, column), box in basis.walls.items()
    )
    return [f"{basis.n_functions} functions stand for the process{': ' if boxes else ''}{boxes}"]


def _served(box: Box) -> str:
    if box.shortest < box.longest:
        return f"lengthscales from {box.shortest:.2g} to {box.longest:.2g}"
    return f"lengthscales from {box.shortest:.2g}, longer than the box is for"
