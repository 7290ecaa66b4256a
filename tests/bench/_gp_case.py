"""Gaussian processes: one series, ours and others'. Times are CPU seconds of one thread."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gp_hyperparameters import Maximum, maximise
from bayeslab.latents.gaussian_process.linear_sde import matern
from bayeslab.latents.gaussian_process.state_space import StateSpaceRegression, draw, smooth


class Exact:
    """Rows and a kernel as a function of hyperparameters, noise and mean, by the kernel that graphs use."""

    def __init__(self, kernel: Kernel, x: np.ndarray, y: np.ndarray) -> None:
        n = len(y)
        self.arrays = (
            *kernel.program,
            np.ascontiguousarray(x.T),
            y,
            np.empty((n, 0)),
            np.zeros(n),
            np.zeros(1),
        )

    def log_marginal(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        from bayeslab.latents.gaussian_process import covariance_kernels as kernels

        value, gradient = kernels.log_marginal(np.ascontiguousarray(parameters), *self.arrays)
        return float(value), gradient


def series(n: int, columns: int = 1, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, (n, columns))
    return x, np.sin(x).sum(axis=1) + 0.3 * rng.normal(size=n)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    made = work()
    return time.process_time() - begun, made


def ours_exact(n: int) -> tuple[float, Maximum]:
    """Seconds and the maximum, of an ExpQuad kernel of one lengthscale, from one start."""
    kernel = Kernel.parse("ExpQuad(x0)")
    maximise(Exact(kernel, *series(50)), np.ones(3), np.ones(3, bool))  # compiled
    return timed(lambda: maximise(Exact(kernel, *series(n)), np.ones(3), np.ones(3, bool)))


def scikit_learn(n: int) -> tuple[float, float]:
    """Seconds and the log marginal likelihood reached, from the same start."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel(1.0, (1e-6, 1e6)) * RBF(1.0, (1e-6, 1e6)) + WhiteKernel(1.0, (1e-6, 1e6))
    model = GaussianProcessRegressor(kernel, alpha=0.0)
    x, y = series(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spent, fitted = timed(lambda: model.fit(x, y))
    return spent, float(fitted.log_marginal_likelihood_value_)


def gpytorch(n: int) -> tuple[float, float]:
    """The same by L-BFGS on GPyTorch's exact marginal likelihood, in double precision with Cholesky factors."""
    import gpytorch as peer
    import torch

    torch.set_num_threads(1)
    x, y = (torch.tensor(a, dtype=torch.float64) for a in series(n))

    class Model(peer.models.ExactGP):  # type: ignore[misc]
        def __init__(self, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = peer.means.ZeroMean()
            self.covar_module = peer.kernels.ScaleKernel(peer.kernels.RBFKernel())

        def forward(self, x: Any) -> Any:
            return peer.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def work() -> float:
        likelihood = peer.likelihoods.GaussianLikelihood().double()
        model = Model(likelihood).double()
        model.covar_module.outputscale = 1.0
        model.covar_module.base_kernel.lengthscale = 1.0
        likelihood.noise = 1.0
        model.train()
        likelihood.train()
        objective = peer.mlls.ExactMarginalLogLikelihood(likelihood, model)
        search = torch.optim.LBFGS(
            model.parameters(), max_iter=30, line_search_fn="strong_wolfe", tolerance_change=1e-8
        )

        def closure() -> Any:
            search.zero_grad()
            loss = -objective(model(x), y)
            loss.backward()
            return loss

        with peer.settings.fast_computations(False, False, False):
            search.step(closure)
            return float(objective(model(x), y)) * n

    return timed(work)


def million(irregular: bool, n: int = 10**6) -> dict[str, float]:
    """A Matérn process of a million rows: fit of four parameters, smoothing; seconds."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 0.01 * n, n)) if irregular else 0.01 * np.arange(n)
    f = draw(matern(1.5, 2.0), np.zeros(0), np.zeros(0), 1.0, x, rng, 1)[0]
    y = f + 0.5 * rng.normal(size=n)
    kernel, positive = Kernel.parse("Matern32(t)"), np.array([True, True, True, False])

    def model(rows: int) -> StateSpaceRegression:
        return StateSpaceRegression(kernel, x[:rows, None], y[:rows], np.ones((rows, 1)), np.zeros(rows))

    some = n // 20
    whole, part = model(n), model(some)
    once, _ = timed(lambda: part.log_marginal(np.array([1.0, 1.0, 1.0, 0.0])))  # compiled
    smooth(part.posterior(np.array([1.0, 1.0, 1.0, 0.0])).sde, x[:10], y[:10], 1.0)
    once, _ = timed(lambda: whole.log_marginal(np.array([1.0, 1.0, 1.0, 0.0])))
    fit, found = timed(lambda: maximise(whole, np.array([1.0, 1.0, 1.0, 0.0]), positive, part=part, share=some / n))
    assert found.converged
    process = whole.posterior(found.parameters)
    smoothing, _ = timed(lambda: smooth(process.sde, process.times, process.residuals, process.noise))
    return {
        "density and gradient": once,
        "fit": fit,
        "mean and variance at all rows": smoothing,
        "of": found.evaluations,
    }


# Kernel and number of columns; priors are the same on both sides.
NUTS_CASES = {"ExpQuad, 1 column": ("ExpQuad", 1), "ExpQuad, 3 columns": ("ExpQuad", 3), "Matern52": ("Matern52", 1)}


def frame(n: int, columns: int, seed: int) -> Any:
    import pandas as pd

    x, y = series(n, columns, seed)
    return pd.DataFrame({f"x{k}": x[:, k] for k in range(columns)} | {"y": y})


def ours_nuts(case: str, n: int, seed: int, draws: int = 1000) -> tuple[float, float]:
    """Bulk effective draws of the worst parameter, and CPU seconds, tuning and the search for the mode among them.

    What a fit of two draws takes (compiling, reading, judging) is not counted.
    """
    import arviz as az

    import bayeslab as bl

    word, columns = NUTS_CASES[case]
    inputs = [f"x{k}" for k in range(columns)]
    lengths = [f"{word}_lengthscale_{x}" for x in inputs] if columns > 1 else [f"{word}_lengthscale"]
    priors = dict.fromkeys(lengths, "InverseGamma(3, 3)") | {f"{word}_scale": "HalfNormal(2)", "sigma": "HalfNormal(1)"}
    kernel = f"{word}({', '.join(inputs)})"
    spec = {"family": "gaussian_process", "target": "y", "kernel": kernel, "mean": "0", "priors": priors}
    model = bl.Model.model_validate({"bayeslab": 1, "name": "bench", "model": spec})

    def work(**options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bl.fit(
                model, frame(n, columns, seed), method="nuts", chains=1, cores=1, seed=seed, runs=None, progress=False,
                **options,
            )  # fmt: skip

    work(draws=4)  # compiled
    around, _ = timed(lambda: work(draws=4, tune=2, start="priors"))
    spent, fit = timed(lambda: work(draws=draws))
    return float(min(v.min() for v in az.ess(fit.posterior.to_dataset()).values())), spent - around


def pymc_nuts(case: str, n: int, seed: int, draws: int = 1000) -> tuple[float, float]:
    """The same model as pm.gp.Marginal, sampled by nutpie with its own tuning; compiling is not counted."""
    import arviz as az
    import nutpie
    import pymc as pm

    word, columns = NUTS_CASES[case]
    x, y = series(n, columns, seed)
    with pm.Model() as model:
        length = pm.InverseGamma("length", 3, 3, shape=columns if columns > 1 else None)
        scale, sigma = pm.HalfNormal("scale", 2), pm.HalfNormal("sigma", 1)
        process = pm.gp.Marginal(cov_func=scale**2 * getattr(pm.gp.cov, word)(columns, length))
        process.marginal_likelihood("y", x, y, sigma)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = nutpie.compile_pymc_model(model)
        nutpie.sample(compiled, draws=1, tune=1, chains=1, cores=1, progress_bar=False)
        spent, found = timed(
            lambda: nutpie.sample(compiled, draws=draws, chains=1, cores=1, seed=seed, progress_bar=False)
        )
    parameters = found["posterior"].to_dataset()[["length", "scale", "sigma"]]
    return float(min(v.min() for v in az.ess(parameters).values())), spent
