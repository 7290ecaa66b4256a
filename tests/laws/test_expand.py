"""Short form, expanded form and PyMC graph have the same log density and gradient, or the form is refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayeslab as bl
from bayeslab import registry
from bayeslab.expanding import expanded
from bayeslab.preparation import bound
from tests.densities import Density, agree, agree_by_name
from tests.models.shipped import MODELS
from tests.refusals import refused

VARIANCES = {"level_variance": "_level_variance", "noise_variance": "_noise_variance"}
#: Parameters of the expansion from those of the short form.
TRIANGLE = {
    "squares": lambda given: given["_squares"], "last": lambda given: given["_last"][0],
    "below": lambda given: given["_below"],
}  # fmt: skip


def variance(given):
    return given["sd"] ** 2


def triangle(*columns: str) -> dict:
    """The parameters of covariance matrices, and of means, column by column."""
    pairs = [(a, b) for i, a in enumerate(columns) for b in columns[:i]]
    below = {f"below_{a}_{b}": lambda given, k=k: given["_below"][:, k] for k, (a, b) in enumerate(pairs)}
    means = {f"mean_{name}": lambda given, k=k: given["mean"][:, k] for k, name in enumerate(columns)}
    return {"diagonal": lambda given: given["_diagonal"], **below, **means}


BARTLETT = triangle("eruptions", "waiting")
#: Models that come with the package whose short form expands.
SHORT = (
    "absences", "airquality_path", "birth_weight", "braking", "crime", "diabetes", "gasoline", "housing", "insurance", "longley", "orange",
    "phones", "radon_formula", "sleep", "trees", "women_1", "women_2", "women_3",
)  # fmt: skip


#: And those whose short form samples in other coordinates: parameters agree by name.
NAMED: dict[str, dict] = {
    "coal_rates": {}, "coal_regimes": {}, "role_conflict": {}, "candy_hidden": {}, "heart_disease": {},
    "play_tennis": {}, "crime_factors": TRIANGLE, "ozone_regimes": {"variance": variance},
    "geyser_runs": {"variance": variance}, "meter": {"variance": variance}, "galaxies": {"variance": variance},
    "geyser_clusters": BARTLETT, "geyser_process": BARTLETT,
}  # fmt: skip
#: The same in the same coordinates, some under other names.
ALIKE: dict[str, dict[str, str]] = {
    "co2": {}, "orings": {"_f_z": "_z"}, "nile_level": VARIANCES,
    "timber_net": {
        f"{word}_{v}": f"_{word}_{v}" for v in ("log_height", "log_girth", "log_volume") for word in ("variance", "middle")
    },
}  # fmt: skip
#: Every table is given: there is nothing to fit, and the joint distribution is compared.
KNOWN = ("asia", "sprinkler")
#: Everything is given; its density is that of a forward pass.
FORWARD = ("umbrella",)
#: All that is unknown is discrete: there is no density; posterior and evidence are compared (tests of the family).
DISCRETE = ("candy_bags",)
#: What cannot be said, by code; and why.
REFUSED = {
    "geyser_number": ("model.unsupported", "a sampled number of components"),
    "shapes": ("model.unsupported", "no bound on the number of features"),
    "notes": ("model.unsupported", "documents as texts"),
    "oil": ("model.not-applicable", "an influence diagram"),
    **dict.fromkeys(
        ("asia_structure", "birth_weight_structure", "crime_structure", "pumps_hidden", "sachs"),
        ("model.structure-unknown", "the structure is what is looked for"),
    ),
}


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_model_file_and_its_expansion_have_the_same_density_by_name(name, tmp_path):
    path = tmp_path / f"{name}.yaml"
    path.write_text(expanded(MODELS / f"{name}.yaml").text(path))
    bl.check(path)
    agree_by_name(bl.to_pymc(MODELS / f"{name}.yaml"), bl.to_pymc(path), NAMED[name], constant=1e-9)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(ALIKE))
def test_a_model_file_and_its_expansion_have_the_same_density_under_other_names(name, tmp_path):
    path = tmp_path / f"{name}.yaml"
    path.write_text(expanded(MODELS / f"{name}.yaml").text(path))
    bl.check(path)
    agree(bl.to_pymc(MODELS / f"{name}.yaml"), bl.to_pymc(path), constant=1e-9, names=ALIKE[name])


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_model_file_that_cannot_be_said_is_refused(name):
    with refused(REFUSED[name][0], where=str(MODELS / f"{name}.yaml")):
        bl.expand(MODELS / f"{name}.yaml")


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", KNOWN)
def test_a_known_net_and_its_expansion_have_the_same_joint_distribution(name):
    file = MODELS / f"{name}.yaml"
    states = {v: list(one.states) for v, one in bl.load(file).model.variables.items()}
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({v: rng.choice(own, 30) for v, own in states.items()})
    whole = bl.expand(file, rows)
    possible = bl.network(file).query_many(rows)["log_evidence"]
    rows = rows[np.isfinite(possible)]
    assert len(rows) > 3
    assert float(bl.to_pymc(whole, rows).logp().eval()) == pytest.approx(
        possible[np.isfinite(possible)].sum(), rel=1e-9
    )


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", SHORT)
def test_a_model_file_and_its_expansion_have_the_same_density(name, tmp_path):
    path = tmp_path / f"{name}.yaml"
    path.write_text(expanded(MODELS / f"{name}.yaml").text(path))
    bl.check(path)
    agree(bl.to_pymc(MODELS / f"{name}.yaml"), bl.to_pymc(path), constant=1e-9)


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(("name", "method"), [("trees", "exact"), ("radon_formula", "exact"), ("phones", "nuts")])
def test_fits_of_both_forms_have_the_same_posterior(name, method):
    file = MODELS / f"{name}.yaml"
    data = bound(file).dataset
    short, whole = (bl.fit(m, data, seed=1, runs=None, progress=False) for m in (bl.load(file), bl.expand(file)))
    assert short.method == whole.method == method
    first, second = (fit.summary(["Intercept", "b", "sigma"]) for fit in (short, whole))
    # At least a thousand effective draws in each: six standard errors of a difference.
    assert list(first.index) == list(second.index)
    np.testing.assert_array_less(abs(first["mean"] - second["mean"]), 6 * first["sd"] * np.sqrt(2 / 1000))
    np.testing.assert_allclose(second["sd"], first["sd"], rtol=0.15)


def test_every_model_file_of_a_short_family_is_covered():
    families = {name for name in registry.names("families") if registry.part("families", name, "expand")}
    short = {path.stem for path in MODELS.glob("*.yaml") if bl.load(path).model.family in families}
    assert short == {*SHORT, *NAMED, *ALIKE, *REFUSED, *KNOWN, *FORWARD, *DISCRETE}


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
    "r2d2": {"formula": "y ~ x + z + k", "shrinkage": "r2d2", "priors": {"R2": "Beta(2, 4)"}},
    "r2d2 of categories": {"formula": "k ~ x + z", "likelihood": "categorical", "shrinkage": "r2d2"},
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
    "sigma": {"formula": {"mu": "y ~ x + (1 | g)", "sigma": "~ x * k + (1 | g)"}},
    "sigma by slopes of groups": {"formula": {"mu": "y ~ x + (1 + x | g)", "sigma": "~ (1 + z | g) + (0 + x | k)"}},
    "nu and sigma of crossed groups": {
        "formula": {"mu": "y ~ x + (1 | g:k)", "sigma": "~ z + offset(log(size))", "nu": "~ (1 | g:k)"},
        "likelihood": "student_t", "weights": "w",
    },
    "priors of sigma": {
        "formula": {"mu": "y ~ x", "sigma": "~ x + z + poly(size, 2)"},
        "priors": {"sigma": {"x": "Normal(0, s)", "z": 0.5, "b": "Laplace(0, 1)"}, "s": "HalfNormal(1)"},
    },
    "sigma without intercept": {
        "formula": {"mu": "y ~ gap", "sigma": "~ 0 + k"}, "missing": {"gap": "Normal(0, 1)"},
        "priors": {"sigma": {"b": "Normal(0, 1)"}},
    },
    "r2d2 of one slope, and sigma": {"formula": {"mu": "y ~ x", "sigma": "~ x"}, "shrinkage": "r2d2"},
    "horseshoe and sigma": {"formula": {"mu": "y ~ x + z", "sigma": "~ x"}, "shrinkage": "horseshoe"},
    "more zeros": {"formula": {"mu": "count ~ x", "psi": "~ z"}, "likelihood": "ZeroInflatedPoisson"},
    "sigma, censored": {"formula": {"mu": "y ~ x", "sigma": "~ x"}, "censored": "seen"},
}  # fmt: skip
QUICK = ("interaction", "yes or no", "levels of groups")
# PyMC's log of the normal distribution function has the root of two in 32 bits; the expansion has it in 64.
TOLERANCE = {"ordered, probit": 1e-6}


def both_agree(name: str) -> None:
    model = bl.Model(data={"rows": "row"}, model={"family": "regression"} | GENERATED[name])
    data = table()
    agree(bl.to_pymc(model, data), bl.to_pymc(bl.expand(model, data), data), rtol=TOLERANCE.get(name, 1e-9))


@pytest.mark.slow(why="compiles")
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
    with refused("model.not-applicable", "learner"):
        bl.expand(MODELS / "digits.yaml")


def test_new_rows_are_coded_as_those_of_the_fit():
    """Means, polynomials and splines keep what they learnt, so that predictions are those of the short form."""
    data = table()
    model = bl.Model(data={"rows": "row"}, model={"family": "regression", "formula": "y ~ bs(x, df=4) + poly(z, 2)"})
    new = data.iloc[:5].drop(columns="y")
    short, whole = (bl.fit(m, data, seed=1, runs=None, progress=False) for m in (model, bl.expand(model, data)))
    assert short.method == whole.method == "exact"
    np.testing.assert_allclose(whole.predict(new)["mean"], short.predict(new)["mean"], rtol=0.02, atol=0.05)


# -------------------------------------------------------------------------------------- mixtures, nets


MIXTURES: dict[str, dict] = {
    "one column": {"columns": ["x"]},
    "diagonal": {"columns": ["x", "z"], "covariance": "diagonal"},
    "spherical": {"columns": ["x", "z"], "covariance": "spherical", "components": 3},
    "priors": {"columns": ["x"], "priors": {"mean": "Normal(0, 2)", "sd": "HalfNormal(1)", "weights": "Dirichlet([1, 3])"}},
    "counts": {"columns": ["count"], "component": "poisson"},
    "waiting times": {"columns": ["size"], "component": "exponential"},
    "trials": {"columns": ["count"], "component": "binomial", "trials": "n"},
    "nine trials": {"columns": ["count"], "component": "binomial", "trials": 9},
    "categories": {"columns": ["k", "status"], "component": "categorical"},
    "several kinds": {"columns": ["x", "count", "k"], "component": {"x": "gaussian", "count": "poisson", "k": "categorical"}},
    "a distribution": {"columns": ["size"], "component": "Gamma", "priors": {"alpha": "Gamma(2, 1)"}},
    "a shape that is known": {"columns": ["size"], "component": "Weibull(alpha=2)"},
    "covariances": {"columns": ["x", "z", "y"]},
    "sticks": {"columns": ["x"], "components": "dirichlet_process", "most": 4},
    "sticks of two parameters": {
        "columns": ["count"], "component": "poisson", "components": "dirichlet_process", "most": 5, "discount": 0.3,
    },
    "chosen": {"columns": ["count"], "component": "poisson", "components": [1, 2]},
}  # fmt: skip


def mixture_agrees(name: str) -> None:
    model = bl.Model(data={"rows": "row"}, model={"family": "mixture", "components": 2} | MIXTURES[name])
    data = table().drop(columns=["gap"])
    maps = {
        **triangle("x", "z", "y"),
        "variance": variance,
        "gaussian_variance": lambda given: given["gaussian_sd"] ** 2,
    }
    agree_by_name(bl.to_pymc(model, data), bl.to_pymc(bl.expand(model, data), data), maps)


@pytest.mark.slow(why="statistical")
def test_a_mixture_and_its_expansion_have_the_same_density():
    mixture_agrees("counts")


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(MIXTURES.keys() - {"counts"}))
def test_any_mixture_and_its_expansion_have_the_same_density(name):
    mixture_agrees(name)


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"columns": ["x", "z"], "covariance": "tied"}, ""),
        ({"columns": ["x", "gap"], "covariance": "diagonal"}, "model.columns"),
        ({"columns": ["x"], "gating": ["z"]}, "model.gating"),
        ({"columns": ["x"], "labels": "known"}, "model.labels"),
        ({"regression": "y ~ x"}, "model.regression"),
        ({"columns": ["x"], "component": "student_t"}, ""),
        ({"columns": ["x"], "components": "sampled"}, "model.components"),
    ],
)
def test_mixtures_that_cannot_be_said_are_refused(spec, where):
    model = bl.Model(data={"rows": "row"}, model={"family": "mixture", "components": 2} | spec)
    with refused("model.unsupported", where=where or None):
        bl.expand(model, table().assign(known=np.where(np.arange(24) < 3, "1", "2")))


NETS: dict[str, dict] = {
    "learned": {"variables": {"k": ["a", "b", "c"], "status": {"states": ["no", "yes"], "parents": ["k"]}}},
    "same states": {
        "variables": {
            "status": ["no", "yes"], "other": {"states": ["no", "yes"], "parents": ["status"]},
            "third": {"states": ["no", "yes"], "parents": ["other", "status"]},
        }
    },
    "hidden": {
        "hidden": ["cause"],
        "variables": {
            "cause": ["one", "two"], "k": {"states": ["a", "b", "c"], "parents": ["cause"]},
            "status": {"states": ["no", "yes"], "parents": ["cause", "k"]},
        },
    },
    "numbers": {
        "variables": {
            "bit": [0, 1], "k": {"states": ["a", "b", "c"], "parents": ["bit"]},
        },
    },
    "numbers below what is hidden": {
        "variables": {
            "cause": ["one", "two"], "bit": {"states": [0, 1], "parents": ["cause"]},
            "k": {"states": ["a", "b", "c"], "parents": ["bit"]},
        },
    },
    "a table that is given": {
        "variables": {
            "k": {"states": ["a", "b", "c"], "table": [0.2, 0.3, 0.5]},
            "status": {"states": ["no", "yes"], "parents": ["k"], "table": {"a": 0.1, "b": 0.5, "c": 0.7}},
            "g": {"states": ["u", "v", "w"], "parents": ["status"]},
        },
        "prior": {"equivalent_sample_size": 6},
    },
    "gaps": {"variables": {"k": ["a", "b", "c"], "holes": {"states": ["no", "yes"], "parents": ["k"]}}},
}  # fmt: skip


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(NETS))
def test_a_net_and_its_expansion_have_the_same_density(name):
    k = np.arange(24)
    words = {"other": np.array(["no", "yes"])[k // 2 % 2], "third": np.array(["no", "yes"])[k // 3 % 2]}
    data = table().assign(**words, bit=k // 2 % 2)
    data["holes"] = data["other"].where(k != 5)
    model = bl.Model(data={"rows": "row"}, model={"family": "bayes_net"} | NETS[name])
    agree_by_name(bl.to_pymc(model, data), bl.to_pymc(bl.expand(model, data), data))


def test_nets_that_cannot_be_said_are_refused():
    leak = {"a": ["yes", "no"], "b": {"states": ["yes", "no"], "parents": ["a"], "noisy_or": {}}}
    model = bl.Model(data={"rows": "row"}, model={"family": "bayes_net", "variables": leak})
    with refused("model.unsupported", "noisy|unknown numbers", where="model.variables"):
        bl.expand(model, {"a": ["yes", "no"], "b": ["yes", "no"]})
    mixed = {"status": ["no", "yes"], "x": {"parents": ["status"], "linear_gaussian": {}}}
    model = bl.Model(data={"rows": "row"}, model={"family": "bayes_net", "variables": mixed})
    with refused("model.unsupported", "'x'", where="model.variables.x"):
        bl.expand(model, table())
    states = {"on": ["yes", "no"]}
    model = bl.Model(data={"rows": "row"}, model={"family": "bayes_net", "variables": states})
    with refused("model.unsupported", "'on'", where="model.variables.on"):
        bl.expand(model, {"on": [1, 0]})


# ----------------------------------------------------------------------------------- Gaussian processes

PROCESSES: dict[str, dict] = {
    "normal": {"kernel": "Matern52(x)"},
    "several columns": {"kernel": "ExpQuad(x, z) + Linear(x, center=1) + Constant(1.5)", "mean": "0"},
    "products and changes": {
        "kernel": "(0.5 * Matern32(x, ell) + Polynomial(z, 2)) * Periodic(x, 2) + ChangePoint(Matern12(x), Cosine(z), x)",
        "priors": {"ell": "Gamma(wide, 1)", "wide": "Gamma(2, 1)", "Periodic_lengthscale": 0.8},
    },
    "levels": {"kernel": "Coregion(k, 2) * RationalQuadratic(x, scale=1)"},
    "mean": {"kernel": "Matern52(x)", "mean": "1 + z + k"},
    "mean at zero": {"kernel": "Matern52(x)", "mean": "z", "priors": {"Intercept": "Normal(0, 1)", "b": "Normal(0, 2)"}},
    "no intercept": {"kernel": "Matern52(x)", "mean": "0 + z"},
    "errors and white noise": {
        "kernel": "Matern52(x) + White(w2) + 0.3 * White(1)", "errors": "size", "priors": {"w2": "HalfNormal(1)", "sigma2": "Gamma(2, 1)"},
    },
    "known": {"kernel": "ExpQuad(x, 1.5, 1)", "priors": {"sigma": 0.5}},
    "precision": {"kernel": "ExpQuad(x)", "priors": {"precision": "Gamma(2, 1)"}},
    "in time": {"kernel": "Matern52(x) + Matern12(x)", "approximation": "state_space"},
    "sines": {"kernel": "Matern52(x) + Linear(z) + Constant()", "approximation": "hsgp", "errors": "size"},
    "sines on a domain": {
        "kernel": "ExpQuad(x, z)", "approximation": "hsgp", "functions": 6, "domain": {"z": [-9, 9]}, "mean": "digit",
    },
    "yes or no": {"target": "status", "likelihood": "bernoulli", "kernel": "ExpQuad(x)"},
    "yes or no, probit": {"target": "status", "likelihood": "bernoulli", "link": "probit", "kernel": "Matern32(x)", "mean": "z"},
    "trials": {"target": "count", "likelihood": "binomial", "trials": "n", "kernel": "Matern32(x)"},
    "nine trials": {"target": "count", "likelihood": "binomial", "trials": 9, "link": "probit", "kernel": "Matern32(x)"},
    "counts": {"target": "count", "likelihood": "poisson", "kernel": "Matern32(x)", "mean": "0"},
    "overdispersed": {"target": "count", "likelihood": "negative_binomial", "kernel": "Matern32(x)"},
    "heavy tails": {"likelihood": "student_t", "kernel": "Matern32(x)", "priors": {"nu": 4}},
    "sines of counts": {"target": "count", "likelihood": "poisson", "kernel": "Matern52(x)", "approximation": "hsgp"},
}  # fmt: skip


def process_agrees(name: str) -> None:
    model = bl.Model(data={"rows": "row"}, model={"family": "gaussian_process", "target": "y"} | PROCESSES[name])
    short, whole = bl.to_pymc(model, table()), bl.to_pymc(bl.expand(model, table()), table())
    names = {"_f_z": "_z"} if "_z" in short.named_vars else {}
    # Without noise an ExpQuad covariance is regular only by its jitter of 1e-8: its condition, about 1e9, times the
    # rounding error of doubles is what slopes through its Cholesky factor can agree to.
    gradient_rtol = 2e-6 if name == "yes or no" else 1e-9
    agree(short, whole, constant=1e-9, names=names, gradient_rtol=gradient_rtol)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", ["normal"])
def test_a_gaussian_process_and_its_expansion_have_the_same_density(name):
    process_agrees(name)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(PROCESSES.keys() - {"normal"}))
def test_any_gaussian_process_and_its_expansion_have_the_same_density(name):
    process_agrees(name)


@pytest.mark.slow(why="compiles")
def test_rows_of_a_gaussian_process_without_an_outcome_are_left_out_of_both():
    data = table()
    data.loc[[3, 8], "y"] = np.nan
    model = bl.Model(data={"rows": "row"}, model={"family": "gaussian_process", "target": "y", "kernel": "Matern52(x)"})
    agree(bl.to_pymc(model, data), bl.to_pymc(bl.expand(model, data), data), constant=1e-9)


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"approximation": "sparse"}, "model.approximation"),
        ({"approximation": "fitc"}, "model.approximation"),
        ({"approximation": "state_space", "kernel": "ExpQuad(x)"}, "model.approximation"),
        ({"approximation": "laplace", "likelihood": "poisson", "target": "count"}, "model.approximation"),
        ({"jitter": 1e-6}, "model.jitter"),
        ({"kernel": "White() * Linear(x) + Matern52(x)"}, "model.kernel"),
        ({"kernel": "White() + Constant()"}, "model.kernel"),
        ({"kernel": "White() + Matern52(x)", "likelihood": "poisson", "target": "count"}, "model.kernel"),
        ({"likelihood": "poisson", "target": "gap"}, "model.target"),
    ],
)
def test_gaussian_processes_that_cannot_be_said_are_refused(spec, where):
    whole = {"family": "gaussian_process", "kernel": "Matern52(x)", "target": "y"} | spec
    data = table()
    data["gap"] = data["count"].where(data.index != 3)
    with refused("model.unsupported", where=where):
        bl.expand(bl.Model(data={"rows": "row"}, model=whole), data)


# -------------------------------------------------------------------------------------- latent features

FEATURES: dict[str, dict] = {
    "factors": {"columns": ["x", "y", "share", "count", "w"], "features": 2, "noise": "own"},
    "components": {"columns": ["x", "w", "y"], "features": 2, "priors": {"noise": "Gamma(2, 1)", "scale": "HalfNormal(2)"}},
    "no means": {"columns": ["x", "y", "share", "count"], "features": 1, "mean": "zero", "priors": {"noise": 0.7}},
    "binary": {"columns": ["x", "w", "y"], "features": 2, "kind": "binary"},
    "binary with means": {"columns": ["x", "w"], "features": 1, "kind": "binary", "mean": "own", "priors": {"probability": "Beta(1, 2)"}},
}  # fmt: skip


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(FEATURES))
def test_latent_features_and_their_expansion_have_the_same_density(name):
    model = bl.Model(data={"rows": "row"}, model={"family": "latent_features"} | FEATURES[name])
    data = table().drop(columns=["z", "size"])
    short, whole = bl.to_pymc(model, data), bl.to_pymc(bl.expand(model, data), data)
    agree_by_name(short, whole, TRIANGLE, constant=1e-9)


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"kind": "binary", "features": "ibp"}, "model.features"),
        ({"kind": "binary", "features": 13}, "model.features"),
        ({"columns": ["x", "y", "gap"], "features": 1}, "model.columns"),
    ],
)
def test_latent_features_that_cannot_be_said_are_refused(spec, where):
    model = {"family": "latent_features", "columns": ["x", "w", "y"]} | spec
    with refused("model.unsupported", where=where):
        bl.expand(bl.Model(data={"rows": "row"}, model=model), table().drop(columns="z"))


# ------------------------------------------------------------------------------------------------ topics

TOPICS: dict[str, dict] = {
    "tokens": {"topics": 3},
    "counts": {"topics": 2, "count": "n", "alpha": [0.5, 2], "beta": 0.3},
    "learned": {"topics": 3, "count": "n", "alpha": "learned", "beta": "learned"},
    "one topic": {"topics": 1},
}  # fmt: skip


def words_table(numbered: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    place = np.arange(40)
    whole = pd.DataFrame({"doc": place // 8, "w": rng.integers(0, 6, 40), "n": rng.integers(1, 4, 40)})
    whole = whole.drop_duplicates(["doc", "w"]).reset_index(drop=True)
    if numbered:
        return whole
    return whole.assign(doc="d" + whole["doc"].astype(str), w=np.array(list("abcdef"))[whole["w"]])


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(TOPICS))
def test_topics_written_out_have_the_density_of_latent_dirichlet_allocation(name):
    """The short form samples gamma variables, of which proportions are made: both are compared with the formula."""
    data = words_table(numbered=name == "counts")
    model = bl.Model(data={"rows": "row"}, model={"family": "topics", "document": "doc", "word": "w"} | TOPICS[name])
    built = bl.to_pymc(bl.expand(model, data), data)
    density = Density.of(built)
    document, word = (np.unique(data[c], return_inverse=True)[1] for c in ("doc", "w"))
    counts = data["n"] if "count" in TOPICS[name] else np.ones(len(data))
    for point in density.points(np.random.default_rng(3), 3):
        k = TOPICS[name]["topics"]
        alpha = point.get("alpha", np.broadcast_to(TOPICS[name].get("alpha", 1 / k), k))
        alpha, beta = (
            (alpha if "alpha" in point else np.asarray(alpha, float)),
            point.get("beta", TOPICS[name].get("beta", 0.05)),
        )
        theta = point.get("theta", np.ones((document.max() + 1, 1)))
        wanted = sum(stats.dirichlet.logpdf(row, np.full(len(row), float(beta))) for row in point["phi"])
        if k > 1:
            wanted += sum(stats.dirichlet.logpdf(row, alpha) for row in theta)
        if name == "learned":
            wanted += stats.gamma.logpdf(alpha, 1, scale=1 / 3).sum() + stats.gamma.logpdf(beta, 1, scale=0.1)
        wanted += float(np.sum(counts * np.log((theta @ point["phi"])[document, word])))
        assert density.at(point)[0] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"topics": "hdp"}, "model.topics"),
        ({"held_out": 0.2}, "model.held_out"),
        ({"stop_words": ["a"]}, "model.word"),
        ({"min_documents": 4}, "model.word"),
        ({"document": None, "word": None, "text": "w"}, "model.text"),
    ],
)
def test_topics_that_cannot_be_said_are_refused(spec, where):
    model = {"family": "topics", "topics": 2, "document": "doc", "word": "w"} | spec
    with refused("model.unsupported", where=where):
        bl.expand(bl.Model(data={"rows": "row"}, model=model), words_table())


# ----------------------------------------------------------------------------------- hidden Markov models

CHAINS: dict[str, dict] = {
    "normal": {"columns": ["x"]},
    "two columns": {"columns": ["x", "z"], "states": 3},
    "spherical": {"columns": ["x", "z"], "covariance": "spherical"},
    "stationary": {"columns": ["count"], "emission": "poisson", "initial": "stationary", "stickiness": 3},
    "sequences": {"columns": ["count"], "emission": "binomial", "trials": 9, "initial": "uniform", "sequence": "g"},
    "categories": {"columns": ["k"], "emission": "categorical", "states": ["one", "two"]},
    "known": {
        "columns": ["count"], "emission": "poisson", "transition": [[0.9, 0.1], [0.2, 0.8]], "initial": [0.5, 0.5],
    },
    "given means": {"columns": ["x"], "parameters": {"mean": [1.0, 3.0]}},
    "given priors": {"columns": ["x"], "parameters": {"mean": "Ordered(Normal(2, 1))", "sd": "HalfNormal(1)"}},
    "a distribution": {"columns": ["size"], "emission": "Gamma"},
    "gaps": {"columns": ["x", "gap"], "covariance": "diagonal", "sequence": "g"},
    "covariances": {"columns": ["x", "z", "y"], "covariance": "full"},
    "durations": {"columns": ["x"], "durations": 4},
    "Poisson durations": {"columns": ["count"], "emission": "poisson", "durations": {"longest": 5, "law": "poisson"}},
    "several chains": {"columns": ["x"], "states": None, "chains": {"on": 2, "how": ["a", "b", "c"]}, "sequence": "g"},
}  # fmt: skip


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(CHAINS))
def test_a_hidden_markov_model_and_its_expansion_have_the_same_density(name):
    spec = {"family": "hmm", "states": 2} | CHAINS[name]
    model = bl.Model(data={"rows": "row"}, model={key: value for key, value in spec.items() if value is not None})
    data = table()
    maps = {**triangle("x", "z", "y"), "variance": variance, "durations": lambda given: given["duration"]}
    agree_by_name(bl.to_pymc(model, data), bl.to_pymc(bl.expand(model, data), data), maps)


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"columns": ["x"], "states": 3, "durations": 4}, "model.durations"),
        ({"columns": ["x", "gap"], "states": 2, "covariance": "full"}, "model.columns"),
        (
            {
                "columns": ["x", "z"],
                "chains": {"a": 2, "b": 2},
                "coupling": "coupled",
                "emits": {"a": ["x"], "b": ["z"]},
            },
            "model.coupling",
        ),
        ({"columns": ["x", "z"], "chains": {"a": 2, "b": 2}}, "model.chains"),
    ],
)
def test_hidden_markov_models_that_cannot_be_said_are_refused(spec, where):
    with refused("model.unsupported", where=where):
        bl.expand(bl.Model(data={"rows": "row"}, model={"family": "hmm"} | spec), table())


LEVELS: dict[str, dict] = {
    "one level": {"columns": ["y"]},
    "gaps": {"columns": ["gap"]},
    "several levels": {"columns": ["y", "x", "gap"], "sequence": "g"},
}


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("name", sorted(LEVELS))
def test_levels_that_wander_and_their_expansion_have_the_same_density(name):
    model = bl.Model(data={"rows": "row"}, model={"family": "hmm", "states": "continuous"} | LEVELS[name])
    agree(bl.to_pymc(model, table()), bl.to_pymc(bl.expand(model, table()), table()), constant=1e-9, names=VARIANCES)


def test_continuous_states_that_cannot_be_said_are_refused():
    spec = {"family": "hmm", "states": "continuous", "columns": ["y", "x"]}
    for more, where in (({"dimension": 1}, "model.dimension"), ({"time": "place"}, "model.time")):
        with refused("model.unsupported", where=where):
            bl.expand(bl.Model(data={"rows": "row"}, model=spec | more), table().assign(place=2 * np.arange(24)))


def test_a_chain_that_is_known_has_the_density_of_a_forward_pass():
    """All numbers of the umbrella world are given; the sum over paths is written out here."""
    seen = pd.read_csv(MODELS / "data" / "umbrella.csv")["umbrella"]
    forward, total = np.array([0.58, 0.42]), 0.0
    for day, umbrella in enumerate(seen):
        forward = forward if day == 0 else np.array([[0.7, 0.3], [0.3, 0.7]]).T @ forward
        forward = forward * np.array([0.9, 0.2] if umbrella == "yes" else [0.1, 0.8])
        total += np.log(forward.sum())
        forward = forward / forward.sum()
    whole = bl.expand(MODELS / "umbrella.yaml")
    found = float(bl.to_pymc(whole, MODELS / "data" / "umbrella.csv").logp().eval())
    assert found == pytest.approx(total, rel=1e-12)
