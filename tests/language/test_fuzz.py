"""Whatever the file holds, ``check`` either succeeds or says what is wrong in one line."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pymc  # noqa: F401  (changes the recursion limit, which Hypothesis watches)
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bayeslab as bl
from bayeslab.language.expressions import parse

FILES = sorted((Path(__file__).parents[2] / "models").glob("*.yaml"))
TEXTS = [file.read_text() for file in FILES]
PIECES = ["[", "]", "{", "}", ":", "- ", "\n", "  ", "\t", "&a ", "*a", "!!int ", "%", "---\n", "'", '"', "1e999", "~", "é",
          "Normal(", "lag(y, 1)", "previous(", "\x00", "\ufeff", "[[[[", "((((", "**", "__class__", "9" * 30]  # fmt: skip
TIGHT = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def outcome(path: Path) -> None:
    begun = time.process_time()
    try:
        bl.check(path)
    except bl.BayeslabError as error:
        assert "\n" not in str(error) and str(error).strip()
    assert time.process_time() - begun < 5


@pytest.mark.slow(why="large")
@TIGHT
@given(seed=st.integers(0, 2**32), which=st.integers(0, len(TEXTS) - 1), cuts=st.integers(1, 6))
def test_mutated_model_files(seed, which, cuts, tmp_path):
    rng = random.Random(seed)
    raw = bytearray(TEXTS[which].encode())
    for _ in range(cuts):
        at = rng.randrange(len(raw))
        match rng.randrange(5):
            case 0:
                raw[at] = rng.randrange(256)
            case 1:
                del raw[at : at + rng.randrange(1, 20)]
            case 2:
                raw[at:at] = rng.choice(PIECES).encode()
            case 3:
                lines = raw.split(b"\n")
                i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
                lines[i], lines[j] = lines[j], lines[i]
                raw = bytearray(b"\n".join(lines))
            case _:
                raw = raw[: max(at, 1)]
    file = tmp_path / "model.yaml"
    file.write_bytes(raw)
    if not (tmp_path / "data").exists():
        (tmp_path / "data").symlink_to(FILES[0].parent / "data")
    outcome(file)


@TIGHT
@given(text=st.text(max_size=300))
def test_any_text(text, tmp_path):
    file = tmp_path / "model.yaml"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    outcome(file)


TOKENS = st.sampled_from(
    [
        "a",
        "b",
        "x",
        "y",
        "0",
        "1",
        "2.5",
        "(",
        ")",
        "[",
        "]",
        ",",
        "+",
        "-",
        "*",
        "/",
        "**",
        "//",
        "%",
        "@",
        "==",
        "<",
        "and",
        "or",
        "not",
        "Normal(",
        "exp(",
        "lag(",
        "previous(",
        "start=",
        "'g'",
        ".",
        "^",
        ":",
        "if",
        "else",
        "lambda",
        "~",
    ]
)


@TIGHT
@given(st.lists(TOKENS, max_size=25))
def test_any_expression(tokens):
    try:
        parse(" ".join(tokens))
    except bl.BayeslabError as error:
        assert "\n" not in str(error)


CELLS = st.sampled_from(["", "1", "2.5", "NA", "abc", "1e400", "inf", "-", '"', "'", "é", "a,b", "\r", "None"])


@TIGHT
@given(
    rows=st.lists(st.lists(CELLS, max_size=4), max_size=6),
    header=st.lists(st.sampled_from(["x", "y", "g", "", "x y"]), max_size=4),
)
def test_any_table(rows, header, tmp_path):
    lines = [",".join(header), *(",".join(row) for row in rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    file = tmp_path / "model.yaml"
    file.write_text(
        "bayeslab: 1\ndata: {table: t.csv, rows: obs}\nmodel:\n  family: graph\n  nodes:\n"
        "    a[g]: Normal(0, 1)\n    y[obs]: Normal(a[g] + x, 1)\n"
    )
    outcome(file)


@pytest.mark.parametrize("text", ["9**9**9**9", "x" * 4999, "-" * 4000 + "1", "(" * 80 + ")" * 80, "1if 1else 1"])
def test_expressions_that_are_traps(text):
    begun = time.monotonic()
    try:
        parse(text)
    except bl.BayeslabError as error:
        assert "\n" not in str(error)
    assert time.monotonic() - begun < 2
