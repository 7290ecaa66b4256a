"""NUTS on a Gaussian hidden Markov model beside pymc-extras' `marginalize` with nutpie; see ``_hmm_sampling_case.py``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CASE = Path(__file__).parent / "_hmm_sampling_case.py"
ALONE = "ess of the best chain, times chains"


def main() -> None:
    found: dict[str, dict[str, float]] = {}
    for which in ("bayeslab", "marginalize"):
        done = subprocess.run(
            [sys.executable, str(CASE), which, *sys.argv[1:]], capture_output=True, text=True, check=True
        )
        found |= json.loads(done.stdout.splitlines()[-1])
    for which, own in found.items():
        shown = ", ".join(f"{name} {value:.3g}" for name, value in own.items())
        print(f"{which:<12} {shown}")
    for name in ("ess", ALONE):
        ours, theirs = (found[which][name] / found[which]["sample"] for which in ("bayeslab", "marginalize"))
        print(f"{name} a second: {ours:.3g} against {theirs:.3g}, {ours / theirs:.1f} times")


if __name__ == "__main__":
    main()
