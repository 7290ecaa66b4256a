"""NUTS with hidden states summed out, effective draws a second beside the peers; see the cases for what they do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
ALONE = "ess of the best chain, times chains"


def measured(case: str, which: str) -> dict[str, float]:
    """Numbers of one program of its own."""
    command = [sys.executable, str(FOLDER / case), which, *sys.argv[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])[which]
    return found


def beside(title: str, case: str, peers: tuple[str, ...], counts: tuple[str, ...]) -> None:
    """A case, ours and the peers'."""
    found = {which: measured(case, which) for which in ("bayeslab", *peers)}
    print(title)
    for which, own in found.items():
        print(f"  {which:<12} " + ", ".join(f"{name} {value:.3g}" for name, value in own.items()))
    for name in counts:
        rates = {which: own[name] / own["sample"] for which, own in found.items()}
        for peer in peers:
            ratio = rates["bayeslab"] / rates[peer]
            print(f"  {name} a second against {peer}: {rates['bayeslab']:.3g} and {rates[peer]:.3g}, {ratio:.1f} times")


if __name__ == "__main__":
    beside("mixture of five normals, 10,000 rows", "_mixture_sampling_case.py", ("pymc",), ("ess",))
    # Chains of the peers may stay in another labelling: then only a single chain says how well they mix.
    beside(
        "hidden Markov model of three states, 2,000 rows",
        "_hmm_sampling_case.py",
        ("marginalize", "numpyro"),
        ("ess", ALONE),
    )
