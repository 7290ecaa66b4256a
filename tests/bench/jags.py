"""Classic BUGS examples against JAGS: seconds from the start of a process to the verdict.

Ours is a process that reads the model file and the data, fits with default options, and prints the verdict. JAGS's time
is that of the reference runs (four chains in one process, CPU seconds of JAGS 4.3.1), scaled to the same smallest bulk
ESS of the wanted quantities. Burn-in is scaled, too, which favours JAGS. Where ``jags`` is installed, four examples are
run by it here, as a check of the reference's seconds on this machine.

``BAYESLAB_BUGS`` names the folder of examples: for each a ``model.jags``, its data, and a ``reference.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("BAYESLAB_BUGS", Path(__file__).parents[3] / "shared" / "conformance" / "bugs"))
RUN_BY_JAGS = ("rats", "pumps", "seeds", "surgical")


def prepared(name: str, folder: Path) -> None:
    """The model file and the data of an example as a user has them, in a folder."""
    import pandas as pd

    from tests.conformance.test_bugs import as_given

    model, *given = as_given(name, folder)
    if model.parent != folder:
        shutil.copy(model, folder / model.name)
    for data in given:
        if isinstance(data, pd.DataFrame):
            data.to_csv(folder / "rows.csv", index=False)
        else:
            (folder / "arrays.pickle").write_bytes(pickle.dumps(data))


def ours(name: str, folder: Path) -> None:
    """Fit an example in this process; the last line has the time of the verdict and the smallest ESS as JSON."""
    import bayeslab as bl

    rows, arrays = folder / "rows.csv", folder / "arrays.pickle"
    data = rows if rows.exists() else pickle.loads(arrays.read_bytes()) if arrays.exists() else None
    fit = bl.fit(folder / f"{name}.yaml", data, seed=1, progress=False, runs=None)
    print(fit.verdict.status)
    done, ess = time.time(), None
    if fit.method == "nuts":
        import arviz as az
        import numpy as np

        from tests.conformance.test_bugs import CELLS, values_of

        wanted = json.loads((FOLDER / name / "reference.json").read_text())["quantities"]
        draws = [values_of(fit, CELLS.get(quantity, quantity)) for quantity in wanted]
        each = [float(az.ess(d.to_dataset(name="x"), method="bulk")["x"]) for d in draws if d.std() > 0]
        ess = float(np.nanmin(each))
    print("RESULT " + json.dumps({"done": done, "ess": ess, "method": fit.method, "status": fit.verdict.status}))


def measured(name: str, folder: Path) -> dict[str, Any]:
    """The result of a process of ours, with its seconds from its start to the verdict."""
    begun = time.time()
    command = [sys.executable, __file__, "--worker", name, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
    return result | {"seconds": result["done"] - begun}


def by_jags(name: str) -> float:
    """CPU seconds of JAGS on this machine, with the iterations of the reference."""
    import pandas as pd

    table = pd.read_csv(FOLDER / name / "data.csv")
    reference = json.loads((FOLDER / name / "reference.json").read_text())
    data: dict[str, list[float]] = {}
    if name == "rats":
        data = {"rat": (table["rat"].factorize()[0] + 1).tolist(), "day": table["day"], "weight": table["weight"]}
        data["n_rats"] = [table["rat"].nunique()]
    elif name == "pumps":
        data = {"failures": table["failures"], "hours": table["thousand_hours"]}
    elif name == "seeds":
        data = {"r": table["germinated"], "n": table["seeds"], "x1": (table["seed"] != "aegyptiaca_75").astype(int)}
        data["x2"] = (table["extract"] != "bean").astype(int)
    else:
        data = {"r": table["deaths"], "n": table["operations"]}
    wanted = sorted({quantity.partition("[")[0] for quantity in reference["quantities"]})
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"`{key}` <- c({', '.join(map(str, values))})" for key, values in data.items()]
        Path(folder, "data.R").write_text("\n".join(lines) + "\n")
        script = [f'model in "{FOLDER / name / "model.jags"}"', 'data in "data.R"', "compile, nchains(4)", "initialize"]
        script += ["update 1000", *(f"monitor {node}" for node in wanted)]
        script += [f"update {reference['iterations_per_chain']}", "coda *"]
        Path(folder, "run.cmd").write_text("\n".join(script) + "\n")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["jags", "run.cmd"], cwd=folder, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="examples; default: all")
    parser.add_argument("--worker", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        ours(options.worker[0], Path(options.worker[1]))
        return
    if not FOLDER.is_dir():
        raise SystemExit(f"there are no BUGS examples in {FOLDER}: BAYESLAB_BUGS names their folder")
    names = options.names or sorted(path.parent.name for path in FOLDER.glob("*/reference.json"))
    print(f"{'example':14} {'ours, s':>8} {'method':>7} {'least ESS':>10} {'JAGS, s':>8} {'difference':>10}  verdict")
    gaps = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            prepared(name, Path(folder))
            measured(name, Path(folder))  # the first process of a new version compiles its kernels
            mine = measured(name, Path(folder))
        reference = json.loads((FOLDER / name / "reference.json").read_text())
        share = 1.0 if mine["ess"] is None else mine["ess"] / reference["worst_ess"]
        theirs = reference["jags_cpu_seconds"] * share
        gaps.append((mine["seconds"], theirs))
        ess = "exact" if mine["ess"] is None else f"{mine['ess']:,.0f}"
        print(
            f"{name:14} {mine['seconds']:8.2f} {mine['method']:>7} {ess:>10} {theirs:8.2f} {mine['seconds'] - theirs:10.2f}"
            f"  {mine['status']}",
            flush=True,
        )
    middle = [statistics.median(each) for each in zip(*gaps, strict=True)]
    print(f"{'median':14} {middle[0]:8.2f} {'':>7} {'':>10} {middle[1]:8.2f} {middle[0] - middle[1]:10.2f}")
    if shutil.which("jags") is None:
        print("jags is not installed: its seconds are those of the reference runs alone")
        return
    for name in sorted(set(RUN_BY_JAGS) & set(names)):
        reference = json.loads((FOLDER / name / "reference.json").read_text())
        print(
            f"{name}: JAGS takes {by_jags(name):.1f} s of CPU here, {reference['jags_cpu_seconds']:.1f} s in the reference"
        )


if __name__ == "__main__":
    main()
