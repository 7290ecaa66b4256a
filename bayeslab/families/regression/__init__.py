"""Family ``regression``: linear, generalised linear and multilevel regression, from a formula, a likelihood and
priors.

A regression is a short form of a graph. The formula becomes a design matrix, and the model becomes nodes of the family
``graph`` on it:

``Intercept``, ``b[predictor]``
    Coefficients on the scale of the data. With a default or flat prior the intercept is that of
    centred predictors, ``Intercept_centred``, and ``Intercept`` is computed from it.
``sigma``, ``nu``, ``alpha``, ``phi``, ``shape``, ``cutpoints``
    Further parameters of the likelihood.
``u_g[g]``, ``sd_g`` (``u_g[g, g_effect]``, ``sd_g[g_effect]``, ``corr_g``)
    Group effects of a term ``(1 | g)`` (``(1 + x | g)``), their sds and correlations.

Names that begin with ``_`` are auxiliary variables (such as the standard normals of non-centred effects); summaries
leave them out.

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

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError, hint, listed
from bayeslab.families.regression.likelihoods import likelihood
from bayeslab.families.regression.posterior import RegressionPosterior
from bayeslab.families.regression.spec import Regression
from bayeslab.families.regression.writer import problem
from bayeslab.language.expressions import parse
from bayeslab.language.formula import parse_formula
from bayeslab.language.spec import Model

__all__ = ["Regression", "Spec", "check", "compile"]

Spec = Regression


def _spec(model: Model) -> Regression:
    assert isinstance(model.model, Regression)
    return model.model


def check(model: Model, columns: set[str] | None) -> None:
    """Check everything that can be checked without the values of the data."""
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
            raise problem(f"'{name}' is not a predictor of the formula", "missing", name, code="unknown-column")


def compile(model: Model, data: Data) -> RegressionPosterior:
    """Bind the model to its data."""
    return RegressionPosterior(model, data)
