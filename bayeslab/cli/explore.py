"""``bayeslab explore``: a page to click on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import ForceOption, check_output


def command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="NETWORK|RUN", help="A network file, a model file of a bayes_net, or a run.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File to write; default explore.html.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Write an HTML page to click on: evidence and interventions in a network, predictors of a regression.

    That of a network with decisions has the best decisions. The page computes the answers itself, or holds them: it
    needs no Python and no network.
    """
    from bayeslab.report.exploring import explore

    path = out or Path("explore.html")
    check_output(path, source, force=force)
    explore(source).save(path, force=True)
    print(f"written {path}")
