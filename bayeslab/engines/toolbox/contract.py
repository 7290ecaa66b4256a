"""The contract of every engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bayeslab import registry
from bayeslab.errors import Reason
from bayeslab.job import Job, Outcome
from bayeslab.language.spec import Spec
from bayeslab.posterior.contract import Posterior

__all__ = ["Engine", "engine", "engines"]


def _takes_all(posterior: Posterior) -> Reason | None:
    """No reason against it."""
    return None


def _nothing(job: Job) -> None:
    """Nothing is refused."""


def _unknown(posterior: Posterior) -> int:
    """One number: how large a draw is, the posterior or its graph says."""
    return 1


@dataclass(frozen=True, slots=True)
class Engine:
    """A way from a posterior to an answer.

    Attributes
    ----------
    options : type of Spec
        What can be chosen, named as PyMC names it.
    run : callable
        The inference, from a :class:`bayeslab.job.Job` to ArviZ's groups and a verdict.
    refuse : callable
        Why the engine would give a wrong or meaningless answer for a posterior, or None; default: it takes all.
    ready : callable
        Raises what else ``run`` would refuse before its work, now that options and graph are there; ``check`` and
        ``fit`` both call it. Default: nothing.
    draw_size : callable
        Numbers in one draw, as far as the engine knows them without the graph; default: one.
    uses_graph : bool
        Whether ``run`` asks for ``job.graph``; if not, PyMC is not imported.
    extends : bool
        Whether a run, finished or not, can be gone on with for more draws.
    """

    options: type[Spec]
    run: Callable[[Job], Outcome]
    refuse: Callable[[Posterior], Reason | None] = _takes_all
    ready: Callable[[Job], None] = _nothing
    draw_size: Callable[[Posterior], int] = _unknown
    uses_graph: bool = True
    extends: bool = False


def engine(word: str) -> Engine:
    """The engine of a name.

    Raises
    ------
    ModelError
        There is none.
    """
    loaded: Engine = registry.load("engines", word).ENGINE
    return loaded


def engines() -> dict[str, Engine]:
    """All engines by name."""
    return {word: engine(word) for word in registry.names("engines") if word != "auto"}
