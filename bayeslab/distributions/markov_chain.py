"""Markov chain: hidden states along a dimension; the previous state determines the probabilities of the next.

P(z) = initial[z[1]] prod P[z[t-1], z[t]]; with ``order`` 2 the last two states determine the row. Chains begin again
where the column ``sequence`` changes.

Zucchini, MacDonald, Langrock (2016), Hidden Markov Models for Time Series, 2nd ed., chapters 1 and 2.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "MarkovChain",
    "P initial sequence order",
    discrete=True,
    positional=2,
    core={"P": 2, "initial": 1},
    path=True,
    words={"initial": ("stationary", "uniform")},
    columns=("sequence",),
    P="[0, 1]",
    initial="[0, 1]",
)
