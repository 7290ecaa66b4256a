"""bayeslab: declare a model once; infer it exactly, by NUTS or by optimisation; know whether to trust it.

The public names are loaded when they are first used: ``import bayeslab`` costs milliseconds.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bayeslab import code_cache

if TYPE_CHECKING:
    from bayeslab import machine as machine
    from bayeslab.conjugate import conjugate as conjugate
    from bayeslab.data.dataset import Dataset as Dataset
    from bayeslab.errors import BayeslabError as BayeslabError
    from bayeslab.estimators import estimator as estimator
    from bayeslab.expanding import expand as expand
    from bayeslab.exporting import export as export
    from bayeslab.families.bayes_net.spec import BayesNet as BayesNet
    from bayeslab.families.gaussian_process.spec import GaussianProcess as GaussianProcess
    from bayeslab.families.graph import Graph as Graph
    from bayeslab.families.hmm.spec import HMM as HMM
    from bayeslab.families.hypotheses import Hypotheses as Hypotheses
    from bayeslab.families.latent_features.spec import LatentFeatures as LatentFeatures
    from bayeslab.families.learner import Learner as Learner
    from bayeslab.families.markov_random_field.spec import MarkovRandomField as MarkovRandomField
    from bayeslab.families.mixture.spec import Mixture as Mixture
    from bayeslab.families.regression.spec import Regression as Regression
    from bayeslab.families.regressions.spec import Regressions as Regressions
    from bayeslab.families.topics.spec import Topics as Topics
    from bayeslab.fitting import check as check
    from bayeslab.fitting import fit as fit
    from bayeslab.fitting import open_run as open  # noqa: F401
    from bayeslab.fitting import resume as resume
    from bayeslab.fitting import to_pymc as to_pymc
    from bayeslab.graph_scores import independence as independence
    from bayeslab.graph_scores import score as score
    from bayeslab.language.model_file import load as load
    from bayeslab.language.model_file import save as save
    from bayeslab.language.model_file import schema as schema
    from bayeslab.language.spec import Model as Model
    from bayeslab.networks import Network as Network
    from bayeslab.networks import network as network
    from bayeslab.options import FitOptions as FitOptions
    from bayeslab.report.exploring import explore as explore
    from bayeslab.results.calibrate import calibrate as calibrate
    from bayeslab.results.compare import compare as compare
    from bayeslab.results.cross_validation import cross_validate as cross_validate
    from bayeslab.results.cross_validation import learning_curve as learning_curve
    from bayeslab.results.fit import Fit as Fit
    from bayeslab.results.learner import plot_regions as plot_regions
    from bayeslab.results.predict import simulate as simulate
    from bayeslab.results.priors import priors as priors
    from bayeslab.results.validation_curve import validation_curve as validation_curve
    from bayeslab.shipped import load_example as load_example
    from bayeslab.structures import learn as learn

_PUBLIC = {
    "BayesNet": ("bayeslab.families.bayes_net", "BayesNet"),
    "BayeslabError": ("bayeslab.errors", "BayeslabError"),
    "Dataset": ("bayeslab.data.dataset", "Dataset"),
    "Fit": ("bayeslab.results.fit", "Fit"),
    "FitOptions": ("bayeslab.options", "FitOptions"),
    "GaussianProcess": ("bayeslab.families.gaussian_process", "GaussianProcess"),
    "Graph": ("bayeslab.families.graph", "Graph"),
    "HMM": ("bayeslab.families.hmm", "HMM"),
    "Hypotheses": ("bayeslab.families.hypotheses", "Hypotheses"),
    "Learner": ("bayeslab.families.learner", "Learner"),
    "LatentFeatures": ("bayeslab.families.latent_features", "LatentFeatures"),
    "MarkovRandomField": ("bayeslab.families.markov_random_field", "MarkovRandomField"),
    "Mixture": ("bayeslab.families.mixture", "Mixture"),
    "Model": ("bayeslab.language.spec", "Model"),
    "Network": ("bayeslab.networks", "Network"),
    "Topics": ("bayeslab.families.topics", "Topics"),
    "calibrate": ("bayeslab.results.calibrate", "calibrate"),
    "Regression": ("bayeslab.families.regression", "Regression"),
    "Regressions": ("bayeslab.families.regressions", "Regressions"),
    "check": ("bayeslab.fitting", "check"),
    "compare": ("bayeslab.results.compare", "compare"),
    "conjugate": ("bayeslab.conjugate", "conjugate"),
    "cross_validate": ("bayeslab.results.cross_validation", "cross_validate"),
    "estimator": ("bayeslab.estimators", "estimator"),
    "expand": ("bayeslab.expanding", "expand"),
    "explore": ("bayeslab.report.exploring", "explore"),
    "export": ("bayeslab.exporting", "export"),
    "fit": ("bayeslab.fitting", "fit"),
    "independence": ("bayeslab.graph_scores", "independence"),
    "learn": ("bayeslab.structures", "learn"),
    "load_example": ("bayeslab.shipped", "load_example"),
    "learning_curve": ("bayeslab.results.cross_validation", "learning_curve"),
    "load": ("bayeslab.language.model_file", "load"),
    "network": ("bayeslab.networks", "network"),
    "open": ("bayeslab.fitting", "open_run"),
    "plot_regions": ("bayeslab.results.learner", "plot_regions"),
    "priors": ("bayeslab.results.priors", "priors"),
    "resume": ("bayeslab.fitting", "resume"),
    "save": ("bayeslab.language.model_file", "save"),
    "score": ("bayeslab.graph_scores", "score"),
    "schema": ("bayeslab.language.model_file", "schema"),
    "simulate": ("bayeslab.results.predict", "simulate"),
    "to_pymc": ("bayeslab.fitting", "to_pymc"),
    "validation_curve": ("bayeslab.results.validation_curve", "validation_curve"),
}

#: Modules whose functions are public.
_MODULES = ("machine",)

__all__ = [*_PUBLIC, *_MODULES, "__version__"]

code_cache.install()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("bayeslab")
    if name in _MODULES:
        return import_module(f"bayeslab.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'bayeslab' has no attribute '{name}'")
    if "ipykernel" in sys.modules:
        from bayeslab import compiling

        compiling.announce()
    module, attribute = _PUBLIC[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
