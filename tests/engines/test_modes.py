"""Posteriors with several modes: the truth by quadrature; what approximations, chains and grids make of them."""

from functools import cache

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.engines import nuts
from bayeslab.engines.toolbox.modes import Draws, finding, outside

# Rows around 0 and, more of them, around a far place: a Cauchy law has a mode at both, the far one the higher.
FAR = np.array([-0.1, 0.0, 0.1, 19.8, 19.9, 20.0, 20.1, 20.2])
CLUSTERS = {"far": (FAR, 0.1), "near": (np.array([-0.01, 0, 0.01, 1.98, 1.99, 2, 2.01]), 0.01)}


@cache
def truth(which):
    """Mean, sd, log evidence and mode, on two million points."""
    y, scale = CLUSTERS[which]
    grid = np.linspace(-60, 60, 2_000_001)
    height = stats.norm.logpdf(grid, 0, 10) + sum(stats.cauchy.logpdf(value, grid, scale) for value in y)
    weights = np.exp(height - height.max())
    total = weights.sum()
    mean = float(weights @ grid / total)
    sd = float(np.sqrt(weights @ (grid - mean) ** 2 / total))
    return mean, sd, float(np.log(total * (grid[1] - grid[0])) + height.max()), float(grid[height.argmax()])


def fit(which, method, seed=1, runs=None, **options):
    y, scale = CLUSTERS[which]
    nodes = {"mu": "Normal(0, 10)", "y[obs]": f"StudentT(1, mu, {scale})"}
    model = bl.Model(model=bl.Graph(nodes=nodes), data={"rows": "obs"})
    return bl.fit(model, {"y": y}, method, seed=seed, runs=runs, progress=False, **options)


def drawn(found):
    return found.posterior["mu"].values


def modes(found):
    return [f for f in found.verdict.findings if f.check == "modes"]


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("which", CLUSTERS)
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow(why="statistical")) for seed in (2, 3))]
)
def test_map_takes_the_highest_of_far_modes_and_tells_of_others(which, seed):
    found = fit(which, "map", seed)
    assert drawn(found).item() == pytest.approx(truth(which)[3], abs=1e-4)
    assert found.verdict.status == "warn"
    assert [f.status for f in found.verdict.findings if f.check == "restarts"] == ["warn"]


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("seed", [1, 2])
def test_laplace_at_one_of_two_mirror_images_fails(seed):
    """Of a² the data know the size alone: half of the posterior lies at the other sign, at the same height."""
    model = bl.Model(model=bl.Graph(nodes={"a": "Normal(0, 3)", "y[r]": "Normal(a**2, 0.5)"}), data={"rows": "r"})
    found = bl.fit(model, {"y": [2.0, 2.2, 1.9]}, "laplace", seed=seed, runs=None, progress=False)
    (other,) = modes(found)
    assert other.status == found.verdict.status == "fail"
    assert other.value == pytest.approx(0.5, abs=0.01)
    assert "log_evidence" not in found.posterior.attrs


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("method", ["laplace", "pathfinder", "advi"])
def test_approximations_lie_at_the_highest_mode(method):
    mean, sd, _, _ = truth("far")
    assert np.median(drawn(fit("far", method))) == pytest.approx(mean, abs=0.3 * sd)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(("prior", "proper"), [("Normal(0, 10)", True), ("Flat()", False)])
def test_chains_in_two_modes_are_sent_to_smc_where_that_can_be(prior, proper):
    """Two narrow humps far apart; without a proper prior smc has nothing to start from."""
    nodes = {"mu": prior, "y[obs]": "Normal(mu ** 2, 1)"}
    model = bl.Model(model=bl.Graph(nodes=nodes), data={"rows": "obs"})
    found = bl.fit(
        model, {"y": np.full(4, 30.0)}, "nuts", seed=1, runs=None, progress=False, draws=300, tune=300, cores=1
    )
    assert len(set(np.sign(drawn(found)).ravel())) == 2  # chains in both
    (advice,) = (f.advice for f in found.verdict.findings if f.check == "R-hat")
    assert ("method smc" in advice) == proper


@pytest.mark.parametrize("which", CLUSTERS)
def test_chains_that_agree_in_a_minor_mode_are_not_believed(which):
    """Here R-hat sees nothing: all four chains are around zero, and nearly all of the posterior is elsewhere."""
    found = fit(which, "nuts", initvals={"mu": 0.0}, draws=300)
    if np.all(np.abs(drawn(found)) < 1):
        (told,) = modes(found)
        assert told.status == "fail" and told.value > 0.9 and "'mu' about" in told.message
    assert found.verdict.status == "fail"


def test_other_modes_are_the_same_in_every_run_of_a_seed():
    first, second = (fit("far", "nuts", initvals={"mu": 0.0}, draws=100, chains=2) for _ in range(2))
    assert modes(first) == modes(second) != []


@pytest.mark.slow(why="statistical")
def test_a_search_for_modes_that_is_interrupted_is_resumed(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    how = {"initvals": {"mu": 0.0}, "draws": 100, "chains": 2}
    with monkeypatch.context() as patched:
        patched.setattr(nuts, "suspects", stop)
        half = fit("far", "nuts", runs=tmp_path, **how)
    assert [f.check for f in half.verdict.findings if f.check in ("interrupted", "modes")] == ["interrupted"]
    whole = bl.resume(half.folder, progress=False)
    assert np.array_equal(drawn(whole), drawn(half))
    assert modes(whole) == modes(fit("far", "nuts", **how)) != []


def test_chains_in_the_mode_that_counts_are_believed():
    """The other one holds 1e-7 of the posterior."""
    found = fit("far", "nuts", initvals={"mu": 20.0})
    mean, sd, _, _ = truth("far")
    assert drawn(found).mean() == pytest.approx(mean, abs=0.2 * sd)
    assert not modes(found) and found.verdict.status == "pass"


def test_a_funnel_has_one_mode():
    """Centred: scouts fall into its neck, where the density has no bound."""
    y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    sigma = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    nodes = {
        "mu": "Normal(0, 5)",
        "tau": "HalfCauchy(5)",
        "theta[obs]": "Normal(mu, tau)",
        "y[obs]": "Normal(theta, sigma)",
    }
    model = bl.Model(model=bl.Graph(nodes=nodes), data={"rows": "obs"})
    found = bl.fit(model, {"y": y, "sigma": sigma}, "nuts", seed=1, runs=None, progress=False, draws=300)
    assert not modes(found)


@pytest.mark.parametrize("which", CLUSTERS)
def test_grids_cover_far_modes(which):
    mean, sd, log_evidence, _ = truth(which)
    found = fit(which, "grid").data_tree["exact_posterior"]
    got = dict(zip(found["statistic"].values, found["mu"].values, strict=True))
    assert got["mean"] == pytest.approx(mean, abs=1e-5) and got["sd"] == pytest.approx(sd, rel=1e-4)
    assert found.attrs["log_evidence"] == pytest.approx(log_evidence, abs=1e-6)


@pytest.mark.slow(why="large")
def test_a_grid_of_two_parameters_covers_far_modes():
    """The scale is unknown too; the truth is a sum over a fine grid of the mean and the log of the scale."""
    y, nodes = FAR, {"mu": "Normal(0, 10)", "s": "Exponential(5)", "y[obs]": "StudentT(1, mu, s)"}
    model = bl.Model(model=bl.Graph(nodes=nodes), data={"rows": "obs"})
    found = bl.fit(model, {"y": y}, "grid", seed=1, runs=None, progress=False).data_tree["exact_posterior"]
    mu = np.concatenate([np.arange(-6, 4, 0.004), np.arange(4, 16, 0.02), np.arange(16, 26, 0.004)])
    log_s = np.linspace(-6, 4, 300)
    scale = np.exp(log_s)
    height = stats.norm.logpdf(mu, 0, 10)[:, None] + np.log(5) - 5 * scale + log_s
    height = height + sum(-np.log(np.pi * scale * (1 + ((value - mu[:, None]) / scale) ** 2)) for value in y)
    along = np.exp(height - height.max()).sum(axis=1) * np.gradient(mu)
    mean = along @ mu / along.sum()
    log_evidence = np.log(along.sum() * (log_s[1] - log_s[0])) + height.max()
    got = dict(zip(found["statistic"].values, found["mu"].values, strict=True))
    assert got["mean"] == pytest.approx(mean, abs=1e-2)
    assert found.attrs["log_evidence"] == pytest.approx(log_evidence, abs=1e-3)


# ------------------------------------------------------------------------------------- on plain arrays


def normal(mean, sd, n=2000, seed=0):
    """Draws of a normal density times 2, and their heights."""
    mean, sd = np.asarray(mean, float), np.asarray(sd, float)
    points = mean + sd * np.random.default_rng(seed).standard_normal((n, mean.size))
    return Draws(points, stats.norm.logpdf(points, mean, sd).sum(axis=1) + np.log(2))


def test_mass_of_a_normal_mode():
    """Twice a density has the mass 2, whatever its scales; the error is that of 2000 draws."""
    for full in (True, False):
        assert normal([3, -1, 100], [0.1, 1, 50]).log_mass(full=full) == pytest.approx(np.log(2), abs=0.15)


def test_modes_are_apart_along_a_coordinate_or_between():
    here = normal([0, 0], [1, 1])
    assert outside(here, normal([8, 0], [1, 1], 200, 1)) and here.far(np.array([8.0, 0.0])) > 1.4
    assert not outside(here, normal([2, 0], [1, 1], 200, 1)) and here.far(np.array([2.0, 0.0])) < 1
    # On a ridge neither coordinate tells them apart.
    ridge = here.points @ np.array([[1.0, 1.0], [0.05, -0.05]])
    across = np.array([0.5, -0.5])
    heights = np.zeros(len(ridge))
    assert outside(Draws(ridge, heights), Draws(ridge[:200] + across, heights[:200]))
    assert Draws(ridge, heights).far(across) > 1.4


def test_a_mode_is_reported_by_its_share():
    here = normal([0.0], [1.0])
    for less, status in ((0.0, ["fail"]), (-4.0, ["warn"]), (-8.0, [])):
        there = normal([20.0], [1.0], 200, 1)
        told = finding(here, [Draws(there.points, there.heights + less)], lambda other: "there")
        assert [f.status for f in told] == status
