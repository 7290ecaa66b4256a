"""Family ``gaussian_process``: a function of some columns, with a covariance instead of a formula.

``kernel`` says how alike the function's values at two rows are (:mod:`bayeslab.exact.covariance`), ``mean`` what it
varies about. With likelihood gaussian the function is integrated out: hyperparameters have a log marginal likelihood,
which with its gradient is one node of the graph and costs one Cholesky factor
(:mod:`bayeslab.exact.gaussian_process`). With other likelihoods the function at the rows is part of what is inferred,
as standard normals times the factor.

``Intercept``, ``b[predictor]``
    Coefficients of the mean.
``sigma`` (or ``sigma2``, ``precision``), ``nu``, ``alpha``
    What the likelihood needs besides.
Names of hyperparameters
    As the kernel has them: ``Matern52_lengthscale``, or the names written in it.

A prior that is a number fixes a parameter; where all are fixed the answer is exact.

References
----------
.. [1] Rasmussen, Williams (2006). Gaussian Processes for Machine Learning. MIT Press.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np
from pydantic import Field, model_validator

from bayeslab.dataset import Data
from bayeslab.errors import DataError, ModelError, hint
from bayeslab.exact.answer import Plan
from bayeslab.families._gp_model import (
    Resolved,
    columns_read,
    kernel_of,
    mean_formula,
    resolved,
    target_of,
)
from bayeslab.spec import Family, Identifier, Model

if TYPE_CHECKING:
    import pymc

__all__ = ["GaussianProcess", "Spec", "check", "exact", "factors", "graph", "network", "outcomes", "summed_out"]

type LikelihoodName = Literal["gaussian", "student_t", "bernoulli", "binomial", "poisson", "negative_binomial"]
_LINKED = {
    "bernoulli": ("logit", "probit"),
    "binomial": ("logit", "probit"),
    "poisson": ("log",),
    "negative_binomial": ("log",),
}


class GaussianProcess(Family):
    """A Gaussian process."""

    family: Literal["gaussian_process"] = "gaussian_process"
    target: Identifier | None = Field(None, description="The outcome; left out: the one column that is nothing else.")
    kernel: str = Field(description="The covariance function: `Matern52(x) + Periodic(x, 365) * Linear(t)`.")
    likelihood: LikelihoodName = Field("gaussian", description="Distribution of the outcome given the function.")
    link: Literal["identity", "log", "logit", "probit"] | None = Field(
        None, description="Link of the mean; default the likelihood's own."
    )
    mean: str = Field("1", description="What the function varies about: `0`, `1` (a constant), or a formula: `1 + t`.")
    errors: Identifier | None = Field(
        None, description="Column with known standard deviations of the outcome, besides the noise."
    )
    trials: int | Identifier | None = Field(None, description="Trials of a binomial outcome: a number, or a column.")
    priors: dict[str, str | int | float] = Field(
        default_factory=dict,
        description="Prior by parameter; a number fixes it. Names used in the kernel need one; further names are"
        " hyperparameters of priors.",
    )
    jitter: float | None = Field(
        None,
        ge=0,
        le=1e-2,
        description="Share of the mean variance added to the diagonal of the covariance; default 0 for gaussian"
        " outcomes and 1e-8 for others.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> GaussianProcess:
        if (self.likelihood == "binomial") != (self.trials is not None):
            raise ValueError("likelihood: binomial and `trials` go together")
        if self.errors is not None and self.likelihood != "gaussian":
            raise ValueError("known `errors` go with likelihood: gaussian")
        if self.link is not None and self.link not in _LINKED.get(self.likelihood, ("identity",)):
            shown = " or ".join(_LINKED.get(self.likelihood, ("identity",)))
            raise ValueError(f"{self.likelihood} has the link {shown}, not {self.link}")
        return self


Spec = GaussianProcess


def _spec(model: Model) -> GaussianProcess:
    assert isinstance(model.model, GaussianProcess)
    return model.model


# --------------------------------------------------------------------------------- the contract


def check(model: Model, columns: set[str] | None) -> None:
    """The kernel and the mean can be read, and the data have their columns."""
    spec = _spec(model)
    kernel_of(spec)
    mean_formula(spec, "y")
    if not columns:
        return
    target = target_of(spec, columns)
    kernel = kernel_of(spec, columns - {target})
    if target in columns_read(spec):
        raise ModelError(f"the outcome '{target}' is among its own inputs", path=("model", "target"))
    formula = mean_formula(spec, target)
    wanted = {"mean": formula.predictor_columns() if formula else set(), "errors": {spec.errors} - {None}}
    wanted["trials"] = {spec.trials} if isinstance(spec.trials, str) else set()
    for key, names in wanted.items():
        for name in sorted(str(n) for n in names):
            if name not in columns:
                raise ModelError(f"the data have no column '{name}'{hint(name, columns)}", path=("model", key))
    del kernel


def factors(model: Model) -> set[str]:
    """Columns of categories."""
    return set(kernel_of(_spec(model)).categorical) | set(model.dims)


def outcomes(model: Model, columns: set[str]) -> tuple[str, ...]:
    """The outcome."""
    return (target_of(_spec(model), columns),)


def summed_out(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing discrete."""
    return ()


def derived(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing depends on discrete latents."""
    return ()


def graph(
    model: Model,
    data: Data,
    *,
    purpose: Literal["fit", "predict", "simulate"] = "fit",
    targets: Collection[str] = (),
) -> pymc.Model:
    """The Gaussian process as a PyMC model.

    To fit: its hyperparameters, and one node with the log marginal likelihood, or for other than normal outcomes with
    the log likelihood of the function. To simulate: a node ``f`` for the function at the rows and one for the outcome.
    """
    from bayeslab.families import _gp_graph

    seen = resolved(model, data)
    if purpose != "fit":
        return _gp_graph.written_out(model, seen)
    _there(seen, data)
    if seen.gaussian:
        return _gp_graph.with_evidence(model, seen)
    return _gp_graph.with_function(model, seen, data)


def _there(seen: Resolved, data: Data) -> None:
    if seen.y is None:
        raise DataError(f"the data have no column '{seen.target}', the outcome{hint(seen.target, data.names())}")


def exact(model: Model, data: Data) -> Plan | str:
    """In closed form where every hyperparameter is fixed and the outcome normal."""
    return "hyperparameters are inferred"


def priors(model: Model, data: Data) -> dict[str, str]:
    """The prior of each parameter; those the file does not give are on the scale of the data."""
    seen = resolved(model, data)
    return dict(seen.nodes) | {name: f"{value:g} (fixed)" for name, value in seen.fixed.items()}


def remarks(model: Model, data: Data) -> tuple[tuple[str, str, float | None, str, str], ...]:
    """Rows without an outcome."""
    return resolved(model, data).remarks


def network(model: Model, data: Data) -> nx.DiGraph:
    """Hyperparameters, the function, and the outcome."""
    seen = resolved(model, data)
    out = nx.DiGraph(dims={seen.rows: seen.n} | {dim: len(labels) for dim, labels in seen.labels.items()})
    for name, text in seen.nodes.items():
        bare = name.partition("[")[0]
        out.add_node(bare, kind="random", text=text, dims=seen.dims[bare])
    out.add_node("f", kind="random", inner=True, text=f"GP({seen.kernel.text})", dims=(seen.rows,))
    for name in dict.fromkeys((*seen.kernel.columns, *columns_read(_spec(model)))):
        out.add_node(name, kind="data", dims=(seen.rows,))
        out.add_edge(name, "f")
    kind = "observed" if data.has(seen.target) else "random"
    out.add_node(seen.target, kind=kind, text=_spec(model).likelihood, dims=(seen.rows,))
    out.add_edge("f", seen.target)
    own = set(seen.kernel.names) | {"Intercept", "b"}
    for name in seen.dims:
        out.add_edge(name, "f" if name in own else seen.target)
    return out
