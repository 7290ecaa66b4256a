r"""Bayesian comparison of two models by their scores on the same splits.

Cross-validation scores are correlated, because the training sets overlap. Given n score differences with mean
:math:`\bar x`, variance :math:`s^2` and correlation :math:`\rho`, the posterior of the mean difference :math:`\mu`
under the usual improper prior is a Student t distribution with n − 1 degrees of freedom [1]_ (eq. 6),

.. math:: \mu \sim t_{n-1}\!\left(\bar x, \left(\tfrac{1}{n} + \tfrac{\rho}{1-\rho}\right) s^2\right),

where :math:`\rho` is the share of held-out rows [2]_. A difference smaller than a margin counts as no difference. With
:math:`s^2=0` there is no posterior: a few identical differences, which are common for accuracies, say nothing about
their variance.

References
----------
.. [1] Corani, Benavoli (2015). A Bayesian approach for comparing cross-validated algorithms on multiple data sets.
   Machine Learning 100, 285-304.
.. [2] Nadeau, Bengio (2003). Inference for the generalization error. Machine Learning 52, 239-281.
.. [3] Benavoli, Corani, Demšar, Zaffalon (2017). Time for a change: a tutorial for comparing multiple classifiers
   through Bayesian analysis. JMLR 18(77).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayeslab.arrays import number, real
from bayeslab.errors import OptionError

__all__ = ["PairedDifference", "correlated_t"]

# Relative tolerance below which differences count as identical.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Posterior of a mean difference of scores.

    Attributes
    ----------
    mean, scale, dof : float
        Parameters of the Student t posterior.
    better, same, worse : float
        Probability that the difference is above, within or below the margin; NaN if all differences are identical.
    """

    mean: float
    scale: float
    dof: int
    better: float
    same: float
    worse: float

    def interval(self, probability: float = 0.89) -> tuple[float, float]:
        """Return the central interval of the mean difference; NaN if all differences are identical."""
        from scipy.stats import t

        number(probability, "probability", 0, 1, above=True, below=True)
        half = self.scale * float(t.ppf((1 + probability) / 2, self.dof)) if self.scale > 0 else float("nan")
        return self.mean - half, self.mean + half


def correlated_t(differences: NDArray[np.float64], left_out: float, margin: float = 0.0) -> PairedDifference:
    """Return the posterior of the mean difference of scores on the same splits.

    Parameters
    ----------
    differences
        One difference for each split, first model minus second.
    left_out
        Share of held-out rows in a split, used as the correlation of two scores.
    margin
        Differences up to this size count as no difference.
    """
    from scipy.stats import t

    each = real(differences, "differences", finite=False, empty=True)
    if each.ndim != 1 or len(each) < 2:
        raise OptionError(f"a comparison needs the scores of two splits or more; there are {each.size}", code="too-few")
    if not np.all(np.isfinite(each)):
        raise OptionError(
            "some scores are infinite or missing, so that their mean difference is not known", code="not-finite"
        )
    number(left_out, "left_out", 0, 1, below=True)
    number(margin, "margin", 0)
    n, mean = len(each), float(each.mean())
    if np.ptp(each) <= _ROUNDING * np.abs(each).max():
        unknown = float("nan")
        return PairedDifference(mean, 0.0, n - 1, unknown, unknown, unknown)
    unit = float(np.abs(each).max())  # its square may underflow or overflow
    scale = unit * float(np.sqrt((1 / n + left_out / (1 - left_out)) * (each / unit).var(ddof=1)))
    above = float(t.sf((margin - mean) / scale, n - 1))
    below = float(t.cdf((-margin - mean) / scale, n - 1))
    return PairedDifference(mean, scale, n - 1, above, max(0.0, 1 - above - below), below)
