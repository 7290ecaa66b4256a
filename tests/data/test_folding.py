"""A table that is folded to rows with counts gives the posterior of all of its rows."""

from __future__ import annotations

import os

import numpy as np
import polars as pl
import pytest

import bayeslab as bl
from bayeslab.exact.quadrature import converged
from tests.refusals import refused

pytest.importorskip("duckdb")
tables = pytest.importorskip("bayeslab.data.duckdb_tables")

DERIVED = {"x2": "x ** 2", "xz": "x * z"}


def _rows(n: int = 1500) -> pl.DataFrame:
    rng = np.random.default_rng(4)
    g, k, x, z = rng.integers(0, 5, n), rng.integers(0, 4, n), rng.normal(3, 2, n), rng.gamma(2, 1, n)
    a = np.array(["u", "v", "w"])[rng.integers(0, 3, n)]
    eta = -0.5 + 0.3 * k - 0.4 * (a == "v") + np.array([0.3, -0.2, 0, 0.1, 0.5])[g]
    return pl.DataFrame(
        {
            "y": 1 + 0.5 * x - 0.3 * z * (a == "v") + eta + rng.normal(0, 0.7, n),
            "Miles (km)": x,
            "z": z,
            "a": a,
            "g": [f"g{i}" for i in g],
            "k": k,
            "hit": (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int),
            "c": rng.poisson(np.exp(eta)),
            "unused": rng.normal(size=n),
        }
    )


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    return _rows()


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("tables")
    rows[:400].write_parquet(path / "part1.parquet")
    rows[400:].write_parquet(path / "part2.parquet")
    rows.write_csv(path / "all.csv")
    return path


def _fit(formula, data, *, table=None, method="exact", likelihood="gaussian", priors=None, **source):
    kept = {"rename": {"x": "Miles (km)"}, "derive": DERIVED, **source}
    if table is not None:
        kept |= {"table": str(table), "streamed": True}
    spec = bl.Regression(formula=formula, likelihood=likelihood, priors=priors or {})
    return bl.fit(bl.Model(model=spec, data=kept, seed=1), data, method, runs=None, progress=False)


@pytest.mark.parametrize("table", ["part*.parquet", "all.csv"])
@pytest.mark.parametrize(
    ("formula", "held"),
    [
        ("y ~ x + z", 4),
        ("y ~ x + z:a + (1 | g)", 60),
        ("y ~ x2 + xz + C(k) + offset(z)", 20),
        ("y ~ 0 + x + I(k ** 2)", 12),
    ],
)
def test_the_posterior_is_that_of_all_rows(rows, folder, table, formula, held):
    whole, folded = _fit(formula, rows), _fit(formula, None, table=folder / table)
    assert len(folded.data.dataset.counts) == held
    assert folded.data.n_rows == len(rows)
    assert folded.bound_model.priors() == whole.bound_model.priors()
    np.testing.assert_allclose(folded.summary(), whole.summary(), rtol=1e-9, atol=1e-9)
    assert folded.log_evidence == pytest.approx(whole.log_evidence, abs=1e-8)


def test_numbers_far_from_zero_keep_their_digits(rows, tmp_path):
    far = rows.with_columns(pl.col("z") + 1e9, pl.col("y") - 1e9)
    far.write_parquet(tmp_path / "far.parquet")
    whole, folded = _fit("y ~ x + z", far), _fit("y ~ x + z", None, table=tmp_path / "far.parquet")
    wanted, found = whole.summary(["b", "sigma"]), folded.summary(["b", "sigma"])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize(("likelihood", "outcome"), [("bernoulli", "hit"), ("poisson", "c"), ("student_t", "k")])
def test_rows_that_are_equal_count_as_often_as_they_occur(rows, folder, likelihood, outcome):
    formula = f"{outcome} ~ a + g"
    whole = _fit(formula, rows, method="laplace", likelihood=likelihood)
    folded = _fit(formula, None, table=folder / "part*.parquet", method="laplace", likelihood=likelihood)
    assert folded.data.dataset.counts.sum() == len(rows) > 5 * len(folded.data.dataset.counts)
    assert folded.bound_model.priors() == whole.bound_model.priors()
    np.testing.assert_allclose(folded.summary()["mean"], whole.summary()["mean"], rtol=1e-5, atol=1e-5)


@pytest.mark.slow(why="compiles")
def test_a_formula_of_sigma_and_weights(rows, folder):
    spec = bl.Regression(formula={"mu": "y ~ x", "sigma": "~ a"}, weights="k")
    source = {"rename": {"x": "Miles (km)"}}
    here = bl.Model(model=spec, data=source, seed=1)
    there = bl.Model(model=spec, data={**source, "table": str(folder / "all.csv"), "streamed": True}, seed=1)
    whole, folded = (bl.fit(m, d, "laplace", runs=None, progress=False) for m, d in ((here, rows), (there, None)))
    assert len(folded.data.dataset.counts) == 3 * 4 * 3
    np.testing.assert_allclose(folded.summary()["mean"], whole.summary()["mean"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("table", ["holes.parquet", "holes.csv"])
def test_missing_cells_are_counted_and_their_rows_left_out(rows, tmp_path, table):
    holes = rows.with_columns(
        z=pl.when(pl.int_range(pl.len()) % 10 == 3).then(None).otherwise(pl.col("z")),
        y=pl.when(pl.int_range(pl.len()) % 50 == 7).then(-999.0).otherwise(pl.col("y")),
        a=pl.when(pl.int_range(pl.len()) % 100 == 1).then(pl.lit("?")).otherwise(pl.col("a")),
    )
    holes.write_parquet(tmp_path / "holes.parquet")
    holes.write_csv(tmp_path / "holes.csv")
    missing = {"missing": ["?", -999]}
    whole = _fit("y ~ z + a", holes, **missing)
    folded = _fit("y ~ z + a", None, table=tmp_path / table, **missing)
    np.testing.assert_allclose(folded.summary(), whole.summary(), rtol=1e-9, atol=1e-9)
    (said,) = {text for *_, text, _ in folded.bound_model.data_findings() if "missing" in text}
    assert said.startswith("195 of 1500 rows") and "z 150" in said and "y 30" in said and "a 15" in said
    assert not folded.data.dataset.unused


def test_categories_keep_their_order(rows, tmp_path):
    import pandas as pd

    table = rows.to_pandas()
    table["a"] = pd.Categorical(table["a"], categories=["w", "u", "v"], ordered=True)
    table.to_parquet(tmp_path / "cat.parquet")
    whole, folded = _fit("y ~ a", table), _fit("y ~ a", None, table=tmp_path / "cat.parquet")
    assert list(folded.summary().index) == list(whole.summary().index)
    np.testing.assert_allclose(folded.summary(), whole.summary(), rtol=1e-9, atol=1e-9)


def test_a_run_is_reopened_and_takes_more_rows(rows, folder, tmp_path):
    source = {
        "rename": {"x": "Miles (km)"},
        "derive": DERIVED,
        "table": str(folder / "part1.parquet"),
        "streamed": True,
    }
    model = bl.Model(model=bl.Regression(formula="y ~ x + x2"), data=source, seed=1)
    bl.fit(model, runs=tmp_path, name="run", progress=False)
    again = bl.open(tmp_path / "run")
    assert again.data.n_rows == 400
    more = again.update(rows[400:], progress=False, runs=tmp_path)
    assert more.data.n_rows == len(rows)
    np.testing.assert_allclose(more.summary(), _fit("y ~ x + x2", rows).summary(), rtol=1e-9, atol=1e-9)
    new = pl.DataFrame({"Miles (km)": [1.0, 2.0]})
    assert len(again.predict(new)) == 2


@pytest.mark.slow(why="large")
def test_what_needs_each_row_is_refused(folder, tmp_path):
    fit = _fit("y ~ x", None, table=folder / "part*.parquet")
    for work in (fit.predict, fit.log_likelihood, fit.posterior_predictive, fit.prior_predictive, fit.check):
        with refused("data.not-applicable", "1,500 rows.*folded to 3"):
            work()
    with refused("data.not-applicable", "averages"):
        fit.comparisons("x")
    for work in (
        lambda: bl.compare({"a": fit, "b": fit}),
        lambda: bl.cross_validate({"a": fit}, folds=3, progress=False),
    ):
        with refused("data.not-applicable", "1,500 rows"):
            work()
    with refused("data.not-applicable", "1,500 rows"):
        bl.calibrate(fit.model, replications=3, progress=False)
    with refused("model.unsupported", "streamed"):
        bl.export(fit.model)
    fit.report(tmp_path / "page.html")
    assert "fitted to 1,500 rows" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("model", "code", "match"),
    [
        (bl.Regression(formula="y ~ log(z)"), "data.too-costly", "'z' alone.*data.derive"),
        (bl.Regression(formula="y ~ scale(z)"), "data.unsupported", r"scale\(z\) takes the mean.*1,500"),
        (bl.Regression(formula="y ~ s(z)"), "data.unsupported", r"s\(z\)"),
        (bl.Regression(formula="y ~ me(z, k)"), "data.unsupported", "me"),
        (bl.Regression(formula="c ~ z", likelihood="poisson"), "data.too-costly", "likelihood poisson needs them"),
        (bl.Regression(formula="y ~ zz"), "data.unknown-column", "'zz'.*'z'"),
        (bl.Regression(formula="y ~ centred"), "data.unsupported", r"mean\(z\)"),
        (bl.Regression(formula="a ~ z"), "data.not-numbers", "'a' is text"),
        (bl.Graph(nodes={"m": "Normal(0, 1)", "y[obs_id]": "Normal(m, 1)"}), "data.unsupported", "family graph.*1,500"),
    ],
)
def test_a_model_that_needs_every_row_says_how_many(monkeypatch, folder, model, code, match):
    monkeypatch.setattr("bayeslab.data.folding._MOST_ROWS", 1000)
    source = {"table": str(folder / "part*.parquet"), "streamed": True, "derive": {"centred": "z - mean(z)"}}
    with refused(code, match):
        bl.check(bl.Model(model=model, data=source))


def _bad(folder, name):
    one = pl.DataFrame({"x": [1.0, 2.0], "y": [1.0, 3.0]})
    one.write_parquet(folder / "p1.parquet")
    {
        "columns": lambda: one.drop("x").write_parquet(folder / "p2.parquet"),
        "kinds": lambda: pl.DataFrame({"x": ["a"], "y": [1.0]}).write_parquet(folder / "p2.parquet"),
        "damaged": lambda: (folder / "p2.parquet").write_bytes(b"PAR1"),
        "infinite": lambda: pl.DataFrame({"x": [np.inf], "y": [1.0]}).write_parquet(folder / "p2.parquet"),
        "mixed": lambda: one.write_csv(folder / "p2.csv"),
    }[name]()


@pytest.mark.parametrize(
    ("name", "code", "match"),
    [
        ("columns", "data.unknown-column", "p2.parquet has no column 'x'"),
        ("kinds", "data.other-kind", "'x' holds numbers in p1.parquet and text in p2.parquet"),
        ("damaged", "data.unreadable", "DuckDB"),
        ("infinite", "data.not-finite", "'x'"),
        ("mixed", "data.unknown-format", "csv.*parquet"),
    ],
)
def test_files_that_are_no_table_are_refused(tmp_path, name, code, match):
    _bad(tmp_path, name)
    source = {"table": str(tmp_path / "p*"), "streamed": True}
    with refused(code, match):
        bl.check(bl.Model(model=bl.Regression(formula="y ~ x"), data=source))


def test_what_does_not_fit_into_memory_may_be_streamed(folder, monkeypatch):
    monkeypatch.setattr("bayeslab.data.tables.memory_size", lambda: 1000)
    spec = bl.Regression(formula="y ~ z")
    for name, code in (("part1.parquet", "data.too-costly"), ("all.csv", "data.too-costly"), ("p*", "data.not-a-file")):
        with refused(code, "streamed: true"):
            bl.check(bl.Model(model=spec, data={"table": str(folder / name)}))


def test_a_pattern_without_files_and_a_file_that_vanishes(folder, tmp_path, monkeypatch):
    with refused("data.no-such-file", "part1.parquet", where=str(folder)):
        tables.DuckTable.open(folder / "none*.parquet")
    (tmp_path / "p.parquet").write_bytes((folder / "part1.parquet").read_bytes())
    table = tables.DuckTable.open(tmp_path / "p.parquet")
    os.unlink(tmp_path / "p.parquet")
    with refused("data.unreadable", "p.parquet"):
        table.count()
    # Temporary files are not put into the working folder, which may be read-only.
    monkeypatch.chdir(tmp_path)
    _fit("y ~ x", None, table=folder / "part*.parquet")
    assert not list(tmp_path.iterdir())


def test_an_integral_over_scales_settles_for_many_rows():
    """The log density of a hundred million rows has rounding errors above the tolerance for few rows."""
    axes, log_mass = converged(lambda u, v: -3e9 - u[:, None] ** 2 / 2 - v[None] ** 2 / 2, [(-9.0, 9.0), (-9.0, 9.0)])
    assert np.logaddexp.reduce(log_mass, axis=None) + 3e9 == pytest.approx(np.log(2 * np.pi), abs=1e-5)
    assert len(axes[0]) == 33


def _patients(n: int = 2000) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    a, c = rng.integers(0, 2, n), rng.integers(0, 3, n)
    b = (rng.random(n) < 0.3 + 0.4 * a).astype(int)
    d = (rng.random(n) < 0.2 + 0.3 * b + 0.1 * c).astype(int)
    words = np.array(["no", "yes"])
    return pl.DataFrame(
        {"a": words[a], "b it": words[b], "c": c, "d": words[d], "e": np.array(["l", "m", "h"])[(a + c + d) % 3]}
    )


STATES = {"a": ["no", "yes"], "b it": ["no", "yes"], "c": ["0", "1", "2"], "d": ["no", "yes"], "e": ["l", "m", "h"]}
PARENTS = {"b it": ["a"], "d": ["b it", "c"], "e": ["a", "c"]}


def _net(**keys):
    variables = {v: {"states": states, "parents": PARENTS.get(v, [])} for v, states in STATES.items()}
    return bl.BayesNet(variables=variables, **keys)


@pytest.mark.parametrize(
    ("spec", "method", "held"),
    [
        (_net(), "exact", 24),
        (_net(), "em", 24),
        (_net(), "map", 24),
        (bl.BayesNet(variables=STATES, structure="naive_bayes", target="a"), "exact", 14),
        (bl.BayesNet(variables=STATES, structure="tan", target="a"), "exact", 50),
        (_net(hidden=["b it"]), "em", 29),
        (bl.BayesNet(variables=STATES, structure={"score": "bdeu"}), "exact", 50),
    ],
)
def test_nets_are_those_of_all_rows(tmp_path, spec, method, held):
    """A net with given parents takes the counts of its families, and other nets distinct rows."""
    rows = _patients()
    rows.write_parquet(tmp_path / "p.parquet")
    source = {"table": str(tmp_path / "p.parquet"), "streamed": True}
    whole = bl.fit(bl.Model(model=spec, seed=1), rows, method, runs=None, progress=False)
    folded = bl.fit(bl.Model(model=spec, data=source, seed=1), None, method, runs=None, progress=False)
    assert folded.data.n_rows == len(rows)
    assert len(folded.data.dataset.counts) <= held
    np.testing.assert_allclose(folded.summary(), whole.summary(), rtol=1e-9, atol=1e-9)


def test_a_structure_is_learned_from_the_same_declaration(tmp_path):
    _patients().write_parquet(tmp_path / "p.parquet")
    names = ["a", "c", "d", "e"]
    (tmp_path / "m.yaml").write_text(
        "bayeslab: 1\ndata: {table: p.par*, streamed: true}\n"
        "model: {family: bayes_net, structure: {score: bdeu}, variables: {a: [no, yes], c: [0, 1, 2], d: [no, yes], e: [l, m, h]}}\n"
    )
    whole = bl.learn(_patients().select(names), score="bdeu", score_options={"states": {v: STATES[v] for v in names}})
    assert bl.learn(tmp_path / "m.yaml").score == pytest.approx(whole.score, abs=1e-9)
    with refused("data.not-applicable", "structural_em.*2,000 rows"):
        bl.learn(tmp_path / "m.yaml", method="structural_em")


@pytest.mark.parametrize("file", ["p.parquet", "p.csv"])
def test_incomplete_rows_of_a_net_are_kept(tmp_path, file):
    at = pl.int_range(pl.len())
    rows = _patients().with_columns(
        d=pl.when(at % 7 == 0).then(None).otherwise(pl.col("d")),
        c=pl.when(at % 11 == 0).then(-9).otherwise(pl.col("c")),
    )
    rows.write_parquet(tmp_path / "p.parquet")
    rows.write_csv(tmp_path / "p.csv")
    source = {"table": str(tmp_path / file), "streamed": True, "missing": [-9]}
    here = bl.Model(model=_net(), data={"missing": [-9]}, seed=1)
    there = bl.Model(model=_net(), data=source, seed=1)
    whole, folded = (bl.fit(m, d, "em", runs=None, progress=False) for m, d in ((here, rows), (there, None)))
    np.testing.assert_allclose(folded.summary(), whole.summary(), rtol=1e-6, atol=1e-6)
    unknown = bl.Model(model=bl.BayesNet(variables=STATES, structure={"score": "bdeu"}), data=source)
    with refused("data.missing", "rows of the table have missing cells"):
        bl.check(unknown)


@pytest.mark.slow(why="large")
def test_rows_of_a_wide_net_are_not_counted_together(tmp_path):
    """Thirty features have about as many combinations as there are rows; a naive Bayes net needs pairs of columns."""
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 3, 3000)
    features = {f"f{i}": (rng.random(3000) < 0.2 + 0.2 * kind).astype(int) for i in range(30)}
    rows = pl.DataFrame({"kind": [f"k{k}" for k in kind], **features})
    rows.write_parquet(tmp_path / "wide.parquet")
    states = {"kind": ["k0", "k1", "k2"], **{name: ["0", "1"] for name in features}}
    spec = bl.BayesNet(variables=states, structure="naive_bayes", target="kind")
    source = {"table": str(tmp_path / "wide.parquet"), "streamed": True}
    folded = bl.fit(bl.Model(model=spec, data=source, seed=1), runs=None, progress=False)
    assert len(folded.data.dataset.counts) <= 3 * (1 + 30)
    counts = np.array([np.bincount(kind, rows["f7"].to_numpy() == s, minlength=3) for s in (0, 1)]).T
    wanted = (counts + 1) / (counts + 1).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(folded.summary(["p_f7"])["mean"], wanted.ravel(), rtol=1e-12)


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("components", [2, [1, 2]])
def test_latent_classes_are_those_of_all_rows(tmp_path, components):
    rng = np.random.default_rng(0)
    kind, n = rng.integers(0, 2, 1500), 1500
    words = np.array(["a", "b", "c"])
    answers = {
        f"q{i}": words[np.where(kind, rng.choice(3, n, p=[0.7, 0.2, 0.1]), rng.choice(3, n, p=[0.1, 0.2, 0.7]))]
        for i in range(4)
    }
    rows = pl.DataFrame(answers | {"v": (rng.random(n) < np.where(kind, 0.8, 0.2)).astype(int)})
    rows.write_parquet(tmp_path / "answers.parquet")
    spec = bl.Mixture(
        columns=[*answers, "v"],
        component={**dict.fromkeys(answers, "categorical"), "v": "bernoulli"},
        components=components,
    )
    source = {"table": str(tmp_path / "answers.parquet"), "streamed": True}
    whole = bl.fit(bl.Model(model=spec, seed=1), rows, "em", runs=None, progress=False)
    folded = bl.fit(bl.Model(model=spec, data=source, seed=1), runs=None, progress=False)
    assert folded.method == "em"
    assert len(folded.data.dataset.counts) <= 3**4 * 2
    notes = [[f.message for f in fit.verdict.findings if f.check == "components"] for fit in (folded, whole)]
    assert notes[0] == notes[1]
    np.testing.assert_allclose(folded.summary(), whole.summary(), rtol=1e-6, atol=1e-6)
    with refused("data.not-applicable", "1,500 rows"):
        folded.clusters()
    for method, code in (("gibbs", "engine.refused.unsupported"), ("nuts", "model.unsupported")):
        with refused(code, "method em"):
            bl.check(bl.Model(model=spec, data=source), method=method)


def test_other_mixtures_need_every_row(rows, folder):
    source = {"table": str(folder / "all.csv"), "streamed": True}
    for keys, match in (
        ({"columns": ["z", "y"], "component": "student_t"}, "student_t components"),
        ({"columns": ["z", "y"], "components": [1, 2]}, "chosen by every row"),
        ({"columns": ["a"], "component": "categorical", "labels": "g"}, "`labels`"),
        ({"columns": ["a"], "component": "categorical", "components": "sampled"}, "components: sampled"),
    ):
        with refused("data.unsupported", f"{match}.*1,500"):
            bl.check(bl.Model(model=bl.Mixture(**{"components": 2, **keys}), data=source))


@pytest.mark.slow(why="compiles")
@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_em_of_batches_is_that_of_all_rows(tmp_path, monkeypatch, covariance):
    """Searches begin on a sample, and the maximum is that for all rows."""
    monkeypatch.setattr("bayeslab.data.folding._SAMPLE", 800)
    monkeypatch.setattr("bayeslab.data.folding._BATCH", 500)
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 3000)
    points = np.array([[1000, 0], [1004, 1]])[kind] + rng.normal(size=(3000, 2)) @ np.array([[1, 0.4], [0, 0.8]])
    rows = pl.DataFrame({"u": points[:, 0], "v": points[:, 1]})
    rows.write_parquet(tmp_path / "points.parquet")
    spec = bl.Mixture(columns=["u", "v"], components=2, covariance=covariance)
    source = {"table": str(tmp_path / "points.parquet"), "streamed": True}
    for prior, tolerance in (("ignore", 1e-6), ("use", 1e-3)):  # weak priors are scaled to the sample
        whole = bl.fit(bl.Model(model=spec, seed=1), rows, "em", runs=None, progress=False, prior=prior)
        folded = bl.fit(bl.Model(model=spec, data=source, seed=1), None, "em", runs=None, progress=False, prior=prior)
        assert folded.data.n_rows == 3000 and len(folded.data.dataset.counts) == 800
        np.testing.assert_allclose(folded.summary(), whole.summary(), rtol=tolerance, atol=tolerance)
        assert "all 3,000" in str(folded.verdict)
    assert len(folded.predict({"u": [1000.0, None], "v": [0.0, 1.0]})) == 4
    with refused("data.not-applicable", "3,000"):
        folded.clusters()
    with refused("engine.refused.not-suited", "hard"):
        bl.fit(bl.Model(model=spec, data=source), None, "em", variant="hard", runs=None, progress=False)
    assert bl.fit(bl.Model(model=spec, data=source), runs=None, progress=False).method == "em"
