"""Log densities by NumPy and SciPy, for constants and for the slow evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from scipy import special

from bayeslab.posterior.machine.catalogue import fused

__all__ = ["log_choose", "log_factorial", "numpy_density"]


def log_factorial(x: Any) -> Any:
    """log x!."""
    return special.gammaln(np.asarray(x) + 1.0)


def log_choose(n: Any, x: Any) -> Any:
    """Logarithm of the binomial coefficient."""
    return -np.log(np.asarray(n) + 1.0) - special.betaln(np.asarray(n) - x + 1.0, np.asarray(x) + 1.0)


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
                return np.where(valid, special.log_expit(np.where(x == 1, 1, -1) * parameters[0]), -np.inf)
            case "binomial.logit" | "binomial.logit_core":
                n, logit = parameters
                value = x * special.log_expit(logit) + (n - x) * special.log_expit(-logit)
                return value if name.endswith("core") else value + log_choose(n, x)
            case "beta.logit":
                a, b = parameters
                return (a - 1.0) * special.log_expit(x) + (b - 1.0) * special.log_expit(-x) - special.betaln(a, b)
            case "geometric.logit":
                value = special.log_expit(parameters[0]) + (x - 1.0) * special.log_expit(-parameters[0])
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
                return special.xlogy(x, parameters[0]) - parameters[0]
            case "negative_binomial.log":
                return numpy_density("negative_binomial", [x, np.exp(parameters[0]), parameters[1]])
            case "negative_binomial.core":
                mu, alpha = parameters
                return special.xlogy(x, mu / (mu + alpha)) - alpha * np.log1p(mu / alpha)
            case "negative_binomial.log_core":
                odds = parameters[0] - np.log(parameters[1])
                return x * special.log_expit(odds) + parameters[1] * special.log_expit(-odds)
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
