"""Hidden states against hmmlearn and scikit-learn: seconds an iteration, decoding and smoothing, in one run."""

from __future__ import annotations

import sys

import _markov_case
import _mixture_case


def chains() -> None:
    """T = 100,000, five states; hmmlearn's two implementations (``log`` is its default)."""
    case = _markov_case.data()
    mine = _markov_case.ours(case)
    try:
        theirs = {way: _markov_case.hmmlearn(case, way) for way in ("log", "scaling")}
    except ImportError:
        print("hmmlearn is not installed", file=sys.stderr)
        return
    for what in ("gaussian iteration", "categorical iteration", "viterbi", "smooth"):
        for way, peer in theirs.items():
            line(f"hidden Markov chain, {what}", mine[what], peer[what], f"hmmlearn, {way}")
    for what in ("gaussian log likelihood", "categorical log likelihood"):
        assert abs(mine[what] - theirs["log"][what]) < 1e-4 * abs(mine[what]), what


def mixtures() -> None:
    """N = 100,000 rows, five Gaussian components."""
    for case in _mixture_case.cases():
        line(case["case"], case["ours"], case["scikit-learn"], "scikit-learn")


def line(what: str, ours: float, theirs: float, peer: str) -> None:
    print(f"{what:<56}{1e3 * ours:>10.2f}{1e3 * theirs:>12.2f}{theirs / ours:>9.1f}   {peer}", flush=True)


if __name__ == "__main__":
    print(f"{'':56}{'ours, ms':>10}{'theirs, ms':>12}{'ratio':>9}")
    chains()
    mixtures()
    print("ratios are theirs / ours: large is good")
