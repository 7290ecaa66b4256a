"""``bayeslab learners``: the classical learners and the options of each."""

from __future__ import annotations

import re
import shutil
import textwrap
from typing import Annotated, Any

import typer

from bayeslab import registry
from bayeslab.cli.toolbox.shared import JsonOption, print_json
from bayeslab.errors import OptionError, hint
from bayeslab.language.wording import type_words

_TASKS = {"classification": "classes", "regression": "numbers"}
_WIDEST = 120


def command(
    learner: Annotated[
        str | None, typer.Argument(metavar="LEARNER", help="A learner whose options are listed.", show_default=False)
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the classical learners, or the options of one."""
    words = registry.names("learners")
    if learner is not None and learner not in words:
        raise OptionError(f"unknown learner '{learner}'{hint(learner, words)}", code="unknown-word")
    described = {word: _described(word) for word in (words if learner is None else [learner])}
    if json:
        print_json(described if learner is None else described[learner])
        return
    width = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
    if learner is None:
        side = max(map(len, words)) + 2
        for word, entry in described.items():
            print(_hanging(f"{entry['about']} ({', '.join(_TASKS[t] for t in entry['tasks'])})", word, side, width))
        print("\n`bayeslab learners LEARNER` lists the options of one; a model file says `learner: LEARNER`.")
        return
    entry = described[learner]
    print(textwrap.fill(f"{learner}: {entry['about']}.", width))
    print(f"\nlearns   {' and '.join(_TASKS[t] for t in entry['tasks'])}")
    print(f"columns  {entry['columns']}\n")
    side = max((len(name) for name in entry["options"]), default=0) + 2
    for name, option in entry["options"].items():
        default = "required" if "default" not in option else f"default {option['default']}"
        head = f"{option['type']}; {default}" if option.get("default", "") is not None else option["type"]
        print(_hanging(f"{head}. {option['about']}", name, side, width))
    if not entry["options"]:
        print("It has no options.")


def _described(word: str) -> dict[str, Any]:
    """A learner's description, tasks and options, as plain data."""
    module = registry.load("learners", word)
    columns = {
        "codes": "names as whole numbers",
        "indicators": "names as indicators of their levels",
        "texts": "texts as they are",
    }[module.CATEGORIES]
    columns += ", numbers standardised" * module.SCALE + ", missing cells understood" * module.MISSING
    options = {}
    for name, field in module.Options.model_fields.items():
        options[name] = {"type": type_words(field.annotation), "about": field.description or ""}
        if not field.is_required():
            options[name]["default"] = field.get_default(call_default_factory=True)
    return {
        "about": _about(module.__doc__ or ""),
        "tasks": list(module.TASKS),
        "columns": columns,
        "options": options,
    }


def _about(docstring: str) -> str:
    """The first sentence of a module's docstring, without markup."""
    text = " ".join(docstring.strip().partition("\n\n")[0].split())
    text = re.sub(r"^Learner ``\w+``: ", "", text).rstrip(".")
    return re.sub(r"``|:\w+:(?=`)|`", "", text)


def _hanging(text: str, word: str, side: int, width: int) -> str:
    """A word at the left with its text beside it, wrapped."""
    return textwrap.fill(text, max(width, side + 30), initial_indent=word.ljust(side), subsequent_indent=" " * side)
