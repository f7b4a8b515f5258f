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
    from lvmcore.disagreement import Stability, stability
    from lvmcore.models import MODELS, PREDICTORS, load
    from lvmcore.models.bayesian_gplvm import BayesianGPLVM
    from lvmcore.models.classical import FactorAnalysis, LinearDiscriminantAnalysis
    from lvmcore.models.deep_gp import (
        DSVIDeepGPClassifier,
        DSVIDeepGPRegressor,
        SoDDeepGPClassifier,
        SoDDeepGPRegressor,
        SVGPClassifier,
        SVGPRegressor,
    )
    from lvmcore.models.deep_kernel import (
        DeepKernelGPClassifier,
        DeepKernelGPRegressor,
        DeepKernelQEPClassifier,
        DeepKernelQEPRegressor,
    )
    from lvmcore.models.deep_qep_lvm import DeepQEPLVM
    from lvmcore.models.fast_ldgd import FastLDGD
    from lvmcore.models.ldgd import LDGD
    from lvmcore.models.nbvae import NBVAE
    from lvmcore.models.neighbours import TSNE, UMAP, Isomap
    from lvmcore.models.nmf import NMF
    from lvmcore.models.pca import PCA, ProbabilisticPCA
    from lvmcore.models.qep import (
        DeepQEPClassifier,
        DeepQEPRegressor,
        QEPClassifier,
        QEPRegressor,
    )
    from lvmcore.models.qep_lvm import QEPLVM
    from lvmcore.models.rflvm import RFLVM
    from lvmcore.models.sghmc import SGHMCDeepGPRegressor
    from lvmcore.models.sigma_points import DSPPRegressor
    from lvmcore.models.srflvm import SRFLVM
    from lvmcore.models.topics import LatentDirichletAllocation
    from lvmcore.models.vae import VAE, SupervisedVAE
    from lvmcore.results import FitStep, LabelPredictive, Posterior, Predictive, Snapshot

__all__ = [
    "LDGD",
    "MODELS",
    "NBVAE",
    "NMF",
    "PCA",
    "PREDICTORS",
    "QEPLVM",
    "RFLVM",
    "SRFLVM",
    "TSNE",
    "UMAP",
    "VAE",
    "BayesianGPLVM",
    "CancelledError",
    "ConfigError",
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
    "FactorAnalysis",
    "FastLDGD",
    "FitStep",
    "Isomap",
    "LabelPredictive",
    "LatentDirichletAllocation",
    "LatentboardError",
    "LinearDiscriminantAnalysis",
    "NumericalError",
    "Posterior",
    "Predictive",
    "ProbabilisticPCA",
    "QEPClassifier",
    "QEPRegressor",
    "SGHMCDeepGPRegressor",
    "SVGPClassifier",
    "SVGPRegressor",
    "Snapshot",
    "SoDDeepGPClassifier",
    "SoDDeepGPRegressor",
    "Stability",
    "SupervisedVAE",
    "UnsupportedError",
    "load",
    "stability",
]

_HOMES = {
    "MODELS": "lvmcore.models",
    "PREDICTORS": "lvmcore.models",
    "load": "lvmcore.models",
    "Stability": "lvmcore.disagreement",
    "stability": "lvmcore.disagreement",
    "FitStep": "lvmcore.results",
    "Snapshot": "lvmcore.results",
    "LabelPredictive": "lvmcore.results",
    "Posterior": "lvmcore.results",
    "Predictive": "lvmcore.results",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'lvmcore' has no attribute {name!r}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    models = importlib.import_module("lvmcore.models")
    known = (*models.MODELS.values(), *models.PREDICTORS.values())
    return next(model for model in known if model.__name__ == name)


def __dir__() -> list[str]:
    return sorted(__all__)
