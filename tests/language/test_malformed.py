"""Malformed model files and tables: one line, the right place, exit code 1, and nothing written.

Each case is a file that is wrong in one way. ``at`` is the line (and column) the message must
name; ``says`` are words it must hold: what was given, what is allowed, the nearest name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import bayeslab as bl
from bayeslab.cli import main
from tests.refusals import refused

HEAD = "bayeslab: 1\nname: bad\n"
TABLE = "x,y,g\n1,2.5,a\n2,3.5,b\n3,4.5,a\n"
DATA = "data: {table: t.csv, rows: obs}\n"


def graph(*nodes: str, head: str = HEAD + DATA, tail: str = "") -> str:
    """A model file; its first node is on the line after ``nodes:``."""
    return head + "model:\n  family: graph\n  nodes:\n" + "".join(f"    {node}\n" for node in nodes) + tail


FIRST = 7  # the line of the first node in graph(...)
OK = ("a: Normal(0, 1)", "y[obs]: Normal(a, 1)")


@dataclass(frozen=True)
class Case:
    name: str
    text: str | bytes
    says: tuple[str, ...]
    at: str | None = None
    table: str | bytes | None = TABLE
    command: str = "check"
    options: tuple[str, ...] = ()


def node(name: str, expression: str, *says: str, column: int | None = None, **extra) -> Case:
    """A case whose first node is wrong; ``column`` counts from one in the expression."""
    at = f"{FIRST}:{8 + column}" if column is not None else f"{FIRST}:"
    return Case(name, graph(f"a: {expression}", "y[obs]: Normal(a, 1)"), says, at, **extra)


DEEP = "+".join(["(1"] * 70) + ")" * 70
CASES = [
    # -- the YAML itself
    Case("empty file", "", ("empty",), "1:1"),
    Case("only a comment", "# nothing\n", ("mapping",), None),
    Case("a list", "- 1\n- 2\n", ("mapping",), "1:1"),
    Case("plain text", "hello\n", ("mapping",), "1:1"),
    Case("unclosed bracket", HEAD + "data: {table: [\n", ("not valid YAML",), None),
    Case("tab as indentation", HEAD + "data:\n\ttable: t.csv\n", ("not valid YAML",), "4:"),
    Case("alias", HEAD + "data: &d {table: t.csv}\nother: *d\n", ("anchors and aliases",), "3:7"),
    Case(
        "anchor bomb",
        "a: &a [x, x]\n" + "".join(f"{c}: &{c} [*{p}, *{p}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)),
        ("anchors and aliases",),
        "1:4",
    ),
    Case("merge key", HEAD + "data:\n  <<: {table: t.csv}\n" + graph(*OK, head=""), ("unknown key '<<'",), "4:"),
    Case("python tag", HEAD + "data: !!python/object/apply:os.system [ls]\n", ("tags",), "3:7"),
    Case("local tag", HEAD + "about: !secret x\n", ("tags",), "3:8"),
    Case("directive", "%YAML 1.1\n---\n" + graph(*OK), ("directives",), None),
    Case("second document", graph(*OK) + "---\na: 1\n", ("second YAML document",), "9:1"),
    Case("deep lists", HEAD + "about: " + "[" * 40 + "]" * 40 + "\n", ("nested deeper",), "3:"),
    Case("deep mappings", HEAD + "about: " + "{a: " * 40 + "1" + "}" * 40 + "\n", ("nested deeper",), "3:"),
    Case("very deep lists", HEAD + "about: " + "[" * 20_000 + "\n", ("nested deeper",), "3:"),
    Case("too many values", HEAD + "dims: {k: [" + "1," * 60_000 + "1]}\n", ("more than",), "3:"),
    Case("too large", HEAD + "about: " + "x" * 1_100_000 + "\n", ("bytes",), None),
    Case("duplicate key", HEAD + "name: again\n", ("'name' occurs twice",), "3:1"),
    Case("duplicate node", graph("a: Normal(0, 1)", "a: Normal(0, 2)"), ("'a' occurs twice",), "8:5"),
    Case("key that is a list", HEAD + "? [a, b]\n: 1\n", ("a key must be a word",), "3:3"),
    Case("digits without end", HEAD + "seed: 0x" + "f" * 5000 + "\n", ("0xfff", "largest number"), "3:7"),
    Case("not UTF-8", HEAD.encode() + b"about: caf\xe9\n", ("0xe9", "UTF-8"), "3:11"),
    Case("NUL", HEAD.encode() + b"about: a\x00b\n", ("NUL",), "1:1"),
    Case("control character", HEAD.encode() + b"about: a\x07b\n", ("not valid YAML",), None),
    # -- keys and types
    Case("no version", "name: bad\n" + graph(*OK, head=""), ("bayeslab: 1",), "1:1"),
    Case("unknown version", graph(*OK).replace("bayeslab: 1", "bayeslab: 2"), ("version 2", "reads version 1"), "1:11"),
    Case("version true", graph(*OK).replace("bayeslab: 1", "bayeslab: true"), ("version",), "1:11"),
    Case("version as text", graph(*OK).replace("bayeslab: 1", "bayeslab: '1'"), ("version",), "1:12"),
    Case("misspelt top key", graph(*OK, tail="infrence: {draws: 10}\n"), ("'infrence'", "'inference'"), "9:"),
    Case("misspelt data key", graph(*OK).replace("rows:", "row:"), ("'row'", "'rows'"), "3:"),
    Case("misspelt family key", graph(*OK).replace("  nodes:", "  node:"), ("'node",), None),
    Case("no model", HEAD + DATA, ("'model' is missing",), None),
    Case("no family", graph(*OK).replace("  family: graph\n", ""), ("family", "graph"), None),
    Case("unknown family", graph(*OK).replace("family: graph", "family: grpah"), ("'grpah'", "'graph'"), "5:11"),
    Case("family a number", graph(*OK).replace("family: graph", "family: 3"), ("family",), None),
    Case("model a list", HEAD + "model: [1]\n", ("family",), "3:8"),
    Case("no nodes", HEAD + "model: {family: graph, nodes: {}}\n", ("at least 1",), "3:"),
    Case("nodes a list", HEAD + "model: {family: graph, nodes: [a]}\n", ("is a mapping",), "3:"),
    Case("node a mapping", graph("a: {b: 1}"), ("a text or a number",), "7:"),
    Case("node null", graph("a:"), ("a text or a number",), "7:"),
    Case("name a list", graph(*OK).replace("name: bad", "name: [bad]"), ("name", "is a text"), "2:"),
    Case("name a path", graph(*OK).replace("name: bad", "name: ../../etc"), ("letters, digits",), "2:7"),
    Case("seed negative", graph(*OK, tail="seed: -1\n"), ("is a number ≥ 0",), "9:7"),
    Case("seed text", graph(*OK, tail="seed: one\n"), ("is a whole number",), "9:7"),
    Case("table a list", graph(*OK).replace("table: t.csv", "table: [t.csv]"), ("'table' is a text",), "3:"),
    Case("rows not a name", graph(*OK).replace("rows: obs", "rows: 'my rows'"), ("not a name",), "3:"),
    Case("rows reserved", graph(*OK).replace("rows: obs", "rows: chain"), ("reserved",), "3:"),
    Case("dim of length zero", graph(*OK, tail="dims: {k: 0}\n"), ("at least 1",), "9:"),
    Case("dim a float", graph(*OK, tail="dims: {k: 2.5}\n"), ("a list of labels, a length",), "9:"),
    Case("dim with a label twice", graph(*OK, tail="dims: {k: [a, b, a]}\n"), ("each label once",), "9:"),
    Case("twin of nothing", graph(*OK, tail="dims: {k: j}\n"), ("twin of 'j'",), "9:"),
    Case("twin of a twin", graph(*OK, tail="dims: {k: [a], l: k, m: l}\n"), ("itself a twin",), "9:"),
    # -- names of nodes
    Case("node name with a space", graph("my node: Normal(0, 1)"), ("my node",), "7:5"),
    Case("node name a keyword of results", graph("chain: Normal(0, 1)"), ("reserved",), "7:5"),
    Case("dimension reserved", graph("a[draw]: Normal(0, 1)"), ("reserved",), "7:5"),
    Case("node name with dunder", graph("__a: Normal(0, 1)"), ("reserved",), "7:5"),
    Case("dimension twice", graph("a[g, g]: Normal(0, 1)"), ("twice", "twin"), "7:5"),
    Case("unclosed dims", graph("'a[g': Normal(0, 1)"), ("name[dim]",), "7:"),
    Case(
        "node and dimension", graph("g[obs]: Normal(0, 1)", "a[g]: Normal(0, 1)"), ("a node and of a dimension",), "7:5"
    ),
    Case("same node, other dims", graph("a: Normal(0, 1)", "a[g]: Normal(0, 1)"), ("'a' occurs twice",), "8:5"),
    # -- expressions that are no expressions
    node("syntax", "Normal(0, 1", "cannot be read"),
    node("two expressions", "1; 2", "cannot be read"),
    node("assignment", "b = 2", "cannot be read"),
    node("statement", "import os", "reserved word"),
    node("attribute", "x.__class__", "attribute access", column=0),
    node("import call", "__import__('os').system('ls')", "can be called", column=0),
    node("dunder name", "__builtins__", "'__'", column=0),
    node("eval", "eval(1)", "unknown function", column=0),
    node("open", "open(2)", "unknown function", column=0),
    node("lambda", "'(lambda: 1)()'", "only functions and distributions"),
    node("comprehension", "[i for i in x]", "comprehension"),
    node("formatted string", "f'{a}'", "formatted string"),
    node("walrus", "(b := 2)", "assignment"),
    node("dictionary", "'{1: 2}'", "dictionary"),
    node("ternary", "1 if x else 2", "where"),
    node("star", "Normal(*x)", "*"),
    node("double star", "Normal(**x)", "** is not part"),
    node("slice", "sum(x[0:2])", "slice"),
    node("caret", "2 ^ 3", "**", column=0),
    node("bit and", "1 & 2", "operator", column=0),
    node("chained comparison", "1 < 2 < 3", "chained"),
    node("is", "x is 1", "comparison"),
    node("bytes", "b'abc'", "not part"),
    node("complex", "2j", "not part"),
    node("ellipsis", "...", "not part"),
    node("huge integer", "9" * 400, "beyond the largest number"),
    node("too deep", DEEP, "nested"),
    node("too long", "1" + " + 1" * 3000, "characters"),
    node("empty", "''", "empty expression"),
    node("empty list", "'[]'", "empty list"),
    # -- functions and distributions
    node("unknown distribution", "Norml(0, 1)", "'Norml'", "'Normal'", column=0),
    node("wrong case", "normal(0, 1)", "'Normal'", column=0),
    node("unknown function", "expp(1)", "'expp'", "'exp'", column=0),
    node("too many parameters", "Normal(0, 1, 2, 3)", "at most 3", column=0),
    node("unknown parameter", "Normal(0, sd=1)", "'sd'", "sigma", column=0),
    node("parameter twice", "Normal(0, mu=1)", "given twice", column=0),
    node("function arguments", "exp(1, 2)", "takes 1", column=0),
    node("function keyword", "exp(x=1)", "takes 1", column=0),
    node("distribution in arithmetic", "1 + Normal(0, 1)", "node of its own", column=4),
    node("distribution as parameter", "Normal(Normal(0, 1), 1)", "node of its own", column=7),
    node("needs code", "CustomDist(1)", "Python functions", column=0),
    node("ordered inside", "Truncated(Ordered(Normal(0, 1)), lower=0)", "outermost"),
    node("truncated number", "Truncated(3, lower=0)", "not a distribution"),
    node("mixture without parts", "Mixture([0.5, 0.5])", "'comp_dists'"),
    node("lag without steps", "lag(x)", "takes 2", column=0),
    node("lag of zero", "lag(x, 0)", "≥ 1", column=0),
    node("lag by a variable", "lag(x, g)", "≥ 1", column=0),
    node("previous of another", "previous(x, 1, start=0)", "the node being defined", column=0),
    node("previous without start", "previous(a, 1)", "start", column=0),
    node("own name", "Normal(a, 1)", "own definition", column=7),
    # -- names that are not there, circles, dimensions
    node("unknown name", "Normal(b, 1)", "'b' is neither a node", column=7),
    node("misspelt column", "sum(xx)", "'xx'"),
    Case("circle", graph("a: b + 1", "b: a + 1"), ("cycle: a -> b -> a",), "7:"),
    Case("long circle", graph("a: Normal(c, 1)", "b: a", "c: b"), ("cycle",), "7:"),
    Case(
        "unknown dimension",
        graph("a[k]: Normal(0, 1)", "y[obs]: Normal(a[0], 1)"),
        ("'k' has no length", "dims"),
        "7:",
        command="fit",
    ),
    Case(
        "dimension not in the node",
        graph("a: x + 1", "y[obs]: Normal(0, 1)"),
        ("'obs'", "sum over it"),
        "7:",
        command="fit",
    ),
    Case(
        "index out of range",
        graph("a[k]: Normal(0, 1)", "y[obs]: Normal(a[5], 1)", tail="dims: {k: 2}\n"),
        ("index 5", "0..1"),
        "8:",
        command="fit",
    ),
    Case(
        "index of a number",
        graph("a: Normal(0, 1)", "y[obs]: Normal(a[0], 1)"),
        ("single number",),
        "8:",
        command="fit",
    ),
    Case(
        "wrong factor",
        graph("a[k]: Normal(0, 1)", "y[obs]: Normal(a[g], 1)", tail="dims: {k: 2}\n"),
        ("not 'g'",),
        "8:",
        command="fit",
    ),
    Case(
        "unknown label",
        graph("a[g]: Normal(0, 1)", "y[obs]: Normal(a['c'], 1)"),
        ("no level 'c'",),
        "8:",
        command="fit",
    ),
    Case(
        "label compared",
        graph("a: Normal(0, 1)", "y[obs]: Normal(a * (g == 'z'), 1)"),
        ("no level 'z'",),
        "8:",
        command="fit",
    ),
    Case(
        "factor in arithmetic",
        graph("a: Normal(0, 1)", "y[obs]: Normal(a * g, 1)"),
        ("'g' holds levels",),
        "8:",
        command="fit",
    ),
    Case(
        "matrix needed",
        graph("a: Normal(0, 1)", "b: det(a)", "y[obs]: Normal(b, 1)"),
        ("needs a matrix",),
        "8:",
        command="fit",
    ),
    Case(
        "support dimension",
        graph("a: Dirichlet(1)", "y[obs]: Normal(0, 1)"),
        ("Dirichlet draws a vector",),
        "7:",
        command="fit",
    ),
    Case(
        "list of another length",
        graph("a[k]: [1, 2, 3]", "y[obs]: Normal(a[0], 1)", tail="dims: {k: 2}\n"),
        ("3 values",),
        "7:",
        command="fit",
    ),
    Case(
        "lag too long",
        graph("a: Normal(0, 1)", "y[obs]: Normal(a * lag(y, 5), 1)"),
        ("only 3 rows",),
        "8:",
        command="fit",
    ),
    Case("PyMC refuses", graph("a: Normal(0, sigma=1, tau=1)", "y[obs]: Normal(a, 1)"), ("PyMC",), "7:", command="fit"),
    Case(
        "unbounded discrete",
        graph("a: Poisson(3)", "y[obs]: Normal(a, 1)"),
        ("summed out", "Poisson"),
        "7:",
        command="fit",
    ),
    Case(
        "derive circle",
        graph("a: sum(u)", "y[obs]: Normal(0, 1)").replace("rows: obs", "rows: obs, derive: {u: v, v: u}"),
        ("cycle",),
        "3:",
    ),
    Case(
        "derive of nothing",
        graph("a: sum(u)", "y[obs]: Normal(0, 1)").replace("rows: obs", "rows: obs, derive: {u: nope + 1}"),
        ("'u'", "nope"),
        "7:",
    ),
    Case(
        "derive not finite",
        graph("a: sum(u)", "y[obs]: Normal(0, 1)").replace("rows: obs", "rows: obs, derive: {u: log(x - 1)}"),
        ("row 1", "not a finite number"),
        "3:",
        command="fit",
    ),
    Case(
        "derive syntax",
        graph("a: sum(u)", "y[obs]: Normal(0, 1)").replace("rows: obs", "rows: obs, derive: {u: 'x +'}"),
        ("cannot be read",),
        "3:",
    ),
    # -- inference
    Case("unknown method", graph(*OK, tail="inference: {method: nutts}\n"), ("'nutts'", "'nuts'"), "9:", command="fit"),
    Case("unknown option", graph(*OK, tail="inference: {drws: 5}\n"), ("'drws'", "'draws'"), "9:", command="fit"),
    Case(
        "option of the wrong type",
        graph(*OK, tail="inference: {draws: many}\n"),
        ("is a whole number",),
        "9:",
        command="fit",
    ),
    Case(
        "option out of range",
        graph(*OK, tail="inference: {method: nuts, target_accept: 1.5}\n"),
        ("is a number below 1",),
        "9:",
        command="fit",
    ),
    Case("inference a list", graph(*OK, tail="inference: [nuts]\n"), ("is a mapping",), "9:"),
    Case("option on the command line", graph(*OK), ("'drws'",), None, command="fit", options=("--set", "drws=5")),
    # -- tables
    Case("table missing", graph(*OK), ("no such file",), None, table=None),
    Case("table empty", graph(*OK), ("empty",), None, table=""),
    Case("header only", graph(*OK), ("no rows",), None, table="x,y,g\n"),
    Case("blank header", graph(*OK), ("no rows",), None, table="\n1,2\n"),
    Case("duplicate columns", graph(*OK), ("'y' occurs twice",), None, table="x,y,y\n1,2,3\n"),
    Case("too many cells", graph(*OK), ("4 cells", "more"), "t.csv:3", table="x,y,g\n1,2,a\n1,2,a,9\n"),
    Case("too few cells", graph(*OK), ("1 cells", "fewer"), "t.csv:3", table="x,y,g\n1,2,a\n1\n"),
    Case("table not UTF-8", graph(*OK), ("UTF-8",), None, table=b"x,y,g\n1,2,caf\xe9\n"),
    Case("unknown kind of table", graph(*OK).replace("t.csv", "t.xlsx"), (".xlsx",), None, table=None),
    Case(
        "predictor with gaps",
        graph("a: Normal(0, 1)", "y[obs]: Normal(a * x, 1)"),
        ("'x'", "missing", "row 2"),
        None,
        table="x,y,g\n1,2,a\n,3,b\n3,4,a\n",
        command="fit",
    ),
    Case(
        "factor with gaps",
        graph("a[g]: Normal(0, 1)", "y[obs]: Normal(a[g], 1)"),
        ("'g'", "missing"),
        None,
        table="x,y,g\n1,2,a\n2,3,\n3,4,a\n",
        command="fit",
    ),
    Case(
        "unknown level",
        graph("a[g]: Normal(0, 1)", "y[obs]: Normal(a[g], 1)", tail="dims: {g: [a, c]}\n"),
        ("row 2", "'b' is not a level"),
        None,
        command="fit",
    ),
    Case("outcome is text", graph("a: Normal(0, 1)", "g[obs]: Normal(a, 1)"), ("text",), "8:", command="fit"),
    Case(
        "counts that are not whole",
        graph("a: Gamma(1, 1)", "y[obs]: Poisson(a)"),
        ("2.5 is not a whole number", "row 1"),
        "8:",
        command="fit",
    ),
    Case(
        "missing count",
        graph("a: Gamma(1, 1)", "y[obs]: Poisson(a)", "b[obs]: Poisson(y + 1)"),
        ("row 2", "missing"),
        "8:",
        table="x,y,g\n1,2,a\n2,,b\n",
        command="fit",
    ),
    Case("infinite outcome", graph(*OK), ("infinite",), "8:", table="x,y,g\n1,inf,a\n2,3,b\n", command="fit"),
    Case("dims disagree", graph(*OK, tail="dims: {obs: 5}\n"), ("5 levels in the model, 3 in the data",), None),
    Case("node is a column", graph("x: 3", *OK), ("'x' is a column",), "7:5", command="fit"),
    Case(
        "no data", graph(*OK, head=HEAD, tail="dims: {obs: 3}\n"), ("no data to fit",), None, table=None, command="fit"
    ),
]


@pytest.mark.slow(why="large")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_line_and_nothing_written(case, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model.yaml").write_bytes(case.text if isinstance(case.text, bytes) else case.text.encode())
    if case.table is not None:
        Path("t.csv").write_bytes(case.table if isinstance(case.table, bytes) else case.table.encode())
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    words = [case.command, "model.yaml", *case.options, *(["--quiet"] if case.command == "fit" else [])]
    with pytest.raises(SystemExit) as ended:
        main(words)
    out, err = capsys.readouterr()
    assert ended.value.code == 1
    assert err.startswith("error: ") and err.count("\n") == 1, err
    assert "Traceback" not in err and out == ""
    assert "unexpected" not in err, err
    for word in case.says:
        assert word in err, err
    if case.at is not None:
        assert (case.at if "csv" in case.at else f"model.yaml:{case.at}") in err, err
    assert before == {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}


def test_there_are_enough():
    assert len({case.name for case in CASES}) == len(CASES) >= 60


ARRAYS = [
    ("invalid JSON", '{"y": [1, 2', "not valid JSON"),
    ("duplicate name", '{"y": [1], "y": [2]}', "occurs twice"),
    ("ragged", '{"y": [1, 2], "X": [[1, 2], [3]]}', "ragged"),
    ("a number", "3", "nested lists"),
    ("mixed", '{"y": [1, "a"]}', "mixes text"),
    ("text among numbers", '{"y": [1, 2, "12 kg", 4]}', "row 3: '12 kg'"),
    ("a number among text", '{"y": ["a", 2, "b", "c"]}', "row 2: 2"),
    ("nested mapping", '{"y": {"a": 1}}', "'y'"),
    ("other length", '{"y": [1, 2, 3], "x": [1, 2]}', "'x'"),
    ("no dims", '{"y": [1, 2, 3], "x": [[1, 2], [3, 4]]}', "data.dims"),
]


@pytest.mark.parametrize(("name", "text", "says"), ARRAYS, ids=[a[0] for a in ARRAYS])
def test_arrays(name, text, says, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("d.json").write_text(text)
    Path("model.yaml").write_text(
        graph("a: Normal(0, 1)", "y[obs]: Normal(a + sum(x), 1)", head=HEAD + "data: {arrays: d.json, rows: obs}\n")
    )
    with pytest.raises(SystemExit) as ended:
        main(["fit", "model.yaml", "--quiet"])
    err = capsys.readouterr().err
    assert ended.value.code == 1 and err.count("\n") == 1 and says in err, err
    assert not Path("runs").exists()


def test_a_folder_is_no_model(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["check", str(tmp_path)])
    assert ended.value.code == 1 and "folder" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file(tmp_path, capsys):
    file = tmp_path / "m.yaml"
    file.write_text("x")
    file.chmod(0)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(file)])
    assert ended.value.code == 1 and "Permission" in capsys.readouterr().err


def test_a_byte_order_mark_is_fine(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("model.yaml").write_bytes(b"\xef\xbb\xbf" + graph(*OK).encode())
    Path("t.csv").write_bytes(b"\xef\xbb\xbf" + TABLE.encode())
    with pytest.raises(SystemExit) as ended:
        main(["check", "model.yaml"])
    assert ended.value.code == 0 and "ok" in capsys.readouterr().out


def test_words_yaml_1_1_would_change_stay_words(tmp_path):
    """States called yes, no, on, off, and numbers of the old kinds."""
    from bayeslab.language.model_file import read

    file = tmp_path / "m.yaml"
    file.write_text(graph(*OK, tail="dims: {answer: [yes, no, on, off, 12:30, NA, None]}\n"))
    assert read(file).model.dims["answer"] == ["yes", "no", "on", "off", "12:30", "NA", "None"]


@pytest.mark.slow(why="statistical")
def test_an_impossible_density_names_the_node(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("y\n1\n2\n")
    Path("model.yaml").write_text(graph("a: Uniform(0, 1)", "y[obs]: Uniform(0, a)"))
    with pytest.raises(SystemExit) as ended:
        main(["fit", "model.yaml", "--quiet", "--runs", "kept"])
    err = capsys.readouterr().err
    assert ended.value.code == 1 and "'y'" in err and err.count("\n") == 1
    assert json.loads((Path("kept") / "bad" / "run.json").read_text())["status"] == "failed"


def test_a_bad_file_costs_no_pymc(tmp_path):
    """A real process: one line, exit code 1, and PyMC was never imported."""
    file = tmp_path / "model.yaml"
    file.write_text(graph("a: Norml(0, 1)"))
    code = (
        "import sys\nfrom bayeslab.cli import main\n"
        f"try:\n    main(['check', {str(file)!r}])\nexcept SystemExit as e:\n"
        "    print(e.code, sorted({'pymc', 'arviz', 'sklearn', 'pytensor', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1 []"
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "text", ["[1, 2]", "[1, 2] * m", "[m]", "exp([m, 2])", "where(m > 0, [1, 2], 3)", "-[[1, 2], [3, m]]"]
)
def test_a_list_in_a_node_without_dimensions(text):
    """Its values would have an axis that nothing names: sum(w) would add up nothing."""
    nodes = {"m": "Normal(0, 1)", "w": text, "v": "sum(w)", "y[obs_id]": "Normal(m, 1)"}
    for entry in bl.check, bl.fit:
        with refused("model.bad-dimensions", r"write w\[part\]", where="model.nodes.w"):
            entry(bl.Model(model={"family": "graph", "nodes": nodes}), {"y": [1.0, 2.0]})


@pytest.mark.parametrize("text", ["sum(previous(x, 1, start=0), t)", "dot(previous(x, 1, start=0), x0, t)"])
def test_a_recursion_is_refused_in_the_words_of_the_file(text):
    nodes = {"x0[s]": "Normal(0, 1)", "x[s, t]": f"{text} + x0", "y[t]": "Normal(sum(x, s), 1)"}
    model = bl.Model(model={"family": "graph", "nodes": nodes}, dims={"s": 2}, data={"rows": "t"})
    with refused("model.unknown-dimension", r"'previous\(x, 1, start=0\)' has no dimension 't'"):
        bl.check(model, {"y": [1.0, 2.0, 0.0]})


def test_the_axis_of_many_points_is_not_a_dimension_to_choose():
    from bayeslab.data.node_values import POINTS, Environment
    from bayeslab.language.algebra import Term
    from bayeslab.language.expressions import parse
    from bayeslab.language.nodes import nodes_of

    model = bl.Model(
        model={"family": "graph", "nodes": {"m": "Normal(0, 1)", "y[t]": "Normal(m, 1)"}}, data={"rows": "t"}
    )
    data = bl.check(model, {"y": [1.0, 2.0, 0.0]})
    points = Environment(nodes_of(model.model.nodes), data, {"m": Term(np.zeros(5), (POINTS,))})
    for text in "sum(m, q)", "sum(m * y, q)", "sum(m, t)":
        with refused("model.unknown-dimension") as error:
            points.eval(parse(text).tree)
        assert "__" not in str(error.value)
