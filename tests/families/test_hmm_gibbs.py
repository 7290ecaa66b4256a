"""Gibbs steps of hidden Markov models: the joint distribution kept, a grid, NUTS; and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import arviz as az
import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.distributions.emissions import NormalPrior
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of
from bayeslab.latents.chains.decoding import sample_paths
from bayeslab.latents.chains.forward_backward import HiddenChain, filter_states, simulate_states
from bayeslab.posterior.latent_gibbs import drawn_parameters
from tests.families._models import two_states as model
from tests.refusals import refused

SAMPLED = {"draws": 1200, "tune": 200, "chains": 4}


def series(n, seed=0):
    """Two states apart, a column of numbers with gaps and one of counts."""
    rng = np.random.default_rng(seed)
    states = simulate_states(HiddenChain.of([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]), [0, n], rng)
    y = np.array([-1.0, 1.5])[states] + 0.8 * rng.standard_normal(n)
    y[10:14] = np.nan
    return {"y": y, "w": rng.poisson(np.array([1.0, 4.0])[states]).astype(float)}


def agree(found, exact, names, most=4.0):
    """Means and standard deviations of two posteriors within so many combined Monte Carlo errors."""
    for name in names:
        for kind, measure in (("mean", np.mean), ("sd", np.std)):
            error = [az.mcse(tree, var_names=[name], method=kind)[name].to_numpy() for tree in (found, exact)]
            means = [measure(tree.posterior[name].to_numpy(), axis=(0, 1)) for tree in (found, exact)]
            z = (means[0] - means[1]) / np.hypot(*error)
            assert np.max(np.abs(z)) < most, (name, kind, z)


# --------------------------------------------------------------------------------- the joint distribution


def prior_of(part):
    """The part with a prior whose moments exist."""
    d, joint = len(part.columns), hasattr(part, "tied")
    if part.word == "gaussian":
        prior = NormalPrior(np.full(d, 0.5), 1.0, 9.0, 4.0 * (np.eye(d) if joint else np.ones(d)))
        return replace(part, emission=replace(part.emission, prior=prior))
    if part.word in ("poisson", "exponential"):
        return replace(part, emission=replace(part.emission, prior=(3.0, 1.5)))
    return part


def drawn_from_prior(rng, part):
    """Parameters by their names, drawn by scipy from the priors as the documentation states them."""
    k, d, out = part.n_states, len(part.columns), {}
    prior = part.emission.prior
    match part.word:
        case "gaussian" if hasattr(part, "tied"):
            matrix = stats.invwishart(prior.nu, prior.scale)
            each = np.stack([matrix.rvs(random_state=rng) for _ in range(1 if part.tied else k)])
            out["covariance"] = each[0] if part.tied else each
            spread = np.linalg.cholesky(np.broadcast_to(each, (k, d, d)) / prior.kappa)
            out["mean"] = prior.mean + np.einsum("kij,kj->ki", spread, rng.standard_normal((k, d)))
        case "gaussian":
            shape = part.shape(part.called("sd"))
            variance = stats.invgamma(prior.nu / 2, scale=2.0).rvs(shape, random_state=rng)
            out[part.called("sd")] = part.known.get(part.called("sd"), np.sqrt(variance))
            sd = out[part.called("sd")]
            wide = part.shape(part.called("mean"))
            sd = sd[:, None] if len(wide) == 2 and sd.ndim == 1 else sd
            out[part.called("mean")] = 0.5 + sd / np.sqrt(prior.kappa) * rng.standard_normal(wide)
            out |= part.known
        case "categorical":
            out[part.called("p")] = rng.dirichlet(np.ones(len(part.levels_of(part.columns[0]))), k)
        case "bernoulli" | "binomial":
            out[part.called("probability")] = rng.random(part.shape(part.called("probability")))
        case _:
            out[part.called("rate")] = rng.gamma(3.0, 1 / 1.5, part.shape(part.called("rate")))
    return out


def simulated(rng, hidden, values, gaps):
    path = simulate_states(hidden.chain.hidden(values), hidden.sequences.offsets, rng)
    states = hidden.chain.last[path]
    rows = np.empty_like(hidden.rows)
    for part in hidden.parts:
        rows[:, list(part.at)] = part.emission.sample(rng, part.to_emission(values), states)
    rows[gaps] = np.nan
    return replace(hidden, rows=rows)


def told(hidden, values):
    """Numbers that a wrong step would move: parameters, their squares, and the data of the two together."""
    out = []
    for name in hidden.learned:
        own = np.asarray(values[name]).ravel()
        out += [*own, *own**2]
    seen = np.where(np.isnan(hidden.rows), 0.0, hidden.rows)
    return np.array([*out, *np.arctan(seen).mean(0), np.mean(np.arctan(seen[1:, 0] * seen[:-1, 0]))])


CASES = {
    "gaussian": {},
    "spherical": {"columns": ["y", "w"], "covariance": "spherical"},
    "matrix": {"columns": ["y", "w"], "covariance": "full"},
    "one matrix": {"columns": ["y", "w"], "covariance": "tied", "initial": "stationary"},
    "known sd": {"parameters": {"sd": [0.5, 2.0]}},
    "known mean": {"parameters": {"mean": [-1.0, 1.0]}, "order": 2},
    "counts": {"columns": ["w"], "emission": "poisson", "states": 3, "topology": "left_right"},
    "mixed": {"columns": ["y", "w"], "emission": {"y": "exponential", "w": "bernoulli"}, "stickiness": 2},
    "categories": {"columns": ["c"], "emission": "categorical", "pseudocount": 0.5},
}


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("case", CASES)
def test_steps_keep_the_joint_distribution_of_parameters_and_data(case):
    """Geweke (2004): parameters and data drawn from the model, against a chain that draws each given the other."""
    rng = np.random.default_rng(5)
    n = 9
    table = {"y": rng.exponential(1, n), "w": rng.integers(0, 2, n) * 1.0, "c": rng.choice(["a", "b", "c"], n)}
    declared = model(**CASES[case])
    hidden = hidden_of(declared, bl.check(declared, table | {"who": list("aaaabbbbb")}))
    hidden = replace(hidden, parts=tuple(prior_of(part) for part in hidden.parts))
    gaps = rng.random(hidden.rows.shape) < 0.25
    several = np.array([0, 4, n])
    hidden = replace(hidden, sequences=replace(hidden.sequences, offsets=several, names=np.array(["a", "b"])))

    def parameters():
        out = {name: _dirichlet(rng, hidden.chain.concentration(name)) for name in hidden.chain.learned}
        for part in hidden.parts:
            out |= drawn_from_prior(rng, part)
        return out

    def one():
        values = parameters()
        return told(simulated(rng, hidden, values, gaps), values)

    slow = "matrix" in case  # scipy's inverse Wishart; the stationary distribution
    independent = np.stack([one() for _ in range(600 if slow else 1_500)])
    values, chain = parameters(), []
    for _ in range(1_500 if slow else 3_000):
        now = simulated(rng, hidden, values, gaps)
        chain.append(told(now, values))
        values = drawn_parameters(now.problem(), now.law(values).draw(rng), values, rng)
    batches = np.stack(chain).reshape(30, -1, independent.shape[1]).mean(1)
    error = np.hypot(independent.std(0) / np.sqrt(len(independent)), batches.std(0) / np.sqrt(len(batches)))
    z = (batches.mean(0) - independent.mean(0)) / np.maximum(error, 1e-12)
    assert np.max(np.abs(z)) < 4.5, np.round(z, 1)


def _dirichlet(rng, a):
    gammas = rng.standard_gamma(a)
    return gammas / gammas.sum(-1, keepdims=True)


# --------------------------------------------------------------------------------- other posteriors


@pytest.mark.slow(why="statistical")
def test_transitions_have_the_posterior_of_a_grid():
    """Known emissions, known first state: the two rows of the matrix on a grid, the likelihood by the filter."""
    table = {"y": series(40)["y"]}
    declared = model(initial=[0.5, 0.5], parameters={"mean": [-1.0, 1.5], "sd": 0.8}, pseudocount=2)
    fit = bl.fit(declared, table, method="gibbs", seed=1, progress=False, **SAMPLED)
    y = np.asarray(table["y"])[:, None]
    rows = np.where(np.isnan(y), 0.0, stats.norm.logpdf(y, [-1.0, 1.5], 0.8))
    grid = (np.arange(60) + 0.5) / 60
    heights = np.empty((60, 60))
    for i, stay in enumerate(grid):
        for j, back in enumerate(grid):
            chain = HiddenChain.of([0.5, 0.5], [[stay, 1 - stay], [back, 1 - back]])
            heights[i, j] = filter_states(chain, rows).log_evidence.sum() + np.sum(
                stats.beta(2, 2).logpdf([stay, back])
            )
    weights = np.exp(heights - heights.max())
    weights /= weights.sum()
    for row, own in enumerate((weights.sum(1), weights.sum(0))):
        mean = own @ grid
        sd = np.sqrt(own @ (grid - mean) ** 2)
        drawn = fit.posterior["transition"].to_numpy()[..., row, 0]
        error = {kind: float(az.mcse(drawn, method=kind)) for kind in ("mean", "sd")}
        assert abs(drawn.mean() - mean) < 4 * error["mean"] + 1e-4
        assert abs(drawn.std() - sd) < 4 * error["sd"] + 1e-3  # of the grid


def declared_and_data():
    return model(columns=["y", "w"], emission={"y": "gaussian", "w": "poisson"}), series(80)


@pytest.fixture(scope="module")
def by_gibbs():
    return bl.fit(*declared_and_data(), method="gibbs", seed=2, progress=False, **SAMPLED)


@pytest.fixture(scope="module")
def by_nuts():
    return bl.fit(*declared_and_data(), method="nuts", seed=2, progress=False, draws=1000, tune=300, chains=2)


@pytest.mark.slow(why="statistical")
def test_draws_agree_with_nuts(by_gibbs, by_nuts):
    assert by_gibbs.verdict.status == "pass"
    agree(by_gibbs.data_tree, by_nuts.data_tree, ["initial", "transition", "y_mean", "y_sd", "w_rate"])


@pytest.mark.slow(why="statistical")
def test_everything_else_takes_the_draws():
    """Names, likelihoods by the sampler and by the family, replications, decoding."""
    fit = bl.fit(*declared_and_data(), method="gibbs", seed=2, progress=False, draws=100, tune=50, chains=2)
    assert any(f.check == "relabelled" for f in fit.verdict.findings)
    assert np.all(np.diff(fit.posterior["y_mean"].mean(("chain", "draw"))) > 0)
    values = {n: v.to_numpy().reshape(-1, *v.shape[2:]) for n, v in fit.posterior.to_dataset().data_vars.items()}
    own = hmm.compile(fit.model, fit.data).log_likelihoods({n: v[:50] for n, v in values.items()})["row"][1].sum(1)
    np.testing.assert_allclose(fit.data_tree["sample_stats"]["log_likelihood"].to_numpy()[0, :50], own, rtol=1e-9)
    assert set(fit.decode()["state"]) == {1, 2}
    assert len(fit.predict(kind="mean")) == 2 * 80  # complete rows are replicated, in both columns


@pytest.mark.slow(why="statistical")
def test_paths_and_parameters_are_those_of_the_joint_posterior(by_gibbs, by_nuts):
    """Paths drawn given NUTS draws have the share of times in a state that Gibbs' own smoothing has."""
    shares = []
    for fit in (by_gibbs, by_nuts):
        hidden = hidden_of(fit.model, fit.data)
        values = {n: v.to_numpy().reshape(-1, *v.shape[2:])[::60] for n, v in fit.posterior.to_dataset().items()}
        rng = np.random.default_rng(0)
        n = len(values["initial"])
        own = [{name: values[name][i] for name in hidden.learned} for i in range(n)]
        shares.append([sample_paths(*hidden.computed(v), 1, rng)[0].mean() for v in own])
    error = np.hypot(*(np.std(s) / np.sqrt(len(s)) for s in shares))
    assert abs(np.mean(shares[0]) - np.mean(shares[1])) < 4 * error


@pytest.mark.slow(why="statistical")
def test_the_same_seed_gives_the_same_draws():
    table, small = series(30), {"draws": 20, "tune": 5, "chains": 2, "progress": False}
    one, two, other = (bl.fit(model(), table, method="gibbs", seed=s, **small).posterior for s in (7, 7, 8))
    assert one.to_dataset().equals(two.to_dataset())
    assert not one.to_dataset().equals(other.to_dataset())
    assert not np.array_equal(one["mean"][0], one["mean"][1])


def test_zeros_of_a_pattern_stay():
    declared = model(states=3, topology="left_right")
    y = np.repeat([0.0, 5.0, 10.0], 20) + np.random.default_rng(0).normal(size=60)
    fit = bl.fit(declared, {"y": y}, method="gibbs", seed=1, draws=200, tune=50, chains=2, progress=False)
    draws = fit.posterior["transition"].to_numpy()
    assert np.all(draws[..., np.tril_indices(3, -1)[0], np.tril_indices(3, -1)[1]] == 0)
    assert np.all(draws[..., 0, 2] == 0)
    assert np.all(draws[..., 0, 1] > 0)
    np.testing.assert_allclose(fit.posterior["mean"].mean(("chain", "draw")), [0, 5, 10], atol=1)


# --------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("content", "code", "match"),
    [
        ({"emission": "student_t"}, "engine.refused.not-suited", "student_t"),
        ({"parameters": {"mean": "Normal(0, 1)"}}, "engine.refused.not-suited", "'mean'"),
        ({"inputs": ["w"]}, "engine.refused.not-suited", "regression"),
        ({"transitions_on": ["w"]}, "engine.refused.not-suited", "transitions"),
        ({"states": "continuous"}, "engine.refused.not-suited", "continuous"),
    ],
)
def test_what_is_not_conjugate_is_refused(content, code, match):
    with refused(code, match):
        bl.fit(model(**content), series(30), method="gibbs", seed=1, progress=False)


def test_nothing_to_fit():
    given = {"mean": [0.0, 1.0], "sd": 1.0}
    declared = model(initial=[0.5, 0.5], transition=[[0.9, 0.1], [0.1, 0.9]], parameters=given)
    with refused("model.nothing-to-fit"):
        bl.fit(declared, series(30), method="gibbs", seed=1, progress=False)
