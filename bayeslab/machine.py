"""The density machine for models of others: a plain PyMC model is sampled without compiling it.

The machine runs the log density of a model, and its gradient, as a list of instructions for an interpreter that was
compiled in advance; see the page on why there is no waiting. Models of the model language become such lists by
themselves.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from bayeslab.engines.toolbox.contract import engines
from bayeslab.errors import ModelError, OptionError, hint
from bayeslab.options import FitOptions
from bayeslab.posterior.log_density import LogDensity
from bayeslab.preparation import Prepared, engine_of, ready, seed_of
from bayeslab.results.fit import Fit
from bayeslab.running import described, run

if TYPE_CHECKING:
    import pymc

    from bayeslab.posterior.of_pymc.posterior import PyMCPosterior

__all__ = ["PyMCProgram", "from_pymc"]


def from_pymc(model: pymc.Model) -> PyMCProgram:
    """Read a plain PyMC model into a program of the density machine; nothing is compiled for the model.

    Free variables keep their names, their order and the unconstrained coordinates that PyMC gives them. The log density
    and its gradient equal those that PyMC compiles, up to rounding.

    Known are the distributions of PyMC, mixtures, hurdle and zero-inflated, truncated and censored distributions,
    ``pm.Potential``, ``pm.Deterministic``, ``pm.Data``, dims and coords, missing cells, ``pm.CustomDist``, Gaussian
    processes, all of PyMC's transforms, and of PyTensor: functions of numbers, indexing, reductions, products and
    decompositions of matrices (Cholesky, triangular and general systems, inverse, determinant), softmax, and ``scan``
    with a fixed number of steps. Where a distribution has a fused density in the machine, that is taken; the densities
    of others are read operation by operation. Deterministic variables with other operations are computed by PyMC after
    sampling (:attr:`PyMCProgram.evaluated_by_pymc`).

    Parameters
    ----------
    model
        A model whose free variables are continuous. It is read once: later changes of the model, and of data by
        ``pm.set_data``, need a new program.

    Returns
    -------
    PyMCProgram

    Raises
    ------
    ModelError
        ``model.unsupported``: the machine does not know some operations or distributions. The message lists all of
        them, each with the variable that needs it, such as a discrete variable without data, an indexing by parameters,
        or a special function. Nothing is compiled instead. ``model.nothing-to-fit``: there is no free variable.

    Notes
    -----
    PyMC keeps short constants, such as ``2.0`` in ``pm.Normal("x", 0.0, 2.0)``, in single precision, and so their
    logarithms: its log densities differ from those of the program by a constant of about 1e-8 for each number.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> with pm.Model() as model:
    ...     mu = pm.Normal("mu", 0, 10)
    ...     y = pm.Normal("y", mu, 1, observed=[1.0, 2.0, 3.0])
    >>> program = from_pymc(model)
    >>> program
    <PyMCProgram of 1 parameter: mu>
    >>> fit = program.fit(seed=1, progress=False)
    >>> bool(abs(fit.posterior["mu"].mean() - 1.993) < 0.05)
    True
    """
    from bayeslab.posterior.of_pymc.posterior import PyMCPosterior

    if not hasattr(model, "rvs_to_values"):
        raise ModelError(f"a PyMC model is a pymc.Model, not {type(model).__name__}", code="wrong-type")
    return PyMCProgram(PyMCPosterior(model))


class PyMCProgram:
    """The program of a PyMC model, made by :func:`from_pymc`."""

    def __init__(self, posterior: PyMCPosterior) -> None:
        self._posterior = posterior

    @property
    def model(self) -> pymc.Model:
        """The model that was read."""
        return self._posterior.built

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the free variables, in the order of the model."""
        return self._posterior.density.parameters

    @property
    def log_density(self) -> LogDensity:
        """The log density on the unconstrained scale: a function of flat vectors, with names and shapes."""
        return self._posterior.density

    @property
    def evaluated_by_pymc(self) -> tuple[str, ...]:
        """Deterministic variables with operations that the machine does not know.

        Nothing else depends on them. After sampling they are computed by PyMC at all draws at once, in Python.
        """
        return tuple(self._posterior.machine_model().outside)

    def __repr__(self) -> str:
        n = self.log_density.n_dim
        return f"<PyMCProgram of {n:,} parameter{'s' * (n != 1)}: {', '.join(self.parameters)}>"

    def value_and_gradient(self, point: Mapping[str, Any] | np.ndarray) -> tuple[float, np.ndarray]:
        """The log density with its Jacobian, as ``model.logp()``, and its gradient.

        Parameters
        ----------
        point
            Unconstrained values by the names of PyMC's value variables, such as ``tau_log__`` (the points of
            ``model.initial_point()``), or all of them in the order of the model as one vector.

        Returns
        -------
        value : float
        gradient : ndarray (n_dim,)
            NaN where the log density is not finite.
        """
        density = self.log_density
        flat = density.flat(point) if isinstance(point, Mapping) else np.asarray(point, dtype=np.float64)
        return density(flat)

    def fit(
        self,
        method: str = "nuts",
        *,
        seed: int | None = None,
        progress: bool = True,
        **options: Unpack[FitOptions],
    ) -> Fit:
        """Infer the posterior by an engine that needs only the log density.

        Parameters
        ----------
        method
            ``nuts``, ``advi``, ``pathfinder``, ``laplace``, ``map`` or ``smc``.
        seed
            The same seed gives the same draws on any number of cores. None: a new one, which the fit records.
        progress
            Report progress.
        **options
            The engine's options, named as PyMC names them: ``draws``, ``tune``, ``chains``, ``cores``,
            ``target_accept``, ``max_treedepth``, ``initvals``, ...

        Returns
        -------
        Fit
            Variables have the model's names, dims and coords; deterministic variables are among them. It has a verdict
            and a summary, and ArviZ's functions take it, as PyMC's functions take ``fit.data_tree``:
            ``pm.sample_posterior_predictive(fit.data_tree, model=model)``. It predicts nothing itself, and has no run
            folder.

        Raises
        ------
        OptionError
            The method is none of these, or an option is wrong.
        ModelError
            No start with a finite density was found.
        """
        known = [word for word, engine in engines().items() if "backend" in engine.options.model_fields]
        if method not in known:
            raise OptionError(
                f"a PyMC model is fitted by {', '.join(known)}, not '{method}'{hint(method, known)}",
                code="unknown-word",
            )
        begun = time.perf_counter()
        posterior = self._posterior
        engine, reason, chosen = engine_of(posterior, method, dict(options))
        work = ready(Prepared(posterior, None, engine, reason, chosen, seed_of(seed, posterior.model)))
        info = described(work.model, work.data, work.engine, work.reason, work.options, work.seed)
        info["timings"]["build"] = time.perf_counter() - begun
        return Fit.of(run(replace(work, info=info), None, progress))
