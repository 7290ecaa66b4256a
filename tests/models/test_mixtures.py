"""The shipped mixtures against truths found another way: published values, quadrature, a direct search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import logsumexp

import bayeslab as bl
from bayeslab.latents.labels.clusters import adjusted_rand_index
from tests.models.shipped import MODELS, fitted, table


def test_geyser_clusters_by_maximum_likelihood():
    """The log likelihood that mclust prints for two components with their own covariances (model VVV), -1130.264."""
    fit = fitted("geyser_clusters", "em", prior="ignore", tolerance=1e-9)
    assert fit.posterior.attrs["log_likelihood"] == pytest.approx(-1130.264, abs=1e-3)
    assert list(fit.posterior["component"].values) == ["short", "long"]


@pytest.mark.slow(why="compiles")
def test_geyser_clusters_by_nuts():
    """Given the labels, which hardly anyone doubts, everything is conjugate: the closed form at the labels."""
    fit = fitted("geyser_clusters")
    assert fit.method == "nuts" and fit.verdict.status == "pass", str(fit.verdict)
    rows = table("faithful").to_numpy()
    long = rows[:, 0] > 3
    for k, own in enumerate((rows[~long], rows[long])):
        at = fit.posterior.to_dataset().isel(component=k)
        # Some ten rows of 272 could be either; an sd is far more than they move a mean.
        error = own.std(axis=0) / np.sqrt(len(own))
        assert (abs(at["mean"].mean(("chain", "draw")).values - own.mean(axis=0)) < error).all()
    assert adjusted_rand_index(fit.clusters()["partition"].values, long) > 0.95


@pytest.mark.slow(why="statistical")
def test_coal_rates_by_quadrature():
    """Two Poisson components: three parameters on a grid, and BIC by a direct search for each number."""
    counts = table("coal")["disasters"].to_numpy()
    fit = fitted("coal_rates", "gibbs", draws=2000, tune=300)
    assert fit.posterior.sizes["component"] == 2
    values, times = np.unique(counts, return_counts=True)
    share, rate = (np.arange(40) + 0.5) / 40, (np.arange(90) + 0.5) / 13
    logs = stats.poisson.logpmf(values[:, None], rate)
    prior = stats.gamma(1, scale=2).logpdf(rate)
    low, high = np.meshgrid(rate, rate, indexing="ij")
    terms = np.empty((len(share), len(rate), len(rate)))
    for i, s in enumerate(share):
        each = np.logaddexp(np.log(s) + logs[:, :, None], np.log1p(-s) + logs[:, None, :])
        terms[i] = np.tensordot(times, each, 1) + prior[:, None] + prior
    terms[:, low > high] = -np.inf
    p = np.exp(terms - terms.max())
    p /= p.sum()
    # Draws are put in the order of the rates here; by default they are renamed to agree.
    drawn = fit.posterior["rate"].values[..., 0]
    weights = fit.posterior["weights"].values
    order = np.argsort(drawn, axis=-1)
    drawn, weights = np.take_along_axis(drawn, order, -1), np.take_along_axis(weights, order, -1)
    for want, have in ((low, drawn[..., 0]), (high, drawn[..., 1]), (share[:, None, None], weights[..., 0])):
        mean = float((p * want).sum())
        error = have.std() / np.sqrt(ess(have))
        assert abs(have.mean() - mean) < 4 * error + 1e-3

    def bic(k):
        def loss(x):
            w = np.append(x[: k - 1], 0.0)
            logs = stats.poisson.logpmf(values[:, None], np.exp(x[k - 1 :]))
            return -times @ logsumexp(logs + w - logsumexp(w), axis=1)

        best = min(minimize(loss, np.r_[np.zeros(k - 1), np.log(start)]).fun for start in np.linspace(1, 4, k)[None])
        return -best - 0.5 * (2 * k - 1) * np.log(len(counts))

    said = fitted("coal_rates", "em").verdict
    message = next(f.message for f in said.findings if f.check == "components")
    for k in (1, 2):
        assert f"{k}: {bic(k):.1f}" in message


def ess(draws):
    from bayeslab.results.convergence import ess as effective

    return float(effective(draws[None])[0])


def test_role_conflict_is_goodmans_latent_class_model():
    """Goodman (1974): likelihood ratio 2.720 on 6 degrees of freedom, classes of 0.279 and 0.721."""
    fit = fitted("role_conflict", "em", prior="ignore", tolerance=1e-10)
    cells = table("role_conflict").value_counts().to_numpy()
    saturated = np.sum(cells * np.log(cells / cells.sum()))
    assert 2 * (saturated - fit.posterior.attrs["log_likelihood"]) == pytest.approx(2.720, abs=5e-4)
    at = fit.posterior.to_dataset().isel(chain=0, draw=0)
    np.testing.assert_allclose(at["weights"].values, [0.279, 0.721], atol=5e-4)
    first = [float(at[f"p_{c}"].sel({f"{c}_state": 1})[0]) for c in "abcd"]
    second = [float(at[f"p_{c}"].sel({f"{c}_state": 1})[1]) for c in "abcd"]
    np.testing.assert_allclose(first, [0.993, 0.940, 0.927, 0.769], atol=6e-4)
    np.testing.assert_allclose(second, [0.714, 0.330, 0.354, 0.132], atol=6e-4)


@pytest.mark.slow(why="statistical")
def test_geyser_number_says_two_or_three():
    fit = fitted("geyser_number", draws=300, tune=100, chains=2)
    probability = fit.data_tree["number"]["probability"].values
    assert probability[0] < 1e-6 and probability[1:3].sum() > 0.9


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("name", ["geyser_clusters", "coal_rates", "role_conflict", "geyser_number"])
def test_files_are_valid(name):
    assert bl.check(MODELS / f"{name}.yaml").names()
