"""Texts that name a function, a command or an option name one that there is."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest
import typer

import bayeslab as bl
from bayeslab.cli import command_line
from tests.sources import nodes

ROOT = Path(bl.__file__).parent
FUNCTION = re.compile(r"\bbl\.([A-Za-z_]\w*)(\(([^()]*)\))?")
COMMAND = re.compile(r"\bbayeslab ([a-z]+)((?: +[^\s`]+)*)")
# Not the variables of style sheets.
OPTION = re.compile(r"(?<![\w(-])--([a-z][a-z-]+\b)(?!:)")


def texts():
    """Every string of the package, f-strings with gaps, and where it is."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in nodes(path):
            if isinstance(node, ast.JoinedStr):
                parts = (v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
                yield f"{path.relative_to(ROOT)}:{node.lineno}", "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


@cache
def commands():
    return dict(typer.main.get_command(command_line()).commands)


@cache
def options(command):
    return {opt for one in commands()[command].params for opt in (*one.opts, *one.secondary_opts)}


def wrong_functions(text):
    for name, call, given in FUNCTION.findall(text):
        if name not in bl.__all__:
            yield f"bl.{name}"
            continue
        made = getattr(bl, name)
        known = inspect.signature(made).parameters if callable(made) else {}
        if call and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            yield from (f"bl.{name}({key}=)" for key in re.findall(r"\b(\w+) ?=(?!=)", given) if key not in known)
        elif call:
            # `resume` is no option of an engine: what a function takes besides its own is known, too.
            others = {"resume"} - set(known)
            yield from (f"bl.{name}({key}=)" for key in re.findall(r"\b(\w+) ?=(?!=)", given) if key in others)


def wrong_commands(text):
    for name, rest in COMMAND.findall(text):
        if name not in commands():
            if f"`bayeslab {name}" in text:
                yield f"bayeslab {name}"
            continue
        for option in OPTION.findall(rest):
            if f"--{option}" not in options(name):
                yield f"bayeslab {name} --{option}"


@pytest.mark.slow(why="large")
def test_functions_of_texts():
    assert [(at, name) for at, text in texts() for name in wrong_functions(text)] == []


@pytest.mark.slow(why="large")
def test_commands_of_texts():
    assert [(at, name) for at, text in texts() for name in wrong_commands(text)] == []


@pytest.mark.slow(why="large")
def test_options_of_texts():
    """Also where no command is named: some command has it."""
    every = {option for name in commands() for option in options(name)} | {"--help", "--version", "--debug"}
    found = [(at, o) for at, text in texts() for o in OPTION.findall(text) if f"--{o}" not in every]
    assert found == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("continue it with bl.fit(resume=folder)", ["bl.fit(resume=)"]),
        ("see bl.nosuch", ["bl.nosuch"]),
        ("bl.resume(folder, draws=3)", []),
        ("bl.resume(folder, drawz=3)", ["bl.resume(drawz=)"]),
    ],
)
def test_what_is_found(text, wrong):
    assert list(wrong_functions(text)) == wrong
    assert list(wrong_commands("run `bayeslab fitt x`, or `bayeslab fit x --resume r --nosuch`")) == [
        "bayeslab fitt",
        "bayeslab fit --nosuch",
    ]
