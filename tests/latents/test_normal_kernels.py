"""Terms of normal rows with missing cells: against SciPy, slopes by differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayeslab.latents.partitions.normal_kernels import normal_terms, normal_terms_slope

K, D, N = 2, 3, 25


def setting(missing, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(N, D)) * [1, 20, 0.1] + [5, 0, -1]
    rows[rng.random(rows.shape) < missing] = np.nan
    if missing:
        rows[3] = np.nan
    centre, root = np.array([5.0, 1.0, -1.0]), np.linalg.cholesky(np.diag([1.0, 400.0, 0.01]) * (1 + 0.3 * np.eye(D)))
    factors = np.tril(rng.normal(size=(K, D, D)), -1) + np.eye(D) * rng.gamma(5, 0.2, (K, D))[:, None]
    at = rng.normal(size=(K, D))
    i, j = np.tril_indices(D)
    kinds, kind = np.unique(~np.isnan(rows), axis=0, return_inverse=True)
    order = np.argsort(kind.ravel(), kind="stable")
    offsets = np.append(0, np.cumsum(np.bincount(kind.ravel())))
    white = np.linalg.solve(root, (rows - centre).T).T.copy()
    arrays = (rows, white, order, offsets, kinds.astype(np.int64), centre, root)
    parameters = np.concatenate([at.ravel(), factors[:, i, j].ravel()])
    means = centre + at @ root.T
    spread = root @ np.linalg.inv(factors)
    return rng, rows, parameters, arrays, means, spread @ np.swapaxes(spread, 1, 2)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_densities_are_scipys(missing):
    _, rows, parameters, arrays, means, covariances = setting(missing)
    found = normal_terms(parameters, *arrays)
    for n, row in enumerate(rows):
        seen = np.flatnonzero(~np.isnan(row))
        for k in range(K):
            density = found[n, K + k] - 0.5 * found[n, k] - 0.5 * len(seen) * np.log(2 * np.pi)
            block = covariances[k][np.ix_(seen, seen)]
            want = stats.multivariate_normal(means[k, seen], block).logpdf(row[seen]) if len(seen) else 0.0
            assert density == pytest.approx(want, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_slopes_are_differences(missing):
    rng, _, parameters, arrays, *_ = setting(missing, seed=1)
    cotangent = rng.normal(size=(N, 2 * K))
    found = normal_terms_slope(cotangent, parameters, *arrays)
    step = 1e-6
    for i in range(len(parameters)):
        move = step * np.eye(len(parameters))[i]
        change = normal_terms(parameters + move, *arrays) - normal_terms(parameters - move, *arrays)
        want = np.sum(cotangent * change) / (2 * step)
        assert found[i] == pytest.approx(want, rel=1e-5, abs=1e-5)
