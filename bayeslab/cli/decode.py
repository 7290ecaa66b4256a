"""``bayeslab decode``: the hidden states of a sequence, time by time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import DataOption, ForceOption, JsonOption, check_output, output, print_json
from bayeslab.posterior.averaging import AVERAGED


def command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run folder, or a model file that fixes all parameters.",
            show_default=False,
        ),
    ],
    data: DataOption = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            help="viterbi: the most probable path. posterior: the most probable state at each time. smooth, filter,"
            " predict: state probabilities given all rows, the rows up to this time, the rows before it.",
        ),
    ] = "viterbi",
    best: Annotated[int, typer.Option(help="Number of most probable paths to return (viterbi only).")] = 1,
    sequence: Annotated[str | None, typer.Option("--sequence", "-s", help="Decode only this sequence.")] = None,
    draws: Annotated[
        int, typer.Option(help="Maximum number of evenly spaced posterior draws to average over.")
    ] = AVERAGED,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write a table (.csv .tsv .parquet .json) or a picture (.svg .png .pdf)."),
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Decode the hidden states of a sequence."""
    from bayeslab.data.tables import write_table
    from bayeslab.files import write_picture
    from bayeslab.results.decode import decode, plot_states

    check_output(out, source, data, force=force)
    if out is not None and out.suffix in (".svg", ".png", ".pdf"):
        figure = plot_states(source, data, sequence=sequence)
        write_picture(figure, out)
        print(f"written {out}")
        return
    frame = decode(source, data, method, best=best, sequence=sequence, draws=draws)
    if out is not None:
        write_table({name: frame[name].to_numpy() for name in frame.columns}, out)
        print(f"written {out}")
    elif json:
        print_json(frame.to_dict("records"))
    else:
        print(frame.attrs["about"], file=sys.stderr)
        output(None, frame.to_string(index=False, float_format=lambda x: f"{x:.4g}"))
