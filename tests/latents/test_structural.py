"""Structural time series against the dense normal distribution of their rows, built from the matrices."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from bayeslab.latents.linear_gaussian import structural_kernels as kernels
from bayeslab.latents.linear_gaussian.structural_component_kernels import component_gradient, component_values


@dataclass(frozen=True, eq=False)
class Part:
    """One component's matrices for each set of parameters, and which entries of T count."""

    a: np.ndarray
    A: np.ndarray
    T: np.ndarray
    R: np.ndarray
    h: np.ndarray

    @property
    def sizes(self) -> tuple[int, int]:
        return self.R.shape[1], self.R.shape[2]

    @property
    def flat(self) -> np.ndarray:
        sets = len(self.a)
        return np.concatenate([x.reshape(sets, -1) for x in (self.a, self.A, self.T, self.R, self.h)], axis=1)

    def moves(self) -> np.ndarray:
        return np.argwhere(np.any(self.T != 0, axis=0))


def level(sigma, mean=0.3, sd=2.0) -> Part:
    sigma = np.atleast_1d(sigma)
    one = np.ones((len(sigma), 1))
    return Part(mean * one, sd * one[..., None], one[..., None], sigma[:, None, None], one)


def seasonal(period, sigma, sd=1.5) -> Part:
    sigma, n = np.atleast_1d(sigma), period - 1
    move = np.zeros((n, n))
    move[0], move[1:, :-1] = -1.0, np.eye(n - 1)
    noise = np.zeros((len(sigma), n, 1))
    noise[:, 0, 0] = sigma
    several = (len(sigma), 1, 1)
    return Part(
        np.zeros((len(sigma), n)), np.tile(sd * np.eye(n), several), np.tile(move, several), noise,
        np.tile(np.eye(n)[0], (len(sigma), 1)),
    )  # fmt: skip


def general(rng, sets, d=2, q=3) -> Part:
    return Part(
        rng.normal(size=(sets, d)), rng.normal(size=(sets, d, d)), 0.5 * rng.normal(size=(sets, d, d)),
        0.7 * rng.normal(size=(sets, d, q)), rng.normal(size=(sets, d)),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Case:
    parts: list[Part]
    starts: np.ndarray
    sets: np.ndarray
    cells: np.ndarray
    coefficients: list[np.ndarray]
    offset: np.ndarray
    sigma: np.ndarray
    y: np.ndarray

    @property
    def flat(self) -> np.ndarray:
        return np.concatenate([*(p.flat.ravel() for p in self.parts), *self.coefficients, self.offset, self.sigma])

    def arrays(self, free=(1, 1)) -> tuple[np.ndarray, ...]:
        first = np.cumsum([0] + [p.sizes[0] for p in self.parts])
        moves = np.concatenate([p.moves() + at for p, at in zip(self.parts, first, strict=False)])
        shapes = np.array([p.sizes for p in self.parts])
        lengths = [len(v) for v in (*self.coefficients, self.offset, self.sigma)]
        sizes = np.array([len(self.parts[0].a), *lengths, *free])
        return self.y, self.cells, self.starts, self.sets, moves, shapes, sizes

    def places(self) -> np.ndarray:
        steps = [np.where(self.starts, d, q) for d, q in (p.sizes for p in self.parts)]
        ends = np.cumsum(np.concatenate(steps)).reshape(len(self.parts), -1)
        return ends - np.array(steps)

    def normals(self) -> int:
        return sum(int(np.where(self.starts, *p.sizes).sum()) for p in self.parts)

    def dense(self) -> tuple[np.ndarray, np.ndarray]:
        """The values of all components (components x cells) = mean + M z, row by row of the matrices."""
        means, matrices = [], []
        for part, places in zip(self.parts, self.places(), strict=True):
            mean, matrix = None, None
            for begins, s, at in zip(self.starts, self.sets, places, strict=True):
                if begins:
                    mean, matrix = part.a[s], np.zeros((part.sizes[0], self.normals()))
                    matrix[:, at : at + part.sizes[0]] = part.A[s]
                else:
                    mean, matrix = part.T[s] @ mean, part.T[s] @ matrix
                    matrix[:, at : at + part.sizes[1]] += part.R[s]
                means.append(part.h[s] @ mean)
                matrices.append(part.h[s] @ matrix)
        n = len(self.starts)
        return np.array(means).reshape(-1, n), np.array(matrices).reshape(len(self.parts), n, -1)

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and covariance of the rows, and their covariance with z."""
        means, matrices = self.dense()
        c = np.stack([np.broadcast_to(v, self.y.shape) for v in self.coefficients])
        mean = self.offset + np.einsum("kr,kr->r", c, means[:, self.cells])
        across = np.einsum("kr,krz->rz", c, matrices[:, self.cells])
        sigma = np.broadcast_to(self.sigma, self.y.shape)
        return mean, across @ across.T + np.diag(sigma**2), across

    def log_evidence(self) -> float:
        mean, covariance, _ = self.rows()
        return float(stats.multivariate_normal(mean, covariance).logpdf(self.y))


def case(seed: int, parts: int = 2) -> Case:
    """Random components, three series, times without a row and with several."""
    rng = np.random.default_rng(seed)
    sets = 1 + seed % 2
    made = [level(rng.uniform(0.3, 1, sets)), seasonal(4, rng.uniform(0.1, 0.5, sets)), general(rng, sets)]
    made = [made[i] for i in rng.permutation(3)[:parts]]
    starts = np.zeros(20, bool)
    starts[[0, 7, 15]] = True
    of_cell = (np.cumsum(starts) - 1) % sets
    cells = np.sort(rng.choice(20, 22))
    n = len(cells)
    coefficients = [rng.normal(size=1 if i else n) for i in range(parts)]
    offset, sigma = rng.normal(size=n), rng.uniform(0.5, 1.5, size=1 if seed % 3 else n)
    return Case(made, starts, of_cell, cells, coefficients, offset, sigma, rng.normal(size=n))


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("seed", range(6))
def test_log_evidence_is_that_of_the_dense_normal(seed):
    one = case(seed, parts=2 + seed % 2)
    value, _ = kernels.log_evidence_and_gradient(one.flat, *one.arrays())
    assert value == pytest.approx(one.log_evidence(), abs=1e-8)


def moved(one: Case, name: str, k: int, index: tuple[int, ...], step: complex) -> Case:
    """The case with one number moved."""
    if name in ("offset", "sigma"):
        value = getattr(one, name).copy()
        value[index] += step
        return replace(one, **{name: value})
    if name == "coefficients":
        several = [c.copy() for c in one.coefficients]
        several[k][index] += step
        return replace(one, coefficients=several)
    parts = list(one.parts)
    value = getattr(parts[k], name).copy()
    value[index] += step
    parts[k] = replace(parts[k], **{name: value})
    return replace(one, parts=parts)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("seed", range(4))
def test_gradient_is_that_of_the_dense_normal(seed):
    """By differences of the dense log density; the tolerance is theirs."""
    one = case(seed, parts=2 + seed % 2)
    _, gradient = kernels.log_evidence_and_gradient(one.flat, *one.arrays())
    worst, flat = 0.0, []
    for k, part in enumerate(one.parts):
        for s in range(len(part.a)):
            flat += [(name, k, (s, *i)) for name in "aATRh" for i in np.ndindex(getattr(part, name).shape[1:])]
    for k, c in enumerate(one.coefficients):
        flat += [("coefficients", k, (i,)) for i in range(len(c))]
    flat += [("offset", 0, (i,)) for i in range(len(one.offset))] + [("sigma", 0, (i,)) for i in range(len(one.sigma))]
    assert len(flat) == len(gradient)
    rng = np.random.default_rng(seed)
    for at in rng.choice(len(flat), 40, replace=False):
        name, k, index = flat[at]
        if name == "T" and getattr(one.parts[k], name)[index] == 0.0:
            assert gradient[at] == 0.0
            continue
        h = 1e-4
        values = [moved(one, name, k, index, s * h).log_evidence() for s in (-2, -1, 1, 2)]
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
        worst = max(worst, abs(slope - gradient[at]) / max(1.0, abs(slope)))
    assert worst < 1e-8


@pytest.mark.slow(why="compiles")
def test_flags_leave_out_only_what_they_name():
    one = case(3, parts=3)
    _, whole = kernels.log_evidence_and_gradient(one.flat, *one.arrays())
    _, fixed = kernels.log_evidence_and_gradient(one.flat, *one.arrays(free=(0, 0)))
    kept = fixed != 0.0
    np.testing.assert_allclose(fixed[kept], whole[kept], rtol=1e-12)
    assert kept.sum() < (whole != 0.0).sum()


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("seed", range(4))
def test_expected_normals_and_rows_alone(seed):
    """E[z | y], and each row given all others, against dense conditioning."""
    one = case(seed, parts=2 + seed % 2)
    normals, alone = np.zeros(one.normals()), np.zeros((2, len(one.y)))
    kernels.smooth(one.flat, *one.arrays(), one.places(), normals, alone)
    mean, covariance, across = one.rows()
    np.testing.assert_allclose(normals, across.T @ np.linalg.solve(covariance, one.y - mean), atol=1e-9)
    for r in range(len(one.y)):
        rest = np.delete(np.arange(len(one.y)), r)
        gain = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, r])
        expected = mean[r] + gain @ (one.y - mean)[rest]
        left = covariance[r, r] - gain @ covariance[rest, r]
        assert one.y[r] - alone[0, r] / alone[1, r] == pytest.approx(expected, abs=1e-8)
        assert 1.0 / alone[1, r] == pytest.approx(left, rel=1e-8)


def test_values_and_their_gradient():
    one = case(1, parts=3)
    rng = np.random.default_rng(0)
    z = rng.normal(size=one.normals())
    means, matrices = one.dense()
    for k, part in enumerate(one.parts):
        fixed = (one.starts, one.places()[k], one.sets, part.moves(), np.array(part.sizes))
        values = component_values(part.flat, z, *fixed)
        np.testing.assert_allclose(values, means[k] + matrices[k] @ z, atol=1e-12)
        weights = rng.normal(size=len(values))
        gradient = component_gradient(part.flat, z, weights, *fixed)
        np.testing.assert_allclose(gradient[part.flat.size :], weights @ matrices[k], atol=1e-12)
        free, d = np.ones((len(part.a), part.flat.shape[1]), bool), part.sizes[0]
        free[:, d + d * d : d + 2 * d * d] = np.any(part.T != 0, axis=0).ravel()
        for at in np.flatnonzero(free.ravel()):
            ahead, back = (
                component_values((part.flat.ravel() + s * np.eye(part.flat.size)[at]).reshape(part.flat.shape),
                                         z, *fixed) @ weights for s in (1e-5, -1e-5)
            )  # fmt: skip
            assert gradient[at] == pytest.approx((ahead - back) / 2e-5, abs=1e-6)


@pytest.mark.slow(why="compiles")
def test_a_row_without_any_variance_is_impossible():
    one = case(0)
    still = [replace(p, A=0 * p.A, R=0 * p.R) for p in one.parts]
    value, _ = kernels.log_evidence_and_gradient(replace(one, parts=still, sigma=np.zeros(1)).flat,
                                                 *replace(one, sigma=np.zeros(1)).arrays())  # fmt: skip
    assert value == -np.inf
