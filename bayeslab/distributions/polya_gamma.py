"""Pólya-gamma: the auxiliary numbers that make logistic regression conditionally normal.

Polson, Scott, Windle (2013), JASA 108, 1339-1349.
"""

from __future__ import annotations

from bayeslab.distributions._contract import declared

DECLARATION = declared("PolyaGamma", "h z", "h", "(0, inf)")
