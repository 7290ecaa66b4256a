"""Several hidden chains: against sums over the paths of all chains, plain models, planted numbers, and a grid."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from scipy import optimize, stats

import bayeslab as bl
from bayeslab.families import hmm
from bayeslab.families.hmm.model import hidden_of
from bayeslab.posterior.chains import product_labels
from bayeslab.posterior.observed.additive import AdditiveGaussian
from bayeslab.posterior.transforms import constrained
from tests.families._climb import climbed
from tests.families._interpreted import Interpreted
from tests.refusals import refused

ADDITIVE = {"columns": ["y", "x"], "chains": {"season": 2, "weather": ["dry", "wet", "storm"]}, "sequence": "who"}
TWINS = {"columns": ["y"], "chains": {"a": 2, "b": 2}}
JOINT = {"columns": ["n"], "chains": {"a": 2, "b": 2, "c": 2}, "emission": "poisson"}
COUPLED = {
    "columns": ["n", "y"],
    "chains": {"a": 2, "b": 3},
    "coupling": "coupled",
    "emits": {"a": ["y"], "b": ["n"]},
    "emission": {"y": "gaussian", "n": "poisson"},
}
SWITCHING = {"columns": ["y"], "chains": {"which": 2, "calm": 2, "wild": 3}, "coupling": "switching"}
ALL = {"additive": ADDITIVE, "joint": JOINT, "coupled": COUPLED, "switching": SWITCHING}


def model(**content):
    return bl.Model(name="m", model={"family": "hmm"} | content)


def table_of(name, rng, n=6):
    """A few rows, some cells missing."""
    table = {"y": rng.normal(0, 2, n), "x": rng.normal(3, 1, n), "n": rng.poisson(3, n).astype(float)}
    table["y"][2] = table["x"][1] = table["x"][2] = table["n"][3] = np.nan
    own = {column: table[column] for column in ALL[name]["columns"]}
    return own | ({"who": ["u"] * 2 + ["v"] * (n - 2)} if name == "additive" else {})


def drawn(hidden, rng):
    """Values of everything unknown."""
    out = hidden.chain.draw(rng)
    for part in hidden.parts:
        for name in part.learned:
            value = rng.normal(0, 1, part.shape(name))
            positive = part.parameter(name) in ("sd", "rate")
            out[name] = np.exp(0.3 * value) if positive else value
            if name.startswith("effect"):
                out[name] = value - value.mean(axis=0)
    return out


def by_paths(sizes, start, move, emission, offsets):
    """log p of each sequence by the sum over the paths of all chains; ``emission(t, z)`` are probabilities."""
    joint, out = list(np.ndindex(*sizes)), []
    for begin, end in pairwise(offsets):
        rows = [{z: emission(t, z) for z in joint} for t in range(begin, end)]
        moves = {(a, b): move(a, b) for a in joint for b in joint}
        total = 0.0
        for path in product(joint, repeat=end - begin):
            p = start(path[0])
            for step in pairwise(path):
                p *= moves[step]
            for row, z in zip(rows, path, strict=True):
                p *= row[z]
            total += p
        out.append(np.log(total))
    return np.array(out)


def cell(value, density):
    return 1.0 if np.isnan(value) else density(value)


def law(name, own, table):
    """Start, move and emission as functions of the states of all chains, written from the declaration."""
    chains = list(ALL[name]["chains"])
    y, x, n = (np.asarray(table.get(column, [])) for column in ("y", "x", "n"))

    def start(z):
        return np.prod([own[f"initial_{c}"][k] for c, k in zip(chains, z, strict=True)])

    def move(a, b):
        if name == "coupled":
            return own["transition_a"][a][b[0]] * own["transition_b"][a][b[1]]
        return np.prod([own[f"transition_{c}"][i, j] for c, i, j in zip(chains, a, b, strict=True)])

    def emission(t, z):
        if name == "additive":
            mean = own["mean"] + own["effect_season"][z[0]] + own["effect_weather"][z[1]]
            cells = [(y[t], 0), (x[t], 1)]
            return np.prod([cell(v, lambda v, j=j: stats.norm.pdf(v, mean[j], own["sd"][j])) for v, j in cells])
        if name == "joint":
            return cell(n[t], lambda v: stats.poisson.pmf(v, own["rate"][4 * z[0] + 2 * z[1] + z[2]]))
        if name == "coupled":
            p = cell(y[t], lambda v: stats.norm.pdf(v, own["y_mean_a"][z[0]], own["y_sd_a"][z[0]]))
            return p * cell(n[t], lambda v: stats.poisson.pmf(v, own["n_rate_b"][z[1]]))
        seen, k = ("calm", z[1]) if z[0] == 0 else ("wild", z[2])
        return cell(y[t], lambda v: stats.norm.pdf(v, own[f"mean_{seen}"][k], own[f"sd_{seen}"][k]))

    return start, move, emission


def resolved(name, seed=0, n=5):
    rng = np.random.default_rng(seed)
    declared = model(**ALL[name])
    table = table_of(name, rng, n)
    data = bl.check(declared, table)
    return declared, data, table, hidden_of(declared, data), rng


# --------------------------------------------------------------------------------- the likelihood


def names_of(name):
    """What coupled columns with words of their own are called."""
    return {"y_mean_a": "mean_a", "y_sd_a": "sd_a", "n_rate_b": "rate_b"} if name == "coupled" else {}


@pytest.mark.parametrize("name", ALL)
def test_likelihood_is_the_sum_over_all_paths(name):
    declared, data, table, hidden, rng = resolved(name, n=5 if name == "additive" else 4)
    offsets = hidden.sequences.offsets
    for _ in range(2):
        own = drawn(hidden, rng)
        want = by_paths(
            hidden.chain.sizes, *law(name, own | {k: own[v] for k, v in names_of(name).items()}, table), offsets
        )
        found = next(iter(hmm.compile(declared, data).log_likelihoods({n: v[None] for n, v in own.items()}).values()))[
            1
        ][0]
        assert found.sum() == pytest.approx(want.sum(), rel=1e-10)
        value, _ = hmm.compile(declared, data).em_plan.problem(False).expect(own)
        assert value == pytest.approx(want.sum(), rel=1e-10)


def test_coupled_chains_that_ignore_each_other_are_two_models():
    rng = np.random.default_rng(2)
    table = {"y": rng.normal(0, 2, 40), "n": rng.poisson(3, 40).astype(float)}
    table["y"][3:6] = np.nan
    declared = model(**COUPLED)
    data = bl.check(declared, table)
    own = drawn(hidden_of(declared, data), rng)
    a, b = rng.dirichlet(np.ones(2), 2), rng.dirichlet(np.ones(3), 3)
    own |= {"transition_a": np.repeat(a[:, None], 3, axis=1), "transition_b": np.repeat(b[None], 2, axis=0)}
    both = hmm.compile(declared, data).log_likelihoods({n: v[None] for n, v in own.items()})["row"][1].sum()
    one = model(columns=["y"], states=2)
    alone = {"initial": own["initial_a"], "transition": a, "mean": own["mean_a"], "sd": own["sd_a"]}
    two = model(columns=["n"], states=3, emission="poisson")
    other = {"initial": own["initial_b"], "transition": b, "rate": own["rate_b"]}
    apart = [
        hmm.compile(m, bl.check(m, table)).log_likelihoods({n: v[None] for n, v in v_.items()})["row"][1].sum()
        for m, v_ in ((one, alone), (two, other))
    ]
    assert both == pytest.approx(sum(apart), rel=1e-12)


def test_a_switch_with_one_chain_and_a_second_chain_without_states_are_the_plain_model():
    rng = np.random.default_rng(3)
    table = {"y": rng.normal(0, 2, 50)}
    plain = model(columns=["y"], states=3)
    values = drawn(hidden_of(plain, bl.check(plain, table)), rng)
    want = hmm.compile(plain, bl.check(plain, table)).log_likelihoods({n: v[None] for n, v in values.items()})["row"][1]
    switch = model(columns=["y"], chains={"which": ["only"], "only": 3}, coupling="switching")
    renamed = {f"{n}_only": v[None] for n, v in values.items()}
    found = hmm.compile(switch, bl.check(switch, table)).log_likelihoods(renamed)["row"][1]
    np.testing.assert_allclose(found, want, rtol=1e-12)
    joint = model(columns=["y"], chains={"only": 3, "still": 1}, effects="joint")
    renamed = {(f"{n}_only" if n in ("initial", "transition") else n): v[None] for n, v in values.items()}
    np.testing.assert_allclose(
        hmm.compile(joint, bl.check(joint, table)).log_likelihoods(renamed)["row"][1], want, rtol=1e-12
    )


# --------------------------------------------------------------------------------- the graph


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", ALL)
def test_the_graphs_density_is_em_s_and_its_slope_is_right(name):
    declared, data, _, hidden, rng = resolved(name, seed=1)
    graph = hmm.compile(declared, data).graph()
    density = Interpreted(graph)
    points = [density.near(rng) for _ in range(2)]
    problem, heights = hmm.compile(declared, data).em_plan.problem(True), []
    for point in points:
        everything = constrained(graph, density.split(point[None]))
        for key, behind in {k: v for part in hidden.parts for k, v in part.internal(everything).items()}.items():
            np.testing.assert_allclose(behind, everything[key], rtol=1e-9)
        theta = {n: v[0] for n, v in everything.items() if n in hidden.learned}
        heights.append(problem.expect(theta)[0] + problem.log_prior(theta))
        assert set(theta) == set(hidden.learned)
    values = [density.value(point) for point in points]
    assert values[1] - values[0] == pytest.approx(heights[1] - heights[0], rel=1e-7)
    np.testing.assert_allclose(density.slope(points[0]), density.differences(points[0]), rtol=2e-5, atol=2e-6)


def test_the_prior_of_effects_is_normal_with_sum_zero():
    """By scipy: effects are Normal(0, sd² / κ (I - 1/K)), whatever their coordinates."""
    _, _, _, hidden, rng = resolved("additive")
    part = hidden.parts[0]
    prior = part.emission.prior
    own = [drawn(hidden, rng) for _ in range(2)]

    def by_hand(v):
        total = 0.0
        for j in range(2):
            s = v["sd"][j]
            total += stats.norm.logpdf(v["mean"][j], prior.mean[j], s / np.sqrt(prior.kappa))
            total += stats.invgamma.logpdf(s**2, prior.nu / 2, scale=prior.scale[j] / 2)
            for name, k in (("effect_season", 2), ("effect_weather", 3)):
                spread = s**2 / prior.kappa * (np.eye(k) - 1 / k)
                total += stats.multivariate_normal.logpdf(v[name][:, j], np.zeros(k), spread, allow_singular=True)
        return total

    found = [part.emission.log_prior(part.to_emission(v)) for v in own]
    assert found[1] - found[0] == pytest.approx(by_hand(own[1]) - by_hand(own[0]), rel=1e-10)
    for name, value in part.from_emission(part.to_emission(own[0])).items():
        np.testing.assert_allclose(value, own[0][name], atol=1e-12)


# --------------------------------------------------------------------------------- EM


@pytest.mark.parametrize("prior", [True, False])
def test_the_m_step_of_effects_is_where_a_general_optimiser_ends(prior):
    rng = np.random.default_rng(0)
    rows = 1e3 + 3 * rng.standard_normal((60, 2))
    rows[3, 0] = rows[7, 0] = rows[7, 1] = np.nan
    weights = rng.dirichlet(np.ones(6), 60)
    emission = AdditiveGaussian((2, 3), 2)
    emission = emission.with_prior(rows, 6) if prior else emission
    found = emission.maximise(emission.statistics(rows, weights))

    def falls(x):
        own = {"coefficients": x[:8].reshape(4, 2), "variance": np.exp(x[8:])}
        return -np.sum(weights * emission.log_density(own, rows)) - emission.log_prior(own)

    top = np.append(found["coefficients"].ravel(), np.log(found["variance"]))
    away = optimize.minimize(falls, top + 0.3 * rng.standard_normal(10), method="BFGS", options={"gtol": 1e-7})
    assert falls(top) <= away.fun + 1e-8
    np.testing.assert_allclose(away.x, top, rtol=1e-4, atol=1e-4)


@pytest.mark.slow(why="compiles")
def test_em_knows_the_priors_written_for_a_chain():
    """EM's log posterior is the graph's up to a constant, and each step raises it."""
    written = {"y_mean_a": "Normal(1, 0.5)", "y_sd_a": "Gamma(3, 2)", "n_rate_b": "Gamma(2, 0.5)"}
    names = names_of("coupled")
    declared = model(**COUPLED, parameters={names[name]: text for name, text in written.items()})
    rng = np.random.default_rng(5)
    data = bl.check(declared, table_of("coupled", rng, 60))
    graph, plan = hmm.compile(declared, data).graph(), hmm.compile(declared, data).em_plan
    problem = plan.problem(True)
    density = Interpreted(graph)
    gaps = []
    for _ in range(3):
        point = density.near(rng)
        theta = {n: v for n, v in density.parameters(point).items() if n in problem.kinds()}
        gaps.append(density.value(point) - problem.expect(theta)[0] - problem.log_prior(theta))
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-8)
    theta = plan.start(rng)
    climbed(problem, theta, 20)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("prior", [True, False])
def test_em_never_falls(name, prior):
    declared, data, _, _, rng = resolved(name, seed=2, n=60)
    problem = (plan := hmm.compile(declared, data).em_plan).problem(prior)
    theta = plan.start(rng)
    theta, _ = climbed(problem, theta, 15)
    back = problem.unflatten(problem.flatten(theta))
    for key, value in theta.items():
        np.testing.assert_allclose(back[key], value, rtol=1e-9, atol=1e-12)


def walk(rng, matrix, n):
    out = np.zeros(n, int)
    for t in range(1, n):
        out[t] = rng.choice(len(matrix), p=matrix[out[t - 1]])
    return out


SLOW, QUICK = np.array([[0.97, 0.03], [0.04, 0.96]]), np.array([[0.8, 0.2], [0.3, 0.7]])


def planted_twins(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    a, b = walk(rng, SLOW, n), walk(rng, QUICK, n)
    return a, b, {"y": 1 + np.array([-2.0, 2.0])[a] + np.array([-1.0, 1.0])[b] + 0.5 * rng.standard_normal(n)}


def within(found, want, errors, times=4):
    """Within so many standard errors."""
    np.testing.assert_array_less(np.abs(np.asarray(found) - want), times * np.asarray(errors))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.slow(why="statistical")
def test_em_recovers_two_chains_that_look_alike(seed):
    """Standard errors as if the paths were seen, and a half more."""
    a, b, table = planted_twins()
    fit = bl.fit(model(**TWINS), table, method="em", seed=seed, runs=None, progress=False)
    own = {name: value.to_numpy()[0, 0] for name, value in fit.posterior.data_vars.items()}
    # The chain that matters most comes first.
    within(own["effect_a"], [-2.0, 2.0], 1.5 * 0.5 / np.sqrt(3000))
    within(own["effect_b"], [-1.0, 1.0], 1.5 * 0.5 / np.sqrt(3000))
    assert own["effect_a"].sum() == pytest.approx(0, abs=1e-12)
    within(own["sd"], 0.5, 1.5 * 0.5 / np.sqrt(6000))
    for name, path, matrix in (("a", a, SLOW), ("b", b, QUICK)):
        rows = np.bincount(path[:-1], minlength=2)
        within(own[f"transition_{name}"][:, 0], matrix[:, 0], 1.5 * np.sqrt(matrix[:, 0] * matrix[:, 1] / rows))
    found = fit.decode()
    assert list(found.columns) == ["obs_id", "a", "b", "probability"]
    assert np.mean(found["a"] - 1 == a) > 0.99
    assert np.mean(found["b"] - 1 == b) > 0.96
    smoothed = fit.decode(method="smooth")
    np.testing.assert_allclose(smoothed["P(b=1)"] + smoothed["P(b=2)"], 1.0)


@pytest.mark.slow(why="statistical")
def test_em_recovers_coupled_chains():
    rng = np.random.default_rng(0)
    to_a = np.array([[[0.95, 0.05], [0.6, 0.4]], [[0.4, 0.6], [0.05, 0.95]]])
    to_b = np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.7, 0.3], [0.1, 0.9]]])
    n, a, b = 4000, np.zeros(4000, int), np.zeros(4000, int)
    for t in range(1, n):
        a[t] = rng.choice(2, p=to_a[a[t - 1], b[t - 1]])
        b[t] = rng.choice(2, p=to_b[a[t - 1], b[t - 1]])
    table = {"y": np.array([-2.0, 2.0])[a] + rng.standard_normal(n), "n": rng.poisson(np.array([1.0, 9.0])[b])}
    declared = model(**COUPLED | {"chains": {"a": 2, "b": 2}})
    fit = bl.fit(declared, table, method="em", seed=1, runs=None, progress=False)
    own = {name: value.to_numpy()[0, 0] for name, value in fit.posterior.data_vars.items()}
    counts = np.bincount(2 * a[:-1] + b[:-1], minlength=4).reshape(2, 2)
    for name, want in (("transition_a", to_a), ("transition_b", to_b)):
        within(own[name][..., 0], want[..., 0], 1.5 * np.sqrt(want[..., 0] * want[..., 1] / counts))
    within(own["mean_a"], [-2, 2], 1.5 / np.sqrt(np.bincount(a)))
    within(own["rate_b"], [1, 9], 1.5 * np.sqrt(np.array([1, 9]) / np.bincount(b)))
    found = fit.decode()
    assert np.mean(found["a"] - 1 == a) > 0.97
    assert np.mean(found["b"] - 1 == b) > 0.97


@pytest.mark.slow(why="statistical")
def test_em_recovers_chains_behind_a_switch_and_numbers_them_by_rule():
    rng = np.random.default_rng(1)
    n = 2000
    which, low, high = walk(rng, SLOW, n), walk(rng, QUICK, n), walk(rng, QUICK[::-1, ::-1], n)
    means = np.where(which == 0, np.array([1.0, 4.0])[high], np.array([-5.0, -3.0])[low])
    table = {"y": means + 0.5 * rng.standard_normal(n)}
    declared = model(columns=["y"], chains={"which": 2, "a": 2, "b": 2}, coupling="switching")
    fit = bl.fit(declared, table, method="em", seed=1, runs=None, progress=False)
    own = {name: value.to_numpy()[0, 0] for name, value in fit.posterior.data_vars.items()}
    within(own["mean_a"], [-5, -3], 1.5 * 0.5 / np.sqrt(250))
    within(own["mean_b"], [1, 4], 1.5 * 0.5 / np.sqrt(250))
    found = fit.decode()
    assert np.mean((found["which"] == "a") == (which == 1)) > 0.98
    assert np.mean((found["a"] - 1 == low)[which == 1]) > 0.9


# --------------------------------------------------------------------------------- labels


@pytest.mark.parametrize("name", ["twins", "joint", "coupled", "switching"])
def test_labels_are_made_to_agree(name):
    """Draws whose states and chains traded places come back as they were."""
    rng = np.random.default_rng(4)
    declared = model(
        **{"twins": TWINS, "switching": SWITCHING | {"chains": {"which": 2, "a": 2, "b": 2}}}.get(name, ALL.get(name))
    )
    table = {"y": rng.normal(0, 3, 80), "n": rng.poisson(4, 80)}
    data = bl.check(declared, {c: table[c] for c in declared.model.columns})
    hidden = hidden_of(declared, data)
    middle = hidden.numbered(hmm.compile(declared, data).em_plan.start(rng))
    n = 30
    draws = {}
    for key, value in middle.items():
        if key.startswith(("initial", "transition")):
            draws[key] = np.stack([rng.dirichlet(200 * row.ravel() + 5, 1)[0] for _ in range(n) for row in
                                   value.reshape(-1, value.shape[-1])]).reshape(n, *value.shape)  # fmt: skip
        else:
            draws[key] = value * np.exp(0.01 * rng.standard_normal((n, *value.shape)))
    freedom = product_labels.freedom_of(hidden)
    moves = product_labels.Moves.none(n, hidden.chain.sizes)
    for d in range(n):
        for group in freedom.groups:
            moves.sources[d, list(group)] = rng.permutation(group)
        for c, order in enumerate(moves.orders):
            if freedom.states[c]:
                order[d] = rng.permutation(order[d])
        if name == "switching":
            moves.orders[0][d] = moves.sources[d, 1:] - 1
    shuffled = product_labels.moved(hidden, draws, moves)
    for own in (draws, shuffled):
        own |= {key: value for part in hidden.parts for key, value in part.internal(own).items()}
    assert any(key.startswith("_") for key in draws) == (name != "joint")
    assert any(not np.array_equal(shuffled[key], draws[key]) for key in draws)
    before = hmm.compile(declared, data).log_likelihoods(draws)["row"][1].sum(axis=1)
    np.testing.assert_allclose(
        hmm.compile(declared, data).log_likelihoods(shuffled)["row"][1].sum(axis=1), before, rtol=1e-9
    )
    back, what = hmm.compile(declared, data).relabelled(shuffled)
    assert what == f"the chains {', '.join(hidden.chain.names)}"
    for key, value in draws.items():
        np.testing.assert_allclose(back[key], value, rtol=1e-12, err_msg=key)


def test_what_is_written_of_a_chain_tells_its_states_apart():
    table = {"y": np.random.default_rng(0).normal(0, 1, 30)}
    declared = model(**TWINS, parameters={"transition_b": [[0.9, 0.1], [0.3, 0.7]]})
    freedom = product_labels.freedom_of(hidden_of(declared, bl.check(declared, table)))
    assert freedom.states == (True, False)
    assert freedom.groups == ((0,), (1,))
    given = {"mean": 0.0, "effect_a": [-1, 1], "effect_b": [-2, 2], "sd": 1.0}
    declared = model(**TWINS, parameters=given)
    data = bl.check(declared, table)
    assert not product_labels.freedom_of(hidden_of(declared, data)).any
    assert hmm.compile(declared, data).relabelled({}) is None


# --------------------------------------------------------------------------------- NUTS, and all that follows a fit


KNOWN = {"mean": 0.0, "effect_a": [-1.0, 1.0], "effect_b": [-2.0, 2.0], "sd": 1.0,
         "transition_b": [[0.7, 0.3], [0.2, 0.8]]}  # fmt: skip


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """Two unknown numbers: the probabilities of staying of the first chain."""
    rng = np.random.default_rng(8)
    y = np.array([-1.0, 1.0])[walk(rng, SLOW, 40)] + np.array([-2.0, 2.0])[walk(rng, QUICK, 40)]
    table = {"y": y + rng.standard_normal(40)}
    table["y"][5] = np.nan
    declared = model(**TWINS, parameters=KNOWN, initial="uniform")
    return table["y"], bl.fit(declared, table, method="nuts", seed=2, progress=False, runs=tmp_path_factory.mktemp("r"))


def grid_means(y, n=100):
    """Posterior means of P(stay) by quadrature, the likelihood by products of dense matrices written out here."""
    points = (np.arange(n) + 0.5) / n
    b = np.array(KNOWN["transition_b"])
    mean = np.add.outer([-1.0, 1.0], [-2.0, 2.0]).ravel()
    emission = np.where(np.isnan(y)[:, None], 1.0, stats.norm.pdf(np.nan_to_num(y)[:, None], mean, 1.0))
    p, q = np.meshgrid(points, points, indexing="ij")
    a = np.stack([np.stack([p, 1 - p], -1), np.stack([1 - q, q], -1)], -2)
    moves = np.einsum("xyij,kl->xyikjl", a, b).reshape(n, n, 4, 4)
    alpha = np.broadcast_to(0.25 * emission[0], (n, n, 4))
    for row in emission[1:]:
        alpha = np.einsum("xyi,xyij->xyj", alpha, moves) * row
    weight = alpha.sum(axis=2) / alpha.sum()
    return weight.sum(axis=1) @ points, weight.sum(axis=0) @ points


@pytest.mark.slow(why="compiles")
def test_nuts_agrees_with_a_grid(sampled):
    y, fit = sampled
    assert fit.verdict.status == "pass", str(fit.verdict)
    rows = fit.summary()
    for name, want in zip(("transition_a[1, 1]", "transition_a[2, 2]"), grid_means(y), strict=True):
        assert abs(rows.loc[name, "mean"] - want) < 4 * rows.loc[name, "mcse_mean"]


@pytest.mark.slow(why="compiles")
def test_a_fit_predicts_decodes_and_draws(sampled):
    from bayeslab.results.decode import plot_states, plot_transitions

    y, fit = sampled
    again = bl.open(fit.folder)
    assert again.decode().equals(fit.decode())
    assert set(again.decode(method="posterior").columns) == {"obs_id", "a", "b", "probability"}
    chances = again.predict({"y": y[:6]}, kind="probabilities")
    assert list(chances.columns)[1:] == ["P(a=1)", "P(a=2)", "P(b=1)", "P(b=2)"]
    made = again.predict({"y": y[:6]}, kind="draws")["y"].to_numpy()
    assert made.shape[-1] == 6
    assert np.isfinite(made).all()
    assert plot_states(fit).axes
    assert plot_transitions(fit).axes


@pytest.mark.parametrize("name", ALL)
def test_every_kind_simulates_and_is_drawn_as_a_network(name):
    declared, data, _, hidden, rng = resolved(name, seed=3, n=30)
    made = hmm.compile(declared, data).graph(purpose="simulate")
    import pymc as pm

    columns = declared.model.columns
    drawn_ = pm.draw([made[c] for c in columns], random_seed=1, mode="FAST_COMPILE")
    for column, values in zip(columns, drawn_, strict=True):
        assert values.shape == (30,), column
        assert np.isfinite(values).all()
    own = drawn(hidden, rng)
    replicated = hmm.compile(declared, data).predictive({n: v[None] for n, v in own.items()}, rng)
    assert all(np.isfinite(v).all() and v.shape == (1, 30) for _, v in replicated.values())
    assert set(columns) < set(hmm.compile(declared, data).network().nodes)
    assert set(hmm.compile(declared, data).priors()) == set(hidden.learned)


def test_rows_behind_a_switch_come_from_the_chain_that_is_seen():
    rng = np.random.default_rng(0)
    given = {"mean_calm": [0.0, 1.0], "sd_calm": 0.01, "mean_wild": [100.0, 101.0, 102.0], "sd_wild": 0.01}
    declared = model(**SWITCHING, parameters=given)
    data = bl.check(declared, {"y": np.array([0.0, 1.0, 100.0, 102.0, 0.0])})
    own = hidden_of(declared, data).chain.draw(rng)
    made = hmm.compile(declared, data).predictive({n: v[None] for n, v in own.items()}, rng)["y"][1][0]
    np.testing.assert_allclose(made, [0, 1, 100, 102, 0], atol=0.1)


# --------------------------------------------------------------------------------- bad input


Y = {"y": [0.1, 1.0, -2.0, 0.3, 0.9, 1.4]}


@pytest.mark.parametrize(
    ("content", "code", "where", "match"),
    [
        ({"states": 2}, "model.conflict", "model", "states.*chains"),
        ({"chains": None}, "model.incomplete", "model", "states"),
        ({"chains": {"a": 2}}, "model.too-few", "model.chains", ""),
        ({"chains": {"a": 0, "b": 2}}, "model.out-of-range", "model.chains", "'a'.*0"),
        ({"chains": {"a": [1, 1], "b": 2}}, "model.duplicate", "model.chains", "'a'"),
        ({"chains": {"y": 2, "b": 2}}, "model.reserved-name", "model", "'y'"),
        ({"chains": {"a": 30, "b": 30}}, "model.too-costly", "model", "900"),
        ({"order": 2}, "model.unsupported", "model", "order"),
        ({"topology": "left_right"}, "model.unsupported", "model", "topology"),
        ({"transitions_on": ["x"]}, "model.unsupported", "model", "transitions_on"),
        ({"initial": "stationary"}, "model.unsupported", "model", "stationary"),
        ({"emission": "observed"}, "model.unsupported", "model", "observed"),
        ({"emits": {"a": ["y"]}}, "model.conflict", "model", "coupling"),
        ({"coupling": "coupled"}, "model.incomplete", "model", "emits"),
        ({"coupling": "coupled", "emits": {"a": ["y"], "d": ["y"]}}, "model.unknown-name", "model", "'d'"),
        ({"coupling": "coupled", "emits": {"a": ["y"], "b": ["y"]}}, "model.duplicate", "model", "'y'"),
        ({"coupling": "coupled", "emits": {"a": []}}, "model.incomplete", "model", "emits.*'y'"),
        ({"coupling": "switching"}, "model.contradiction", "model", r"'a'.*\[b\]"),
        ({"coupling": "switching", "chains": {"s": ["x"], "b": 2}}, "model.contradiction", "model", r"'s'.*\[b\]"),
        ({"coupling": "coupled", "emits": {"a": ["y"]}, "effects": "additive"}, "model.conflict", "model", "effects"),
        ({"effects": "additive", "emission": "student_t"}, "model.unsupported", "model.effects", "joint"),
        ({"covariance": "full"}, "model.unsupported", "model.covariance", "joint"),
        ({"parameters": {"effect_c": [1, 2]}}, "model.unknown-parameter", "model.parameters.effect_c", "'effect_c'"),
        ({"parameters": {"mean": 1.0}}, "model.incomplete", "model.parameters", ""),
        (
            {"parameters": {"transition_a": [[0.5, 0.4], [0.1, 0.9]]}},
            "model.not-probabilities",
            "model.parameters.transition_a",
            "",
        ),
        ({"parameters": {"initial_a": [0.5, 0.25, 0.25]}}, "model.wrong-shape", "model.parameters.initial_a", "2"),
        ({"parameters": KNOWN | {"sd": -1.0}}, "model.out-of-range", "model.parameters.sd", ""),
        ({"parameters": KNOWN | {"sd": "HalfNormal(1)"}}, "model.wrong-type", "model.parameters.sd", ""),
        (
            {"coupling": "switching", "chains": {"s": 1, "b": 2}, "parameters": {"mean": [1, 2]}},
            "model.unknown-parameter",
            "model.parameters.mean",
            "'mean_b'",
        ),
    ],
)
def test_errors_are_one_line(content, code, where, match):
    with refused(code, match, where=where):
        bl.check(model(**TWINS | content), Y)


@pytest.mark.parametrize("word", ["coupling", "effects", "emits"])
def test_words_of_several_chains_go_with_several(word):
    value = {"coupling": "factorial", "effects": "joint", "emits": {"a": ["y"]}}[word]
    with refused("model.conflict", word, where="model"):
        model(columns=["y"], states=2, **{word: value})
