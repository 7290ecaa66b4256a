"""Influence diagrams against the full joint table, against every policy, and against published solutions."""

from __future__ import annotations

from itertools import product

import networkx as nx
import numpy as np
import pytest

from bayeslab.decisions.influence import (
    InfluenceDiagram,
    Rule,
    evaluate,
    expected_utilities,
    information_values,
    required_observations,
    solve,
    under_policy,
    value_of_information,
)
from bayeslab.decisions.loss import from_probabilities
from bayeslab.latents.networks.network import DiscreteNetwork
from tests.refusals import refused

NO_YES = ("no", "yes")


def oil(**changes: object) -> InfluenceDiagram:
    """Raiffa's oil wildcatter, in thousands of dollars."""
    result = np.empty((2, 3, 4))  # test, oil, result
    result[0] = [0, 0, 0, 1]
    result[1] = [[0.6, 0.3, 0.1, 0], [0.3, 0.4, 0.3, 0], [0.1, 0.4, 0.5, 0]]
    fields = {
        "states": {
            "test": NO_YES,
            "oil": ("dry", "wet", "soaking"),
            "result": ("no structure", "open", "closed", "no test"),
            "drill": NO_YES,
        },
        "parents": {"result": ("test", "oil"), "drill": ("result",), "cost": ("test",), "gain": ("oil", "drill")},
        "tables": {"oil": np.array([0.5, 0.3, 0.2]), "result": result},
        "utilities": {"cost": np.array([0, -10]), "gain": np.array([[0, -70], [0, 50], [0, 200]])},
        "decisions": ("test", "drill"),
    }
    return InfluenceDiagram(**(fields | changes))


def by_the_joint(diagram: InfluenceDiagram, given: dict[str, int] | None = None) -> float:
    """Expected utility of the best policy: one array over all variables, summed and maximised in order of time."""
    given = given or {}
    names = list(diagram.states)
    table = np.ones([len(s) for s in diagram.states.values()])

    def spread(values: np.ndarray, scope: tuple[str, ...]) -> np.ndarray:
        order = sorted(range(len(scope)), key=lambda i: names.index(scope[i]))
        return values.transpose(order).reshape([len(diagram.states[v]) if v in scope else 1 for v in names])

    for v, values in diagram.tables.items():
        table = table * spread(values, (*diagram.parents[v], v))
    worth = sum((spread(u, diagram.parents[k]) for k, u in diagram.utilities.items()), np.zeros(1))
    for v, code in given.items():
        axis = names.index(v)
        table, worth = np.take(table, [code], axis), np.take(table * 0 + worth, [code], axis)
    pair = np.stack([table * worth, table * np.ones_like(table * worth)])
    remaining = [d for d in diagram.decisions if d not in given]
    late = [v for v in diagram.tables if not remaining or v not in diagram.past(remaining[-1])]
    pair = pair.sum(axis=tuple(1 + names.index(v) for v in late), keepdims=True)
    for i in reversed(range(len(remaining))):
        pair = pair.max(axis=1 + names.index(remaining[i]), keepdims=True)
        before = diagram.past(remaining[i - 1]) if i else ()
        new = [v for v in diagram.past(remaining[i]) if v in diagram.tables and v not in before]
        pair = pair.sum(axis=tuple(1 + names.index(v) for v in new), keepdims=True)
    value, mass = pair.reshape(2, -1)[:, 0] if not diagram.decisions else pair.reshape(2, -1).max(axis=1)
    return value / mass


def random_diagram(
    rng: np.random.Generator, n_chance: int, n_decisions: int, sizes: tuple[int, ...] = (2, 3)
) -> InfluenceDiagram:
    names = [f"c{i}" for i in range(n_chance)] + [f"d{i}" for i in range(n_decisions)]
    order = rng.permutation(names).tolist()
    decisions = tuple(v for v in order if v.startswith("d"))
    states = {v: tuple("xyz"[: rng.choice(sizes)]) for v in sorted(names)}
    parents = {}
    for i, v in enumerate(order):
        pool = [u for u in order[:i] if v.startswith("c") or u.startswith("c")]
        parents[v] = tuple(rng.permutation(pool)[: rng.integers(0, 3)].tolist())
    tables = {}
    for v in names[:n_chance]:
        table = rng.dirichlet(np.ones(len(states[v])), tuple(len(states[p]) for p in parents[v]))
        hard = rng.random(table.shape[:-1]) < 0.2  # some rows are certain
        tables[v] = np.where(hard[..., None], np.eye(table.shape[-1])[table.argmax(-1)], table)
    utilities = {}
    for k in range(rng.integers(1, 4)):
        parents[f"u{k}"] = tuple(rng.permutation(names)[: rng.integers(1, 4)].tolist())
        utilities[f"u{k}"] = rng.normal(size=[len(states[p]) for p in parents[f"u{k}"]])
    return InfluenceDiagram(states, parents, tables, utilities, decisions)


def every_policy(diagram: InfluenceDiagram):
    """All functions of the whole past, for all decisions."""
    shapes = {d: [len(diagram.states[v]) for v in diagram.past(d)] for d in diagram.decisions}
    spaces = [product(range(len(diagram.states[d])), repeat=int(np.prod(shapes[d]))) for d in diagram.decisions]
    for choice in product(*spaces):
        yield {
            d: Rule(
                d,
                diagram.states[d],
                {v: diagram.states[v] for v in diagram.past(d)},
                np.reshape(c, shapes[d]).astype(int),
            )
            for d, c in zip(diagram.decisions, choice, strict=True)
        }


def followed(diagram: InfluenceDiagram, rules: dict[str, Rule]) -> float:
    """Expected utility by walking through every state of the world."""
    total = 0.0
    names = list(diagram.states)
    for codes in product(*(range(len(s)) for s in diagram.states.values())):
        at = dict(zip(names, codes, strict=True))
        if any(rule.choices[tuple(at[v] for v in rule.known)] != at[d] for d, rule in rules.items()):
            continue
        p = np.prod([t[(*(at[u] for u in diagram.parents[v]), at[v])] for v, t in diagram.tables.items()])
        total += p * sum(u[tuple(at[v] for v in diagram.parents[k])] for k, u in diagram.utilities.items())
    return total


def test_oil_wildcatter():
    """Test, and drill unless there is no structure: 22.5 (Raiffa 1968; 22.5 thousand dollars)."""
    found = solve(oil())
    assert found.expected_utility == pytest.approx(22.5, abs=1e-12)
    assert found.choose("test") == "yes"
    by_result = {r: found.choose("drill", {"test": "yes", "result": r}) for r in ("no structure", "open", "closed")}
    assert by_result == {"no structure": "no", "open": "yes", "closed": "yes"}
    assert found.choose("drill", {"test": "no", "result": "no test"}) == "yes"
    assert expected_utilities(oil()) == pytest.approx({"no": 20, "yes": 22.5})
    # P(wet, soaking | closed) = 9/24, 10/24.
    closed = expected_utilities(oil(), {"test": "yes", "result": "closed"})
    assert closed == pytest.approx({"no": -10, "yes": -10 + (-70 * 5 + 50 * 9 + 200 * 10) / 24})


def test_what_information_is_worth_to_the_wildcatter():
    # Knowing the oil, one drills at wet and soaking: 0.3 × 50 + 0.2 × 200 = 55, without a test.
    found = information_values(oil())
    assert found == pytest.approx({("test", "oil"): 32.5, ("drill", "oil"): 32.5})
    # The test as a chance node that nobody looks at: the value of seeing it is what it may cost.
    source = oil()
    net = DiscreteNetwork(
        {v: source.states[v] for v in ("oil", "result")},
        {"result": ("oil",)},
        {"oil": source.tables["oil"], "result": source.tables["result"][1]},
    )
    gain = {"gain": (("oil", "drill"), source.utilities["gain"])}
    blind = InfluenceDiagram.of(net, decisions={"drill": NO_YES}, known={}, utilities=gain)
    assert solve(blind).expected_utility == pytest.approx(20)
    assert value_of_information(blind, "result", "drill") == pytest.approx(12.5)
    assert value_of_information(blind, ("result", "oil"), "drill") == pytest.approx(35)
    assert value_of_information(blind, "oil", "drill", {"result": "closed"}) == pytest.approx(70 * 5 / 24)


def umbrella() -> InfluenceDiagram:
    """Jensen and Nielsen's weather, forecast and umbrella."""
    return InfluenceDiagram(
        {"weather": ("sun", "rain"), "forecast": ("sunny", "cloudy", "rainy"), "umbrella": ("take", "leave")},
        {"forecast": ("weather",), "umbrella": ("forecast",), "satisfaction": ("weather", "umbrella")},
        {"weather": np.array([0.7, 0.3]), "forecast": np.array([[0.7, 0.2, 0.1], [0.15, 0.25, 0.6]])},
        {"satisfaction": np.array([[20, 100], [70, 0]])},
        ("umbrella",),
    )


def test_umbrella():
    """Leave it unless the forecast is rainy: 77 (as with other tools that ship this example)."""
    found = solve(umbrella())
    assert found.expected_utility == pytest.approx(77, abs=1e-12)
    assert found.rules["umbrella"].choices.tolist() == [1, 1, 0]
    assert found.rules["umbrella"].rows()[1:] == [
        {"forecast": "cloudy", "umbrella": "leave"},
        {"forecast": "rainy", "umbrella": "take"},
    ]
    rainy = expected_utilities(umbrella(), {"forecast": "rainy"})
    assert rainy == pytest.approx({"take": (20 * 0.07 + 70 * 0.18) / 0.25, "leave": 100 * 0.07 / 0.25})
    assert value_of_information(umbrella(), "weather", "umbrella") == pytest.approx(0.7 * 100 + 0.3 * 70 - 77)


def test_the_joint_table_agrees():
    rng = np.random.default_rng(1)
    decisions = 0
    for _ in range(150):
        diagram = random_diagram(rng, rng.integers(2, 6), rng.integers(1, 4))
        found = solve(diagram)
        decisions += len(found.rules)
        assert list(found.rules) == [d for d in diagram.states if d in diagram.decisions]
        assert found.expected_utility == pytest.approx(by_the_joint(diagram), abs=1e-12)
        assert evaluate(diagram, found.rules) == pytest.approx(found.expected_utility, abs=1e-12)
        assert followed(diagram, dict(found.rules)) == pytest.approx(found.expected_utility, abs=1e-12)
    assert decisions > 250


def test_no_policy_is_better():
    rng = np.random.default_rng(2)
    n_policies = done = 0
    while done < 120:
        diagram = random_diagram(rng, rng.integers(2, 5), rng.integers(1, 3), (2,))
        if sum(2 ** len(diagram.past(d)) for d in diagram.decisions) > 8:
            continue
        values = [followed(diagram, rules) for rules in every_policy(diagram)]
        assert solve(diagram).expected_utility == pytest.approx(max(values), abs=1e-12)
        done, n_policies = done + 1, n_policies + len(values)
    assert n_policies > 1000


def test_any_policy_is_evaluated():
    rng = np.random.default_rng(3)
    for _ in range(40):
        diagram = random_diagram(rng, 4, 2)
        rules = {}
        for d in diagram.decisions:
            known = {v: diagram.states[v] for v in diagram.past(d)}
            choices = rng.integers(0, len(diagram.states[d]), [len(s) for s in known.values()])
            rules[d] = Rule(d, diagram.states[d], known, choices)
        assert evaluate(diagram, rules) == pytest.approx(followed(diagram, rules), abs=1e-12)
        # The best answer to a fixed first rule lies between that and the best policy.
        first = {diagram.decisions[0]: rules[diagram.decisions[0]]}
        between = evaluate(diagram, first)
        assert followed(diagram, rules) - 1e-12 <= between <= solve(diagram).expected_utility + 1e-12


@pytest.mark.slow(why="statistical")
def test_given_what_is_known():
    """Evidence on anything that no remaining decision changes; soft evidence is a seen child."""
    rng = np.random.default_rng(4)
    seen = 0
    for _ in range(150):
        diagram = random_diagram(rng, 4, 2)
        first, second = diagram.decisions
        graph = diagram.graph
        v = rng.choice(list(diagram.tables)).item()
        below_first, below_second = (v in nx.descendants(graph, d) for d in (first, second))
        if below_second:
            with refused("evidence.incomplete", r"'c\d+'.*'d\d+'"):
                solve(diagram, {v: "x"})
            continue
        given = {v: 0} | ({first: 1} if below_first else {})
        told = {u: diagram.states[u][code] for u, code in given.items()}
        informed = first if not below_first else second
        parents = {**diagram.parents, informed: tuple(dict.fromkeys((*diagram.parents[informed], v)))}
        known = InfluenceDiagram(diagram.states, parents, diagram.tables, diagram.utilities, diagram.decisions)
        with np.errstate(invalid="ignore"):
            expected = by_the_joint(known, given)
        if np.isnan(expected):
            with refused("evidence.probability-zero"):
                solve(diagram, told)
            continue
        seen += 1
        assert solve(diagram, told).expected_utility == pytest.approx(expected, abs=1e-12)
        soft = told | {v: {diagram.states[v][0]: 0.3}}
        assert solve(diagram, soft).expected_utility == pytest.approx(expected, abs=1e-12)
        options = expected_utilities(diagram, told)
        assert max(options.values()) <= expected + 1e-12
    assert seen > 60


def test_soft_evidence_weighs_the_states():
    diagram = umbrella()
    # P(sun | likelihoods 1 : 4) = 0.7 / (0.7 + 1.2).
    sun = 0.7 / 1.9
    options = expected_utilities(diagram, {"weather": {"sun": 0.2, "rain": 0.8}})
    assert options == pytest.approx({"take": 20 * sun + 70 * (1 - sun), "leave": 100 * sun})


def test_required_observations_are_enough_and_each_can_matter():
    """Leaving the others out changes nothing; a required one left out costs something in almost every diagram."""
    rng = np.random.default_rng(5)
    dropped = costly = required_arcs = 0
    for _ in range(150):
        diagram = random_diagram(rng, 5, 1, (3,))
        (d,) = diagram.decisions
        value = by_the_joint(diagram)
        needed = required_observations(diagram)[d]
        slim = InfluenceDiagram(diagram.states, {**diagram.parents, d: needed}, diagram.tables, diagram.utilities, (d,))
        dropped += len(diagram.past(d)) - len(needed)
        assert by_the_joint(slim) == pytest.approx(value, abs=1e-12)
        for v in needed:
            required_arcs += 1
            rest = tuple(u for u in needed if u != v)
            less = InfluenceDiagram(
                diagram.states, {**diagram.parents, d: rest}, diagram.tables, diagram.utilities, (d,)
            )
            costly += by_the_joint(less) < value - 1e-9
    assert dropped > 20 and required_arcs > 20
    assert costly > required_arcs / 3


def test_what_was_known_is_not_forgotten():
    """The colour is seen before the first bet only, and decides the second."""
    colour = {"colour": ("red", "blue")}
    diagram = InfluenceDiagram(
        colour | {"first": ("red", "blue"), "second": ("red", "blue")},
        {"first": ("colour",), "u1": ("colour", "first"), "u2": ("colour", "second")},
        {"colour": np.array([0.5, 0.5])},
        {"u1": np.eye(2), "u2": np.eye(2)},
        ("first", "second"),
    )
    found = solve(diagram)
    assert found.expected_utility == pytest.approx(2)
    assert found.choose("second", {"colour": "blue"}) == "blue"
    assert diagram.past("second") == ("colour", "first")
    with refused("evidence.incomplete", "'second'.*'colour'"):
        found.choose("second")


def diagnosis(rng: np.random.Generator) -> DiscreteNetwork:
    states = {"class": ("a", "b", "c"), "x": NO_YES, "y": NO_YES}
    tables = {"class": rng.dirichlet([1, 1, 1]), "x": rng.dirichlet([1, 1], 3), "y": rng.dirichlet([1, 1], (3, 2))}
    return DiscreteNetwork(states, {"x": ("class",), "y": ("class", "x")}, tables)


def test_zero_one_utilities_take_the_largest_posterior_and_losses_the_smallest_risk():
    rng = np.random.default_rng(6)
    for _ in range(20):
        net = diagnosis(rng)
        posterior = np.einsum("c,cx,cxy->xyc", *(net.tables[v] for v in ("class", "x", "y")))
        posterior /= posterior.sum(axis=-1, keepdims=True)
        loss = rng.uniform(0, 10, size=(3, 4))
        for matrix, actions in ((1 - np.eye(3), net.states["class"]), (loss, ("a", "b", "c", "refer"))):
            utilities = {"minus_loss": (("class", "say"), -matrix)}
            diagram = InfluenceDiagram.of(
                net, decisions={"say": actions}, known={"say": ("x", "y")}, utilities=utilities
            )
            rule = solve(diagram).rules["say"]
            choices = rule.choices.transpose([list(rule.known).index(v) for v in ("x", "y")])
            assert np.array_equal(choices, from_probabilities(posterior, matrix).action)
        assert np.array_equal(from_probabilities(posterior, 1 - np.eye(3)).action, posterior.argmax(axis=-1))


def patient(belief: dict[str, float], treats: dict[str, str]) -> InfluenceDiagram:
    """One of several deadly diseases; drugs that are free and certain to work against theirs."""
    drugs = ("none", "anti-A", "anti-B", "both")
    survives = [[float(drug in (treats[d], "both")) for drug in drugs] for d in belief]
    net = DiscreteNetwork({"disease": tuple(belief)}, {}, {"disease": np.array(list(belief.values()))})
    return InfluenceDiagram.of(
        net, decisions={"take": drugs}, known={}, utilities={"life": (("disease", "take"), np.array(survives))}
    )


TREATS = {"A": "anti-A", "B": "anti-B", "dextro-B": "anti-B", "levo-B": "anti-B"}


@pytest.mark.parametrize(
    ("belief", "ml_choice", "ml_survival"),
    [
        ({"A": 0.4, "B": 0.6}, "anti-B", 0.6),
        ({"A": 0.4, "dextro-B": 0.3, "levo-B": 0.3}, "anti-A", 0.4),
    ],
    ids=["two", "three"],
)
def test_two_statisticians(belief, ml_choice, ml_survival):
    """Russell and Norvig, exercise 20.4: acting on the most probable hypothesis alone depends on how one counts."""
    options = expected_utilities(patient(belief, TREATS))
    best = solve(patient(belief, TREATS))
    assert best.choose("take") == "both" and best.expected_utility == pytest.approx(1)
    likeliest = max(belief, key=belief.get)
    certain = patient({d: float(d == likeliest) for d in belief}, TREATS)
    # To one who is certain, one drug is as good as both; the first is the one that is enough.
    assert solve(certain).choose("take") == ml_choice
    assert options[ml_choice] == pytest.approx(ml_survival)


def test_under_a_policy_the_diagram_is_a_network():
    found = solve(oil())
    net = under_policy(oil(), found.rules)
    assert net.decisions == ()
    plain = DiscreteNetwork(net.states, {v: net.parents[v] for v in net.states}, net.tables)
    letters = {"test": "t", "oil": "o", "result": "r", "drill": "d"}
    scopes = ["".join(letters[u] for u in (*plain.parents[v], v)) for v in letters]
    p = np.einsum(f"{','.join(scopes)}->d", *(plain.tables[v] for v in letters))
    assert p[1] == pytest.approx(1 - (0.5 * 0.6 + 0.3 * 0.3 + 0.2 * 0.1))


def test_a_long_diagram_is_solved_and_a_wide_one_refused():
    """Twenty repairs of a machine, each seen before deciding: a Markov decision process, by value iteration."""
    n, step = 20, np.array([[[0.9, 0.1], [1, 0]], [[0, 1], [0.8, 0.2]]])  # state, action, next
    cost = np.array([[0, -2], [-5, -6]])
    states, parents, tables, utilities = {}, {}, {}, {}
    for t in range(n):
        states |= {f"machine{t}": ("good", "bad"), f"repair{t}": NO_YES}
        tables[f"machine{t}"] = step if t else np.array([0.9, 0.1])
        parents |= {f"machine{t}": (f"machine{t - 1}", f"repair{t - 1}") if t else (), f"repair{t}": (f"machine{t}",)}
        parents[f"cost{t}"] = (f"machine{t}", f"repair{t}")
        utilities[f"cost{t}"] = cost
    decisions = tuple(f"repair{t}" for t in range(n))
    value = np.zeros(2)
    for _ in range(n):
        value = (cost + step @ value).max(axis=1)
    diagram = InfluenceDiagram(states, parents, tables, utilities, decisions)
    found = solve(diagram)
    assert found.expected_utility == pytest.approx(np.dot([0.9, 0.1], value), abs=1e-10)
    assert all(set(rule.known) <= {f"machine{t}"} for t, rule in enumerate(found.rules.values()))

    names = [f"x{i}" for i in range(40)]
    parity = InfluenceDiagram(
        {**dict.fromkeys(names, NO_YES), "y": NO_YES, "d": NO_YES},
        {**dict.fromkeys(names, ("y",)), "d": tuple(names), "u": ("y", "d")},
        {**{v: np.array([[0.6, 0.4], [0.4, 0.6]]) for v in names}, "y": np.array([0.5, 0.5])},
        {"u": np.eye(2)},
        ("d",),
    )
    with refused("engine.refused.too-costly"):
        solve(parity)


@pytest.mark.parametrize(
    ("changed", "code", "match"),
    [
        ({"decisions": ("drill", "test")}, "model.contradiction", "'drill'.*'test'"),
        ({"decisions": ("test", "dril")}, "model.unknown-variable", "'dril'.*'drill'"),
        ({"decisions": ("test", "test", "drill")}, "model.duplicate", "'test'.*decisions"),
        ({"utilities": {"gain": np.zeros((2, 3)), "cost": np.zeros(2)}}, "model.wrong-shape", "'gain'.*2.*3"),
        ({"utilities": {"gain": np.full((3, 2), np.inf), "cost": np.zeros(2)}}, "model.not-finite", "'gain'"),
        ({"tables": {"oil": np.array([0.5, 0.3, 0.2])}}, "model.incomplete", "'result'"),
    ],
)
def test_malformed_diagrams(changed, code, match):
    with refused(code, match):
        oil(**changed)


def test_errors():
    diagram = oil()
    with refused("evidence.incomplete", "'drill'.*'test'"):
        solve(diagram, {"drill": "yes"})
    with refused("evidence.incomplete", "'result'.*'test'"):
        solve(diagram, {"result": "open"})
    with refused("evidence.probability-zero"):
        solve(diagram, {"test": "yes", "result": "no test"})
    with refused("evidence.wrong-type", "'test'"):
        solve(diagram, {"test": {"yes": 1}})
    with refused("option.nothing-to-decide"):
        expected_utilities(diagram, {"test": "yes", "drill": "yes"})
    with refused("model.not-applicable", "'result'.*'test'"):
        value_of_information(diagram, "result", "test")
    with refused("model.unknown-variable", "'drill'"):
        value_of_information(diagram, "drill", "test")
    with refused("model.unknown-variable", "'dril'.*'drill'"):
        diagram.past("dril")
    with refused("model.unknown-variable", "'tset'.*'test'"):
        solve(diagram).choose("tset")
    rule = Rule("test", NO_YES, {"oil": diagram.states["oil"]}, np.zeros(3, int))
    with refused("model.misplaced", "'oil'"):
        under_policy(diagram, {"test": rule})


def test_what_a_later_decision_changes_cannot_be_known_before():
    # Drilling decides about x, so that nothing can be learnt of x before the test, which comes first.
    diagram = InfluenceDiagram(
        states={"x": ("good", "bad"), "test": ("yes", "no"), "drill": ("yes", "no")},
        parents={"x": ("drill",), "cost": ("test",), "gain": ("x",)},
        tables={"x": np.array([[0.7, 0.3], [0.2, 0.8]])},
        decisions=("test", "drill"),
        utilities={"cost": np.array([-10.0, 0.0]), "gain": np.array([100.0, -20.0])},
    )
    assert information_values(diagram) == {}
    assert solve(diagram).expected_utility == pytest.approx(0.7 * 100 - 0.3 * 20)


def test_nothing_is_known_before_a_decision_that_is_taken():
    """It was answered as if the question were about the next decision."""
    with refused("evidence.conflict", "'test' is taken already"):
        value_of_information(oil(), "oil", "test", {"test": "yes"})
    assert value_of_information(oil(), "oil", "drill", {"test": "yes"}) > 0


def test_a_later_decision_cannot_be_given_alone():
    for ask in (solve, expected_utilities, information_values):
        with refused("evidence.incomplete", "'drill' is given but 'test'"):
            ask(oil(), {"drill": "yes"})
        with refused("evidence.incomplete", "'result' depends on 'test'"):
            ask(oil(), {"result": "open"})
        with refused("evidence.wrong-type", "mapping"):
            ask(oil(), "test")
        with refused("evidence.not-probabilities", "'oil'"):
            ask(oil(), {"oil": {"dry": 0}})
    with refused("evidence.wrong-type", "not likelihoods"):
        solve(oil()).choose("drill", {"test": "yes", "result": {"open": 1}})
    with refused("evidence.wrong-type", "variables"):
        value_of_information(oil(), None, "drill")
    with refused("model.wrong-type", "'test'"):
        evaluate(oil(), {"test": 3})
