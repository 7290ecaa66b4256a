"""The sampler over the number of components against enumeration of all partitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from bayeslab.distributions.emissions import Categorical, OneParameter, Product, StudentT, gaussian
from bayeslab.latents.partitions.component_number import NumberPrior
from tests.latents._enumeration import partitions
from tests.latents.partitions import sample_component_number
from tests.refusals import refused


def exact(emission, rows, log_prior, gamma):
    """Posterior of K, and of the number of clusters, from every partition: Dirichlet weights integrated out by hand."""
    n, highest = len(rows), len(log_prior)
    number, clusters = np.full(highest, -np.inf), np.full(highest, -np.inf)
    for labels in partitions(n):
        t = labels.max() + 1
        sizes = np.bincount(labels)
        value = emission.log_marginal(emission.statistics(rows, np.eye(t)[labels])).sum()
        value += np.sum(gammaln(gamma + sizes) - gammaln(gamma))
        for k in range(t, highest + 1):
            # k! / (k - t)! labelings give the partition; Dirichlet-multinomial probability of each.
            joint = value + gammaln(k + 1) - gammaln(k - t + 1) + gammaln(gamma * k) - gammaln(gamma * k + n)
            joint += log_prior[k - 1]
            number[k - 1] = np.logaddexp(number[k - 1], joint)
            clusters[t - 1] = np.logaddexp(clusters[t - 1], joint)
    return np.exp(number - logsumexp(number)), np.exp(clusters - logsumexp(clusters))


def small(name: str):
    rng = np.random.default_rng(0)
    n = 7
    normal = rng.normal(size=(n, 2)) * 3
    holes = normal.copy()
    holes[[1, 4], [0, 1]] = np.nan
    counts = np.array([[2.0], [2], [9], [12], [3], [1], [10]])
    codes = np.column_stack([rng.integers(0, 3, n), rng.integers(0, 2, n)]).astype(float)
    mixed = Product(
        {"x": ((0,), gaussian(1)), "c": ((2, 3), Categorical((3, 2))), "n": ((1,), OneParameter("Poisson", 1))}
    )
    return {
        "full": (gaussian(2), normal),
        "diagonal": (gaussian(2, "diagonal"), normal),
        "diagonal, missing": (gaussian(2, "diagonal"), holes),
        "known": (gaussian(2, "known", known=np.array([[1, 0.3], [0.3, 2.0]])), normal),
        "categorical": (Categorical((3, 2)), codes),
        "bernoulli": (OneParameter("Bernoulli", 3), rng.integers(0, 2, (n, 3)).astype(float)),
        "poisson": (OneParameter("Poisson", 1), counts),
        "exponential": (OneParameter("Exponential", 1), counts / 3),
        "binomial": (OneParameter("Binomial", 1, known={"n": 12}), counts),
        "mixed": (mixed, np.column_stack([normal[:, 0], counts, codes])),
    }[name]


CASES = [
    "full",
    "diagonal",
    "diagonal, missing",
    "known",
    "categorical",
    "bernoulli",
    "poisson",
    "exponential",
    "binomial",
    "mixed",
]


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("proposals", [0, 5], ids=["gibbs", "merge-split"])
@pytest.mark.parametrize("name", CASES)
def test_gmm_unknown_k_equals_the_enumerated_posterior(name, proposals):
    """Within Monte Carlo error, by batches; so does the number of clusters in use."""
    emission, rows = small(name)
    emission = emission.with_prior(rows, 1)
    prior = NumberPrior.uniform(5, gamma=0.7)
    number, clusters = exact(emission, rows, prior.log_probability, 0.7)
    found = sample_component_number(
        emission, rows, rng=np.random.default_rng(1), prior=prior, draws=10_000, tune=200, proposals=proposals, sweeps=1
    )
    used = np.stack([found.n_clusters == t for t in range(1, 6)], axis=-1).astype(float)
    batches = used.reshape(2 * 25, 400, 5).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    # Numbers that no draw has do not vary between batches: no error is below that of independent draws.
    error = np.maximum(error, np.sqrt(clusters * (1 - clusters) / used[..., 0].size))
    assert np.all(np.abs(found.clusters - clusters) < 4.5 * error + 1e-4)
    assert found.probability.sum() == pytest.approx(1)
    assert np.all(np.abs(found.probability - number) < 4.5 * error.max() + 1e-4)


@pytest.mark.slow(why="statistical")
def test_a_prior_that_is_not_uniform_and_the_prior_alone():
    """With a Poisson prior; and with cells all missing the prior comes back."""
    emission, rows = small("poisson")
    emission = emission.with_prior(rows, 1)
    prior = NumberPrior.poisson(1.5, gamma=1.3, highest=6)
    assert np.exp(prior.log_probability).sum() == pytest.approx(1)
    number, _ = exact(emission, rows, prior.log_probability, 1.3)
    found = sample_component_number(emission, rows, rng=np.random.default_rng(2), prior=prior, draws=10_000, sweeps=1)
    np.testing.assert_allclose(found.probability, number, atol=0.012)
    nothing = np.full((7, 1), np.nan)
    found = sample_component_number(
        emission, nothing, rng=np.random.default_rng(3), prior=prior, draws=10_000, sweeps=1
    )
    np.testing.assert_allclose(found.probability, np.exp(prior.log_probability), atol=0.012)


@pytest.mark.slow(why="large")
def test_gmm_unknown_k():
    """Three planted clusters, weights 0.2, 0.3, 0.5: the posterior's mode is 3, from either start."""
    rng = np.random.default_rng(4)
    labels = rng.choice(3, 500, p=[0.2, 0.3, 0.5])
    rows = np.array([[-4.0, 0.0], [0.0, 3.0], [4.0, -1.0]])[labels] + rng.normal(size=(500, 2))
    found = sample_component_number(gaussian(2), rows, rng=rng, draws=200, tune=200)
    assert found.mode == 3 and found.probability[2] > 0.8
    # A row on its own makes a fourth cluster for a while.
    assert found.n_clusters.shape == (2, 200) and np.mean(found.n_clusters[:, -50:] == 3) > 0.9
    assert np.isfinite(found.log_density).all()


def test_densities_of_partitions_written_out():
    """V and the evidence of each cluster, up to one constant."""
    rows = np.random.default_rng(6).normal(size=(40, 2))
    one = sample_component_number(gaussian(2), rows, rng=np.random.default_rng(7), draws=30, tune=5, chains=3)
    prior = NumberPrior.uniform(20)
    emission = gaussian(2).with_prior(rows, 1)
    log_v = logsumexp(prior.log_joint(40), axis=1)
    shift = []
    for labels, value in zip(one.labels[0, ::6], one.log_density[0, ::6], strict=True):
        r = np.eye(labels.max() + 1)[labels]
        n = r.sum(axis=0)
        want = log_v[len(n)] + gammaln(n + 1).sum() + emission.log_marginal(emission.statistics(rows, r)).sum()
        shift.append(value - want)
    np.testing.assert_allclose(shift, shift[0], atol=1e-8)


def test_wrong_input_is_refused_in_one_line():
    rows = np.random.default_rng(0).normal(size=(6, 2))
    cases = [
        (lambda: sample_component_number(StudentT(2), rows, rng=np.random.default_rng(0)), "not-conjugate", "StudentT"),
        (
            lambda: sample_component_number(gaussian(2, "tied"), rows, rng=np.random.default_rng(0)),
            "no-closed-form",
            "covariance",
        ),
        (lambda: NumberPrior.uniform(0), "out-of-range", "components?"),
        (
            lambda: sample_component_number(
                gaussian(2), rows, rng=np.random.default_rng(0), prior=NumberPrior.uniform(3, gamma=0.0)
            ),
            "out-of-range",
            "γ",
        ),
        (
            lambda: sample_component_number(
                gaussian(2), np.where(rows > 1, np.nan, rows), rng=np.random.default_rng(0)
            ),
            "no-closed-form",
            "missing",
        ),
    ]
    for call, kind, match in cases:
        with refused(f"option.{kind}", match):
            call()
    with refused("data.no-rows"):
        sample_component_number(gaussian(2), rows[:0], rng=np.random.default_rng(0))
