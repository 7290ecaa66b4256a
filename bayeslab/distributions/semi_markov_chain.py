"""Semi-Markov chain: hidden states with a table of duration probabilities for each state.

A sequence is cut into segments: P = initial[z_1] prod durations[z_k, d_k] prod P[z_k, z_k+1]. The last segment may
continue beyond the end of the sequence. Chains begin again where the column ``sequence`` changes.

Guédon (2003), Journal of Computational and Graphical Statistics 12, 604-639.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "SemiMarkovChain",
    "P durations initial sequence",
    discrete=True,
    positional=1,
    core={"P": 2, "durations": 2, "initial": 1},
    path=True,
    words={"initial": ("stationary", "uniform")},
    columns=("sequence",),
    P="[0, 1]",
    durations="[0, 1]",
    initial="[0, 1]",
)
