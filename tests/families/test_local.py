"""Local distributions: what a file may write, the table that follows, and what is said when it is wrong."""

from __future__ import annotations

import tracemalloc
from itertools import product
from textwrap import dedent, indent

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.families.bayes_net.local_distributions.place import identifier
from bayeslab.families.bayes_net.net import net_of
from tests.refusals import refused

PARENTS = """\
a: {states: [yes, no], table: 0.3}
b: {states: [no, mid, hi], table: [0.2, 0.3, 0.5]}
c: {states: [no, yes], table: 0.4}
w: {states: [p, q], table: 0.3}
m: {states: [1, 2, 3], table: [0.3, 0.3, 0.4]}
"""


@pytest.fixture
def loaded(tmp_path):
    """A model file with the variables above and one more."""

    def load(more: str, extra: str = ""):
        file = tmp_path / "net.yaml"
        variables = indent(PARENTS + dedent(more), "    ")
        file.write_text(
            f"bayeslab: 1\nname: net\nmodel:\n  family: bayes_net\n{indent(dedent(extra), '  ')}  variables:\n{variables}\n"
        )
        return bl.load(file)

    return load


@pytest.fixture
def table(loaded):
    """The table of ``x``."""

    def read(more: str, extra: str = "") -> np.ndarray:
        return bl.network(loaded(f"x: {more}", extra)).plain.tables["x"]

    return read


# --------------------------------------------------------------------------------- tables

PAIRS = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
SAME = {
    "nested lists": "[[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]",
    "rows in full": "[[[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]], [[0.4, 0.6], [0.5, 0.5], [0.6, 0.4]]]",
    "rows by name": "{'yes, no': 0.1, 'yes,mid': 0.2, 'yes , hi': 0.3, 'no, no': 0.4, 'no, mid': 0.5, 'no, hi': 0.6}",
    "by name within name": "{yes: {no: 0.1, mid: 0.2, hi: 0.3}, no: {no: 0.4, hi: 0.6, mid: 0.5}}",
    "lists within names": "{yes: [0.1, 0.2, 0.3], no: [0.4, 0.5, 0.6]}",
    "names within lists": "[{hi: 0.3, mid: 0.2, no: 0.1}, [0.4, 0.5, 0.6]]",
    "states by name": "{yes: [{p: 0.1, q: 0.9}, {q: 0.8, p: 0.2}, 0.3], no: [0.4, 0.5, 0.6]}",
    "a default": "{'yes, no': 0.1, 'yes, mid': 0.2, 'yes, hi': 0.3, 'no, no': 0.4, 'no, hi': 0.6, default: 0.5}",
    "a default inside": "{yes: {no: 0.1, default: 0.3, mid: 0.2}, no: {no: 0.4, mid: 0.5, default: 0.6}}",
    "the nearer default": "{yes: {no: 0.1, mid: 0.2, default: 0.3}, 'no, no': 0.4, 'no, hi': 0.6, default: 0.5}",
    "expressions of numbers": "{yes: [1/10, 0.2, 3/10], no: [0.4, 1/2, 1 - 0.4]}",
}


@pytest.mark.parametrize("written", SAME.values(), ids=SAME)
def test_one_table_written_in_many_ways(table, written):
    found = table(f"{{states: [p, q], parents: [a, b], table: {written}}}")
    np.testing.assert_allclose(found, np.stack([PAIRS, 1 - PAIRS], axis=-1), atol=1e-15)


def test_the_single_number_is_that_of_the_first_state(table):
    np.testing.assert_array_equal(table("{states: [p, q], table: 0.3}"), [0.3, 0.7])
    np.testing.assert_array_equal(table("{states: [p, q, r], table: {r: 0.5, p: 0.2, q: 0.3}}"), [0.2, 0.3, 0.5])
    np.testing.assert_array_equal(table("{states: [only], table: [1]}"), [1.0])


def test_rows_are_normalised_within_a_thousandth(table):
    np.testing.assert_allclose(table("{states: [p, q], table: [0.1, 0.9005]}"), np.array([0.1, 0.9005]) / 1.0005)
    np.testing.assert_array_equal(table("{states: [p, q, r], table: [1/3, 1/3, 1/3]}").sum(), 1.0)


def test_states_with_commas_and_odd_names(loaded):
    model = loaded("""\
        'a,b': {states: ['p, q', r], table: 0.3}
        'straße / n° 1': {states: ['1', yes, None], parents: ['a,b'], table: {'p, q': [0.1, 0.2, 0.7], r: [0.3, 0.3, 0.4]}}
        x:
          states: [no, yes]
          parents: ['a,b', c]
          table: {'p, q, yes': 0.3, 'r, no': 0.5, default: 0.1}
        """)
    net = bl.network(model).plain
    assert net.states["straße / n° 1"] == ("1", "yes", "None")
    np.testing.assert_array_equal(net.tables["x"][..., 0], [[0.1, 0.3], [0.5, 0.1]])


def test_dirichlet_and_beta_rows(loaded):
    model = loaded("x: {states: [p, q], parents: [b], table: {no: 'Beta(2, 3)', mid: 0.2, hi: 'Dirichlet([1, 5])'}}")
    rows = net_of(model.model).locals["x"].rows
    np.testing.assert_array_equal(rows.index, [0, 2])
    np.testing.assert_array_equal(rows.concentration, [[2, 3], [1, 5]])
    assert not rows.whole
    rows = net_of(loaded("x: {states: [p, q, r], table: Dirichlet(0.5)}").model).locals["x"].rows
    np.testing.assert_array_equal(rows.concentration, [[0.5, 0.5, 0.5]])


@pytest.mark.parametrize(
    ("prior", "cells"),
    [("2", 2.0), ("{pseudocount: 2}", 2.0), ("{m_estimate: 2}", 1.0), ("{equivalent_sample_size: 12}", 2.0)],
)
def test_priors_of_tables_that_are_left_out(loaded, prior, cells):
    """Heckerman, Geiger, Chickering (1995): an equivalent sample size is spread over all cells of the table."""
    for model in (
        loaded(f"x: {{states: [p, q], parents: [b], prior: {prior}}}"),
        loaded("x: {states: [p, q], parents: [b]}", f"prior: {prior}\n"),
    ):
        rows = net_of(model.model).locals["x"].rows
        np.testing.assert_array_equal(rows.concentration, np.full((3, 2), cells))
        assert rows.whole


def test_expressions_over_parameters(loaded):
    model = loaded(
        "x: {states: [p, q], parents: [a], table: {yes: th, no: 1 - th**2}}\n"
        "y: {states: [p, q, r], parents: [a], table: {yes: [th, th, 1 - 2 * th], no: [0.2, k, 0.8 - k]}}",
        "parameters: {k: 0.5, th: 'Beta(1, 1)'}\n",
    )
    net = net_of(model.model)
    values = {"th": 0.3, "1 - th**2": 0.91, "1 - 2 * th": 0.4}
    np.testing.assert_allclose(net.locals["x"].table(values.get, np), [[0.3, 0.7], [0.91, 0.09]])
    np.testing.assert_allclose(net.locals["y"].table(values.get, np), [[0.3, 0.3, 0.4], [0.2, 0.5, 0.3]])


def test_parameters_that_are_numbers_are_put_in(table):
    found = table(
        "{states: [p, q], parents: [a], table: {yes: k, no: half * k}}", "parameters: {half: 1/2, k: 1 - half / 2}\n"
    )
    np.testing.assert_allclose(found[:, 0], [0.75, 0.375])


# --------------------------------------------------------------------------------- noisy-OR and noisy-MAX


def test_noisy_or(table):
    """F13: each cause fails one time in ten, so one gives 0.9 and both 0.99."""
    found = table("{states: [yes, no], parents: [a, c], noisy_or: {a: 0.9, c: 0.9}}")
    np.testing.assert_allclose(found[..., 0], [[0.9, 0.99], [0.0, 0.9]], atol=1e-15)
    np.testing.assert_allclose(found.sum(axis=-1), 1.0)


def test_noisy_or_with_a_leak_and_any_order_of_states(table):
    own = {"[yes, no]": 0, "[no, yes]": 1}
    for states, present in own.items():
        found = table(f"{{states: {states}, parents: [a, c], noisy_or: {{a: 0.9, c: 0.8, leak: 0.1}}}}")
        fails = np.array([[0.9 * 0.1, 0.9 * 0.1 * 0.2], [0.9, 0.9 * 0.2]])  # a yes, no by c no, yes
        np.testing.assert_allclose(found[..., present], 1 - fails)
    found = table("{states: [yes, no], parents: [w], noisy_or: {w: 0.8}, absent: {w: p}}")
    np.testing.assert_allclose(found[:, 0], [0.0, 0.8])


def test_noisy_or_of_no_cause(table):
    np.testing.assert_allclose(table("{states: [yes, no], noisy_or: {leak: 0.2}}"), [0.2, 0.8])
    np.testing.assert_allclose(table("{states: [yes, no], noisy_or: {}}"), [0.0, 1.0])
    np.testing.assert_allclose(table("{states: [yes, no], parents: [a], noisy_or: {a: 1}}"), np.eye(2))


def brute_max(effects: list[np.ndarray]) -> np.ndarray:
    """Distribution of the largest of independent effects, by going through all of them."""
    out = np.zeros(len(effects[0]))
    for each in product(*(range(len(e)) for e in effects)):
        out[max(each)] += np.prod([e[i] for e, i in zip(effects, each, strict=True)])
    return out


def test_noisy_max_over_all_effects(table):
    """Diez (1993): the strongest of the effects of the causes that are there, and of the leak."""
    found = table(
        "{states: [no, lo, hi], parents: [a, b], noisy_max: {a: [0.1, 0.2, 0.7], "
        "b: {mid: [0.5, 0.3, 0.2], hi: {no: 0.1, lo: 0.15, hi: 0.75}}, leak: [0.9, 0.06, 0.04]}}"
    )
    leak, nothing = np.array([0.9, 0.06, 0.04]), np.array([1.0, 0, 0])
    of_a = [np.array([0.1, 0.2, 0.7]), nothing]
    of_b = [nothing, np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.15, 0.75])]
    for i, j in product(range(2), range(3)):
        np.testing.assert_allclose(found[i, j], brute_max([of_a[i], of_b[j], leak]), atol=1e-15)


def test_noisy_or_of_many_parents_takes_the_memory_of_its_table():
    """An indicator of every cause in every row would take eighteen times as much."""
    n = 18
    causes = {f"c{i}": {"states": ["yes", "no"], "table": 0.1} for i in range(n)}
    x = {"states": ["yes", "no"], "parents": list(causes), "noisy_or": dict.fromkeys(causes, 0.3) | {"leak": 0.01}}
    model = bl.Model(model={"family": "bayes_net", "variables": {**causes, "x": x}})
    tracemalloc.start()
    try:
        built = bl.network(model).plain.tables["x"]
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    present = n - np.indices((2,) * n).sum(axis=0)
    np.testing.assert_allclose(built[..., 1], 0.99 * 0.7**present, rtol=1e-12)
    assert most < 10 * built.nbytes


def test_noisy_max_turned_round_is_the_same(table):
    up = table("{states: [no, lo, hi], parents: [a], noisy_max: {a: [0.1, 0.2, 0.7], leak: [0.9, 0.06, 0.04]}}")
    down = table("{states: [hi, lo, no], parents: [a], noisy_max: {a: [0.7, 0.2, 0.1], leak: [0.04, 0.06, 0.9]}}")
    np.testing.assert_allclose(down, up[:, ::-1])


def test_noisy_max_of_two_states_is_noisy_or(table):
    by_max = table("{states: [no, yes], parents: [a, c], noisy_max: {a: [0.1, 0.9], c: [0.2, 0.8], leak: [0.9, 0.1]}}")
    by_or = table("{states: [no, yes], parents: [a, c], noisy_or: {a: 0.9, c: 0.8, leak: 0.1}}")
    np.testing.assert_allclose(by_max, by_or, atol=1e-15)


def test_an_effect_by_name_is_no_list_of_causes(table):
    found = table("{states: [no, lo, hi], parents: [a], noisy_max: {a: {no: 0.1, lo: 0.1, hi: 0.8}}}")
    np.testing.assert_allclose(found, [[0.1, 0.1, 0.8], [1, 0, 0]])


# --------------------------------------------------------------------------------- logit


def test_logit_of_two_states(table):
    found = table("{states: [no, yes], parents: [a, b], logit: {intercept: -1, a: 2, b: {mid: 0.5, hi: 1.5}}}")
    log_odds = -1 + np.array([2, 0])[:, None] + np.array([0, 0.5, 1.5])
    np.testing.assert_allclose(found[..., 1], 1 / (1 + np.exp(-log_odds)))
    turned = table("{states: [yes, no], parents: [a, b], logit: {intercept: -1, a: 2, b: {mid: 0.5, hi: 1.5}}}")
    np.testing.assert_allclose(turned, found[..., ::-1])


def test_softmax_of_three_states(table):
    found = table("{states: [u, v, z], parents: [a], logit: {u: {intercept: 1, a: 2}, v: {intercept: 0.5, a: -1}}}")
    scores = np.array([[3, -0.5, 0], [1, 0.5, 0]])  # the last state is the reference, as none means "not there"
    np.testing.assert_allclose(found, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True))


def test_softmax_cpd_rows_sum_to_one_and_two_states_are_the_sigmoid(table):
    """Large weights overflow nothing; K = 2 is the sigmoid."""
    found = table("{states: [u, v, z], parents: [a], logit: {u: {intercept: 900, a: 800}, v: {intercept: -900, a: 0}}}")
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    sigmoid = table("{states: [v, u], parents: [a], logit: {intercept: 0.3, a: 1.1}, absent: {x: v}}")
    np.testing.assert_allclose(sigmoid[:, 1], 1 / (1 + np.exp(-np.array([1.4, 0.3]))))


# --------------------------------------------------------------------------------- functions


@pytest.mark.parametrize(
    ("word", "truth"),
    [
        ("or", lambda a, c: a or c),
        ("and", lambda a, c: a and c),
        ("xor", lambda a, c: a != c),
        ("nor", lambda a, c: not (a or c)),
        ("nand", lambda a, c: not (a and c)),
    ],
)
def test_functions_by_word(table, word, truth):
    found = table(f"{{states: [no, yes], parents: [a, c], function: {word}}}")
    for (i, a), (j, c) in product(enumerate((True, False)), enumerate((False, True))):
        np.testing.assert_array_equal(found[i, j], [not truth(a, c), truth(a, c)])


FUNCTIONS = {
    "a mapping": "{'yes, yes': yes, default: no}",
    "lists": "[[no, yes], [no, no]]",
    "an expression of factors": "a == 'yes' and c == 'yes'",
    "a comparison turned round": "not (a == 'no' or c == 'no')",
}


@pytest.mark.parametrize("written", FUNCTIONS.values(), ids=FUNCTIONS)
def test_one_function_written_in_many_ways(table, written):
    found = table(
        f"{{states: [no, yes], parents: [a, c], function: {written if written[0] in '[{' else chr(34) + written + chr(34)}}}"
    )
    np.testing.assert_array_equal(found[..., 1], [[0, 1], [0, 0]])


def test_functions_of_states_that_are_numbers(loaded, table):
    model = loaded("d: {states: [0, 1], table: 0.5}\nx: {states: [1, 2, 3, 4], parents: [m, d], function: m + d}")
    np.testing.assert_array_equal(bl.network(model).plain.tables["x"].argmax(axis=-1), [[0, 1], [1, 2], [2, 3]])
    np.testing.assert_array_equal(table("{states: [no, yes], parents: [m], function: m >= 2}")[:, 1], [0, 1, 1])
    np.testing.assert_array_equal(table("{states: [true, false], parents: [a], function: [true, false]}"), np.eye(2))


def test_a_function_may_guard_against_what_is_not_defined(table):
    """A part that has no value counts only where the others leave the value open."""
    for written in (
        "(m > 1) and 1 / (m - 1) >= 1",
        "where(m > 1, 1 / (m - 1) >= 1, 0)",
        "not (m == 1 or 1 / (m - 1) < 1)",
    ):
        found = table(f"{{states: [no, yes], parents: [m], function: '{written}'}}")
        np.testing.assert_array_equal(found[:, 1], [0, 1, 0], err_msg=written)


def test_a_function_may_be_a_parent_itself(table):
    copied = table("{states: [hi, no, mid], parents: [b], function: b}")
    np.testing.assert_array_equal(copied, [[0, 1, 0], [0, 0, 1], [1, 0, 0]])


# --------------------------------------------------------------------------------- what is wrong, and where

X = "x: {states: [p, q], parents: [a], "
Y = "x: {states: [no, yes], parents: [a], "
Z = "x: {states: [no, lo, hi], parents: [a], "
# what is written, what is said, and the text at which the error points
WRONG = {
    "no such state of a parent": (X + "table: {yse: 0.1, no: 0.2}}", "model.unknown-state", "'yse'.*'a'.*'yes'", "0.1"),
    "negative": (X + "table: {yes: -0.1, no: 0.2}}", "model.out-of-range", r"-0\.1", "-0.1"),
    "not a number": (X + "table: {yes: .nan, no: 0.2}}", "model.out-of-range", "nan", ".nan"),
    "a truth value": (X + "table: {yes: true, no: 0.2}}", "model.out-of-range", "True", "true"),
    "nothing": (X + "table: {yes: , no: 0.2}}", "model.wrong-length", "'x'.*2", "yes: ,"),
    "off by a tenth": (X + "table: {yes: [0.1, 0.8], no: 0.2}}", "model.not-probabilities", "a=yes.*'x'.*0[.]9", "[0.1, 0.8]"),
    "all zero": (X + "table: {yes: [0, 0], no: 0.2}}", "model.not-probabilities", "a=yes.*'x'.* 0,", "[0, 0]"),
    "too many": (X + "table: {yes: [0.1, 0.2, 0.7], no: 0.2}}", "model.wrong-length", "'x'.*2", "[0.1, 0.2"),
    "other states": (X + "table: {yes: {p: 0.1, r: 0.9}, no: 0.2}}", "model.unknown-state", "'p', 'r'.*p, q", "{p: 0.1, r"),
    "a row missing": (X + "table: {yes: 0.1}}", "model.incomplete", "'no'.*'x'.*'default'", "{yes: 0.1}"),
    "a row twice": ("x: {states: [p, q], parents: [a, c], table: {'yes, no': 0.1, yes: {no: 0.3}, default: 1}}", "model.duplicate", "'yes, no'", "0.3"),
    "one number for all": (X + "table: 0.2}", "model.wrong-length", "'x'.*2.*'a'", "0.2}"),
    "half of the parents": ("x: {states: [p, q], parents: [a, c], table: {yes: 0.1, no: 0.2}}", "model.wrong-length", "'yes'.*2", "0.1"),
    "too many parents": (X + "table: {'yes, no': 0.1}}", "model.wrong-length", "'yes, no'.*'x'", "0.1"),
    "a root with rows": ("x: {states: [p, q], table: [[0.1, 0.9]]}", "model.wrong-length", "'x'.*2", "[[0.1"),
    "one number of three": ("x: {states: [p, q, r], table: 0.3}", "model.wrong-length", r"'x'.*3.*0\.3", "0.3}"),
    "no such parameter": (X + "table: {yes: th, no: 0.2}}", "model.unknown-parameter", "'th'", "th, no"),
    "no such distribution": (X + "table: {yes: 'Betta(1, 1)', no: 0.2}}", "model.unknown-function", "'Betta'.*'Beta'", "Betta"),
    "a prior of something else": (X + "table: {yes: 'Normal(0, 1)', no: 0.2}}", "model.bad-prior", r"'Normal\(0, 1\)'.*2", "Normal"),
    "a prior too long": (X + "table: {yes: 'Dirichlet([1, 1, 1])', no: 0.2}}", "model.bad-prior", r"'Dirichlet\(\[1, 1, 1\]\)'.*2.*Beta", "Dirichlet"),
    "no expression": (X + "table: {yes: '1 -', no: 0.2}}", "model.syntax", "", "1 -"),
    "a constant too large": (X + "table: {yes: 4 / 3, no: 0.2}}", "model.out-of-range", "1[.]33333", "4 / 3"),
    "one key too many": (X + "table: 0.2, tabel: 0.3}", "model.unknown-key", "'tabel'.*'table'", "{states: [p"),
    "two kinds": (X + "table: [0.2, 0.3], function: or}", "model.conflict", "table.*function", "{states: [p"),
    "no such parent": ("x: {states: [p, q], parents: [aa]}", "model.unknown-variable", "'aa'.*'x'.*'a'", "aa]"),
    "a circle": ("x: {states: [p, q], parents: [y]}\ny: {states: [p, q], parents: [x]}", "model.cycle", "y -> x -> y", "["),
    "a state twice": ("x: {states: [p, p]}", "model.duplicate", "p, p", "{states: [p"),
    "no states": ("x: {states: []}", "model.incomplete", "linear_gaussian", "{states: []"),
    "an empty state": ("x: {states: ['', p]}", "model.wrong-type", "''", "['', p"),
    "no state at all": ("x: {states: [null, p]}", "model.wrong-type", "None$", "[null, p"),
    "a continuous parent": ("z: {linear_gaussian: {intercept: 0, sd: 1}}\nx: {states: [p, q], parents: [z]}", "model.unsupported", "'x'.*'z'", "[z]"),
    "no such cause": (Y + "noisy_or: {aa: 0.9}}", "model.unknown-variable", "'aa'.*'x'.*'a'", "0.9"),
    "a strength beyond 1": (Y + "noisy_or: {a: 1.9}}", "model.out-of-range", r"1\.9", "1.9"),
    "absent is not clear": ("x: {states: [no, yes], parents: [w], noisy_or: {w: 0.9}}", "model.incomplete", "'w'.*absent", "{states: [no"),
    "absent of another": (Y + "noisy_or: {a: 0.9}, absent: {aa: no}}", "model.unknown-variable", "'aa'.*'x'.*'a'", "no}}"),
    "absent is no state": (Y + "noisy_or: {a: 0.9}, absent: {a: noo}}", "model.unknown-state", "'noo'.*'a'.*'no'", "noo"),
    "three states in noisy_or": ("x: {states: [no, yes], parents: [b], noisy_or: {b: 0.9}}", "model.not-applicable", "'b'.*3.*noisy_max", "{states: [no"),
    "a short effect": (Z + "noisy_max: {a: [0.5, 0.5]}}", "model.wrong-length", "3", "[0.5"),
    "an effect off": (Z + "noisy_max: {a: [0.5, 0.5, 0.5]}}", "model.not-probabilities", r"1\.5", "[0.5"),
    "an effect of no state": (Z + "noisy_max: {a: {yes: {no: 0.5, hii: 0.5}}}}", "model.unknown-state", "'hii'.*'x'.*'hi'", "{no: 0.5"),
    "an effect of absence": ("x: {states: [no, lo, hi], parents: [b], noisy_max: {b: {no: [0, 0, 1]}}}", "model.unknown-state", "'no'.*'b'", "[0, 0"),
    "an effect in words": (Z + "noisy_max: {a: strong}}", "model.wrong-type", "3.*'strong'", "strong"),
    "absence in the middle": ("x: {states: [lo, no, hi], parents: [a], noisy_max: {a: [0, 0, 1]}}", "model.not-allowed", "'x'.*'not there'", "{states: [lo"),
    "no such weight": (Y + "logit: {interceptt: 1}}", "model.unknown-variable", "'interceptt'.*'x'", "1}}"),
    "one weight for three states": ("x: {states: [no, yes], parents: [b], logit: {b: 1}}", "model.incomplete", "'b'.*3", "1}}"),
    "a weight of the reference": ("x: {states: [no, yes], parents: [b], logit: {b: {no: 1, mid: 2, hi: 3}}}", "model.not-allowed", "'no'.*'b'", "1, mid"),
    "an infinite weight": (Y + "logit: {intercept: .inf}}", "model.out-of-range", "inf", ".inf"),
    "a weight of the reference state": ("x: {states: [u, v, z], parents: [a], logit: {z: {a: 1}}}", "model.unknown-state", "'x'.*reference 'z'", "{a: 1}"),
    "no weights but a number": ("x: {states: [u, v, z], parents: [a], logit: {u: 1}}", "model.wrong-type", "intercept.*1$", "1}}"),
    "or of three states": ("x: {states: [no, yes], parents: [b], function: or}", "model.not-applicable", "'or'", "or}"),
    "a function to nowhere": ("x: {states: [1, 2], parents: [m], function: m}", "model.unknown-state", "'m'.*3.*'x'", "m}"),
    "a parent's states elsewhere": (X + "function: a}", "model.unknown-state", "'yes' is not a state of 'x'", "a}"),
    "a function of a stranger": (Y + "function: bb == 'hi'}", "model.unknown-variable", "'bb'.*'x'", "bb =="),
    "no such state in a function": (Y + "function: a == 'yess'}", "model.unknown-level", "'yess'.*'yes'", "a =="),
    "a function of nothing": ("x: {states: [no, yes], function: yes}", "model.incomplete", "function.*parents", "yes}"),
    "a division by zero": (Y + "function: (a == 'yes') / 0 > 1}", "model.not-finite", "a = yes.*division", "(a =="),
    "zero over zero": ("x: {states: [no, yes], parents: [m], function: (m - 1) / (m - 1) == 1}", "model.not-finite", "m = 1", "(m -"),
    "outside its domain": ("x: {states: [no, yes], parents: [m], function: log(m - 2) > 0}", "model.not-finite", "m = 1", "log"),
    "not of nothing": ("x: {states: [no, yes], parents: [m], function: not (m % 0 > 1)}", "model.not-finite", "m = 1", "not"),
    "a state misspelt": (Y + "function: [no, yess]}", "model.unknown-state", "'yess'.*'x'.*'yes'", "yess"),
    "a slope of a stranger": ("x: {parents: [a], linear_gaussian: {intercept: 0, slopes: {a: 1}, sd: 1}}", "model.unknown-variable", "'a'.*'x'", "1}, sd"),
    "half of a normal": ("x: {linear_gaussian: {intercept: 0}}", "model.incomplete", "'x'.*intercept.*sd", "{intercept"),
    "a negative sd": ("x: {linear_gaussian: {intercept: 0, sd: -1}}", "model.out-of-range", "-1", "-1}}"),
    "an infinite intercept": ("x: {linear_gaussian: {intercept: .inf, sd: 1}}", "model.out-of-range", "inf", ".inf"),
}  # fmt: skip


@pytest.mark.parametrize(("written", "code", "match", "at"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_with_its_place(loaded, tmp_path, written, code, match, at):
    with refused(code, match) as caught:
        loaded(written)
    where = caught.value.where or ""
    line, column = (int(part) for part in where.removeprefix(f"{tmp_path / 'net.yaml'}:").split(":"))
    text = (tmp_path / "net.yaml").read_text().splitlines()[line - 1]
    assert text[column - 1 :].startswith(at), (text[column - 1 :], at)


@pytest.mark.parametrize(
    ("extra", "code", "match", "line"),
    [
        ("hidden: [aa]\n", "model.unknown-variable", "'aa'.*hidden.*'a'", 5),
        ("learn: [aa]\n", "model.unknown-variable", "'aa'.*learn", 5),
        ("learn: everything\n", "model.wrong-type", "'all'.*'everything'", 5),
        ("target: aa\n", "model.unknown-variable", "target.*'aa'", 5),
        ("structure: naive_bayes\n", "model.incomplete", "naive_bayes.*target", 5),
        ("prior: {pseudocount: 0}\n", "model.out-of-range", "'pseudocount'.*'0'", 5),
        (
            "prior: {pseudocount: 1, m_estimate: 1}\n",
            "model.conflict",
            "pseudocount.*equivalent_sample_size.*m_estimate",
            5,
        ),
        ("prior: {m_estimat: 1}\n", "model.unknown-key", "'m_estimat'.*'m_estimate'", 5),
        ("parameters:\n  k: 2\n  th: Beta(1, kk)\n", "model.unknown-name", "'kk'", 7),
        ("parameters:\n  th: Betta(1, 1)\n", "model.unknown-function", "'Betta'.*'Beta'", 6),
        ("parameters:\n  th: Beta(1,\n", "model.syntax", r"'\('", 6),
    ],
)
def test_keys_of_the_net(loaded, extra, code, match, line):
    with refused(code, match) as caught:
        loaded("", extra)
    assert f"net.yaml:{line}:" in (caught.value.where or "")


def test_identifiers():
    assert identifier("weight_x_a b/c") == "weight_x_a_b_c"
    assert identifier("1") == "_1"
    assert identifier("straße").isidentifier()
