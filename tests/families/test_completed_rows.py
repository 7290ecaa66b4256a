"""Open cells of rows, predicted from the rest of their row: processes by enumeration; levels as the data have them."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp, multigammaln

import bayeslab as bl
from tests.refusals import refused

X = np.array([0.1, 0.3, 2.0, 2.4, 2.2])
Y = np.array([0.0, 0.4, -1.0, -1.5, -1.2])
CENTRE, KAPPA, NU, PSI = np.array([1.0, 0.0]), 0.5, 7.0, 0.6 * np.eye(2)


def _fit(model, data, **options):
    return bl.fit(bl.Model(name="rows", data={"rows": "row"}, model=model), data, seed=1, runs=None, **options)


def _partitions(n):
    for z in itertools.product(range(n), repeat=n):
        if all(label <= max(z[:i], default=-1) + 1 for i, label in enumerate(z)):
            yield np.array(z)


def _updated(rows):
    n = len(rows)
    mean = rows.mean(axis=0) if n else CENTRE
    scatter = (rows - mean).T @ (rows - mean)
    apart = np.outer(mean - CENTRE, mean - CENTRE)
    return KAPPA + n, (KAPPA * CENTRE + n * mean) / (KAPPA + n), NU + n, PSI + scatter + KAPPA * n / (KAPPA + n) * apart


def _evidence(rows):
    kappa, _, nu, psi = _updated(rows)
    half = 0.5 * NU * np.linalg.slogdet(PSI)[1] - 0.5 * nu * np.linalg.slogdet(psi)[1]
    gammas = multigammaln(nu / 2, 2) - multigammaln(NU / 2, 2)
    return -len(rows) * math.log(math.pi) + gammas + half + math.log(KAPPA / kappa)


def _exact(x, alpha, sigma):
    """Mean and sd of y given x: over all partitions, in each cluster a conditional Student's t."""
    rows, logs, means, squares = np.column_stack([X, Y]), [], [], []
    n = len(rows)
    for z in _partitions(n):
        t, sizes = z.max() + 1, np.bincount(z)
        log_p = sum(math.log(alpha + sigma * c) for c in range(t)) - sum(math.log(alpha + i) for i in range(n))
        log_p += sum(gammaln(size - sigma) - gammaln(1 - sigma) for size in sizes)
        logs.append(log_p + sum(_evidence(rows[z == c]) for c in range(t)))
        each = []
        for c in range(t + 1):
            kappa, centre, nu, psi = _updated(rows[z == c])
            dof = nu - 1
            scale = psi * (kappa + 1) / (kappa * dof)
            share = sizes[c] - sigma if c < t else alpha + sigma * t
            weight = share * stats.t.pdf(x, dof, centre[0], math.sqrt(scale[0, 0]))
            slope = scale[0, 1] / scale[0, 0]
            left = scale[1, 1] - slope * scale[0, 1]
            spread = left * (dof + (x - centre[0]) ** 2 / scale[0, 0]) / (dof - 1)
            mean = centre[1] + slope * (x - centre[0])
            each.append((weight, mean, spread + mean**2))
        weight, mean, square = np.array(each).T
        means.append(weight @ mean / weight.sum())
        squares.append(weight @ square / weight.sum())
    p = np.exp(np.array(logs) - logsumexp(logs))
    return p @ means, math.sqrt(p @ squares - (p @ means) ** 2)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_a_process_predicts_open_cells_given_the_others(sigma):
    model = {
        "family": "mixture", "columns": ["x", "y"], "components": "dirichlet_process", "concentration": 0.9,
        "discount": sigma, "priors": {"components": {"mean": [1.0, 0.0], "rows": KAPPA, "dof": NU, "scale": PSI.tolist()}},
    }  # fmt: skip
    fit = _fit(model, {"x": X, "y": Y}, draws=1500, tune=300)
    made = fit.predict({"x": [0.0, 2.2, 4.0], "y": [np.nan] * 3})
    for k, x in enumerate([0.0, 2.2, 4.0]):
        mean, sd = _exact(x, 0.9, sigma)
        # Partitions are correlated from draw to draw: a quarter of the draws at least are independent.
        assert made["mean"][k] == pytest.approx(mean, abs=5 * sd / math.sqrt(1500))
        assert made["sd"][k] == pytest.approx(sd, rel=0.08)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("given", [{"covariance": "diagonal"}, {"covariance": "known", "known": [[0.1, 0], [0, 0.1]]}])
def test_cells_that_are_given_choose_the_cluster(given):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(0, 0.3, 20), rng.normal(9, 0.3, 20)])
    y = np.concatenate([rng.normal(-4, 0.3, 20), rng.normal(4, 0.3, 20)])
    model = {"family": "mixture", "columns": ["x", "y"], "components": "dirichlet_process", **given}
    made = _fit(model, {"x": x, "y": y}, draws=100, tune=100).predict({"x": [0.0, 9.0], "y": [np.nan, np.nan]})
    assert made["mean"].to_numpy() == pytest.approx([-4, 4], abs=0.4)
    assert (made["sd"] < 1.5).all()


@pytest.fixture(scope="module")
def kinds():
    """Two groups: x about 0 or 9; a whole number of 3, 5 or of 7, 9; a word."""
    rng = np.random.default_rng(2)
    z = np.arange(120) % 2
    return {
        "x": np.where(z, rng.normal(9, 1, 120), rng.normal(0, 1, 120)),
        "size": np.where(z, rng.choice([7, 9], 120), rng.choice([3, 5], 120)),
        "word": np.where(z, "low", "high"),
    }


MIXED = {"x": "gaussian", "size": "categorical", "word": "categorical"}


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(("method", "options"), [("em", {}), ("gibbs", {"draws": 250, "tune": 100})])
def test_levels_that_are_numbers_are_predicted_as_these(kinds, method, options):
    model = {"family": "mixture", "columns": list(MIXED), "components": 2, "component": MIXED, "covariance": "diagonal"}
    fit = _fit(model, kinds, method=method, **options)
    made = fit.predict({"x": [0.0, 9.0], "size": [None, None], "word": ["high", None]}).set_index(["node", "row"])
    for row, (a, b) in enumerate([(3, 5), (7, 9)]):
        own = kinds["size"][(kinds["word"] == "low") == bool(row)]
        assert made["mean"]["size", row] == pytest.approx(own.mean(), abs=0.25)
        assert a <= made["eti89_lb"]["size", row] <= made["eti89_ub"]["size", row] <= b


def test_words_are_predicted_by_the_most_probable_one(kinds):
    model = {"family": "mixture", "columns": list(MIXED), "components": 2, "component": MIXED, "covariance": "diagonal"}
    made = _fit(model, kinds, method="em").predict({"x": [0.0, 9.0], "size": [3, 9], "word": [None, None]})
    assert made["most_probable"].tolist() == ["high", "low"]
    assert (made["probability"] > 0.9).all()
    assert made["mean"].isna().all()


def test_states_emit_levels_as_the_data_have_them(kinds):
    order = np.argsort(kinds["x"])
    data = {"x": kinds["x"][order], "size": kinds["size"][order]}
    model = {
        "family": "hmm",
        "columns": ["x", "size"],
        "states": 2,
        "emission": {"x": "gaussian", "size": "categorical"},
    }
    made = _fit(model, data, method="em").predict({"x": [0.0, 9.0], "size": [3, 9]}).set_index(["node", "row"])
    assert 3 <= made["mean"]["size", 0] <= 5
    assert 7 <= made["mean"]["size", 1] <= 9
    simulated = bl.simulate(bl.Model(name="rows", data={"rows": "row"}, model=model), data, draws=2, seed=1)
    assert set(np.unique(simulated["prior_predictive"]["size"])) <= {3, 5, 7, 9}


@pytest.mark.parametrize("family", ["mixture", "hmm", "latent_features"])
def test_rows_may_be_called_row(kinds, family):
    words = {"mixture": {"components": 2}, "hmm": {"states": 2, "emission": "gaussian"}, "latent_features": {
        "kind": "gaussian", "features": 1, "noise": "shared"}}  # fmt: skip
    data = {"x": kinds["x"], "y": kinds["x"] + np.sin(np.arange(120)), "u": np.cos(np.arange(120))}
    fit = _fit({"family": family, "columns": list(data), **words[family]}, data, method="em")
    terms = fit.log_likelihood()
    assert all(np.isfinite(each).all() for each in terms.data_vars.values())


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("given", [["N"], ["x"]])
def test_rows_of_which_only_the_trials_or_the_inputs_of_the_weights_are_known(given):
    """Means of whole new rows of a mixture, by the fitted weights and probabilities."""
    rng = np.random.default_rng(2)
    n, x = rng.integers(3, 15, 120), rng.normal(size=120)
    k = rng.binomial(n, np.where(rng.random(120) < 1 / (1 + np.exp(-2 * x)), 0.7, 0.2))
    more = {"gating": ["x"]} if given == ["x"] else {}
    spec = {"family": "mixture", "columns": ["k"], "components": 2, "component": "binomial", **more}
    trials = "N" if given == ["N"] else 20
    frame = pd.DataFrame({"k": k, "N": n, "x": x})
    fit = bl.fit(bl.Model(model=spec | {"trials": trials}), frame, "em", runs=None, progress=False)
    new = pd.DataFrame({"N": [5, 10], "x": [-2.0, 2.0]})[given]
    found = {name: fit.posterior[name].to_numpy()[0, 0] for name in fit.posterior}
    if given == ["N"]:
        weights = np.tile(found["weights"], (2, 1))
    else:
        gate = np.stack([np.ones(2), (new["x"] - x.mean()) / x.std()]).T @ found["gate"].T
        weights = np.exp(gate) / np.exp(gate).sum(axis=1, keepdims=True)
    mean = weights @ found["probability"].ravel() * (new["N"].to_numpy() if given == ["N"] else 20)
    table = fit.predict(new)
    np.testing.assert_allclose(table["mean"], mean, atol=5 * table["sd"].max() / np.sqrt(1000))


@pytest.mark.slow(why="statistical")
def test_open_cells_of_rows_under_factors_are_normal_given_the_others():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(80, 2)) @ rng.normal(size=(2, 5)) + 0.5 * rng.normal(size=(80, 5)))
    frame.columns = list("abcde")
    model = {"family": "latent_features", "kind": "gaussian", "columns": list("abcde"), "features": 2, "noise": "own"}
    fit = bl.fit(bl.Model(model=model), frame, "em", runs=None, progress=False)
    found = {name: fit.posterior[name].to_numpy()[0, 0] for name in ("loading", "mean", "noise")}
    whole = found["loading"] @ found["loading"].T + np.diag(found["noise"] ** 2)
    new = pd.DataFrame({"a": [1.0, -1.0], "b": [np.nan, 2.0], "c": [0.5, np.nan], "e": [0.0, 1.0]})
    table = fit.predict(new).set_index(["node", "obs_id"])
    assert set(table.index.get_level_values("node")) == {"b", "c", "d"}
    for row, there in ((0, [0, 2, 4]), (1, [0, 1, 4])):
        given = new.iloc[row, [new.columns.get_loc("abcde"[j]) for j in there]].to_numpy()
        for j in set(range(5)) - set(there):
            weight = np.linalg.solve(whole[np.ix_(there, there)], whole[there, j])
            mean = found["mean"][j] + weight @ (given - found["mean"][there])
            sd = np.sqrt(whole[j, j] - weight @ whole[there, j])
            said = table.loc[("abcde"[j], row)]
            assert said["mean"] == pytest.approx(mean, abs=5 * sd / np.sqrt(1000))
            assert said["sd"] == pytest.approx(sd, rel=0.15)
    # What is given stays, where another row leaves the column open.
    assert table.loc[("b", 1), "mean"] == 2.0
    assert table.loc[("b", 1), "sd"] == 0


def test_open_cells_of_rows_under_binary_features_are_those_of_all_patterns():
    rng = np.random.default_rng(5)
    z = rng.random((60, 2)) < 0.5
    frame = pd.DataFrame(z @ np.array([[2.0, 0.0, 1.0], [0.0, 2.0, -1.0]]) + 0.3 * rng.normal(size=(60, 3)))
    frame.columns = list("abc")
    model = {"family": "latent_features", "kind": "binary", "columns": list("abc"), "features": 2}
    fit = bl.fit(bl.Model(model=model), frame, "em", prior="ignore", runs=None, progress=False)
    found = {name: np.asarray(fit.posterior[name].to_numpy()[0, 0]) for name in fit.posterior}
    loading, noise, chance = found["loading"], float(found["noise"]), found["probability"]
    new = pd.DataFrame({"a": [1.0, 0.1], "b": [1.1, np.nan]})
    patterns = np.array(list(itertools.product((0, 1), repeat=2)))
    for row, there in ((0, [0, 1]), (1, [0])):
        log_p = stats.bernoulli.logpmf(patterns, chance).sum(axis=1)
        log_p += stats.norm.logpdf(new.iloc[row, there].to_numpy(), (patterns @ loading.T)[:, there], noise).sum(axis=1)
        mean = np.exp(log_p - logsumexp(log_p)) @ (patterns @ loading.T)[:, 2]
        table = fit.predict(new).set_index(["node", "obs_id"])
        said = table.loc[("c", row)]
        assert said["mean"] == pytest.approx(mean, abs=5 * said["sd"] / np.sqrt(1000))


@pytest.mark.slow(why="statistical")
def test_rows_of_a_buffet_that_are_open_in_part_are_refused():
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(rng.normal(size=(20, 3)) + 3 * (rng.random((20, 1)) < 0.5), columns=list("abc"))
    model = {"family": "latent_features", "kind": "binary", "columns": list("abc"), "features": "ibp"}
    fit = bl.fit(bl.Model(model=model), frame, "gibbs", runs=None, progress=False, draws=50, tune=50)
    with refused("option.not-applicable", "buffet"):
        fit.predict(pd.DataFrame({"a": [1.0], "b": [np.nan], "c": [0.0]}))


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("emission", [{"covariance": "full"}, {"covariance": "tied"}, {"emission": "gaussian_mixture"}])
def test_open_cells_of_chains_are_given_the_rest_of_their_row(emission):
    """Sequences of one row: the state by its initial probability and the cell that is there, the other cell given both."""
    rng = np.random.default_rng(8)
    state = np.cumsum(rng.random(300) < 0.1) % 2
    rows = rng.multivariate_normal([0, 0], [[1.0, 0.8], [0.8, 1.0]], 300) + np.where(
        state[:, None] == 1, [3, -1], [0, 0]
    )
    frame = pd.DataFrame(rows, columns=["u", "v"]).assign(run=np.arange(300) // 10)
    mixed = "emission" in emission
    model = {"family": "hmm", "columns": ["u", "v"], "states": 2, "sequence": "run", "emission": "gaussian", **emission}
    fit = bl.fit(
        bl.Model(model=model | ({"mixtures": 2} if mixed else {})), frame, "em", runs=None, progress=False, restarts=3
    )
    found = {name: fit.posterior[name].to_numpy()[0, 0] for name in fit.posterior}
    new = pd.DataFrame({"u": [0.0, 3.5, 1.5], "v": [np.nan] * 3, "run": [1, 2, 3]})
    table = fit.predict(new)
    for row, u in enumerate(new["u"]):
        if mixed:
            weight = found["initial"][:, None] * found["weight"]
            weight = weight * stats.norm.pdf(u, found["mean"][..., 0], found["sd"][..., 0])
            mean = (weight * found["mean"][..., 1]).sum() / weight.sum()
        else:
            matrices = np.broadcast_to(found["covariance"], (2, 2, 2))
            weight = found["initial"] * stats.norm.pdf(u, found["mean"][:, 0], np.sqrt(matrices[:, 0, 0]))
            each = found["mean"][:, 1] + matrices[:, 0, 1] / matrices[:, 0, 0] * (u - found["mean"][:, 0])
            mean = weight @ each / weight.sum()
        assert table["mean"][row] == pytest.approx(mean, abs=5 * table["sd"][row] / np.sqrt(1000))
    # A complete row is replicated: its cells tell the state, a new row is drawn from it.
    full = [2.0, 1.0]
    replicated = fit.predict(pd.DataFrame({"u": [0.0, full[0]], "v": [np.nan, full[1]], "run": [1, 2]}))
    if mixed:
        density = stats.norm.pdf(full, found["mean"], found["sd"]).prod(axis=-1)
        chance = found["initial"] * (found["weight"] * density).sum(axis=-1)
        means = (found["weight"] * found["mean"][..., 1]).sum(axis=-1)
    else:
        chance = found["initial"] * [
            stats.multivariate_normal.pdf(full, m, c) for m, c in zip(found["mean"], matrices, strict=True)
        ]
        means = found["mean"][:, 1]
    said = replicated[(replicated["node"] == "v") & (replicated["obs_id"] == 1)].iloc[0]
    assert said["mean"] == pytest.approx(chance @ means / chance.sum(), abs=5 * said["sd"] / np.sqrt(1000))
