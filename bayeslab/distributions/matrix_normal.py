"""Matrix normal: a matrix whose rows and columns are correlated.

Dawid (1981), Biometrika 68, 265-274.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared(
    "MatrixNormal",
    "mu rowcov rowchol colcov colchol",
    support=2,
    core={"mu": 2, "rowcov": 2, "rowchol": 2, "colcov": 2, "colchol": 2},
)
