"""Hidden Markov models by the sum over all paths, the slow and obvious way.

What a model file says is read here once more, and computed with nothing but NumPy and SciPy: the emissions row by row,
the prior of a path step by step, and the likelihood of a sequence as the sum over every path there is.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
from scipy import stats


def log_likelihood(content, table, values):
    """The log likelihood of a table (of the classes given the rows, where training is discriminative).

    Parameters
    ----------
    content : dict
        The model section of a file, with one number of states.
    table : dict of str to list
        None or NaN for a missing cell.
    values : dict of str to ndarray
        What is unknown, by its name in results.
    """
    return Case(content, table, values).log_likelihood()


def missing(cell):
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


class Case:
    def __init__(self, content, table, values):
        self.content, self.table = content, table
        given = {n: v for n, v in content.get("parameters", {}).items() if not has_text(v)}
        self.values = dict(values) | given
        self.columns = content["columns"]
        self.n_rows = len(next(iter(table.values())))
        self.words = content.get("emission", "gaussian")
        self.classes = None
        if content.get("classes"):
            self.classes = sorted({str(c) for c in table[content["classes"]] if not missing(c)})
        self.sizes = self.chain_sizes()
        self.names = list(content.get("chains") or ())

    # ------------------------------------------------------------------ states

    def chain_sizes(self):
        chains = self.content.get("chains")
        if chains is None:
            return None
        return [self.n_of(own) for own in chains.values()]

    def n_of(self, own):
        return own if isinstance(own, int) else len(own)

    @property
    def class_sizes(self):
        states = self.content["states"]
        if isinstance(states, dict):
            return [states[c] for c in self.classes]
        return [self.n_of(states)] * len(self.classes)

    @property
    def n_states(self):
        if self.sizes is not None:
            return math.prod(self.sizes)
        if self.classes is not None:
            return sum(self.class_sizes)
        states = self.content["states"]
        return self.content.get("most", 30) if states == "infinite" else self.n_of(states)

    def product_states(self):
        return list(itertools.product(*(range(n) for n in self.sizes)))

    # ------------------------------------------------------------------ sequences

    def sequences(self):
        """Rows of each sequence in their order, None where a time has no row."""
        who = self.content.get("sequence")
        key = (lambda row: self.table[who][row]) if who else (lambda row: 0)
        runs = [list(rows) for _, rows in itertools.groupby(range(self.n_rows), key)]
        time = self.content.get("time")
        if time is None:
            return runs
        out = []
        for rows in runs:
            at = {int(self.table[time][row]): row for row in rows}
            out.append([at.get(t) for t in range(min(at), max(at) + 1)])
        return out

    def trees(self):
        """Rows of each tree, and the place of each one's parent among them (None: the root)."""
        label = {cell: row for row, cell in enumerate(self.table["cell"])}
        mother = [None if missing(m) else label[m] for m in self.table[self.content["parent"]]]

        def root(row):
            return row if mother[row] is None else root(mother[row])

        out = []
        for top in sorted({root(row) for row in range(self.n_rows)}):
            rows = [row for row in range(self.n_rows) if root(row) == top]
            out.append((rows, [None if mother[row] is None else rows.index(mother[row]) for row in rows]))
        return out

    # ------------------------------------------------------------------ emissions

    def density(self, rows, at):
        """p(row | state) of time ``at`` of a sequence, for each state; 1 where nothing is seen."""
        row, n = rows[at], self.n_states
        if row is None:
            return np.ones(n)
        content = self.content
        if self.words == "observed":
            cell = self.table[self.columns[0]][row]
            names = content["states"] if isinstance(content["states"], list) else range(1, n + 1)
            return np.ones(n) if missing(cell) else np.array([float(str(s) == str(cell)) for s in names])
        if self.words == "scores":
            return self.scores(row)
        if content.get("inputs") or content.get("window"):
            return self.regression(rows, at)
        if content.get("covariance") in ("full", "tied"):
            return self.joint(row)
        if self.sizes is None:
            return self.independent(row, self.columns, self.words, "", n)
        return self.several(row)

    def several(self, row):
        """Of the states of the product of several chains."""
        coupling = self.content.get("coupling", "factorial")
        states = self.product_states()
        if coupling == "factorial":
            if self.words == "gaussian" and self.content.get("effects") != "joint":
                return self.additive(row, states)
            return self.independent(row, self.columns, self.words, "", len(states))
        out = np.ones(len(states))
        for c, name in enumerate(self.names):
            if coupling == "switching" and c == 0:
                continue
            own = self.content["emits"].get(name, []) if coupling == "coupled" else self.columns
            if not own:
                continue
            words = self.words if isinstance(self.words, str) else {k: v for k, v in self.words.items() if k in own}
            alone = self.independent(row, own, words, f"_{name}", self.sizes[c])
            for s, state in enumerate(states):
                if coupling == "coupled" or state[0] == c - 1:
                    out[s] *= alone[state[c]]
        return out

    def additive(self, row, states):
        d = len(self.columns)
        mean, sd = (np.reshape(self.values[name], d) for name in ("mean", "sd"))
        effects = [np.reshape(self.values[f"effect_{name}"], (-1, d)) for name in self.names]
        out = np.ones(len(states))
        for j, column in enumerate(self.columns):
            if not missing(x := self.table[column][row]):
                for s, state in enumerate(states):
                    centre = mean[j] + sum(own[z, j] for own, z in zip(effects, state, strict=True))
                    out[s] *= stats.norm.pdf(x, centre, sd[j])
        return out

    def independent(self, row, columns, words, suffix, n):
        """Columns that are independent given the state."""
        alike = isinstance(words, str) and (len(columns) == 1 or words not in ("categorical", "student_t"))
        out = np.ones(n)
        if alike and words == "gaussian_mixture":
            return self.parts(row, columns, "", n)
        for j, column in enumerate(columns):
            word = words if isinstance(words, str) else words[column]
            prefix = "" if alike or len(columns) == 1 else f"{column}_"
            if word == "gaussian_mixture":
                out *= self.parts(row, [column], prefix, n)
            elif not missing(cell := self.table[column][row]):
                wide = alike and len(columns) > 1

                def get(name, prefix=prefix, wide=wide, j=j):
                    value = np.asarray(self.values[f"{prefix}{name}{suffix}"], float)
                    value = np.broadcast_to(value, (n,)) if value.ndim == 0 else value
                    return value[:, j] if wide and value.ndim == 2 else value

                out *= self.one(word, column, cell, get, suffix)
        return out

    def one(self, word, column, x, get, suffix):
        match word:
            case "gaussian":
                return stats.norm.pdf(x, get("mean"), get("sd"))
            case "student_t":
                dof = self.content.get("dof")
                return stats.t.pdf(x, get("dof") if dof is None else dof, get("location"), get("scale"))
            case "categorical":
                level = sorted({str(c) for c in self.table[column] if not missing(c)}).index(str(x))
                return np.asarray(self.values[f"p_{column}{suffix}"], float)[:, level]
            case "bernoulli":
                return stats.bernoulli.pmf(x, get("probability"))
            case "binomial":
                return stats.binom.pmf(x, self.content["trials"], get("probability"))
            case "poisson":
                return stats.poisson.pmf(x, get("rate"))
            case "exponential":
                return stats.expon.pdf(x, scale=1 / get("rate"))
        raise AssertionError(word)

    def parts(self, row, columns, prefix, n):
        """A mixture of normals in every state."""
        weight = np.asarray(self.values[f"{prefix}weight"], float)
        mean, sd = (np.reshape(self.values[f"{prefix}{p}"], (*weight.shape, len(columns))) for p in ("mean", "sd"))
        out = np.zeros(n)
        for k, m in np.ndindex(weight.shape):
            p = weight[k, m]
            for j, column in enumerate(columns):
                if not missing(x := self.table[column][row]):
                    p *= stats.norm.pdf(x, mean[k, m, j], sd[k, m, j])
            out[k] += p
        return out

    def joint(self, row):
        """Normal columns with a matrix: of those that are seen."""
        seen = [j for j, column in enumerate(self.columns) if not missing(self.table[column][row])]
        x = [self.table[self.columns[j]][row] for j in seen]
        if not seen:
            return np.ones(self.n_states)
        covariance = np.asarray(self.values["covariance"])
        if covariance.ndim == 2:
            covariance = np.broadcast_to(covariance, (self.n_states, *covariance.shape))
        each = zip(np.asarray(self.values["mean"])[:, seen], covariance[:, seen][:, :, seen], strict=True)
        return np.array([stats.multivariate_normal.pdf(x, m, c) for m, c in each])

    def regression(self, rows, at):
        outcome = self.columns[0]
        y = self.table[outcome][rows[at]]
        x = [self.table[name][rows[at]] for name in self.content.get("inputs", ())]
        for lag in range(1, self.content.get("window", 0) + 1):
            before = rows[at - lag] if at >= lag else None
            x.append(None if before is None else self.table[outcome][before])
        if missing(y) or any(missing(v) for v in x):
            return np.ones(self.n_states)
        slope = np.asarray(self.values["slope"], float)
        eta = np.asarray(self.values["intercept"], float) + slope @ np.asarray(x, float)
        if self.words == "gaussian":
            return stats.norm.pdf(y, eta, np.broadcast_to(self.values["sd"], eta.shape))
        return stats.bernoulli.pmf(y, 1 / (1 + np.exp(-eta))) if self.words == "bernoulli" else stats.poisson.pmf(
            y, np.exp(eta))  # fmt: skip

    def scores(self, row):
        own = np.array([[np.nan if missing(c) else c for c in self.table[column]] for column in self.columns]).T
        prior = self.values.get("prior")
        prior = own[~np.isnan(own).any(axis=1)].mean(axis=0) if prior is None else np.asarray(prior, float)
        return np.ones(len(prior)) if np.isnan(own[row]).any() else own[row] / (prior / prior.sum())

    # ------------------------------------------------------------------ paths

    def initial(self):
        given, n = self.content.get("initial"), self.n_states
        if n == 1:
            return np.ones(1)
        if isinstance(given, list):
            return np.asarray(given, float)
        if given == "uniform":
            return np.full(n, 1 / n)
        if given == "stationary":
            return settled(self.transition())
        if given is None and self.content.get("topology") == "left_right":
            return np.eye(n)[0]
        return np.asarray(self.values["initial"], float)

    def transition(self):
        if self.n_states == 1:
            return np.ones((1, 1))
        given = self.content.get("transition")
        return np.asarray(self.values["transition"] if given is None else given, float)

    def step(self, rows, at):
        """p(state | last state) at a time of a sequence, as a table of the states of one or several chains."""
        if self.content.get("transitions_on"):
            x = np.array([self.table[name][rows[at]] for name in self.content["transitions_on"]], float)
            eta = np.asarray(self.values["log_odds"]) + np.asarray(self.values["log_odds_slope"]) @ x
            p = np.exp(eta)
            return p / p.sum(axis=1, keepdims=True)
        return self.transition()

    def product_step(self):
        states, out = self.product_states(), None
        coupled = self.content.get("coupling") == "coupled"
        out = np.ones((len(states), len(states)))
        for c, name in enumerate(self.names):
            own = np.ones((1, 1)) if self.sizes[c] == 1 else np.asarray(self.values[f"transition_{name}"], float)
            for i, a in enumerate(states):
                for j, b in enumerate(states):
                    if self.sizes[c] > 1:
                        out[i, j] *= own[(*a, b[c])] if coupled else own[a[c], b[c]]
        return out

    def product_initial(self):
        out = []
        for state in self.product_states():
            p = 1.0
            for c, name in enumerate(self.names):
                if self.sizes[c] == 1:
                    continue
                given = self.values.get(f"initial_{name}")
                p *= 1 / self.sizes[c] if given is None else np.asarray(given)[state[c]]
            out.append(p)
        return np.array(out)

    def by_paths(self, rows):
        """The likelihood of a sequence."""
        emission = np.array([self.density(rows, t) for t in range(len(rows))])
        n = emission.shape[1]
        paths = np.indices((n,) * len(rows)).reshape(len(rows), -1)
        p = self.prior(rows, paths)
        for t, own in enumerate(emission):
            p = p * own[paths[t]]
        return p.sum()

    def prior(self, rows, paths):
        """The probability of each path."""
        if self.sizes is not None:
            p, a = self.product_initial()[paths[0]], self.product_step()
            for t in range(1, len(rows)):
                p = p * a[paths[t - 1], paths[t]]
            return p
        p = self.initial()[paths[0]]
        if self.content.get("order") == 2 and self.n_states > 1:
            second, rest = np.asarray(self.values["second_transition"]), np.asarray(self.values["transition"])
            for t in range(1, len(rows)):
                p = p * (second[paths[0], paths[1]] if t == 1 else rest[paths[t - 2], paths[t - 1], paths[t]])
            return p
        for t in range(1, len(rows)):
            p = p * self.step(rows, t)[paths[t - 1], paths[t]]
        return p

    def by_segments(self, rows):
        """The likelihood of a sequence cut into segments, the last of which may go on."""
        emission = np.array([self.density(rows, t) for t in range(len(rows))])
        table, initial, move = self.durations(), self.initial(), self.transition()
        n, longest = table.shape

        def rest(begin, before):
            total = 0.0
            for k in range(n):
                p = initial[k] if before is None else move[before, k]
                if p == 0:
                    continue
                for d in range(1, min(longest, len(rows) - begin) + 1):
                    own = p * emission[begin : begin + d, k].prod()
                    if begin + d == len(rows):
                        total += own * table[k, d - 1 :].sum()
                    else:
                        total += own * table[k, d - 1] * rest(begin + d, k)
            return total

        return rest(0, None)

    def durations(self):
        given = self.content["durations"]
        longest, law = (given, "table") if isinstance(given, int) else (given["longest"], given.get("law", "table"))
        if law == "table":
            return np.asarray(self.values["duration"], float)
        d, out = np.arange(longest), []
        for k, mu in enumerate(np.broadcast_to(np.asarray(self.values["duration_mu"], float), (self.n_states,))):
            if law == "poisson":
                p = stats.poisson.pmf(d, mu)
            else:
                alpha = np.broadcast_to(np.asarray(self.values["duration_alpha"], float), (self.n_states,))[k]
                p = stats.nbinom.pmf(d, alpha, alpha / (alpha + mu))
            out.append(p / p.sum())
        return np.array(out)

    def by_tree(self, rows, parents):
        initial, move = self.initial(), self.transition()
        paths = np.indices((self.n_states,) * len(rows)).reshape(len(rows), -1)
        p = np.ones(paths.shape[1])
        for t, (own, parent) in enumerate(zip(paths, parents, strict=True)):
            p = p * (initial[own] if parent is None else move[paths[parent], own]) * self.density(rows, t)[own]
        return p.sum()

    def by_urns(self, rows):
        """Balls are not put back; one whose colour is not seen may have any."""
        column = self.columns[0]
        balls = np.asarray(self.content["parameters"]["balls"], float)
        colours = sorted({str(c) for c in self.table[column] if not missing(c)})
        initial, move = self.initial(), self.transition()
        total = 0.0
        cells = [None if row is None else self.table[column][row] for row in rows]
        # A time without a row draws no ball, or one that nobody sees: the answer is the same.
        choices = [range(len(colours)) if missing(c) else [colours.index(str(c))] for c in cells]
        for path in itertools.product(range(len(balls)), repeat=len(rows)):
            steps = (move[a, b] for a, b in itertools.pairwise(path))
            prior = initial[path[0]] * math.prod(steps)
            for drawn in itertools.product(*choices):
                left, p = balls.copy(), prior
                for k, colour in zip(path, drawn, strict=True):
                    if left[k].sum() <= 0 or left[k, colour] <= 0:
                        p = 0.0
                        break
                    p *= left[k, colour] / left[k].sum()
                    left[k, colour] -= 1
                total += p
        return total

    def by_classes(self, rows):
        """p(rows, class) of each class of a sequence."""
        sizes = self.class_sizes
        ends = np.cumsum([0, *sizes])
        given = self.content.get("class_probability", "free")
        if given == "uniform":
            share = np.full(len(sizes), 1 / len(sizes))
        else:
            share = np.asarray(given if isinstance(given, list) else self.values["class_probability"], float)
        emission = np.array([self.density(rows, t) for t in range(len(rows))])
        out = []
        for c, n in enumerate(sizes):
            own = slice(ends[c], ends[c + 1])
            first = self.content.get("initial")
            if n == 1:
                begin = np.ones(1)
            elif isinstance(first, list):
                begin = np.asarray(first, float)
            elif first == "uniform":
                begin = np.full(n, 1 / n)
            elif first is None and self.content.get("topology") == "left_right":
                begin = np.eye(n)[0]
            else:
                begin = np.asarray(self.values["initial"])[c, own]
            move = self.content.get("transition")
            if n == 1:
                move = np.ones((1, 1))
            move = np.asarray(self.values["transition"])[own, own] if move is None else np.asarray(move, float)
            total = 0.0
            for path in itertools.product(range(n), repeat=len(rows)):
                p = begin[path[0]]
                for t, k in enumerate(path):
                    p *= (move[path[t - 1], k] if t else 1.0) * emission[t, ends[c] + k]
                total += p
            out.append(share[c] * total)
        return np.array(out)

    def log_likelihood(self):
        if self.content.get("parent"):
            return sum(np.log(self.by_tree(*tree)) for tree in self.trees())
        if self.classes is not None:
            return self.of_classes()
        if self.words == "urn":
            return sum(np.log(self.by_urns(rows)) for rows in self.sequences())
        if self.content.get("durations"):
            return sum(np.log(self.by_segments(rows)) for rows in self.sequences())
        return sum(np.log(self.by_paths(rows)) for rows in self.sequences())

    def of_classes(self):
        total = 0.0
        column = self.table[self.content["classes"]]
        for rows in self.sequences():
            kinds = [column[row] for row in rows if row is not None and not missing(column[row])]
            each = self.by_classes(rows)
            if self.content.get("training") == "discriminative":
                total += np.log(each[self.classes.index(str(kinds[0]))] / each.sum()) if kinds else 0.0
            else:
                total += np.log(each[self.classes.index(str(kinds[0]))] if kinds else each.sum())
        return total


def settled(transition):
    """π with π A = π and Σ π = 1, in fractions, so that small probabilities have all their digits.

    What leaves a state is what the table says; what stays is the rest, so that rows sum to one exactly.
    """
    n = len(transition)
    flow = [[Fraction(float(p)) for p in row] for row in transition]
    for k in range(n):
        flow[k][k] -= sum(flow[k])
    # Σ_i π_i flow_ij = 0 for all j but the last, which follows from the others, and Σ π = 1.
    rows = [[*(flow[i][j] for i in range(n)), Fraction(0)] for j in range(n - 1)] + [[Fraction(1)] * (n + 1)]
    for k in range(n):
        pivot = next(r for r in range(k, n) if rows[r][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for r in range(n):
            if r != k and rows[r][k]:
                rows[r] = [a - rows[r][k] * b for a, b in zip(rows[r], rows[k], strict=True)]
    return np.array([float(row[-1]) for row in rows])


def has_text(value):
    return isinstance(value, str) or (isinstance(value, list) and any(has_text(v) for v in value))
