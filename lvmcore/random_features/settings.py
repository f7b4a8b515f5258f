"""Settings of random-feature models, declared once."""

from __future__ import annotations

from typing import Annotated, Literal

from lvmcore.parameters import Advanced, Doc, Range, Syntax
from lvmcore.random_features.construction import BATCH, MOST_AT_ONCE

__all__ = [
    "BatchRows",
    "ColumnScale",
    "FeatureCount",
    "MixtureSize",
    "RowCovariance",
    "SpectralForm",
    "SpectralKernel",
    "SpectralNoise",
    "TableLikelihood",
    "Trials",
    "WeightForm",
]

TableLikelihood = Annotated[
    Literal["gaussian", "bernoulli", "binomial", "negative_binomial", "poisson"],
    Doc(
        "What the columns hold: numbers (gaussian), 0 and 1 (bernoulli), counts out of so "
        "many trials (binomial), or counts without a limit, that scatter more than by "
        "chance (negative_binomial) or just so (poisson)."
    ),
]
FeatureCount = Annotated[
    int,
    Range(4, 2000),
    Doc("Sines and cosines that make up a column: more follow finer detail.", "features"),
]
SpectralKernel = Annotated[
    str | Literal["learned"],
    Syntax(
        "lvmcore.kernels.catalogue:check_spectral_kernel",
        "matern32(z1) + rbf(z2)",
        ("learned", "rbf", "matern52", "matern32", "rational_quadratic"),
    ),
    Doc(
        "Kernel over the map: learned as a mixture of spectra, or given, a sum or product such as "
        "matern32(z1) + rbf(z2).",
        "kernel",
    ),
    Advanced(),
]
MixtureSize = Annotated[
    int,
    Range(2, 100),
    Doc("Most Gaussians in the mixture that the kernel's spectrum is.", "mixture"),
    Advanced(),
]
SpectralForm = Annotated[
    Literal["free", "mixture", "moment"],
    Doc(
        "Each spectral point with a Gaussian of its own (free), drawn from the mixture, or "
        "from one Gaussian with the mixture's moments."
    ),
    Advanced(),
]
SpectralNoise = Annotated[
    Literal["auto", "frozen", "fresh"],
    Doc(
        "Whether every step uses the same draws from the mixture (frozen, as auto does) or "
        "new ones; a free spectrum is drawn anew whatever is said here.",
        "draws of the spectrum",
    ),
    Advanced(),
]
WeightForm = Annotated[
    Literal["marginal", "variational"],
    Doc(
        "Whether the weights of the features are integrated out (marginal) or have a Gaussian "
        "of their own, learned by gradients (variational).",
        "weights of the features",
    ),
    Advanced(),
]
RowCovariance = Annotated[
    Literal["diagonal", "full"],
    Doc(
        "Whether a row's uncertainty may be tilted against the map's axes while it is "
        "fitted (full); what is kept of it is its size along each axis."
    ),
    Advanced(),
]
Trials = Annotated[
    int | None,
    Range(1, 10**9),
    Doc("Trials of the binomial; auto is each column's largest count.", "trials"),
    Advanced(),
]
ColumnScale = Annotated[
    Literal["auto", "column", "shared"],
    Doc(
        "Each column in units of its own spread, or all by one scale, as for pixels; auto "
        "takes one scale for many columns of much the same spread.",
        "scale of the columns",
    ),
    Advanced(),
]
BatchRows = Annotated[
    int | None,
    Range(10, 100_000),
    Doc(
        "Rows looked at in one step, for complete tables of numbers with one noise and a "
        f"diagonal covariance; auto takes all, or {BATCH:,} of more than {MOST_AT_ONCE:,}.",
        "rows a step",
    ),
    Advanced(),
]
