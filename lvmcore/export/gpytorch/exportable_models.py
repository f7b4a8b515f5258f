"""Which runs can be exported to gpytorch, told without loading a model."""

from __future__ import annotations

from lvmcore.runs.job import JobSpec

__all__ = ["EXPORTED_MODELS", "is_exported"]

#: Keys of the models that can be exported; those of a map where all columns are Gaussian.
EXPORTED_MODELS = (
    "gp_regressor",
    "svgp_regressor",
    "bayesian_gplvm",
    "stochastic_gplvm",
    "ldgd",
    "fast_ldgd",
)


def is_exported(spec: JobSpec) -> bool:
    """Whether the fitted model of a run can be exported."""
    gaussian = spec.parameters.get("column_likelihood") in (None, "gaussian")
    return spec.model in EXPORTED_MODELS and gaussian
