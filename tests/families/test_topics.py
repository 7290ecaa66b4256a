"""Topics through the family: enumeration, planted topics, engines against each other, what is kept, what is refused."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import gammaln, logsumexp

import bayeslab as bl
from bayeslab import fitting
from bayeslab.data.documents import STOP_WORDS, words_of
from bayeslab.engines.toolbox import stepped
from bayeslab.errors import Stopped
from bayeslab.families import topics as family
from bayeslab.families.topics import gibbs_sampling, hierarchical_process, pymc_graph, variational_bayes
from bayeslab.families.topics.documents import documents_of
from bayeslab.latents.topics import topics as lda
from bayeslab.latents.topics.topics import TopicPrior
from tests.refusals import refused

TINY = [["a", "a", "b"], ["b", "c"], ["c", "c", "a"]]
ALPHA, BETA = 0.7, 0.6


def model(k=2, **content):
    return bl.Model(name="m", model={"family": "topics", "topics": k} | content)


def fitted(spec, documents, method=None, **options):
    options = {"seed": 1, "progress": False, "runs": None} | options
    return bl.fit(spec, {"text": documents}, method, **options)


# --------------------------------------------------------------------------------- enumeration


@pytest.fixture(scope="module")
def enumerated():
    """All assignments of topics to the words of TINY: posterior weights, log joints, and means given each."""
    words, owner = np.array([0, 0, 1, 1, 2, 2, 2, 0]), np.array([0, 0, 0, 1, 1, 2, 2, 2])
    weights, chance = [], []
    for z in product(range(2), repeat=len(words)):
        by_document, by_word = np.zeros((3, 2)), np.zeros((2, 3))
        for w, d, k in zip(words, owner, z, strict=True):
            by_document[d, k] += 1
            by_word[k, w] += 1
        joint = gammaln(by_document + ALPHA).sum() - gammaln(by_document.sum(1) + 2 * ALPHA).sum()
        joint += gammaln(by_word + BETA).sum() - gammaln(by_word.sum(1) + 3 * BETA).sum()
        joint += 3 * gammaln(2 * ALPHA) - 6 * gammaln(ALPHA) + 2 * gammaln(3 * BETA) - 6 * gammaln(BETA)
        theta = (by_document + ALPHA) / (by_document.sum(1, keepdims=True) + 2 * ALPHA)
        phi = (by_word + BETA) / (by_word.sum(1, keepdims=True) + 3 * BETA)
        weights.append(joint)
        chance.append(theta @ phi)
    joints = np.array(weights)
    p = np.exp(joints - joints.max())
    counts = np.array([[2, 1, 0], [0, 1, 1], [1, 0, 2]])
    return p / p.sum(), joints, np.array(chance), counts


@pytest.fixture(scope="module")
def tiny_fit():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gibbs_sampling, "KEPT", 500)
        return fitted(model(alpha=ALPHA, beta=BETA), TINY, draws=2000, tune=50)


def agrees(fit, name, exact):
    row = fit.summary().loc[name]
    assert abs(row["mean"] - exact) < 4 * row["mcse_mean"], (name, row["mean"], exact, row["mcse_mean"])


@pytest.mark.slow(why="statistical")
def test_gibbs_is_the_sum_over_all_assignments(enumerated, tiny_fit):
    """lda: the sampler through the family against enumeration."""
    p, joints, predictive, counts = enumerated
    assert tiny_fit.method == "gibbs"
    agrees(tiny_fit, "log_joint", p @ joints)
    agrees(tiny_fit, "log_word", p @ (np.log(predictive) * counts).sum(axis=(1, 2)) / counts.sum())


@pytest.mark.slow(why="compiles")
def test_nuts_is_the_sum_over_all_assignments(enumerated):
    p, _, predictive, _ = enumerated
    fit = fitted(model(alpha=ALPHA, beta=BETA), TINY, "nuts", draws=1000, tune=500, chains=2, target_accept=0.9)
    assert fit.posterior["phi"].dims[2:] == ("topic", "word")
    draws = np.einsum("csdk,cskw->csdw", fit.posterior["theta"].to_numpy(), fit.posterior["phi"].to_numpy())
    exact = np.einsum("z,zdw->dw", p, predictive)
    import arviz as az

    error = az.mcse({"p": draws}, method="mean")["p"].to_numpy()
    assert np.max(np.abs(draws.mean(axis=(0, 1)) - exact) / error) < 4
    assert "are exchangeable" in str(fit.verdict)
    assert fit.topics.n_topics == 2 and np.allclose(fit.topics.phi.sum(axis=1), 1)


def log_evidence(documents):
    """log p(words of the documents), summed over all topics of all of them."""
    words = np.array([ord(word) - ord("a") for document in documents for word in document])
    owner = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
    z = np.array(list(product(range(2), repeat=len(words))))
    by_document = np.stack([(z[:, owner == d] == 0).sum(axis=1) for d in range(len(documents))], axis=1)
    by_document = np.stack([by_document, np.bincount(owner) - by_document], axis=2)
    by_word = np.stack([[(z[:, words == w] == k).sum(axis=1) for w in range(3)] for k in range(2)]).transpose(2, 0, 1)
    joint = 0.0
    for counts, a in ((by_document, ALPHA), (by_word, BETA)):
        size = counts.shape[2] * a
        joint += (gammaln(counts + a) - gammaln(a)).sum(axis=(1, 2))
        joint += (gammaln(size) - gammaln(counts.sum(axis=2) + size)).sum(axis=1)
    return logsumexp(joint)


@pytest.mark.slow(why="statistical")
def test_held_out_probability_is_that_given_the_documents_of_the_fit(tiny_fit, monkeypatch):
    """p(new | old) is p(new, old) / p(old), the topics of all words, new and old, summed out in both."""
    monkeypatch.setattr(gibbs_sampling, "JUDGED", 2_000)
    new = ["a", "c", "c", "c"]
    exact = log_evidence([*TINY, new]) - log_evidence(TINY)
    found = tiny_fit.topics.held_out({"text": [new]})
    assert found.n_words == 4 and 0 < found.mcse < 0.01
    assert "vocabulary" not in str(found)
    strange = tiny_fit.topics.held_out({"text": [[*new, "unheard"]]})  # without a warning, which would be an error
    assert strange.log_probability == found.log_probability
    assert str(strange) == f"{found}, and 1 other not in the vocabulary"
    assert abs(found.log_probability - exact / 4) < 4 * found.mcse
    # With words of topics at their means, as if the new ones said nothing of them, it would be far off.
    kept = tiny_fit.topics.draws
    corpus, rng = lda.Corpus.of([[0, 2, 2, 2]], 3), np.random.default_rng(0)
    prior = TopicPrior(np.full(2, ALPHA), BETA)
    fixed = [lda.held_out(corpus, phi.astype(float), prior, rng)[0] for phi in kept["phi"][1]]
    assert abs(logsumexp(fixed) - np.log(len(fixed)) - exact) / 4 > 8 * found.mcse


@pytest.mark.slow(why="statistical")
def test_new_documents_have_the_topics_that_all_words_say(tiny_fit):
    """Proportions of a new document given the draws of the others, by sums over the topics of its words."""
    kept = tiny_fit.topics.draws
    found = tiny_fit.predict({"text": [["a", "c", "c"]]}, "draws")["theta"].to_numpy()[0, :, 0]
    exact = []
    for phi, size in zip(kept["phi"][1].astype(float), kept["size"][1][:, 0], strict=True):
        weights, means = [], []
        for z in product(range(2), repeat=3):
            one = np.bincount(z, minlength=2)
            by_word = np.stack([np.bincount([w for w, t in zip((0, 2, 2), z, strict=True) if t == k], minlength=3)
                                for k in range(2)])  # fmt: skip
            a = phi * size[:, None]
            joint = (gammaln(one + ALPHA)).sum() + (gammaln(by_word + a) - gammaln(a)).sum()
            weights.append(joint + (gammaln(size) - gammaln(size + one)).sum())
            means.append((one + ALPHA) / (3 + 2 * ALPHA))
        exact.append(np.exp(weights - logsumexp(weights)) @ means)
    gone = found[:, 0] - np.repeat([e[0] for e in exact], len(found) // len(exact))
    assert abs(gone.mean()) < 4 * gone.std() / np.sqrt(len(gone))


@pytest.mark.slow(why="statistical")
def test_tiny_topics_trade_places_and_shares_do_not_collapse(tiny_fit):
    """Draws are paired with each other: without that both topics would have the same words."""
    apart = np.abs(tiny_fit.topics.phi[0] - tiny_fit.topics.phi[1]).max()
    assert apart > 0.1
    np.testing.assert_allclose(tiny_fit.topics.phi.sum(axis=1), 1)
    np.testing.assert_allclose(tiny_fit.topics.theta.sum(axis=1), 1)


# --------------------------------------------------------------------------------- planted topics


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(5)
    phi = np.full((3, 30), 0.1)
    for k in range(3):
        phi[k, 10 * k : 10 * k + 10] += 4
    phi /= phi.sum(axis=1, keepdims=True)
    corpus, theta = lda.simulate([60] * 80, phi, TopicPrior(np.array([0.8, 0.4, 0.2]), 0.1), rng)
    names = np.array([f"w{i:02d}" for i in range(30)])
    documents = [names[corpus.words[a:b]].tolist() for a, b in zip(corpus.offsets, corpus.offsets[1:], strict=False)]
    return phi, theta, documents


@pytest.fixture(scope="module")
def planted_fit(planted):
    return fitted(model(3, alpha="learned", beta=0.1, held_out=0.1), planted[2], draws=500, tune=200)


@pytest.mark.slow(why="large")
def test_planted_topics_are_found(planted, planted_fit):
    """lda: up to their order; rows of topics and proportions sum to 1."""
    phi, theta, _ = planted
    found = planted_fit.topics
    order = lda.align(phi, found.phi)
    assert np.abs(found.phi[order] - phi).max() < 0.05
    kept = found.documents
    assert len(kept) == 72
    assert np.abs(found.theta[:, order] - theta[kept]).mean() < 0.06
    for values in (found.phi, found.theta):
        np.testing.assert_allclose(values.sum(axis=1), 1)
    assert planted_fit.verdict.status != "fail"
    assert "all 3 topics are found by all 4 chains" in str(planted_fit.verdict)


@pytest.mark.slow(why="statistical")
def test_unequal_concentrations_are_learned(planted, planted_fit):
    """The planted 0.8, 0.4, 0.2 (of 80 documents) lie inside the posterior."""
    alpha = planted_fit.data_tree["topics"]["alpha"].to_numpy().reshape(-1, 3)
    total = planted_fit.posterior["alpha_total"].to_numpy()
    np.testing.assert_allclose(total.ravel(), alpha.sum(axis=1))
    assert np.all(np.diff(alpha.mean(axis=0)) < 0)
    z = (alpha.mean(axis=0) - [0.8, 0.4, 0.2]) / alpha.std(axis=0)
    assert np.abs(z).max() < 3.5, z


@pytest.mark.slow(why="statistical")
def test_held_out_documents_are_judged(planted, planted_fit):
    """Near the probability under the planted topics, and never above it by more than chance."""
    phi, _, documents = planted
    out = [d for i, d in enumerate(documents) if i not in set(planted_fit.topics.documents.tolist())]
    assert len(out) == 8
    ids = [[int(word[1:]) for word in d] for d in out]
    corpus = lda.Corpus.of(ids, 30)
    prior = TopicPrior(np.array([0.8, 0.4, 0.2]), 0.1)
    truth = lda.held_out(corpus, phi, prior, np.random.default_rng(0), particles=50).sum() / corpus.n_tokens
    found = planted_fit.topics.held_out()
    assert (found.n_documents, found.n_words) == (8, 480)
    assert truth - 0.06 < found.log_probability < truth + 0.02
    assert 0 < found.mcse < 0.02
    assert f"{found.log_probability:.4f}" in str(planted_fit.verdict)
    given = planted_fit.topics.held_out({"text": out})
    assert given.log_probability == pytest.approx(found.log_probability, abs=4 * found.mcse + 1e-3)


def test_variational_topics_are_those_of_gibbs(planted, planted_fit):
    fit = fitted(model(3, alpha=0.4, beta=0.1), planted[2], "variational", restarts=2)
    order = lda.align(planted_fit.topics.phi, fit.topics.phi)
    assert np.abs(fit.topics.phi[order] - planted_fit.topics.phi).max() < 0.03
    assert "top_phi" in fit.posterior
    row = fit.topics.words(1, 3)
    np.testing.assert_allclose(
        fit.posterior["top_phi"].to_numpy().reshape(-1, 3, 10)[:, 0, :3].mean(axis=0), row["probability"], atol=2e-3
    )
    with refused("engine.refused.not-suited", "variational.*alpha"):
        fitted(model(3, alpha="learned"), planted[2], "variational")


def test_many_documents_come_in_batches(planted, monkeypatch):
    monkeypatch.setattr(variational_bayes, "MANY", 20)
    fit = fitted(model(3, alpha=0.4, beta=0.1), planted[2], "variational", restarts=1)
    assert "in batches, 5 passes" in fit.posterior.attrs["how"]
    order = lda.align(planted[0], fit.topics.phi)
    assert np.abs(fit.topics.phi[order] - planted[0]).max() < 0.05
    assert fit.verdict.status != "fail"


def test_new_documents_are_placed(planted, planted_fit):
    phi, _, documents = planted
    order = lda.align(phi, planted_fit.topics.phi)
    new = [["w00", "w03", "w05"] * 8, ["w25", "w21", "unheard"] * 6]
    wide = planted_fit.predict({"text": new}, "probabilities")  # and no warning: the table has the unknown ones
    assert wide[f"P(topic {order[0] + 1})"][0] > 0.9 and wide[f"P(topic {order[2] + 1})"][1] > 0.8
    assert wide["words"].tolist() == [24, 12] and wide["unknown"].tolist() == [0, 6]
    long = planted_fit.predict({"text": new[:1]}, "mean")
    assert long.groupby(long.columns[0])["mean"].sum().to_numpy() == pytest.approx([1.0])
    drawn = planted_fit.predict({"text": new[:1]}, "draws")["theta"]
    assert drawn.sizes["topic"] == 3 and drawn.sizes["draw"] >= 200
    # A document of the fit is placed where the fit has it.
    d = int(planted_fit.topics.documents[0])
    again = planted_fit.predict({"text": [documents[d]]}, "draws")["theta"].to_numpy()[0, :, 0]
    error = np.hypot(planted_fit.topics.theta_sd[0], again.std(axis=0)) / np.sqrt(len(again) / 10)
    assert np.all(np.abs(again.mean(axis=0) - planted_fit.topics.theta[0]) < 4 * error + 0.01)


@pytest.mark.slow(why="large")
def test_topics_without_a_fixed_number(planted):
    """hdp: the number of used topics is near the planted one, and documents share them."""
    phi, theta, documents = planted
    spec = model("hdp", beta=0.1)
    fit = fitted(spec, documents[:50], draws=150, tune=150, chains=2, cores=1)
    found = fit.topics
    assert found.n_topics == 3
    assert 3 <= fit.posterior["n_topics"].mean() < 6 and fit.posterior["n_large"].mean() == pytest.approx(3, abs=0.3)
    # Some topics of a draw are not stable: the title has the share of the words of those that are.
    part = f"{100 * found.shares.sum():.0f} % of the words; {fit.posterior['n_topics'].mean():.0f} in a draw"
    assert found.title.startswith(f"3 stable topics ({part}) of 50 documents")
    assert part in repr(found) and part in found._repr_html_() and part in found.html()
    order = lda.align(phi, found.phi)
    assert np.abs(found.phi[order] - phi).max() < 0.06
    assert np.abs(found.theta[:, order] - theta[:50]).mean() < 0.08
    assert ((found.theta > 0.1).sum(axis=0) > 5).all()
    assert (found.table()["there"] > 0.9).all() and (found.table()["chains"] == "2 of 2").all()
    # Three words again and again are more like a topic that was not there; ten words are like the first.
    new = [[f"w{i:02d}" for i in range(10)] * 2, ["w00", "w03", "w05"] * 6]
    wide = fit.predict({"text": new}, "probabilities")
    assert wide[f"P(topic {order[0] + 1})"][0] > 0.8 and wide["P(other topics)"][1] > 0.5
    again = fitted(spec, documents[:50], draws=150, tune=150, chains=2, cores=2)
    same(fit, again)
    with refused("model.no-graph", where="model.topics"):
        family.compile(spec, fit.data).graph()
    with refused("model.conflict", "gamma", where="model"):
        model(3, gamma=1.0)


@pytest.mark.slow(why="statistical")
def test_a_process_without_lasting_topics_says_so(planted, monkeypatch, tmp_path):
    monkeypatch.setattr(hierarchical_process, "THERE", 2.0)
    fit = fitted(model("hdp", beta=0.1), planted[2][:8], draws=10, tune=10, chains=2, cores=1)
    found = fit.topics
    assert found.n_topics == 0 and "no topic has 1 % of the words" in str(fit.verdict)
    assert found.table().empty and repr(found).startswith("<0 stable topics (0 % of the words; ")
    found.save_html(tmp_path / "topics.html")
    with refused("option.not-applicable", "topic"):
        found.plot("map")
    wide = fit.predict({"text": [["w00", "w01"]]}, "probabilities")
    assert wide["P(other topics)"].tolist() == [1.0]


def test_topics_of_two_languages(planted):
    """lda-bilingual: words of both languages go with the same topics; a document in one of them is placed."""
    phi, theta, _ = planted
    rng = np.random.default_rng(8)
    names = {"english": [f"e{i:02d}" for i in range(30)], "french": [f"f{i:02d}" for i in range(30)]}
    sides = {"english": phi, "french": phi[:, ::-1]}
    data = {
        name: [
            rng.choice(names[name], 40, p=theta[d] @ sides[name] / (theta[d] @ sides[name]).sum()).tolist()
            for d in range(80)
        ]
        for name in names
    }
    spec = model(3, text=["english", "french"], alpha=0.4, beta=0.1)
    fit = bl.fit(spec, data, draws=150, tune=200, chains=2, seed=1, progress=False, runs=None)
    found = fit.topics
    assert found.languages == ("english", "french")
    english, french = (found.phi[:, found._language == name] for name in names)
    for own, planted_words in ((english, phi), (french, phi[:, ::-1])):
        np.testing.assert_allclose(own.sum(axis=1), 1)
        order = lda.align(phi, english)
        assert np.abs(own[order] - planted_words).max() < 0.05
    assert [c for c in found.table() if c.startswith("words")] == ["words (english)", "words (french)"]
    assert all(word.startswith("f") for word in found.top_words(5, language="french")[0])
    one = fit.predict({"french": [["f29", "f27", "f25"] * 6]}, "probabilities")
    assert one[f"P(topic {lda.align(phi, english)[0] + 1})"][0] > 0.85
    assert fit.topics.held_out({"english": [["e00", "e01"]], "french": [["f29"]]}).n_words == 3
    assert "e0" in found.html()


@pytest.mark.slow(why="statistical")
def test_topics_day_by_day(planted):
    """lda-sequence: shares are chained over days; with tau 0 topics are plain ones, to the last draw."""
    phi, _, _ = planted
    rng, days, documents = np.random.default_rng(9), [], []
    for day in range(12):
        share = np.array([0.05 + 0.08 * day, 0.95 - 0.08 * day - 0.03, 0.03])
        for _ in range(6):
            own = rng.dirichlet(8 * share / share.sum())
            documents.append([f"w{w:02d}" for w in rng.choice(30, 40, p=own @ phi / (own @ phi).sum())])
            days.append(1990 + day)
    shuffled = rng.permutation(len(days))
    data = {"text": [documents[i] for i in shuffled], "date": [days[i] for i in shuffled]}
    fit = bl.fit(
        model(3, time="date", beta=0.1), data, draws=150, tune=200, chains=2, seed=1, progress=False, runs=None
    )
    found = fit.topics
    order = lda.align(phi, found.phi)
    table = found.days().pivot(index="day", columns="topic", values="share")
    rising, falling = table[order[0] + 1], table[order[1] + 1]
    assert rising.iloc[-1] - rising.iloc[0] > 0.5 and falling.iloc[0] - falling.iloc[-1] > 0.5
    assert "tau" in fit.posterior and found.plot("days").axes
    assert table.index.tolist() == list(range(1990, 2002))
    # Documents are told in the order of their days, under their own names.
    assert np.all(np.diff(np.array(data["date"])[found.documents]) >= 0)
    still = bl.fit(
        model(3, time="date", tau=0, alpha=0.3, beta=0.1),
        data,
        draws=20,
        tune=20,
        chains=1,
        seed=2,
        progress=False,
        runs=None,
    )
    in_order = np.argsort(data["date"], kind="stable")
    plain = fitted(
        model(3, alpha=0.3, beta=0.1), [data["text"][i] for i in in_order], draws=20, tune=20, chains=1, seed=2
    )
    np.testing.assert_array_equal(still.posterior["log_joint"].to_numpy(), plain.posterior["log_joint"].to_numpy())


def test_days_are_called_as_in_the_data():
    """Dates keep their distances, in tables and drawings."""
    dates = ["2024-05-01", "2024-01-01", "2024-02-01", "2024-01-01"]
    data = {"text": [["x", "y"], ["y", "z"], ["x"], ["z", "z"]], "date": dates}
    fit = bl.fit(
        model(2, time="date"), data, draws=20, tune=20, chains=1, seed=2, progress=False, runs=None
    )  # fmt: skip
    assert fit.data_tree["topics"]["day"].values.tolist() == ["2024-01-01", "2024-02-01", "2024-05-01"]
    days = fit.topics.days()["day"].drop_duplicates()
    assert days.diff().dt.days.tolist()[1:] == [31, 90]
    line = fit.topics.plot("days").axes[0].lines[0]
    assert np.diff(line.get_xdata()).astype("timedelta64[D]").astype(int).tolist() == [31, 90]


# --------------------------------------------------------------------------------- same seed, same draws


def same(a, b):
    for group in ("posterior", "topics", "topic_draws"):
        for name, values in a.data_tree[group].to_dataset().data_vars.items():
            np.testing.assert_array_equal(values.to_numpy(), b.data_tree[group][name].to_numpy())


def test_one_or_eight_workers_give_the_same_draws(planted):
    spec = model(3, alpha="learned")
    fits = [fitted(spec, planted[2][:20], draws=20, tune=20, chains=3, cores=n) for n in (1, 8)]
    same(*fits)


@pytest.mark.parametrize("tune", [30, 0])
def test_an_interrupted_run_goes_on_exactly(planted, tmp_path, monkeypatch, tune):
    spec, options = model(3, alpha="learned"), {"draws": 40, "tune": tune, "chains": 2, "cores": 1}
    whole = fitted(spec, planted[2][:20], **options)
    real, calls = stepped.wait, []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(stepped, "wait", interrupted)
    # A look after every sweep, so that the chain is caught on its way.
    monkeypatch.setattr(stepped, "LOOK", 0.0)
    try:
        part = fitted(spec, planted[2][:20], runs=tmp_path, **options)
        assert part.info["status"] == "interrupted" and "interrupted" in str(part.verdict)
    except Stopped as error:
        assert "--resume" in str(error)
    monkeypatch.undo()
    same(whole, fitting.resume(tmp_path / "m", progress=False))


def test_a_run_reopens(planted_fit, planted, tmp_path):
    fit = fitted(model(3), planted[2][:20], draws=20, tune=20, chains=2, runs=tmp_path)
    again = bl.open(fit.folder)
    assert list(again.topics.vocabulary) == list(fit.topics.vocabulary)
    same(fit, again)
    new = {"text": [["w00"] * 5]}
    assert fit.predict(new, "probabilities").equals(again.predict(new, "probabilities"))


# --------------------------------------------------------------------------------- ways of giving documents


def test_text_words_and_counts_are_the_same_documents():
    texts = ["The Lion and the mouse; the LION roared!", "A mouse can't roar", "lion's mouse-hole, über alles 7"]
    every = model(stop_words="none", min_length=1)
    text = documents_of(every, fitting.check(every, {"text": texts}))
    words = "the lion and mouse roared a can't roar lion's hole über alles"
    assert text.vocabulary.tolist() == sorted(words.split())
    lists = [words_of(t) for t in texts]
    listed = documents_of(model(), fitting.check(model(), {"text": lists}))
    assert list(listed.vocabulary) == list(text.vocabulary)
    np.testing.assert_array_equal(listed.counts, text.counts)
    spec = model(document="document", word="word", count="count")
    for counts in (text.counts, csr_array(text.counts)):
        table = bl.Topics.table(counts, text.vocabulary)
        counted = documents_of(spec, fitting.check(spec, table))
        assert list(counted.vocabulary) == list(text.vocabulary)
        np.testing.assert_array_equal(counted.counts, text.counts)


def test_stop_words_and_limits():
    texts = ["the cat sat on the mat", "the cat ran", "a dog ran home home", "the bird sang, the cat ran"]

    def vocabulary(**content):
        spec = model(**content)
        return documents_of(spec, fitting.check(spec, {"text": texts})).vocabulary.tolist()

    assert vocabulary() == ["bird", "cat", "dog", "home", "mat", "ran", "sang", "sat"]
    assert vocabulary(more_stop_words=["Cat"]) == ["bird", "dog", "home", "mat", "ran", "sang", "sat"]
    # Of words that are as frequent the first in the alphabet.
    assert vocabulary(most_words=2) == ["cat", "ran"]
    assert vocabulary(stop_words="none", max_share=0.75, min_documents=2) == ["cat", "ran", "the"]
    assert {"the", "and", "of", "thou"} <= STOP_WORDS


def test_counts_of_a_matrix_and_a_zero_row():
    spec = model(document="document", word="word", count="count")
    with refused("data.no-values"):
        fitting.check(spec, bl.Topics.table(np.array([[1, 2], [0, 0], [1, 0]])))
    with refused("model.wrong-shape", "2.*3"):
        bl.Topics.table(np.eye(2), ["a", "b", "c"])


@pytest.mark.parametrize(
    ("content", "data", "code", "match"),
    [
        ({}, {"text": ["lion mouse", "the of and"]}, "data.no-values", "obs_id 1.*3 words"),
        ({}, {"text": ["lion mouse", ""]}, "data.no-values", "obs_id 1.*nothing"),
        ({}, {"text": ["lion lion", "lion"]}, "data.too-few", "'lion'"),
        ({}, {"text": ["the", "of"]}, "data.no-values", "no word"),
        ({}, {"text": [1.0, 2.0]}, "data.not-states", "'text'"),
        ({}, {"txt": ["lion mouse"]}, "model.unknown-column", r"^model\.text.*'txt'.*`text`"),
        ({"topics": 50}, {"text": ["lion mouse", "lion"]}, "data.too-few", r"^model\.topics.*50.*3"),
        ({"held_out": 0.9}, {"text": ["lion mouse", "lion"]}, "data.no-rows", r"^model\.held_out.*2"),
        (
            {"document": "d", "word": "w", "count": "n"},
            {"d": [1, 1], "w": ["a", "b"], "n": [1, -1]},
            "data.not-whole",
            "'n'",
        ),
        (
            {"document": "d", "word": "w", "count": "n"},
            {"d": [1, 1], "w": ["a", "b"], "n": [1, np.inf]},
            "data.not-whole",
            "'n'",
        ),
        (
            {"document": "d", "word": "w", "count": "n"},
            {"d": [1, 1], "w": ["a", "b"], "n": [1, 10**13]},
            "data.too-costly",
            "'n'.*divide",
        ),
        ({"document": "d", "word": "w"}, {"d": [1, 1], "w": ["a", None]}, "data.missing", "'w'"),
    ],
)
def test_bad_documents_are_named(content, data, code, match):
    spec = model(**content)
    with refused(code, match):
        documents_of(spec, fitting.check(spec, data))


@pytest.mark.parametrize(
    ("content", "code", "match"),
    [
        ({"topics": 0}, "model.out-of-range", r"^model\.topics"),
        ({"topics": "many"}, "model.unknown-word", r"^model\.topics.*'many'"),
        ({"alpha": -1}, "model.out-of-range", r"^model\.alpha.*concentrations.*-1"),
        ({"alpha": "learn"}, "model.unknown-word", r"^model\.alpha.*'learn'"),
        ({"alpha": [1.0, 2.0, 3.0]}, "model.wrong-length", "alpha.*3"),
        ({"document": "d"}, "model.incomplete", "`document`.*`word`"),
        ({"text": "t", "document": "d", "word": "w"}, "model.conflict", "`text`.*`document`"),
        ({"count": "n"}, "model.conflict", "`count`.*`document`"),
        ({"stop_words": "french"}, "model.unknown-word", r"^model\.stop_words.*'french'"),
        ({"held_out": 1.0}, "model.out-of-range", r"^model\.held_out.*'1\.0'"),
        ({"text": "theta"}, "model.reserved-name", "'theta'"),
        ({"topics": "hdp", "time": "day"}, "model.unsupported", "`time`.*topics"),
        ({"tau": 0.1}, "model.conflict", "`tau`.*`time`"),
        ({"text": ["a", "b"], "beta": "learned"}, "model.unsupported", "beta"),
    ],
)
def test_bad_models_are_named(content, code, match):
    with refused(code, match):
        model(**({"k": content.pop("topics")} if "topics" in content else {}), **content)


def test_large_graphs_are_refused(monkeypatch):
    monkeypatch.setattr(pymc_graph, "MOST_PARAMETERS", 8)
    with refused("model.too-costly"):
        family.compile(model(), fitting.check(model(), {"text": TINY})).graph()


# --------------------------------------------------------------------------------- results


def test_simulated_words_follow_topics_and_proportions():
    """lda-generate: frequencies of words are those of the proportions and topics they are drawn from."""
    spec = bl.Model(model={"family": "topics", "topics": 2, "words_per_document": 5000}, dims={"obs_id": 3, "word": 4})
    tree = bl.simulate(spec, draws=40, seed=2)
    theta, phi = (tree["prior"][n].to_numpy()[0] for n in ("theta", "phi"))
    counts = tree["prior_predictive"]["counts"].to_numpy()[0]
    chance = theta @ phi
    assert np.all(counts.sum(axis=2) == 5000)
    z = (counts - 5000 * chance) / np.sqrt(np.maximum(5000 * chance * (1 - chance), 1))
    likely = 5000 * chance > 5
    assert np.abs(z[likely]).max() < 5 and 0.8 < z[likely].std() < 1.2


def test_tables_pictures_and_the_page(planted_fit, tmp_path):
    pytest.importorskip("matplotlib")
    found = planted_fit.topics
    table = found.table(5)
    ends = ["coherence", "coherence_lb", "coherence_ub"]
    assert list(table.columns) == ["share", "eti89_lb", "eti89_ub", "alpha", "chains", *ends, "words"]
    assert (np.diff(table[["coherence_lb", "coherence", "coherence_ub"]], axis=1) > -1e-9).all()
    assert (found.coherence({"text": [[f"w{i:02d}", f"w{i + 1:02d}"] for i in range(29)]})["coherence"] < 0).all()
    assert table["share"].sum() == pytest.approx(1) and (table["chains"] == "4 of 4").all()
    assert all(len(words.split()) == 5 for words in table["words"])
    first = found.words(1, 4, relevance=0.2)
    assert (first["lift"] > 1).all() and set(first["word"]) <= set(found.vocabulary)
    assert found.proportions().shape == (72, 3)
    best = found.documents_of(1, 3)
    assert best["proportion"].is_monotonic_decreasing
    for what in ("words", "shares", "documents", "map"):
        assert found.plot(what).axes
    with refused("option.unknown-word", "'cloud'"):
        found.plot("cloud")
    with refused("option.out-of-range", "topics.*3"):
        found.words(0)
    assert "3 topics of 72 documents" in repr(found) and "found by" in found._repr_html_()
    assert "found by" in planted_fit._repr_html_()


def test_the_page_loads_nothing_and_runs_nothing_of_the_data(tmp_path):
    evil = "</script><img/src=x>"
    fit = fitted(model(2), [[evil, "b"], ["c", evil], ["b", "c"]], draws=10, tune=10, chains=2)
    fit.topics.save_html(tmp_path / "topics.html")
    page = (tmp_path / "topics.html").read_text(encoding="utf-8")
    assert "<img" not in page and page.count("</script>") == 2
    assert not re.search(r"(src|href)\s*=", page.replace(evil.replace("<", "\\u003c"), "").replace("img/src=x", ""))
    assert set(re.findall(r"https?://[^\"']+", page)) == {"http://www.w3.org/2000/svg"}
    assert "<img/src" not in fit._repr_html_()


def test_what_topics_do_not_have():
    fit = fitted(model(2), TINY, draws=20, tune=10, chains=2)
    with refused("option.not-applicable", r"held_out.*0\.1"):
        fit.log_likelihood()
    with refused("option.not-applicable", r"held_out.*0\.1"):
        bl.compare({"a": fit, "b": fit})
    seen = fit.data_tree["observed_data"]["counts"]
    assert seen.to_numpy().tolist() == [2, 1, 1, 1, 1, 2]
    with refused("option.not-kept", r"`held_out: 0\.1`"):
        fit.topics.held_out()
    with refused("data.no-values"):
        fit.topics.held_out({"text": [["x", "y"]]})


def test_the_mode_of_coordinates_is_not_offered_as_that_of_shares():
    model = bl.Model(name="m", model={"family": "topics", "topics": 2, "alpha": [2.5, 1.7], "beta": 2})
    documents = {"text": ["apple banana", "apple cherry", "cherry date", "date banana"]}
    with refused("engine.refused.no-mode"):
        bl.fit(model, documents, method="map", seed=1, runs=None)


def test_documents_are_not_left_out_by_an_outcome():
    with refused("data.not-a-column", "family topics"):
        bl.cross_validate({"m": model()}, {"text": ["a b", "b c", "a c", "c d"]}, folds=2, progress=False)
