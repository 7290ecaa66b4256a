"""Recursions over vectors, and nodes that look back at each other, against loops written by hand."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from pytensor import function
from pytensor.compile.mode import Mode
from pytensor.graph.replace import clone_replace
from scipy import stats
from scipy.special import logsumexp

import bayeslab as bl
from tests.refusals import refused

PYTHON = Mode("py", "fast_compile")


def built(nodes, data, lengths=None, **source):
    model = bl.Model(data=source, dims=lengths or {}, model={"family": "graph", "nodes": nodes})
    return bl.to_pymc(model, data)


def log_density(model: pm.Model, at: dict[str, np.ndarray], *, slope: str | None = None):
    """Joint log density (without Jacobians) at values of the parameters on their own scale, or its slope for one."""
    symbols = {rv: rv.type() for rv in model.free_RVs}
    total = sum(term.sum() for term in (pm.logp(rv, symbols[rv]) for rv in model.free_RVs))
    total = total + sum(pm.logp(rv, model.rvs_to_values[rv]).sum() for rv in model.observed_RVs)
    total = total + sum(term.sum() for term in model.potentials)
    import pytensor.tensor as pt

    (output,) = clone_replace([total], symbols)
    by_name = {rv.name: symbol for rv, symbol in symbols.items()}
    output = output if slope is None else pt.grad(output, by_name[slope])
    made = function(list(symbols.values()), output, mode=PYTHON, on_unused_input="ignore")
    return made(*(np.asarray(at[rv.name], dtype=rv.dtype) for rv in symbols))


def prior(*terms):
    return float(sum(np.sum(term) for term in terms))


# ------------------------------------------------------------------------------------------ vectors

TRANSITION = np.array([[0.7, 0.3], [0.2, 0.8]])
SERIES = np.array([0.2, 1.9, 2.3, -0.4, 0.1, 2.2])


@pytest.mark.slow(why="compiles")
def test_a_forward_recursion_has_the_evidence_of_the_hidden_markov_model():
    nodes = {
        "m[state]": "Normal(0, 3)",
        "e[state, time]": "-0.5 * (y - m) ** 2 - 0.5 * log(2 * 3.141592653589793)",
        "a[next, time]": "rename(e, state, next)"
        " + logsumexp(log(P) + rename(previous(a, 1, start=where(index(next) == 0, 0, -1e9)), next, state), state)",
        "whole": "Potential(logsumexp(a[next, 5], next))",
    }
    model = built(
        nodes, {"y": SERIES, "P": TRANSITION}, {"state": 2, "next": "state"}, rows="time", dims={"P": ["state", "next"]}
    )
    m = np.array([0.1, 1.8])
    forward = np.log(TRANSITION[0]) + stats.norm.logpdf(SERIES[0], m)
    for y in SERIES[1:]:
        forward = logsumexp(forward[:, None] + np.log(TRANSITION), axis=0) + stats.norm.logpdf(y, m)
    expected = logsumexp(forward) + prior(stats.norm.logpdf(m, 0, 3))
    assert log_density(model, {"m": m}) == pytest.approx(expected, abs=1e-9)
    gradient = log_density(model, {"m": m}, slope="m")
    for k in range(2):
        step = np.eye(2)[k] * 1e-6
        numeric = (log_density(model, {"m": m + step}) - log_density(model, {"m": m - step})) / 2e-6
        assert gradient[k] == pytest.approx(numeric, rel=1e-6)


VAR = {
    "A[v, w]": "Normal(0, 1)",
    "B[v, w]": "Normal(0, 1)",
    "s": "HalfNormal(1)",
    "y[v, time]": "Normal(A @ rename(lag(y, 1), v, w) + B @ rename(lag(y, 2), v, w), s)",
}


def test_a_vector_autoregression_of_second_order():
    rng = np.random.default_rng(5)
    y, a, b, s = rng.normal(size=(2, 7)), rng.normal(size=(2, 2)) / 3, rng.normal(size=(2, 2)) / 3, 0.8
    model = built(VAR, {"y": y}, {"v": 2, "w": "v"}, dims={"y": ["v", "time"]})
    expected = prior(stats.norm.logpdf(a), stats.norm.logpdf(b), stats.halfnorm.logpdf(s))
    for t in range(2, 7):
        expected += stats.norm.logpdf(y[:, t], a @ y[:, t - 1] + b @ y[:, t - 2], s).sum()
    assert log_density(model, {"A": a, "B": b, "s": s}) == pytest.approx(expected, abs=1e-9)


STATES = {
    "q": "HalfNormal(1)",
    "F[k, j]": "Normal(0, 1)",
    "x[k, time]": "Normal(F @ rename(previous(x, 1, start=0), k, j), q)",
    "level[time]": "sum(x, k)",
    "y[time]": "Normal(level, 0.5)",
}


@pytest.mark.slow(why="compiles")
def test_a_vector_state_space_model_integrates_to_the_kalman_filters_evidence():
    """Its joint density of states and data is Gaussian: that over the states by a determinant, that of y by filtering."""
    y, q, f = np.array([0.3, -0.2, 1.1, 0.7]), 0.6, np.array([[0.9, 0.4], [0.0, 0.5]])
    model = built(STATES, {"y": y}, {"k": 2, "j": "k"}, rows="time")
    n = 8

    def joint(flat):
        return log_density(model, {"q": q, "F": f, "x": flat.reshape(2, 4)})

    zero, eye = joint(np.zeros(n)), np.eye(n)
    # A quadratic function from its values: slope and curvature by exact differences.
    up, down = (np.array([joint(sign * e) for e in eye]) for sign in (1, -1))
    slope, hessian = (up - down) / 2, np.diag(up + down - 2 * zero)
    for i in range(n):
        for j in range(i):
            hessian[i, j] = hessian[j, i] = joint(eye[i] + eye[j]) - up[i] - up[j] + zero
    integral = zero + 0.5 * slope @ np.linalg.solve(-hessian, slope)
    integral += 0.5 * n * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(-hessian)[1]
    mean, cov, expected = np.zeros(2), np.zeros((2, 2)), prior(stats.norm.logpdf(f), stats.halfnorm.logpdf(q))
    for value in y:
        mean, cov = f @ mean, f @ cov @ f.T + q**2 * np.eye(2)
        h = np.ones(2)
        variance = h @ cov @ h + 0.25
        expected += stats.norm.logpdf(value, h @ mean, np.sqrt(variance))
        gain = cov @ h / variance
        mean, cov = mean + gain * (value - h @ mean), cov - np.outer(gain, h @ cov)
    assert integral == pytest.approx(expected, abs=1e-7)


def test_sums_and_products_over_a_dimension_of_the_past():
    nodes = {
        "c": "Normal(0, 1)",
        "h[k, time]": "c * sum(previous(h, 1, start=1), k) + 0.1 * dot(w, previous(h, 1, start=1), k) + x",
        "y[time]": "Normal(h[1, time], 1)",
    }
    x, w, y = np.array([0.3, -0.1, 0.2]), np.array([1.0, 2.0]), np.array([1.0, 0.5, 2.0])
    model = built(nodes, {"x": x, "w": w, "y": y}, {"k": 2}, rows="time", dims={"w": ["k"]})
    c, h, expected = 0.4, np.ones(2), stats.norm.logpdf(0.4)
    for t in range(3):
        h = np.full(2, c * h.sum() + 0.1 * w @ h + x[t])
        expected += stats.norm.logpdf(y[t], h[1])
    assert log_density(model, {"c": c}) == pytest.approx(expected, abs=1e-9)


def test_a_factor_inside_a_recursion():
    nodes = {
        "r[season]": "Normal(0, 1)",
        "h[time]": "r[season] * previous(h, 1, start=1) + (season == 'wet')",
        "y[time]": "Normal(h, 1)",
    }
    season, y, r = ["dry", "wet", "wet", "dry"], np.array([0.1, 2.0, 1.0, 0.4]), np.array([0.5, -0.3])
    model = built(nodes, {"season": season, "y": y}, rows="time")
    h, expected = 1.0, prior(stats.norm.logpdf(r))
    for word, value in zip(season, y, strict=True):
        h = r[int(word == "wet")] * h + (word == "wet")
        expected += stats.norm.logpdf(value, h)
    assert log_density(model, {"r": r}) == pytest.approx(expected, abs=1e-9)


# ------------------------------------------------------------------- nodes that look back at each other


def test_deterministic_nodes_that_look_back_at_each_other():
    """Prey and predators, in steps; written so that the first in the file needs the second."""
    nodes = {
        "a": "Normal(0, 1)",
        "prey[time]": "previous(prey, 1, start=10) * exp(a - 0.02 * lag(fox, 1, start=4))",
        "fox[time]": "0.8 * previous(fox, 1, start=4) + 0.05 * prey + shock",
        "shock": "Normal(0, 1)",
        "seen[time]": "Normal(prey + fox, 1)",
    }
    y = np.array([14.0, 15.5, 16.0])
    model = built(nodes, {"seen": y}, rows="time")
    a, shock, prey, fox = 0.1, 0.3, 10.0, 4.0
    expected = prior(stats.norm.logpdf([a, shock]))
    for value in y:
        prey = prey * np.exp(a - 0.02 * fox)
        fox = 0.8 * fox + 0.05 * prey + shock
        expected += stats.norm.logpdf(value, prey + fox)
    assert log_density(model, {"a": a, "shock": shock}) == pytest.approx(expected, abs=1e-9)
    gradient = log_density(model, {"a": a, "shock": shock}, slope="a")
    ends = [log_density(model, {"a": a + step, "shock": shock}) for step in (1e-6, -1e-6)]
    assert gradient == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)


RESIDUALS = {
    "m": "Normal(0, 1)",
    "phi": "Normal(0, 1)",
    "r[time]": "y - m * x",
    "y[time]": "Normal(m * x + phi * lag(r, 1, start=0), 1)",
}


def test_looking_back_through_a_function_of_an_observed_node():
    x, y, m, phi = np.array([1.0, 2.0, 0.5]), np.array([0.9, 2.5, -0.3]), 0.7, 0.4
    model = built(RESIDUALS, {"x": x, "y": y}, rows="time")
    residual = y - m * x
    mean = m * x + phi * np.append(0.0, residual[:-1])
    expected = prior(stats.norm.logpdf([m, phi]), stats.norm.logpdf(y, mean))
    assert log_density(model, {"m": m, "phi": phi}) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("nodes", "code", "match"),
    [
        ({"s": "Normal(0, 1)", "r[time]": "y - s", "y[time]": "Normal(s + r, 1)"}, "model.cycle", r"^model\.nodes\.r\[time\].*r -> y"),
        (
            {"a[time]": "0.5 * lag(b, 1)", "b[time]": "a + 1", "s": "Normal(0, 1)", "y[time]": "Normal(s * b, 1)"},
            "model.bad-start", r"^model\.nodes\.a\[time\]",
        ),
        (
            {"u[time]": "Normal(lag(v, 1, start=0), 1)", "v[time]": "Normal(lag(u, 1, start=0), 1)",
             "y[time]": "Normal(u, 1)"},
            "model.cycle", r"^model\.nodes\.u\[time\].*u -> v",
        ),
    ],
)  # fmt: skip
def test_circles_that_have_no_order_are_refused(nodes, code, match):
    with refused(code, match):
        built(nodes, {"y": np.array([1.0, 2.0])}, rows="time")


def test_a_categorical_recursion_is_drawn_row_by_row():
    """The prior of a chain, by its transition probabilities."""
    nodes = {"z[time]": "Categorical(P[previous(z, 1, start=1), next])", "y[time]": "Normal(z, 0.1)"}
    model = bl.Model(
        data={"dims": {"P": ["state", "next"]}, "rows": "time"},
        dims={"state": 2, "next": "state", "time": 2_000},
        model={"family": "graph", "nodes": nodes},
    )
    z = bl.simulate(model, {"P": TRANSITION}, draws=2, seed=1)["prior"]["z"].values[0, 1]
    before = np.append(1, z[:-1])
    for state in (0, 1):
        n = np.sum(before == state)
        share = np.mean(z[before == state])
        p = TRANSITION[state, 1]
        assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / n)


# ------------------------------------------------------------------------------------------- starts


@pytest.mark.parametrize("word", ["previous", "lag"])
def test_a_start_is_that_of_its_own_call(word):
    """Of an observed series; a call multiplied by 0 changes nothing."""
    y = np.array([0.1, 0.5, -0.3, 0.8, 0.2])
    far = np.array([-1, -1, *y[:-2]])
    for more in ("", f" + 0 * {word}(y, 1, start=20)"):
        nodes = {"b": "Normal(0, 1)", "y[t]": f"Normal(b + 0.5 * {word}(y, 2, start=-1){more}, 0.5)"}
        model = built(nodes, {"y": y}, rows="t")
        expected = prior(stats.norm.logpdf(0.3), stats.norm.logpdf(y, 0.3 + 0.5 * far, 0.5))
        assert log_density(model, {"b": 0.3}) == pytest.approx(expected, abs=1e-9)


def by_hand(length, far, near, step):
    out = []
    for t in range(length):
        out.append(step(out[t - 2] if t > 1 else far, out[t - 1] if t else near))
    return np.array(out)


FAR = "0.5 * previous(h, 2, start=8) + 0.25 * previous(h, 1, start=a)"
PATH = by_hand(5, 8, 100, lambda two, one: 0.5 * two + 0.25 * one)


@pytest.mark.parametrize(
    "nodes",
    [
        {"a": "Normal(100, 1e-9)", "h[t]": f"Normal({FAR}, 1e-9)"},
        pytest.param({"a": "Normal(100, 1e-9)", "h[t]": FAR}, marks=pytest.mark.slow(why="compiles")),
        pytest.param(
            {
                "a": "Normal(100, 1e-9)",
                "h[t]": f"Normal({FAR.replace('previous', 'lag')} + g, 1e-9)",
                "g[t]": "Normal(0 * lag(h, 1, start=3), 1e-9)",
            },
            marks=pytest.mark.slow(why="compiles"),
        ),
    ],
    ids=["random", "deterministic", "together"],
)
def test_rows_drawn_one_by_one_begin_with_the_start_of_each_call(nodes):
    model = bl.Model(data={"rows": "t"}, dims={"t": 5}, model={"family": "graph", "nodes": nodes})
    tree = bl.simulate(model, draws=2, seed=1)
    drawn = next(tree[g]["h"].to_numpy() for g in ("prior", "prior_predictive") if "h" in tree[g].data_vars)
    np.testing.assert_allclose(drawn[0], np.tile(PATH, (2, 1)), atol=1e-6)


def test_the_density_of_a_latent_series_begins_with_the_start_of_each_call():
    nodes = {"a": "Normal(0, 1)", "h[t]": f"Normal({FAR}, 1)", "y[t]": "Normal(h, 1)"}
    model = built(nodes, {"y": SERIES[:4]}, rows="t")
    h = np.array([0.3, -1.0, 2.0, 0.5])
    mean = 0.5 * np.array([8, 8, *h[:2]]) + 0.25 * np.array([0.7, *h[:3]])
    expected = prior(stats.norm.logpdf(0.7), stats.norm.logpdf(h, mean), stats.norm.logpdf(SERIES[:4], h))
    assert log_density(model, {"a": 0.7, "h": h}) == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow(why="compiles")
def test_a_series_of_states_is_predicted_for_rows_of_its_own():
    """Nothing is known of a new series: its states are drawn anew, at every posterior draw."""
    nodes = {"x[obs_id]": "Normal(previous(x, 1, start=0), 0.6)", "y[obs_id]": "Normal(x, 0.8)"}
    fit = bl.fit(
        bl.Model(model={"family": "graph", "nodes": nodes}),
        {"y": [0.1, 0.4, 1.2, 0.3]},
        runs=None,
        seed=1,
        progress=False,
    )
    with pytest.warns(UserWarning, match="begins anew"):
        drawn = fit.predict({"y": [np.nan] * 3})
    assert len(drawn) == 3
    # 1,000 draws or more: five standard errors of a standard deviation are below 0.12 of it.
    np.testing.assert_allclose(drawn["sd"], np.sqrt(0.36 * np.arange(1, 4) + 0.64), rtol=0.12)
