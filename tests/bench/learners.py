"""Classical learners against scikit-learn, brute force and plain Python, one thread each, in one run.

Give words to run parts only: ``lsh``.
"""

from __future__ import annotations

import os
import sys

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import _lsh_case  # noqa: E402
import numpy as np  # noqa: E402


def lsh(n: int = 1_000_000, n_queries: int = 500) -> None:
    """10⁶ × 64: recall of at least 0.9 at ten times the speed of brute force or more."""
    for make in (_lsh_case.planted, _lsh_case.clustered):
        rng = np.random.default_rng(0)
        case = make(n, n_queries, rng)
        found = _lsh_case.measured(case, rng)
        note = f"recall {found.recall:.3f}, {found.examined:.0f} candidates, {found.tables} tables"
        line(
            f"lsh, {n:,} × 64, {case[0]}",
            found.ours,
            found.brute,
            f"brute force ({note}, built in {found.built:.1f} s)",
        )
        assert found.recall >= 0.9, found


def line(what: str, ours: float, theirs: float, peer: str) -> None:
    print(f"{what:<56}{1e3 * ours:>10.3f}{1e3 * theirs:>12.3f}{theirs / ours:>9.1f}   {peer}", flush=True)


if __name__ == "__main__":
    print(f"{'':56}{'ours, ms':>10}{'theirs, ms':>12}{'ratio':>9}")
    parts = {"lsh": lsh}
    for word in sys.argv[1:] or list(parts):
        parts[word]()
    print("milliseconds of the processor, one thread; ratios are theirs / ours: large is good")
