"""The topics of a fit: their words, their documents, and their reliability.

Draws of topics come from chains (method gibbs keeps some of them, methods with a graph all) or from an approximation.
Results for a topic by its number use draws whose topics have been matched; the probability of new documents does not
depend on the numbering.

References
----------
.. [1] Sievert, Shirley (2014). LDAvis: a method for visualizing and interpreting topics. ACL workshop on interactive
   language learning, visualization, and interfaces, 63-70 (relevance).
.. [2] Wallach, Murray, Salakhutdinov, Mimno (2009). Evaluation methods for topic models. ICML 26.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.cells import WORDS_APART
from bayeslab.errors import DataError, OptionError, RunError, hint
from bayeslab.families.topics.documents import Documents, counted, new_documents
from bayeslab.families.topics.gibbs_sampling import SAME, Kept, held_out_group, of_draw, per_word
from bayeslab.families.topics.posterior import TopicsPosterior
from bayeslab.families.topics.spec import Topics, prior_of
from bayeslab.files import write_text
from bayeslab.latents.topics import topics as lda
from bayeslab.latents.topics.topic_coherence import coherence_interval
from bayeslab.plots import topics as plots
from bayeslab.posterior.groups import labelled
from bayeslab.results.fitted import Fitted, bound_to
from bayeslab.results.render import topics_html
from bayeslab.results.topic_viewer import page
from bayeslab.streams import stream

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["PICTURES", "FittedTopics", "HeldOut", "applicable", "predicted", "rich_table", "topics_of"]

PICTURES = ("words", "shares", "documents", "map", "days")
# For predictions: maximum number of draws of topics, approximate number of draws of proportions, and of word visits.
_KEPT, _DRAWS, _VISITS, _TUNE = 40, 200, 200_000_000, 30


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The probability of held-out documents.

    Attributes
    ----------
    log_probability : float
        Log probability per word: that of the documents divided by their number of words.
    mcse : float
        Monte Carlo standard error of ``log_probability``.
    n_documents, n_words : int
    n_unknown : int
        Number of words that the fit does not know, which are left out.
    """

    log_probability: float
    mcse: float
    n_documents: int
    n_words: int
    n_unknown: int = 0

    @property
    def perplexity(self) -> float:
        """The perplexity: exp of minus the log probability per word, the equivalent number of equally likely words."""
        return float(np.exp(-self.log_probability))

    def __str__(self) -> str:
        words = counted(self.n_words, "word")
        if self.n_unknown:
            words += f", and {counted(self.n_unknown, 'other')} not in the vocabulary"
        return (
            f"log probability of a word {self.log_probability:.4f} ± {self.mcse:.2g} (Monte Carlo error), perplexity"
            f" {self.perplexity:,.1f}, in {counted(self.n_documents, 'document')} with {words}"
        )


def topics_of(fit: Fitted) -> FittedTopics:
    """The topics of a fit.

    Raises
    ------
    OptionError
        The model has no topics.
    """
    if not isinstance(fit.bound_model, TopicsPosterior):
        raise OptionError(f"a fit of the family {fit.model.model.family} has no topics", code="other-family")
    return FittedTopics(fit)


def applicable(fit: Fitted) -> tuple[str, ...]:
    """The names of the plots that a fit has."""
    topics = topics_of(fit)
    return tuple(name for name in PICTURES if topics.n_topics and (name != "days" or topics.has_days))


def _posterior(fit: Fitted) -> TopicsPosterior:
    assert isinstance(fit.bound_model, TopicsPosterior)
    return fit.bound_model


class FittedTopics:
    """The topics of a fit, numbered from 1, most common first.

    Attributes
    ----------
    vocabulary : ndarray of str
    phi : ndarray (n_topics, n_words)
        Posterior means of the probabilities of words.
    theta : ndarray (n_documents, n_topics)
        Posterior means of the proportions of topics.
    phi_sd, theta_sd : ndarray
        Posterior standard deviations.
    languages : tuple of str
        Columns of documents in several languages; each topic has word probabilities for each language.
    word_shares : ndarray (n_words,)
        Share of each word among all words.
    lengths : ndarray (n_documents,)
        Number of words of each document.
    documents : ndarray
        Names of the documents.
    """

    def __init__(self, fit: Fitted) -> None:
        self._fit = fit
        self._coherences: dict[float, tuple[np.ndarray, ...]] = {}
        group = self._group
        self.vocabulary = np.asarray(group["word"].to_numpy()).astype(str)
        language = group["language"].to_numpy().astype(str) if "language" in group else None
        self.languages = tuple(dict.fromkeys(language.tolist())) if language is not None else ()
        self.shown = self.vocabulary
        if language is not None:
            self.shown = np.array([f"{word} ({code})" for word, code in zip(self.vocabulary, language, strict=True)])
        self._language = language
        self.phi = group["phi"].to_numpy()
        self.theta = group["theta"].to_numpy()
        self.phi_sd, self.theta_sd = group["phi_sd"].to_numpy(), group["theta_sd"].to_numpy()
        self.word_shares, self.lengths = group["word_share"].to_numpy(), group["n_words"].to_numpy()
        self.dim = str(group["theta"].dims[0])
        self.documents = group[self.dim].to_numpy() if self.dim in group.coords else np.arange(len(self.theta))

    @cached_property
    def _group(self) -> xr.Dataset:
        """Posterior means and standard deviations."""
        tree = self._fit.data_tree
        if "topics" in tree.children:
            return tree["topics"].to_dataset()
        posterior = self._fit.posterior.to_dataset()
        if "phi" not in posterior:
            raise OptionError("this fit has no topics", code="not-applicable")
        fitted = self._fitted
        theta, phi = posterior["theta"], posterior["phi"]
        over = ("chain", "draw")
        weight = fitted.corpus.lengths / fitted.corpus.n_tokens
        shares = np.einsum("d,csdk->csk", weight, theta.transpose("chain", "draw", ..., "topic").to_numpy())
        kept = posterior[["alpha"]] if "alpha" in posterior else posterior.drop_vars(list(posterior.data_vars))
        return kept.assign(
            phi=phi.mean(over),
            phi_sd=phi.std(over),
            theta=theta.mean(over),
            theta_sd=theta.std(over),
            share=(("chain", "draw", "topic"), shares),
            word_share=(("word",), fitted.word_shares),
            n_words=((fitted.dim,), fitted.corpus.lengths),
        )

    @cached_property
    def _fitted(self) -> Documents:
        return _posterior(self._fit).documents

    @cached_property
    def draws(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
        """Some draws of topics and concentrations: ``phi`` (kept, topic, word), ``alpha``, ``beta``, ``from_chain``."""
        tree = self._fit.data_tree
        if "topic_draws" in tree.children:
            group = tree["topic_draws"].to_dataset()
            return {str(n): (tuple(map(str, v.dims)), v.to_numpy()) for n, v in group.data_vars.items()}
        return self._drawn_from_posterior()

    def _drawn_from_posterior(self) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:

        spec = self._fit.model.model
        assert isinstance(spec, Topics)
        posterior = self._fit.posterior.to_dataset()
        chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
        some = np.unique(np.linspace(0, chains * draws - 1, min(chains * draws, _KEPT)).astype(int))
        prior = prior_of(spec)

        def flat(name: str, known: Any) -> np.ndarray:
            if name not in posterior:
                return np.broadcast_to(known, (len(some), *np.shape(known)))
            values = posterior[name].to_numpy()
            return np.asarray(values.reshape(-1, *values.shape[2:])[some])

        return {
            "phi": (("kept", "topic", "word"), flat("phi", None)),
            "alpha": (("kept", "topic"), flat("alpha", prior.alpha)),
            "beta": (("kept",), flat("beta", prior.beta)),
            "from_chain": (("kept",), some // draws),
        }

    @property
    def blocks(self) -> np.ndarray | None:
        """Start positions of the words of each language; None for a single language."""
        if self._language is None:
            return None
        return np.append(0, np.cumsum([np.sum(self._language == code) for code in self.languages]))

    # -- tables

    @property
    def n_topics(self) -> int:
        return len(self.phi)

    @property
    def title(self) -> str:
        """A title with the numbers of topics, documents and words."""
        n_documents, n_words = counted(len(self.documents), "document"), counted(len(self.vocabulary), "word")
        topics = counted(self.n_topics, "topic")
        if "there" in self._group and "n_topics" in (posterior := self._fit.posterior):
            whole = float(np.mean(posterior["n_topics"].to_numpy()))
            share = 100 * float(self.shares.sum())
            topics = f"{counted(self.n_topics, 'stable topic')} ({share:.0f} % of the words; {whole:.0f} in a draw)"
        return f"{topics} of {n_documents}, {n_words}"

    @property
    def shares(self) -> np.ndarray:
        """Share of each topic among all words, (n_topics,): posterior means."""
        values = self._group["share"]
        over = [d for d in values.dims if d != "topic"]
        return np.asarray(values.mean(over).to_numpy() if over else values.to_numpy())

    def table(self, n_words: int = 10, *, relevance: float = 1.0, ci_prob: float = 0.89) -> pd.DataFrame:
        """A table with one row per topic.

        Parameters
        ----------
        n_words
            Number of words per topic.
        relevance
            Weight λ of the relevance: 1 ranks words by probability; smaller values favour words that are more
            frequent in the topic than elsewhere (0.6 is a good choice).
        ci_prob
            Probability of the equal-tailed interval of a topic's share of all words.

        Returns
        -------
        pandas.DataFrame
            ``share`` of all words and its interval; ``alpha``, the topic's concentration if it is learned; ``there``,
            the share of the draws with the topic if their number is not fixed; ``chains``, the number of chains with
            the topic; ``coherence`` (see :meth:`coherence`) and its interval; and ``words``.
        """
        import pandas as pd

        out: dict[str, Any] = {"share": self.shares}
        values = self._group["share"]
        if "draw" in values.dims and values.sizes["chain"] * values.sizes["draw"] > 1:
            use = values
            if "agrees" in self._group:
                use = values.isel(chain=np.flatnonzero(self._group["agrees"].to_numpy()))
            tail = (1 - ci_prob) / 2
            low, high = np.quantile(use.to_numpy().reshape(-1, self.n_topics), [tail, 1 - tail], axis=0)
            out["share"] = use.to_numpy().reshape(-1, self.n_topics).mean(axis=0)
            out |= {f"eti{100 * ci_prob:g}_lb": low, f"eti{100 * ci_prob:g}_ub": high}
        if "alpha" in self._group:
            agrees = self._group["agrees"].to_numpy() if "agrees" in self._group else slice(None)
            out["alpha"] = self._group["alpha"].to_numpy()[agrees].mean(axis=(0, 1))
        if "there" in self._group:
            out["there"] = self._group["there"].to_numpy()
        if "likeness" in self._group:
            n_chains = (self._group["likeness"].to_numpy() >= SAME).sum(axis=0)
            out["chains"] = [f"{n} of {self._group.sizes['chain']}" for n in n_chains]
        out |= dict(zip(("coherence", "coherence_lb", "coherence_ub"), self._coherence(ci_prob), strict=True))
        for language in self.languages or (None,):
            name = "words" if language is None else f"words ({language})"
            rows = self.top_words(n_words, relevance=relevance, language=language)
            out[name] = [" ".join(row) for row in rows]
        return pd.DataFrame(out, index=pd.Index(np.arange(1, self.n_topics + 1), name="topic"))

    def _coherence(self, ci_prob: float) -> tuple[np.ndarray, ...]:
        """Means and interval ends of the coherence, computed once."""
        if ci_prob not in self._coherences:
            table = self.coherence(ci_prob=ci_prob)
            self._coherences[ci_prob] = tuple(table[name].to_numpy() for name in table)
        return self._coherences[ci_prob]

    def top_words(self, n: int = 10, *, relevance: float = 1.0, language: str | None = None) -> list[list[str]]:
        """The words of each topic, most probable (or most relevant) first; for several languages, of one of them."""
        order = self.ranked(relevance)
        if language is None:
            return [[str(word) for word in self.shown[row]] for row in order[:, :n]]
        if self._language is None or language not in self.languages:
            raise OptionError(f"no language '{language}'{hint(language, self.languages)}", code="unknown-word")
        of_language = self._language == language
        return [[str(word) for word in self.vocabulary[row[of_language[row]][:n]]] for row in order]

    def ranked(self, relevance: float = 1.0) -> np.ndarray:
        """Indices of the words of each topic, shape (n_topics, n_words), most relevant first."""
        if not 0 <= relevance <= 1:
            raise OptionError(f"relevance lies between 0 and 1, not {relevance!r}", code="out-of-range")
        everywhere = self.word_shares
        log_phi = np.log(np.maximum(self.phi, 1e-300))
        score = relevance * log_phi + (1 - relevance) * (log_phi - np.log(np.maximum(everywhere, 1e-300)))
        return np.argsort(-score, axis=1, kind="stable")

    def words(self, topic: int, n: int = 10, *, relevance: float = 1.0) -> pd.DataFrame:
        """The words of one topic: probability, its standard deviation, and its ratio to the word's overall share."""
        import pandas as pd

        k = self._number(topic)
        order = self.ranked(relevance)[k, :n]
        everywhere = self.word_shares[order]
        return pd.DataFrame(
            {
                "word": self.shown[order],
                "probability": self.phi[k, order],
                "sd": self.phi_sd[k, order],
                "lift": self.phi[k, order] / np.maximum(everywhere, 1e-300),
            }
        )

    def proportions(self) -> pd.DataFrame:
        """Posterior means of the topic proportions: one row per document, one column per topic."""
        import pandas as pd

        columns = pd.Index(np.arange(1, self.n_topics + 1), name="topic")
        return pd.DataFrame(self.theta, index=pd.Index(self.documents, name=self.dim), columns=columns)

    @property
    def has_days(self) -> bool:
        """Whether the documents have days."""
        return "day_share" in self._group

    def days(self) -> pd.DataFrame:
        """Means and standard deviations of the topics' shares by day, one row per day and topic.

        Days are those of the data; dates are NumPy dates, so that a plot spaces them correctly.

        Raises
        ------
        OptionError
            The model has no ``time``.
        """
        import pandas as pd

        if not self.has_days:
            raise OptionError("documents have no days: the model names their column with `time`", code="not-applicable")
        mean, sd = (self._group[name].to_numpy() for name in ("day_share", "day_share_sd"))
        days = self._group["day"].to_numpy()
        when = days if np.issubdtype(days.dtype, np.number) else pd.to_datetime(days.astype(str), format="ISO8601")
        index = pd.MultiIndex.from_product([when, range(1, self.n_topics + 1)], names=["day", "topic"])
        return pd.DataFrame({"share": mean.ravel(), "sd": sd.ravel()}, index=index).reset_index()

    def documents_of(self, topic: int, n: int = 5) -> pd.DataFrame:
        """The documents with the largest proportions of a topic."""
        import pandas as pd

        k = self._number(topic)
        order = np.argsort(-self.theta[:, k], kind="stable")[:n]
        columns = {"proportion": self.theta[order, k], "sd": self.theta_sd[order, k]}
        return pd.DataFrame({self.dim: self.documents[order]} | columns)

    def _number(self, topic: int) -> int:
        if isinstance(topic, bool) or not isinstance(topic, int | np.integer) or not 1 <= topic <= self.n_topics:
            raise OptionError(f"topics are numbered from 1 to {self.n_topics}; given {topic!r}", code="out-of-range")
        return int(topic) - 1

    # -- evaluation

    def held_out(self, data: Any = None) -> HeldOut:
        """The probability of held-out documents, by the left-to-right particle algorithm of Wallach et al. (2009).

        The probability of each document given the documents of the fit is estimated separately: it is averaged over
        draws of the topic assignments (or of the topics, for methods with a graph), and given a draw it is estimated
        without bias, with proportions and topics integrated out. (Other programs often print a lower bound.)

        Parameters
        ----------
        data
            Documents; None: those held out by the model's ``held_out``.
        """
        n_unknown = 0
        if data is None and self._fit.has_group("held_out"):
            group = self._fit.data_tree["held_out"].to_dataset()
            variables = {str(n): (tuple(map(str, v.dims)), v.to_numpy()) for n, v in group.data_vars.items()}
        else:
            documents = self._apart(data)
            variables, n_unknown = held_out_group(documents, self.draws), int(documents.unknown.sum())
        value, error = per_word(*(variables[name][1] for name in ("log_probability", "n_words", "from_chain")))
        sizes = variables["n_words"][1]
        return HeldOut(value, error, len(sizes), int(sizes.sum()), n_unknown)

    def coherence(
        self,
        data: Any = None,
        *,
        measure: Literal["npmi", "umass"] = "npmi",
        n_words: int = 10,
        ci_prob: float = 0.89,
    ) -> pd.DataFrame:
        """The coherence of each topic: how often its top words co-occur, with means and intervals over draws.

        Coherence measures how readable topics are. To choose the number of topics, use :meth:`held_out`.

        Parameters
        ----------
        data
            Documents in which co-occurrences are counted; None: those of the fit.
        measure
            ``npmi``: normalised pointwise mutual information, from -1 (never together) to 1; or ``umass``.
        n_words
            Number of top words per topic.
        ci_prob
            Probability of the equal-tailed interval.
        """
        import pandas as pd

        documents = self._fitted if data is None else self._apart(data)
        draws = self.draws["phi"][1][:, : self.n_topics]
        interval = coherence_interval(documents.corpus, draws, measure=measure, top=n_words, probability=ci_prob)
        percent = f"{100 * ci_prob:g}"
        columns = {"coherence": interval.mean, f"eti{percent}_lb": interval.low, f"eti{percent}_ub": interval.high}
        return pd.DataFrame(columns, index=pd.Index(np.arange(1, self.n_topics + 1), name="topic"))

    def _apart(self, data: Any) -> Documents:
        if data is None:
            documents = _posterior(self._fit).held_out
            if documents is None:
                raise OptionError(
                    "there are no held-out documents: give some, or set `held_out: 0.1` in the model",
                    code="not-kept",
                )
            return documents

        documents = new_documents(self._fit.model, bound_to(self._fit, data), self.vocabulary, self.blocks)
        if not documents.corpus.n_tokens:
            raise DataError("the documents have no words of the fit's vocabulary", code="no-values")
        return documents

    # -- plots

    def plot(self, what: str = "words", *, n_words: int = 8) -> Any:
        """Plot the topics; a matplotlib figure.

        Parameters
        ----------
        what
            ``words`` (the most probable words of each topic, with intervals), ``shares`` (of the topics among all
            words), ``documents`` (topic proportions), ``map`` (distances between topics), ``days`` (shares of topics
            by day).
        """

        if what not in PICTURES:
            raise OptionError(f"unknown picture '{what}'{hint(what, PICTURES)}", code="unknown-word")
        if not self.n_topics:
            raise OptionError("no topic is in half of the draws: there is nothing to plot", code="not-applicable")
        if what == "words":
            each = [self.words(k, n_words) for k in range(1, self.n_topics + 1)]
            return plots.words(each)
        if what == "shares":
            return plots.shares(self.table())
        if what == "days":
            return plots.days(self.days())
        if what == "documents":
            return plots.proportions(self.theta, [str(x) for x in self.documents])
        return plots.topic_map(self.coordinates, self.shares, [" ".join(row) for row in self.top_words(3)])

    @cached_property
    def coordinates(self) -> np.ndarray:
        """Topics as points (n_topics, 2): a two-dimensional scaling of Jensen-Shannon distances between topics."""
        return classical_scaling(jensen_shannon(self.phi))

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write an interactive HTML page of the topics: one file without external resources."""

        try:
            write_text(Path(path), self.html())
        except OSError as error:
            raise RunError(f"cannot be written: {error.strerror}", where=str(path), code="cannot-write") from None

    def html(self) -> str:
        """The page that :meth:`save_html` writes."""
        return page(_content(self, self._fit))

    def __repr__(self) -> str:
        lines = [f"<{self.title}>"]
        shares = self.table(1)["share"]
        lines += [
            f"{k:>3} {100 * share:5.1f} %  {' '.join(words)}"
            for k, (share, words) in enumerate(zip(shares, self.top_words(8), strict=True), 1)
        ]
        return "\n".join(lines)

    def __rich__(self) -> Any:
        return rich_table(self.table())

    def _repr_html_(self) -> str:

        return topics_html(self.rows(), self.title)

    def rows(self, n_words: int = 8) -> list[dict[str, Any]]:
        """The displayed content of each topic: number, share, number of chains, words with probability and sd."""
        table = self.table(n_words)
        out = []
        for k in range(1, self.n_topics + 1):
            words = self.words(k, n_words)
            out.append(
                {
                    "topic": k,
                    "share": float(table["share"][k]),
                    "chains": str(table["chains"][k]) if "chains" in table else "",
                    "words": list(zip(words["word"], words["probability"], words["sd"], strict=True)),
                }
            )
        return out


def rich_table(table: pd.DataFrame) -> Any:
    """:meth:`FittedTopics.table` for a terminal."""
    from rich.markup import escape
    from rich.table import Table

    out = Table(box=None, pad_edge=False, header_style="bold")
    intervals = [name for name in table if str(name).startswith("eti")]
    out.add_column("topic", justify="right")
    out.add_column("share", justify="right", no_wrap=True)
    if intervals:
        out.add_column("", no_wrap=True, style="dim")
    if "there" in table:
        out.add_column("there", justify="right", no_wrap=True)
    if "chains" in table:
        out.add_column("found by", no_wrap=True)
    out.add_column("coherence", justify="right", no_wrap=True)
    out.add_column("", no_wrap=True, style="dim")
    words = [str(name) for name in table if str(name).startswith("words")]
    for name in words:
        out.add_column(name)
    for row in table.reset_index().to_dict("records"):
        cells = [str(row["topic"]), f"{100 * row['share']:.1f} %"]
        if intervals:
            cells.append(f"{100 * row[intervals[0]]:.1f}–{100 * row[intervals[1]]:.1f}")
        if "there" in table:
            cells.append(f"{100 * row['there']:.0f} %")
        if "chains" in table:
            whole = row["chains"].split(" of ")
            cells.append(row["chains"] if whole[0] == whole[1] else f"[yellow]{row['chains']}[/yellow]")
        cells += [f"{row['coherence']:.2f}", f"{row['coherence_lb']:.2f}–{row['coherence_ub']:.2f}"]
        out.add_row(*cells, *(escape(row[name]) for name in words))
    return out


def jensen_shannon(phi: np.ndarray) -> np.ndarray:
    """Distances between topics (n_topics, n_topics): the square root of the Jensen-Shannon divergence in bits."""
    n, out = len(phi), np.zeros((len(phi), len(phi)))
    entropy = -np.sum(phi * np.log2(np.maximum(phi, 1e-300)), axis=1)
    for i in range(n):
        middle = (phi[i] + phi) / 2
        between = -np.sum(middle * np.log2(np.maximum(middle, 1e-300)), axis=1)
        out[i] = np.sqrt(np.maximum(between - (entropy[i] + entropy) / 2, 0))
    return out


def classical_scaling(distances: np.ndarray) -> np.ndarray:
    """Points in the plane whose distances approximate the given ones (Torgerson 1952)."""
    n = len(distances)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ distances**2 @ centre)
    top = np.argsort(-values)[:2]
    out = vectors[:, top] * np.sqrt(np.maximum(values[top], 0))
    out = np.pad(out, ((0, 0), (0, 2 - out.shape[1])))
    # The sign of an eigenvector is arbitrary.
    return np.asarray(out * np.where(out[np.abs(out).argmax(axis=0), [0, 1]] < 0, -1, 1))


# ----------------------------------------------------------------------------------- the page

# Number of words per topic and the values of relevance; number of documents per topic and of characters of their text.
_WORDS, _RELEVANCES, _DOCUMENTS, _LETTERS = 30, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), 8, 240


def _content(fitted: FittedTopics, fit: Fitted) -> dict[str, Any]:
    """The content of the page."""
    table = fitted.table(1)
    ends = [name for name in table if str(name).startswith("eti")]
    texts = _texts(fitted, fit)
    everywhere = fitted.word_shares
    topics = []
    for k in range(fitted.n_topics):
        chosen = np.unique(np.concatenate([fitted.ranked(r)[k, :_WORDS] for r in _RELEVANCES]))
        chosen = chosen[np.argsort(-fitted.phi[k, chosen], kind="stable")]
        sd = fitted.phi_sd[k, chosen]
        best = fitted.documents_of(k + 1, _DOCUMENTS)
        topics.append(
            {
                "topic": k + 1,
                "share": _number(table["share"].iloc[k]),
                "low": _number(table[ends[0]].iloc[k]) if ends else None,
                "high": _number(table[ends[1]].iloc[k]) if ends else None,
                "chains": str(table["chains"].iloc[k]) if "chains" in table else "",
                "coherence": _known(table["coherence"].iloc[k]),
                "x": _number(fitted.coordinates[k, 0]),
                "y": _number(fitted.coordinates[k, 1]),
                "words": [
                    [str(fitted.shown[w]), _number(fitted.phi[k, w]), _number(s), _number(everywhere[w])]
                    for w, s in zip(chosen, sd, strict=True)
                ],
                "documents": [
                    [str(name), _number(share), texts.get(str(name), "")]
                    for name, share in zip(best[fitted.dim], best["proportion"], strict=True)
                ],
            }
        )
    return {
        "name": fit.model.name,
        "about": fit.model.about,
        "reason": fit.reason,
        "verdict": fit.verdict.status,
        "findings": [f"{f.status.upper()} {f.check}: {f.message}" for f in fit.verdict.findings],
        "n_documents": len(fitted.documents),
        "n_words": len(fitted.vocabulary),
        "title": fitted.title,
        "n_tokens": int(fitted.lengths.sum()),
        "shown": _WORDS,
        "topics": topics,
    }


def _known(value: Any) -> float | None:
    return _number(value) if np.isfinite(value) else None


def _number(value: Any) -> float:
    return float(f"{float(value):.4g}")


def _texts(fitted: FittedTopics, fit: Fitted) -> dict[str, str]:
    """The beginnings of the documents by name, if they are texts."""
    spec: Any = fit.model.model
    columns = fit.data.dataset.columns
    if spec.counted or spec.text_column not in columns:
        return {}
    rows = fit.data.labels.get(fitted.dim, np.arange(len(columns[spec.text_column].values)))
    out = {}
    for name, text in zip(rows.tolist(), columns[spec.text_column].values.tolist(), strict=True):
        shown = " ".join(text.replace(WORDS_APART, " ").split())
        out[str(name)] = shown if len(shown) <= _LETTERS else shown[:_LETTERS].rsplit(" ", 1)[0] + " …"
    return out


# --------------------------------------------------------------------------------- new documents


def predicted(fit: Fitted, data: Data, given: Any, kind: str, *, ci_prob: float, seed: int) -> Any:
    """Topics of documents: see :meth:`bayeslab.results.fit.Fit.predict`.

    ``probabilities``: one row per document and one column per topic, with the numbers of known and unknown words;
    ``mean``: one row per document and topic, with the interval; ``draws``: the draws of ``theta``.
    """
    topics = fit.view(topics_of)
    if given is None:
        documents = _posterior(fit).on(data).documents
    else:
        documents = new_documents(fit.model, data, topics.vocabulary, topics.blocks)
    theta = _theta_draws(documents, topics.draws, stream(seed, "predict"))
    if kind == "draws":
        theta = theta[..., : topics.n_topics]
        labels = {documents.dim: documents.labels, "topic": np.arange(1, topics.n_topics + 1)}
        lead = {"chain": np.array([0]), "draw": np.arange(len(theta))}
        dims = {"theta": (documents.dim, "topic")}
        return labelled(
            {"theta": theta[None]}, dims, labels, lead, {"seed": seed, "creation_library": "bayeslab"}
        ).to_dataset()
    shares = theta[..., : topics.n_topics]
    if kind == "probabilities":
        return _wide(documents, shares, theta.shape[2] > topics.n_topics)
    return _long(documents, shares, ci_prob)


def _theta_draws(documents: Documents, kept: Kept, rng: np.random.Generator) -> np.ndarray:
    """Draws of the proportions (n_draws, n_documents, n_topics), with topics from their posterior draws."""
    corpus, n = documents.corpus, len(kept["from_chain"][1])
    once = max(1, n * (_TUNE + 1) * corpus.n_tokens)
    repeats = max(1, min(-(-_DRAWS // n), _VISITS // once))
    out = []
    for s in range(n):
        (phi, prior), more = of_draw(documents, kept, s)
        for _ in range(repeats):
            mean = lda.infer(corpus, phi, prior, rng, **more, sweeps=1, tune=_TUNE)
            # Given one draw of the topic assignments, the mean is that of a Dirichlet distribution.
            whole = corpus.lengths + prior.alpha.sum()
            drawn = np.maximum(rng.standard_gamma(mean * whole[:, None]), 1e-300)
            out.append(drawn / drawn.sum(axis=1, keepdims=True))
    return np.stack(out)


def _wide(documents: Documents, theta: np.ndarray, others: bool) -> pd.DataFrame:
    import pandas as pd

    mean = theta.mean(axis=0)
    columns: dict[str, Any] = {documents.dim: documents.labels}
    columns |= {f"P(topic {k + 1})": mean[:, k] for k in range(mean.shape[1])}
    if others:
        columns["P(other topics)"] = np.maximum(1 - mean.sum(axis=1), 0.0)
    return pd.DataFrame(columns | {"words": documents.corpus.lengths, "unknown": documents.unknown})


def _long(documents: Documents, theta: np.ndarray, ci_prob: float) -> pd.DataFrame:
    import pandas as pd

    n_documents, n_topics = theta.shape[1:]
    tail, percent = (1 - ci_prob) / 2, f"{100 * ci_prob:g}"
    low, high = np.quantile(theta, [tail, 1 - tail], axis=0)
    return pd.DataFrame(
        {
            documents.dim: np.repeat(documents.labels, n_topics),
            "topic": np.tile(np.arange(1, n_topics + 1), n_documents),
            "mean": theta.mean(axis=0).ravel(),
            "sd": theta.std(axis=0, ddof=1).ravel(),
            f"eti{percent}_lb": low.ravel(),
            f"eti{percent}_ub": high.ravel(),
        }
    )
