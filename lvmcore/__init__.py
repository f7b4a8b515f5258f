"""lvmcore: probabilistic latent variable models on torch, behind scikit-learn's interface.

Importing this package is cheap: torch is loaded when a model is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lvmcore.errors import (
    CancelledError,
    ConfigError,
    DataError,
    LatentboardError,
    NumericalError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from lvmcore.base.table_size import TableSize
    from lvmcore.jobs.fitted_model import add_fitted
    from lvmcore.metrics.stability import Stability, stability
    from lvmcore.models import MODELS, PREDICTORS, load
    from lvmcore.models.gpytorch.conversion import from_gpytorch
    from lvmcore.models.latent.autoencoders.cvq_vae import CVQVAE
    from lvmcore.models.latent.autoencoders.nbvae import NBVAE
    from lvmcore.models.latent.autoencoders.vae import VAE, SupervisedVAE
    from lvmcore.models.latent.bayesian_gplvm import BayesianGPLVM
    from lvmcore.models.latent.deep_qep_lvm import DeepQEPLVM
    from lvmcore.models.latent.factor_analysis import FactorAnalysis
    from lvmcore.models.latent.fast_ldgd import FastLDGD
    from lvmcore.models.latent.latent_dirichlet import LatentDirichletAllocation
    from lvmcore.models.latent.ldgd import LDGD
    from lvmcore.models.latent.linear_discriminant import LinearDiscriminantAnalysis
    from lvmcore.models.latent.linear_qep_lvm import LinearQEPLVM
    from lvmcore.models.latent.manifold import TSNE, UMAP, Isomap
    from lvmcore.models.latent.nmf import NMF
    from lvmcore.models.latent.pca import PCA, ProbabilisticPCA
    from lvmcore.models.latent.point_estimates.discriminative_gplvm import DiscriminativeGPLVM
    from lvmcore.models.latent.point_estimates.gplvm import GPLVM
    from lvmcore.models.latent.point_estimates.sgplvm import SGPLVM
    from lvmcore.models.latent.point_estimates.sllgplvm import SLLGPLVM
    from lvmcore.models.latent.poisson_factorisation import HierarchicalPoissonFactorisation
    from lvmcore.models.latent.qep_lvm import QEPLVM
    from lvmcore.models.latent.rflvm import RFLVM
    from lvmcore.models.latent.srflvm import SRFLVM
    from lvmcore.models.latent.stochastic_gplvm import StochasticGPLVM
    from lvmcore.models.latent.supervised_ppca import SupervisedPPCA
    from lvmcore.models.supervised.cnn import CNNClassifier
    from lvmcore.models.supervised.deep_kernel import (
        DeepKernelGPClassifier,
        DeepKernelGPRegressor,
        DeepKernelQEPClassifier,
        DeepKernelQEPRegressor,
    )
    from lvmcore.models.supervised.dspp import DSPPClassifier, DSPPRegressor
    from lvmcore.models.supervised.dsvi import DSVIDeepGPClassifier, DSVIDeepGPRegressor
    from lvmcore.models.supervised.gp import GPClassifier, GPRegressor
    from lvmcore.models.supervised.iwvi import IWVIDeepGPRegressor
    from lvmcore.models.supervised.qep import (
        DeepQEPClassifier,
        DeepQEPRegressor,
        QEPClassifier,
        QEPRegressor,
    )
    from lvmcore.models.supervised.sghmc import SGHMCDeepGPClassifier, SGHMCDeepGPRegressor
    from lvmcore.models.supervised.subset_of_data import SoDDeepGPClassifier, SoDDeepGPRegressor
    from lvmcore.models.supervised.svgp import SVGPClassifier, SVGPRegressor
    from lvmcore.notebook.interactive_map import show
    from lvmcore.results import FitStep, LabelPredictive, Posterior, Predictive, Snapshot

__all__ = [
    "CVQVAE",
    "GPLVM",
    "LDGD",
    "MODELS",
    "NBVAE",
    "NMF",
    "PCA",
    "PREDICTORS",
    "QEPLVM",
    "RFLVM",
    "SGPLVM",
    "SLLGPLVM",
    "SRFLVM",
    "TSNE",
    "UMAP",
    "VAE",
    "BayesianGPLVM",
    "CNNClassifier",
    "CancelledError",
    "ConfigError",
    "DSPPClassifier",
    "DSPPRegressor",
    "DSVIDeepGPClassifier",
    "DSVIDeepGPRegressor",
    "DataError",
    "DeepKernelGPClassifier",
    "DeepKernelGPRegressor",
    "DeepKernelQEPClassifier",
    "DeepKernelQEPRegressor",
    "DeepQEPClassifier",
    "DeepQEPLVM",
    "DeepQEPRegressor",
    "DiscriminativeGPLVM",
    "FactorAnalysis",
    "FastLDGD",
    "FitStep",
    "GPClassifier",
    "GPRegressor",
    "HierarchicalPoissonFactorisation",
    "IWVIDeepGPRegressor",
    "Isomap",
    "LabelPredictive",
    "LatentDirichletAllocation",
    "LatentboardError",
    "LinearDiscriminantAnalysis",
    "LinearQEPLVM",
    "NumericalError",
    "Posterior",
    "Predictive",
    "ProbabilisticPCA",
    "QEPClassifier",
    "QEPRegressor",
    "SGHMCDeepGPClassifier",
    "SGHMCDeepGPRegressor",
    "SVGPClassifier",
    "SVGPRegressor",
    "Snapshot",
    "SoDDeepGPClassifier",
    "SoDDeepGPRegressor",
    "Stability",
    "StochasticGPLVM",
    "SupervisedPPCA",
    "SupervisedVAE",
    "TableSize",
    "UnsupportedError",
    "add_fitted",
    "from_gpytorch",
    "load",
    "show",
    "stability",
]

_HOMES = {
    "TableSize": "lvmcore.base.table_size",
    "MODELS": "lvmcore.models",
    "PREDICTORS": "lvmcore.models",
    "load": "lvmcore.models",
    "add_fitted": "lvmcore.jobs.fitted_model",
    "from_gpytorch": "lvmcore.models.gpytorch.conversion",
    "show": "lvmcore.notebook.interactive_map",
    "Stability": "lvmcore.metrics.stability",
    "stability": "lvmcore.metrics.stability",
    "FitStep": "lvmcore.results",
    "Snapshot": "lvmcore.results",
    "LabelPredictive": "lvmcore.results",
    "Posterior": "lvmcore.results",
    "Predictive": "lvmcore.results",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name[:1].isupper():  # a model, found by discovery: one that is new needs no line here
        registry = importlib.import_module("lvmcore.models").REGISTRY
        for key, declared in registry.declarations.items():
            if declared.class_name == name:
                return registry[key]
    raise AttributeError(f"module 'lvmcore' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
