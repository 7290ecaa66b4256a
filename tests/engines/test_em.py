"""The engine around the searches: what it reports, and when it warns."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

import bayeslab as bl
from bayeslab.engines import em
from bayeslab.families.bayes_net.posterior import BayesNetPosterior
from bayeslab.latents.expectation_maximisation import EMResult, Restarts, maximise
from bayeslab.latents.networks.learning import TableProblem
from bayeslab.latents.networks.local_models import FreeTable
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.posterior.answer import EMPlan
from tests.refusals import refused

# Russell and Norvig (2003), section 20.3.
CANDIES = [273, 93, 104, 90, 79, 100, 94, 167]
STATES = {
    "Bag": ("1", "2"),
    "Flavor": ("cherry", "lime"),
    "Wrapper": ("red", "green"),
    "Hole": ("yes", "no"),
}
SEEN = ("Flavor", "Wrapper", "Hole")
SATURATED = -1979.360127


def candies(rows=CANDIES):
    cells = [(f, w, h) for f in range(2) for w in range(2) for h in range(2)]
    codes = np.repeat(cells, rows, axis=0)
    return {v: [STATES[v][c] for c in codes[:, i]] for i, v in enumerate(SEEN)}


def model():
    variables = {v: {"states": list(s), "parents": [] if v == "Bag" else ["Bag"]} for v, s in STATES.items()}
    return bl.Model(model=bl.BayesNet(variables=variables, hidden=["Bag"]))


def candy_plan(model, data):
    """The plan of this one net; tables with two pseudocounts a cell."""
    columns = [np.array([STATES[v].index(str(c)) for c in data.dataset.columns[v].values]) for v in SEEN]
    codes = np.stack([np.full(len(columns[0]), -1), *columns], axis=1)
    shapes = {v: (2,) if v == "Bag" else (2, 2) for v in STATES}
    network = DiscreteNetwork(STATES, dict.fromkeys(SEEN, ("Bag",)), {v: np.full(s, 0.5) for v, s in shapes.items()})

    def problem(prior):
        local = {v: FreeTable(np.zeros(s), 2.0 if prior else 1.0) for v, s in shapes.items()}
        return TableProblem.of(network, codes, local)

    return EMPlan(
        "bags summed out",
        problem,
        problem(False).start,
        dict,
        {v: ("Bag_state",) if v == "Bag" else ("Bag_state", f"{v}_state") for v in STATES},
        placed=lambda theta, given: {**theta, **given},
        labels={f"{v}_state": np.array(s) for v, s in STATES.items()},
        bounds=dict.fromkeys(STATES, (0.0, 1.0)),
    )


def with_plan(monkeypatch, plan):
    """Let Bayes nets have this plan for EM."""
    monkeypatch.setattr(BayesNetPosterior, "em_plan", property(lambda self: plan(self.model, self.data)))


@pytest.fixture
def candy(monkeypatch):
    with_plan(monkeypatch, candy_plan)


def fitted(data=None, **options):
    return bl.fit(model(), data or candies(), "em", seed=1, progress=False, runs=None, **options)


def findings(fit):
    return {f.check: f for f in fit.verdict.findings}


@pytest.mark.usefixtures("candy")
def test_the_candies_end_at_the_saturated_fit():
    fit = fitted(restarts=6, prior="ignore", tolerance=1e-8)
    posterior = fit.posterior
    assert dict(posterior.sizes) == {"chain": 1, "draw": 1} | {f"{v}_state": 2 for v in STATES}
    assert list(posterior["Flavor"].coords["Flavor_state"].values) == ["cherry", "lime"]
    assert float(fit.data_tree["sample_stats"]["lp"].values[0, 0]) == pytest.approx(SATURATED, abs=1e-5)
    theta = {v: posterior[v].values[0, 0] for v in STATES}
    order = [0, 1] if theta["Bag"][0] < 0.5 else [1, 0]
    assert theta["Bag"][order[0]] == pytest.approx(0.419424, abs=1e-3)
    want = [[0.893377, 0.319159], [0.797449, 0.362624], [0.836496, 0.343027]]
    np.testing.assert_allclose([theta[v][order, 0] for v in SEEN], want, atol=1e-3)
    assert findings(fit)["optimum"].status == "pass" and "maximum of the likelihood" in str(fit.verdict)


@pytest.mark.usefixtures("candy")
def test_the_traces_rise_and_end_where_the_fit_is():
    fit = fitted(restarts=3)
    traces = fit.data_tree["em"].to_dataset()
    assert traces["log_posterior"].dims == ("restart", "iteration") and traces.sizes["restart"] == 3
    for row, end in zip(traces["log_posterior"].values, traces["final_log_posterior"].values, strict=True):
        seen = row[~np.isnan(row)]
        assert (np.diff(seen) >= 0).all() and seen[-1] == end
    assert float(fit.data_tree["sample_stats"]["lp"].values[0, 0]) == traces["final_log_posterior"].values.max()


@pytest.mark.usefixtures("candy")
def test_the_prior_pulls_estimates_inwards():
    """Four candies, all alike: the likelihood is highest at the edge, the posterior is not."""
    few = candies([4, 0, 0, 0, 0, 0, 0, 0])
    edge = fitted(few, prior="ignore")
    assert findings(edge)["boundary"].status == "warn" and edge.verdict.status == "warn"
    inside = fitted(few)
    assert "boundary" not in findings(inside)
    # By symmetry the best bag for four cherries takes all of them: (4 + 1) / (4 + 2).
    assert inside.posterior["Flavor"].values[0, 0, :, 0].max() == pytest.approx(5 / 6, abs=0.02)


@pytest.mark.usefixtures("candy")
def test_standard_errors_on_request():
    fit = fitted(standard_errors=True, prior="ignore", tolerance=1e-9)
    errors = fit.data_tree["standard_errors"].to_dataset()
    assert errors["Flavor"].dims == ("Bag_state", "Flavor_state")
    assert (errors["Flavor"].values > 0.01).all() and (errors["Flavor"].values < 0.5).all()
    assert "standard_errors" not in fitted().data_tree


@pytest.mark.usefixtures("candy")
def test_a_search_cut_short_warns():
    fit = fitted(max_iterations=3, variant="em")
    assert findings(fit)["optimum"].status == "warn" and "stopped after 3 iterations" in str(fit.verdict)
    assert "variant: accelerated" in findings(fit)["optimum"].advice


@pytest.mark.usefixtures("candy")
def test_the_number_of_cores_changes_nothing():
    one, two = (fitted(cores=cores).data_tree["em"]["final_log_posterior"].values for cores in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_interrupting_reports_the_best_so_far(monkeypatch):
    """Ctrl-C in the middle of the second of five searches."""
    starts, steps, expect = [], [], TableProblem.expect

    def plan(model, data):
        whole = candy_plan(model, data)

        def start(rng):
            starts.append(rng)
            steps.clear()
            return whole.start(rng)

        return replace(whole, start=start)

    def interrupted(problem, theta):
        steps.append(theta)
        if len(starts) == 2 and len(steps) == 4:
            raise KeyboardInterrupt
        return expect(problem, theta)

    with_plan(monkeypatch, plan)
    monkeypatch.setattr(TableProblem, "expect", interrupted)
    fit = fitted(restarts=5, cores=1)
    assert len(starts) == 2
    assert re.search("2 of 5", findings(fit)["interrupted"].message)
    assert fit.data_tree["em"].sizes["restart"] == 2
    assert fit.data_tree["em"]["log_posterior"].sel(restart=1).notnull().sum() == 3
    found = fit.data_tree["em"]["final_log_posterior"].values
    assert float(fit.data_tree["sample_stats"]["lp"].values[0, 0]) == found.max()


def test_families_that_cannot_are_refused():
    graph = bl.Model(model=bl.Graph(nodes={"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, 1)"}))
    with refused("engine.refused.other-family", "graph"):
        bl.fit(graph, {"y": [1.0]}, "em", progress=False, runs=None)


def test_the_reason_of_a_family_is_passed_on(monkeypatch):
    with_plan(monkeypatch, lambda model, data: "tables share parameters")
    with refused("engine.refused.not-suited", "tables"):
        fitted()


def test_a_prior_without_a_mode_names_the_way_out():
    """An equivalent sample size of 1 spreads less than 1 to every cell."""
    variables = {v: {"states": list(s), "parents": [] if v == "Bag" else ["Bag"]} for v, s in STATES.items()}
    spread = bl.Model(model=bl.BayesNet(variables=variables, hidden=["Bag"], prior={"equivalent_sample_size": 1}))
    with refused("engine.refused.no-mode", "0.5.*prior: ignore"):
        bl.fit(spread, candies(), "em", progress=False, runs=None)
    fit = bl.fit(spread, candies(), "em", prior="ignore", seed=0, progress=False, runs=None)
    assert float(fit.data_tree["sample_stats"]["lp"].values[0, 0]) == pytest.approx(SATURATED, abs=1e-4)


def test_the_family_itself_finds_the_saturated_fit():
    """Uniform priors have no say; p_Flavor and so on are the family's names."""
    fit = fitted(variant="newton", tolerance=1e-9)
    assert float(fit.data_tree["sample_stats"]["lp"].values[0, 0]) == pytest.approx(SATURATED, abs=1e-6)
    assert sorted(fit.posterior["p_Bag"].values[0, 0]) == pytest.approx([0.419424, 0.580576], abs=1e-4)


# ------------------------------------------------------------------------------------- unlike starts


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_tight_clump_within_a_broad_component_is_seen(seed):
    """Sixty quantiles of a normal law and seven rows within 0.003 of 1: k-means cuts them in the middle whatever its
    seeds, below a maximum that the clump has as a component."""
    y = np.r_[stats.norm.ppf((np.arange(60) + 0.5) / 60), 1 + 1e-3 * np.arange(-3, 4)]
    model = bl.Model(model=bl.Mixture(columns=["y"], components=2))

    def best(**options):
        found = bl.fit(model, {"y": y}, "em", seed=seed, runs=None, progress=False, **options)
        return float(found.data_tree["em"]["final_log_posterior"].max()), found.verdict

    known, _ = best(initvals={"weights": [0.9, 0.1], "mean": [[0.0], [1.0]], "sd": [[1.0], [3e-3]]})
    reached, verdict = best()
    assert reached == pytest.approx(known, abs=1e-3)
    (told,) = (f.message for f in verdict.findings if f.check == "restarts")
    assert not told.startswith("all")


def test_few_starts_at_the_best_maximum_are_a_warning():
    def ends(*heights):
        every = tuple(EMResult({}, 0.0, h, np.zeros(1), np.zeros(1), 1, 1, True, "") for h in heights)
        return Restarts(max(every, key=lambda end: end.log_posterior), every)

    assert em.agreement(ends(0, 0, 0)).status == "pass"
    assert em.agreement(ends(0, 0, -5, -5)).status == "pass"
    assert em.agreement(ends(0, -5, -5, -5)).status == "warn"
    assert em.agreement(ends(0, 0, *[-5.0] * 38)).status == "warn"


class Sublinear:
    """EM near a maximum at a bound: the distance shrinks like 1/k, the height is its square."""

    def expect(self, theta):
        return float(1000 - theta["x"][0] ** 2), {"x": theta["x"]}

    def update(self, statistics, theta):
        return {"x": theta["x"] - theta["x"] ** 2}

    def log_prior(self, theta):
        return 0.0

    def flatten(self, theta):
        return theta["x"].copy()

    def unflatten(self, x):
        return {"x": np.clip(x, 0.0, 0.5)}


@pytest.mark.parametrize("variant", ["em", "accelerated"])
def test_a_search_of_falling_speed_stops_within_the_tolerance(variant):
    end = maximise(Sublinear(), {"x": np.array([0.4])}, variant=variant, tolerance=1e-5, max_iterations=5000)
    assert end.converged
    assert 1000 - end.log_likelihood < 1.5e-5


def heywood():
    rng = np.random.default_rng(8)
    loading, noise = np.array([[1, 0.0], [0.8, 0.3], [0.6, -0.5], [0.1, 0.9], [0, 0.7]]), [0.3, 0.5, 0.4, 0.6, 0.3]
    return (rng.normal(size=(60, 2)) @ loading.T + rng.normal(size=(60, 5)) * noise)[:15, :3]


@pytest.mark.slow(why="statistical")
def test_noise_that_runs_to_zero_is_found_and_reported():
    rows = heywood()
    model = {"family": "latent_features", "columns": list("abc"), "features": 1, "noise": "own"}
    data = {name: rows[:, j] for j, name in enumerate("abc")}
    fit = bl.fit(bl.Model(name="m", model=model), data, "em", seed=1, prior="ignore", progress=False, runs=None)

    # The likelihood written out, noise no less than a thousandth of the sds.
    def loss(x):
        covariance = np.outer(x[3:6], x[3:6]) + np.diag(x[6:] ** 2)
        return -stats.multivariate_normal(x[:3], covariance).logpdf(rows).sum()

    sd = rows.std(axis=0)
    bounds = [(None, None)] * 6 + [(0.001 * s, None) for s in sd]
    starts = [np.r_[rows.mean(axis=0), sd * 0.7, np.where(np.arange(3) == j, 0.01, 0.6) * sd] for j in range(3)]
    best = -min(minimize(loss, x, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15}).fun for x in starts)
    ends = fit.data_tree["em"]["final_log_likelihood"].to_numpy()
    assert ends == pytest.approx(best, abs=2e-5)
    assert {f.check: f.status for f in fit.verdict.findings}["boundary"] == "warn"


@pytest.mark.parametrize("unit", [1.0, 1e-7])
def test_small_units_are_no_boundary(unit):
    rows = unit * np.random.default_rng(3).normal(size=(40, 1)) + unit * np.random.default_rng(4).normal(size=(40, 4))
    model = {"family": "latent_features", "columns": list("abcd"), "features": 1, "noise": "own"}
    data = {name: rows[:, j] for j, name in enumerate("abcd")}
    fit = bl.fit(bl.Model(name="m", model=model), data, "em", seed=1, progress=False, runs=None)
    assert "boundary" not in {f.check for f in fit.verdict.findings}


def test_the_weight_of_a_single_component_is_no_estimate_at_a_bound():
    model = {"family": "mixture", "columns": ["x"], "components": 1}
    data = {"x": np.random.default_rng(0).normal(size=20)}
    fit = bl.fit(bl.Model(name="m", model=model), data, "em", seed=1, progress=False, runs=None)
    assert "boundary" not in {f.check for f in fit.verdict.findings}
