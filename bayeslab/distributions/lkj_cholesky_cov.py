"""LKJ covariance: Cholesky factor of a covariance matrix, from standard deviations and an LKJ correlation matrix.

Lewandowski, Kurowicka, Joe (2009), Journal of Multivariate Analysis 100, 1989-2001.
"""

from __future__ import annotations

from bayeslab.distributions.toolbox.contract import declared

DECLARATION = declared("LKJCholeskyCov", "eta n sd_dist", "eta", support=2, distributions=("sd_dist",), lengths=("n",))
