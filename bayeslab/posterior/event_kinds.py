"""Kinds of the likelihood of a value, by which results of different models are compared on one scale.

A density; a probability (discrete); that of a tail, censored on the left or right; the probability of one value of a
continuous outcome; unread, because it depends on parameters; and none, for a value that is conditioned on.
"""

from __future__ import annotations

__all__ = ["ATOM", "DENSITY", "GIVEN", "LEFT", "PROBABILITY", "RIGHT", "UNREAD"]

DENSITY, PROBABILITY, LEFT, RIGHT, ATOM, UNREAD, GIVEN = range(7)
