"""``bayeslab new``: a commented model file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import ForceOption, check_output, output


def command(
    name: Annotated[str, typer.Argument(help="Name of the model; the file is NAME.yaml.")] = "model",
    family: Annotated[
        str | None,
        typer.Option(help="Family of the model. Default: graph; with a table, regression.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", "-d", help="A table whose columns the model uses.", show_default=False)
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="With --data: the column to predict. Default: the last suitable one.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Write a commented starter model file, for the columns of a table where one is given."""
    from bayeslab.language.model_file import load
    from bayeslab.starters import starter

    path = Path(name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    check_output(path, data, force=force)
    wanted = family or ("graph" if data is None else "regression")
    output(path, starter(wanted, path.stem, str(path), data, target))
    load(path)
    print(f"written {path}")
