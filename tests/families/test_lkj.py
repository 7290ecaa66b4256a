"""Cholesky factors of covariances with LKJ correlations: their density integrates to one."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, stats

import bayeslab as bl
from bayeslab.distributions.toolbox.correlations import log_constant


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("eta", [1.0, 2.5])
def test_the_constant_by_quadrature(eta):
    two = integrate.quad(lambda r: (1 - r**2) ** (eta - 1), -1, 1)[0]
    assert log_constant(eta, 2) == pytest.approx(-np.log(two), abs=1e-8)

    def determinant(c, b, a):
        """Of three correlations; zero where they go with no matrix."""
        return max(1 + 2 * a * b * c - a**2 - b**2 - c**2, 0.0)

    def inner(b, a):
        half = np.sqrt((1 - a**2) * (1 - b**2))
        return integrate.fixed_quad(
            lambda c: np.array([determinant(x, b, a) ** (eta - 1) for x in c]), a * b - half, a * b + half, n=20
        )[0]

    three = integrate.dblquad(inner, -1, 1, -1, 1, epsabs=1e-5, epsrel=1e-5)[0]
    assert log_constant(eta, 3) == pytest.approx(-np.log(three), abs=1e-3)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(("n", "eta"), [(2, 1.0), (3, 2.0), (4, 1.0)])
def test_the_density_of_a_factor(n, eta):
    """That of standard deviations and correlations, with the Jacobian of the factor by differences."""
    rng = np.random.default_rng(n)
    levels = [f"e{i}" for i in range(n)]
    spec = {
        "family": "graph",
        "nodes": {"chol[effect, effect2]": f"LKJCholeskyCov(eta={eta}, sd_dist=Exponential(2))", "y[row]": "Normal(chol_stds['e0'], 1)"},
    }  # fmt: skip
    model = bl.to_pymc(
        bl.Model(model=spec, data={"rows": "row"}, dims={"effect": levels, "effect2": "effect"}), {"y": np.zeros(2)}
    )
    packed = model["chol_packed"]
    lower = np.tril_indices(n)
    below = np.tril_indices(n, -1)

    def factor(point):
        correlation = np.eye(n)
        correlation[below] = point[n:]
        correlation[below[::-1]] = point[n:]
        return (np.diag(point[:n]) @ np.linalg.cholesky(correlation))[lower]

    for _ in range(3):
        sds, correlations = rng.exponential(0.5, n) + 0.1, rng.uniform(-0.3, 0.3, len(below[0]))
        point = np.concatenate([sds, correlations])
        steps = 1e-6 * np.eye(len(point))
        jacobian = np.stack([(factor(point + h) - factor(point - h)) / 2e-6 for h in steps], axis=1)
        matrix = np.eye(n)
        matrix[below] = correlations
        matrix[below[::-1]] = correlations
        expected = stats.expon(scale=0.5).logpdf(sds).sum() + log_constant(eta, n)
        expected += (eta - 1) * np.linalg.slogdet(matrix)[1] - np.linalg.slogdet(jacobian)[1]
        made = pm.logp(packed, factor(point)).eval()
        assert float(made) == pytest.approx(expected, abs=1e-6)
