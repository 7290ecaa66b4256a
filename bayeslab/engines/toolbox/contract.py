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
    """The default of ``refuse``: no posterior is refused."""
    return None


def _nothing(job: Job) -> None:
    """The default of ``ready``: nothing is refused."""


def _unknown(posterior: Posterior) -> int:
    """The default of ``draw_size``: one; the size of a draw is then taken from the posterior or its graph."""
    return 1


@dataclass(frozen=True, slots=True)
class Engine:
    """An inference engine.

    Attributes
    ----------
    options : type of Spec
        The options, named as PyMC names them.
    run : callable
        The inference: maps a :class:`bayeslab.job.Job` to ArviZ's groups and a verdict.
    refuse : callable
        Maps a posterior to the reason why the engine's answer would be wrong or meaningless, or None. Default: None.
    ready : callable
        Raises the remaining errors of a job, once options and graph are known, before ``run`` starts its work; both
        ``check`` and ``fit`` call it. Default: no errors.
    draw_size : callable
        Count of numbers in one draw, as far as the engine knows it without the graph; default: one.
    uses_graph : bool
        Whether ``run`` uses ``job.graph``; if not, PyMC is not imported.
    extends : bool
        Whether a run, finished or not, can be extended by more draws.
    """

    options: type[Spec]
    run: Callable[[Job], Outcome]
    refuse: Callable[[Posterior], Reason | None] = _takes_all
    ready: Callable[[Job], None] = _nothing
    draw_size: Callable[[Posterior], int] = _unknown
    uses_graph: bool = True
    extends: bool = False


def engine(word: str) -> Engine:
    """The engine with a given name.

    Raises
    ------
    ModelError
        There is no such engine.
    """
    loaded: Engine = registry.load("engines", word).ENGINE
    return loaded


def engines() -> dict[str, Engine]:
    """All engines by name."""
    return {word: engine(word) for word in registry.names("engines") if word != "auto"}
