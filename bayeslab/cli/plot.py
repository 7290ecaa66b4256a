"""``bayeslab plot``: a picture of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bayeslab.cli._shared import ForceOption, RunArgument, check_output

_FORMATS = (".png", ".svg", ".pdf")


def command(
    run: RunArgument,
    what: Annotated[
        str | None,
        typer.Argument(help="Which picture; default: the first of the model's family.", show_default=False),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns to draw over, where that can be chosen.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write here: .png .svg .pdf; default RUN/WHAT.png.")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Draw a run: regions and training of a learner, components, states, topics, a process, or a predictive check."""
    from bayeslab import fitting
    from bayeslab.errors import OptionError

    if out is not None and out.suffix not in _FORMATS:
        raise OptionError(f"{out}: pictures are written as {', '.join(_FORMATS)}")
    check_output(out, run, force=force)
    fit = fitting.open_run(run)
    wanted = what or _FIRST.get(fit.model.model.family, "density")
    path = out or run / f"{wanted}.png"
    _drawn(fit, wanted, columns.split(",") if columns else None).savefig(path, dpi=150)
    print(f"written {path}")


_FIRST = {
    "learner": "regions",
    "mixture": "components",
    "hmm": "path",
    "gaussian_process": "function",
    "latent_features": "loadings",
    "topics": "words",
}


def _drawn(fit: Any, what: str, columns: list[str] | None) -> Any:
    """The figure, as the method of the fit makes it."""
    family = fit.model.model.family
    if family == "learner":
        return fit.learner.plot(what, inputs=columns)
    if family == "mixture":
        return fit.plot_clusters(what, columns=columns)
    if family in ("hmm", "gaussian_process"):
        draw = fit.plot_states if family == "hmm" else fit.process.plot
        return draw(what, column=_one(columns))
    if columns:
        raise typer.BadParameter(f"--columns: pictures of the family {family} are not over columns of choice")
    if family == "latent_features":
        return fit.plot_features(what)
    return fit.topics.plot(what) if family == "topics" else fit.plot_check(what)


def _one(columns: list[str] | None) -> str | None:
    if columns and len(columns) > 1:
        raise typer.BadParameter(f"--columns: one, not {', '.join(columns)}")
    return columns[0] if columns else None
