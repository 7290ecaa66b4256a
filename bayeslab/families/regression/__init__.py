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
``nu_g``
    Degrees of freedom of Student t effects, ``(1 | gr(g, dist='student'))``; ``sd_g`` is their scale.
``b[s(x)]``, ``sd_s_x``, ``u_s_x[s_x_wave]``
    Straight part of a smooth ``s(x)``, and sd and coefficients of its bending part; with ``by=g`` for each level.
``b[mo(x)]``, ``simplex_mo_x[mo_x_step]``
    Slope of a monotonic effect ``mo(x)``, and the shares of its steps.
``sd_gp_x``, ``length_gp_x``
    Standard deviation and length of a Gaussian process ``gp(x)``; with ``by=g`` for each level.
``u_mm_g1_g2[group]``, ``sd_mm_g1_g2``
    Effects of groups of which a row has several, ``(1 | mm(g1, g2))``, and their sd.
``b[me(x, sd)]``, ``mean_me_x``, ``sd_me_x``, ``true_me_x[row]``
    Slope on the true values of a predictor measured with error ``me(x, sd)``, their mean and sd, and they themselves.
``u_icar_g[g]``, ``sd_icar_g``; ``rho_bym2_g``; ``alpha_car_g``
    Effects of areas that have neighbours, ``icar(W, g)``, their sd, and how much of it neighbours share.
``sigma_centred``, ``Intercept_sigma``, ``b_sigma[predictor_sigma]``, ``u_sigma_g[g]``, ``sd_sigma_g``
    The same of a further parameter that has a formula and so a value for each row. ``sigma_centred`` is sigma at
    average predictors; the others are on the scale of the link.
``a``, or ``Intercept_a``, ``b_a[predictor_a]``, ``u_a_g[g]``, ``sd_a_g``
    A parameter of a non-linear formula: the same for all rows, or with predictors and groups.
``corr_g_p[g_p_effect, g_p_effect_with]``
    Correlations of the effects of terms ``(1 | p | g)`` of several formulas.

Names that begin with ``_`` are auxiliary variables (such as the standard normals of non-centred effects); summaries
leave them out.

Default priors are weakly informative and scaled to the data: with s the sd of the response (1 on a
link scale), the centred intercept is Normal(centre, 2.5 s), a slope Normal(0, 2.5 s / sd(x)) and sigma
Exponential(1 / s) as in rstanarm [1]_ [2]_, group sds HalfStudentT(3, 2.5 s) as in brms [3]_, nu
Gamma(2, 0.1) [4]_, and alpha, phi and shape InverseGamma(0.4, 0.3), as brms has it for alpha.
A parameter with a formula has this prior at average predictors, and slopes Normal(0, 1 / sd(x)) under
the link log. The intercept of a parameter of a non-linear formula has no default prior; with s the sd of its prior,
slopes are Normal(0, s / sd(x)) and sds of groups HalfStudentT(3, s).

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
from bayeslab.families.regression.coefficients import problem
from bayeslab.families.regression.formulas import PREDICTED
from bayeslab.families.regression.likelihoods import likelihood
from bayeslab.families.regression.nonlinear import NonLinear
from bayeslab.families.regression.posterior import RegressionPosterior
from bayeslab.families.regression.spec import Regression
from bayeslab.language.expressions import parse
from bayeslab.language.spec import Model

__all__ = ["Regression", "Spec", "check", "compile"]

Spec = Regression


def _spec(model: Model) -> Regression:
    assert isinstance(model.model, Regression)
    return model.model


def check(model: Model, columns: set[str] | None) -> None:
    """Check everything that can be checked without the values of the data."""
    spec = _spec(model)
    formulas, chosen = spec.formulas, likelihood(spec.likelihood)
    formula = formulas.mean
    if spec.link and spec.link not in chosen.links:
        raise problem(
            f"{spec.likelihood} has the link {listed(chosen.links)}, not '{spec.link}'", "link", code="unknown-word"
        )
    if (formula.trials is not None) != chosen.counts_trials:
        raise ModelError(
            "a binomial response is written p(successes, trials), and only a binomial one"
            f" (or BetaBinomial, ZeroInflatedBinomial), not {spec.likelihood}",
            path=formulas.path(""),
            code="conflict",
        )
    _check_further(spec)
    _check_ids(spec)
    if spec.censored and (chosen.discrete or not chosen.response.tails):
        raise problem(
            f"responses of likelihood {spec.likelihood} cannot be censored; continuous ones can whose tails are known",
            "censored",
            code="unsupported",
        )
    texts = {("priors", *path): text for path, text in spec.placed_priors().items()}
    for path, text in (texts | {("missing", name): text for name, text in spec.missing.items()}).items():
        try:
            parse(text)
        except ModelError as error:
            raise ModelError(error.message, path=("model", *path), offset=error.offset, code=error.code) from None
    if columns is None:
        return
    known = columns | set(model.data.derive)
    for name in formulas.inner:
        if name in known:
            raise problem(
                f"'{name}' is a parameter of the formula of '{PREDICTED}' and a column of the data: call one of them"
                " something else",
                "formula",
                name,
                code="name-clash",
            )
    beside = {name for name in (spec.weights, spec.censored) if name}
    for parameter, each in formulas.all.items():
        for name in sorted(each.predictor_columns() | (set() if parameter else beside)):
            if name not in known:
                inner = () if parameter else formulas.inner
                other = f"; a parameter of this formula has a formula too, {name}: ~ 1" if inner else ""
                raise ModelError(
                    f"'{name}' is not a column of the data{hint(name, [*inner, *known])}{other}",
                    path=formulas.path(parameter),
                    code="unknown-column",
                )
        if formula.response in each.predictor_columns():
            raise ModelError(
                f"the response '{formula.response}' is among its own predictors",
                path=formulas.path(parameter),
                code="self-reference",
            )
    for term in formula.common.terms:
        special = next((factor for factor in term if factor.smooth is not None or factor.latent), None)
        if special is None:
            continue
        for name in sorted({name for factor in term for name in factor.names} & spec.missing.keys()):
            raise problem(
                f"'{name}' has a separate model and must enter the formula linearly, not in {special.text}",
                "missing",
                name,
                code="unsupported",
            )
    errors: dict[str, str] = {}
    for parameter, each in formulas.all.items():
        for factor in (factor for term in each.common.terms for factor in term if factor.measured):
            from bayeslab.language.term_reader import bound_arguments, shown  # loads formulae, and pandas with it

            name = shown(bound_arguments(factor.expression)["x"])
            if errors.setdefault(name, factor.text) != factor.text:
                raise ModelError(
                    f"{factor.text} and {errors[name]} have the same measurements with different errors",
                    path=formulas.path(parameter),
                    code="conflict",
                )
    if errors and spec.weights:
        first = next(iter(errors.values()))
        raise problem(
            f"weights would count the response of a row several times for one true value of {first}, and sigma"
            " could shrink to 0: repeat the rows instead",
            "weights",
            code="unsupported",
        )
    for name in sorted(formula.predictor_columns() & spec.missing.keys()) if formulas.inner else ():
        raise problem(
            f"'{name}' has a separate model and must enter the formula linearly, and the formula is not linear",
            "missing",
            name,
            code="unsupported",
        )
    for name in spec.missing:
        if name not in formula.predictor_columns():
            raise problem(f"'{name}' is not a predictor of the formula", "missing", name, code="unknown-column")


def _check_further(spec: Regression) -> None:
    """Check the formulas of further parameters, and that their priors are mappings."""
    chosen, further, inner = likelihood(spec.likelihood), spec.formulas.further, spec.formulas.inner
    for name, formula in further.items():
        path = ("formula", name)
        if name not in chosen.auxiliary and name not in inner:
            alike = "psi" if name in ("zi", "hu") and "psi" in chosen.auxiliary else ""
            mean = spec.formulas.mean
            can = [PREDICTED, *chosen.auxiliary]
            can += [name for name in mean.columns if name not in can] if isinstance(mean, NonLinear) else []
            raise problem(
                f"'{name}' is no parameter of {spec.likelihood} that a formula can predict"
                + (f", and the formula of '{PREDICTED}' does not use it" if inner else "")
                + (f"; 'psi' is, which is 1 - {name}" if alike else hint(name, can)),
                *path,
                code="unknown-parameter",
            )
        if name in chosen.fixed:
            raise problem(
                f"'{name}' is {chosen.fixed[name]:g} in the likelihood, and has a formula besides: leave out one",
                *path,
                code="conflict",
            )
        for word in sorted({"sigma2", "precision"} & spec.priors.keys()) if name == "sigma" else ():
            raise problem(
                f"'{word}' stands in place of 'sigma', which has a formula: leave out one",
                "priors",
                word,
                code="conflict",
            )
        if name in spec.priors and not isinstance(spec.priors[name], dict):
            raise problem(
                f"'{name}' has a formula, so that its priors are those of coefficients:"
                f" {name}: {{Intercept: ..., b: ...}}",
                "priors",
                name,
                code="conflict",
            )
        for column in sorted(formula.predictor_columns() & spec.missing.keys()):
            raise problem(
                f"'{column}' has a model of its own, and can be a predictor of '{PREDICTED}' only, not of '{name}'",
                *path,
                code="unsupported",
            )
    if inner:
        _check_nonlinear(spec)
    for name, entry in spec.priors.items():
        if isinstance(entry, dict) and name not in further:
            others = f"; those with a formula are {listed(further)}" if further else ""
            raise problem(
                f"a mapping of priors is for a parameter that has a formula, and '{name}' has none{others}: write one"
                f" prior, or formula: {{{PREDICTED}: ..., {name}: ~ x}}",
                "priors",
                name,
                code="conflict",
            )


def _check_ids(spec: Regression) -> None:
    """Check that group effects with an id share it with those of another formula, and of the same grouping factor."""
    formulas = spec.formulas
    terms = [(parameter, group) for parameter, each in formulas.all.items() for group in each.groups if group.id]
    for parameter, group in terms:
        alike = [(name, other) for name, other in terms if other.id == group.id and other is not group]
        factor = ":".join(group.factors)
        for _, other in alike:
            if other.factors != group.factors:
                raise ModelError(
                    f"effects with the id '{group.id}' are correlated, and belong to one grouping factor; given:"
                    f" '{factor}' and '{':'.join(other.factors)}'",
                    path=formulas.path(parameter),
                    code="conflict",
                )
        if not alike:
            others = {other.id for _, other in terms} - {group.id}
            raise ModelError(
                f"no other formula has effects with the id '{group.id}'"
                f"{hint(group.id, others) if others else ''}: effects that share an id are"
                f" correlated; without an id they are written ({group.effects.text} | {factor})",
                path=formulas.path(parameter),
                code="incomplete",
            )


def _check_nonlinear(spec: Regression) -> None:
    """Check a non-linear formula: what goes with it, and the priors of its parameters."""
    formulas, chosen = spec.formulas, likelihood(spec.likelihood)
    if chosen.levels == "categorical":
        raise problem(
            "a non-linear formula has one number for each row, and a categorical response needs one for each level:"
            " write the model as a graph",
            "formula",
            PREDICTED,
            code="unsupported",
        )
    if spec.shrinkage:
        raise problem("shrinkage is of slopes, and a non-linear formula has none", "shrinkage", code="not-applicable")
    for name in sorted(formulas.mean.predictor_columns() & chosen.auxiliary.keys()):
        raise problem(
            f"'{name}' is a parameter of {spec.likelihood}, and the formula of '{PREDICTED}' is of columns and other"
            " parameters: call it something else",
            "formula",
            PREDICTED,
            code="name-clash",
        )
    for name in formulas.inner:
        if formulas.further[name].common.intercept and "Intercept" not in spec.priors_of(name):
            raise problem(
                f"'{name}' has no unit that the data tell, and so its intercept no default prior: write"
                f" priors: {{{name}: {{Intercept: ...}}}}, such as Normal(mean, sd)",
                "formula",
                name,
                code="incomplete",
            )


def compile(model: Model, data: Data) -> RegressionPosterior:
    """Bind the model to its data."""
    return RegressionPosterior(model, data)
