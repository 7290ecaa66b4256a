"""The costs of errors of a learner with two classes: the page's script counts the errors of the best threshold."""

from __future__ import annotations

import json

import numpy as np

from bayeslab.report.markup import EMPTY, Markup, element, joined
from bayeslab.results.fitted import Fitted
from bayeslab.results.learner import learner_of

__all__ = ["cost_panel"]

# Maximum number of rows in the page.
_ROWS = 5_000


def cost_panel(fit: Fitted) -> Markup:
    """A slider for the cost of one error in units of the other, and the held-out errors; empty for more classes.

    With a cost r of a missed positive, in units of a false one, the positive class is predicted where its probability
    is above 1 / (1 + r), which minimises the expected cost [1]_.

    References
    ----------
    .. [1] Elkan (2001). The foundations of cost-sensitive learning. IJCAI 17, 973-978.
    """
    learner = learner_of(fit)
    counts = learner.confusion()
    if len(counts) != 2:
        return EMPTY
    target, (negative, positive) = str(counts.index.name), map(str, counts.index)
    frame = learner.left_out()
    kept = np.unique(np.linspace(0, len(frame) - 1, min(len(frame), _ROWS)).astype(int))
    p = frame[f"P({target}={positive})"].to_numpy()[kept]
    is_positive = (frame[target].astype(str) == positive).to_numpy()[kept]
    some = f"{len(kept):,} of {len(frame):,} held-out rows" if len(kept) < len(frame) else "the held-out rows"
    missed, false = int(np.sum(is_positive & ~(p > 0.5))), int(np.sum(~is_positive & (p > 0.5)))
    content = {"p": [float(f"{v:.15g}") for v in p], "y": is_positive.astype(int).tolist()}
    slider = element("input", type="range", min=-6, max=6, step=0.5, value=0)
    about = (
        f"“{positive}” is predicted where its probability is above 1 / (1 + r) if a missed “{positive}” costs r times"
        f" as much as a “{negative}” that is taken for it. Errors are counted in {some}."
    )
    answer = f"r = 1, threshold 0.5: {missed:,} missed, {false:,} false; cost {(missed + false) / len(p):.4g} a row"
    return joined(
        [
            element("h3", "Costs of errors"),
            element(
                "div",
                element("label", "cost r of a miss ", slider, element("output", "1")),
                element("p", answer, class_="answer", aria_live="polite"),
                element("p", about, class_="mute small"),
                class_="costs",
                data_costs=json.dumps(content, separators=(",", ":"), allow_nan=False),
            ),
        ]
    )
