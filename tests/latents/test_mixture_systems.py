"""Claims about EM and clusters that need long runs, limits, or a user's data set with trouble planted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import xlogy
from scipy.stats import norm

import bayeslab as bl
from bayeslab.distributions.emissions import OneParameter, gaussian
from bayeslab.latents.expectation_maximisation import maximise
from bayeslab.latents.labels.clusters import adjusted_rand_index
from bayeslab.latents.labels.k_means import leader_clusters
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.mixtures.starts import start_from_labels
from bayeslab.posterior.mixtures.variational import climb, prepared

WEIGHTS = np.array([0.2, 0.3, 0.5])
MEANS = np.array([[-4.0, 0.0], [0.0, 3.0], [4.0, -1.0]])


def planted(seed=0, n=200):
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, n, p=WEIGHTS)
    return MEANS[labels] + rng.normal(size=(n, 2)), labels


def fitted(rows, components, **more):
    options = {"method": "em", "seed": 1, "progress": False} | more
    spec = bl.Mixture(columns=["x", "y"], components=components)
    return bl.fit(bl.Model(model=spec), {"x": rows[:, 0], "y": rows[:, 1]}, **options)


# --------------------------------------------------------------------------------- EM


@pytest.mark.slow(why="statistical")
def test_em_mcmc_is_within_monte_carlo_error_of_em():
    """Labels drawn, parameters updated after each draw: ends of 30 long runs scatter about EM's, of overlapping counts
    too, where draws are most uncertain."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(rng.choice([2.0, 8.0], (150, 1))).astype(float)
    problem = MixtureProblem.of(OneParameter("Poisson", 1), counts, 2)
    start = start_from_labels(problem, (counts[:, 0] > 5).astype(int))
    exact = maximise(problem, start, variant="accelerated", tolerance=1e-12).parameters
    runs = [
        maximise(problem, start, variant="stochastic", max_iterations=1000, rng=np.random.default_rng(s)).parameters
        for s in range(30)
    ]
    for name in ("weights", "rate"):
        ends = np.stack([run[name] for run in runs])
        error = ends.std(axis=0, ddof=1) / np.sqrt(30)
        assert np.all(error < 0.02) and np.all(ends.std(axis=0) > 1e-4)
        assert np.all(np.abs(ends.mean(axis=0) - exact[name]) < 4.5 * error + 1e-3), name


@pytest.mark.slow(why="statistical")
def test_em_mcmc_is_an_option_of_a_fit():
    rows, labels = planted()
    exact = fitted(rows, 3, prior="ignore")
    drawn = fitted(rows, 3, prior="ignore", variant="stochastic", max_iterations=300, restarts=1)
    assert drawn.posterior.attrs["log_likelihood"] == pytest.approx(exact.posterior.attrs["log_likelihood"], abs=0.1)
    assert adjusted_rand_index(drawn.clusters()["component_of"].values, labels) > 0.95


def test_the_bound_of_any_responsibilities_is_below_the_log_likelihood():
    """Neal and Hinton's free energy, with a factor for each row that need not be the posterior: at most log p(x | θ),
    equal at the responsibilities; and an E-step that may use only what is near never lowers it."""
    rows, _ = planted(1, 80)
    problem = MixtureProblem.of(gaussian(2, "diagonal"), rows, 3)
    rng = np.random.default_rng(0)
    theta = start_from_labels(problem, np.arange(80) % 3)

    def bound(r, theta):
        each = [
            np.log(theta["weights"][k]) + norm.logpdf(rows, theta["mean"][k], np.sqrt(theta["variance"][k])).sum(axis=1)
            for k in range(3)
        ]
        return float(np.sum(r * np.column_stack(each)) - xlogy(r, r).sum())

    free = []
    for _ in range(15):
        value, best = problem.expect(theta)[0], problem.responsibilities(theta)[1]
        assert bound(best, theta) == pytest.approx(value, abs=1e-9)
        for _ in range(5):
            assert bound(rng.dirichlet(np.ones(3), 80), theta) < value
        # The variational family: no row may be in the component that suits it worst.
        near = np.where(best == best.min(axis=1, keepdims=True), 0.0, best)
        near /= near.sum(axis=1, keepdims=True)
        free.append(bound(near, theta))
        assert free[-1] <= value
        theta = problem.update(problem.statistics(near, theta), theta)
        free.append(bound(near, theta))
    assert np.all(np.diff(free) > -1e-9)


def test_variational_em_never_lowers_the_bound_whatever_the_start():
    for seed in range(5):
        rows, _ = planted(seed, 60)
        problem = prepared(MixtureProblem.of(gaussian(2), rows, 4, concentration=0.3))
        guess = np.random.default_rng(seed).dirichlet(np.full(4, 0.2), 60)
        trace = climb(problem, guess, tolerance=0, max_iterations=60).trace
        assert np.all(np.diff(trace) > -1e-8) and trace[-1] > trace[0]


# --------------------------------------------------------------------------------- trouble on a user's data


@pytest.mark.slow(why="statistical")
def test_duplicated_rows_end_well_and_are_reported():
    """Fifteen equal rows far from three clusters: with priors they are a component that is named; without, where the
    likelihood has no bound there, the collapse is repaired, and said."""
    rows, labels = planted(4)
    rows[:15] = [9.0, 9.0]
    labels[:15] = 3
    fit = fitted(rows, 4)
    assert adjusted_rand_index(fit.clusters()["component_of"].values, labels) > 0.95
    said = [f.message for f in fit.verdict.findings if f.check == "equal rows"]
    assert said == ["all 15 rows of component 4 are the same: its spread is the prior's"]
    assert fit.posterior["sd"].values[0, 0, 3].min() > 0.05
    repaired = fitted(rows, 3, prior="ignore")
    assert np.isfinite(repaired.posterior.attrs["log_likelihood"])
    assert repaired.posterior["sd"].values.min() > 0.2
    assert any(
        f.check == "repaired" and "collapsed on a few equal rows" in f.message for f in repaired.verdict.findings
    )
    good = fitted(planted(4)[0], 3, prior="ignore")
    assert not {"repaired", "equal rows", "merged", "collapse"} & {f.check for f in good.verdict.findings}


# --------------------------------------------------------------------------------- leaders


def test_leader_clusters_are_the_limit_of_a_dirichlet_process():
    """Equal spherical components of variance s², new means from Normal(0, ρ): each row in turn takes its most probable
    table of the Chinese restaurant, with concentration α = (1 + ρ / s²)^(d / 2) exp(-λ² / 2 s²). As s goes to zero that
    is the leader's rule with vigilance λ (Kulis, Jordan 2012); at s = 1 it is not."""
    rng = np.random.default_rng(0)
    vigilance, wide = 3.0, 100.0
    agreed = {1.0: 0, 1e-3: 0}
    for points in rng.uniform(0, 10, (20, 15, 2)):
        leader = leader_clusters(points, vigilance).labels.tolist()
        for s in agreed:
            log_alpha = np.log1p(wide / s**2) - vigilance**2 / (2 * s**2)
            groups: list[list[np.ndarray]] = []
            labels: list[int] = []
            for x in points:
                scores = [np.log(len(g)) + norm.logpdf(x, np.mean(g, axis=0), s).sum() for g in groups]
                scores.append(log_alpha + norm.logpdf(x, 0, np.sqrt(s**2 + wide)).sum())
                labels.append(int(np.argmax(scores)))
                if labels[-1] == len(groups):
                    groups.append([])
                groups[labels[-1]].append(x)
            agreed[s] += labels == leader
    assert agreed[1e-3] == 20 and agreed[1.0] < 15
