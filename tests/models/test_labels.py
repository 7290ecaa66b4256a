"""The shipped models of labels that are summed out, each against densities and posteriors found without them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import special, stats

import bayeslab as bl
from tests.densities import Density
from tests.models.shipped import MODELS, table
from tests.models.test_models import importance


def simulated_ponds(seed: int = 1912) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What models/data/ponds.csv and pond_nights.csv hold."""
    rng = np.random.default_rng(seed)
    reeds = rng.random(60).round(2)
    frogs = rng.random(60) < special.expit(-1.5 + 3.5 * reeds)
    names, nights = [f"p{pond + 1:02d}" for pond in range(60)], []
    for pond in range(60):
        for night in range(1, 5):
            warmth = round(float(rng.normal(12, 3)), 1)
            chance = special.expit(-0.4 + 0.3 * (warmth - 12))
            nights.append((names[pond], night, warmth, int(frogs[pond] and rng.random() < chance)))
    columns = ["pond", "night", "warmth", "heard"]
    return pd.DataFrame({"pond": names, "reeds": reeds}), pd.DataFrame(nights, columns=columns)


def simulated_weeds(seed: int = 1968) -> pd.DataFrame:
    """What models/data/weeds.csv holds."""
    rng = np.random.default_rng(seed)
    out = []
    for field in range(12):
        vigour = rng.normal(0, 0.25)
        for _ in range(15):
            dose, resistant = round(float(rng.uniform(0, 4)), 2), rng.random() < 0.35
            log_mass = 3.0 + vigour + (-0.15 if resistant else -0.9) * dose + rng.normal(0, 0.3)
            out.append((f"field {field + 1:02d}", dose, round(float(log_mass), 3)))
    return pd.DataFrame(out, columns=["field", "dose", "log_mass"])


def test_simulated_tables_are_those_of_the_seeds():
    ponds, nights = simulated_ponds()
    pd.testing.assert_frame_equal(table("ponds"), ponds)
    pd.testing.assert_frame_equal(table("pond_nights"), nights)
    pd.testing.assert_frame_equal(table("weeds"), simulated_weeds())


def differs_by_a_constant(name: str, truth, count: int = 4, spread: float = 0.3) -> None:
    """The log density of a shipped model is that of a function of its parameters, but for a constant."""
    density = Density.of(bl.to_pymc(MODELS / f"{name}.yaml"))
    points = density.points(np.random.default_rng(1), count, spread)
    gaps = [density.at(point)[0] - truth(point) for point in points]
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-8 * max(1.0, max(abs(truth(point)) for point in points)))


# --------------------------------------------------------------------------------- anaesthetists


def ratings() -> np.ndarray:
    """How often each judge gave each patient each of four answers, (patients, judges, answers)."""
    rows = table("anaesthetists")
    counts = np.zeros((45, 5, 4))
    np.add.at(counts, (rows["patient"] - 1, rows["judge"].str[-1].astype(int) - 1, rows["fitness"] - 1), 1)
    return counts


def test_error_rates_of_anaesthetists_at_their_maximum():
    """Dawid and Skene (1979), table 3: shares .40, .42, .11 and .07 of the four classes, by EM from majorities."""
    counts = ratings()
    z = counts.sum(axis=1) / counts.sum(axis=(1, 2))[:, None]
    for _ in range(500):
        share = z.mean(axis=0)
        theta = np.einsum("pk,pja->jka", z, counts)
        theta /= theta.sum(axis=2, keepdims=True)
        logs = np.log(share) + special.xlogy(counts[:, :, None, :], theta[None]).sum(axis=(1, 3))
        z = special.softmax(logs, axis=1)
    np.testing.assert_allclose(share, [0.40, 0.42, 0.11, 0.07], atol=0.005)


def anaesthetists_log_density(point) -> float:
    counts, theta = ratings(), np.asarray(point["theta"])
    logs = np.log(point["share"]) + special.xlogy(counts[:, :, None, :], theta[None]).sum(axis=(1, 3))
    prior = 3 * np.log(np.diagonal(theta, axis1=1, axis2=2)).sum()
    return float(special.logsumexp(logs, axis=1).sum() + prior)


@pytest.mark.slow(why="compiles")
def test_density_of_anaesthetists():
    differs_by_a_constant("anaesthetists", anaesthetists_log_density)


@pytest.mark.slow(why="statistical")
def test_anaesthetists_by_a_gibbs_sampler_of_their_own(fits):
    """Classes given shares and error rates, and these, which are Dirichlet, given the classes."""
    counts, rng = ratings(), np.random.default_rng(3)
    prior, kept = 1 + 3 * np.eye(4), []
    z = counts.sum(axis=1).argmax(axis=1)
    for sweep in range(12_000):
        of_class = np.eye(4)[z]
        share = rng.dirichlet(1 + of_class.sum(axis=0))
        seen = np.einsum("pk,pja->jka", of_class, counts) + prior
        gammas = rng.gamma(seen)
        theta = gammas / gammas.sum(axis=2, keepdims=True)
        logs = np.log(share) + special.xlogy(counts[:, :, None, :], theta[None]).sum(axis=(1, 3))
        z = (special.softmax(logs, axis=1).cumsum(axis=1) < rng.random((45, 1))).sum(axis=1)
        if sweep >= 2_000:
            kept.append(np.concatenate([share, np.diagonal(theta, axis1=1, axis2=2).ravel()]))
    kept = np.array(kept)
    batches = kept.reshape(50, -1, kept.shape[1]).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(50)
    fit = fits("anaesthetists")
    rows = fit.summary(var_names=["share", "theta"])
    names = [f"share[{k}]" for k in range(1, 5)]
    names += [f"theta[judge {j}, {k}, {k}]" for j in range(1, 6) for k in range(1, 5)]
    gap = rows.loc[names, "mean"].to_numpy() - kept.mean(axis=0)
    assert np.all(np.abs(gap) < 4.5 * np.hypot(rows.loc[names, "mcse_mean"].to_numpy(), error))


# ---------------------------------------------------------------------------------------- cervix


CASES = ("a", "b", "infected")


def cervix_cells() -> list[tuple[int, float, int, int]]:
    """Cancer, herpes (NaN: not known), test, and how many women."""
    counts = table("cervix").groupby(["cancer", "herpes", "test"], dropna=False).size()
    return [(int(d), float(x), int(w), int(n)) for (d, x, w), n in counts.items()]


def cervix_log_likelihood(a, b, infected, positive):
    """``positive`` by herpes and cancer; everything may be arrays."""
    total = 0.0
    for cancer, herpes, test, count in cervix_cells():
        cell = 0.0
        for x in (0, 1) if np.isnan(herpes) else (int(herpes),):
            chance = special.expit(a + b * x)
            tested = positive[x][cancer]
            part = infected if x else 1 - infected
            cell = cell + part * (chance if cancer else 1 - chance) * (tested if test else 1 - tested)
        total = total + count * np.log(cell)
    return total


def test_women_of_the_cervix_study():
    """Carroll, Gail and Lubin (1993): 115 of 2,044 women had the accurate test, 39 of them cases; 732 cases in all."""
    women = table("cervix")
    assert len(women) == 2044
    assert women["herpes"].notna().sum() == 115
    assert women.loc[women["herpes"].notna(), "cancer"].sum() == 39
    assert women["cancer"].sum() == 732


@pytest.mark.slow(why="statistical")
def test_log_odds_of_herpes_by_importance_sampling(fits):
    """Seven parameters on an unbounded scale; Spiegelhalter et al. (1996) print 0.62 (0.36) for the log odds ratio."""

    def log_density(p):
        a, b, infected = p[:, 0], p[:, 1], special.expit(p[:, 2])
        logits = p[:, 3:].T.reshape(2, 2, -1)
        jacobian = sum(special.log_expit(v) + special.log_expit(-v) for v in (p[:, 2], *logits.reshape(4, -1)))
        prior = stats.norm.logpdf(a, 0, 10) + stats.norm.logpdf(b, 0, 10)
        return cervix_log_likelihood(a, b, infected, special.expit(logits)) + jacobian + prior

    points, mean = importance(log_density, np.array([-0.9, 0.6, 0.0, -0.8, -1.3, 0.3, 1.2]))
    rows = fits("cervix").summary()
    exact = {"a": points[:, 0], "b": points[:, 1], "infected": special.expit(points[:, 2])}
    exact["positive[infected, case]"] = special.expit(points[:, 6])
    for name, values in exact.items():
        centre, error = mean(values)
        assert abs(rows.loc[name, "mean"] - centre) < 4 * np.hypot(rows.loc[name, "mcse_mean"], error), name
    b = points[:, 1]
    centre = mean(b)[0]
    assert centre == pytest.approx(0.62, abs=0.01)
    assert np.sqrt(mean((b - centre) ** 2)[0]) == pytest.approx(0.36, abs=0.01)
    assert rows.loc["b", "sd"] == pytest.approx(0.36, abs=0.03)


# ----------------------------------------------------------------------------------------- ponds


@pytest.mark.slow(why="compiles")
def test_density_of_ponds():
    """A pond with frogs is heard of or not; one without is never heard of."""
    nights = table("pond_nights").merge(table("ponds"), on="pond")
    heard = nights["heard"].to_numpy()

    def truth(p):
        chance = special.expit(p["c"] + p["d"] * (nights["warmth"] - 12))
        cell = np.log(np.where(heard == 1, chance, 1 - chance))
        there = pd.Series(cell).groupby(nights["pond"]).sum().to_numpy()
        silent = pd.Series(heard).groupby(nights["pond"]).max().to_numpy() == 0
        lives = special.expit(p["a"] + p["b"] * table("ponds")["reeds"].to_numpy())
        total = np.log(lives * np.exp(there) + (1 - lives) * silent).sum()
        prior = stats.norm.logpdf([p["a"], p["b"], p["c"], p["d"]], 0, [1.5, 3, 1.5, 0.5]).sum()
        return float(total + prior)

    differs_by_a_constant("ponds", truth)


@pytest.mark.slow(why="statistical")
def test_frogs_are_found_again(fits):
    fit = fits("ponds")
    rows = fit.summary(var_names=["a", "b", "c", "d"])
    for name, value in {"a": -1.5, "b": 3.5, "c": -0.4, "d": 0.3}.items():
        assert abs(rows.loc[name, "mean"] - value) < 3 * rows.loc[name, "sd"], name
    heard = table("pond_nights").groupby("pond")["heard"].max()
    frogs = fit.posterior["frogs"].mean(("chain", "draw")).to_series()
    assert np.all(frogs[heard[heard == 1].index] == 1.0)
    assert 0.0 < frogs[heard[heard == 0].index].mean() < 0.5


# ----------------------------------------------------------------------------------------- weeds


@pytest.mark.slow(why="compiles")
def test_density_of_weeds_is_that_of_a_mixture_in_pymc():
    """``pm.NormalMixture`` of the two lines of each plant."""
    rows = table("weeds")
    names, field = np.unique(rows["field"], return_inverse=True)
    dose = rows["dose"].to_numpy()
    with pm.Model() as mixture:
        share = pm.Dirichlet("share", np.ones(2))
        base, slope = pm.Normal("base", 3, 1), pm.Normal("slope", 0, 1, shape=2)
        spread, sigma = pm.HalfNormal("spread", 0.5), pm.HalfNormal("sigma", 0.5)
        vigour = pm.Normal("vigour", 0, spread, shape=len(names))
        mu = (base + vigour[field])[:, None] + slope[None, :] * dose[:, None]
        pm.NormalMixture("log_mass", share, mu, sigma, observed=rows["log_mass"])
    theirs = Density.of(mixture)
    differs_by_a_constant("weeds", lambda point: theirs.at(point)[0])


@pytest.mark.slow(why="statistical")
def test_resistant_weeds_are_found_again(fits):
    rows = fits("weeds").summary(var_names=["share", "slope", "sigma"])
    truth = {"share[resistant]": 0.35, "slope[killed]": -0.9, "slope[resistant]": -0.15, "sigma": 0.3}
    for name, value in truth.items():
        assert abs(rows.loc[name, "mean"] - value) < 3 * rows.loc[name, "sd"], name


# ---------------------------------------------------------------------------------- absences_kinds

RATES = 1.5 ** np.arange(13)


def absences_log_density(point) -> float:
    """Shares of what is left are Beta(1, alpha); days are Poisson numbers of any of the rates."""
    rows, share, alpha, b = table("absences"), np.asarray(point["share"]), float(point["alpha"]), float(point["b"])
    left = 1 - np.concatenate([[0.0], np.cumsum(share)])[:12]
    prior = (stats.beta.logpdf(share[:12] / left, 1, alpha) - np.log(left)).sum()
    prior += stats.gamma.logpdf(alpha, 2) + stats.norm.logpdf(b, 0, 0.5)
    mean = RATES * np.exp(b * (rows["culture"] == "aboriginal").to_numpy())[:, None]
    logs = np.log(share) + stats.poisson.logpmf(rows["days"].to_numpy()[:, None], mean)
    return float(prior + special.logsumexp(logs, axis=1).sum())


@pytest.mark.slow(why="compiles")
def test_density_of_absences_kinds():
    differs_by_a_constant("absences_kinds", absences_log_density)


@pytest.mark.slow(why="statistical")
def test_absences_kinds_by_a_gibbs_sampler_of_their_own(fits):
    """Kinds given rates; breaks, which are beta, and alpha, which is gamma, given kinds; b on a grid."""
    rows, rng, kept = table("absences"), np.random.default_rng(8), []
    days, one = rows["days"].to_numpy(), (rows["culture"] == "aboriginal").to_numpy()
    grid, b, alpha, share = np.linspace(-1, 2, 601), 0.5, 2.0, np.full(13, 1 / 13)
    for sweep in range(42_000):
        mean = RATES * np.exp(b * one)[:, None]
        weight = share * np.exp(days[:, None] * np.log(mean) - mean - special.gammaln(days + 1.0)[:, None])
        weight = weight.cumsum(axis=1)
        z = (weight < weight[:, -1:] * rng.random((len(days), 1))).sum(axis=1)
        counts = np.bincount(z, minlength=13)
        v = rng.beta(1 + counts[:12], alpha + counts[::-1].cumsum()[::-1][1:])
        left = np.concatenate([[1.0], np.cumprod(1 - v)])
        share = np.append(v, 1.0) * left
        alpha = rng.gamma(2 + 12, 1 / (1 - np.log(left[-1])))
        logs = grid * days[one].sum() - np.exp(grid) * RATES[z[one]].sum() - 0.5 * (grid / 0.5) ** 2
        b = rng.choice(grid, p=special.softmax(logs))
        if sweep >= 2_000:
            kept.append([alpha, b, *share])
    kept = np.array(kept)
    error = kept.reshape(40, -1, kept.shape[1]).mean(axis=1).std(axis=0, ddof=1) / np.sqrt(40)
    found = fits("absences_kinds").summary(var_names=["alpha", "b", "share"])
    gap = found["mean"].to_numpy() - kept.mean(axis=0)
    assert np.all(np.abs(gap) < 4.5 * np.hypot(found["mcse_mean"].to_numpy(), error))
