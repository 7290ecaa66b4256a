"""Log densities by NumPy and SciPy, for constants and for the slow evaluation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from bayeslab import special
from bayeslab.posterior.machine.catalogue import fused

__all__ = ["log_choose", "log_factorial", "numpy_density"]

# Up to this number of trials binomial coefficients are computed as whole numbers.
_EXACT = 1000


def log_factorial(x: Any) -> Any:
    """log x!."""
    distinct, where = np.unique(np.asarray(x, dtype=np.float64), return_inverse=True)
    return np.array([math.lgamma(value + 1.0) for value in distinct])[where].reshape(np.shape(x))


def log_choose(n: Any, x: Any) -> Any:
    """Logarithm of the binomial coefficient."""
    n, x = np.broadcast_arrays(np.asarray(n, dtype=np.float64), np.asarray(x, dtype=np.float64))
    whole = (n % 1 == 0) & (x % 1 == 0) & (x >= 0) & (x <= n)
    if n.size and whole.all() and n.max() <= _EXACT:
        pairs, where = np.unique(np.stack((n.ravel(), x.ravel())), axis=1, return_inverse=True)
        logs = np.array([math.log(math.comb(int(a), int(b))) for a, b in pairs.T])
        return logs[where.ravel()].reshape(n.shape)
    return -np.log(n + 1.0) - special.betaln(n - x + 1.0, x + 1.0)


def _log_sigmoid(x: Any) -> Any:
    """log(1 / (1 + exp(-x)))."""
    return -np.logaddexp(0.0, -x)


def _times_log(x: Any, y: Any) -> Any:
    """x log y, 0 where x is 0."""
    return np.where(np.equal(x, 0.0), 0.0 * y, x * np.log(y))


def numpy_density(name: str, args: Sequence[Any]) -> Any:
    """Log density of each value, -inf outside the support."""
    x, *parameters = (np.asarray(arg, dtype=np.float64) for arg in args)
    if ":" in name:
        function = fused(name)
        assert function is not None
        return np.vectorize(lambda *numbers: function(*numbers)[0], otypes=[float])(*np.broadcast_arrays(*args))
    with np.errstate(all="ignore"):
        match name:
            case "bernoulli.logit":
                valid = (x == 0) | (x == 1)
                return np.where(valid, _log_sigmoid(np.where(x == 1, 1, -1) * parameters[0]), -np.inf)
            case "binomial.logit" | "binomial.logit_core":
                n, logit = parameters
                value = x * _log_sigmoid(logit) + (n - x) * _log_sigmoid(-logit)
                return value if name.endswith("core") else value + log_choose(n, x)
            case "beta.logit":
                a, b = parameters
                return (a - 1.0) * _log_sigmoid(x) + (b - 1.0) * _log_sigmoid(-x) - special.betaln(a, b)
            case "geometric.logit":
                value = _log_sigmoid(parameters[0]) + (x - 1.0) * _log_sigmoid(-parameters[0])
                return np.where((x >= 1) & (x % 1 == 0), value, -np.inf)
            case "zero_inflated_binomial.logit":
                psi, n, logit = parameters
                inside = np.log(psi) + numpy_density("binomial.logit", [x, n, logit])
                value = np.where(np.equal(x, 0), np.logaddexp(np.log1p(-psi), inside), inside)
                return np.where((x >= 0) & (x <= n) & (x % 1 == 0), value, -np.inf)
            case "poisson.log" | "poisson.log_core":
                value = x * parameters[0] - np.exp(parameters[0])
                return value if name.endswith("core") else value - log_factorial(x)
            case "poisson.core":
                return _times_log(x, parameters[0]) - parameters[0]
            case "negative_binomial.log":
                return numpy_density("negative_binomial", [x, np.exp(parameters[0]), parameters[1]])
            case "negative_binomial.core":
                mu, alpha = parameters
                return _times_log(x, mu / (mu + alpha)) - alpha * np.log1p(mu / alpha)
            case "negative_binomial.log_core":
                odds = parameters[0] - np.log(parameters[1])
                return x * _log_sigmoid(odds) + parameters[1] * _log_sigmoid(-odds)
            case "normal.sums":
                count, squares, mu, sigma = parameters
                return -0.5 * (squares + count * (x - mu) ** 2) / sigma**2 - count * np.log(np.sqrt(2 * np.pi) * sigma)
            case "rising":
                return parameters[0] * (special.gammaln(x + parameters[1]) - special.gammaln(parameters[1]))
        module = import_module(f"bayeslab.distributions.{name}")
        return _supported(module, np.asarray(x, dtype=np.float64), parameters)


def _supported(module: Any, x: np.ndarray, parameters: Sequence[Any]) -> Any:
    """The distribution's log density where a value is in the support, -inf elsewhere."""
    domain = module.DECLARATION.domain
    # Names of the canonical parameters, which the ends of a support may refer to.
    names = module.log_density.__code__.co_varnames[1 : module.log_density.__code__.co_argcount]
    named = dict(zip(names, parameters, strict=True))
    low, high = (named.get(e, np.nan) if isinstance(e, str) else e for e in (domain.values.low, domain.values.high))
    return np.where(domain.values.outside(x, low, high), -np.inf, module.log_density(x, *parameters))
