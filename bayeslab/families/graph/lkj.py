"""Cholesky factors of covariance matrices with LKJ correlations: PyMC's distribution with a corrected constant.

PyMC 6.3 adds the log normalising constant of the correlations' density instead of subtracting it. Posteriors are not
affected, but evidences are off by a constant: for two variables and eta = 1 by log 4.
"""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions import multivariate
from pymc.logprob.abstract import _logprob

from bayeslab.distributions.toolbox.correlations import log_constant

__all__ = ["cholesky_covariance", "correction"]


def correction(eta: float, n: int) -> float:
    """Correction of PyMC's log density of ``LKJCholeskyCov``."""
    theirs = pt.as_tensor(multivariate._lkj_normalizing_constant(eta, n))
    return log_constant(eta, n) - float(theirs.eval())


class _CholeskyRV(multivariate._LKJCholeskyCovRV):
    """PyMC's distribution, with a density that integrates to one."""

    @classmethod
    def rv_op(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().rv_op(*args, **kwargs)
        node = made.owner
        inner = node.op.fgraph.unfreeze()
        return cls(inputs=inner.inputs, outputs=inner.outputs)(*node.inputs)


class _Cholesky(multivariate._LKJCholeskyCov):
    rv_type = _CholeskyRV
    rv_op = _CholeskyRV.rv_op


@_logprob.register(_CholeskyRV)
def _log_density(op: Any, values: Any, rng: Any, n: Any, eta: Any, sd_dist: Any, **kwargs: Any) -> Any:
    there = multivariate._LKJCholeksyCovRV_logp(op, values, rng, n, eta, sd_dist, **kwargs)
    known = float(pt.get_underlying_scalar_constant_value(eta)), int(pt.get_underlying_scalar_constant_value(n))
    return there + correction(*known)


def cholesky_covariance(name: str, eta: Any, n: int, deviations: Any) -> tuple[Any, Any, Any]:
    """Factor, correlations and standard deviations on PyMC's context stack; ``name`` names the packed factor."""
    packed = _Cholesky(name, eta=eta, n=n, sd_dist=deviations)
    made: tuple[Any, Any, Any] = pm.LKJCholeskyCov.helper_deterministics(n, packed)
    return made
