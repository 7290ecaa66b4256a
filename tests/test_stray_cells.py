"""Cells that are neither a number nor a word where such are expected: one line, the same from every entry."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from tests.refusals import refused

N = 12
RNG = np.random.default_rng(0)
WHOLE = {"a": RNG.normal(size=N).tolist(), "b": RNG.normal(size=N).tolist(), "c": RNG.choice(["u", "v"], N).tolist()}


def frame(name, row, cell):
    columns = {n: list(values) for n, values in WHOLE.items()}
    columns[name][row] = cell
    return pd.DataFrame(columns)


STRAY = {
    "word": (frame("a", 3, "oops"), "data.odd-cell", "column 'a'.*text.*float"),
    "number": (frame("c", 3, 1.5), "data.odd-cell", "column 'c'.*text.*float.*row 4"),
    "list": (frame("a", 3, [1, 2]), "data.wrong-shape", "column 'a'"),
    "list among words": (frame("c", 3, ["u"]), "data.wrong-shape", "column 'c'"),
    "array": (frame("a", 3, np.ones(3)), "data.wrong-shape", "column 'a'"),
    "mapping": (frame("a", 3, {"k": 1}), "data.odd-cell", "column 'a'.*dict.*row 4"),
    "object": (frame("a", 3, object()), "data.odd-cell", "column 'a'.*object.*row 4"),
    "date": (frame("a", 3, datetime.date(2020, 1, 1)), "data.odd-cell", "column 'a'.*date.*row 4"),
    "lists": (pd.DataFrame({"a": [[1, 2]] * N, "b": WHOLE["b"]}), "data.not-a-column", "column 'a'"),
    "times": (
        pd.DataFrame({"a": pd.date_range("2020", periods=N), "b": WHOLE["b"]}),
        "data.odd-cell",
        "column 'a'.*Timestamp",
    ),
    "doubled": (pd.DataFrame(np.ones((N, 2)), columns=["a", "a"]), "data.duplicate", "column 'a'"),
    "word of a mapping": ({"a": [1.0, "x", 2.0], "b": [1.0, 2.0, 4.0]}, "data.odd-cell", "'a'.*text.*float"),
    "number as text": (
        pd.DataFrame({"a": ["1.5", *map(str, range(N - 2)), "oops"], "b": WHOLE["b"]}),
        "data.odd-cell",
        "column 'a', row 12.*'oops'",
    ),
}
STRUCTURE = bl.Model(model={"family": "bayes_net", "structure": {}})
ENTRIES = {
    "fit": lambda table: bl.fit(STRUCTURE, table, runs=None, progress=False),
    "learn": bl.learn,
    "learn by a score of numbers": lambda table: bl.learn(table, "tabu", "bge"),
    "learn by structural_em": lambda table: bl.learn(table, "structural_em"),
    "learn by tests": lambda table: bl.learn(table, "pc"),
}


# Structural EM is of states: the first column of fractions ends it, whatever is in the third.
@pytest.mark.parametrize(
    ("name", "entry"),
    [(n, e) for n in STRAY for e in ENTRIES if (n, e) != ("number", "learn by structural_em")],
)
def test_stray_cell_has_the_same_words_everywhere(name, entry):
    table, code, match = STRAY[name]
    with refused(code, match):
        ENTRIES[entry](table)


@pytest.mark.parametrize("cells", [1.0, [[1.0, 2.0]] * 3, np.ones((3, 2))])
def test_columns_of_a_mapping_hold_one_value_a_row(cells):
    with refused("data.not-a-column", "'a'"):
        bl.learn({"a": cells, "b": [1.0, 2.0, 4.0]})


def test_learned_from_a_file_a_stray_word_is_refused(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("a,b\n" + "".join(f"{i % 2},{i}\n" for i in range(9)) + "1,oops\n")
    with refused("data.odd-cell", "'b'.*row 10.*'oops'.*9"):
        bl.learn(file)


def test_names_of_columns_may_be_numbers():
    wide = pd.DataFrame(RNG.integers(0, 2, (50, 3)))
    assert set(bl.learn(wide).graph) == {"0", "1", "2"}


@pytest.mark.parametrize("cell", ["oops", {"k": 1}, datetime.date(2020, 1, 1)])
def test_column_of_new_data_that_cannot_be_read_is_not_said_to_lack(cell):
    model = bl.Model(model={"family": "regression", "formula": "y ~ a"})
    fit = bl.fit(model, {"a": WHOLE["a"], "y": WHOLE["b"]}, runs=None, progress=False)
    with refused("data.odd-cell", "'a'"):
        fit.predict(frame("a", 3, cell))


def test_evidence_that_cannot_be_read_is_not_passed_over():
    """As unknown it would be, without a word, and the answer another."""
    net = bl.learn({"a": ["u", "v"] * 5, "c": ["u", "v", "v", "u", "u"] * 2}).network()
    with refused("data.odd-cell", "'a'.*text.*int.*row 2"):
        net.query_many({"a": ["u", 7], "c": ["u", None]})
