"""Family ``regression``: a formula, a likelihood, priors; linear, generalised, and with group effects.

A regression is a graph that need not be written out. The formula becomes a design matrix, and the
model becomes nodes of the family ``graph`` on it:

``Intercept``, ``b[predictor]``
    Coefficients on the scale of the data. With a default or flat prior the intercept is that of
    centred predictors, ``Intercept_centred``, and ``Intercept`` is computed from it.
``sigma``, ``nu``, ``alpha``, ``phi``, ``shape``, ``cutpoints``
    What the likelihood needs besides.
``u_g[g]``, ``sd_g`` (``u_g[g, g_effect]``, ``sd_g[g_effect]``, ``corr_g``)
    Group effects of a term ``(1 | g)`` (``(1 + x | g)``), their sds and correlations.

Names that begin with ``_`` are the model's inner workings (standard normals that effects are made
of); summaries leave them out.

Default priors are weakly informative and scaled to the data: with s the sd of the response (1 on a
link scale), the centred intercept is Normal(centre, 2.5 s), a slope Normal(0, 2.5 s / sd(x)) and sigma
Exponential(1 / s) as in rstanarm [1]_ [2]_, group sds HalfStudentT(3, 2.5 s) as in brms [3]_, nu
Gamma(2, 0.1) [4]_, and alpha, phi and shape InverseGamma(0.4, 0.3), as brms has it for alpha.

References
----------
.. [1] Gabry, Goodrich. Prior distributions for rstanarm models. mc-stan.org/rstanarm.
.. [2] Gelman, Jakulin, Pittau, Su (2008). A weakly informative default prior distribution for logistic
   and other regression models. Annals of Applied Statistics 2.
.. [3] Bürkner (2017). brms: an R package for Bayesian multilevel models using Stan. JSS 80.
.. [4] Juárez, Steel (2010). Model-based clustering of non-Gaussian panel data. JBES 28.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal

import networkx as nx
import numpy as np

from bayeslab.data.bound import Data
from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.errors import DataError, ModelError, hint, listed
from bayeslab.families import DENSITY, LEFT, PROBABILITY, RIGHT
from bayeslab.families import graph as graphs
from bayeslab.families.regression import arrays
from bayeslab.families.regression.arrays import replications
from bayeslab.families.regression.exact_inference import plan
from bayeslab.families.regression.likelihoods import likelihood
from bayeslab.families.regression.lowered import Remark
from bayeslab.families.regression.lowering import lower, written_places
from bayeslab.families.regression.pymc_graph import with_rows_summed, with_weights
from bayeslab.families.regression.rows import without_response
from bayeslab.families.regression.spec import Regression
from bayeslab.families.regression.writer import problem
from bayeslab.language.expressions import parse
from bayeslab.language.formula import parse_formula
from bayeslab.language.nodes import call_name
from bayeslab.language.spec import Model

if TYPE_CHECKING:
    import pymc

    from bayeslab.exact.answer import Plan

__all__ = [
    "Regression",
    "Spec",
    "check",
    "exact",
    "factors",
    "graph",
    "lower",
    "network",
    "outcomes",
    "priors",
    "summed_out",
]

Spec = Regression


def _spec(model: Model) -> Regression:
    assert isinstance(model.model, Regression)
    return model.model


def check(model: Model, columns: set[str] | None) -> None:
    """Everything that can be found wrong without the data's values."""
    spec = _spec(model)
    formula = parse_formula(spec.formula)
    chosen = likelihood(spec.likelihood)
    if spec.link and spec.link not in chosen.links:
        raise problem(
            f"{spec.likelihood} has the link {listed(chosen.links)}, not '{spec.link}'", "link", code="unknown-word"
        )
    if (formula.trials is not None) != chosen.counts_trials:
        raise problem(
            "a binomial response is written p(successes, trials), and only a binomial one"
            f" (or BetaBinomial, ZeroInflatedBinomial), not {spec.likelihood}",
            "formula",
            code="conflict",
        )
    if spec.censored and (chosen.discrete or not chosen.response.tails):
        raise problem(
            f"a {spec.likelihood} response cannot be censored; continuous ones can whose tails are known",
            "censored",
            code="unsupported",
        )
    for name, text in (spec.priors | spec.missing).items():
        place = "priors" if name in spec.priors else "missing"
        try:
            parse(str(text))
        except ModelError as error:
            raise ModelError(error.message, path=("model", place, name), offset=error.offset, code=error.code) from None
    if columns is None:
        return
    known = columns | set(model.data.derive)
    for name in sorted(formula.predictor_columns() | {name for name in (spec.weights, spec.censored) if name}):
        if name not in known:
            raise problem(f"'{name}' is not a column of the data{hint(name, known)}", "formula", code="unknown-column")
    if formula.response in formula.predictor_columns():
        raise problem(
            f"the response '{formula.response}' is among its own predictors", "formula", code="self-reference"
        )
    for name in spec.missing:
        if name not in formula.predictor_columns():
            raise problem(f"'{name}' is no predictor of the formula", "missing", name, code="unknown-column")


def factors(model: Model) -> set[str]:
    """Grouping factors, and dimensions the model declares."""
    formula = parse_formula(_spec(model).formula)
    return {name for group in formula.groups for name in group.factors} | set(model.dims)


def outcomes(model: Model, columns: set[str]) -> tuple[str, ...]:
    """The response."""
    return (parse_formula(_spec(model).formula).outcome,)


def summed_out(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing: a regression has no discrete latents."""
    return ()


def derived(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing depends on discrete latents."""
    return ()


def network(model: Model, data: Data) -> nx.DiGraph:
    """The nodes of the graph the regression stands for."""
    lowered = lower(model, data)
    return graphs.network(lowered.model, lowered.data)


def bound(model: Model, data: Data) -> Data:
    """The data as the graph has them: complete rows, the response, the design matrix."""
    return lower(model, data).data


def graph(
    model: Model,
    data: Data,
    *,
    purpose: Literal["fit", "predict", "simulate"] = "fit",
    targets: Collection[str] = (),
) -> pymc.Model:
    """The regression as a PyMC graph.

    To fit a Gaussian regression, the rows enter through their sufficient statistics, in the
    potential ``<response>_rows``: the cost of a draw does not depend on their number.
    """
    lowered = lower(model, data)
    if purpose == "fit" and lowered.y is None:
        raise DataError(without_response(lowered.formula, data), path=("model", "formula"), code="unknown-column")
    with written_places(lowered.spec, lowered.nodes):
        if purpose == "fit" and lowered.summable:
            return with_rows_summed(lowered)
        built = graphs.graph(lowered.model, lowered.data, purpose=purpose, targets=targets)
    return with_weights(lowered, built) if purpose == "fit" and lowered.weights is not None else built


def exact(model: Model, data: Data) -> Plan | str:
    """Gaussian regressions whose coefficients are normal given at most two scales."""
    return plan(lower(model, data))


def predictive(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]] | None:
    """Replications of the response at each draw, on arrays; None where only the graph can."""
    return replications(lower(model, data), draws, rng)


def probabilities(model: Model, seen: Data, new: Data, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Probability of each level for every new row, averaged over the posterior."""
    return arrays.probabilities(lower(model, new), draws)


def pointwise(model: Model, data: Data) -> pymc.Model:
    """The graph with a likelihood term for each row, weights left out."""
    lowered = lower(model, data)
    return graphs.graph(lowered.model, lowered.data)


def log_likelihoods(
    model: Model, data: Data, draws: Mapping[str, np.ndarray]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]] | None:
    """Log likelihood of each row at each draw, on arrays; None where only the graph can."""
    return arrays.log_likelihoods(lower(model, data), draws)


def events(model: Model, data: Data) -> dict[str, np.ndarray]:
    """What the likelihood of each response is: a density, a probability, or that of a tail where it is censored."""
    lowered = lower(model, data)
    if lowered.y is None:
        return {}
    out = np.full(len(lowered.y), PROBABILITY if lowered.likelihood.discrete else DENSITY)
    for atom in lowered.likelihood.declaration.atoms:
        out[lowered.y == float(atom)] = PROBABILITY
    if lowered.limits is not None:
        out[np.isfinite(lowered.limits[0])], out[np.isfinite(lowered.limits[1])] = LEFT, RIGHT
    return {lowered.formula.outcome: out}


def row_weights(model: Model, data: Data) -> dict[str, np.ndarray]:
    """What the log likelihood of each row is multiplied by, where the model says so."""
    lowered = lower(model, data)
    return {} if lowered.weights is None else {lowered.formula.outcome: lowered.weights}


def remarks(model: Model, data: Data) -> tuple[Remark, ...]:
    """What the user should know about the data: rows dropped, columns that add nothing, separation."""
    lowered = lower(model, data)
    if lowered.y is None:
        message = without_response(lowered.formula, data)
        return (("response", lowered.formula.outcome, None, message, "only simulation does without"), *lowered.remarks)
    return lowered.remarks


def priors(model: Model, data: Data) -> dict[str, str]:
    """The prior of each parameter, with the numbers the data gave the defaults."""
    lowered = lower(model, data)
    out: dict[str, str] = {}
    for node, text in lowered.nodes.items():
        name = node.split("[")[0]
        if name.startswith("_chol_"):
            group = name.removeprefix("_chol_")
            out[f"sd_{group}, corr_{group}"] = text
        elif call_name(parse(text).tree) in {*DISTRIBUTIONS, "Ordered"} and not name.startswith("_"):
            out[node] = text
    slopes = {f"b[{name}]": text for name, text in zip(lowered.design.names, lowered.slopes, strict=True)}
    if lowered.spec.shrinkage == "horseshoe":
        slopes = {"b": "horseshoe of scale tau, slab InverseGamma(2, 8)"}
    own = {"b", lowered.formula.outcome}
    out = {node: text for node, text in out.items() if node.split("[")[0] not in own}
    first = {node: text for node, text in out.items() if node.startswith(("Intercept", "cutpoints"))}
    return first | slopes | out


def size(model: Model, data: Data) -> int:
    """Numbers in one draw."""
    lowered = lower(model, data)
    return graphs.size(lowered.model, lowered.data)
