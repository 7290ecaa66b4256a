"""Mixtures by the sum over the component of every row, and over all labels where parameters are integrated out.

What a model file says is read here once more and computed with nothing but NumPy and SciPy.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp

from tests.families._chain_oracle import missing


def levels(table, column):
    return sorted({str(c) for c in table[column] if not missing(c)})


class Mixture:
    """A mixture at given parameters.

    Parameters
    ----------
    content : dict
        The model section of a file, with one number of components.
    table : dict of str to list
        None or NaN for a missing cell.
    """

    def __init__(self, content, table):
        self.content, self.table = content, table
        self.n_rows = len(next(iter(table.values())))
        self.columns = content.get("columns", [])

    def word(self, column):
        words = self.content.get("component", "gaussian")
        return words if isinstance(words, str) else words[column]

    @property
    def groups(self):
        """Columns by kind, in the order in which kinds appear."""
        return {
            word: [c for c in self.columns if self.word(c) == word]
            for word in dict.fromkeys(map(self.word, self.columns))
        }

    def prefix(self, word):
        several = len([w for w in self.groups if w != "categorical"]) > 1
        return f"{word}_" if several else ""

    @property
    def names(self):
        """Of the components: those of the labels first."""
        n = self.content["components"]
        known = levels(self.table, self.content["labels"]) if self.content.get("labels") else []
        return [*known, *(str(i + 1) for i in range(len(known), n))]

    def log_likelihood(self, values):
        """The log density of each row, (N,)."""
        with np.errstate(divide="ignore"):
            log_weights = np.log(self.weights(values))
        each = np.array([self.row(row, values) for row in range(self.n_rows)])
        return logsumexp(log_weights + each, axis=1)

    def weights(self, values):
        """P(component) of each row: by the gate, and only its own for a row whose label is known."""
        n = self.content["components"]
        if self.content.get("gating"):
            x = np.array([self.table[c] for c in self.content["gating"]], float).T
            x = (x - x.mean(axis=0)) / x.std(axis=0)
            p = np.exp(np.column_stack([np.ones(self.n_rows), x]) @ np.asarray(values["gate"]).T)
            out = p / p.sum(axis=1, keepdims=True)
        else:
            out = np.tile(np.broadcast_to(np.asarray(values["weights"], float), (n,)), (self.n_rows, 1))
        labels = self.content.get("labels")
        if labels and not self.content.get("label_noise"):
            for row, cell in enumerate(self.table[labels]):
                if not missing(cell):
                    out[row, [name != str(cell) for name in self.names]] = 0.0
        return out

    @np.errstate(divide="ignore")
    def row(self, row, values):
        """log p(row | component), (K,)."""
        n = self.content["components"]
        out = np.zeros(n)
        if self.content.get("regression"):
            return self.regression(row, values)
        for word, columns in self.groups.items():
            out += self.kind(word, columns, row, values)
        labels = self.content.get("labels")
        if labels and self.content.get("label_noise") and not missing(cell := self.table[labels][row]):
            out += np.log(np.asarray(values[f"p_{labels}"])[:, levels(self.table, labels).index(str(cell))])
        return out

    def kind(self, word, columns, row, values):
        prefix, n = self.prefix(word), self.content["components"]
        cells = [self.table[c][row] for c in columns]
        seen = [j for j, cell in enumerate(cells) if not missing(cell)]
        if not seen:
            return np.zeros(n)
        x = [cells[j] for j in seen]
        if word == "categorical":
            return sum(
                np.log(np.asarray(values[f"p_{columns[j]}"])[:, levels(self.table, columns[j]).index(str(cells[j]))])
                for j in seen
            )
        if word in ("gaussian", "student_t"):
            return self.normal(word, len(columns), seen, np.array(x, float), values, prefix)
        name = "rate" if word in ("poisson", "exponential") else "probability"
        theta = np.asarray(values[f"{prefix}{name}"], float)[:, seen]
        match word:
            case "poisson":
                return stats.poisson.logpmf(x, theta).sum(axis=1)
            case "exponential":
                return stats.expon.logpdf(x, scale=1 / theta).sum(axis=1)
            case "bernoulli":
                return stats.bernoulli.logpmf(x, theta).sum(axis=1)
        trials = self.content["trials"]
        trials = self.table[trials][row] if isinstance(trials, str) else trials
        return stats.binom.logpmf(x, trials, theta).sum(axis=1)

    def normal(self, word, d, seen, x, values, prefix):
        n = self.content["components"]
        kind = self.content.get("covariance", "full")
        if word == "student_t":
            centre = np.asarray(values[f"{prefix}location"])
            matrix = np.asarray(values[f"{prefix}scale_matrix"] if f"{prefix}scale_matrix" in values else [
                np.diag(s**2) for s in np.asarray(values[f"{prefix}scale"])])  # fmt: skip
            dof = self.content.get("dof")
            dof = np.broadcast_to(np.asarray(values[f"{prefix}dof"] if dof is None else dof, float), (n,))
            return np.array([
                stats.multivariate_t.logpdf(x, m[seen], c[np.ix_(seen, seen)], df=v)
                for m, c, v in zip(centre, matrix, dof, strict=True)
            ])  # fmt: skip
        centre = np.asarray(values[f"{prefix}mean"], float)
        if kind == "known":
            known = np.asarray(self.content["known"], float)
            matrix = known if known.ndim == 2 else np.diag(np.broadcast_to(known, (d,)))
            matrix = np.broadcast_to(matrix, (n, d, d))
        elif kind in ("full", "tied") and f"{prefix}covariance" in values:
            matrix = np.broadcast_to(np.asarray(values[f"{prefix}covariance"]), (n, d, d))
        else:
            sd = np.asarray(values[f"{prefix}sd"], float)
            matrix = np.array([np.diag(np.broadcast_to(s, (d,)) ** 2) for s in sd.reshape(n, -1)])
        each = zip(centre, matrix, strict=True)
        return np.array([stats.multivariate_normal.logpdf(x, m[seen], c[np.ix_(seen, seen)]) for m, c in each])

    def regression(self, row, values):
        outcome, right = self.content["regression"].split(" ~ ")
        y = self.table[outcome][row]
        if missing(y):
            return np.zeros(self.content["components"])
        x = [1.0, *(self.table[name][row] for name in right.split(" + "))]
        eta = np.asarray(values["coefficients"]) @ np.array(x)
        match self.content.get("component", "gaussian"):
            case "gaussian":
                return stats.norm.logpdf(y, eta, values["sd"])
            case "bernoulli":
                return stats.bernoulli.logpmf(y, 1 / (1 + np.exp(-eta)))
        return stats.poisson.logpmf(y, np.exp(eta))

    # ------------------------------------------------------------------ parameters integrated out

    def log_evidence(self, concentration, cluster):
        """log p(rows, known labels), summed over all that are not known.

        Parameters
        ----------
        concentration : ndarray (K,)
            Of the weights.
        cluster : callable
            log p(rows of a component), from their numbers.
        """
        n, labels = self.content["components"], self.content.get("labels")
        known = [None if labels is None or missing(c) else self.names.index(str(c)) for c in (
            self.table[labels] if labels else [None] * self.n_rows)]  # fmt: skip
        choices = [range(n) if k is None else [k] for k in known]
        total = []
        for z in itertools.product(*choices):
            counts = np.bincount(z, minlength=n)
            value = gammaln(concentration.sum()) - gammaln(concentration.sum() + self.n_rows)
            value += (gammaln(concentration + counts) - gammaln(concentration)).sum()
            value += sum(cluster([row for row in range(self.n_rows) if z[row] == k]) for k in range(n))
            total.append(value)
        return logsumexp(total)


def gamma_poisson(x, a, b):
    """log p of counts whose rate is Gamma(a, b), one after the other."""
    total = 0.0
    for value in x:
        total += stats.nbinom.logpmf(value, a, b / (b + 1))
        a, b = a + value, b + 1
    return total


def beta_bernoulli(x, a, b, trials=1):
    total = 0.0
    for value in x:
        total += stats.betabinom.logpmf(value, trials, a, b)
        a, b = a + value, b + trials - value
    return total


def gamma_exponential(x, a, b):
    total = 0.0
    for value in x:
        total += math.log(a) + a * math.log(b) - (a + 1) * math.log(b + value)
        a, b = a + 1, b + value
    return total


def normal_inverse_wishart(x, mean, kappa, nu, scale):
    """log p of normal rows (n, d), one after the other: multivariate t each time."""
    total, d = 0.0, np.shape(x)[1] if len(x) else 1
    mean, scale = np.array(mean, float), np.array(scale, float)
    for row in x:
        dof = nu - d + 1
        total += stats.multivariate_t.logpdf(row, mean, scale * (kappa + 1) / (kappa * dof), df=dof)
        apart = row - mean
        scale = scale + kappa / (kappa + 1) * np.outer(apart, apart)
        mean, kappa, nu = (kappa * mean + row) / (kappa + 1), kappa + 1, nu + 1
    return total
