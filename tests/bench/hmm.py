"""NUTS on a Gaussian hidden Markov model beside pymc-extras and NumPyro; see ``_hmm_sampling_case.py``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CASE = Path(__file__).parent / "_hmm_sampling_case.py"
ALONE = "ess of the best chain, times chains"


def main() -> None:
    found: dict[str, dict[str, float]] = {}
    for which in ("bayeslab", "marginalize", "numpyro"):
        done = subprocess.run(
            [sys.executable, str(CASE), which, *sys.argv[1:]], capture_output=True, text=True, check=True
        )
        found |= json.loads(done.stdout.splitlines()[-1])
    for which, own in found.items():
        print(f"{which:<12} " + ", ".join(f"{name} {value:.3g}" for name, value in own.items()))
    for name in ("ess", ALONE):
        rates = {which: own[name] / own["sample"] for which, own in found.items()}
        for peer in ("marginalize", "numpyro"):
            ratio = rates["bayeslab"] / rates[peer]
            print(f"{name} a second, against {peer}: {rates['bayeslab']:.3g} and {rates[peer]:.3g}, {ratio:.1f} times")


if __name__ == "__main__":
    main()
