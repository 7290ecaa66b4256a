"""The shipped models: each is fitted, and its posterior compared with a truth found another way.

The other ways are quadrature, exact summation, the Kalman filter, self-normalised importance
sampling from a multivariate t around the mode (all written here, in NumPy and SciPy), and for the
radon models the estimates printed in Gelman and Hill (2007).
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, special, stats

import bayeslab as bl
from tests.docs.test_outputs import PAGES
from tests.models.shipped import MODELS, table

FILES = sorted(MODELS.glob("*.yaml"))
# Pages of the documentation fit the models that they show, and their tests refuse doubts of the verdict.
SHOWN = re.findall(r"^\$ bayeslab fit models/(\w+)\.yaml$", "\n".join(p.read_text() for p in PAGES), re.MULTILINE)
# Regressions: test_regressions.py.
GRAPHS = [file for file in FILES if "family: graph" in file.read_text() and file.stem not in SHOWN]


def agrees(fit: bl.Fit, row: str, exact: float, exact_error: float = 0.0) -> None:
    found = fit.summary().loc[row]
    # An exact answer has no Monte Carlo error; the references here are good to a thousandth of an sd.
    error = 1e-3 * found["sd"] if fit.method == "exact" else found["mcse_mean"]
    assert abs(found["mean"] - exact) < 4 * np.hypot(error, exact_error), (row, found["mean"], exact)


def importance(log_density, start, draws=200_000, seed=0):
    """Posterior means and their errors by importance sampling around the mode.

    Parameters
    ----------
    log_density
        Takes points of shape (n, d), on an unconstrained scale, Jacobian included.
    """
    mode = np.asarray(start, dtype=float)
    for method in ("BFGS", "Nelder-Mead", "BFGS"):
        options = {"maxiter": 20_000, "xatol": 1e-7, "fatol": 1e-9} if method == "Nelder-Mead" else {}
        mode = optimize.minimize(lambda p: -log_density(p[None])[0], mode, method=method, options=options).x
    chol = np.linalg.cholesky(1.3 * np.linalg.inv(curvature(log_density, mode)))
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(draws, len(start))) / np.sqrt(rng.chisquare(6, size=(draws, 1)) / 6)
    points = mode + noise @ chol.T
    proposal = stats.multivariate_t.logpdf(points, mode, chol @ chol.T, df=6)
    log_weights = log_density(points) - proposal
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    assert 1 / np.sum(weights**2) > draws / 20, "the proposal is too poor to be a reference"

    def mean(values):
        centre = weights @ values
        return centre, np.sqrt(weights**2 @ (values - centre) ** 2)

    return points, mean


def curvature(log_density, mode):
    """Minus the Hessian by central differences; two rounds, the second with steps of a tenth of an sd."""
    d = len(mode)
    steps = np.full(d, 1e-3)
    for _ in range(2):
        move = np.diag(steps)
        corners = [
            mode + s * move[i] + t * move[j] for i in range(d) for j in range(d) for s in (1, -1) for t in (1, -1)
        ]
        values = log_density(np.array(corners)).reshape(d, d, 2, 2)
        second = (values[..., 0, 0] - values[..., 0, 1] - values[..., 1, 0] + values[..., 1, 1]) / 4
        hessian = -second / np.outer(steps, steps)
        steps = 0.1 / np.sqrt(np.diag(hessian))
    return hessian


def test_there_are_models():
    assert len(FILES) >= 6


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("file", GRAPHS, ids=lambda f: f.stem)
def test_fits_and_can_be_trusted(file, fits):
    fit = fits(file.stem)
    assert fit.verdict.status == "pass", str(fit.verdict)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_data_have_a_source(file):
    head = file.read_text().split("bayeslab: 1")[0]
    assert "Data:" in head
    source = bl.load(file).data
    for path in filter(None, [source.table, *source.tables.values()]):
        assert Path(path).name in (MODELS / "data" / "README.md").read_text()


def test_eight_schools_by_quadrature(fits):
    data = table("eight_schools")
    mu = np.linspace(-25, 30, 1001)[:, None]
    angle = np.linspace(1e-4, np.pi / 2 - 1e-3, 3001)[None, :]
    tau = 5 * np.tan(angle)  # equal steps in the angle are equal probability of the half-Cauchy
    log_post = stats.norm.logpdf(mu, 0, 5) + np.zeros_like(tau)
    for y, se in zip(data["effect"], data["se"], strict=True):
        log_post = log_post + stats.norm.logpdf(y, mu, np.hypot(se, tau))
    w = np.exp(log_post - log_post.max())
    w /= w.sum()
    fit = fits("eight_schools")
    agrees(fit, "mu", (w * mu).sum())
    for school, y, se in data.itertuples(index=False):
        agrees(fit, f"theta[{school}]", (w * (y * tau**2 + mu * se**2) / (tau**2 + se**2)).sum())


@pytest.mark.slow(why="statistical")
def test_radon_is_gelman_and_hills(fits):
    """Printed in section 12.6: 1.47 (0.04), -0.67 (0.07), 0.72 (0.09); sd 0.16 and 0.76."""
    rows = fits("radon").summary()
    for name, printed, error in (("base", 1.47, 0.04), ("per_floor", -0.67, 0.07), ("per_uranium", 0.72, 0.09)):
        assert rows.loc[name, "mean"] == pytest.approx(printed, abs=0.01 + 0.1 * error)
        assert rows.loc[name, "sd"] == pytest.approx(error, abs=0.006)
    assert rows.loc["sigma", "mean"] == pytest.approx(0.76, abs=0.006)
    assert rows.loc["tau", "mean"] == pytest.approx(0.16, abs=0.02)


def test_radon_by_quadrature(fits):
    """Given the two scales everything else is Gaussian: the scales on a grid, the rest exactly."""
    homes = table("radon").merge(table("radon_counties"), on="county")
    county = homes["county"].astype("category").cat.codes.to_numpy()
    x = np.column_stack([np.ones(len(homes)), homes["log_uranium"], homes["floor"]])
    y = homes["log_radon"].to_numpy()
    prior_mean, prior_precision = np.array([1.0, 0, 0]), np.eye(3) / 4
    n = np.bincount(county)
    sums = np.zeros((len(n), 4))
    np.add.at(sums, county, np.column_stack([x, y]))
    xy, xx, yy = x.T @ y, x.T @ x, y @ y
    log_post, means = [], []
    grid = [(t, s) for t in np.linspace(0.002, 0.42, 80) for s in np.linspace(0.68, 0.85, 50)]
    for tau, sigma in grid:
        # Each county adds tau² to the covariance of its homes (Woodbury).
        shrink = tau**2 / (sigma**2 + n * tau**2)
        cross = (sums * shrink[:, None]).T @ sums
        a = (xx - cross[:3, :3]) / sigma**2 + prior_precision
        b = (xy - cross[:3, 3]) / sigma**2 + prior_precision @ prior_mean
        c = (yy - cross[3, 3]) / sigma**2 + prior_mean @ prior_precision @ prior_mean
        m = np.linalg.solve(a, b)
        half_det = 0.5 * np.sum(2 * n * np.log(sigma) + np.log1p(n * tau**2 / sigma**2))
        log_post.append(-half_det - 0.5 * np.linalg.slogdet(a)[1] - 0.5 * (c - b @ m) - tau**2 / 2 - sigma**2 / 8)
        means.append(m)
    w = np.exp(np.array(log_post) - max(log_post))
    w /= w.sum()
    fit = fits("radon")
    for row, value in zip(("base", "per_uranium", "per_floor"), w @ np.array(means), strict=True):
        agrees(fit, row, value)
    agrees(fit, "tau", w @ np.array([t for t, _ in grid]))
    agrees(fit, "sigma", w @ np.array([s for _, s in grid]))


@pytest.mark.slow(why="statistical")
def test_radon_slopes_are_gelman_and_hills(fits):
    """Printed in section 13.1: 1.46 (0.05), -0.68 (0.09); sd 0.35, 0.34 and 0.75."""
    rows = fits("radon_slopes").summary()
    assert rows.loc["mean[level]", "mean"] == pytest.approx(1.46, abs=0.012)
    assert rows.loc["mean[floor]", "mean"] == pytest.approx(-0.68, abs=0.012)
    assert rows.loc["mean[floor]", "sd"] == pytest.approx(0.09, abs=0.008)
    assert rows.loc["L_stds[level]", "mean"] == pytest.approx(0.35, abs=0.02)
    assert abs(rows.loc["L_stds[floor]", "mean"] - 0.34) < rows.loc["L_stds[floor]", "sd"]
    assert rows.loc["sigma", "mean"] == pytest.approx(0.75, abs=0.01)


@pytest.mark.slow(why="statistical")
def test_stackloss_by_importance_sampling(fits):
    data = table("stackloss")
    x = (data.iloc[:, :3] - data.iloc[:, :3].mean()) / data.iloc[:, :3].std()
    y = data["stack_loss"].to_numpy()

    def log_density(p):
        mu = p[:, :1] + p[:, 1:4] @ x.to_numpy().T
        sigma = np.exp(p[:, 4:])
        prior = stats.norm.logpdf(p[:, 0], 17, 20) + stats.norm.logpdf(p[:, 1:4], 0, 10).sum(1)
        prior += stats.halfnorm.logpdf(sigma[:, 0], scale=10) + p[:, 4]
        return prior + stats.t.logpdf(y, 4, mu, sigma).sum(1)

    points, mean = importance(log_density, np.array([17.0, 7, 3, 0, 1]))
    fit = fits("stackloss")
    for k, row in enumerate(("a", "b_air", "b_water", "b_acid")):
        agrees(fit, row, *mean(points[:, k]))
    agrees(fit, "sigma", *mean(np.exp(points[:, 4])))


@pytest.mark.slow(why="statistical")
def test_insect_sprays_by_quadrature(fits):
    data = table("insect_sprays")
    fit = fits("insect_sprays")
    grid = np.linspace(-2, 5, 20_001)
    for spray, counts in data.groupby("spray")["insects"]:
        log_post = stats.norm.logpdf(grid, 2, 1) + counts.sum() * grid - len(counts) * np.exp(grid)
        w = np.exp(log_post - log_post.max())
        agrees(fit, f"log_rate[{spray}]", (w * grid).sum() / w.sum())


@pytest.mark.slow(why="statistical")
def test_coal_by_summing_over_the_change(fits):
    """Gamma priors are conjugate given the change, which has 111 values."""
    y = table("coal")["disasters"].to_numpy()
    change = np.arange(1, 112)
    first, n = np.array([y[:k].sum() for k in change]), len(y)
    rest = y.sum() - first
    log_post = special.gammaln(2 + first) - (2 + first) * np.log(1 + change)
    log_post += special.gammaln(2 + rest) - (2 + rest) * np.log(1 + n - change)
    w = np.exp(log_post - log_post.max())
    w /= w.sum()
    fit = fits("coal")
    agrees(fit, "early", w @ ((2 + first) / (1 + change)))
    agrees(fit, "late", w @ ((2 + rest) / (1 + n - change)))
    agrees(fit, "change", w @ change)
    draws = fit.posterior["change"].values.ravel()
    assert draws.dtype.kind == "i"
    share = np.mean(draws == change[w.argmax()])
    assert abs(share - w.max()) < 4 * np.sqrt(w.max() / 1000)


@pytest.mark.slow(why="statistical")
def test_sunspots_by_importance_sampling(fits):
    y = np.sqrt(table("sunspots")["sunspots"].to_numpy())

    def log_density(p):
        mu = p[:, :1] + p[:, 1:2] * y[1:-1] + p[:, 2:3] * y[:-2]
        sigma = np.exp(p[:, 3:])
        prior = stats.norm.logpdf(p[:, 0], 0, 5) + stats.norm.logpdf(p[:, 1:3]).sum(1)
        prior += stats.halfnorm.logpdf(sigma[:, 0], scale=5) + p[:, 3]
        return prior + stats.norm.logpdf(y[2:], mu, sigma).sum(1)

    points, mean = importance(log_density, np.array([1.0, 1, -0.5, 0]), draws=50_000)
    fit = fits("sunspots")
    for k, row in enumerate(("level", "phi[0]", "phi[1]")):
        agrees(fit, row, *mean(points[:, k]))
    agrees(fit, "sigma", *mean(np.exp(points[:, 3])))
    assert fit.log_likelihood()["root"].sizes["year_from_2"] == len(y) - 2


@pytest.mark.slow(why="statistical")
def test_airquality_by_integrating_the_gaps_out(fits):
    """A missing radiation adds its variance to the ozone it predicts; a missing ozone adds nothing."""
    data = table("airquality")
    z = lambda v: ((v - v.mean()) / v.std()).to_numpy()  # noqa: E731
    ozone, sun = np.log(data["ozone"]).to_numpy(), (data["solar"] / 100).to_numpy()
    breeze, heat = z(data["wind"]), z(data["temp"])
    has_sun, has_ozone = ~np.isnan(sun), ~np.isnan(ozone)

    def log_density(p):
        m, per, a, b_sun, b_breeze, b_heat = (p[:, k : k + 1] for k in range(6))
        sun_sd, sigma = np.exp(p[:, 6:7]), np.exp(p[:, 7:8])
        out = stats.norm.logpdf(m, 2, 1) + stats.norm.logpdf(per) + stats.norm.logpdf(a, 3.5, 1)
        out += stats.norm.logpdf(b_sun) + stats.norm.logpdf(b_breeze) + stats.norm.logpdf(b_heat)
        out += stats.halfnorm.logpdf(sun_sd) + stats.halfnorm.logpdf(sigma) + p[:, 6:7] + p[:, 7:8]
        expected = m + per * heat
        out = out[:, 0] + stats.norm.logpdf(sun[has_sun], expected[:, has_sun], sun_sd).sum(1)
        level = np.where(has_sun, np.nan_to_num(sun), expected)
        mu = a + b_sun * (level - 2) + b_breeze * breeze + b_heat * heat
        spread = np.sqrt(sigma**2 + np.where(has_sun, 0, (b_sun * sun_sd) ** 2))
        return out + stats.norm.logpdf(ozone[has_ozone], mu[:, has_ozone], spread[:, has_ozone]).sum(1)

    points, mean = importance(log_density, np.array([2.0, 0.2, 3.4, 0.2, -0.2, 0.5, 0, -0.7]), draws=60_000)
    fit = fits("airquality")
    for k, row in enumerate(("sun_mean", "sun_per_heat", "a", "b_sun", "b_breeze", "b_heat")):
        agrees(fit, row, *mean(points[:, k]))
    agrees(fit, "sun_sd", *mean(np.exp(points[:, 6])))
    agrees(fit, "sigma", *mean(np.exp(points[:, 7])))
    assert fit.posterior["log_ozone_unobserved"].sizes["log_ozone_missing"] == (~has_ozone).sum()
    rows = np.nonzero(~has_sun)[0]
    np.testing.assert_array_equal(fit.posterior["sun_missing"].values, rows)


@pytest.mark.slow(why="statistical")
def test_faithful_by_importance_sampling(fits):
    y = table("faithful")["waiting"].to_numpy()

    def log_density(p):
        share, low = special.expit(p[:, :1]), p[:, 1:2]
        high = low + np.exp(p[:, 2:3])
        sds = np.exp(p[:, 3:5])
        prior = stats.beta.logpdf(share, 2, 2) + np.log(share * (1 - share)) + p[:, 2:3]
        prior = prior + stats.norm.logpdf(low, 70, 20) + stats.norm.logpdf(high, 70, 20)
        prior = prior[:, 0] + (stats.invgamma.logpdf(sds, 3, scale=12) + p[:, 3:5]).sum(1)
        parts = np.log(share) + stats.norm.logpdf(y, low, sds[:, :1])
        rest = np.log1p(-share) + stats.norm.logpdf(y, high, sds[:, 1:])
        return prior + np.logaddexp(parts, rest).sum(1)

    points, mean = importance(log_density, np.array([-0.5, 55, np.log(25), np.log(6), np.log(6)]), draws=40_000)
    fit = fits("faithful")
    agrees(fit, "share", *mean(special.expit(points[:, 0])))
    agrees(fit, "mean[short]", *mean(points[:, 1]))
    agrees(fit, "mean[long]", *mean(points[:, 1] + np.exp(points[:, 2])))
    agrees(fit, "sd[short]", *mean(np.exp(points[:, 3])))
    agrees(fit, "sd[long]", *mean(np.exp(points[:, 4])))


@pytest.mark.slow(why="statistical")
def test_nile_by_the_kalman_filter(fits):
    """The levels integrated out exactly; the two scales and the start on a grid."""
    y = table("nile")["flow"].to_numpy(dtype=float)

    def log_evidence(walk, noise):
        """The start is N(1000, 300), and the level of the first year is one step from it."""
        mean, var, total = 1000.0, 300.0**2 + walk**2, 0.0
        for value in y:
            spread = var + noise**2
            total += stats.norm.logpdf(value, mean, np.sqrt(spread))
            gain = var / spread
            mean, var = mean + gain * (value - mean), (1 - gain) * var + walk**2
        return total

    grid = [(w, n) for w in np.linspace(1, 130, 60) for n in np.linspace(80, 175, 40)]
    log_post = np.array([log_evidence(w, n) - (w / 100) ** 2 / 2 - (n / 300) ** 2 / 2 for w, n in grid])
    weights = np.exp(log_post - log_post.max())
    weights /= weights.sum()
    fit = fits("nile")
    agrees(fit, "walk", weights @ np.array([w for w, _ in grid]))
    agrees(fit, "noise", weights @ np.array([n for _, n in grid]))
