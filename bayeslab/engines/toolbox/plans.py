"""Plans: a posterior has a plan for each engine that applies to it, or a reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bayeslab.data.bound import Data
from bayeslab.errors import EngineRefusal, Reason
from bayeslab.job import Job
from bayeslab.posterior.contract import Posterior

__all__ = ["Planned", "numbers_of"]


class Planned[P]:
    """The plans of one engine.

    Parameters
    ----------
    method : str
        The engine's name.
    plan : callable
        Maps a posterior to its plan, or to the reason why there is none (a str).
    code : str
        Error code for a missing plan if the reason is a plain str; a :class:`Reason` has its own code.
    """

    def __init__(self, method: str, plan: Callable[[Posterior], P | str], *, code: str) -> None:
        self.method, self.plan, self.code = method, plan, code

    def refuse(self, posterior: Posterior) -> Reason | None:
        """Why there is no plan, or None."""
        plan = self.plan(posterior)
        return self._reason(plan) if isinstance(plan, str) else None

    def size(self, posterior: Posterior) -> int:
        """Count of numbers in one draw, as far as the plan knows the lengths of its dimensions."""
        plan = self.plan(posterior)
        return 1 if isinstance(plan, str) else numbers_of(plan, posterior.data)

    def of(self, job: Job) -> P:
        """The plan of a job.

        Raises
        ------
        EngineRefusal
            There is no plan.
        """
        plan = self.plan(job.posterior)
        if isinstance(plan, str):
            reason = self._reason(plan)
            raise EngineRefusal(f"method {self.method} does not apply: {reason}", code=reason.code)
        return plan

    def _reason(self, text: str) -> Reason:
        return text if isinstance(text, Reason) else Reason(text, code=self.code)


def numbers_of(plan: Any, data: Data) -> int:
    """Count of numbers in one draw of a plan or answer, from its ``dims`` and ``labels``."""
    lengths = {dim: len(labels) for dim, labels in (data.labels | dict(plan.labels)).items()}
    return sum(math.prod(lengths.get(dim, 1) for dim in dims) for dims in plan.dims.values())
