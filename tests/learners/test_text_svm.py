"""Machines of texts from model files: strings, words and trees."""

from __future__ import annotations

import numpy as np

import bayeslab as bl
from bayeslab.learners.svm import SVMClassifier
from bayeslab.learners.toolbox.string_kernel import SubsequenceKernel
from tests.refusals import refused


def texts(rng, n):
    """Texts in two languages with one alphabet: which syllables follow which."""
    words = {"a": ["kalo", "mira", "tonu", "sela"], "b": ["loka", "rami", "nuto", "lase"]}
    y = np.array(["a", "b"])[np.arange(n) % 2]
    return ["".join(rng.choice(words[c], 4)) for c in y], y.tolist()


def model(**options):
    given = {"family": "learner", "learner": "text_svm", "target": "language", "inputs": ["text"], **options}
    return bl.Model(model=given, inference={"folds": 3})


def test_strings(tmp_path):
    """svm-kernel-strings: from a model file, new texts and all; kept in a run, opened again, the same answers."""
    rng = np.random.default_rng(0)
    rows, y = texts(rng, 60)
    new, truth = texts(rng, 40)
    fit = bl.fit(model(length=2, decay=0.3), {"text": rows, "language": y}, runs=tmp_path, seed=1)
    said = fit.predict({"text": new})
    probable = np.where(said["P(language=a)"] > 0.5, "a", "b")
    assert np.mean(probable == truth) > 0.95
    plain = SVMClassifier(10.0, SubsequenceKernel(2, 0.3)).fit(rows, y)
    np.testing.assert_array_equal(fit.learner.learner.support_, plain.support_)
    again = bl.open(fit.folder).predict({"text": new})
    np.testing.assert_allclose(again["P(language=a)"], said["P(language=a)"])
    assert float(fit.data_tree["cross_validation"]["score"][0]) > 0.9


def test_words_and_trees():
    """svm-kernel-strings: subsequences of words, and fragments of trees; and of letters, which see neither."""
    rng = np.random.default_rng(1)
    names, verbs = ["Ann", "Bob", "Cem", "Dora"], ["sees", "hears", "likes"]
    rows, y = [], []
    for i in range(60):
        a, v, b = rng.choice(names), rng.choice(verbs), rng.choice(names)
        rows.append(f"(S (NP {a}) (VP (V {v}) (NP {b})))" if i % 2 else f"(S (NP {a}) (NP {b}) (VP (V {v})))")
        y.append("middle" if i % 2 else "end")
    fit = bl.fit(model(kernel="tree"), {"text": rows, "language": y}, runs=None, seed=1)
    said = fit.predict({"text": ["(S (NP Eve) (VP (V greets) (NP Finn)))", "(S (NP Eve) (NP Finn) (VP (V greets)))"]})
    assert (said["P(language=middle)"].to_numpy() > 0.5).tolist() == [True, False]
    rows = [" ".join(rng.permutation(names)) for _ in range(120)]
    y = ["yes" if r.index("Ann") < r.index("Bob") else "no" for r in rows]
    fit = bl.fit(model(unit="words", length=2, decay=1.0), {"text": rows, "language": y}, runs=None, seed=1)
    new = [" ".join(rng.permutation(names)) for _ in range(30)]
    right = np.array([r.index("Ann") < r.index("Bob") for r in new])
    assert ((fit.predict({"text": new})["P(language=yes)"].to_numpy() > 0.5) == right).all()


def test_numbers_of_texts():
    rng = np.random.default_rng(2)
    rows = ["".join(rng.choice(list("abc"), 12)) for _ in range(80)]
    count = np.array([float(r.count("a")) for r in rows])
    fit = bl.fit(model(length=1, target="count"), {"text": rows, "count": count}, runs=None, seed=1)
    new = ["".join(rng.choice(list("abc"), 12)) for _ in range(20)]
    said = fit.predict({"text": new})["mean"].to_numpy()
    assert np.corrcoef(said, [r.count("a") for r in new])[0, 1] > 0.95


def test_refused():
    with refused("data.not-states", "'x'.*text_svm"):
        bl.fit(model(inputs=["x"]), {"x": np.arange(6.0), "language": list("ababab")}, runs=None, seed=1)
    with refused("data.missing", "'text'.*row 2"):
        bl.fit(model(), {"text": ["u", None, "v", "w", "x", "y"], "language": list("ababab")}, runs=None, seed=1)
    with refused("data.failed", "text_svm.*tree.*'u'"):
        bl.fit(model(kernel="tree"), {"text": list("uvwxyz"), "language": list("ababab")}, runs=None, seed=1)
    both = {"text": list("uvwxyz"), "more": list("uvwxyz"), "language": list("ababab")}
    with refused("data.failed", "text_svm.*column.*2"):
        bl.fit(model(inputs=["text", "more"]), both, runs=None, seed=1)
    voting = {"learners": [{"learner": "text_svm"}, {"learner": "knn"}], "learner": "voting"}
    with refused("data.failed", "voting.*text_svm"):
        bl.fit(model(**voting), {"text": list("uvuvuv"), "language": list("ababab")}, runs=None, seed=1)
