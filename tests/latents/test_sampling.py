"""Forward sampling, likelihood weighting and Gibbs against enumeration, in Monte Carlo standard errors."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bayeslab.errors import EngineRefusal, EvidenceError
from bayeslab.latents.networks import sampling
from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.sampling import forward_sample, gibbs, likelihood_weighting
from tests.latents._enumeration import joint, marginals, random_evidence, random_network
from tests.refusals import refused

SHARED = Path(__file__).parents[3] / "shared"


def network_of(n=5, seed=0, most_parents=3):
    """A net with loops and without zeros."""
    rng = np.random.default_rng(seed)
    found = random_network(rng, n, most_parents)
    tables = {v: t + 0.1 for v, t in found.tables.items()}
    tables = {v: t / t.sum(axis=-1, keepdims=True) for v, t in tables.items()}
    return DiscreteNetwork(found.states, found.parents, tables)


def asia():
    """Lauritzen and Spiegelhalter (1988); `either` is the logical or of two diseases."""
    yes_no = ("yes", "no")
    states = dict.fromkeys(["asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp"], yes_no)
    parents = {
        "tub": ("asia",),
        "lung": ("smoke",),
        "bronc": ("smoke",),
        "either": ("lung", "tub"),
        "xray": ("either",),
    }
    parents["dysp"] = ("bronc", "either")
    tables = {
        "asia": [0.01, 0.99],
        "tub": [[0.05, 0.95], [0.01, 0.99]],
        "smoke": [0.5, 0.5],
        "lung": [[0.1, 0.9], [0.01, 0.99]],
        "bronc": [[0.6, 0.4], [0.3, 0.7]],
        "either": [[[1, 0], [1, 0]], [[1, 0], [0, 1]]],
        "xray": [[0.98, 0.02], [0.05, 0.95]],
        "dysp": [[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.1, 0.9]]],
    }
    return DiscreteNetwork(states, parents, {v: np.array(t, dtype=float) for v, t in tables.items()})


def test_forward_sample_draws_from_the_joint_distribution():
    """Chi-square over all joint states; impossible ones never appear."""
    rng = np.random.default_rng(1)
    p_values = []
    for seed in range(30):
        network = random_network(np.random.default_rng(seed), 4)
        product = joint(network)
        codes = forward_sample(network, 20_000, rng)
        counts = np.zeros(product.shape)
        np.add.at(counts, tuple(codes.T), 1)
        assert counts[product == 0].sum() == 0
        expected = product * len(codes)
        common = expected > 5
        observed = np.append(counts[common], counts[~common].sum())
        wanted = np.append(expected[common], expected[~common].sum())
        if len(wanted) > 2 and wanted[-1] > 5:
            p_values.append(stats.chisquare(observed, wanted, sum_check=False).pvalue)
        elif len(wanted) > 2:
            p_values.append(
                stats.chisquare(observed[:-1], wanted[:-1] / wanted[:-1].sum() * observed[:-1].sum()).pvalue
            )
    assert len(p_values) > 20
    assert min(p_values) > 1e-4
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("n_states", [1, 2, 3, 7, 12, 13, 14, 40, 200])
def test_forward_sample_with_any_number_of_states(n_states):
    """Every way to invert a table; 200 states need more than one byte."""
    rng = np.random.default_rng(n_states)
    states = {"a": tuple(map(str, range(3))), "b": tuple(map(str, range(n_states)))}
    table = rng.dirichlet(np.full(n_states, 2.0), 3)
    table[:, -1] = 0 if n_states > 2 else table[:, -1]  # an impossible last state
    table[:, 1:2] = 0 if n_states > 2 else table[:, 1:2]
    network = DiscreteNetwork(states, {"b": ("a",)}, {"a": np.full(3, 1 / 3), "b": table / table.sum(1, keepdims=True)})
    codes = forward_sample(network, 60_000, rng)
    assert codes.dtype == (np.int16 if n_states > 128 else np.int8)
    counts = np.array([np.bincount(codes[codes[:, 0] == a, 1], minlength=n_states) for a in range(3)])
    possible = network.tables["b"] > 0
    assert counts[~possible].sum() == 0
    expected = network.tables["b"] * counts.sum(axis=1, keepdims=True)
    z = (counts - expected)[possible] / np.sqrt(np.maximum(expected, 1)[possible])
    assert np.abs(z).max() < 4.5


def test_forward_sample_leaves_nothing_to_impossible_last_states():
    """0.1 + ... + 0.1 is not 1 in floating point; the gap would be a chance of 2^-53 in a draw."""
    table = np.array([[0.1] * 10 + [0.0], [0.0] * 10 + [1.0]])
    assert np.cumsum(table[0])[9] < 1
    cuts = sampling.cuts_of(table).reshape(2, 10)
    assert cuts[0, 9] == 2**53 and cuts[0, 8] < 2**53
    assert np.all(cuts[1] == 0)


def test_forward_sample_is_the_same_for_any_number_of_threads(monkeypatch):
    network = network_of()
    alone = forward_sample(network, 200_000, np.random.default_rng(3))
    monkeypatch.setattr(sampling, "CHUNK", 5_001)
    monkeypatch.setattr(sampling.os, "cpu_count", lambda: 7)
    np.testing.assert_array_equal(forward_sample(network, 200_000, np.random.default_rng(3)), alone)
    assert not np.array_equal(forward_sample(network, 200_000, np.random.default_rng(4)), alone)


def test_forward_sample_rows_are_independent():
    """Neither neighbouring rows nor rows a block apart are correlated; nor are variables of no kinship."""
    network = DiscreteNetwork(dict.fromkeys("abc", ("0", "1")), {}, {v: np.array([0.5, 0.5]) for v in "abc"})
    x = forward_sample(network, 400_000, np.random.default_rng(0)).astype(float) - 0.5
    for lag in (1, 2, 3, 1024, 65536):
        assert np.abs(4 * (x[lag:] * x[:-lag]).mean(axis=0)).max() < 4.5 / np.sqrt(len(x) - lag)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert abs(4 * (x[:, a] * x[:, b]).mean()) < 4.5 / np.sqrt(len(x))


def test_forward_sample_of_no_rows_and_of_fewer():
    network = network_of()
    assert forward_sample(network, 0, np.random.default_rng(0)).shape == (0, 5)
    with refused("option.out-of-range", "^n .*-1"):
        forward_sample(network, -1, np.random.default_rng(0))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the reference marginals are not on this machine")
def test_forward_sample_of_alarm_has_the_marginals_of_another_implementation():
    from bayeslab.formats.network_files import read_network

    network = read_network(SHARED / "data" / "networks" / "alarm.bif")
    known = json.loads((SHARED / "conformance" / "networks" / "alarm.json").read_text())
    truth = next(case["marginals"] for case in known["cases"] if not case["evidence"])
    n, worst, n_states = 1_000_000, 0.0, 0
    codes = forward_sample(network, n, np.random.default_rng(0))
    for k, (variable, own) in enumerate(network.states.items()):
        p = np.array([truth[variable][s] for s in own])
        z = (np.bincount(codes[:, k], minlength=len(p)) - n * p) / np.sqrt(n * p * (1 - p))
        worst, n_states = max(worst, np.abs(z).max()), n_states + len(own)
    assert n_states == 105 and worst < 4.5


def within_errors(found, product, names, allowed=4.5):
    for variable, truth in marginals(product, names).items():
        z = np.abs(found.marginals[variable] - truth) / np.maximum(found.standard_errors[variable], 1e-12)
        assert np.all(z < allowed), (variable, z)


@pytest.mark.slow(why="statistical")
def test_likelihood_sampling_converges_to_enumeration():
    rng = np.random.default_rng(5)
    n_possible = 0
    for _ in range(60):
        network = random_network(rng, int(rng.integers(1, 7)))
        given = random_evidence(rng, network.states)
        product = joint(network, given)
        if product.sum() == 0:
            with refused("evidence.probability-zero"):
                likelihood_weighting(network, given, 20_000, rng=rng)
            continue
        n_possible += 1
        found = likelihood_weighting(network, given, 20_000, rng=rng)
        within_errors(found, product, network.states)
        error = max(found.log_evidence_error, 1e-9)
        assert abs(np.exp(found.log_evidence - np.log(product.sum())) - 1) < 4.5 * error
        assert 0 < found.effective_sample_size <= 20_000 + 1e-6
    assert n_possible > 30


def test_likelihood_sampling_errors_are_calibrated():
    """Over 200 repetitions each 95 % interval must hold the truth 95 % of the time: within 3 binomial errors."""
    network = network_of(5, seed=4)
    names = list(network.states)
    given = {names[3]: network.states[names[3]][0]}
    other = next(v for v in names if len(network.states[v]) > 1 and v not in given)
    given[other] = dict(zip(network.states[other], [1.0, 0.2, 0.6], strict=False))
    product = joint(network, given)
    target = next(v for v in names if len(network.states[v]) > 1 and v not in given)
    truth = marginals(product, names)[target][0]
    rng = np.random.default_rng(6)
    runs = [likelihood_weighting(network, given, 2_000, rng=rng) for _ in range(200)]
    z = np.array([(r.marginals[target][0] - truth) / r.standard_errors[target][0] for r in runs])
    ratio = np.exp([r.log_evidence for r in runs]) / product.sum()
    z_evidence = (ratio - 1) / ratio / [r.log_evidence_error for r in runs]
    for scores in (z, z_evidence):
        assert abs(np.mean(np.abs(scores) < 1.96) - 0.95) < 3 * np.sqrt(0.95 * 0.05 / 200)
        assert abs(scores.mean()) < 4 / np.sqrt(200)
        assert abs(scores.std() - 1) < 3.5 / np.sqrt(400)  # nor too wide


def test_likelihood_sampling_does_not_prove_zero():
    """A state of probability 1e-9, never seen, gets an error of about one row."""
    network = DiscreteNetwork({"a": ("x", "y")}, {}, {"a": np.array([1 - 1e-9, 1e-9])})
    found = likelihood_weighting(network, None, 1000, rng=np.random.default_rng(0))
    assert found.marginals["a"][1] == 0
    assert 0.5e-3 < found.standard_errors["a"][1] < 2e-3
    assert likelihood_weighting(network, {"a": "x"}, 10, rng=np.random.default_rng(0)).standard_errors["a"].max() == 0


def test_likelihood_sampling_with_thousands_observed_does_not_underflow():
    n = 3000
    states = {"h": ("a", "b")} | {f"c{k}": ("t", "f") for k in range(n)}
    speak = np.array([[0.1, 0.9], [0.0999, 0.9001]])
    tables = {"h": np.array([0.3, 0.7])} | {f"c{k}": speak for k in range(n)}
    network = DiscreteNetwork(states, {f"c{k}": ("h",) for k in range(n)}, tables)
    found = likelihood_weighting(network, {f"c{k}": "t" for k in range(n)}, 20_000, rng=np.random.default_rng(2))
    log_weights = np.log([0.3, 0.7]) + n * np.log(speak[:, 0])
    total = np.logaddexp(*log_weights)
    assert found.log_evidence == pytest.approx(total, abs=4 * found.log_evidence_error)
    assert found.log_evidence < -6900
    assert np.abs(found.marginals["h"] - np.exp(log_weights - total)).max() < 4 * found.standard_errors["h"][0]


def test_likelihood_sampling_sums_up_what_single_rows_say(monkeypatch):
    """Heavy rows that first appear after thousands of light ones change the scale of all sums."""
    from bayeslab.latents.networks import sampling_kernels as kernels

    tables = {"h": np.array([0.9998, 0.0002]), "c": np.array([[1e-3, 1 - 1e-3], [0.9, 0.1]])}
    network = DiscreteNetwork({"h": ("a", "b"), "c": ("t", "f")}, {"c": ("h",)}, tables)
    n, rng = 20_000, np.random.default_rng(3)
    net, key = sampling.flat_network(network), sampling.key_of(np.random.default_rng(3))
    weighing = sampling.weighing_of(net, network.states, sampling.read_evidence(network.states, {"c": "t"}))
    codes, log_weights = np.empty((n, 2), np.int8), np.empty(n)
    kernels.weighted_rows(net, key, 0, *weighing, codes, log_weights)
    first = int(np.argmax(codes[:, 0] == 1))
    assert 1024 < first < n  # there is a change of scale
    w = np.exp(log_weights)
    monkeypatch.setattr(sampling, "CHUNK", 7_000)  # and between chunks
    found = likelihood_weighting(network, {"c": "t"}, n, rng)
    p = w[codes[:, 0] == 1].sum() / w.sum()
    error = np.sqrt((w**2 * ((codes[:, 0] == 1) - p) ** 2).sum()) / w.sum()
    assert found.effective_sample_size == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-10)
    assert found.log_evidence == pytest.approx(np.log(w.mean()), abs=1e-10)
    assert found.log_evidence_error == pytest.approx(w.std() / w.mean() / np.sqrt(n), rel=1e-10)
    assert found.marginals["h"][1] == pytest.approx(p, rel=1e-10)
    assert found.standard_errors["h"] == pytest.approx([error, error], rel=1e-10)


def test_likelihood_sampling_is_reproducible_and_checks_its_input():
    network = network_of()
    a, b = (likelihood_weighting(network, None, 100_000, rng=np.random.default_rng(1)) for _ in range(2))
    assert all(np.array_equal(a.marginals[v], b.marginals[v]) for v in network.states)
    assert a.effective_sample_size == pytest.approx(100_000)
    with refused("option.out-of-range", "^n .*0"):
        likelihood_weighting(network, None, 0, rng=np.random.default_rng(1))
    with refused("evidence.unknown-variable", "'nobody'"):
        likelihood_weighting(network, {"nobody": "x"}, 10, rng=np.random.default_rng(1))


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize("scan", ["systematic", "random"])
def test_likelihood_sampling_by_gibbs_converges_to_enumeration(scan):
    """Markov-chain sampling of nets with evidence; zeros allowed: refused where the chain cannot reach all."""
    rng = np.random.default_rng(7)
    seen = {"right": 0, "refused": 0, "impossible": 0}
    for _ in range(60):
        network = random_network(rng, int(rng.integers(1, 7)))
        given = random_evidence(rng, network.states)
        product = joint(network, given)
        try:
            found = gibbs(network, given, n=4000, warmup=100, chains=4, scan=scan, rng=rng)
        except EvidenceError:
            assert product.sum() == 0
            seen["impossible"] += 1
            continue
        except EngineRefusal:
            assert not _one_part(product)
            seen["refused"] += 1
            continue
        assert product.sum() > 0
        within_errors(found, product, network.states, allowed=5)
        seen["right"] += 1
    assert seen["right"] > 30 and seen["impossible"] > 3


def _one_part(product):
    """Whether changes of single variables connect all possible states, by walking them all."""
    left = {tuple(s) for s in np.argwhere(product > 0)}
    stack = [left.pop()]
    while stack:
        here = np.array(stack.pop())
        near = [s for s in left if np.sum(np.array(s) != here) <= 1]
        left -= set(near)
        stack += near
    return not left


def test_gibbs_passes_through_deterministic_nodes():
    """In asia lung cancer and `either` must change together: single moves alone would never leave."""
    network = asia()
    given = {"dysp": "yes"}
    assert not _one_part(joint(network, given))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = gibbs(network, given, n=10_000, chains=4, rng=np.random.default_rng(1))
    within_errors(found, joint(network, given), network.states)
    assert found.worst_r_hat < 1.02


def copies(k):
    """k variables that a table each forces to be equal to the next: no two of them free the chain."""
    states = {f"x{i}": ("0", "1") for i in range(k)}
    return FactorGraph(states, tuple((f"x{i}", f"x{i + 1}") for i in range(k - 1)), (np.eye(2),) * (k - 1))


def test_gibbs_refuses_what_it_cannot_leave_and_says_which():
    with refused("engine.refused.not-suited", "'x0'.*'x1'.*'x2'"):
        gibbs(copies(3), rng=np.random.default_rng(0))
    found = gibbs(copies(2), n=5000, rng=np.random.default_rng(0))
    assert abs(found.marginals["x0"][0] - 0.5) < 4 * found.standard_errors["x0"][0]


def test_gibbs_warns_where_zeros_tie_too_much_to_tell():
    with pytest.warns(RuntimeWarning, match="link 20 variables"):
        found = gibbs(copies(20), n=100, chains=16, rng=np.random.default_rng(0))
    assert np.all(found.codes == found.codes[:, :1, :1])  # each chain stays where it started
    assert found.r_hat["x3"] == pytest.approx([np.inf, np.inf])  # which R-hat shows
    assert found.worst_r_hat == np.inf


def test_gibbs_goes_between_states_that_exclude_one_another():
    """Colourings of a ring: a Markov random field with zeros, no state to start from at hand."""
    n, colours = 7, 4
    states = {f"x{k}": tuple("abcd") for k in range(n)}
    model = FactorGraph(states, tuple((f"x{k}", f"x{(k + 1) % n}") for k in range(n)), (1 - np.eye(colours),) * n)
    given = {"x0": "a", "x3": {"a": 0.5, "b": 2.0, "c": 1.0}}
    found = gibbs(model, given, n=4000, rng=np.random.default_rng(3))
    within_errors(found, joint(model, given), states)


def test_gibbs_of_impossible_evidence_is_an_error():
    with refused("evidence.probability-zero"):
        gibbs(copies(3), {"x0": "0", "x2": "1"}, rng=np.random.default_rng(0))
    odd = np.array([[0.0, 1.0], [1.0, 0.0]])
    states = dict.fromkeys("abc", ("0", "1"))
    triangle = FactorGraph(states, (("a", "b"), ("b", "c"), ("c", "a")), (odd,) * 3)  # no two colours do
    with refused("evidence.probability-zero"):
        gibbs(triangle, rng=np.random.default_rng(0))


def test_gibbs_refuses_where_it_finds_no_start():
    """Eight people, seven seats: impossible, but no table says so and there are too many states to look at all."""
    names = [f"x{k}" for k in range(8)]
    pairs = tuple((a, b) for k, a in enumerate(names) for b in names[k + 1 :])
    model = FactorGraph(dict.fromkeys(names, tuple("1234567")), pairs, (1 - np.eye(7),) * len(pairs))
    with pytest.warns(RuntimeWarning, match="link 8 variables"), refused("engine.refused.no-start"):
        gibbs(model, rng=np.random.default_rng(0))


@pytest.mark.slow(why="statistical")
def test_gibbs_errors_are_calibrated():
    """Over 200 repetitions on a correlated ring: coverage within 3 binomial errors, and some slack for short chains."""
    n = 5
    table = np.exp(0.7 * (2 * np.eye(2) - 1))
    states = {f"x{k}": ("0", "1") for k in range(n)}
    model = FactorGraph(
        states, (("x0",), *((f"x{k}", f"x{(k + 1) % n}") for k in range(n))), (np.array([1.0, 1.5]), *[table] * n)
    )
    truth = marginals(joint(model), states)["x2"][0]
    rng = np.random.default_rng(9)
    runs = [gibbs(model, n=1000, warmup=50, chains=2, rng=rng) for _ in range(200)]
    z = np.array([(r.marginals["x2"][0] - truth) / r.standard_errors["x2"][0] for r in runs])
    assert abs(np.mean(np.abs(z) < 1.96) - 0.95) < 3 * np.sqrt(0.95 * 0.05 / 200)
    assert abs(z.mean()) < 4 / np.sqrt(200)
    assert abs(z.std() - 1) < 3.5 / np.sqrt(400)
    sizes = [r.effective_sample_size["x2"][0] for r in runs]
    assert np.mean(sizes) < 1000  # correlated: plain counting would be far too sure


def test_gibbs_of_independent_variables_is_independent_sampling():
    """Effective sample size is the number of draws; R-hat is one."""
    states = {f"x{k}": ("0", "1", "2") for k in range(100)}
    model = FactorGraph(states, tuple((v,) for v in states), (np.array([1.0, 2.0, 3.0]),) * 100)
    found = gibbs(model, n=1000, warmup=0, chains=4, rng=np.random.default_rng(2))
    sizes = np.concatenate(list(found.effective_sample_size.values()))
    assert 0.97 < np.mean(sizes) / 4000 < 1.03
    assert np.abs(np.concatenate(list(found.r_hat.values())) - 1).max() < 0.01


def test_gibbs_agrees_with_arviz_on_diagnostics():
    arviz = pytest.importorskip("arviz")
    found = gibbs(asia(), {"xray": "yes"}, n=999, chains=3, rng=np.random.default_rng(4))
    for variable in ("smoke", "bronc", "lung"):
        draws = (found.codes[:, :, list(found.states).index(variable)] == 0).astype(float)
        mean = np.asarray(arviz.ess(draws, method="mean")).item()
        assert found.effective_sample_size[variable][0] == pytest.approx(mean, rel=0.05)
        split = np.asarray(arviz.rhat(draws, method="split")).item()
        assert found.r_hat[variable][0] == pytest.approx(split, abs=1e-3)


def test_gibbs_keeps_what_is_given_and_is_reproducible():
    network = network_of(6, seed=3)
    variable = next(v for v, s in network.states.items() if len(s) > 1)
    given = {variable: network.states[variable][1]}
    a, b = (gibbs(network, given, n=50, warmup=10, chains=2, rng=np.random.default_rng(8)) for _ in range(2))
    np.testing.assert_array_equal(a.codes, b.codes)
    assert a.codes.shape == (2, 50, 6) and a.codes.dtype == np.int8
    assert np.all(a.codes[:, :, list(network.states).index(variable)] == 1)
    assert a.standard_errors[variable].max() == 0
    assert not np.array_equal(a.codes[0], a.codes[1])


@pytest.mark.parametrize(
    ("options", "code", "match"),
    [
        ({"scan": "sistematic"}, "option.unknown-word", "'sistematic'.*'systematic'"),
        ({"n": 0}, "option.out-of-range", "^n .*0"),
        ({"warmup": -1}, "option.out-of-range", "warmup.*-1"),
        ({"chains": 0}, "option.out-of-range", "chains"),
    ],
)
def test_options_of_gibbs_are_checked(options, code, match):
    with refused(code, match):
        gibbs(asia(), rng=np.random.default_rng(0), **options)
