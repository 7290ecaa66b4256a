"""Logarithms that densities share."""

from __future__ import annotations

import math

__all__ = ["HALF_LOG_2PI", "LOG_2", "LOG_2PI", "LOG_PI", "ROOT_2_OVER_PI", "ROOT_HALF"]

LOG_2 = math.log(2.0)
LOG_PI = math.log(math.pi)
LOG_2PI = math.log(2.0 * math.pi)
HALF_LOG_2PI = 0.5 * LOG_2PI
ROOT_HALF = math.sqrt(0.5)
ROOT_2_OVER_PI = math.sqrt(2.0 / math.pi)
