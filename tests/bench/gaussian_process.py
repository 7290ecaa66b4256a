"""Gaussian processes against scikit-learn, GPyTorch and pm.gp.Marginal, one thread each, in one run.

Give words to run parts only: ``exact``, ``million``, ``nuts``.
"""

from __future__ import annotations

import os
import sys

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import _gp_case  # noqa: E402
import numpy as np  # noqa: E402


def exact(n: int = 2000) -> None:
    """Hyperparameters at the maximum of the marginal likelihood."""
    mine, found = _gp_case.ours_exact(n)
    theirs, reached = _gp_case.scikit_learn(n)
    assert found.log_evidence >= reached - 1e-3, (found.log_evidence, reached)
    line(f"exact fit, n = {n:,}", mine, theirs, "scikit-learn")
    try:
        theirs, reached = _gp_case.gpytorch(n)
    except ImportError:
        print("GPyTorch is not installed", file=sys.stderr)
        return
    assert found.log_evidence >= reached - 1e-3, (found.log_evidence, reached)
    line(f"exact fit, n = {n:,}", mine, theirs, "GPyTorch")


def million() -> None:
    """State-space form of a Matérn kernel: absolute seconds."""
    for irregular in (False, True):
        found = _gp_case.million(irregular)
        evaluations = found.pop("of")
        for what, spent in found.items():
            note = f"   {evaluations} evaluations" if what == "fit" else ""
            kind = "irregular" if irregular else "equally spaced"
            print(f"n = 1,000,000, {kind}, {what}".ljust(64) + f"{spent:>10.2f}{note}", flush=True)


def nuts(n: int = 300, seeds: int = 2) -> None:
    """Effective draws a second of the worst hyperparameter, over several series and chains."""
    for case in _gp_case.NUTS_CASES:
        ours = np.sum([_gp_case.ours_nuts(case, n, seed) for seed in range(1, seeds + 1)], axis=0)
        theirs = np.sum([_gp_case.pymc_nuts(case, n, seed) for seed in range(1, seeds + 1)], axis=0)
        line(
            f"NUTS, {case}, n = {n}, 1,000 effective draws",
            1000 * ours[1] / ours[0],
            1000 * theirs[1] / theirs[0],
            "PyMC + nutpie",
        )


def line(what: str, ours: float, theirs: float, peer: str) -> None:
    print(f"{what:<64}{ours:>10.2f}{theirs:>12.2f}{theirs / ours:>9.1f}   {peer}", flush=True)


if __name__ == "__main__":
    print(f"{'':64}{'ours, s':>10}{'theirs, s':>12}{'ratio':>9}")
    parts = {"exact": exact, "million": million, "nuts": nuts}
    for word in sys.argv[1:] or list(parts):
        parts[word]()
    print("CPU seconds of one thread; ratios are theirs / ours: large is good")
