"""How many states: planted numbers found, scores against independent computations, and bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize, stats

import bayeslab as bl
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of, settled
from bayeslab.latents.chains.forward_backward import HiddenChain, simulate_states
from bayeslab.posterior.chains import choice as choice_of_states
from bayeslab.posterior.chains.choice import split_of
from bayeslab.preparation import bound
from tests.refusals import refused

THREE = (-3.0, 0.0, 3.0)


@pytest.fixture(autouse=True)
def two_searches(monkeypatch):
    """Half of what a fit makes for each number of states; from the scattered states of these data every one succeeds."""
    monkeypatch.setattr(choice_of_states, "RESTARTS", 2)


def series(n_sequences, length, seed, means=THREE):
    """Sequences from states with these means, sd 1, that stay with probability 0.9."""
    rng, k = np.random.default_rng(seed), len(means)
    transition = np.full((k, k), 0.1 / max(k - 1, 1))
    np.fill_diagonal(transition, 0.9 if k > 1 else 1.0)
    states = simulate_states(HiddenChain.of(np.full(k, 1 / k), transition), np.arange(n_sequences + 1) * length, rng)
    y = np.array(means)[states] + rng.standard_normal(len(states))
    return {"who": np.repeat(np.arange(n_sequences), length), "y": y}


def model(**content):
    own = {"family": "hmm", "columns": ["y"], "states": {"from": 1, "to": 4}}
    return bl.Model(name="m", model=own | content)


SEVERAL, SINGLE = series(15, 30, seed=1), series(1, 500, seed=2)


def chosen(table, **content):
    declared = model(**content)
    data = bound(declared, table)
    _, choice = settled(declared, data)
    assert choice is not None and choice.best == hidden_of(declared, data).n_states
    return choice


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("choose", ["bic", "held_out", "loo", "forward"])
@pytest.mark.parametrize("several", [True, False])
def test_the_planted_number_is_found(choose, several):
    choice = chosen(SEVERAL if several else SINGLE, choose=choose, **({"sequence": "who"} if several else {}))
    # Leaving out little at a time leans to too many; their scores differ by less than a standard error.
    assert choice.simplest == 3
    assert choice.best == 3 or choose == "loo"
    assert choice.numbers == (1, 2, 3, 4)
    assert choice.scores[2] > choice.scores[1] + 20
    assert f"{choice.best} states, chosen by {choose}" in choice.described("state")


@pytest.mark.slow(why="large")
def test_forward_search_stops_where_a_state_more_no_longer_helps():
    choice = chosen(SEVERAL, sequence="who", choose="forward", states={"from": 1, "to": 9})
    assert choice.numbers == (1, 2, 3, 4)
    two = chosen(
        series(10, 40, seed=3, means=(-2.0, 2.0)), sequence="who", choose="forward", states={"from": 1, "to": 9}
    )
    assert two.best == 2 and two.numbers == (1, 2, 3)
    one = chosen(series(10, 40, seed=4, means=(0.0,)), sequence="who", choose="forward", states={"from": 1, "to": 9})
    assert one.best == 1 and one.numbers == (1, 2)


@pytest.mark.slow(why="statistical")
def test_scores_of_one_state_are_those_of_a_normal_sample():
    """One state is a normal sample: scores from the posterior mode of mean and sd, found apart from any chain."""
    declared = model(states=1)
    y = SINGLE["y"]
    prior = hidden_of(declared, bl.check(declared, SINGLE)).parts[0].emission.prior

    def mode(values):
        """Normal-inverse-gamma in (mean, sd²) as the family's prior says, maximised over a fine grid."""

        def height(x):
            sd = np.exp(x[1])
            own = stats.norm.logpdf(values, x[0], sd).sum()
            own += stats.norm.logpdf(x[0], prior.mean[0], sd / np.sqrt(prior.kappa))
            return -(own + stats.invgamma.logpdf(sd**2, prior.nu / 2, scale=np.ravel(prior.scale)[0] / 2))

        x = optimize.minimize(height, [values.mean(), np.log(values.std())], tol=1e-10).x
        return x[0], np.exp(x[1])

    mean, sd = mode(y)
    few = {"states": {"from": 1, "to": 2}}
    choice = chosen(SINGLE, choose="bic", **few)
    want = stats.norm.logpdf(y, mean, sd).sum() - 0.5 * 2 * np.log(len(y))
    assert choice.scores[0] == pytest.approx(want, abs=1e-3)
    choice = chosen(SINGLE, choose="aic", **few)
    assert choice.scores[0] == pytest.approx(stats.norm.logpdf(y, mean, sd).sum() - 2, abs=1e-3)
    # Blocks of ten rows, every fifth left out together.
    fold = (np.arange(500) // 10) % 5
    want = sum(stats.norm.logpdf(y[fold == k], *mode(y[fold != k])).sum() for k in range(5))
    assert chosen(SINGLE, choose="held_out", **few).scores[0] == pytest.approx(want, abs=1e-2)
    want = sum(stats.norm.logpdf(y[a : a + 50], *mode(y[:a])).sum() for a in range(250, 500, 50))
    assert chosen(SINGLE, choose="loo", **few).scores[0] == pytest.approx(want, abs=1e-2)


def test_left_out_rows_are_scored_given_the_others():
    """log p(block | all other rows) = log p(all) - log p(others), by enumeration of the paths of a short sequence."""
    table = {"y": np.array([0.1, -1.0, 2.0, 1.5, -0.2, 0.7])}
    declared = model(states=2)
    hidden = hidden_of(declared, bl.check(declared, table))
    values = {
        "initial": np.array([0.3, 0.7]),
        "transition": np.array([[0.8, 0.2], [0.4, 0.6]]),
        "mean": np.array([0.0, 1.0]),
        "sd": np.array([1.0, 0.5]),
    }
    out = np.array([False, False, True, True, False, False])

    def total(seen):
        p = stats.norm.pdf(table["y"][:, None], values["mean"], values["sd"])
        p = np.where(seen[:, None], p, 1.0)
        sums = 0.0
        for path in itertools.product(range(2), repeat=6):
            own = values["initial"][path[0]] * np.prod([p[t, z] for t, z in enumerate(path)])
            sums += own * np.prod([values["transition"][a, b] for a, b in itertools.pairwise(path)])
        return np.log(sums)

    split = split_of(hidden, ("blocks", out))
    np.testing.assert_array_equal(np.isnan(split.train.rows[:, 0]), out)
    np.testing.assert_allclose(split.score(values), [total(np.ones(6, bool)) - total(~out)], rtol=1e-9)


@pytest.mark.slow(why="statistical")
def test_the_choice_is_told_kept_and_used_again(tmp_path):
    """In the verdict and as a group; a run that is opened again predicts without choosing anew."""
    declared = model(sequence="who")
    fit = bl.fit(declared, SEVERAL, "em", seed=1, runs=tmp_path, progress=False)
    line = fit.diagnose().findings[-1]
    assert line.status == "pass" and line.message.startswith("3 states, chosen by bic (1: ")
    table = fit.data_tree["choice"]
    assert table["score"].coords["n_states"].to_numpy().tolist() == [1, 2, 3, 4]
    assert int(np.argmax(table["score"].to_numpy())) == 2
    assert fit.posterior["mean"].sizes["state"] == 3
    again = bl.open(next(tmp_path.iterdir()))
    new = series(2, 10, seed=5)
    np.testing.assert_allclose(again.decode(new)["probability"], fit.decode(new)["probability"])
    assert again.bound_model.model_choice() is None
    assert again.bound_model.hidden.n_states == 3
    assert hmm.compile(declared, fit.data).network().nodes["path"]["text"] == "Markov chain, 1 to 4 states"


@pytest.mark.slow(why="large")
def test_states_of_each_class_are_chosen_too():
    """Both classes have two planted states."""
    rows = series(20, 25, seed=6, means=(-2.0, 2.0))
    kind = np.array(["a", "b"])[rows["who"] % 2]
    table = {**rows, "kind": kind, "y": np.where(kind == "a", rows["y"], 5 - rows["y"])}
    for choose in ("bic", "held_out"):
        declared = model(sequence="who", classes="kind", choose=choose, states={"from": 1, "to": 3})
        hidden = hidden_of(declared, bl.check(declared, table))
        assert hidden.states.tolist() == ["a.1", "a.2", "b.1", "b.2"]


@pytest.mark.slow(why="large")
def test_fits_are_compared_by_leaving_sequences_out():
    """PSIS-LOO over sequences, two states against one, and refits where that does not do.

    Of one state, with a sequence apart that needs a refit, against the closed form of a normal sample.
    """
    own = {"seed": 1, "runs": None, "progress": False, "draws": 300, "tune": 100, "chains": 2}
    table = series(8, 20, seed=7, means=(-2.0, 2.0))
    fits = {str(n): bl.fit(model(states=n, sequence="who"), table, "gibbs", **own) for n in (1, 2)}
    found = bl.compare(fits, progress=False)
    assert found.table.index[0] == "2"
    assert found.table.loc["1", "elpd_diff"] < -40
    assert not found.loos["1"].bad and not found.loos["2"].bad
    table["y"][:20] += 4.0
    fits = {"1": bl.fit(model(states=1, sequence="who"), table, "gibbs", **own)}
    found = bl.compare(fits, progress=False)
    assert found.loos["1"].refitted == (0,)
    prior = hidden_of(fits["1"].model, fits["1"].data).parts[0].emission.prior
    kappa, nu, scale, centre = prior.kappa, prior.nu, float(np.ravel(prior.scale)[0]), float(prior.mean[0])

    def evidence(y):
        """Of a normal sample under Normal(centre, sd / sqrt(kappa)) and InverseGamma(nu / 2, scale / 2)."""
        n = len(y)
        shape = np.eye(n) + 1 / kappa
        return stats.multivariate_t.logpdf(y, np.full(n, centre), scale / nu * shape, df=nu)

    who, y = table["who"], table["y"]
    want = np.array([evidence(y) - evidence(y[who != s]) for s in range(8)])
    np.testing.assert_allclose(found.loos["1"].elpd, want, atol=0.3)
    # Farther out the posteriors with and without the sequence do not overlap, and no refit bridges them.
    table["y"][:20] += 2.0
    fits = {"1": bl.fit(model(states=1, sequence="who"), table, "gibbs", **own)}
    assert bl.compare(fits, progress=False).loos["1"].bad == (0,)


# --------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("content", "code", "where", "match"),
    [
        ({"states": {"from": 0, "to": 3}}, "model.out-of-range", "model.states", "1"),
        ({"states": {"from": 3, "to": 3}}, "model.out-of-range", "model.states", "3 to 3"),
        ({"states": {"from": 1, "to": 2.5}}, "model.wrong-type", "model.states", ""),
        ({"states": {"from": 1}}, "model.wrong-type", "model.states", ""),
        ({"states": 2, "choose": "bic"}, "model.conflict", "model", "choose"),
        ({"choose": "bci"}, "model.unknown-word", "model.choose", "'bic'"),
        ({"parameters": {"mean": [1.0, 2.0]}}, "model.conflict", "model", "mean"),
        ({"initial": [0.5, 0.5]}, "model.conflict", "model", "initial"),
        ({"emission": "observed"}, "model.incomplete", "model", "observed|names"),
    ],
)
def test_ranges_that_make_no_sense(content, code, where, match):
    with refused(code, match, where=where):
        model(**content)


@pytest.mark.parametrize(
    ("content", "table", "code", "where", "match"),
    [
        ({"choose": "held_out"}, {"y": SINGLE["y"][:15]}, "data.too-few", "", ""),
        (
            {"choose": "held_out", "classes": "kind", "sequence": "who"},
            {"who": [k // 10 for k in range(30)], "kind": ["a"] * 20 + ["b"] * 10, "y": SINGLE["y"][:30]},
            "data.too-few",
            "",
            "sequence",
        ),
        (
            {"choose": "forward", "classes": "kind", "sequence": "who"},
            {"who": np.repeat(np.arange(4), 2), "kind": np.repeat(["a", "b"], 4), "y": SINGLE["y"][:8]},
            "model.unsupported",
            "model.choose",
            "",
        ),
        (
            {"training": "discriminative", "classes": "kind", "sequence": "who"},
            {"who": np.repeat(np.arange(4), 2), "kind": np.repeat(["a", "b"], 4), "y": SINGLE["y"][:8]},
            "model.not-suited",
            "model.states",
            "",
        ),
    ],
)
def test_what_cannot_be_chosen_is_said(content, table, code, where, match):
    with refused(code, match, where=where):
        bl.fit(model(**content), table, "em", runs=None, progress=False)
