"""``bayeslab examples``: the example models, and copies of them."""

from __future__ import annotations

import textwrap
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import ForceOption, JsonOption, print_json


class Action(StrEnum):
    """What to do with the examples."""

    list = "list"
    copy = "copy"


def command(
    action: Annotated[Action, typer.Argument(help="list them, or copy one.", metavar="[list|copy]")] = Action.list,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The example to copy.", show_default=False)] = None,
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="The folder to copy to.")] = Path(),
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """List the example models, or copy one with its data: ``bayeslab examples copy radon``."""
    from bayeslab.shipped import copy_example, example_names, load_example

    if action is Action.copy:
        if name is None:
            raise typer.BadParameter("name the example to copy; `bayeslab examples` lists them")
        copies = copy_example(name, to, overwrite=force)
        if json:
            print_json([str(copy) for copy in copies])
            return
        for copy in copies:
            print(f"wrote {copy}")
        print(f"\nFit it with `bayeslab fit {copies[0]}`.")
        return
    models = {word: load_example(word) for word in ([name] if name is not None else example_names())}
    if json:
        print_json({word: {"family": model.model.family, "about": model.about} for word, model in models.items()})
        return
    wide = max(map(len, models))
    family = max(len(model.model.family) for model in models.values())
    for word, model in models.items():
        about = " ".join((model.about or "").split())
        shown = about if name is not None else textwrap.shorten(about, 110 - wide - family, placeholder=" …")
        print(f"{word:<{wide}}  {model.model.family:<{family}}  {shown}".rstrip())
    if name is None:
        print("\n`bayeslab examples copy NAME` copies one with its data.")
