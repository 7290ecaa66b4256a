"""States in order, and given parameters of second-order chains, transitions on inputs and regressions of states."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of
from bayeslab.results.decode import decode
from tests.families._interpreted import Interpreted
from tests.families._models import two_states as model
from tests.refusals import refused

N = 30


def table():
    rng = np.random.default_rng(5)
    z = (np.arange(N) // 6) % 2
    return {"y": 3 * z + rng.normal(size=N), "n": rng.poisson(2 + 6 * z), "x": rng.normal(size=N), "k": rng.binomial(
        9, 0.25 + 0.5 * z)}  # fmt: skip


SECOND = {"second_transition": [[0.75, 0.25], [0.5, 0.5]], "transition": [[[0.5, 0.5], [0.25, 0.75]]] * 2}
ODDS = {"log_odds": [[0, -1.5], [-0.5, 0]], "log_odds_slope": [[[0.0], [0.5]], [[-0.75], [0.0]]]}
LINES = {"intercept": [0.0, 3.0], "slope": [[0.5], [-0.25]]}
COUNTS = {"columns": ["n"], "emission": "poisson"}

CASES = {
    "second": {"order": 2, "parameters": SECOND},
    "third alone": {"order": 2, "parameters": {"transition": SECOND["transition"]}},
    "odds": {"transitions_on": ["x"], "parameters": ODDS},
    "lines": {"inputs": ["x"], "parameters": LINES},
    "spread": {"inputs": ["x"], "parameters": {"sd": [1.0, 2.0]}},
    "lines of counts": {**COUNTS, "inputs": ["x"], "parameters": {"intercept": [0.5, 2.0], "slope": [[0.1], [0.2]]}},
    "rates in order": {**COUNTS, "parameters": {"rate": "PositiveOrdered(Gamma(2, 0.5))"}},
    "means in order": {"parameters": {"mean": "Ordered(Normal(1, 3))"}},
    "chances in order": {"columns": ["k"], "emission": "binomial", "trials": 9, "parameters": {
        "probability": "Ordered(Beta(2, 2))"}},
}  # fmt: skip
QUICK = ("odds", "rates in order")


def heights(content):
    """At two points of the graph: its log density, and EM's log likelihood plus log prior."""
    declared = model(**content)
    data = bl.check(declared, table())
    graph, hidden = hmm.compile(declared, data).graph(), hidden_of(declared, data)
    density = Interpreted(graph)
    problem, rng, out = hidden.problem(), np.random.default_rng(3), []
    start = density.flat(graph.initial_point())
    for point in (start, start + rng.uniform(-0.2, 0.2, len(start))):
        values = {n: v for n, v in density.parameters(point).items() if n in hidden.learned}
        out.append((density.value(point), problem.expect(values)[0] + problem.log_prior(values), values))
    return hidden, out


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow(why="compiles")) for name in CASES]
)
def test_the_graph_is_what_em_climbs(name):
    """Up to a constant; what is given is no variable; what is in order rises."""
    content = CASES[name]
    hidden, ((first, one, _), (second, two, values)) = heights(content)
    assert second - first == pytest.approx(two - one, abs=1e-8)
    given = {n for n, v in content["parameters"].items() if not isinstance(v, str)}
    assert not given & set(hidden.learned)
    for ordered in hidden.in_order:
        assert np.all(np.diff(values[ordered]) > 0)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("name", CASES)
def test_em_never_falls(name):
    content = CASES[name]
    fit = bl.fit(model(**content), table(), "em", seed=1, restarts=2, max_iterations=30, progress=False, runs=None)
    trace = fit.data_tree["em"]["log_posterior"].to_numpy()
    assert np.nanmin(np.diff(trace, axis=1)) > -1e-9
    posterior = fit.data_tree["posterior"]
    if "order" in name:
        value = posterior[next(iter(content["parameters"]))].to_numpy()[0, 0]
        assert np.all(np.diff(value) > 0)


@pytest.mark.slow(why="statistical")
def test_an_order_names_states_and_changes_nothing_else():
    """Without it the mode is the same, up to the names of the states."""
    free = model(**COUNTS, parameters={"rate": "Gamma(2, 0.5)"})
    ends = [
        bl.fit(own, table(), "em", seed=1, progress=False, runs=None).data_tree["posterior"]
        for own in (model(**CASES["rates in order"]), free)
    ]
    for name in ("rate", "transition"):
        assert ends[0][name].to_numpy() == pytest.approx(ends[1][name].to_numpy(), abs=1e-3)


def test_simulated_states_are_in_order():
    from bayeslab.results.predict import simulate

    declared = model(**CASES["rates in order"])
    drawn = simulate(declared, {"n": np.zeros(5, int)}, draws=20, seed=1)
    rates = drawn["prior"]["rate"].to_numpy()[0]
    assert np.all(np.diff(rates, axis=1) > 0)


@pytest.mark.parametrize(
    ("content", "code", "where", "match"),
    [
        (
            {"order": 2, "transition": [[0.5, 0.5], [0.5, 0.5]]},
            "model.misplaced",
            "model.transition",
            "second_transition.*parameters",
        ),
        (
            {"order": 2, "parameters": {"transition": [[0.5, 0.5]] * 2}},
            "model.wrong-shape",
            "model.parameters.transition",
            r"2 × 2 × 2.*\(2, 2\)",
        ),
        (
            {"order": 2, "parameters": {"second_transition": [[0.5, 0.4], [0.5, 0.5]]}},
            "model.not-probabilities",
            "model.parameters.second_transition",
            r"row 1.*0\.9",
        ),
        (
            {"parameters": {"log_odds": [[0, 1], [1, 0]]}},
            "model.unknown-parameter",
            "model.parameters.log_odds",
            "'log_odds'",
        ),
        (
            {"transitions_on": ["x"], "parameters": {"log_odds": [[0, 1], [1, 0]]}},
            "model.incomplete",
            "model.parameters",
            "'log_odds_slope'",
        ),
        (
            {"transitions_on": ["x"], "parameters": {**ODDS, "log_odds": [[1, 1], [1, 0]]}},
            "model.out-of-range",
            "model.parameters.log_odds",
            "0",
        ),
        (
            {"transitions_on": ["x"], "parameters": {**ODDS, "log_odds_slope": [[0, 1], [1, 0]]}},
            "model.wrong-shape",
            "model.parameters.log_odds_slope",
            "2 × 2 × 1",
        ),
        (
            {"inputs": ["x"], "parameters": {"slope": [[1.0], [2.0]]}},
            "model.incomplete",
            "model.parameters",
            "'intercept'",
        ),
        (
            {"inputs": ["x"], "parameters": {"slop": [[1.0], [2.0]]}},
            "model.unknown-parameter",
            "model.parameters.slop",
            "'slope'",
        ),
        ({"inputs": ["x"], "parameters": {"sd": "HalfNormal(1)"}}, "model.wrong-type", "model.parameters.sd", ""),
        ({"parameters": {"mean": "Ordered(Normal(0, 1)"}}, "model.syntax", "model.parameters.mean", r"'\('"),
        (
            {"parameters": {"mean": "PositiveOrdered(Normal(0, 1))"}},
            "model.bad-prior",
            "model.parameters.mean",
            "PositiveOrdered",
        ),
        (
            {"parameters": {"mean": ["Ordered(Normal(0, 1))", "Normal(0, 1)"]}},
            "model.wrong-length",
            "model.parameters.mean",
            "Ordered",
        ),
        (
            {"columns": ["y", "x"], "parameters": {"mean": "Ordered(Normal(0, 1))"}},
            "model.bad-dimensions",
            "model.parameters.mean",
            "order",
        ),
        (
            {"states": "infinite", "parameters": {"mean": "Ordered(Normal(0, 1))"}},
            "model.unsupported",
            "model",
            "order",
        ),
    ],
)
def test_errors_are_one_line(content, code, where, match):
    with refused(code, match, where=where):
        bl.check(model(**content), table())


def test_em_says_where_an_order_is_beyond_it():
    declared = model(**CASES["rates in order"], topology="left_right")
    with refused("engine.refused.unsupported", "nuts.*map"):
        bl.fit(declared, table(), "em", seed=1, progress=False, runs=None)


def test_mixtures_say_what_puts_components_in_order():
    with refused("model.conflict", "order: column", where="model"):
        bl.Model(
            model={"family": "mixture", "columns": ["y"], "components": 2, "priors": {"mean": "Ordered(Normal(0, 1))"}}
        )


@pytest.mark.parametrize("emission", ["gaussian", "poisson"])
def test_a_short_series_is_decoded_where_everything_is_given(emission):
    """Three rows, whose input does not vary: nothing is estimated, and the sums over all paths are the answer."""
    y, x = np.array([0.0, 3.0, 2.0]), np.ones(3)
    start, moves = np.array([0.5, 0.5]), np.array([[0.75, 0.25], [0.5, 0.5]])
    known = LINES | ({"sd": [1.0, 2.0]} if emission == "gaussian" else {"intercept": [0.0, 1.0]})
    centre = np.array(known["intercept"]) + np.array(LINES["slope"])[:, 0]
    law = stats.norm(centre, [1.0, 2.0]) if emission == "gaussian" else stats.poisson(np.exp(centre))
    each = law.pdf(y[:, None]) if emission == "gaussian" else law.pmf(y[:, None])
    paths = list(itertools.product(range(2), repeat=3))
    weights = np.array([
        start[p[0]] * moves[p[0], p[1]] * moves[p[1], p[2]] * np.prod(each[range(3), p]) for p in paths
    ])  # fmt: skip
    shares = [weights[[p[t] == 1 for p in paths]].sum() / weights.sum() for t in range(3)]
    chain = {"initial": start.tolist(), "transition": moves.tolist()}
    declared = model(emission=emission, inputs=["x"], parameters=known, **chain)
    states = decode(declared, {"y": y, "x": x}, "smooth")
    np.testing.assert_allclose(states.iloc[:, -1], shares, atol=1e-8)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(("low", "high"), [(0.0, 2.0), (100.0, 200.0), (0.001, 0.002)])
def test_em_begins_within_written_priors(low, high):
    """Of states far apart the mode is the root mean square about the known means, or the end next to it."""
    rng = np.random.default_rng(1)
    y = np.r_[rng.normal(0, 1, 40), rng.normal(800, 1, 40)]
    declared = bl.Model(
        model=bl.HMM(columns=["y"], states=2, parameters={"mean": [0, 800], "sd": f"Uniform({low}, {high})"})
    )
    fit = bl.fit(declared, {"y": y}, method="em", restarts=2, seed=1, progress=False, runs=None)
    squares = np.array([np.mean(y[:40] ** 2), np.mean((y[40:] - 800) ** 2)])
    expected = np.clip(np.sqrt(squares), low, high)
    np.testing.assert_allclose(np.sort(fit.posterior["sd"].to_numpy().ravel()), np.sort(expected), rtol=2e-3)
