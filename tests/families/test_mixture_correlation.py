"""LKJ priors of the correlations of gaussian components: draws, density, likelihood, and a posterior on a grid."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayeslab as bl
from bayeslab.families import mixture as family
from bayeslab.fitting import check as bound_of
from bayeslab.posterior.observed.whitened import partial_correlations
from tests.families._models import mixture
from tests.refusals import refused


def planted(n=60, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    x = rng.normal(0, 1, (n, 3)) @ np.array([[1, 0.5, -0.4], [0, 1, 0.3], [0, 0, 0.6]]) + 4 * z[:, None]
    return {"a": x[:, 0], "b": x[:, 1] * 20 + 70, "c": x[:, 2]}


def correlations(matrix):
    sd = np.sqrt(np.einsum("...ii->...i", matrix))
    return matrix / (sd[..., :, None] * sd[..., None, :])


@pytest.fixture(scope="module")
def compiled():
    """Density, parameters and an unconstrained point of the graph, in plain Python."""
    import pytensor
    from pytensor.compile.mode import Mode

    model = mixture(["a", "b", "c"], priors={"correlation": "LKJ(1.7)"})
    data = planted()
    graph = family.compile(model, bound_of(model, data)).graph()
    names = ["weights", "mean", "sd", "covariance", "_partial", "_log_sd", "_mean"]
    nodes = [graph[name] for name in names]
    outputs = [graph.logp(), graph.logp(vars=graph.free_RVs), graph.logp(vars=[graph["_partial"]], jacobian=False)]
    outputs += graph.replace_rvs_by_values(nodes)
    function = pytensor.function(graph.value_vars, outputs, mode=Mode("py", "fast_compile"), on_unused_input="ignore")
    start = graph.initial_point()
    point = [np.asarray(start[v.name]) for v in graph.value_vars]

    def call(point):
        joint, prior, partial, *values = function(*point)
        return float(joint), float(prior), float(partial), dict(zip(names, values, strict=True))

    return data, call, point


def test_the_likelihood_is_that_of_scipy(compiled):
    data, call, point = compiled
    rng = np.random.default_rng(1)
    for _ in range(3):
        joint, prior, _, values = call([p + 0.2 * rng.standard_normal(np.shape(p)) for p in point])
        rows = np.column_stack([data[c] for c in "abc"])
        laws = [stats.multivariate_normal(values["mean"][k], values["covariance"][k]) for k in (0, 1)]
        each = np.column_stack([law.logpdf(rows) for law in laws]) + np.log(values["weights"])
        assert joint - prior == pytest.approx(logsumexp(each, axis=1).sum(), rel=1e-9)
        np.testing.assert_allclose(np.sqrt(np.einsum("kii->ki", values["covariance"])), values["sd"])


def test_the_density_of_a_correlation_matrix_is_a_power_of_its_determinant(compiled):
    """Density of partial correlations over the slope of the correlations in them: det(R)^(η - 1), up to a constant."""
    _, call, point = compiled
    rng = np.random.default_rng(2)

    def matrix(partial):
        """Correlations by the recursion in three variables."""
        p, q, r = 2 * partial - 1
        return np.array([p, q, r * np.sqrt((1 - p**2) * (1 - q**2)) + p * q])

    constants = []
    for _ in range(5):
        _, _, value, values = call([p + 0.8 * rng.standard_normal(np.shape(p)) for p in point])
        for k in (0, 1):
            found = correlations(values["covariance"][k])
            own = values["_partial"][k]
            np.testing.assert_allclose(matrix(own), found[[1, 2, 2], [0, 0, 1]], atol=1e-12)
            slope = [(matrix(own + s) - matrix(own - s)) / 2e-6 for s in 1e-6 * np.eye(3)]
            value -= 0.7 * np.linalg.slogdet(found)[1] + np.linalg.slogdet(np.array(slope))[1]
        constants.append(value)
    np.testing.assert_allclose(constants, constants[0], atol=1e-6)


def test_chains_start_at_the_mode_of_the_conjugate_posterior(compiled):
    """Partial correlations of a matrix and back; starts are clipped only at the edges."""
    _, call, point = compiled
    values = call(point)[3]
    partial = partial_correlations(values["covariance"])
    np.testing.assert_allclose(partial[:, [1, 2, 2], [0, 0, 1]], 2 * values["_partial"] - 1, atol=1e-9)


def test_simulated_correlations_have_the_moments_of_the_lkj():
    """Each is a Beta on (-1, 1) with η + (d - 2) / 2, whatever its place; sds log normal about the data's."""
    from pymc import draw
    from pytensor.compile.mode import Mode

    model = mixture(["a", "b", "c"], priors={"correlation": 2})
    graph = family.compile(model, bound_of(model, planted())).graph(purpose="simulate")
    covariance, sd = (
        np.asarray(v)
        for v in draw([graph["covariance"], graph["sd"]], 1500, mode=Mode("py", "fast_compile"), random_seed=3)
    )
    found = correlations(covariance).reshape(-1, 3, 3)
    law = stats.beta(2.5, 2.5, -1, 2)
    for i, j in ((1, 0), (2, 0), (2, 1)):
        assert stats.kstest(found[:, i, j], law.cdf).pvalue > 1e-3, (i, j)
    scale = np.array([np.std(planted()[c], ddof=0) for c in "abc"]) / 2 ** (1 / 3)
    assert np.abs(np.median(sd, axis=(0, 1)) / scale - 1).max() < 0.12


@pytest.mark.slow(why="compiles")
def test_the_posterior_of_a_correlation_is_that_on_a_grid():
    """One component whose means and sds are nearly known: one correlation is left, with density det(R)^(η - 1)."""
    rng = np.random.default_rng(5)
    rows = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 12)
    model = mixture(
        ["a", "b"], 1, priors={"mean": "Normal(0, 0.001)", "sd": "LogNormal(0, 0.001)", "correlation": "LKJ(eta=3)"}
    )
    fit = bl.fit(model, {"a": rows[:, 0], "b": rows[:, 1]}, "nuts", seed=1, progress=False, draws=500, chains=2)
    r = np.linspace(-0.999, 0.999, 4001)
    cross = (rows[:, 0] * rows[:, 1]).sum()
    log_p = -(12 / 2) * np.log1p(-(r**2)) - 0.5 * ((rows**2).sum() - 2 * r * cross) / (1 - r**2) + 2 * np.log1p(-(r**2))
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ r
    sd = np.sqrt(p @ r**2 - mean**2)
    drawn = fit.posterior["covariance"].values[..., 0, 0, 1].ravel()
    ess = fit.summary(["covariance"])["ess_bulk"].to_numpy()[1]
    assert drawn.mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(ess))
    assert drawn.std() == pytest.approx(sd, rel=4 / np.sqrt(ess))
    assert fit.verdict.status == "pass"


@pytest.mark.slow(why="statistical")
def test_the_prior_is_told_and_engines_that_need_another_refuse():
    model, data = mixture(["a", "b"], priors={"correlation": "LKJ(2)"}), planted()
    told = family.compile(model, bound_of(model, data)).priors()
    assert told["covariance"] == "correlations LKJ(2)" and told["sd"].startswith("LogNormal(log [")
    for method, code, match in (
        ("em", "engine.refused.not-conjugate", ""),
        ("gibbs", "engine.refused.not-conjugate", "gibbs"),
        ("variational", "engine.refused.not-conjugate", "variational"),
    ):
        with refused(code, match):
            bl.fit(model, data, method, progress=False)
    plain = bl.fit(model, data, "em", progress=False, prior="ignore")
    other = bl.fit(mixture(["a", "b"]), data, "em", progress=False, prior="ignore")
    assert plain.posterior.attrs["log_likelihood"] == pytest.approx(other.posterior.attrs["log_likelihood"], abs=1e-4)


@pytest.mark.parametrize(
    ("more", "code", "match"),
    [
        ({"priors": {"correlation": "LKJ(-1)"}}, "model.bad-prior", r"^model\.priors\.correlation.*-1"),
        ({"priors": {"correlation": "Wishart(2)"}}, "model.bad-prior", r"^model\.priors\.correlation.*Wishart"),
        (
            {"priors": {"correlation": "LKJ(2)"}, "covariance": "diagonal"},
            "model.unsupported",
            r"^model\.priors\.correlation.*covariance",
        ),
        (
            {"priors": {"correlation": "LKJ(2)", "mean": "Normal(0, 1)"}},
            "model.incomplete",
            r"^model\.priors.*correlation",
        ),
        (
            {"priors": {"correlation": "LKJ(2)", "components": {"rows": 1}}},
            "model.conflict",
            r"^model\.priors.*components",
        ),
        ({"priors": {"mean": "Normal(0, 1)", "sd": "HalfNormal(1)"}}, "model.incomplete", r"^model\.priors.*2"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(more, code, match):
    model, data = mixture(["a", "b"], **more), planted()
    with refused(code, match) as caught:
        bl.fit(model, data, "map", progress=False)
    assert "\n" not in caught.value.message
