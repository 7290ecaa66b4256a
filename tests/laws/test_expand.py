"""Short form, expanded form and PyMC graph have the same log density and gradient, or the form is refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayeslab as bl
from bayeslab.expanding import expanded
from tests.densities import agree
from tests.models.shipped import MODELS
from tests.refusals import refused

#: Models that come with the package whose short form expands.
SHORT = (
    "absences", "birth_weight", "crime", "diabetes", "gasoline", "housing", "insurance", "longley", "phones",
    "radon_formula", "sleep", "trees", "women_1", "women_2", "women_3",
)  # fmt: skip


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", SHORT)
def test_a_model_file_and_its_expansion_have_the_same_density(name, tmp_path):
    path = tmp_path / f"{name}.yaml"
    path.write_text(expanded(MODELS / f"{name}.yaml").text(path))
    bl.check(path)
    agree(bl.to_pymc(MODELS / f"{name}.yaml"), bl.to_pymc(path))


def test_every_model_file_of_a_short_family_is_covered():
    short = {path.stem for path in MODELS.glob("*.yaml") if bl.load(path).model.family == "regression"}
    assert short == set(SHORT)


# ------------------------------------------------------------------------------- generated regressions


def table(rows: int = 24) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    data = pd.DataFrame({name: rng.normal(2.0, 1.0, rows) for name in ("x", "z", "y")})
    k = np.arange(rows)
    data["k"], data["g"], data["n"] = np.array(["a", "b", "c"])[k % 3], np.array(["u", "v", "w"])[k // 8], 9
    data["digit"], data["count"], data["status"] = k % 4 + 1, rng.integers(0, 8, rows), np.array(["no", "yes"])[k % 2]
    data["share"], data["size"], data["w"] = (
        rng.uniform(0.1, 0.9, rows),
        rng.gamma(2, size=rows),
        rng.uniform(1, 3, rows),
    )
    data["seen"] = np.array(["none", "right", "left"])[rng.integers(3, size=rows)]
    data["gap"] = data["z"].where(~np.isin(k, (2, 11)))
    return data


GENERATED: dict[str, dict] = {
    "interaction": {"formula": "y ~ x * k"},
    "spline": {"formula": "y ~ bs(x, df=5) + z"},
    "polynomial": {"formula": "y ~ poly(x, 3) + poly(z, 2, raw=True)"},
    "scaled": {"formula": "y ~ scale(x) + center(z) + I(x ** 2)"},
    "contrasts": {"formula": "y ~ C(k, Sum) + C(digit)"},
    "levels": {"formula": "y ~ 0 + k:x + I(k == 'b')"},
    "log link": {"formula": "size ~ x", "likelihood": "gamma"},
    "t": {"formula": "log(size) ~ x", "likelihood": "student_t", "priors": {"nu": 4}},
    "yes or no": {"formula": "status ~ x", "likelihood": "bernoulli", "link": "probit"},
    "weighted yes or no": {"formula": "status ~ x", "likelihood": "bernoulli", "weights": "w"},
    "trials": {"formula": "p(count, n) ~ x", "likelihood": "binomial", "weights": "w"},
    "nine trials": {"formula": "p(count, 9) ~ x", "likelihood": "binomial", "link": "cloglog"},
    "offset": {"formula": "count ~ x + offset(log(size))", "likelihood": "poisson", "weights": "w"},
    "overdispersed": {"formula": "count ~ x", "likelihood": "negative_binomial", "weights": "w"},
    "shares": {"formula": "share ~ x", "likelihood": "beta", "weights": "w"},
    "weighted": {"formula": "y ~ x", "weights": "w"},
    "weighted t": {"formula": "y ~ x", "likelihood": "student_t", "weights": "w"},
    "weighted sizes": {"formula": "size ~ x", "likelihood": "gamma", "weights": "w"},
    "categories": {"formula": "k ~ x", "likelihood": "categorical"},
    "ordered numbers": {"formula": "digit ~ x", "likelihood": "ordered"},
    "ordered, probit": {"formula": "digit ~ x", "likelihood": "ordered", "link": "probit", "weights": "w"},
    "levels of groups": {"formula": "y ~ x + (1 | g)"},
    "slopes of groups": {"formula": "y ~ x + (1 + x | g)"},
    "apart": {"formula": "y ~ x + (1 + x || g) + (0 + z | k)"},
    "crossed": {"formula": "count ~ x + (1 | g:k)", "likelihood": "poisson"},
    "ridge": {"formula": "y ~ x + z", "shrinkage": "ridge"},
    "lasso": {"formula": "y ~ x + z + k", "shrinkage": "lasso", "priors": {"z": "Normal(0, 1)"}},
    "horseshoe": {"formula": "status ~ x + z", "likelihood": "bernoulli", "shrinkage": "horseshoe"},
    "priors": {
        "formula": "y ~ x + z",
        "priors": {"x": "Normal(1, s)", "z": "StudentT(3, 0, 1)", "s": "HalfNormal(1)", "sigma2": "InverseGamma(3, 3)"},
    },
    "fixed": {"formula": "y ~ x + z", "priors": {"x": 0.5, "sigma": 2}},
    "no slope": {"formula": "y ~ 1"},
    "missing": {"formula": "y ~ x + gap", "missing": {"gap": "Normal(m, 1)"}, "priors": {"m": "Normal(0, 1)"}},
    "a distribution": {"formula": "size ~ x + k", "likelihood": "Weibull"},
    "a quantile": {"formula": "y ~ x", "likelihood": "AsymmetricLaplace(q=0.9)"},
    "censored": {"formula": "y ~ x", "censored": "seen"},
}  # fmt: skip
QUICK = ("interaction", "yes or no", "levels of groups")
# PyMC's log of the normal distribution function has the root of two in 32 bits; the expansion has it in 64.
TOLERANCE = {"ordered, probit": 1e-6}


def both_agree(name: str) -> None:
    model = bl.Model(data={"rows": "row"}, model={"family": "regression"} | GENERATED[name])
    data = table()
    agree(bl.to_pymc(model, data), bl.to_pymc(bl.expand(model, data), data), rtol=TOLERANCE.get(name, 1e-9))


@pytest.mark.parametrize("name", QUICK)
def test_a_regression_and_its_expansion_have_the_same_density(name):
    both_agree(name)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(GENERATED.keys() - set(QUICK)))
def test_any_regression_and_its_expansion_have_the_same_density(name):
    both_agree(name)


def test_rows_that_a_regression_drops_cannot_be_said():
    model = bl.Model(model={"family": "regression", "formula": "y ~ gap"})
    with refused("model.unsupported", "2 of 24 rows", where="model.formula"):
        bl.expand(model, table())


def test_a_column_with_the_name_of_a_part_is_refused():
    model = bl.Model(model={"family": "regression", "formula": "y ~ x"})
    with refused("model.name-clash", "'sigma'"):
        bl.expand(model, table().assign(sigma=1.0))


def test_the_language_itself_and_what_is_no_short_form_are_refused():
    with refused("model.not-applicable", where=f"{MODELS / 'radon.yaml'}:12"):
        bl.expand(MODELS / "radon.yaml")
    with refused("model.not-applicable", "topics"):
        bl.expand(MODELS / "notes.yaml")


def test_new_rows_are_coded_as_those_of_the_fit():
    """Means, polynomials and splines keep what they learnt, so that predictions are those of the short form."""
    data = table()
    model = bl.Model(data={"rows": "row"}, model={"family": "regression", "formula": "y ~ bs(x, df=4) + poly(z, 2)"})
    new = data.iloc[:5].drop(columns="y")
    short, whole = (bl.fit(m, data, seed=1, runs=None, progress=False) for m in (model, bl.expand(model, data)))
    assert short.method == whole.method == "exact"
    np.testing.assert_allclose(whole.predict(new)["mean"], short.predict(new)["mean"], rtol=0.02, atol=0.05)
