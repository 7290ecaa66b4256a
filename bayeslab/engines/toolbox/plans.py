"""How a family says that an engine applies: it makes a plan, or tells why there is none."""

from __future__ import annotations

import math
from typing import Any

from bayeslab import registry
from bayeslab.data.bound import Data
from bayeslab.errors import EngineRefusal, Reason
from bayeslab.job import Job
from bayeslab.language.spec import Model

__all__ = ["Planned", "numbers_of"]


class Planned:
    """The plans of one engine.

    Parameters
    ----------
    method : str
        The engine's name, which is the family's function that makes the plan.
    unknown : str
        What is said of a family without one; ``{family}`` is its name.
    code : str
        The kind of mistake that it is to ask for a plan where there is none and the family says no more than why:
        a :class:`Reason` has its own.
    """

    def __init__(self, method: str, unknown: str, *, code: str) -> None:
        self.method, self.unknown, self.code = method, unknown, code

    def plan(self, model: Model, data: Data) -> Any:
        """The plan, or why there is none (a str); remembered on the data."""
        make = getattr(registry.load("families", model.model.family), self.method, None)
        if make is None:
            return Reason(self.unknown.format(family=model.model.family), code="other-family")
        key = f"{self.method} plan"
        if key not in data.memo:
            data.memo[key] = make(model, data)
        return data.memo[key]

    def refuse(self, model: Model, data: Data) -> str | None:
        """Why there is no plan."""
        found = self.plan(model, data)
        return Reason(found, code=getattr(found, "code", self.code)) if isinstance(found, str) else None

    def size(self, model: Model, data: Data) -> int:
        """Numbers in one draw, as far as the plan knows the lengths of its dimensions."""
        found = self.plan(model, data)
        return 1 if isinstance(found, str) else numbers_of(found, data)

    def of(self, job: Job) -> Any:
        """The plan of a job.

        Raises
        ------
        EngineRefusal
            There is none.
        """
        found = self.plan(job.model, job.data)
        if isinstance(found, str):
            raise EngineRefusal(f"method {self.method} does not apply: {found}", code=getattr(found, "code", self.code))
        return found


def numbers_of(found: Any, data: Data) -> int:
    """Numbers in one draw of what has ``dims`` and ``labels``, as plans and answers do."""
    lengths = {dim: len(labels) for dim, labels in (data.labels | dict(found.labels)).items()}
    return sum(math.prod(lengths.get(dim, 1) for dim in dims) for dims in found.dims.values())
