"""Mixtures of a Dirichlet process as a family: engines agree, runs go on exactly, rows come later, errors are told."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayeslab as bl
from bayeslab.distributions.emissions import gaussian
from bayeslab.errors import ModelError
from bayeslab.latents.labels.clusters import adjusted_rand_index
from bayeslab.latents.partitions.dirichlet_process import ProcessPrior, log_partition_probability
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.mixtures.variational import climb
from bayeslab.posterior.mixtures.variational_process import StickFactor
from tests.latents._enumeration import partitions
from tests.refusals import refused

PRIORS = {"components": {"mean": 0.0, "rows": 0.2, "dof": 4.0, "scale": 2.0}}
VALUES = np.array([-2.1, -1.8, -2.4, 2.0, 2.3, 1.9, 2.2, 0.1])


def model_of(columns=("x",), **spec):
    own = {"family": "mixture", "columns": list(columns), "components": "dirichlet_process", **spec}
    return bl.Model(name="dp", model=own, seed=1)


def fitted(model, data, method=None, **options):
    given = {"draws": 400, "tune": 100, "chains": 2, "runs": None, "progress": False}
    return bl.fit(model, data, method, **(given | options))


@pytest.fixture(scope="module")
def enumerated():
    """Evidence, number of clusters and predictive densities at some places, over all partitions of eight rows."""
    emission = gaussian(1, "diagonal").with_prior(VALUES[:, None], 1)
    prior = type(emission.prior)(np.zeros(1), 0.2, 4.0, np.full(1, 2.0))
    emission = type(emission)(1, "diagonal", prior)
    at, logs, counts, densities = np.array([-2.0, 0.0, 2.1, 6.0]), [], [], []

    def evidence(rows, z):
        member = np.eye(z.max() + 1)[z]
        return float(emission.log_marginal(emission.statistics(rows, member)).sum() + emission.log_base(rows).sum())

    held = {}

    def cluster(rows):
        key = tuple(rows)
        if key not in held:
            held[key] = evidence(np.array(key)[:, None], np.zeros(len(key), int)) if key else 0.0
        return held[key]

    for z in partitions(8):
        groups = [tuple(VALUES[z == c]) for c in range(z.max() + 1)]
        sizes = np.array([len(g) for g in groups])
        logs.append(sum(map(cluster, groups)) + log_partition_probability(sizes, 1.0))
        counts.append(len(groups))
        parts = [
            [np.log(n / 9) + cluster((*g, x)) - cluster(g) for g, n in zip([*groups, ()], [*sizes, 1.0], strict=True)]
            for x in at
        ]
        densities.append(logsumexp(parts, axis=1))
    p = np.exp(np.array(logs) - logsumexp(logs))
    number = np.bincount(counts, p, minlength=9)
    return emission, float(logsumexp(logs)), number, at, p @ np.exp(densities)


@pytest.mark.slow(why="statistical")
def test_gibbs_is_chosen_and_equals_enumeration(enumerated):
    """Number of clusters and predictive density of new rows; `auto` says why."""
    _, _, number, at, density = enumerated
    fit = fitted(model_of(concentration=1, priors=PRIORS), {"x": VALUES}, draws=2500)
    assert fit.method == "gibbs" and "nothing truncated" in fit.reason
    assert fit.verdict.status == "pass", str(fit.verdict)
    found = fit.data_tree["number"]["probability"].to_numpy()
    assert np.max(np.abs(found - number[1 : len(found) + 1])) < 0.03
    told = fit.density({"x": at})
    np.testing.assert_allclose(np.exp(told["log_density"]), density, rtol=0.04)
    assert (told["eti89_lb"] <= np.exp(told["log_density"])).all()
    p = fit.predict({"x": np.array([2.1, 40.0])}, "probabilities")
    assert p.filter(like="P(").sum(axis=1).to_numpy() == pytest.approx(1)
    assert p["P(new)"][1] > 0.5 > p["P(new)"][0]


@pytest.mark.slow(why="compiles")
def test_nuts_on_the_broken_stick_equals_gibbs_and_enumeration(enumerated):
    """The same predictive density and number of clusters; the truncation is reported, components are not judged."""
    _, _, number, at, density = enumerated
    model = model_of(concentration=1, priors=PRIORS, most=12)
    fit = fitted(model, {"x": VALUES}, "nuts", draws=1500, tune=1000, target_accept=0.9)
    assert "weights" not in fit.posterior and "weights" in fit.data_tree["components"]
    assert any(f.check == "truncation" for f in fit.verdict.findings)
    drawn = fit.posterior["n_clusters"].to_numpy()
    ess = 0.05 * drawn.size
    expected = number @ np.arange(9)
    assert abs(drawn.mean() - expected) < 4 * drawn.std() / np.sqrt(ess)
    told = fit.density({"x": at})
    mcse = (told["eti89_ub"] - told["eti89_lb"]) / 3.2 / np.sqrt(ess)
    assert (abs(np.exp(told["log_density"]) - density) < 4 * mcse).all() and (mcse < 0.15 * density).all()
    assert fit.posterior["remainder"].to_numpy().mean() < 0.01
    assert set(fit.clusters()) >= {"partition", "together"}


@pytest.mark.slow(why="statistical")
def test_a_row_left_out_equals_enumeration(enumerated):
    """By importance weights of the partitions of all rows, and by a fit without it, which has no graph to change."""
    from bayeslab.results.compare import held_out, loo

    emission, evidence, *_ = enumerated
    held: dict[tuple[float, ...], float] = {}

    def cluster(values):
        if values not in held:
            rows = np.array(values)[:, None]
            member = np.ones((len(values), 1))
            held[values] = float(emission.log_marginal(emission.statistics(rows, member))[0])
            held[values] += float(emission.log_base(rows).sum())
        return held[values]

    def without(n):
        rest, logs = np.delete(VALUES, n), []
        for z in partitions(7):
            groups = [tuple(rest[z == c]) for c in range(z.max() + 1)]
            sizes = np.array([len(g) for g in groups])
            logs.append(sum(map(cluster, groups)) + log_partition_probability(sizes, 1.0))
        return float(logsumexp(logs))

    fit = fitted(model_of(concentration=1, priors=PRIORS), {"x": VALUES}, draws=2000)
    found = loo(fit)
    for n in (0, 7):
        want = evidence - without(n)
        assert found.elpd[n] == pytest.approx(want, abs=0.03)
        refitted = held_out(fit, "row", n)
        assert refitted is not None
        assert refitted == pytest.approx(want, abs=0.03)


@pytest.mark.slow(why="statistical")
def test_the_variational_bound_is_below_the_evidence(enumerated):
    """With α known; it never falls, and α's own factor and empirical Bayes only raise what they should."""
    emission, evidence, _, _, _ = enumerated
    problem = MixtureProblem.of(emission, VALUES[:, None], 6)
    begin = np.eye(6)[[0, 0, 0, 1, 1, 1, 1, 2]]
    ends = {}
    for word, prior in {
        "known": ProcessPrior(1.0),
        "gamma": ProcessPrior((1.0, 1.0)),
        "best": ProcessPrior("empirical_bayes"),
        "discount": ProcessPrior(0.5, 0.3),
    }.items():
        fit = climb(problem, begin, StickFactor.of(prior, problem.n_components), tolerance=1e-10)
        assert fit.converged and np.diff(fit.trace).min() > -1e-9
        ratios = np.array([fit.log_ratio(fit.draw(np.random.default_rng(i))) for i in range(400)])
        # E_q log p(rows, θ) / q(θ), the labels summed out, is between the bound and the log evidence.
        assert ratios.mean() > fit.trace[-1] - 4 * ratios.std() / 20
        ends[word] = (fit.trace[-1], float(logsumexp(ratios) - np.log(400)))
    # Draws are near one of several modes, so that importance sampling finds part of the evidence.
    assert ends["known"][0] < evidence and evidence - 3 < ends["known"][1] < evidence + 0.5
    assert ends["best"][0] >= ends["known"][0]


@pytest.mark.slow(why="statistical")
def test_engines_by_name():
    """Variational fits of the family, empirical Bayes, a discount, mixed columns and gaps."""
    rng = np.random.default_rng(2)
    z = rng.integers(0, 3, 60)
    data = {
        "x": np.array([-8.0, 0.0, 8.0])[z] + rng.normal(size=60),
        "n": rng.poisson(np.array([1, 8, 30])[z]),
        "c": np.array(["a", "b", "c"])[(z + (rng.random(60) < 0.1)) % 3],
    }
    kinds = {"x": "gaussian", "n": "poisson", "c": "categorical"}
    mixed = fitted(model_of(("x", "n", "c"), component=kinds, concentration="empirical_bayes"), data, draws=150)
    assert adjusted_rand_index(mixed.clusters()["partition"].to_numpy(), z) == 1
    assert any(f.check == "concentration" for f in mixed.verdict.findings) and "alpha" not in mixed.posterior
    drawn = mixed.predict(None, "draws")
    assert drawn["n"].dtype.kind == "i"
    # Draws of new clusters have heavy tails: their standard deviation tells nothing.
    np.testing.assert_allclose(np.quantile(drawn["x"], [0.1, 0.9]), np.quantile(data["x"], [0.1, 0.9]), atol=1.5)
    by_sticks = fitted(model_of(("x",), most=8), {"x": data["x"]}, "variational", draws=100, tune=None)
    assert by_sticks.posterior["weights"].sizes["component"] == 8 and "alpha" in by_sticks.posterior
    assert adjusted_rand_index(by_sticks.clusters()["partition"].to_numpy(), z) == 1
    gaps = np.where(rng.random((60, 2)) < 0.1, np.nan, np.column_stack([data["x"], data["x"] + rng.normal(size=60)]))
    gaps[:2] = data["x"][:2, None]
    holed = fitted(
        model_of(("x", "y"), covariance="diagonal", discount=0.2), {"x": gaps[:, 0], "y": gaps[:, 1]}, draws=150
    )
    assert adjusted_rand_index(holed.clusters()["partition"].to_numpy(), z) > 0.9


@pytest.mark.slow(why="large")
def test_components_without_conjugate_priors(tmp_path):
    """Normal with priors of mean and sd of any kind, and Student's t: planted clusters, by `auto`; new rows."""
    rng = np.random.default_rng(6)
    z = np.repeat([0, 1], 40)
    x = np.where(z == 0, -5.0, 5.0) + rng.standard_t(3, 80) * 0.6
    free = model_of(component="gaussian", priors={"mean": "Normal(0, 6)", "sd": "HalfNormal(2)"})
    heavy = model_of(component="student_t", dof=3)
    at = np.linspace(-30, 30, 601)
    for model in (free, heavy):
        fit = fitted(model, {"x": x}, draws=250, tune=100, runs=tmp_path)
        assert fit.method == "gibbs" and "auxiliary" in fit.reason
        partition = fit.clusters()["partition"].to_numpy()
        assert adjusted_rand_index(partition, z) > 0.85
        density = np.exp(fit.density({"x": at})["log_density"].to_numpy())
        assert np.trapezoid(density, at) == pytest.approx(1, abs=0.02)
        assert density[250] > 5 * density[300] and density[350] > 5 * density[300]
        p = bl.open(fit.folder).predict({"x": np.array([-5.0, 5.0, 25.0])}, "probabilities")
        assert p.filter(like="P(").sum(axis=1).to_numpy() == pytest.approx(1)
        fellows = [partition[np.argmin(np.abs(x - v))] for v in (-5.0, 5.0)]
        assert np.array_equal(p.filter(regex=r"P\(\d").to_numpy().argmax(axis=1)[:2], fellows)
        assert p["P(new)"][2] > 0.5 > 0.1 > p["P(new)"][0]
        drawn = fit.predict({"x": at[:100]}, "draws")["x"].to_numpy()
        assert abs(np.mean(drawn > 0) - 0.5) < 0.1
        assert np.isfinite(fit.density()["log_density"]).all()
    longer = fit.update({"x": np.array([4.8, -5.2, 5.4])}, draws=100, tune=20, progress=False)
    assert adjusted_rand_index(longer.clusters()["partition"].to_numpy(), np.append(z, [1, 0, 1])) > 0.85


@pytest.mark.slow(why="large")
def test_cells_of_new_rows_may_be_missing_without_conjugacy():
    """A row with one of two columns has the density of that column, and joins by it."""
    rng = np.random.default_rng(7)
    z = np.repeat([0, 1], 30)
    rows = np.where(z == 0, -4.0, 4.0)[:, None] + rng.normal(size=(60, 2))
    for spec in ({"component": "student_t", "dof": 5}, {"priors": {"mean": "Normal(0, 5)", "sd": "LogNormal(0, 1)"}}):
        given = spec | ({"covariance": "diagonal"} if "priors" in spec else {})
        fit = fitted(model_of(("x", "y"), **given), {"x": rows[:, 0], "y": rows[:, 1]}, draws=60, tune=60)
        at = np.linspace(-80, 80, 801)
        one = np.exp(fit.density({"x": at, "y": np.full(801, np.nan)})["log_density"].to_numpy())
        assert np.trapezoid(one, at) == pytest.approx(1, abs=0.02)
        p = fit.predict({"x": [-4.0, np.nan], "y": [np.nan, 4.0]}, "probabilities")
        assert (p.filter(regex=r"P\(\d").to_numpy().argmax(axis=1) == [0, 1]).all()


@pytest.mark.slow(why="large")
def test_rows_that_come_later(tmp_path):
    """The same as a fit to all rows of the model that the run has; priors do not follow the new data."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(-4, 1, 40), rng.normal(4, 1, 40)])
    fit = fitted(model_of(), {"x": x}, draws=300, runs=tmp_path)
    more = np.concatenate([rng.normal(4, 1, 10), rng.normal(20, 1, 15)])
    longer = fit.update({"x": more}, draws=600, tune=100, progress=False)
    assert longer.data.labels["obs_id"].size == 105 and longer.folder.parent == tmp_path
    kept = longer.model.model.priors["components"]
    assert kept["mean"] == pytest.approx([x.mean()]) and kept["scale"] == pytest.approx([x.var()])
    whole = fitted(longer.model, {"x": np.concatenate([x, more])}, draws=600, seed=9)
    for name in ("n_clusters", "entropy", "alpha"):
        one, two = longer.posterior[name].to_numpy(), whole.posterior[name].to_numpy()
        error = np.sqrt(sum(v.reshape(2, 20, -1).mean(axis=2).var() / 40 for v in (one, two)))
        assert abs(one.mean() - two.mean()) < 4.5 * error + 1e-9, name
    truth = np.repeat([0, 1, 1, 2], [40, 40, 10, 15])
    assert adjusted_rand_index(longer.clusters()["partition"].to_numpy(), truth) > 0.9
    again = bl.open(longer.folder)
    assert np.array_equal(again.posterior["alpha"].to_numpy(), longer.posterior["alpha"].to_numpy())
    with refused("data.unknown-column", "'x'"):
        fit.update({"y": more}, progress=False)


def test_a_stopped_run_goes_on_exactly(tmp_path):
    """Chains kept half-way: the draws are those of a run that was not stopped."""
    x = np.random.default_rng(4).normal(size=50)
    model = model_of()
    whole = fitted(model, {"x": x}, draws=60, tune=20, runs=tmp_path)
    folder = bl.fitting.prepare(model, {"x": x}, "gibbs", draws=60, tune=20, chains=2, runs=tmp_path)
    from bayeslab.run_folder.folder import RunFolder

    chains = whole.bound_model.gibbs_plan.chains
    seeds = np.random.default_rng(1).spawn(2)
    RunFolder.existing(folder).write(1, chains.advance(chains.begin(seeds[1], 60, 20), 33))
    resumed = bl.resume(folder, progress=False)
    for name in ("n_clusters", "log_joint", "alpha"):
        assert np.array_equal(resumed.posterior[name].to_numpy(), whole.posterior[name].to_numpy())
    assert np.array_equal(
        resumed.data_tree["partitions"]["labels"].to_numpy(), whole.data_tree["partitions"]["labels"].to_numpy()
    )


def test_simulated_rows_share_components():
    """From the prior: labels repeat as the restaurant says."""
    model = model_of(concentration=1, priors=PRIORS, most=30)
    model = model.model_copy(update={"dims": {"obs_id": 10}})
    drawn = bl.simulate(model, draws=400, seed=5)
    labels = drawn["prior"]["label"].to_numpy()[0]
    tables = np.array([len(set(row)) for row in labels])
    assert abs(tables.mean() - 2.928968) < 4 * tables.std() / np.sqrt(400)


def test_wrong_input_is_refused_in_one_line():
    cases = [
        ({"concentration": 0}, "model.out-of-range", r"^model\.concentration.*0"),
        ({"concentration": "Normal(0, 1)"}, "model.bad-prior", r"^model\.concentration.*Normal"),
        ({"discount": 1}, "model.out-of-range", r"^model\.discount.*'1'"),
        ({"order": "x"}, "model.conflict", "`order`"),
        ({"priors": {"weights": 1}}, "model.conflict", "weights.*`concentration`"),
        ({"components": 3, "concentration": 2}, "model.conflict", "'concentration'.*components: dirichlet_process"),
        ({"components": "dirichlet"}, "model.unknown-word", "'dirichlet'.*'dirichlet_process'"),
        ({"labels": "z"}, "model.incomplete", "labels.*components"),
    ]
    for spec, code, match in cases:
        with refused(code, match):
            fitted(model_of(**spec), {"x": VALUES, "z": VALUES}, draws=2, tune=0, chains=1)
    for key, value in (("discount", 1), ("dof", -1), ("discount", "half")):
        with pytest.raises(ModelError) as caught:
            model_of(**{key: value})
        # Which of a key's types a value is not is no part of its path.
        assert caught.value.where == f"model.{key}" and f"'{key}'" in caught.value.message
    with refused("engine.refused.not-suited", "components"):
        bl.fit(model_of(), {"x": VALUES}, "em", runs=None, progress=False)
    with refused("model.not-suited", "empirical_bayes", where="model.concentration"):
        fitted(model_of(concentration="empirical_bayes"), {"x": VALUES}, "nuts")
    with refused("engine.refused.no-closed-form", "variational.*discount"):
        fitted(model_of(discount=0.2), {"x": VALUES}, "variational", tune=None)


def test_trials_may_be_a_column():
    """The same draws whether the number of trials is written once or in every row."""
    table = {"won": [0, 1, 5, 4, 0, 5], "of": [5] * 6}
    draws = []
    for trials in (5, "of"):
        content = {"component": "binomial", "columns": ["won"], "trials": trials}
        model = bl.Model(model={"family": "mixture", "components": "dirichlet_process"} | content)
        fit = bl.fit(model, table, "gibbs", draws=20, tune=10, chains=1, seed=1, progress=False, runs=None)
        draws.append(fit.data_tree["posterior"].to_dataset().to_array().to_numpy())
    assert np.array_equal(*draws)


@pytest.mark.slow(why="large")
def test_new_rows_with_an_open_cell_have_the_marginal_of_full_covariances():
    rows = np.array([[0.0, 0.3], [1.0, 1.2], [0.4, 0.1], [6.0, 4.0], [7.0, 5.5]])
    mean, kappa, nu, scale, alpha = np.array([2.0, 2.0]), 0.2, 4.0, np.array([[2.0, 0.8], [0.8, 1.5]]), 1.0
    model = {
        "family": "mixture", "columns": ["a", "b"], "components": "dirichlet_process", "concentration": alpha,
        "priors": {"components": {"mean": mean.tolist(), "rows": kappa, "dof": nu, "scale": scale.tolist()}},
    }  # fmt: skip
    data = {"a": rows[:, 0], "b": rows[:, 1]}
    fit = bl.fit(bl.Model(name="m", model=model), data, "gibbs", seed=1, draws=1000, progress=False, runs=None)
    shown = fit.density({"a": [0.5, 5.0], "b": [np.nan, np.nan]})["log_density"].to_numpy()

    def posterior(own):
        n = len(own)
        centre = (kappa * mean + own.sum(axis=0)) / (kappa + n)
        apart = own - own.mean(axis=0) if n else own
        shift = (own.mean(axis=0) if n else mean) - mean
        return kappa + n, nu + n, centre, scale + apart.T @ apart + kappa * n / (kappa + n) * np.outer(shift, shift)

    def predicted(own, x, at):
        k, v, centre, matrix = posterior(own)
        shape = (matrix * (k + 1) / (k * (v - 1)))[np.ix_(at, at)]
        return stats.multivariate_t(centre[at], shape, df=v - 1).pdf(x)

    weight, density = 0.0, np.zeros(2)
    for labels in product(range(5), repeat=5):
        if any(k > max(labels[:i], default=-1) + 1 for i, k in enumerate(labels)):
            continue  # clusters are numbered as they first appear
        z, p = np.array(labels), 1.0
        for i in range(5):
            before = rows[:i][z[:i] == z[i]]
            p *= (len(before) or alpha) / (alpha + i) * predicted(before, rows[i], [0, 1])
        weight += p
        for k in range(z.max() + 2):
            own = rows[z == k]
            share = (len(own) or alpha) / (alpha + 5)
            density += p * share * np.array([predicted(own, [a], [0]) for a in (0.5, 5.0)])
    assert np.exp(shown) == pytest.approx(density / weight, rel=0.03)
    clusters = fit.predict({"a": [0.5], "b": [np.nan]}, "probabilities")
    assert sum(np.asarray(clusters[name])[0] for name in clusters if name != "obs_id") == pytest.approx(1.0)


def test_rows_that_come_later_need_only_the_columns_of_the_model(tmp_path):
    """Truth values of a file are words, those of a frame 1 and 0: both may come."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.normal(size=30), "note": ["a", "b"] * 15, "sure": rng.random(30) < 0.5})
    frame.to_csv(tmp_path / "t.csv", index=False)
    parts = {"x": "gaussian", "sure": "categorical"}
    spec = {"family": "mixture", "columns": list(parts), "component": parts, "components": "dirichlet_process"}
    for data in frame, tmp_path / "t.csv":
        fit = bl.fit(bl.Model(model=spec), data, draws=20, tune=20, progress=False)
        rows = {}
        for given in [True, False], ["True", "False"], ["TRUE", "FALSE"]:
            longer = fit.update({"x": [1.0, 2.0], "sure": given}, progress=False)
            rows[given[0]] = longer.posterior["log_joint"].values
        assert all(np.array_equal(values, rows[True]) for values in rows.values())
        with refused("data.unknown-column", "'sure'"):
            fit.update({"x": [1.0]}, progress=False)
