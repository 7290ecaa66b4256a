"""Gibbs steps where components differ in the prior of their weights only: numberings have their probabilities."""

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import bayeslab as bl
from tests.refusals import refused

X = np.array([0.2, 0.4, 3.1, 2.7, 0.3, 2.9, 3.3])


def _evidence(x):
    """Of rows with mean N(1.5, variance / 0.4) and variance InverseGamma(1.5, 0.25)."""
    n = len(x)
    if not n:
        return 0.0
    mean, kappa, nu = x.mean(), 0.4 + n, 3 + n
    scale = 0.5 + ((x - mean) ** 2).sum() + 0.4 * n / kappa * (mean - 1.5) ** 2
    halves = gammaln(nu / 2) - gammaln(1.5) + 1.5 * np.log(0.5) - 0.5 * nu * np.log(scale)
    return halves - 0.5 * n * np.log(np.pi) + 0.5 * np.log(0.4 / kappa)


def _first(prior):
    """P(row in the first component), over all labels."""
    labels = np.array(list(itertools.product([0, 1], repeat=len(X))))
    logs = []
    for z in labels:
        counts = np.bincount(z, minlength=2)
        logs.append(np.sum(gammaln(prior + counts) - gammaln(prior)) + sum(_evidence(X[z == k]) for k in (0, 1)))
    return np.exp(np.array(logs) - logsumexp(logs)) @ (labels == 0)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("prior", [[2.0, 1.0], [1.0, 4.0]])
def test_numberings_have_their_probabilities(prior):
    model = {
        "family": "mixture", "columns": ["x"], "components": 2,
        "priors": {"components": {"mean": 1.5, "rows": 0.4, "dof": 3, "scale": 0.5}, "weights": f"Dirichlet({prior})"},
    }  # fmt: skip
    fit = bl.fit(
        bl.Model(name="m", data={"rows": "row"}, model=model), {"x": X}, method="gibbs", draws=4000, seed=1, runs=None
    )
    found = fit.clusters()["probability"].to_numpy()[:, 0]
    # Half of the swaps are accepted at least: a thousand independent numberings.
    assert found == pytest.approx(_first(np.array(prior)), abs=5 * 0.5 / np.sqrt(1000))


@pytest.mark.slow(why="statistical")
def test_labels_that_may_be_wrong_tell_components_apart():
    """Components keep the numbers that noisy labels give them, whatever the prior of the weights: by enumeration."""
    reported = [0, 0, 1, 1, 0, 1, None]
    weights, table = np.array([1.0, 4.0]), np.array([[3.0, 1.0], [1.0, 3.0]])  # a label is right with prior mean 3/4
    logs, first = [], []
    for z in np.array(list(itertools.product([0, 1], repeat=len(X)))):
        counts = np.bincount(z, minlength=2)
        value = np.sum(gammaln(weights + counts) - gammaln(weights)) + sum(_evidence(X[z == k]) for k in (0, 1))
        for k in (0, 1):
            n = np.bincount([r for r, of in zip(reported, z, strict=True) if of == k and r is not None], minlength=2)
            value += np.sum(gammaln(table[k] + n) - gammaln(table[k])) - gammaln(table[k].sum() + n.sum())
        logs.append(value)
        first.append(z == 0)
    wanted = np.exp(np.array(logs) - logsumexp(logs)) @ np.array(first)
    model = {
        "family": "mixture", "columns": ["x"], "components": 2, "labels": "kind", "label_noise": True,
        "priors": {"components": {"mean": 1.5, "rows": 0.4, "dof": 3, "scale": 0.5}, "weights": "Dirichlet([1, 4])"},
    }  # fmt: skip
    data = {"x": X, "kind": ["ab"[r] if r is not None else None for r in reported]}
    fit = bl.fit(bl.Model(name="m", data={"rows": "row"}, model=model), data, "gibbs", draws=2000, seed=1, runs=None)
    found = fit.clusters()["probability"].to_numpy()[:, 0]
    # The other numbering has about two per cent.
    assert found == pytest.approx(wanted, abs=0.04)


def test_exact_summaries_of_columns_with_unequal_numbers_of_levels():
    """Dirichlet means by hand: shares of a column with two levels beside one with three add up to one."""
    table = {"a": ["x", "x", "y", "x"], "b": ["p", "q", "r", "p"], "kind": ["L", "L", "L", "R"]}
    model = {"family": "mixture", "columns": ["a", "b"], "components": 2, "component": "categorical", "labels": "kind"}
    found = bl.fit(bl.Model(model=model), table, "exact", runs=None, progress=False).summary()["mean"]
    assert found["p_a[L, x]"] == pytest.approx(3 / 5)
    assert found["p_a[L, y]"] == pytest.approx(2 / 5)
    assert found["p_b[L, p]"] == pytest.approx(2 / 6)


@pytest.mark.parametrize("formula", ["y ~ x + offset(z)", "y ~ x + (1 | g)", "y ~ x + (x | g)", "p(k, n) ~ x"])
def test_terms_that_components_do_not_have_are_refused(formula):
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=20), "y": rng.normal(size=20), "z": rng.normal(size=20), "g": list("abcd") * 5}
    table |= {"k": rng.integers(0, 3, 20), "n": np.full(20, 5)}
    spec = {"family": "mixture", "regression": formula, "components": 2}
    with refused("model.unsupported", where="model.regression"):
        bl.fit(bl.Model(model=spec), table, "em", runs=None, progress=False)


def test_outcomes_of_words_are_refused():
    table = {"x": np.arange(10.0), "y": ["no", "yes"] * 5}
    spec = {"family": "mixture", "regression": "y ~ x", "components": 2, "component": "bernoulli"}
    with refused("data.not-numbers", "'y'"):
        bl.fit(bl.Model(model=spec), table, "em", runs=None, progress=False)
