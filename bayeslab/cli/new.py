"""``bayeslab new``: a commented model file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import ForceOption, check_output, output
from bayeslab.errors import OptionError, hint

GRAPH = """\
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

BAYES_NET = """\
# A bayeslab model file: a Bayes net. Check it with    bayeslab check {file}
# ask it with                         bayeslab query {file} --given wet_grass=yes
# learn what is left out with         bayeslab fit {file} --data your.csv
bayeslab: 1
name: {name}
about: One sentence on what the model is for.

# data:                       # where the data are (or give --data)
#   table: your.csv           # a column for each variable that was observed; cells may be empty
data:
  rows: case

model:
  family: bayes_net
  # network: your.bif         # variables may also come from a network file; `learn: all` forgets its tables
  variables:
    # name: {{states: [..], parents: [..], table: ..}}   Without a table it is learned; a single number is
    #                                                  the probability of the first state.
    rain: {{states: [yes, no], table: 0.2}}
    sprinkler: {{states: [on, off], parents: [rain], table: {{yes: 0.01, no: 0.4}}}}
    wet_grass:
      states: [yes, no]
      parents: [sprinkler, rain]
      table:
        "on, yes": 0.99
        "on, no": 0.9
        "off, yes": 0.8
        default: 0.0
      # noisy_or: {{sprinkler: 0.9, rain: 0.8}}          instead of the table: each cause acts by itself
  # hidden: [rain]            # never observed: summed out
  # prior: {{pseudocount: 1}}   # of every cell of the tables that are learned
seed: 1
"""
STARTERS = {"graph": GRAPH, "bayes_net": BAYES_NET}


def command(
    name: Annotated[str, typer.Argument(help="Name of the model; the file is NAME.yaml.")] = "model",
    family: Annotated[str, typer.Option(help=f"Family of the model: {' or '.join(STARTERS)}.")] = "graph",
    force: ForceOption = False,
) -> None:
    """Write a commented starter model file."""
    from bayeslab.language.model_file import load

    if family not in STARTERS:
        raise OptionError(
            f"there is no starter of the family '{family}'{hint(family, STARTERS)}", code="unknown-family"
        )
    path = Path(name if name.endswith((".yaml", ".yml")) else f"{name}.yaml")
    check_output(path, force=force)
    output(path, STARTERS[family].format(name=path.stem, file=path))
    load(path)
    print(f"written {path}")
