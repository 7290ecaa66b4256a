"""Family ``gaussian_process``: regression on an unknown function with a Gaussian process prior.

``kernel`` is the covariance function (:mod:`bayeslab.latents.gaussian_process.covariance`) and ``mean`` the mean
function. With likelihood gaussian the function is integrated out: the log marginal likelihood of the hyperparameters,
with its gradient, is one node of the graph and costs one Cholesky factorisation
(:mod:`bayeslab.latents.gaussian_process.gaussian_process`). With other likelihoods the function at the rows is inferred
too, as standard normals times the Cholesky factor.

``Intercept``, ``b[predictor]``
    Coefficients of the mean. Beside predictors the intercept with a default prior is ``Intercept_centred``, that of
    centred predictors, and ``Intercept`` is computed from it.
``sigma`` (or ``sigma2``, ``precision``), ``nu``, ``alpha``
    Further parameters of the likelihood.
Names of hyperparameters
    As in the kernel: ``Matern52_lengthscale``, or the names that the kernel's expression uses.

A prior that is a number fixes a parameter; if all are fixed the answer is exact.

References
----------
.. [1] Rasmussen, Williams (2006). Gaussian Processes for Machine Learning. MIT Press.
"""

from __future__ import annotations

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError, hint, unknown_column
from bayeslab.families.gaussian_process import approximations
from bayeslab.families.gaussian_process.posterior import GaussianProcessPosterior
from bayeslab.families.gaussian_process.spec import GaussianProcess, columns_read, kernel_of, mean_formula, target_of
from bayeslab.language.spec import Model
from bayeslab.latents.gaussian_process.covariance import Kernel

__all__ = ["GaussianProcess", "Spec", "check", "compile"]

Spec = GaussianProcess


def _spec(model: Model) -> GaussianProcess:
    assert isinstance(model.model, GaussianProcess)
    return model.model


def check(model: Model, columns: set[str] | None) -> None:
    """Check that the kernel and the mean can be read, and that the data have their columns."""
    spec = _spec(model)
    _approximable(spec, kernel_of(spec))
    mean_formula(spec, "y")
    if not columns:
        return
    target = target_of(spec, columns)
    if target in columns_read(spec):
        raise ModelError(
            f"the outcome '{target}' is among its own inputs", path=("model", "target"), code="self-reference"
        )
    kernel_of(spec, columns - {target})
    formula = mean_formula(spec, target)
    wanted: dict[str, set[str]] = {"mean": formula.predictor_columns() if formula else set()}
    wanted["errors"] = {spec.errors} if spec.errors else set()
    wanted["trials"] = {spec.trials} if isinstance(spec.trials, str) else set()
    for key, names in wanted.items():
        for name in sorted(names):
            if name not in columns:
                raise unknown_column(name, columns, ("model", key))


def _approximable(spec: GaussianProcess, kernel: Kernel) -> None:
    """Check that the model supports the approximation it names."""
    if spec.approximation is None:
        return

    reason = approximations.reason_against(spec, kernel)
    if reason is not None:
        raise ModelError(reason, path=("model", "approximation"), code="unsupported")
    for name in spec.domain or {}:
        if name not in kernel.columns:
            raise ModelError(
                f"the kernel has no column '{name}'{hint(name, kernel.columns)}",
                path=("model", "domain", name),
                code="unknown-column",
            )


def compile(model: Model, data: Data) -> GaussianProcessPosterior:
    """Bind the model to its data."""
    return GaussianProcessPosterior(model, data)
