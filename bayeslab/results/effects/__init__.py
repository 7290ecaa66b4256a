"""Marginal effects in the units of the outcome: expected outcomes, comparisons and slopes at values of the predictors.

The steps are those of marginaleffects [1]_. A *quantity* (an expected outcome, a comparison of two, or a slope) is
computed for every row of a *table* (the sample of the fit, new data, or a grid) and every posterior draw, and
*averaged* over all rows or over groups of rows. Credible intervals are quantiles of the draws of the average.

References
----------
.. [1] Arel-Bundock, Greifer, Heiss (2024). How to interpret statistical models using marginaleffects for R and Python.
   Journal of Statistical Software 111(9).
.. [2] Gelman, Pardoe (2007). Average predictive comparisons for models with nonlinearity, interactions, and variance
   components. Sociological Methodology 37, 23-51.
"""
