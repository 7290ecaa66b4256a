"""``bayeslab stop``: stop a job that samples structures; it can be resumed."""

from __future__ import annotations

from bayeslab.cli.toolbox.shared import RunArgument
from bayeslab.errors import RunError


def command(run: RunArgument) -> None:
    """Ask a running job to stop after its current segments; resume it later with fit --resume."""
    from bayeslab.run_folder.folder import RunFolder

    folder = RunFolder.existing(run)
    store = folder.segments()
    state = store.standing(folder.status(folder.info()))["state"]
    if state != "running":
        advice = {"starting": "; it has not begun yet, try again", "complete": ""}.get(
            state, "; go on with `bayeslab fit --resume`"
        )
        raise RunError(f"nothing to stop: the run is {state}{advice}", where=str(run), code="finished")
    store.ask_to_stop()
    print(f"{run}: stops after the segments it is computing; go on with `bayeslab fit --resume {run}`")
