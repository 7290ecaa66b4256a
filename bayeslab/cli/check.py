"""``bayeslab check``: is the model file right, and do the data fit it?"""

from __future__ import annotations

from bayeslab.cli._shared import DataOption, FileArgument, JsonOption, print_json


def command(file: FileArgument, data: DataOption = None, json: JsonOption = False) -> None:
    """Check a model file and its data; nothing is fitted."""
    from bayeslab import fitting, registry
    from bayeslab.dataset import describe
    from bayeslab.io.modelfile import load

    bound = fitting.check(file, data)
    model = load(file)
    family = registry.load("families", model.model.family)
    columns = bound.names()
    latent = family.summed_out(model, columns) if columns else ()
    outcomes = family.outcomes(model, columns) if columns else ()
    if json:
        print_json(
            {
                "ok": True,
                "name": model.name,
                "family": model.model.family,
                "dims": {dim: len(levels) for dim, levels in bound.labels.items()},
                "outcomes": list(outcomes),
                "summed_out": list(latent),
            }
        )
        return
    print(f"{file}: ok")
    print(f"  model     {model.name} (family {model.model.family})")
    print(f"  data      {describe(bound) if columns else 'none: the file can be simulated'}")
    if bound.labels:
        print(f"  dims      {', '.join(f'{dim} ({len(levels)})' for dim, levels in bound.labels.items())}")
    if columns:
        print(f"  outcomes  {', '.join(outcomes) or 'none: no column has the name of a random node'}")
    if latent:
        print(f"  summed out {', '.join(latent)}")
