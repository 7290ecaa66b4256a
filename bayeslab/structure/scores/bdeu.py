r"""BDeu: the log marginal likelihood under Dirichlet priors that give equivalent structures equal scores.

.. math:: \sum_j \Big[\log\frac{\Gamma(a_{ij})}{\Gamma(a_{ij} + N_{ij})}
   + \sum_k \log\frac{\Gamma(a_{ijk} + N_{ijk})}{\Gamma(a_{ijk})}\Big],
   \quad a_{ijk} = \frac{a}{q_i r_i},\ a_{ij} = \frac{a}{q_i}

with r states of the variable, q configurations of its parents and an equivalent sample size a.

References
----------
.. [1] Buntine (1991). Theory refinement on Bayesian networks. UAI 7, 52-60.
.. [2] Heckerman, Geiger, Chickering (1995). Learning Bayesian networks. Machine Learning 20, 197-243, eq. 28.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayeslab.errors import OptionError
from bayeslab.structure.counts import CellSums
from bayeslab.structure.data import Observations
from bayeslab.structure.scores.toolbox.discrete import DiscreteScore

__all__ = ["score"]


def score(
    data: Any, *, equivalent_sample_size: float = 10.0, states: Mapping[str, Sequence[Any]] | None = None
) -> DiscreteScore:
    """Return the BDeu score of a table.

    Parameters
    ----------
    data
        A table (:meth:`bayeslab.structure.data.Observations.of`).
    equivalent_sample_size
        The number of imaginary rows, spread evenly over all cells.
    states
        States of variables in order, if not all of them occur in the data.
    """
    if not equivalent_sample_size > 0:
        raise OptionError(
            f"equivalent_sample_size is a number above 0; given {equivalent_sample_size}", code="out-of-range"
        )
    observations = Observations.of(data, kind="discrete", states=states)
    return DiscreteScore.of("bdeu", observations, CellSums("log_gamma", ess=float(equivalent_sample_size)))
