"""``bayeslab schema``: the JSON Schema of model files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import ForceOption, check_output, output


def command(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write here; default: standard output.")] = None,
    force: ForceOption = False,
) -> None:
    """Print the JSON Schema of model files, for editors: completion and checks while typing."""

    from bayeslab.language.model_file import schema

    check_output(out, force=force)
    output(out, json.dumps(schema(), indent=1, ensure_ascii=False))
    if out is not None:
        print(f"written {out}")
