"""Sensitivity functions against enumeration with changed tables, and against closed forms."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.sensitivity import (
    conflict,
    evidence_influence,
    information_value,
    sensitivity,
    tolerances,
    tornado,
)
from tests.refusals import refused

NO_YES = ("no", "yes")


def joint(network: DiscreteNetwork, given: dict | None = None) -> np.ndarray:
    """p(x) times the likelihood of what is given, one axis a variable."""
    names = list(network.states)
    out = np.ones([len(s) for s in network.states.values()])
    for codes in product(*(range(len(s)) for s in network.states.values())):
        at = dict(zip(names, codes, strict=True))
        for v in names:
            out[codes] *= network.tables[v][(*(at[p] for p in network.parents[v]), at[v])]
        for v, seen in (given or {}).items():
            state = network.states[v][at[v]]
            out[codes] *= seen.get(state, 0.0) if isinstance(seen, dict) else float(state == seen)
    return out


def posterior(network: DiscreteNetwork, variable: str, given: dict | None = None) -> np.ndarray:
    p = joint(network, given)
    axes = tuple(i for i, v in enumerate(network.states) if v != variable)
    return p.sum(axis=axes) / p.sum()


def probability(network: DiscreteNetwork, target: dict, given: dict) -> float:
    with np.errstate(invalid="ignore"):
        return joint(network, {**given, **target}).sum() / joint(network, given).sum()


def changed(network: DiscreteNetwork, parameter, theta: float) -> DiscreteNetwork:
    """The table with one entry set and the rest of its row scaled."""
    table = network.tables[parameter.variable].copy()
    above = network.parents[parameter.variable]
    row = table[tuple(network.states[p].index(parameter.given[p]) for p in above)]
    k = network.states[parameter.variable].index(parameter.state)
    rest = np.delete(row, k)
    rest = rest / rest.sum() if rest.sum() > 0 else np.full(len(rest), 1 / len(rest))
    row[:] = np.insert((1 - theta) * rest, k, theta)
    return replace(network, tables={**network.tables, parameter.variable: table})


def random_network(rng: np.random.Generator, n: int, zeros: float = 0.0) -> DiscreteNetwork:
    names = [f"v{i}" for i in range(n)]
    order = rng.permutation(names).tolist()
    states = {v: tuple("xyz"[: rng.integers(2, 4)]) for v in names}
    parents = {v: tuple(u for u in order[:i] if rng.random() < 0.45)[:3] for i, v in enumerate(order)}
    tables = {}
    for v in names:
        table = rng.dirichlet(np.ones(len(states[v])), tuple(len(states[p]) for p in parents[v]))
        if zeros:
            table = np.where(rng.random(table.shape) < zeros, 0, table)
            table = np.where(table.sum(-1, keepdims=True) > 0, table, np.eye(table.shape[-1])[0])
            table /= table.sum(-1, keepdims=True)
        tables[v] = table
    return DiscreteNetwork(states, parents, tables)


@pytest.mark.slow(why="statistical")
def test_every_function_is_enumeration_with_the_table_changed():
    rng = np.random.default_rng(1)
    n = 0
    for _ in range(12):
        network = random_network(rng, 5)
        names = rng.permutation(list(network.states)).tolist()
        target, given = {names[0]: "y"}, {names[1]: "x", names[2]: {"x": 0.3, "y": 0.9}}
        if rng.random() < 0.3:
            target[names[3]] = "x"
        functions = sensitivity(network, target, given)
        assert len(functions) == sum(t.size for t in network.tables.values())
        now = probability(network, target, given)
        for f in rng.choice(np.array(functions, dtype=object), 12, replace=False):
            n += 1
            assert (f.probability, f(f.parameter.value)) == pytest.approx((now, now), abs=1e-12)
            for theta in (0.0, 0.17, 0.8, 1.0):
                expected = probability(changed(network, f.parameter, theta), target, given)
                assert f(theta) == pytest.approx(expected, abs=1e-11, nan_ok=True)
            step, at = 1e-5, f.parameter.value
            near = [probability(changed(network, f.parameter, at + h), target, given) for h in (-step, step)]
            assert f.derivative == pytest.approx((near[1] - near[0]) / (2 * step), abs=1e-7)
            ends = f(1e-9), f(1 - 1e-9)
            assert f.bounds == pytest.approx(sorted(ends), abs=1e-6)
        sizes = [abs(f.derivative) for f in functions]
        assert sizes == sorted(sizes, reverse=True)
    assert n == 144


def test_entries_that_are_zero_or_one():
    rng = np.random.default_rng(2)
    done = 0
    while done < 25:
        network = random_network(rng, 4, zeros=0.4)
        names = rng.permutation(list(network.states)).tolist()
        target, given = {names[0]: "y"}, {names[1]: "y"}
        if joint(network, given).sum() == 0:
            with refused("evidence.probability-zero"):
                sensitivity(network, target, given)
            continue
        done += 1
        every = sensitivity(network, target, given, certain=True)
        assert len(every) == sum(t.size for t in network.tables.values())
        logical = [f for f in every if f.parameter.value in (0, 1)]
        assert logical and len(sensitivity(network, target, given)) == len(every) - len(logical)
        for f in rng.choice(np.array(every, dtype=object), 10):
            for theta in (0.25, 0.75):
                expected = probability(changed(network, f.parameter, theta), target, given)
                assert f(theta) == pytest.approx(expected, abs=1e-11, nan_ok=True)


def cancer() -> DiscreteNetwork:
    """Mitchell's test: P(cancer) 0.008, P(+ | cancer) 0.98, P(− | no cancer) 0.97."""
    states = {"cancer": NO_YES, "test": ("negative", "positive")}
    return DiscreteNetwork(
        states,
        {"test": ("cancer",)},
        {"cancer": np.array([0.992, 0.008]), "test": np.array([[0.97, 0.03], [0.02, 0.98]])},
    )


def test_the_prior_of_a_rare_disease():
    """P(cancer | +) = 0.98 θ / (0.98 θ + 0.03 (1 − θ)): derivative 0.98 · 0.03 / P(+)², one half at 3/101."""
    functions = sensitivity(cancer(), {"cancer": "yes"}, {"test": "positive"})
    (prior,) = [f for f in functions if f.parameter.variable == "cancer" and f.parameter.state == "yes"]
    evidence = 0.98 * 0.008 + 0.03 * 0.992
    assert prior.probability == pytest.approx(0.208511, abs=5e-7)
    assert prior.derivative == pytest.approx(0.98 * 0.03 / evidence**2)
    assert prior.threshold(0.5) == pytest.approx(3 / 101)
    assert prior.threshold(1.5) is None
    assert prior.bounds == pytest.approx((0, 1))
    assert str(prior.parameter) == "P(cancer=yes) = 0.008"
    (false_alarm,) = [f for f in functions if f.parameter.given == {"cancer": "no"} and f.parameter.state == "positive"]
    assert false_alarm.derivative == pytest.approx(-0.98 * 0.008 * 0.992 / evidence**2)
    assert false_alarm.threshold(0.5) == pytest.approx(0.98 * 0.008 / 0.992)
    assert str(false_alarm.parameter) == "P(test=positive | cancer=no) = 0.03"
    # A perfect test that never gives a false alarm leaves no doubt.
    assert false_alarm(0.0) == pytest.approx(1)


def test_parameters_that_do_not_matter():
    """Barren and separated variables have flat functions."""
    states = dict.fromkeys("abcd", NO_YES)
    rng = np.random.default_rng(3)
    tables = {"a": rng.dirichlet([1, 1])} | {v: rng.dirichlet([1, 1], 2) for v in "bcd"}
    network = DiscreteNetwork(states, {"b": ("a",), "c": ("b",), "d": ("c",)}, tables)
    for f in sensitivity(network, {"c": "yes"}, {"b": "no"}):
        matters = f.parameter.variable == "c" and f.parameter.given == {"b": "no"}
        assert (abs(f.derivative) > 1e-6) == matters
    only = sensitivity(network, {"c": "yes"}, variables=["b"])
    assert {f.parameter.variable for f in only} == {"b"} and len(only) == 4


def test_values_that_make_the_evidence_impossible():
    """The finding occurs in one state of the cause only: without that state there is no answer, and a constant limit."""
    rng = np.random.default_rng(7)
    states = {"cause": tuple("xyz"), "finding": NO_YES, "target": NO_YES}
    tables = {"cause": rng.dirichlet([1, 1, 1]), "finding": np.array([[1, 0], [0.3, 0.7], [1, 0]])}
    tables["target"] = rng.dirichlet([1, 1], 3)
    network = DiscreteNetwork(states, {"finding": ("cause",), "target": ("cause",)}, tables)
    for f in sensitivity(network, {"target": "yes"}, {"finding": "yes"}, variables=["cause"]):
        known = tables["target"][1, 1]
        assert f.bounds == pytest.approx((known, known))
        assert f.derivative == pytest.approx(0, abs=1e-12)
        impossible = 0.0 if f.parameter.state == "y" else 1.0
        assert np.isnan(f(impossible)) and f(1 - impossible) == pytest.approx(known)


def test_a_tornado_moves_the_odds():
    functions = sensitivity(cancer(), {"cancer": "yes"}, {"test": "positive"})
    bars = tornado(functions, odds=2, top=4)
    odds = 0.208511 / (1 - 0.208511)
    assert [(bar.parameter.variable, dict(bar.parameter.given)) for bar in bars[:2]] == [
        ("cancer", {}),
        ("test", {"cancer": "no"}),
    ]
    assert len(bars) == 3  # one a row
    # The odds of the prior multiply the odds of the posterior.
    expected = [odds / 2 / (1 + odds / 2), odds * 2 / (1 + odds * 2)]
    assert sorted((bars[0].low, bars[0].high)) == pytest.approx(expected, abs=1e-6)
    assert [bar.width for bar in bars] == sorted((bar.width for bar in bars), reverse=True)
    with refused("option.out-of-range", "odds"):
        tornado(functions, odds=1)


def test_tolerances_are_where_the_most_probable_state_changes():
    rng = np.random.default_rng(4)
    checked = 0
    for _ in range(15):
        network = random_network(rng, 4)
        names = rng.permutation(list(network.states)).tolist()
        given = {names[1]: "x"}
        states = network.states[names[0]]
        best = states[posterior(network, names[0], given).argmax()]
        found = tolerances(network, names[0], given)
        assert [t.distance for t in found] == sorted(t.distance for t in found)
        for t in found[:8]:
            inside = [t.low + (t.high - t.low) * u for u in (1e-6, 0.5, 1 - 1e-6)]
            for theta in inside:
                after = posterior(changed(network, t.parameter, theta), names[0], given)
                assert states[after.argmax()] == best
            for edge, outside, state in ((t.low, t.low - 1e-6, t.below), (t.high, t.high + 1e-6, t.above)):
                if state is not None and 0 < outside < 1:
                    checked += 1
                    after = posterior(changed(network, t.parameter, outside), names[0], given)
                    assert states[after.argmax()] == state
                    assert t.low <= t.parameter.value <= t.high and 0 <= edge <= 1
        # Parameters that are not listed change nothing anywhere.
        listed = {str(t.parameter) for t in found}
        for f in sensitivity(network, {names[0]: best}, given):
            if str(f.parameter) not in listed:
                for theta in (0.001, 0.999):
                    after = posterior(changed(network, f.parameter, theta), names[0], given)
                    assert states[after.argmax()] == best
    assert checked > 30


def test_between_tied_states_only_parameters_with_an_effect_decide():
    """The coin is even and nobody reports on it: the weather's table has no effect, of which rounding made one."""
    network = DiscreteNetwork(
        {"coin": NO_YES, "trip": NO_YES, "report": NO_YES},
        {"report": ("coin",)},
        {"coin": [0.5, 0.5], "trip": [0.01, 0.99], "report": [[0.9, 0.1], [0.3, 0.7]]},
    )
    for given in ({}, {"trip": "no"}, {"trip": {"no": 0.3, "yes": 0.7}}):
        critical = tolerances(network, "coin", given)
        assert {t.parameter.variable for t in critical} == {"coin"}
        assert all(t.distance < 1e-9 for t in critical)
        for f in sensitivity(network, {"coin": "yes"}, given):
            if f.parameter.variable != "coin":
                assert abs(f.derivative) < 1e-12
    asia = bl.network("models/asia.yaml").plain
    critical = tolerances(asia, "smoking", {"visit_to_asia": "yes"})
    assert {t.parameter.variable for t in critical} == {"smoking"}


def test_no_threshold_where_the_answer_does_not_depend_on_the_parameter():
    network = DiscreteNetwork(
        {"a": NO_YES, "b": NO_YES, "c": NO_YES},
        {"c": ("b",)},
        {"a": [0.7, 0.3], "b": [0.6, 0.4], "c": [[1.0, 0.0], [0.5, 0.5]]},
    )
    for f in sensitivity(network, {"a": "yes"}, {"c": "yes"}):
        at = f.threshold(0.2)
        if f.parameter.variable == "a":
            assert f(at) == pytest.approx(0.2, abs=1e-12)
        else:
            assert at is None  # it was 0, where the evidence is impossible


def test_evidence_left_out():
    rng = np.random.default_rng(5)
    for _ in range(20):
        network = random_network(rng, 5)
        names = rng.permutation(list(network.states)).tolist()
        given = {names[1]: "x", names[2]: "y", names[3]: {"x": 0.2, "y": 0.7}}
        found = evidence_influence(network, {names[0]: "x"}, given)
        assert {item.variable for item in found} == set(given)
        full = posterior(network, names[0], given)
        for item in found:
            rest = {v: s for v, s in given.items() if v != item.variable}
            less = posterior(network, names[0], rest)
            assert item.finding == given[item.variable]
            assert (item.probability, item.without) == pytest.approx((full[0], less[0]))
            assert item.divergence == pytest.approx((full * np.log(full / less)).sum(), abs=1e-12)
            # The Bayes factor of the finding for the target, the other findings given.
            for_, against = (
                sum(joint(network, {**given, names[0]: s}).sum() for s in on)
                / sum(joint(network, {**rest, names[0]: s}).sum() for s in on)
                for on in (["x"], [s for s in network.states[names[0]] if s != "x"])
            )
            assert item.weight == pytest.approx(np.log(for_ / against), abs=1e-10)


def test_a_finding_that_decides():
    """A positive test without false alarms: the odds become infinite."""
    network = replace(cancer(), tables={"cancer": np.array([0.992, 0.008]), "test": np.array([[1.0, 0], [0.02, 0.98]])})
    (item,) = evidence_influence(network, {"cancer": "yes"}, {"test": "positive"})
    assert item.weight == np.inf and item.probability == 1
    assert item.divergence == pytest.approx(-np.log(0.008))


def test_a_finding_about_what_is_certain_has_no_weight():
    network = DiscreteNetwork(
        {"sure": NO_YES, "sign": NO_YES},
        {"sign": ("sure",)},
        {"sure": [0.0, 1.0], "sign": [[0.9, 0.1], [0.3, 0.7]]},
    )
    for state in NO_YES:
        (item,) = evidence_influence(network, {"sure": state}, {"sign": "yes"})
        assert item.weight == 0 and item.divergence == 0


def test_conflicting_findings():
    network = cancer()
    expected = np.log(0.008 * (0.98 * 0.008 + 0.03 * 0.992) / (0.008 * 0.98))
    assert conflict(network, {"cancer": "yes", "test": "positive"}) == pytest.approx(expected)
    assert conflict(network, {"cancer": "yes", "test": "negative"}) > 0 > expected


def test_what_to_observe_next():
    rng = np.random.default_rng(6)
    for _ in range(20):
        network = random_network(rng, 5)
        order = list(network.states)
        names = rng.permutation(order).tolist()
        given = {names[1]: "y", names[2]: {"x": 0.5, "y": 0.1}}
        found = information_value(network, names[0], given)
        assert {item.variable for item in found} == set(names) - {names[0], names[1]}
        p = joint(network, given)
        p /= p.sum()
        for item in found:
            both = np.einsum(p, range(5), [order.index(names[0]), order.index(item.variable)])
            outer = both.sum(1, keepdims=True) * both.sum(0)
            kept = both > 0
            bits = (both[kept] * np.log2(both[kept] / outer[kept])).sum()
            own = both.sum(1)
            assert item.bits == pytest.approx(bits, abs=1e-10)
            assert item.share == pytest.approx(bits / -(own * np.log2(own)).sum(), abs=1e-10)
        assert [i.bits for i in found] == sorted((i.bits for i in found), reverse=True)


def test_a_copy_tells_everything_and_a_coin_nothing():
    states = {"coin": NO_YES, "copy": NO_YES, "other": NO_YES}
    tables = {"coin": np.array([0.5, 0.5]), "copy": np.eye(2), "other": np.array([0.3, 0.7])}
    network = DiscreteNetwork(states, {"copy": ("coin",)}, tables)
    first, second = information_value(network, "coin")
    assert (first.variable, first.bits, first.share) == ("copy", pytest.approx(1), pytest.approx(1))
    assert (second.variable, second.bits) == ("other", pytest.approx(0, abs=1e-12))
    assert [i.variable for i in information_value(network, "coin", candidates=["other"])] == ["other"]
    assert information_value(network, "coin", {"copy": "yes"})[0].share == 0


def test_errors():
    network = cancer()
    with refused("evidence.conflict", "'cancer'"):
        sensitivity(network, {"cancer": "yes"}, {"cancer": "no"})
    with refused("evidence.conflict", "'cancer'"):
        evidence_influence(network, {"cancer": "yes"}, {"cancer": "no"})
    with refused("evidence.conflict", "'cancer'"):
        information_value(network, "cancer", {"cancer": "no"})
    with refused("evidence.wrong-type", "'disease'.*'yes'"):
        sensitivity(network, {})
    with refused("evidence.wrong-type", "'disease'.*'yes'"):
        evidence_influence(network, {"cancer": "yes", "test": "positive"}, {})
    with refused("evidence.unknown-variable", "'canser'.*'cancer'"):
        sensitivity(network, {"canser": "yes"})
    with refused("model.unknown-variable", "'tset'.*'test'"):
        sensitivity(network, {"cancer": "yes"}, variables=["tset"])
    sure = replace(network, tables={**network.tables, "test": np.array([[1.0, 0], [1, 0]])})
    with refused("evidence.probability-zero"):
        information_value(sure, "cancer", {"test": "positive"})


def test_wrong_arguments_are_refused_in_one_line():
    network = bl.network("models/asia.yaml")
    bars = network.sensitivity({"xray": "yes"})
    for odds in (1.0, float("nan"), float("inf"), "2", None):
        with refused("option." + ("out-of-range" if isinstance(odds, float) else "wrong-type"), "odds"):
            tornado(bars, odds)
    with refused("option.out-of-range", "top"):
        tornado(bars, top=-1)
    for target in (["smoking"], {"smoking": "yes"}, None):
        with refused("model.unknown-variable"):
            network.information_value(target)
