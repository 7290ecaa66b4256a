"""Formulas: what they may say, what they mean, and that nothing of them is ever run."""

from __future__ import annotations

import builtins
import os
import resource
import subprocess
import sys
import time
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from formulae import environment, expr
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import bayeslab as bl
from bayeslab.families.regression.lowering import lower
from bayeslab.fitting import check
from bayeslab.language.formula import parse_formula
from tests.refusals import refused

ALLOWED = {
    "log", "log1p", "log2", "log10", "exp", "expm1", "sqrt", "abs", "sin", "cos", "tanh", "minimum", "maximum",
    "I", "C", "S", "T", "Sum", "Treatment", "center", "scale", "standardize", "poly", "bs", "offset",
}  # fmt: skip
# The reported hole: formulae ended a text at either quote, and looked names up in the calling module.
EXPLOIT = """I(x * ('A" != contextlib.os.system["q"]("touch pwned")) + 0*("B' == 1))"""


def table(n: int = 24) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "y": rng.normal(size=n),
            "x": rng.normal(size=n),
            "z": rng.normal(size=n),
            "k": np.arange(n) % 3,
            "g": np.array(["a", "b", "c", "d"])[np.arange(n) % 4],
            "a b": rng.normal(size=n),
        }
    )


def regression(formula: str, **more) -> bl.Model:
    return bl.Model(model={"family": "regression", "formula": formula} | more)


def design(formula: str, data: pd.DataFrame | None = None):
    model = regression(formula)
    return lower(model, check(model, table() if data is None else data)).design


# ---------------------------------------------------------------------------------------------- hostile formulas

FRAGMENTS = [
    "x", "z", "g", "k", "`a b`", "_x", "log", "I", "C", "bs", "poly", "offset", "center", "Treatment", "Sum", "scale",
    "contextlib", "contextlib.os.system", "np", "io", "Data", "__import__", "__builtins__", "().__class__",
    "log.__globals__", "log.__class__", ".at", ".", "eval", "exec", "open", "system", "TRANSFORMS", "Environment",
    '["q"]', "['q']", "[x]", "[0]", "[", "]", "(", ")", "(", ")", "{", "}", "'", '"', "`", "'a'", '"b"',
    "'A\" != ", "(\"B'", '"""', "\\", "\\'", "#", "# comment", "\n", "\t", " ", ";", ":", ",", "=", "==", "!=", "<",
    "+", "-", "*", "/", "//", "**", "%", "|", "||", "~", "@", "!", "&", "^", "0", "1", "2", "3.5", "1e400", ".5", "²",
    "ｌｏｇ", "ⅼog", "lоg", "ℓ", "“q”", "＂", "｀", "．", "（", "\u200b", "\u202e", "\0", "é", "e\u0301",
    "True", "None", "lambda", "f'{x}'", "(1 | g)", "(x || g)", "df=4", "degree=22", "raw=True", "x=", "=x",
    "log(x)", "I(x ** 2)", "I(g == 'a')", "C(k)", "poly(x, 2)", "bs(x, df=4)", "C(g, Treatment('b'))",
    "C(k, levels=[0, 1, 2])", "levels=", "levels=[", "['a', 'b']",
]  # fmt: skip


def calls(tree: object) -> list[expr.Call]:
    """Every call in a tree, found without knowing its kinds of nodes."""
    if isinstance(tree, list | tuple):
        return [call for part in tree for call in calls(part)]
    if type(tree).__module__ != expr.__name__:
        return []
    inner = [call for part in vars(tree).values() for call in calls(part)]
    return [tree, *inner] if isinstance(tree, expr.Call) else inner


def nothing(*_arguments, **_options):
    raise AssertionError("called from a formula")


def literal(text: str, *_names: object) -> object:
    """What formulae's scanner has eval for."""
    return {"True": True, "False": False, "None": None}[text]


def harmless(formula: str) -> bool:
    """Whether a formula is accepted; that it calls nothing but what is allowed is asserted."""
    with (
        mock.patch.object(os, "system", nothing),
        mock.patch.object(subprocess, "Popen", nothing),
        mock.patch.object(builtins, "eval", literal),
        mock.patch.object(builtins, "exec", nothing),
        mock.patch.object(builtins, "breakpoint", nothing),
        mock.patch.object(environment.VarLookupDict, "__getitem__", nothing),
    ):
        try:
            read = parse_formula(formula)
            for terms in (read.common, *(group.effects for group in read.groups)):
                for call in calls([[factor.expression for factor in term] for term in terms.terms]):
                    assert isinstance(call.callee, expr.Variable) and call.callee.level is None
                    assert call.callee.name.lexeme in ALLOWED
            design(formula, table(8))
        except bl.BayeslabError as error:
            assert "\n" not in str(error)
            return False
    return True


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """What is imported at the first formula needs exec, and may set the limit of recursion."""
    design("exp(y) ~ x + bs(x, df=4) + poly(x, 2) + C(g, Sum) + I(x ** 2) + (x | g)")
    design("y ~ x", table(8))


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=10))
@example([EXPLOIT])
@example(["C(contextlib)"])
@example(["I(x == contextlib.os.system('touch pwned'))"])
@example(["bs(x, df=contextlib.os.system('touch pwned'))"])
@example(["C(g, contextlib.os.system)"])
@example(["(I(contextlib.os.system('touch pwned')) | g)"])
@example(["(1 | contextlib.os.system('touch pwned'))"])
def test_hostile_formulas_call_nothing(parts):
    harmless("y ~ " + "".join(parts))


@pytest.mark.slow(why="large")
@settings(max_examples=5_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=25))
def test_more_hostile_formulas_call_nothing(parts):
    harmless("y ~ " + "".join(parts))


@pytest.mark.slow(why="statistical")
@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(["x", "z", "log(abs(x))", "I(x ** 2)", "C(k)", "g", "`a b`"]), min_size=1, max_size=3))
def test_harmless_formulas_are_accepted(parts):
    """That the whitelist above is not passed by refusing everything."""
    assert harmless("y ~ " + " + ".join(parts))


@pytest.mark.parametrize(
    "model",
    [
        {"family": "regression", "formula": f"y ~ {EXPLOIT}"},
        {"family": "regression", "formula": f"y ~ x + ({EXPLOIT} | g)"},
        {"family": "regression", "formula": f"{EXPLOIT} ~ x"},
        {"family": "gaussian_process", "target": "y", "kernel": "ExpQuad(x)", "mean": EXPLOIT},
        {"family": "mixture", "components": 2, "columns": [], "regression": f"y ~ {EXPLOIT}"},
    ],
    ids=["formula", "effects", "response", "mean", "mixture"],
)
def test_no_family_runs_a_formula(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(bl.BayeslabError) as caught:
        check(bl.Model(model=model), table())
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "pwned").exists()


def test_a_strangers_run_folder_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fit = bl.fit(regression("y ~ x"), table(), runs=tmp_path / "runs", progress=False)
    changed = 0
    for path in fit.folder.rglob("*.*"):
        if path.suffix in (".yaml", ".json") and "y ~ x" in path.read_text():
            hostile = EXPLOIT.replace('"', '\\"') if path.suffix == ".json" else "|-\n    y ~ " + EXPLOIT
            whole = f"y ~ {hostile}" if path.suffix == ".json" else hostile
            path.write_text(path.read_text().replace("y ~ x", whole))
            changed += 1
    assert changed
    with pytest.raises(bl.BayeslabError):
        bl.open(fit.folder).predict(table())
    assert not (tmp_path / "pwned").exists()


# ------------------------------------------------------------------------------------------------------- bounds


LARGE = [
    ("y ~ bs(x, df=30, degree=22)", "model.wrong-arguments", "degree.*22"),
    ("y ~ bs(x, df=100000000)", "model.wrong-arguments", "df.*100000000"),
    ("y ~ bs(x, knots=z)", "model.wrong-arguments", "'knots'.*df"),
    ("y ~ bs(x, df=2)", "model.wrong-arguments", "3.*df=3"),
    ("y ~ poly(x, 0)", "model.wrong-arguments", r"poly\(\).*degree.*\b0$"),
    ("y ~ poly(x, 10000)", "model.wrong-arguments", r"poly\(\).*degree.*10000"),
    ("y ~ poly(k, 3)", "data.too-few", r"poly\(\).*3"),
    ("y ~ " + "*".join(f"x{i}" for i in range(12)), "model.too-deep", "interaction.*8"),
    ("y ~ (" + "+".join(f"x{i}" for i in range(16)) + ") ** 15", "model.too-deep", "500 terms"),
    ("y ~ (x + z) ** 10000000000", "", ""),
    ("y ~ (x" + " + x" * 20 + ")" + " * (x + z)" * 60, "", ""),
    ("y ~ " + "(" * 500 + "x" + ")" * 500, "model.too-deep", "brackets|levels"),
    ("y ~ I(" + "-" * 1500 + "x)", "model.too-deep", "nested|levels"),
    ("y ~ I(" + "x+" * 900 + "x)", "model.too-deep", "nested|levels"),
    ("y ~ C(wide):C(wide2)", "model.too-costly", "5,000"),
    ("y ~ (C(wide):C(wide2) | g)", "model.too-costly", "5,000"),
]


@pytest.mark.parametrize(("formula", "code", "match"), LARGE, ids=range(len(LARGE)))
def test_large_formulas_are_refused_before_work(formula, code, match):
    data = table(3000)
    data["wide"], data["wide2"] = np.arange(3000), np.arange(3000)[::-1]
    for i in range(16):
        data[f"x{i}"] = data["x"]
    design("y ~ x", data)  # what is imported at the first formula is not counted
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if not code:  # large only as written
        assert len(design(formula, data).names) <= 3
    else:
        with refused(code, match):
            design(formula, data)
    assert time.process_time() - start < 1.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000 * (
        1 if sys.platform == "linux" else 1024
    )


# ------------------------------------------------------------------------------------------------------ meaning


def test_terms_are_those_of_wilkinson_and_rogers():
    names = {
        "x*z": ["x", "z", "x:z"],
        "(x + z + w) ** 2": ["x", "z", "w", "x:z", "x:w", "z:w"],
        "(x + z + w) ** 2 - x:w": ["x", "z", "w", "x:z", "z:w"],
        "x / z": ["x", "x:z"],
        "(x + z) / w": ["x", "z", "x:z:w"],
        "x / (z + w)": ["x", "x:z", "x:w"],
        "x:z + z:x": ["x:z"],
        "x:x": ["x"],
        "x - x": [],
        "{x + 1}": ["I(x + 1)"],
        "(1 | g) + x": ["x"],
        "x + (z || g) - 1": ["x"],
    }
    for text, want in names.items():
        terms = parse_formula(f"y ~ {text}").common.terms
        assert [":".join(factor.text for factor in term) for term in terms] == want, text
    assert not parse_formula("y ~ x + (z || g) - 1").common.intercept
    assert parse_formula("y ~ 0 + x + 1").common.intercept


def test_arithmetic_is_that_of_numpy_in_floats():
    data = table()
    data["big"] = np.full(len(data), 2**40)
    x, z, k = (data[name].to_numpy(float) for name in ("x", "z", "k"))
    want = {
        "I((x + z) * k)": (x + z) * k,
        "I(x + z * k)": x + z * k,
        "I(x - (z - k))": x - (z - k),
        "I((x > 0) + (z > 0))": (x > 0) * 1.0 + (z > 0),
        "I(big * big)": np.full(len(data), 2.0**80),
        "I(-x ** 2)": -(x**2),
        "I(k ** 50)": k**50.0,
        "I(g == 'b')": (data["g"] == "b") * 1.0,
        "I(g != 'b')": (data["g"] != "b") * 1.0,
        "I(1900 < x + 1901)": (x + 1901 > 1900) * 1.0,
        "maximum(x, 0)": np.maximum(x, 0),
        "center(x)": x - x.mean(),
        "I(log(`a b` ** 2))": np.log(data["a b"].to_numpy() ** 2),
    }
    for text, values in want.items():
        np.testing.assert_allclose(design(f"y ~ {text}", data).matrix[:, 0], values, rtol=1e-14, err_msg=text)
    both = design("y ~ I((x + z) * k) + I(x + z * k)", data)
    assert both.names == ["I((x + z) * k)", "I(x + z * k)"]


def test_factors_keep_their_levels():
    found = design("y ~ C(k) + C(g, Treatment('b')) + S(k) + C(g, Sum)")
    assert found.names == [
        "C(k)[1]", "C(k)[2]", "C(g, Treatment('b'))[a]", "C(g, Treatment('b'))[c]", "C(g, Treatment('b'))[d]",
        "S(k)[0]", "S(k)[1]", "C(g, Sum)[a]", "C(g, Sum)[b]", "C(g, Sum)[c]",
    ]  # fmt: skip


REFUSED = [
    ("y ~ x z", "model.syntax", r"^model\.formula.*'z'"),  # formulae reads the first term and stops
    ("y ~ x x", "model.syntax", r"^model\.formula.*'x'"),
    ("y ~ I(g == 'bb')", "data.unknown-level", "'bb'.*'g'.*'b'"),
    ("y ~ I(k == 'b')", "data.not-states", "'k'.*'b'"),
    ("y ~ C(g, Treatment('e'))", "data.unknown-level", "'e'.*'g'"),
    ("y ~ log(g)", "data.not-numbers", "text.*'g'"),
    ("y ~ I(5)", "model.misplaced", r"^model\.formula.*'I\(5\)'"),
    ("y ~ log(x, z)", "model.wrong-arguments", r"^model\.formula.*log\(\).*1"),
    ("y ~ log(x, base=2)", "model.unknown-option", r"^model\.formula.*'base'"),
    ("y ~ minimum(x)", "model.wrong-arguments", r"^model\.formula.*minimum\(\).*'y'"),
    ("y ~ bs(x, deg=2, df=4)", "model.unknown-option", r"^model\.formula.*'deg'.*'degree'"),
    ("y ~ x - offset(z)", "model.misplaced", r"^model\.formula.*'- offset\(z\)'.*offset\(-x\)"),
    ("y ~ x - z", "model.misplaced", r"^model\.formula.*'- z'.*I\(x - z\)"),
    ("y ~ x*z - x*k", "model.misplaced", r"^model\.formula.*'- k'"),
    ("y ~ x:offset(z)", "model.misplaced", r"^model\.formula.*offset.*interactions"),
    ("y ~ (offset(z) | g)", "model.misplaced", r"^model\.formula.*offset.*group"),
    ("y ~ x.real", "model.syntax", r"^model\.formula.*`x\.real`"),
    ("y ~ log(x", "model.syntax", r"^model\.formula.*'\)'"),
    ("y ~ 'x'", "model.syntax", r"^model\.formula.*'x'"),
    ("y ~ x + 2", "model.syntax", r"^model\.formula: 2 "),
    ("y ~ log(x)", "data.not-finite", r"'log\(x\)'.*row"),
]


@pytest.mark.parametrize(("formula", "code", "match"), REFUSED)
def test_bad_formulas_are_one_line(formula, code, match):
    with refused(code, match):
        design(formula)


# --------------------------------------------------------------------------------------------- data as they come


@pytest.fixture(scope="module")
def fitted() -> bl.Fit:
    data = table()
    return bl.fit(
        regression("y ~ x + g + I(g == 'b') * k + (1 | c)"), data.assign(c=data["g"]), runs=None, progress=False
    )


NEW = [
    ({"x": [0.1], "k": [1], "c": ["a"]}, "data.unknown-column", "'g'"),
    ({"x": [0.1], "g": ["a"], "k": [1]}, "data.unknown-column", "'c'"),
    ({"g": ["a"], "k": [1], "c": ["a"]}, "data.unknown-column", "'x'"),
    ({"x": [0.1], "g": [1], "k": [1], "c": ["a"]}, "data.other-kind", "'g'.*'a', 'b'"),
    ({"x": ["u"], "g": ["a"], "k": [1], "c": ["a"]}, "data.other-kind", "'x'.*text"),
    ({"x": 0.1, "g": "a", "k": 1, "c": "a"}, "data.not-a-column", "'x'"),
]


@pytest.mark.parametrize(("new", "code", "match"), NEW, ids=range(len(NEW)))
def test_new_rows_that_lack_something_are_refused(fitted, new, code, match):
    with refused(code, match):
        fitted.predict(new)


def test_one_value_beside_columns_is_that_of_all_rows(fitted):
    many = fitted.predict({"x": [0.1, 0.2], "g": ["a", "a"], "k": [1, 1], "c": ["b", "b"]}, kind="mean")
    one = fitted.predict({"x": [0.1, 0.2], "g": "a", "k": 1, "c": "b"}, kind="mean")
    np.testing.assert_allclose(one["mean"], many["mean"], rtol=0.2)
    assert len(one) == 2


def test_a_column_that_is_there_twice_is_refused():
    with refused("data.duplicate", "'x'"):
        design("y ~ x", table()[["y", "x", "x"]])


@pytest.mark.parametrize("size", [1e300, 1e154, 1e-300])
@pytest.mark.parametrize(
    ("column", "what"), [("x", "the predictor 'x'"), ("y", "the response 'y'"), ("z", "the offset")]
)
def test_sizes_beyond_arithmetic_are_refused(column, what, size):
    data = table()
    data[column] *= size
    # A reader refuses what no square of can be had; a column that is too small for its unit is the formula's to refuse.
    with refused("data.too-large", f"{what}|column '{column}'"):
        design("y ~ x + offset(z)", data)


def test_counts_that_floats_do_not_hold_are_refused():
    model = regression("y ~ x", likelihood="poisson")
    with refused("data.too-large", "'y'"):
        lower(model, check(model, table().assign(y=1e19)))


# ----------------------------------------------------------------------------------- levels as they come

ODD = ["O'Brien", 'a"b', "back\\slash", "two\nlines", "tab\tbed", "$x^2$", "[a]", "a:b"]
PLAIN = [f"level{k}" for k in range(len(ODD))]


def grouped(levels) -> pd.DataFrame:
    rng, at = np.random.default_rng(3), np.arange(40) % len(levels)
    return pd.DataFrame({"y": rng.normal(size=40) + at, "x": rng.normal(size=40), "g": np.array(levels)[at], "k": at})


def written(text: str) -> str:
    """As a formula has it: between single quotes, with backslashes before what would end it."""
    for letter, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(letter, escaped)
    return f"'{text}'"


def exact(formula: str, table: pd.DataFrame, levels) -> tuple[bl.Fit, dict[str, np.ndarray]]:
    spec = {"family": "regression", "formula": formula}
    model = bl.Model(name="m", model=spec, dims={"g": list(levels)})
    fit = bl.fit(model, table, "exact", runs=None, draws=20, progress=False, seed=1)
    return fit, {name: fit.posterior[name].to_numpy() for name in ("b", "u_g") if name in fit.posterior}


@pytest.mark.parametrize(
    "formula",
    ["y ~ g", "y ~ x + (1 | g)", "y ~ C(g)", "y ~ 0 + g:x", "y ~ C(g, Treatment({0}))", "y ~ C(g, levels=[{3}, {rest}])",
     "y ~ I(g == {0}) + I(g != {1}) + I(g == {2})"],
)  # fmt: skip
def test_levels_of_any_letters(formula):
    """The answer does not depend on what levels are called, for the rows of the fit and for a few new ones."""

    def of(levels):
        quoted = [written(level) for level in levels]
        rest = ", ".join(q for k, q in enumerate(quoted) if k != 3)
        return exact(formula.format(*quoted, rest=rest), grouped(levels), levels)

    (plain, before), (odd, after) = of(PLAIN), of(ODD)
    assert before.keys() == after.keys() != set()
    for name, value in before.items():
        np.testing.assert_allclose(after[name], value, rtol=1e-9, atol=1e-12)
    new = [table.iloc[[5, 0, 9]] for table in (grouped(PLAIN), grouped(ODD))]
    numbers = [
        fit.predict(rows).select_dtypes("number").to_numpy() for fit, rows in zip((plain, odd), new, strict=True)
    ]
    np.testing.assert_allclose(*numbers)


def test_levels_in_an_order_of_the_formula():
    """The first is the reference."""
    order = "y ~ C(k, levels=[2, 0, 1, 3])"
    table = grouped(list("abcd"))
    names = design(order, table).names
    assert names == [f"C(k, levels=[2, 0, 1, 3])[{k}]" for k in (0, 1, 3)]
    matrix = design(order, table).matrix
    np.testing.assert_array_equal(matrix, (table["k"].to_numpy()[:, None] == [0, 1, 3]).astype(float))


@pytest.mark.parametrize(
    ("formula", "code", "match"),
    [
        ("y ~ C(k, levels=[0, 1])", "data.incomplete", "'2'.*'3'"),
        ("y ~ C(k, levels=[0, 1, 2, 3, 4])", "data.unknown-level", "4.*'k'"),
        ("y ~ C(k, levels=[0, 1, 1, 2, 3])", "data.duplicate", "twice"),
        ("y ~ C(k, levels=[x])", "model.wrong-arguments", r"^model\.formula: C\(\): each"),
        ("y ~ C(k, levels=2)", "model.wrong-arguments", r"^model\.formula: C\(\): levels"),
        ("y ~ [x]", "model.syntax", r"^model\.formula: a list"),
        ("y ~ I([x])", "model.syntax", r"^model\.formula: a list"),
        ("y ~ I(g == 'a\\qb')", "model.syntax", r"^model\.formula.*'\\q'"),
        ("y ~ I(g == 'a\\')", "model.syntax", r"^model\.formula.*'a\\'"),
        ("y ~ x + (0 | g)", "model.incomplete", r"^model\.formula.*'g'"),
        ("y ~ 0", "model.incomplete", r"^model\.formula.*intercept.*predictor"),
        ("y ~ 0 + x:[1]", "model.syntax", r"^model\.formula: a list"),
    ],
)
def test_lists_and_texts_that_mean_nothing(formula, code, match):
    with refused(code, match):
        design(formula, grouped(list("abcd")))


def test_new_rows_without_the_reference_level():
    table = grouped(PLAIN)
    fit, _ = exact("y ~ C(k, Treatment(2))", table, PLAIN)
    assert len(fit.predict(table[table["k"] < 2])) == (table["k"] < 2).sum()


def test_combinations_of_levels_that_share_a_name_are_refused():
    table = pd.DataFrame({"y": [1.0, 2.0, 3.0, 4.0], "a": ["p:q", "p", "p", "p:q"], "b": ["r", "q:r", "q:r", "r"]})
    with refused("data.name-clash", "'a'.*'b'"):
        design("y ~ 1 + (1 | a:b)", table)


def test_group_effects_and_nothing_else():
    """Against the closed form of normal means with known variances."""
    table, tau, sigma = grouped(PLAIN), 0.8, 1.3
    spec = {"family": "regression", "formula": "y ~ 0 + (1 | g)", "priors": {"sd_g": tau, "sigma": sigma}}
    fit = bl.fit(bl.Model(name="m", model=spec), table, runs=None, draws=4000, progress=False, seed=1)
    means = table.groupby("g")["y"].agg(["mean", "size"])
    precision = means["size"] / sigma**2 + 1 / tau**2
    truth = (means["mean"] * means["size"] / sigma**2 / precision).to_numpy()
    assert fit.method == "exact"
    error = 5 / np.sqrt(precision.to_numpy() * 4000)
    np.testing.assert_array_less(np.abs(fit.posterior["u_g"].mean(("chain", "draw")).to_numpy() - truth), error)
    assert "Intercept" not in fit.posterior and "b" not in fit.posterior
    # Drawn by NUTS, it is the same density up to a constant.
    built = bl.to_pymc(bl.Model(name="m", model=spec | {"priors": {"sigma": sigma}}), table)
    assert np.isfinite(built.compile_logp(mode="FAST_COMPILE")(built.initial_point()))


@pytest.mark.parametrize(
    "text",
    ["-x ** 2", "x ** 2 ** 3", "2 ** -x ** 2", "--x ** 2", "(-x) ** 2", "-x ** 2 * 3 + 1", "-exp(-x ** 2) ** 2", "x - -x ** 3"],
)  # fmt: skip
def test_arithmetic_has_the_precedence_of_python(text):
    x = np.linspace(-1.5, 1.5, 7)
    wanted = eval(text, {"exp": np.exp}, {"x": x})
    columns = design(f"y ~ 0 + I({text})", pd.DataFrame({"x": x, "y": x}))
    np.testing.assert_allclose(columns.matrix.ravel(), wanted, rtol=1e-12)


def test_comparisons_are_not_chained():
    with refused("model.syntax", "-1 < x < 1"):
        parse_formula("y ~ I(-1 < x < 1)")


def test_several_offsets_add_up():
    data = table().assign(o=np.linspace(-1, 1, len(table())), q=np.linspace(3, 0, len(table())) ** 2)
    each = bl.fit(regression("y ~ x + offset(o) + offset(q)"), data, runs=None, progress=False)
    together = bl.fit(regression("y ~ x + offset(o + q)"), data, runs=None, progress=False)
    np.testing.assert_allclose(each.summary()["mean"], together.summary()["mean"], rtol=1e-6)
    # Predictions have the error of 4,000 draws.
    means = [fit.predict(data.head(4), kind="mean")["mean"] for fit in (each, together)]
    np.testing.assert_allclose(*means, atol=0.2)


@pytest.mark.parametrize(
    "right", ["(1 | g) + (0 + x | g)", "(1 | g) + (1 | g)", "(1 | g) + (x | g)", "(1 | g) + x + (x || g)"]
)
def test_effects_of_one_group_stand_in_one_term(right):
    with refused("model.duplicate", r"\|\| g"):
        bl.check(regression(f"y ~ {right}"), table())
