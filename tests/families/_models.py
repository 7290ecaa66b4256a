"""Short declarations of models that several files test."""

from __future__ import annotations

import bayeslab as bl


def two_states(**content) -> bl.Model:
    """A hidden Markov model of one column, of two states unless said otherwise."""
    return bl.Model(name="m", model={"family": "hmm", "columns": ["y"], "states": 2} | content)


def mixture(columns, components=2, **spec) -> bl.Model:
    return bl.Model(model=bl.Mixture(columns=columns, components=components, **spec))
