"""The components kernel against enumeration, NumPy, finite differences and PyTensor's own gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from bayeslab.distributions.emissions import component_kernels as kernels
from bayeslab.distributions.emissions.components import (
    ANY,
    DIAGONAL_GAUSSIAN,
    FULL_GAUSSIAN,
    inverse_cholesky,
    log_evidence,
    normalise,
    packed_triangles,
)

NONE = np.empty(0)


def covariances(rng: np.random.Generator, k: int, d: int) -> np.ndarray:
    a = rng.normal(size=(k, d, d))
    return a @ a.transpose(0, 2, 1) + 0.3 * np.eye(d)


def reference(rows, log_weights, means, covs):
    """Log terms (N, K), one density at a time."""
    each = [multivariate_normal(m, c).logpdf(rows).reshape(len(rows)) for m, c in zip(means, covs, strict=True)]
    return np.column_stack(each) + log_weights


def test_normalise_is_bayes_rule():
    rng = np.random.default_rng(1)
    for _ in range(300):
        n, k = rng.integers(1, 6), rng.integers(1, 5)
        logs = rng.normal(0, 5, (n, k)) - rng.choice([0.0, 2e3, 1e5])
        logs[rng.random((n, k)) < 0.15] = -np.inf
        weights = np.log(rng.dirichlet(np.ones(k), n if rng.random() < 0.5 else 1))
        evidence, r = normalise(weights if len(weights) > 1 else weights[0], logs)
        terms = weights + logs
        for row in range(n):
            if np.isneginf(terms[row]).all():
                assert np.isneginf(evidence[row]) and not r[row].any()
                continue
            total = logsumexp(terms[row])
            assert evidence[row] == pytest.approx(total, rel=1e-13)
            np.testing.assert_allclose(r[row], np.exp(terms[row] - total), rtol=1e-9, atol=1e-300)


def test_a_density_that_is_none_shows():
    """NaN in one component is not taken for an impossible one."""
    logs = np.zeros((300, 3))
    for k in range(3):
        logs[50 + k, k] = np.nan
    evidence, r = normalise(np.log(np.full(3, 1 / 3)), logs)
    assert np.isnan(evidence[50:53]).all() and np.isfinite(np.delete(evidence, [50, 51, 52])).all()
    np.testing.assert_allclose(np.delete(r, [50, 51, 52], axis=0), 1 / 3)


def test_evidence_is_the_sum_over_all_labelings():
    rng = np.random.default_rng(2)
    for _ in range(200):
        n, k = rng.integers(1, 5), rng.integers(1, 4)
        logs, weights = rng.normal(-3, 2, (n, k)), np.log(rng.dirichlet(np.ones(k)))
        joint, counts = [], np.zeros((n, k))
        for labels in itertools.product(range(k), repeat=n):
            joint.append(sum(weights[z] + logs[i, z] for i, z in enumerate(labels)))
        total = logsumexp(joint)
        for labels, value in zip(itertools.product(range(k), repeat=n), joint, strict=True):
            for i, z in enumerate(labels):
                counts[i, z] += np.exp(value - total)
        parameters = np.concatenate([weights, logs.ravel()])
        value, gradient = kernels.log_evidence_and_gradient(parameters, np.array([k]))
        assert value == pytest.approx(total, rel=1e-12)
        assert log_evidence(weights, logs).sum() == pytest.approx(total, rel=1e-12)
        np.testing.assert_allclose(gradient[:k], counts.sum(axis=0), rtol=1e-10)
        np.testing.assert_allclose(gradient[k:].reshape(n, k), counts, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("weighted", [False, True])
def test_one_pass_is_the_written_out_e_step(weighted):
    rng = np.random.default_rng(3)
    for _ in range(40):
        n, k, d = rng.integers(1, 300), rng.integers(1, 6), rng.integers(1, 6)
        # Some rows so far out that every density underflows.
        rows = rng.normal(0, 2, (n, d)) * rng.choice([1.0, 1.0, 100.0], (n, 1))
        row_weights = rng.integers(0, 3, n).astype(float) if weighted else NONE
        each = row_weights if weighted else np.ones(n)
        weights, means, covs = np.log(rng.dirichlet(np.ones(k))), rng.normal(size=(k, d)), covariances(rng, k, d)
        diagonal = np.einsum("kii->ki", covs)
        for full in (True, False):
            used = covs if full else np.stack([np.diag(v) for v in diagonal])
            terms = reference(rows, weights, means, used)
            total = logsumexp(terms, axis=1)
            r = np.exp(terms - total[:, None]) * each[:, None]
            apart = rows[:, None] - means
            if full:
                out = kernels.full_gaussian_pass(rows, row_weights, weights, means, inverse_cholesky(covs))
                second = np.einsum("nk,nki,nkj->kij", r, apart, apart)
            else:
                out = kernels.diagonal_gaussian_pass(rows, row_weights, weights, means, 0.5 * np.log(diagonal))
                second = np.einsum("nk,nki->ki", r, apart**2)
            size = np.einsum("nk,nki->k", np.broadcast_to(each[:, None], r.shape), apart**2).max() + 1
            assert out[0] == pytest.approx(each @ total, rel=1e-10)
            np.testing.assert_allclose(out[1], r.sum(axis=0), rtol=1e-8, atol=1e-12)
            np.testing.assert_allclose(out[2], np.einsum("nk,nki->ki", r, apart), rtol=1e-8, atol=1e-12 * size)
            np.testing.assert_allclose(out[3], second, rtol=1e-8, atol=1e-12 * size)


def test_a_million_rows_and_a_zero_weight():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(1_000_000, 2)) + 1e6
    means = np.array([[1e6, 1e6], [1e6 + 500.0, 1e6], [1e6, 1e6]])
    with np.errstate(divide="ignore"):
        weights = np.log([0.7, 0.3, 0.0])
    value, counts, _, second = kernels.full_gaussian_pass(rows, NONE, weights, means, np.stack([np.eye(2)] * 3))
    expected = multivariate_normal(means[0], np.eye(2)).logpdf(rows).sum() + len(rows) * np.log(0.7)
    assert value == pytest.approx(expected, rel=1e-12)
    assert counts[0] == pytest.approx(len(rows)) and counts[1] == pytest.approx(0, abs=1e-12) and counts[2] == 0
    # Far from zero the spread keeps its digits.
    np.testing.assert_allclose(second[0] / len(rows), np.cov(rows.T, bias=True), atol=1e-4)


def packed(rng, k, d, *, full):
    weights, means, covs = np.log(rng.dirichlet(np.ones(k))), rng.normal(size=(k, d)), covariances(rng, k, d)
    last = packed_triangles(inverse_cholesky(covs)) if full else 0.5 * np.log(np.einsum("kii->ki", covs)).ravel()
    return np.concatenate([weights, means.ravel(), last])


@pytest.mark.parametrize("full", [True, False])
def test_gradient_equals_finite_differences(full):
    kernel = kernels.full_gaussian_evidence if full else kernels.diagonal_gaussian_evidence
    rng = np.random.default_rng(5)
    for _ in range(20):
        k, d = rng.integers(1, 4), rng.integers(1, 4)
        rows, x = rng.normal(size=(20, d)), packed(rng, k, d, full=full)
        gradient = kernel(x, rows)[1]
        for i in range(len(x)):
            step = np.eye(len(x))[i] * 1e-5
            slope = (kernel(x + step, rows)[0] - kernel(x - step, rows)[0]) / 2e-5
            assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-5)


@pytest.fixture(scope="module")
def compiled():
    """Value and gradient of each kernel through EvidenceOp, and of the mixture written out in PyTensor."""
    import pytensor
    import pytensor.tensor as pt

    from bayeslab.evidence import log_evidence as node

    k, d, n = 3, 2, 40
    i, j = np.tril_indices(d)
    x, rows = pt.dvector("x"), pt.dmatrix("rows")
    log_weights, means = x[:k], x[k : k * (1 + d)].reshape((k, d))
    rest = x[k * (1 + d) :]
    triangle = pt.set_subtensor(pt.zeros((k, d, d))[:, i, j], rest.reshape((k, len(i))))
    apart = rows[:, None, :] - means[None]
    z = (triangle[None] * apart[:, :, None, :]).sum(axis=3)
    log_det = pt.log(triangle[:, np.arange(d), np.arange(d)]).sum(axis=1)
    full = -0.5 * (z**2).sum(axis=2) + log_det - 0.5 * d * np.log(2 * np.pi)
    log_sds = rest.reshape((k, d))
    diagonal = (-0.5 * (apart * pt.exp(-log_sds)) ** 2 - log_sds - 0.5 * np.log(2 * np.pi)).sum(axis=2)
    general = x[k:].reshape((n, k))
    outputs = []
    for kernel, arrays, terms in (
        (FULL_GAUSSIAN, (rows,), full),
        (DIAGONAL_GAUSSIAN, (rows,), diagonal),
        (ANY, (np.array([k]),), general),
    ):
        written = pt.logsumexp(log_weights + terms, axis=1).sum()
        ours = node(kernel, x, *arrays)
        values = [ours, pt.grad(ours, x), written, pt.grad(written, x)]
        outputs.append(pytensor.function([x, rows], values, on_unused_input="ignore", mode="NUMBA"))
    return (k, d, n), outputs


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("kind", [0, 1, 2], ids=["full", "diagonal", "any"])
def test_gradient_equals_that_of_the_written_out_mixture(compiled, kind):
    (k, d, n), functions = compiled
    rng = np.random.default_rng(6)
    for _ in range(5):
        rows = rng.normal(size=(n, d))
        x = rng.normal(size=k + n * k) if kind == 2 else packed(rng, k, d, full=kind == 0)
        value, gradient, expected, slope = functions[kind](x, rows)
        assert value == pytest.approx(expected, rel=1e-10)
        np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-9)
