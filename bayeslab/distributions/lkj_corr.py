"""LKJ correlation: a correlation matrix with density proportional to its determinant to the power eta - 1.

Lewandowski, Kurowicka, Joe (2009), Journal of Multivariate Analysis 100, 1989-2001.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("LKJCorr", "n eta", "eta", support=2, lengths=("n",))
