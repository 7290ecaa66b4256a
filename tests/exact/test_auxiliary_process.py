"""Algorithm 8 against enumeration of all partitions, evidences by quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from bayeslab.exact.auxiliary_process import IndependentNormals, StudentsT, slice_step, sweep
from bayeslab.exact.dirichlet_process import log_partition_probability
from bayeslab.exact.emissions import NormalPrior

ROWS = np.array([-2.1, -1.8, 2.0, 0.4])[:, None]


def partitions(n):
    def grow(labels, size):
        if len(labels) == n:
            yield np.array(labels)
            return
        for k in range(size + 1):
            yield from grow([*labels, k], max(size, k + 1))

    yield from grow([], 0)


def laws():
    free = IndependentNormals(stats.norm(0, 3), stats.halfnorm(scale=2), np.array([2.0]))
    heavy = StudentsT(NormalPrior(np.zeros(1), 0.3, 3.0, np.eye(1)), 4.0)
    mean, sd = np.linspace(-16, 16, 641), np.exp(np.linspace(-6, 4, 401))
    cell = np.log(mean[1] - mean[0]) + np.log(sd) + np.log(10 / 400)
    prior = stats.norm(0, 3).logpdf(mean)[:, None] + stats.halfnorm(scale=2).logpdf(sd) + cell

    def normal(x):
        return stats.norm.logpdf(x, mean[:, None], sd)

    # σ² ~ InverseGamma(3/2, 1/2), in log σ; location | σ ~ Normal(0, σ² / 0.3).
    spread = stats.invgamma(1.5, scale=0.5).logpdf(sd**2) + np.log(2 * sd)
    other = stats.norm.logpdf(mean[:, None], 0, sd / np.sqrt(0.3)) + spread + cell

    def student(x):
        return stats.t.logpdf(x, 4, mean[:, None], sd)

    return {"normal": (free, prior, normal), "student_t": (heavy, other, student)}


@pytest.mark.parametrize("discount", [0.0, 0.4])
@pytest.mark.parametrize("name", ["normal", "student_t"])
def test_dp_mixture_without_conjugacy_equals_enumeration(name, discount):
    law, prior, density = laws()[name]
    every = list(partitions(4))
    held = {}

    def evidence(rows):
        if rows not in held:
            held[rows] = logsumexp(prior + sum(density(x) for x in rows))
        return held[rows]

    logs = [
        sum(evidence(tuple(ROWS[z == c, 0])) for c in range(z.max() + 1))
        + log_partition_probability(np.bincount(z), 0.8, discount)
        for z in every
    ]
    p = np.exp(logs - logsumexp(logs))
    number = {tuple(z): i for i, z in enumerate(every)}
    rng = np.random.default_rng(1)
    labels, atoms, drawn = np.zeros(4, int), law.draw(rng, 1), []
    for _ in range(2000):
        labels, atoms = sweep(law, ROWS, labels, atoms, 0.8, discount, rng)
        _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        drawn.append(number[tuple(np.argsort(np.argsort(first))[inverse])])
    each = np.eye(len(every))[drawn]
    batches = each.reshape(40, -1, len(every)).mean(axis=1)
    error = np.sqrt(batches.var(axis=0, ddof=1) / 40 + p * (1 - p) / 2000)
    assert np.max(np.abs(each.mean(axis=0) - p) / (error + 1e-3)) < 5


def test_slices_leave_a_distribution_as_it_is():
    rng = np.random.default_rng(2)
    x = rng.gamma(2.0, size=4000)
    for _ in range(5):
        x = slice_step(rng, lambda v: np.where(v > 0, np.log(np.maximum(v, 1e-300)) - v, -np.inf), x, np.ones(4000))
    assert stats.kstest(x, stats.gamma(2.0).cdf).pvalue > 1e-3


def test_densities_and_rows_of_components():
    law = StudentsT(NormalPrior(np.zeros(2), 1.0, 5.0, np.eye(2)), 5.0)
    rng = np.random.default_rng(3)
    atoms = law.draw(rng, 2)
    rows = rng.normal(size=(6, 2))
    inverse = np.linalg.inv(atoms.roots)
    for k in range(2):
        want = stats.multivariate_t(atoms.means[k], inverse[k] @ inverse[k].T, df=5).logpdf(rows)
        np.testing.assert_allclose(atoms.log_density(rows)[:, k], want)
    made = atoms.sample(rng, np.zeros(20_000, int))
    want = 5 / 3 * inverse[0] @ inverse[0].T
    np.testing.assert_allclose(np.cov(made.T), want, atol=0.12 * np.trace(want))
