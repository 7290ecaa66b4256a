"""``bl.estimator``: scikit-learn's own checks, and scikit-learn's own estimators as the truth."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import is_classifier
from sklearn.datasets import load_iris
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayeslab as bl
from tests.refusals import refused

X, Y = load_iris(return_X_y=True)


def learner(word, **options):
    return bl.Model(name=word, model={"family": "learner", "learner": word, "target": "y", **options})


def other(**model):
    return bl.Model(name="other", model=model)


NEAR = learner("knn", task="classification")
LINE = other(family="regression", formula="y ~ x1", priors={"sigma": 0.5})
# What scikit-learn checks and a posterior cannot have; the line takes one column of however many there are.
# The check calls fit and then partial_fit of one estimator; what fit learned cannot be continued, and is not dropped silently.
IN_PARTS = {"knn": {"check_fit_score_takes_y": "partial_fit after fit is refused"}}
EXCUSED = {
    "check_regressors_train": "nine of ten inputs that matter are not in the formula",
    "check_methods_sample_order_invariance": "means are those of simulated outcomes",
    "check_methods_subset_invariance": "means are those of simulated outcomes",
    "check_fit2d_1sample": "priors are scaled to the response, which one row does not have: said in other words",
}


@pytest.mark.slow(why="large")
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        bl.estimator(NEAR, seed=1),
        bl.estimator(learner("decision_tree"), seed=1),
        bl.estimator(learner("linear"), seed=1),
        bl.estimator(LINE, target="y", method="exact", seed=1),
    ],
    expected_failed_checks=lambda made: (
        EXCUSED if made.model.model.family == "regression" else IN_PARTS.get(made.model.name, {})
    ),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def node(distribution):
    return other(family="graph", nodes={"a": "Normal(0, 1)", "y[obs_id]": distribution})


@pytest.mark.parametrize(
    ("model", "classes"),
    [
        (node("Bernoulli(logit_p=a * x1)"), True),
        (node("Categorical(p=[0.2, 0.3, 0.5])"), True),
        (node("Normal(a * x1, 1)"), False),
        (node("Poisson(exp(a * x1))"), False),
        (other(family="regression", formula="y ~ x1", likelihood="bernoulli"), True),
        (other(family="regression", formula="y ~ x1", likelihood="categorical"), True),
        (other(family="regression", formula="y ~ x1", likelihood="ordered"), True),
        (other(family="regression", formula="y ~ x1"), False),
        (other(family="gaussian_process", target="y", kernel="ExpQuad()", likelihood="bernoulli"), True),
        (other(family="gaussian_process", target="y", kernel="ExpQuad()"), False),
        (learner("logistic"), True),
        (learner("linear"), False),
        (NEAR, True),
        (learner("knn", task="regression"), False),
    ],
)
def test_the_model_says_whether_it_classifies(model, classes):
    assert is_classifier(bl.estimator(model, target="y")) == classes


def test_nets_classify_their_states():
    variables = {"x1": {"linear_gaussian": {}}, "y": ["no", "yes"]}
    net = {"family": "bayes_net", "structure": "naive_bayes", "variables": variables, "target": "y"}
    assert is_classifier(bl.estimator(other(**net)))


def test_a_learner_of_both_is_told_which(tmp_path):
    with refused("model.incomplete", "'task: classification'.*'task: regression'", where="model.task"):
        bl.estimator(learner("knn"))
    assert is_classifier(bl.estimator(learner("knn"), task="classification"))
    numbers = bl.estimator(learner("knn"), task="regression")
    assert not is_classifier(numbers)
    assert numbers.fit(X[:, 1:], X[:, 0]).score(X[:, 1:], X[:, 0]) > 0.8
    with refused("model.not-applicable", "regression", where="model.task"):
        bl.estimator(NEAR, task="regression")
    with refused("model.not-applicable", "classification"):
        bl.estimator(LINE, target="y", task="classification")
    # Data that the model names tell as well.
    for values, classes in ((["a", "b"] * 5, True), (list(np.arange(10) / 3), False)):
        pd.DataFrame({"u": range(10), "y": values}).to_csv(tmp_path / "rows.csv", index=False)
        (tmp_path / "near.yaml").write_text(
            "bayeslab: 1\ndata: {table: rows.csv}\nmodel: {family: learner, learner: knn, target: y}\n"
        )
        assert is_classifier(bl.estimator(tmp_path / "near.yaml")) == classes


@pytest.mark.parametrize(
    "y",
    [
        Y,
        Y.astype(float),
        Y == 1,
        (Y == 1).astype(float),
        np.array(["c", "a", "b"])[Y],
        np.array(["10", "9", "09"])[Y],
        pd.Series(np.array(["c", "a", "b"])[Y]).astype("category"),
    ],
    ids=["int", "float", "bool", "zero_one", "text", "digits", "category"],
)
def test_classes_are_those_of_y(y):
    """And scores are those of scikit-learn's neighbours of standardised columns."""
    own, theirs = bl.estimator(NEAR, seed=1), make_pipeline(StandardScaler(), KNeighborsClassifier(5))
    own.fit(X, y), theirs.fit(X, y)
    assert own.classes_.dtype == theirs.classes_.dtype
    np.testing.assert_array_equal(own.classes_, theirs.classes_)
    np.testing.assert_array_equal(own.predict(X), theirs.predict(X))
    np.testing.assert_allclose(own.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(cross_val_score(own, X, y, cv=3), cross_val_score(theirs, X, y, cv=3))


def test_settings_are_parameters():
    own, theirs = bl.estimator(NEAR, seed=1), make_pipeline(StandardScaler(), KNeighborsClassifier())
    found = GridSearchCV(own, {"model__n_neighbors": [1, 9, 70]}, cv=3).fit(X, Y)
    truth = GridSearchCV(theirs, {"kneighborsclassifier__n_neighbors": [1, 9, 70]}, cv=3).fit(X, Y)
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], truth.cv_results_["mean_test_score"])
    assert found.best_params_["model__n_neighbors"] == truth.best_params_["kneighborsclassifier__n_neighbors"]
    assert own.get_params()["model__n_neighbors"] == 5, "the estimator that was searched over is as it was"
    assert (
        bl.estimator(LINE, target="y").set_params(model__likelihood="student_t").model.model.likelihood == "student_t"
    )
    with pytest.raises(ValueError, match="'model__neighbours' of BayesClassifier; did you mean 'n_neighbors'"):
        own.set_params(model__neighbours=3)
    with refused("model.unknown-word", where="model.n_neighbors"):
        own.set_params(model__n_neighbors="three")


@pytest.mark.slow(why="statistical")
@pytest.mark.parametrize(
    "values", [np.array(v) for v in ([0, 1], [False, True], [1, 2], [-1, 1], ["n", "y"], [7.0, 3.0])]
)
def test_nodes_of_two_values(values):
    """Beta-Bernoulli: P(y = 1 | data) = (a + successes) / (a + b + n)."""
    codes = np.repeat([0, 1], [6, 14])
    model = other(family="graph", nodes={"p": "Beta(2, 3)", "y[obs_id]": "Bernoulli(p)"})
    made = bl.estimator(model, target="y", method="exact", seed=1).fit(np.zeros((20, 1)), values[codes])
    assert made.classes_.dtype == values.dtype
    assert set(made.predict(np.zeros((3, 1)))) == {values[1]}
    # The larger label is the success; 14 rows have the second.
    second = 1 if values[1] > values[0] else 0
    truth = (2 + 14) / (2 + 3 + 20) if second else (3 + 14) / (2 + 3 + 20)
    draws = made.fit_.posterior.sizes["chain"] * made.fit_.posterior.sizes["draw"]
    error = np.sqrt(truth * (1 - truth) / draws)
    np.testing.assert_allclose(made.predict_proba(np.zeros((3, 1)))[:, second], truth, atol=4 * error)


def test_hypotheses_about_names():
    """P(next = lime | data) = sum of P(h | data) P(lime | h), by Bayes' rule."""
    prior, lime = np.array([0.1, 0.2, 0.4, 0.2, 0.1]), np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    bags = {
        f"h{k}": {"prior": p, "likelihood": {"cherry": 1 - q, "lime": q}}
        for k, (p, q) in enumerate(zip(prior.tolist(), lime.tolist(), strict=True))
    }
    seen = np.array(["lime", "lime", "cherry", "lime"])
    made = bl.estimator(other(family="hypotheses", observed="candy", hypotheses=bags), seed=1)
    made.fit(np.zeros((4, 1)), seen)
    weights = prior * lime**3 * (1 - lime)
    truth = weights @ lime / weights.sum()
    assert list(made.classes_) == ["cherry", "lime"]
    np.testing.assert_allclose(made.predict_proba(np.zeros((2, 1))), [[1 - truth, truth]] * 2)
    biased = {f"h{k}": {"likelihood": f"Bernoulli({q})"} for k, q in enumerate(lime)}
    assert is_classifier(bl.estimator(other(family="hypotheses", observed="y", hypotheses=biased)))
    normal = {"low": {"likelihood": "Normal(0, 1)"}, "high": {"likelihood": "Normal(1, 1)"}}
    assert not is_classifier(bl.estimator(other(family="hypotheses", observed="y", hypotheses=normal)))


def test_tables():
    """Names, categories, gaps; columns in any order; the columns of a table without names count by place."""
    table = pd.DataFrame({"length": X[:, 2], "width": X[:, 3]})
    table["colour"] = pd.Series(np.where(X[:, 2] > 4, "red", None)).astype("category")
    table.loc[:3, "width"] = np.nan
    tree = bl.estimator(learner("decision_tree"), seed=1).fit(table, Y)
    assert tree.n_features_in_ == 3
    assert list(tree.feature_names_in_) == ["length", "width", "colour"]
    assert tree.score(table, Y) > 0.9
    np.testing.assert_array_equal(tree.predict(table[["colour", "width", "length"]]), tree.predict(table))
    with refused("data.unknown-column", "'width'", kind=ValueError):
        tree.predict(table[["colour", "length"]])
    made = bl.estimator(NEAR, seed=1).fit(X, Y)
    again = bl.estimator(NEAR, seed=1).fit(pd.DataFrame(X), Y)
    assert not hasattr(again, "feature_names_in_")
    np.testing.assert_array_equal(again.predict(pd.DataFrame(X)), made.predict(X))


def test_what_is_wrong():
    made = bl.estimator(NEAR, seed=1)
    table = pd.DataFrame(X, columns=list("abcd"))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        made.fit(table, Y[:-1])
    with pytest.raises(ValueError, match="requires y to be passed"):
        made.fit(table, None)
    with pytest.raises(ValueError, match="one class, 0"):
        made.fit(table, 0 * Y)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        made.fit(table, X[:, 0])
    with refused("data.missing", "'d'.*row 1", kind=ValueError):
        made.fit(table.where(table > 0.2), Y)


def test_a_posterior_is_pickled():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 1))
    made = bl.estimator(LINE, target="y", method="exact", seed=1).fit(x, x[:, 0] + rng.normal(size=30))
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.predict(x), made.predict(x))


def test_a_feature_that_bears_the_targets_name_is_refused_not_dropped():
    """It was left out without a word, and the target of an array's columns overwrote the feature of its name."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(30, 3))
    y = x @ [1.0, 2.0, 3.0]
    frame = pd.DataFrame(x, columns=["x1", "y", "x3"])
    with refused("data.conflict", "'y'", kind=ValueError):
        bl.estimator(learner("linear", task="regression")).fit(frame, y)
    model = bl.Model(name="l", model={"family": "learner", "learner": "linear", "target": "x2", "task": "regression"})
    made = bl.estimator(model).fit(x, y)
    assert made.inputs_ == ["x1", "x3", "x4"]
    np.testing.assert_allclose(made.predict(x), y, atol=1e-8)


# ------------------------------------------------------------------------------- sparse rows, and parts


# Without ties of neighbours.
THIN = np.where(X > 3.0, X + 0.01 * np.random.default_rng(5).normal(size=X.shape), 0.0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("word", "options"),
    [("naive_bayes", {"kind": "multinomial"}), ("naive_bayes", {}), ("knn", {"n_neighbors": 3}), ("knn", {"tune": {"n_neighbors": [1, 3]}})],
)  # fmt: skip
def test_sparse_rows_are_dense_rows(word, options):
    """Columns that are not standardised: a sparse matrix is the table of its cells."""
    model = learner(word, task="classification", standardise=False, **options)
    dense, thin = (bl.estimator(model, seed=1).fit(rows, Y) for rows in (THIN, csr_array(THIN)))
    for rows in (THIN, csr_array(THIN)):
        np.testing.assert_allclose(thin.predict_proba(rows), dense.predict_proba(THIN), rtol=1e-6, atol=1e-9)
    assert not hasattr(thin, "fit_") and thin.learner_.predict(csr_array(THIN)).shape == Y.shape


def test_sparse_columns_are_scaled_and_not_centred():
    """Ridge on columns divided by their standard deviations, which scikit-learn does alike."""
    pipeline = make_pipeline(StandardScaler(with_mean=False), Ridge(alpha=2.0)).fit(csr_array(THIN), X[:, 0])
    model = learner("linear", penalty="ridge", alpha=2.0)
    thin = bl.estimator(model, seed=1).fit(csr_array(THIN), X[:, 0])
    np.testing.assert_allclose(thin.predict(csr_array(THIN)), pipeline.predict(csr_array(THIN)), rtol=1e-9)
    assert thin.score(csr_array(THIN), X[:, 0]) > 0.5


def test_scores_of_sparse_rows_are_calibrated():
    thin = bl.estimator(learner("perceptron"), seed=1).fit(csr_array(THIN), Y)
    np.testing.assert_allclose(thin.predict_proba(csr_array(THIN)).sum(axis=1), 1.0)
    assert thin.score(csr_array(THIN), Y) > 0.6


def test_sparse_rows_are_refused_with_what_takes_them():
    with refused("data.not-applicable", r"decision_tree.*toarray\(\).*knn.*naive_bayes"):
        bl.estimator(learner("decision_tree")).fit(csr_array(THIN), Y)
    with refused("data.other-kind", r"toarray\(\)"):
        bl.estimator(LINE, target="y").fit(csr_array(THIN), X[:, 0])
    with refused("data.other-kind", r"toarray\(\)"):
        bl.estimator(NEAR, seed=1).fit(THIN, Y).predict(csr_array(THIN))


@pytest.mark.parametrize("form", [np.asarray, csr_array, lambda rows: pd.DataFrame(rows, columns=list("abcd"))])
@pytest.mark.parametrize(("word", "scaled"), [("naive_bayes", False), ("knn", True)])
def test_parts_are_the_whole(form, word, scaled):
    """Sums of naive Bayes; rows of neighbours, standardised by all of them."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(Y))
    rows, names = THIN[order], np.array(["u", "v", "w"])[Y[order]]
    model = learner(word, task="classification")
    parts, whole = bl.estimator(model, seed=1), bl.estimator(model, seed=1).fit(form(rows), names)
    for part in (slice(0, 40), slice(40, 41), slice(41, 150)):
        parts.partial_fit(form(rows[part]), names[part], classes=["u", "v", "w"])
    np.testing.assert_allclose(parts.predict_proba(form(rows)), whole.predict_proba(form(rows)), rtol=1e-9, atol=1e-12)
    assert parts.predict(form(rows)).tolist() == whole.predict(form(rows)).tolist()


def test_parts_of_numbers_are_least_squares():
    parts = bl.estimator(learner("recursive_least_squares"), seed=1)
    for part in (slice(0, 70), slice(70, 150)):
        parts.partial_fit(X[part, 1:], X[part, 0])
    beta = np.linalg.lstsq(np.column_stack([np.ones(150), X[:, 1:]]), X[:, 0])[0]
    np.testing.assert_allclose(parts.predict(X[:, 1:]), np.column_stack([np.ones(150), X[:, 1:]]) @ beta, rtol=1e-5)


@pytest.mark.parametrize("model", [learner("perceptron"), learner("logistic", solver="stochastic", decay=1000.0)])
def test_passes_over_parts_learn(model):
    """Two classes that a plane separates: passes over the two halves find it, a single class is no plane."""
    rows, classes, parts = X[:100], Y[:100], bl.estimator(model, seed=1)
    order = np.random.default_rng(0).permutation(100)
    for _ in range(20):
        for half in (order[:50], order[50:]):
            parts.partial_fit(rows[half], classes[half])
    assert parts.score(rows, classes) == 1.0


def test_parts_that_cannot_be_are_refused():
    assert not hasattr(bl.estimator(learner("decision_tree")), "partial_fit")
    assert not hasattr(bl.estimator(learner("logistic")), "partial_fit")
    assert not hasattr(bl.estimator(LINE, target="y"), "partial_fit")
    with refused("data.conflict", "clone"):
        bl.estimator(NEAR, seed=1).fit(X, Y).partial_fit(X, Y)
    with refused("model.not-applicable", "tune"):
        bl.estimator(learner("knn", task="classification", tune={"n_neighbors": [1, 3]})).partial_fit(X, Y)
    with refused("data.not-numbers", "'a'"):
        bl.estimator(learner("naive_bayes")).partial_fit(pd.DataFrame({"a": ["u", "v"]}), [0, 1])
    with refused("data.not-applicable", "no probabilities"):
        bl.estimator(learner("perceptron"), seed=1).partial_fit(X, Y).predict_proba(X)
    with pytest.raises(ValueError, match="first call"):
        bl.estimator(learner("naive_bayes")).partial_fit(X[:100], Y[:100]).partial_fit(X[100:], Y[100:])


def test_a_fit_after_parts_starts_anew():
    parts = bl.estimator(NEAR, seed=1).partial_fit(X[:75], Y[:75]).fit(X, Y)
    np.testing.assert_allclose(parts.predict_proba(X), bl.estimator(NEAR, seed=1).fit(X, Y).predict_proba(X))
    assert pickle.loads(pickle.dumps(bl.estimator(NEAR, seed=1).partial_fit(X, Y))).predict(X).shape == (150,)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (["NA", "b"], "missing"),
        (["", "b"], "missing"),
        (["nan", "b"], "missing"),
        ([" a", "a"], "duplicate"),
    ],
)
@pytest.mark.parametrize("model", [NEAR, other(family="regression", formula="y ~ x1", likelihood="bernoulli")])
def test_classes_that_a_table_cannot_tell_apart_are_refused(model, given, code):
    with refused(f"data.{code}", "class"), np.errstate(all="ignore"):
        bl.estimator(model).fit(X[:20], np.array(given)[Y[np.r_[:10, 60:70]]])


@pytest.mark.parametrize("given", [[-5, -3, 4], [10, 9, 100], [" a", "b ", "c d"], ["a=b)", "P(y", "x"]])
def test_classes_are_those_of_the_response(given):
    y = np.array(given)[Y]
    for model in (NEAR, other(family="regression", formula="y ~ x3 + x4", likelihood="categorical")):
        made = bl.estimator(model, seed=1, **({} if model is NEAR else {"method": "map"})).fit(X, y)
        assert made.classes_.tolist() == sorted(given)
        assert np.mean(made.predict(X) == y) > 0.9


def test_weights_beside_columns_called_so():
    columns = pd.DataFrame(X[:, :3], columns=["weight", "row_weight", "_weight"])
    plain, weighted = (bl.estimator(learner("decision_tree"), task="classification", seed=1) for _ in range(2))
    weighted.fit(columns, Y, sample_weight=np.ones(len(Y)))
    assert np.array_equal(plain.fit(columns, Y).predict(columns), weighted.predict(columns))


@pytest.mark.parametrize(
    "y",
    [[1, "a"] * 5, np.array([1.5, "a"] * 5, dtype=object), pd.Series([True, "b"] * 5), ["a", None] * 5],
    ids=["list", "array", "series", "gap"],
)
@pytest.mark.parametrize("word", ["decision_tree", "knn"])
def test_outcomes_of_words_and_numbers(word, y):
    with pytest.raises(ValueError, match=r"row 2"):
        bl.estimator(learner(word, task="classification")).fit(X[:10], y)
