"""The shipped models of hidden paths, each against what sums, grids or optimisers find that share no code with it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats

import bayeslab as bl
from tests.models.shipped import MODELS, table
from tests.models.test_labels import differs_by_a_constant

# Dippers released in a year (1981-1986), and how many of these were caught next in each of the years after.
RELEASED = (22, 60, 78, 80, 88, 98)
CAUGHT_NEXT = ((11, 2, 0, 0, 0, 0), (24, 1, 0, 0, 0), (34, 2, 0, 0), (45, 1, 2), (51, 0), (52,))
FLOODS = (1983, 1984)


def simulated_visits(seed: int = 1984) -> pd.DataFrame:
    """What models/data/feeders.csv holds."""
    rng = np.random.default_rng(seed)
    moves, level, out = np.array([[0.8, 0.2], [0.3, 0.7]]), np.log([0.2, 6.0]), []
    for bird in range(12):
        appetite, state = rng.normal(0, 0.3), int(rng.random() < 0.4)
        for hour in range(40):
            if hour:
                state = int(rng.random() < moves[state, 1])
            out.append((f"bird{bird + 1:02d}", hour + 1, rng.poisson(np.exp(level[state] + appetite))))
    return pd.DataFrame(out, columns=["bird", "hour", "visits"])


def simulated_cows(seed: int = 1871) -> pd.DataFrame:
    """What models/data/cows.csv holds."""
    rng = np.random.default_rng(seed)
    out = []
    for cow in range(14):
        rises, rests = special.expit(-2.2 + rng.normal(0, 0.8)), 0.15
        grazes = rng.random() < rises / (rises + rests)
        for slot in range(60):
            if slot:
                grazes = rng.random() < (1 - rests if grazes else rises)
            moves = rng.normal(2.5 if grazes else 0.5, 0.6 if grazes else 0.8)
            out.append((f"cow {cow + 1:02d}", slot + 1, round(float(moves), 2)))
    return pd.DataFrame(out, columns=["cow", "slot", "log_moves"])


def test_visits_and_cows_are_those_of_the_seed():
    pd.testing.assert_frame_equal(table("feeders"), simulated_visits())
    pd.testing.assert_frame_equal(table("cows"), simulated_cows())


def test_dippers_are_those_of_the_publication():
    """Its table counts releases by the year of the next catch; so do the birds' histories."""
    birds = table("dipper")
    caught = {bird: rows.loc[rows["seen"] == 1, "year"].tolist() for bird, rows in birds.groupby("bird")}
    ringed = birds.groupby("bird")["year"].min()
    counts = np.zeros((6, 7), int)
    for bird, years in caught.items():
        times = [ringed[bird], *years]
        for now, then in zip(times, [*times[1:], None], strict=True):
            if now < 1987:
                counts[now - 1981, 6 if then is None else then - 1982] += 1
    for i, (released, row) in enumerate(zip(RELEASED, CAUGHT_NEXT, strict=True)):
        assert counts[i].sum() == released
        assert counts[i, i:6].tolist() == list(row)
    assert set(birds.loc[birds["flood"] == "yes", "year"]) == set(FLOODS)


def dipper_log_likelihood(usual, flood, caught):
    """Of the table of releases and next catches; probabilities may be arrays."""
    total = 0.0
    survival = [flood if year in FLOODS else usual for year in range(1982, 1988)]
    for i, (released, row) in enumerate(zip(RELEASED, CAUGHT_NEXT, strict=True)):
        alive, never = 1.0, 1.0
        for j, count in enumerate(row):
            alive = alive * survival[i + j]
            chance = alive * caught
            total = total + special.xlogy(count, chance)
            never = never - chance
            alive = alive * (1 - caught)
        total = total + (released - sum(row)) * np.log(never)
    return total


def test_likelihood_of_dippers_at_the_published_estimates():
    """Lebreton et al. (1992): one survival, 0.560, and one chance of a catch, 0.903; deviance 666.84."""
    best = optimize.minimize(lambda x: -dipper_log_likelihood(x[0], x[0], x[1]), [0.5, 0.8], method="Nelder-Mead")
    np.testing.assert_allclose(best.x, [0.560, 0.903], atol=1e-3)
    assert 2 * best.fun == pytest.approx(666.84, abs=0.01)


@pytest.mark.slow(why="statistical")
def test_dippers_survive_a_flood_less_often(fits):
    """The three probabilities have flat priors: a grid on the unit cube."""
    grid = (np.arange(120) + 0.5) / 120
    usual, flood, caught = np.meshgrid(grid, grid, grid, indexing="ij")
    logs = dipper_log_likelihood(usual, flood, caught)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    rows = fits("dipper").summary(var_names=["survival", "caught"])
    for name, values in (("survival[no]", usual), ("survival[yes]", flood), ("caught", caught)):
        error = 4 * rows.loc[name, "mcse_mean"] + 1e-4
        assert abs(rows.loc[name, "mean"] - np.sum(weights * values)) < error, name


@pytest.mark.slow(why="statistical")
def test_eras_of_coal_mining_by_every_pair_of_ends(fits):
    """Rates and chances of leaving are conjugate given when eras end: a sum over all pairs."""
    y = table("coal")["disasters"].to_numpy()
    n, before = len(y), np.append(0, np.cumsum(y))

    def leaving(stays, left):
        """log of the integral of the chance that an era goes on so often, under Beta(1, 30)."""
        return special.betaln(1 + left, 30 + stays) - special.betaln(1, 30)

    def counts(a, b):
        """log marginal likelihood of the years a to b - 1 under Gamma(2, 1), and the posterior mean of their rate."""
        total, years = before[b] - before[a], b - a
        marginal = special.gammaln(2 + total) - (2 + total) * np.log(1 + years)
        return marginal, (2 + total) / (1 + years)

    logs, means = [], []
    for first in range(1, n + 1):
        for second in range(first + 1, n + 1) if first < n else (n,):
            eras = [counts(0, first), counts(first, second), counts(second, n)]
            prior = leaving(first - 1, first < n)
            if first < n:
                prior += leaving(second - first - 1, second < n)
            logs.append(prior + sum(era[0] for era in eras))
            means.append([era[1] for era in eras])
    weights = np.exp(np.array(logs) - max(logs))
    want = weights @ np.array(means) / weights.sum()
    rows = fits("coal_steps").summary(var_names=["rate"])
    assert np.all(np.abs(rows["mean"].to_numpy() - want) < 4.5 * rows["mcse_mean"].to_numpy())


@pytest.mark.slow(why="statistical")
def test_birds_at_the_feeder_are_found_again(fits):
    fit = fits("feeders")
    rows = fit.summary(var_names=["P", "level", "spread"])
    truth = {"P[away, near]": 0.2, "P[near, near]": 0.7, "level[away]": np.log(0.2), "level[near]": np.log(6.0)}
    for name, value in (truth | {"spread": 0.3}).items():
        assert abs(rows.loc[name, "mean"] - value) < 3.5 * rows.loc[name, "sd"], name
    states = fit.decode(sequence="bird03")
    assert states["obs_id"].tolist() == list(range(80, 120))
    visits = table("feeders")["visits"].to_numpy()[80:120]
    near, away = (visits[(states["state"] == word).to_numpy()] for word in ("near", "away"))
    assert near.mean() > 3 * away.mean()


@pytest.mark.slow(why="compiles")
def test_the_mode_of_regimes_and_a_trend():
    """The log posterior written with a forward pass here, climbed by a general optimiser from where ours ends."""
    y = table("coal")["disasters"].to_numpy()
    decade = (np.arange(len(y)) - 55) / 10

    def falls(p):
        rate, b, stay = np.exp([p[0], p[1]]), p[2], special.expit(p[3:5])
        moves = np.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]])
        alpha = np.array([moves[1, 0], moves[0, 1]]) / (moves[1, 0] + moves[0, 1])
        total = stats.gamma.logpdf(rate, 4, scale=1 / 2).sum() + stats.norm.logpdf(b, 0, 0.2)
        for t, count in enumerate(y):
            alpha = (alpha if t == 0 else alpha @ moves) * stats.poisson.pmf(count, rate * np.exp(b * decade[t]))
            total += np.log(alpha.sum())
            alpha = alpha / alpha.sum()
        return -total

    fit = bl.fit(MODELS / "coal_trend.yaml", method="map", runs=None, progress=False)
    at = {name: fit.posterior[name].to_numpy()[0, 0] for name in ("rate", "b", "P")}
    stay = np.clip(np.diag(at["P"]), 1e-6, 1 - 1e-6)
    start = np.array([*np.log(at["rate"]), float(at["b"]), *special.logit(stay)])
    best = optimize.minimize(falls, start, method="BFGS")
    assert falls(start) - best.fun < 1e-3


# ------------------------------------------------------------------------------------------- gnp


def hamilton(growth, moves, mu, phi, sigma) -> float:
    """Log likelihood given the first four quarters, by the filter over the states of five quarters in a row."""
    tuples = np.array(np.meshgrid(*[[0, 1]] * 5, indexing="ij")).reshape(5, -1).T  # this quarter, and four back
    share = np.array([moves[1, 0], moves[0, 1]]) / (moves[0, 1] + moves[1, 0])
    alpha = share[tuples[:, 4]]
    for k in (3, 2, 1, 0):
        alpha = alpha * moves[tuples[:, k + 1], tuples[:, k]]
    total = 0.0
    for t in range(4, len(growth)):
        if t > 4:
            before = np.zeros((2,) * 5)
            np.add.at(before, tuple(tuples.T), alpha)
            before = before.sum(axis=4)
            alpha = before[tuple(tuples[:, 1:].T)] * moves[tuples[:, 1], tuples[:, 0]]
        gaps = growth[t - 1 - np.arange(4)] - mu[tuples[:, 1:]]
        alpha = alpha * stats.norm.pdf(growth[t], mu[tuples[:, 0]] + gaps @ phi, sigma)
        total += np.log(alpha.sum())
        alpha = alpha / alpha.sum()
    return float(total)


def test_likelihood_of_business_cycles_at_the_published_estimates():
    """Hamilton (1989), table I; others find -181.263 there."""
    moves = np.array([[0.754673, 1 - 0.754673], [0.095915, 1 - 0.095915]])
    phi = np.array([0.013486, -0.057521, -0.246983, -0.212923])
    mu = np.array([-0.358811, 1.163516])
    found = hamilton(table("gnp")["growth"].to_numpy(), moves, mu, phi, np.exp(-0.262658))
    assert found == pytest.approx(-181.26339, abs=2e-4)


@pytest.mark.slow(why="compiles")
def test_density_of_business_cycles():
    growth = table("gnp")["growth"].to_numpy()

    def truth(p):
        moves, mu, phi = np.asarray(p["P"]), np.asarray(p["mu"]), np.asarray(p["phi"])
        prior = (np.array([[2.0, 0.0], [0.0, 8.0]]) * np.log(moves)).sum()
        prior += stats.norm.logpdf(mu, [-0.5, 1], 0.5).sum() + stats.norm.logpdf(phi, 0, 0.5).sum()
        return hamilton(growth, moves, mu, phi, float(p["sigma"])) + prior + stats.halfnorm.logpdf(p["sigma"])

    differs_by_a_constant("gnp", truth)


@pytest.mark.slow(why="statistical")
def test_quarters_of_recessions(fits):
    """The probabilities fall into the recessions that the National Bureau of Economic Research dates."""
    fit = fits("gnp")
    boom = fit.posterior["z"].mean(("chain", "draw")).to_series()
    for quarter in ("1957Q4", "1958Q1", "1974Q4", "1975Q1", "1981Q4", "1982Q1"):
        assert boom[quarter] < 0.35, quarter
    for quarter in ("1955Q1", "1963Q3", "1965Q2", "1972Q2", "1983Q3"):
        assert boom[quarter] > 0.85, quarter


# ----------------------------------------------------------------------------------------- polio


@pytest.mark.slow(why="compiles")
def test_density_of_outbreaks_that_depend_on_the_season():
    """A forward pass with the transitions of each month."""
    cases, turn = table("polio")["cases"].to_numpy(), 2 * np.pi * np.arange(168) / 12

    def truth(p):
        begins = special.expit(p["a"] + p["b"][0] * np.cos(turn) + p["b"][1] * np.sin(turn))
        ends, alpha, total = float(p["ends"]), np.array([1.0, 0.0]), 0.0
        for t, count in enumerate(cases):
            if t:
                alpha = alpha @ np.array([[1 - begins[t], begins[t]], [ends, 1 - ends]])
            alpha = alpha * stats.poisson.pmf(count, p["rate"])
            total += np.log(alpha.sum())
            alpha = alpha / alpha.sum()
        prior = stats.gamma.logpdf(p["rate"], 2, scale=2).sum() + stats.norm.logpdf(p["a"], -2)
        return total + prior + stats.norm.logpdf(p["b"]).sum()

    differs_by_a_constant("polio", truth)


# ------------------------------------------------------------------------------------------ cows


@pytest.mark.slow(why="compiles")
def test_density_of_cows_that_differ():
    """A forward pass for each cow, with its own chance to rise."""
    rows = [cow["log_moves"].to_numpy() for _, cow in table("cows").groupby("cow")]

    def truth(p):
        rests, total = float(p["rests"]), 0.0
        for moves, rises in zip(rows, special.expit(p["restless"] + p["spread"] * p["habit"]), strict=True):
            steps, alpha = np.array([[1 - rises, rises], [rests, 1 - rests]]), np.array([0.5, 0.5])
            for t, value in enumerate(moves):
                alpha = (alpha @ steps if t else alpha) * stats.norm.pdf(value, p["level"], p["sigma"])
                total += np.log(alpha.sum())
                alpha = alpha / alpha.sum()
        total += stats.norm.logpdf(p["level"], 1, 2).sum() + stats.halfnorm.logpdf(p["sigma"]).sum()
        total += stats.norm.logpdf(p["restless"], -2) + stats.halfnorm.logpdf(p["spread"])
        return total + stats.norm.logpdf(p["habit"]).sum() + stats.beta.logpdf(rests, 1, 3)

    differs_by_a_constant("cows", truth)


@pytest.mark.slow(why="statistical")
def test_cows_are_found_again(fits):
    rows = fits("cows").summary()
    truth = {"restless": -2.2, "spread": 0.8, "rests": 0.15, "level[resting]": 0.5, "level[grazing]": 2.5}
    for name, value in (truth | {"sigma[resting]": 0.8, "sigma[grazing]": 0.6}).items():
        assert abs(rows.loc[name, "mean"] - value) < 3 * rows.loc[name, "sd"], name
