"""Unrolled nets against published filtering and smoothing numbers and against enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.structure.dynamic import Template, unroll
from tests.refusals import refused

RAIN = {"Rain": ("rain", "dry")}


def posterior(network: DiscreteNetwork, variable: str, given: dict[str, int]) -> tuple[np.ndarray, float]:
    """P(variable | given) and P(given), by adding up the whole joint distribution."""
    out = np.zeros(len(network.states[variable]))
    names = list(network.states)
    for codes in product(*(range(len(s)) for s in network.states.values())):
        at = dict(zip(names, codes, strict=True))
        if all(at[v] == c for v, c in given.items()):
            rows = ((network.tables[v], (*(at[p] for p in network.parents[v]), at[v])) for v in names)
            out[at[variable]] += np.prod([table[row] for table, row in rows])
    return out / out.sum(), out.sum()


def umbrella() -> Template:
    initial = DiscreteNetwork(RAIN, {}, {"Rain": np.array([0.7, 0.3])})
    return Template(
        initial,
        RAIN | {"Umbrella": ("yes", "no")},
        {"Rain": ("Rain[t-1]",), "Umbrella": ("Rain",)},
        {"Rain": np.array([[0.7, 0.3], [0.3, 0.7]]), "Umbrella": np.array([[0.9, 0.1], [0.2, 0.8]])},
    )


# P(rain) by day, from Russell and Norvig's umbrella world with P(Rain0) = 0.7.
UMBRELLA = [
    ("u", [0.861386], [0.797030, 0.861386], 0.606),
    ("uu", [0.861386, 0.890832], [0.814733, 0.912726, 0.890832], 0.39462),
    (
        "uuuu",
        [0.861386, 0.890832, 0.895769, 0.896585],
        [0.818192, 0.922757, 0.938948, 0.935330, 0.896585],
        0.17196092,
    ),
    (
        "uu-uu",
        [0.861386, 0.890832, 0.192718, 0.731480, 0.867470],
        [0.810443, 0.900286, 0.831156, 0.310307, 0.820933, 0.867470],
        0.03833605,
    ),
]


@pytest.mark.parametrize(("seen", "filtered", "smoothed", "evidence"), UMBRELLA)
def test_umbrella(seen, filtered, smoothed, evidence):
    given = {f"Umbrella[{t}]": int(s == "-") for t, s in enumerate(seen, 1)}
    network = unroll(umbrella(), len(seen) + 1)
    for t, expected in enumerate(smoothed):
        found, total = posterior(network, f"Rain[{t}]", given)
        assert found[0] == pytest.approx(expected, abs=5e-7)
        assert total == pytest.approx(evidence, abs=5e-9)
    for t, expected in enumerate(filtered, 1):
        past = dict(list(given.items())[:t])
        assert posterior(unroll(umbrella(), t + 1), f"Rain[{t}]", past)[0][0] == pytest.approx(expected, abs=5e-7)


def test_more_slices_do_not_change_the_past():
    given = {"Umbrella[1]": 0, "Umbrella[2]": 1}
    short, long = (posterior(unroll(umbrella(), n), "Rain[2]", given)[0] for n in (3, 5))
    assert short == pytest.approx(long, abs=1e-14)


def test_wet_grass_with_weather_that_persists():
    """Filtered by a recursion over the weather alone, and by the unrolled net."""
    cloudy, sprinkler = np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([[0.5, 0.5], [0.9, 0.1]])
    rain, wet = np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([[[1, 0], [0.1, 0.9]], [[0.1, 0.9], [0.01, 0.99]]])
    no_yes = ("no", "yes")
    within = {"Sprinkler": ("Cloudy",), "Rain": ("Cloudy[t]",), "Wet": (("Sprinkler", 0), "Rain")}
    template = Template(
        DiscreteNetwork({"Cloudy": no_yes}, {}, {"Cloudy": np.array([0.5, 0.5])}),
        dict.fromkeys(("Wet", "Rain", "Sprinkler", "Cloudy"), no_yes),
        within | {"Cloudy": (("Cloudy", -1),)},
        {"Cloudy": cloudy, "Sprinkler": sprinkler, "Rain": rain, "Wet": wet},
    )
    seen = [1, 1, 0]
    belief = np.array([0.5, 0.5])
    for w in seen:
        belief = (belief @ cloudy) * np.einsum("cs,cr,sr->c", sprinkler, rain, wet[:, :, w])
        belief /= belief.sum()
    network = unroll(template, 4)
    found, _ = posterior(network, "Cloudy[3]", {f"Wet[{t}]": w for t, w in enumerate(seen, 1)})
    assert found == pytest.approx(belief, abs=1e-12)
    assert list(network.states)[:5] == ["Cloudy[0]", "Wet[1]", "Rain[1]", "Sprinkler[1]", "Cloudy[1]"]
    assert network.parents["Wet[2]"] == ("Sprinkler[2]", "Rain[2]")


def test_parents_two_slices_back():
    """A second-order chain is the product of its transition tables."""
    rng = np.random.default_rng(1)
    first, second, onward = rng.dirichlet([1, 1]), rng.dirichlet([1, 1], 2), rng.dirichlet([1, 1], (2, 2))
    own = ("a", "b")
    initial = DiscreteNetwork({"X[0]": own, "X[1]": own}, {"X[1]": ("X[0]",)}, {"X[0]": first, "X[1]": second})
    template = Template(initial, {"X": own}, {"X": ("X[t-2]", "X[t - 1]")}, {"X": onward})
    assert template.n_initial == 2
    found, _ = posterior(unroll(template, 4), "X[3]", {"X[0]": 1})
    assert found == pytest.approx(np.einsum("b,bc,bcd->d", second[1], onward[1], onward), abs=1e-14)
    assert unroll(template, 2).n_parameters == initial.n_parameters


@pytest.mark.parametrize(
    ("changed", "code", "match"),
    [
        ({"parents": {"Rain": ("Rian[t-1]",)}}, "model.unknown-variable", "'Rian'.*'Rain'"),
        ({"parents": {"Rain": ("Umbrella[t-1]",)}}, "model.unknown-variable", "'Umbrella'"),
        ({"parents": {"Rain": ("Rain[t-2]",)}}, "model.unknown-variable", "'Rain'.*-1"),
        ({"parents": {"Rain": (("Rain", 1),)}}, "model.misplaced", "'Rain'"),
        ({"parents": {"Rain": ("Umbrella",), "Umbrella": ("Rain",)}}, "model.cycle", "Rain.*Umbrella"),
        ({"parents": {}}, "model.wrong-shape", r"'Rain\[1\]'.*2"),
        ({"parents": {"Snow": ()}}, "model.unknown-variable", "'Snow'.*parents"),
        ({"tables": {"Rain": np.eye(2)}}, "model.incomplete", "'Umbrella'"),
        ({"states": {"Rain": ("wet", "dry"), "Umbrella": ("yes", "no")}}, "model.contradiction", "states.*'Rain'"),
    ],
)
def test_errors(changed, code, match):
    good = umbrella()
    fields = {"states": good.states, "parents": good.parents, "tables": good.tables} | changed
    with refused(code, match):
        Template(good.initial, **fields)


def test_too_few_slices():
    with refused("option.out-of-range", "0 slices"):
        unroll(umbrella(), 0)


def test_one_parent_without_a_list_and_what_is_no_parent():
    start = DiscreteNetwork({"rain": ("yes", "no")}, {}, {"rain": [0.5, 0.5]})
    fields = {
        "states": {"rain": ("yes", "no")},
        "parents": {"rain": "rain[t-1]"},
        "tables": {"rain": [[0.7, 0.3], [0.2, 0.8]]},
    }
    assert unroll(Template(start, **fields), 3).parents["rain[2]"] == ("rain[1]",)
    for parent in (3, ("rain", "-1"), ("rain",)):
        with refused("model.wrong-type", "parent"):
            Template(start, **{**fields, "parents": {"rain": [parent]}})


def test_numbers_of_slices_that_are_refused():
    start = DiscreteNetwork({"rain": ("yes", "no")}, {}, {"rain": [0.5, 0.5]})
    template = Template(start, {"rain": ("yes", "no")}, {"rain": ["rain[t-1]"]}, {"rain": [[0.7, 0.3], [0.2, 0.8]]})
    for n in (1.5, "3", True, None, -3):
        with refused("option." + ("out-of-range" if n == -3 else "wrong-type"), "n_slices"):
            unroll(template, n)
    with refused("option.too-costly", "slices"):
        unroll(template, 10**9)
