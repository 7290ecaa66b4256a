"""Markov tree: hidden states on trees; the parent's state determines the probabilities of the child's state.

P(z) = prod over roots initial[z] prod over others P[z of the parent, z]; the column ``parent`` names each row's parent.

Crouse, Nowak, Baraniuk (1998), IEEE Transactions on Signal Processing 46, 886-902.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "MarkovTree",
    "P parent initial",
    discrete=True,
    positional=1,
    core={"P": 2, "initial": 1},
    path=True,
    words={"initial": ("stationary", "uniform")},
    columns=("parent",),
    P="[0, 1]",
    initial="[0, 1]",
)
