"""Dirac delta: one value, with certainty."""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("DiracDelta", "c", values="[c, c]", discrete=True)
