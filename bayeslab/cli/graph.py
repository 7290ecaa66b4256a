"""``bayeslab graph``: the model as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import DataOption, FileArgument, ForceOption, check_output, output
from bayeslab.errors import OptionError


def command(
    file: FileArgument,
    data: DataOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write here; default: standard output.")] = None,
    force: ForceOption = False,
) -> None:
    """Draw a model as SVG (no Graphviz needed)."""
    from bayeslab import fitting
    from bayeslab.language.model_file import load
    from bayeslab.plots.graph_svg import model_svg
    from bayeslab.posterior.contract import posterior_of

    check_output(out, file, data, force=force)
    if out is not None and out.suffix.lower() != ".svg":
        raise OptionError(f"{out}: the drawing is SVG; let the name end in .svg", code="unknown-format")
    bound = fitting.bound(file, data)
    model = load(file)
    network = posterior_of(model, bound).network()
    output(out, model_svg(network, title=model.name))
    if out is not None:
        print(f"written {out}")
