"""``bayeslab convert``: a network from one file format to another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import ForceOption, check_output


def command(
    source: Annotated[
        Path, typer.Argument(metavar="FROM", help="A network, a model file, or a run folder.", show_default=False)
    ],
    to: Annotated[
        Path,
        typer.Argument(
            metavar="TO",
            help="The new file: .bif .xmlbif .xdsl .net .uai, or .yaml for a model file.",
            show_default=False,
        ),
    ],
    force: ForceOption = False,
) -> None:
    """Convert a network file; what the new format cannot hold is reported."""
    from bayeslab.networks import network

    check_output(to, source, force=force)
    net = network(source)
    if to.suffix in (".yaml", ".yml"):
        net.save(to)
    else:
        for remark in net.write(to):
            print(f"note: {remark}", file=sys.stderr)
    print(f"written {to}")
