"""Tables larger than memory: time and peak memory of fits whose rows DuckDB folds, from a Parquet file made on the fly.

Each fit runs in a process of its own; the clock runs from the model to the posterior, imports are not timed. The peak
is that of the whole process, of which the imports take about 200 MiB. With ``--held`` the same models are fitted to
rows in memory, for comparison: take a million rows for that.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

FEATURES = [f"f{i}" for i in range(8)]
CASES = ("gaussian", "groups", "derived", "logistic", "poisson", "naive_bayes", "structure", "mixture")
_BATCH = 1_000_000


def write(path: Path, n: int) -> None:
    """Write rows with normal and binary outcomes, counts, groups, and a class with binary features."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rng = np.random.default_rng(7)
    group = rng.normal(0, 0.5, 100)
    schema = pa.schema([(name, pa.float64()) for name in ("y", "x", "z")])
    for name in ("g", "k", "hit", "count", "kind", *FEATURES):
        schema = schema.append(pa.field(name, pa.int64()))
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, n, _BATCH):
            m = min(_BATCH, n - start)
            x, z, g, k = rng.normal(3, 2, m), rng.gamma(2, 1, m), rng.integers(0, 100, m), rng.integers(0, 5, m)
            y = 1 + 0.5 * x - 0.3 * z + group[g] + rng.normal(0, 0.7, m)
            eta = 0.3 * k - 1 + group[g]
            hit = rng.random(m) < 1 / (1 + np.exp(-eta))
            kind = rng.integers(0, 4, m)
            columns = [y, x, z, g, k, hit.astype(int), rng.poisson(np.exp(eta)), kind]
            columns += [(rng.random(m) < 0.2 + 0.15 * ((kind + i) % 4)).astype(int) for i in range(len(FEATURES))]
            writer.write_table(pa.table(columns, schema=schema))


def model(case: str, source: dict[str, Any]) -> Any:
    import bayeslab as bl

    states = {"kind": list("0123"), **{name: list("01") for name in FEATURES}}
    if case == "naive_bayes":
        return bl.Model(model=bl.BayesNet(variables=states, structure="naive_bayes", target="kind"), data=source)
    if case == "structure":
        chosen = {v: states[v] for v in ("kind", *FEATURES[:4])}
        return bl.Model(model=bl.BayesNet(variables=chosen, structure={"score": "bdeu"}), data=source)
    if case == "mixture":
        return bl.Model(model=bl.Mixture(columns=["x", "z"], components=2), data=source)
    formulas = {
        "gaussian": "y ~ x + z",
        "groups": "y ~ x + z + (1 | g)",
        "derived": "y ~ x + log_z",
        "logistic": "hit ~ k + (1 | g)",
        "poisson": "count ~ k + (1 | g)",
    }
    likelihood = {"logistic": "bernoulli", "poisson": "poisson"}.get(case, "gaussian")
    derive = {"log_z": "log(z)"} if case == "derived" else {}
    return bl.Model(
        model=bl.Regression(formula=formulas[case], likelihood=likelihood), data={**source, "derive": derive}
    )


def fitted(case: str, path: str, streamed: bool) -> dict[str, Any]:
    import bayeslab as bl

    method = {"logistic": "laplace", "poisson": "laplace", "mixture": "em"}.get(case)
    start = time.perf_counter()
    fit = bl.fit(model(case, {"table": path, "streamed": streamed}), None, method, runs=None, progress=False, seed=1)
    return {
        "seconds": time.perf_counter() - start,
        "method": fit.method,
        "rows": len(next(iter(fit.data.dataset.columns.values())).values),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda word: int(float(word)), default=10_000_000)
    parser.add_argument("--cases", default=",".join(CASES), help="comma-separated")
    parser.add_argument("--held", action="store_true", help="rows in memory too")
    parser.add_argument("--folder", help="where the file is made; default: the folder of temporary files")
    parser.add_argument("--worker", nargs=3, metavar=("CASE", "PATH", "STREAMED"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        case, path, streamed = chosen.worker
        print(json.dumps(fitted(case, path, streamed == "1")))
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        path = Path(folder) / "rows.parquet"
        start = time.perf_counter()
        write(path, chosen.rows)
        size, seconds = path.stat().st_size / 2**30, time.perf_counter() - start
        print(f"{chosen.rows:,} rows in {size:.2f} GiB, written in {seconds:.0f} s")
        print(f"{'':14}{'rows held':>12}{'method':>10}{'seconds':>10}{'peak MiB':>10}")
        for case in chosen.cases.split(","):
            for streamed in ("1", "0") if chosen.held else ("1",):
                command = [sys.executable, __file__, "--worker", case, str(path), streamed]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"{case:14}{done.stderr.strip().splitlines()[-1]}", flush=True)
                    continue
                out = json.loads(done.stdout.strip().splitlines()[-1])
                print(
                    f"{case:14}{out['rows']:12,}{out['method']:>10}{out['seconds']:10.1f}{out['peak']:10.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
