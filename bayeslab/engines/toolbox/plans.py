"""How a family says that an engine applies: its posterior has a plan, or tells why there is none."""

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
        The plan of a posterior, or why there is none (a str).
    code : str
        The kind of mistake that it is to ask for a plan where there is none and the family says no more than why:
        a :class:`Reason` has its own.
    """

    def __init__(self, method: str, plan: Callable[[Posterior], P | str], *, code: str) -> None:
        self.method, self.plan, self.code = method, plan, code

    def refuse(self, posterior: Posterior) -> Reason | None:
        """Why there is no plan."""
        plan = self.plan(posterior)
        return self._reason(plan) if isinstance(plan, str) else None

    def size(self, posterior: Posterior) -> int:
        """Numbers in one draw, as far as the plan knows the lengths of its dimensions."""
        plan = self.plan(posterior)
        return 1 if isinstance(plan, str) else numbers_of(plan, posterior.data)

    def of(self, job: Job) -> P:
        """The plan of a job.

        Raises
        ------
        EngineRefusal
            There is none.
        """
        plan = self.plan(job.posterior)
        if isinstance(plan, str):
            reason = self._reason(plan)
            raise EngineRefusal(f"method {self.method} does not apply: {reason}", code=reason.code)
        return plan

    def _reason(self, text: str) -> Reason:
        return text if isinstance(text, Reason) else Reason(text, code=self.code)


def numbers_of(plan: Any, data: Data) -> int:
    """Numbers in one draw of what has ``dims`` and ``labels``, as plans and answers do."""
    lengths = {dim: len(labels) for dim, labels in (data.labels | dict(plan.labels)).items()}
    return sum(math.prod(lengths.get(dim, 1) for dim in dims) for dims in plan.dims.values())
