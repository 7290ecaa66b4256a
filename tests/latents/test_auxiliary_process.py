"""Algorithm 8 against enumeration of all partitions, evidences by quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from bayeslab.distributions.emissions import NormalPrior
from bayeslab.latents.partitions.auxiliary_process import (
    IndependentNormals,
    StudentsT,
    leave_one_out,
    predict,
    seated,
    slice_step,
    sweep,
)
from bayeslab.latents.partitions.dirichlet_process import log_partition_probability
from tests.latents._enumeration import partitions

ROWS = np.array([-2.1, -1.8, 2.0, 0.4])[:, None]


def laws():
    free = IndependentNormals(stats.norm(0, 3), stats.lognorm(0.6), np.array([2.0]))
    heavy = StudentsT(NormalPrior(np.zeros(1), 0.3, 3.0, np.eye(1)), 4.0)
    mean, sd = np.linspace(-16, 16, 641), np.exp(np.linspace(-3.5, 4, 301))
    cell = np.log(mean[1] - mean[0]) + np.log(sd) + np.log(7.5 / 300)
    prior = stats.norm(0, 3).logpdf(mean)[:, None] + stats.lognorm(0.6).logpdf(sd) + cell

    def normal(x):
        return stats.norm.logpdf(x, mean[:, None], sd)

    # σ² ~ InverseGamma(3/2, 1/2), in log σ; location | σ ~ Normal(0, σ² / 0.3).
    spread = stats.invgamma(1.5, scale=0.5).logpdf(sd**2) + np.log(2 * sd)
    other = stats.norm.logpdf(mean[:, None], 0, sd / np.sqrt(0.3)) + spread + cell

    def student(x):
        return stats.t.logpdf(x, 4, mean[:, None], sd)

    return {"normal": (free, prior, normal), "student_t": (heavy, other, student)}


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("discount", [0.0, 0.4])
@pytest.mark.parametrize("name", ["normal", "student_t"])
def test_dp_mixture_without_conjugacy_equals_enumeration(name, discount):
    """Partitions, and of new rows the density and the probability of a cluster of their own; rows left out."""
    law, prior, density = laws()[name]
    every, held, at, alpha = list(partitions(4)), {}, (-2.0, 0.5, 7.0), 0.8

    def evidence(rows):
        rows = tuple(sorted(rows))
        if rows not in held:
            held[rows] = logsumexp(prior + sum(density(x) for x in rows))
        return held[rows]

    def joint(values, z):
        groups = [[x for x, c in zip(values, z, strict=True) if c == k] for k in range(max(z) + 1)]
        return sum(map(evidence, groups)) + log_partition_probability([len(g) for g in groups], alpha, discount)

    x = ROWS[:, 0]
    logs = np.array([joint(x, z) for z in every])
    p = np.exp(logs - logsumexp(logs))
    # Of a fifth row at each place, and whether it is alone; of the first row given the others.
    longer = np.array([[[joint([*x, v], [*z, c]) for c in range(5)] for z in every] for v in at])
    allowed = np.arange(5) <= np.array([z.max() + 1 for z in every])[:, None]
    longer = np.where(allowed, longer, -np.inf)
    alone = np.arange(5) == np.array([z.max() + 1 for z in every])[:, None]
    new = np.array([np.exp(logsumexp(one) - logsumexp(logs)) for one in longer])
    own = np.array([np.exp(logsumexp(one[alone]) - logsumexp(logs)) for one in longer])
    three = logsumexp([joint(x[1:], z) for z in partitions(3)])
    out = float(np.exp(three - logsumexp(logs)))

    number = {tuple(z): i for i, z in enumerate(every)}
    rng = np.random.default_rng(1)
    labels, atoms, drawn, told = np.zeros(4, int), law.draw(rng, 1), [], []
    there = np.array(at)[:, None]
    base, of_rows = law.log_marginal(there), law.log_marginal(ROWS)
    np.testing.assert_allclose(base, [evidence([v]) for v in at], atol=2e-3)
    for _ in range(2000):
        labels, atoms = sweep(law, ROWS, labels, atoms, alpha, discount, rng)
        _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
        drawn.append(number[tuple(np.argsort(np.argsort(first))[inverse])])
        log_density, share = predict(labels, atoms, alpha, discount, there, base)
        np.testing.assert_allclose(share.sum(axis=1), 1)
        left = leave_one_out(labels, atoms, alpha, discount, ROWS, of_rows)[0]
        told.append([*np.exp(log_density), *(np.exp(log_density) * share[:, -1]), np.exp(-left)])
    each = np.eye(len(every))[drawn]
    batches = each.reshape(40, -1, len(every)).mean(axis=1)
    error = np.sqrt(batches.var(axis=0, ddof=1) / 40 + p * (1 - p) / 2000)
    assert np.max(np.abs(each.mean(axis=0) - p) / (error + 1e-3)) < 5
    batches = np.array(told).reshape(40, -1, 7).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(40)
    want = np.array([*new, *own, out])
    assert np.max(np.abs(batches.mean(axis=0) - want) / (error + 5e-3 * want)) < 4


def test_a_component_of_its_own_by_quadrature():
    """Integrals over the base distribution, from the centre far into the tails, by adaptive quadrature in both."""
    cases = [
        (stats.norm(0, 6), stats.halfnorm(scale=2), 0.4, -2.759492977674),
        (stats.norm(0, 6), stats.halfnorm(scale=2), -20.0, -7.677292228),
        (stats.t(3, 1, 2), stats.lognorm(0.5), 12.0, -6.356228394),
        (stats.cauchy(0, 1), stats.halfcauchy(scale=1), 40.0, -7.93864796),
        (stats.uniform(-10, 20), stats.expon(scale=1), 12.0, -5.95158745),
    ]
    for mean, sd, x, known in cases:
        law = IndependentNormals(mean, sd, np.ones(2))
        # A missing cell says nothing.
        assert law.log_marginal(np.array([[x, np.nan]]))[0] == pytest.approx(known, abs=1e-6)
        assert law.log_marginal(np.array([[x, x]]))[0] == pytest.approx(2 * known, abs=1e-6)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("dof", [1.0, 4.0, 200.0, None])
def test_a_students_component_of_its_own(dof):
    """By Monte Carlo; its density is one, and that of one column that of the column's own prior."""
    prior = NormalPrior(np.array([0.5, -1.0]), 0.3, 4.0, np.array([[1.0, 0.4], [0.4, 2.0]]))
    law = StudentsT(prior, dof)
    rows = np.array([[0.0, 0.0], [3.0, -4.0], [np.nan, 2.0], [-9.0, np.nan], [np.nan, np.nan]])
    found = law.log_marginal(rows)
    drawn = np.exp(law.draw(np.random.default_rng(4), 40_000).log_density(rows))
    error = drawn.std(axis=1) / 200
    assert np.max(np.abs(drawn.mean(axis=1) - np.exp(found)) / (error + 1e-12)) < 4
    second = StudentsT(NormalPrior(np.array([-1.0]), 0.3, 3.0, np.array([[2.0]])), dof)
    assert second.log_marginal(np.array([[2.0]]))[0] == pytest.approx(found[2])
    at = np.concatenate([-np.exp(np.linspace(25, -12, 1500)), np.exp(np.linspace(-12, 25, 1500))])
    assert np.trapezoid(np.exp(second.log_marginal(at[:, None])), at) == pytest.approx(1, abs=1e-3)


@pytest.mark.slow(why="statistical")
def test_rows_join_one_after_the_other():
    """As guests do: with flat components the restaurant's probabilities."""
    law = StudentsT(NormalPrior(np.zeros(1), 1e8, 1e6, np.full((1, 1), 1e6)), 50.0)
    rng = np.random.default_rng(5)
    rows, known = np.zeros((4, 1)), np.array([0, 0, 1])
    counts = np.zeros(3)
    for _ in range(1500):
        labels, atoms = seated(law, rows, known, law.draw(rng, 2), 1.5, 0.2, rng)
        assert np.array_equal(labels[:3], known) and len(atoms.means) == labels.max() + 1
        counts[labels[3]] += 1
    p = np.array([1.8, 0.8, 1.9]) / 4.5
    assert np.max(np.abs(counts / 1500 - p) / np.sqrt(p * (1 - p) / 1500)) < 4


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
