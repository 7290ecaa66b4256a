"""``bayeslab check``: is the model file right, and do the data fit it?"""

from __future__ import annotations

from typing import Annotated

import typer

from bayeslab.cli._shared import DataOption, FileArgument, JsonOption, assignments, print_json

_MOST = 20  # priors shown


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

    What fit refuses before its work begins is refused here, in the same words.
    """
    from bayeslab import fitting, registry
    from bayeslab.dataset import describe

    found = fitting.checked(file, data, method, **assignments(set_ or []))
    model, bound = found.model, found.data
    family = registry.load("families", model.model.family)
    columns = bound.names()
    latent = family.summed_out(model, columns) if columns else ()
    outcomes = family.outcomes(model, columns) if columns else ()
    priors = family.priors(model, bound) if columns and hasattr(family, "priors") else {}
    forecast = family.forecast(model, bound) if columns and hasattr(family, "forecast") else {}
    remarks = family.remarks(model, bound) if columns and hasattr(family, "remarks") else ()
    if json:
        print_json(
            {
                "ok": True,
                "name": model.name,
                "family": model.model.family,
                "dims": {dim: len(levels) for dim, levels in bound.labels.items()},
                "outcomes": list(outcomes),
                "summed_out": list(latent),
                "priors": priors,
                "unknown": forecast,
                "method": found.engine or None,
                "reason": found.reason or None,
                "remarks": [message for _, _, _, message, _ in remarks],
            }
        )
        return
    print(f"{file}: ok")
    print(f"  model     {model.name} (family {model.model.family})")
    print(f"  data      {describe(bound) if columns else 'none: the file can be simulated'}")
    if bound.labels:
        # A column of documents has no levels.
        print(
            f"  dims      {', '.join(f'{dim} ({len(levels)})' for dim, levels in bound.labels.items() if len(levels))}"
        )
    if columns:
        print(f"  outcomes  {', '.join(outcomes) or 'none: no column has the name of a random node'}")
    if latent:
        print(f"  summed out {', '.join(latent)}")
    for number, (name, prior) in enumerate(list(priors.items())[:_MOST]):
        print(f"  {'' if number else 'priors':<9} {name}: {prior}")
    if len(priors) > _MOST:
        print(f"            … {len(priors) - _MOST} more")
    if found.engine:
        print(f"  method    {found.reason}")
    for word, text in forecast.items():
        print(f"  {word:<9} {text}")
    for _, _, _, message, advice in remarks:
        print(f"  note      {message}{'; ' if advice else ''}{advice}")
