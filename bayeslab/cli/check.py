"""``bayeslab check``: is the model file right, and do the data fit it?"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

import typer

from bayeslab.cli.toolbox.shared import DataOption, FileArgument, JsonOption, assignments, elsewhere, print_json
from bayeslab.errors import listed

if TYPE_CHECKING:
    from bayeslab.data.bound import Data
    from bayeslab.language.spec import Model

_MOST = 20  # priors shown


def _described(bound: Data, evidence: Collection[str]) -> str:
    from bayeslab.data.binding import describe

    if bound.names():
        return describe(bound)
    return "none: " + (f"the evidence is in {listed(evidence)}" if evidence else "the file can be simulated")


def _levels(model: Model, dim: str, n: int) -> str:
    """The number of levels of a dimension, and their range where the model declares a length."""
    return f"{n}: 0 to {n - 1}" if isinstance(model.dims.get(dim), int) else str(n)


def command(
    file: FileArgument,
    data: DataOption = None,
    method: Annotated[str | None, typer.Option("--method", "-m", help="As for fit.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any option of the method, as for fit.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check a model file, its data and its inference; nothing is fitted.

    Whatever fit refuses before it starts sampling, check refuses with the same error.
    """
    from bayeslab import fitting

    checked = fitting.checked(file, data, method, **assignments(set_ or [], elsewhere(fitting.checked)))
    model, bound, posterior = checked.model, checked.data, checked.posterior
    columns = bound.names()
    latent = posterior.latent if columns else ()
    outcomes = posterior.outcomes() if columns else ()
    observed = fitting.observed(posterior)
    priors = posterior.priors() if columns else {}
    forecast = posterior.forecast() if columns else {}
    remarks = (*bound.remarks(), *(posterior.data_findings() if columns else ()))
    notes = [*bound.dataset.notes, *(f"{message}{'; ' if advice else ''}{advice}" for *_, message, advice in remarks)]
    if json:
        print_json(
            {
                "ok": True,
                "name": model.name,
                "family": model.model.family,
                "dims": {dim: len(levels) for dim, levels in bound.labels.items()},
                "outcomes": list(outcomes),
                "observed": list(observed),
                "summed_out": list(latent),
                "priors": priors,
                "unknown": forecast,
                "method": checked.engine or None,
                "reason": checked.reason or None,
                "remarks": [*bound.dataset.notes, *(message for *_, message, _ in remarks)],
            }
        )
        return
    print(f"{file}: ok")
    print(f"  model     {model.name} (family {model.model.family})")
    print(f"  data      {_described(bound, observed)}")
    if bound.labels:
        # A column of documents has no levels.
        words = [f"{dim} ({_levels(model, dim, len(levels))})" for dim, levels in bound.labels.items() if len(levels)]
        print(f"  dims      {', '.join(words)}")
    if outcomes:
        print(f"  outcomes  {', '.join(outcomes)}")
    if set(observed) - set(outcomes):
        print(f"  observed  {', '.join(observed)}")
    if latent:
        print(f"  summed out {', '.join(latent)}")
    for number, (name, prior) in enumerate(list(priors.items())[:_MOST]):
        print(f"  {'' if number else 'priors':<9} {name}: {prior}")
    if len(priors) > _MOST:
        print(f"            … {len(priors) - _MOST} more")
    if checked.reason:
        print(f"  method    {checked.reason if checked.engine else f'none: {checked.reason}'}")
    for word, text in forecast.items():
        print(f"  {word:<9} {text}")
    for note in notes:
        print(f"  note      {note}")
