"""Arguments several commands take."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["DataOption", "FileArgument", "JsonOption", "RunArgument", "SeedOption", "output", "print_json"]

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A model file.", show_default=False)]
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder, such as runs/radon.", show_default=False)
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", "-d", help="Data: .csv .tsv .parquet .json; default: what the file names."),
]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of all random numbers.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def print_json(content: Any) -> None:
    """JSON on standard output; numbers that JSON has no word for become null."""
    print(json.dumps(_plain(content), ensure_ascii=False, indent=1, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return str(value) if isinstance(value, Path) else value


def output(path: Path | None, text: str) -> None:
    """Text to a file (whole or not at all), or to standard output."""
    if path is None:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    from bayeslab.errors import BayeslabError
    from bayeslab.io.modelfile import write_text

    try:
        write_text(path, text)
    except OSError as error:
        raise BayeslabError(f"cannot be written: {error.strerror}", where=str(path)) from None
