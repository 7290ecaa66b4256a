"""``bayeslab new``: a commented model file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

STARTER = """\
# A bayeslab model file. Check it with    bayeslab check {file}
# try the priors with                     bayeslab simulate {file}
# and fit it with                         bayeslab fit {file} --data your.csv
bayeslab: 1
name: {name}
about: One sentence on what the model is for.

# data:                       # where the data are (or give --data)
#   table: your.csv           # relative to this file; one row an observation
#   rows: obs                 # what the rows are called
#   derive:                   # computed columns; mean and sd keep their values for predictions
#     z: (height - mean(height)) / sd(height)
data:
  rows: obs

dims:
  obs: 20                     # without data: how many rows to simulate. With data, remove this.

model:
  family: graph
  nodes:
    # name: expression         A distribution makes the node random; its names and parameters are PyMC's.
    # name[dim]: expression    One value for each level; a text column of that name is an index: a[group]
    a: Normal(0, 10)
    b: Normal(0, 1)
    sigma: HalfNormal(5)
    x[obs]: index(obs) / 10                # deterministic; with data, a column called x instead
    y[obs]: Normal(a + b * x, sigma)       # observed as soon as the data have a column called y

inference: {{method: auto, draws: 1000, chains: 4}}
seed: 1
"""


def command(
    name: Annotated[str, typer.Argument(help="Name of the model; the file is NAME.yaml.")] = "model",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented starter model file."""
    from bayeslab.errors import ModelError
    from bayeslab.io.modelfile import load, write_text

    path = Path(name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    if path.exists() and not force:
        raise ModelError("the file is there already; --force replaces it", where=str(path))
    if not path.parent.is_dir():
        raise ModelError("no such folder", where=str(path.parent))
    write_text(path, STARTER.format(name=path.stem, file=path))
    load(path)
    print(f"written {path}")
