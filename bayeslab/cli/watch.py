"""``bayeslab watch``: progress of a job that samples structures."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from bayeslab.cli.toolbox.shared import JsonOption, RunArgument, print_json, unscreened
from bayeslab.errors import RunError

_WORDS = {
    "starting": "has not begun yet",
    "running": "running",
    "complete": "complete: see `bayeslab show`",
    "interrupted": "stopped: go on with `bayeslab fit --resume`",
    "failed": "failed",
    "killed": "killed: go on with `bayeslab fit --resume`",
}


def command(
    run: RunArgument,
    once: Annotated[bool, typer.Option("--once", help="Show the progress once and end.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two updates.")] = 1.0,
    json: JsonOption = False,
) -> None:
    """Show the progress of a running job: chains, acceptance rates, scores, current R-hat, time left."""
    from rich.console import Console

    from bayeslab.run_folder.folder import RunFolder

    folder = RunFolder.existing(run)
    if json:
        print_json(_standing(folder))
        return
    # In a file or a pipe, lines are not wrapped.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200, file=unscreened())
    if once or not console.is_terminal:
        console.print(_table(str(run), _standing(folder)), soft_wrap=True)
        return
    _live(console, folder, str(run), every)


def _standing(folder: Any) -> dict[str, Any]:
    info = folder.info()
    standing: dict[str, Any] = folder.segments().standing(folder.status(info))
    if not standing["chains"] and info["method"] != "structure":
        raise RunError(
            f"runs of method {info['method']} report no progress; `bayeslab show` shows a finished run",
            where=str(folder.path),
            code="not-applicable",
        )
    return standing | ({"error": info["error"]} if "error" in info else {})


def _live(console: Any, folder: Any, name: str, every: float) -> None:
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:
        while True:
            standing = _standing(folder)
            live.update(_table(name, standing), refresh=True)
            if standing["state"] not in ("starting", "running"):
                return
            time.sleep(every)


def _table(name: str, standing: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(title=f"{name}  {_WORDS.get(standing['state'], standing['state'])}", title_justify="left", box=None)
    for head in ("chain", "draws", "", "acceptance", "score"):
        table.add_column(head, justify="left" if head == "chain" else "right")
    for number, chain in enumerate(standing["chains"]):
        tune, draws = standing["tune"], standing["draws"]
        tuning = chain["done"] < tune
        done, of = (chain["done"], tune) if tuning else (chain["done"] - tune, draws)
        rates = ", ".join(f"{kind} {100 * share:.3g}%" for kind, share in chain["acceptance"].items())
        score = f"{chain['score']:,.2f}" if "score" in chain else ""
        phase = "tuning" if tuning else "done" if done >= draws else "sampling"
        table.add_row(str(number), f"{done:,}/{of:,}", phase, rates, score)
    whole, edges = standing.get("r_hat_score"), standing.get("r_hat_edges")
    parts = [f"R-hat of the score {whole:.3f}"] if isinstance(whole, float) else []
    if isinstance(edges, float):
        parts.append(f"of edges at most {edges:.3f}")
    elif str(edges).startswith("infinite"):
        parts.append(f"R-hat of edges {edges}")
    if standing["state"] == "running":
        parts += [f"about {standing['seconds_left']:,.0f} s left"] if standing.get("seconds_left") else []
    parts += [f"{standing['seconds']:,.0f} s" for _ in (1,) if "seconds" in standing]
    parts += [standing["error"]] if "error" in standing else []
    table.caption = ", ".join(parts)
    table.caption_justify = "left"
    return table
