"""Every error bayeslab raises on purpose has a code of the catalogue, the same however the mistake was made."""

from __future__ import annotations

import ast
import json
import pickle
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import bayeslab as bl
from bayeslab import errors
from bayeslab.cli import main
from bayeslab.error_codes import AREAS, KINDS
from bayeslab.errors import BayeslabError, DataError, ModelError, OptionError
from tests.refusals import refused
from tests.sources import parsed

SOURCE = Path(bl.__file__).parent
_CLASSES = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, BayeslabError)}
# Subclasses and makers of errors that one module each has.
_MAKERS = {
    *("Flaw", "Problem", "Reason", "UnusableColumn", "AllCollapsed", "NotPositiveDefinite", "ParameterError"),
    *("_Refused", "_Failure", "Planned"),
}
# Methods that make errors, and variables that hold a class: they must have a code where what they make is raised.
_OTHERS = {"error", "kind", "bad", "_bad", "bad_formula", "_problem", "type(error)", "type(whole)"}


def _calls(tree: ast.AST) -> Iterator[tuple[ast.Call, bool]]:
    """Calls that make an error, and whether they must have a code."""
    raised = {id(node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Attribute(value=ast.Name(id="kernels")):
                    continue
                case ast.Attribute(attr=last) | ast.Name(id=last):
                    pass
                case _:
                    last = ast.unparse(node.func)
            if last in _CLASSES | _MAKERS | _OTHERS:
                yield node, last not in _OTHERS or id(node) in raised


def _kinds(value: ast.expr) -> list[str] | None:
    """The kinds that an argument ``code`` can be: none of a code that is passed on; None where it cannot be told."""
    match value:
        case ast.Constant(value=str() as word):
            return [word.removeprefix(next((f"{area}." for area in AREAS if word.startswith(f"{area}.")), ""))]
        case ast.IfExp(body=first, orelse=second):
            one, other = _kinds(first), _kinds(second)
            return None if one is None or other is None else one + other
        case ast.Attribute(attr="code") | ast.Name(id="code") | ast.Call(func=ast.Name(id="code_of")):
            return []
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value="code"), otherwise]):
            return _kinds(otherwise)
    return None


@cache
def _used() -> tuple[set[str], list[str]]:
    """Kinds that are written somewhere, and places that are wrong."""
    used, wrong = set[str](), list[str]()
    for path in sorted(SOURCE.rglob("*.py")):
        tree = parsed(path)
        for call, needed in _calls(tree) if path.name != "errors.py" else ():
            place = f"{path.relative_to(SOURCE)}:{call.lineno}"
            given = next((k.value for k in call.keywords if k.arg == "code"), None)
            if given is None:
                wrong += [f"{place}: no code"] if needed else []
                continue
            kinds = _kinds(given)
            if kinds is None:
                wrong += [f"{place}: {ast.unparse(given)}"] if needed else []
                continue
            used.update(kinds)
            wrong += [f"{place}: '{kind}' is not in the catalogue" for kind in kinds if kind not in KINDS]
    return used, wrong


def test_every_error_has_a_code_of_the_catalogue():
    _, wrong = _used()
    assert not wrong, "\n".join(wrong)


def test_every_kind_of_the_catalogue_is_raised_somewhere():
    from bayeslab.language.wording import CODES

    used, _ = _used()
    assert KINDS.keys() - used - set(CODES.values()) - {"wrong-type", "not-allowed", "other"} == set()
    assert all(text.endswith(".") and text[0].isupper() for text in KINDS.values())


def test_the_first_part_follows_from_the_class_and_the_kind_is_passed_on():
    error = DataError("no", code="missing")
    assert error.code == "data.missing" and error.located("a.csv:1:1").code == "data.missing"
    assert ModelError("no", code=error.code).code == "model.missing"
    assert errors.EngineRefusal("no", code="engine.refused.discrete").code == "engine.refused.discrete"
    assert errors.NothingToFit("no", code="nothing-to-fit").code == "model.nothing-to-fit"
    assert errors.Stopped("no", code="stopped").code == "run.stopped"
    assert pickle.loads(pickle.dumps(error)).code == "data.missing"
    assert BayeslabError("no").code == "run.other"


_GRAPH = {"family": "graph", "nodes": {"m": "Normal(0, 1)", "y": "Normal(m, 1)"}}
# What is wrong with a model, its code and where it is.
_WRONG = [
    ({"modle": 1}, "model.unknown-key", "modle"),
    ({"seed": -1}, "model.out-of-range", "seed"),
    ({"seed": "one"}, "model.wrong-type", "seed"),
    ({"name": "?"}, "model.bad-name", "name"),
    ({"model": {"family": "grahp"}}, "model.unknown-family", "model.family"),
    ({"model": {"family": "graph"}}, "model.missing-key", "model"),
    ({"model": _GRAPH | {"nodes": {"m": "Nromal(0, 1)"}}}, "model.unknown-function", "model.nodes.m"),
    ({"model": _GRAPH | {"nodes": {"m": "Normal(0,"}}}, "model.syntax", "model.nodes.m"),
    ({"dims": {"a": 0}}, "model.out-of-range", "dims"),
    ({"model": {"family": "regression", "formula": "y ~"}}, "model.syntax", "model.formula"),
    ({"model": {"family": "regression", "formula": "y ~ x", "likelihood": "gausian"}}, "model.unknown-word", "model"),
    ({"model": {"family": "mixture", "columns": ["a", "a"], "components": 2}}, "model.duplicate", "model"),
]


@pytest.mark.parametrize(("part", "code", "where"), _WRONG, ids=[f"{code} {where}" for _, code, where in _WRONG])
def test_a_mistake_has_one_code_from_python_a_file_and_the_command_line(part, code, where, tmp_path, capsys):
    content = {"bayeslab": 1, "model": _GRAPH, **part}
    file = tmp_path / "m.yaml"
    file.write_text(json.dumps(content))
    with refused(code, where=where):
        model = bl.Model(**content)
        bl.check(model)
    with refused(code, where=str(file)):
        bl.check(file)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(file), "--json"])
    told = capsys.readouterr()
    said = json.loads(told.out)["error"]
    assert ended.value.code == 1 and said["code"] == code and said["where"].endswith(("m.yaml:1:1", *"0123456789"))
    assert told.err == f"error: {said['where']}: {said['message']}\n"


def test_options_and_engines_have_codes():
    model = bl.Model(model=_GRAPH, data={})
    with refused("option.unknown-option", "'drwas'"):
        bl.fit(model, data={"y": [1.0, 2.0]}, method="nuts", drwas=10)
    with refused("option.out-of-range", "'draws'"):
        bl.fit(model, data={"y": [1.0, 2.0]}, method="nuts", draws=0)
    with refused("option.unknown-word", "'nust'", kind=OptionError):
        bl.fit(model, data={"y": [1.0, 2.0]}, method="nust")
    coin = {"family": "graph", "nodes": {"m": "Normal(0, 1)", "k": "Bernoulli(0.5)", "y": "Normal(m + k, 1)"}}
    with refused("engine.refused.discrete", "k are summed out"):
        bl.fit(bl.Model(model=coin), data={"y": [1.0, 2.0]}, method="map")
    with refused("engine.refused.other-family", "family graph"):
        bl.fit(model, data={"y": [1.0, 2.0]}, method="structure")


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (["check", "nowhere.yaml"], 1, "model.no-such-file"),
        (["query", "nowhere.bif"], 1, "model.no-such-file"),
        (["query"], 2, "option.usage"),
        (["query", "net.bif", "--gvien", "a=b"], 2, "option.usage"),
        (["show", "runs/nowhere"], 1, "run.no-such-file"),
    ],
)
def test_with_json_an_error_is_an_object_on_standard_output(words, status, code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main([*words, "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["error"].keys() == {"code", "message", "where"} and said["error"]["code"] == code
    with pytest.raises(SystemExit) as again:
        main(words)
    told = capsys.readouterr()
    assert ended.value.code == again.value.code == status and told.out == "" and told.err
