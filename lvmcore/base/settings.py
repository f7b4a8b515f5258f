"""Settings that several models share, declared once."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from numpy.typing import NDArray

from lvmcore.base.advice import InducingLayout
from lvmcore.parameters import Advanced, Doc, Range, Syntax

__all__ = [
    "BatchSize",
    "BatchSizeOrAuto",
    "ClassWeight",
    "ColumnLikelihood",
    "Components",
    "Device",
    "Dimensions",
    "DoubleDtype",
    "Dtype",
    "DtypeOrMixed",
    "Hidden",
    "Inducing",
    "InducingOrAuto",
    "KernelOrAuto",
    "LabelLikelihood",
    "LabelLikelihoodOrAuto",
    "LabelWeight",
    "LabelWeightOrAuto",
    "LayoutOrAuto",
    "LearningRate",
    "MapKernel",
    "MaxIter",
    "Noise",
    "NoiseOrAuto",
    "Restarts",
    "Seed",
    "Start",
    "StartOrAuto",
]

Components = Annotated[
    int | None,
    Range(1, 1000),
    Doc("Number of dimensions of the map; auto is 10, or fewer for a narrow table.", "dimensions"),
]
Dimensions = Annotated[
    int | Literal["ard"] | None,
    Range(1, 1000),
    Doc(
        "Number of dimensions of the map; auto is the advised number for the table, ard is 10, "
        "fewer for a narrow table and more for categories in LDGD, of which the relevance shows "
        "those that the data need.",
        "dimensions",
    ),
]
Device = Annotated[
    str,
    Syntax("lvmcore.devices:check_device", "cuda:1", ("auto", "cpu", "cuda")),
    Doc(
        "Device of the computation: auto takes a GPU where a measured step is quicker on it than "
        "on the CPU; cuda:1 is the second GPU."
    ),
]
Dtype = Annotated[
    Literal["float64", "float32"],
    Doc("Precision: double, or single for the table and the parameters.", "precision"),
    Advanced(),
]
DoubleDtype = Annotated[
    Literal["float64"],
    Doc("Precision: double alone, as the matrix of all rows is factorised.", "precision"),
    Advanced(),
]
DtypeOrMixed = Annotated[
    Literal["float64", "float32", "mixed"],
    Doc(
        "Precision: double, single for the table and the parameters, or mixed: large products in "
        "single, parameters, sums and factorisations in double.",
        "precision",
    ),
    Advanced(),
]
Seed = Annotated[
    int | None,
    Range(0, 2**32 - 1),
    Doc("Seed; equal seeds give equal results, none is random.", "seed"),
]


MaxIter = Annotated[
    int,
    Range(1, 100_000),
    Doc("Most optimiser steps; the fit ends earlier once it has converged.", "steps at most"),
]
Inducing = Annotated[
    int,
    Range(2, 1000),
    Doc(
        "Inducing inputs, which summarise the map: more follow finer detail and cost more.",
        "inducing inputs",
    ),
]
InducingOrAuto = Annotated[
    int | None,
    Range(2, 1000),
    Doc(
        "Inducing inputs, which summarise the map: more follow finer detail and cost more; auto is "
        "the advised number for the table.",
        "inducing inputs",
    ),
]
LayoutOrAuto = Annotated[
    InducingLayout | None,
    Doc(
        "Free inducing inputs, or a grid, which needs a map of two dimensions, and on which many "
        "cost little; auto is the advised one for the table.",
        "layout of inducing inputs",
    ),
    Advanced(),
]
Noise = Annotated[
    Literal["column", "shared"],
    Doc("Noise variance of each column, or one shared by all columns.", "noise"),
    Advanced(),
]
NoiseOrAuto = Annotated[
    Literal["column", "shared"] | None,
    Doc(
        "Noise variance of each column, or one shared by all columns; auto is the advised one for "
        "the table.",
        "noise",
    ),
    Advanced(),
]
LearningRate = Annotated[
    float, Range(1e-4, 1.0, log=True), Doc("Step size of the optimiser (Adam)."), Advanced()
]
LabelWeight = Annotated[
    float,
    Range(0.0, 1000.0),
    Doc("Weight of the label term of the bound; 1 is the published model.", "weight of labels"),
    Advanced(),
]
LabelWeightOrAuto = Annotated[
    float | None,
    Range(0.0, 1000.0),
    Doc(
        "Weight of the label term of the bound; 1 is the published model; auto is larger where the "
        "columns predict the labels.",
        "weight of labels",
    ),
    Advanced(),
]
ClassWeight = Annotated[
    Literal["equal", "balanced"],
    Doc(
        "Equal weight of every labelled row, or of every class, whatever its number of rows.",
        "weight of classes",
    ),
    Advanced(),
]
KernelOrAuto = Annotated[
    str | Literal["auto"],
    Syntax(
        "lvmcore.kernels.catalogue:check_kernel",
        "linear + rbf * periodic(month)",
        ("auto", "rbf", "matern52", "matern32", "linear + rbf"),
    ),
    Doc(
        "Kernel: auto, or a sum or product such as linear + rbf * periodic(month), each part of "
        "the named columns or of all.",
        "kernel",
    ),
]
MapKernel = Annotated[
    str,
    Syntax(
        "lvmcore.kernels.catalogue:check_map_kernel",
        "rbf + linear",
        ("rbf", "matern52", "matern32", "linear", "rbf + linear", "rational_quadratic"),
    ),
    Doc(
        "Kernel over the map: rbf is quickest; matern32 for sharp bends, or a sum or product such "
        "as rbf + periodic(z1) of dimensions.",
        "kernel",
    ),
    Advanced(),
]
ColumnLikelihood = Annotated[
    str,
    Syntax(
        "lvmcore.likelihoods.catalogue:check_likelihoods",
        "gaussian*2, categorical(3)",
        ("gaussian", "by column"),
    ),
    Doc(
        "Likelihood of the columns: gaussian, by column (as proposed for its cells), or a list "
        "such as gaussian*2, poisson.",
        "likelihood of columns",
    ),
]
LabelLikelihood = Annotated[
    Literal["probit", "softmax"],
    Doc("Likelihood of the classes: each against the rest (probit), or all at once (softmax)."),
    Advanced(),
]
LabelLikelihoodOrAuto = Annotated[
    Literal["probit", "softmax"] | None,
    Doc(
        "Likelihood of the classes: each against the rest (probit), or all at once (softmax); auto "
        "is the advised one for the table."
    ),
    Advanced(),
]
Start = Annotated[
    Literal["pca", "isomap", "spectral", "tsne", "random"] | NDArray[Any],
    Doc(
        "Initial map: principal components, curved coordinates from neighbours (isomap, spectral, "
        "tsne), or random positions."
    ),
    Advanced(),
]
StartOrAuto = Annotated[
    Literal["auto", "pca", "isomap", "spectral", "tsne", "random"] | NDArray[Any],
    Doc(
        "Initial map: principal components, curved coordinates from neighbours (isomap, spectral, "
        "tsne), or random positions; auto is tsne where its bound is soon clearly higher than that "
        "of pca."
    ),
    Advanced(),
]
Restarts = Annotated[
    int,
    Range(1, 100),
    Doc(
        "Number of starts, of which the one with the highest bound is kept; with several, the map "
        "shows their agreement.",
        "starts",
    ),
    Advanced(),
]
BatchSize = Annotated[
    int,
    Range(1, 100_000),
    Doc("Rows in a mini-batch; all rows if the table has no more.", "rows a step"),
    Advanced(),
]
BatchSizeOrAuto = Annotated[
    int | None,
    Range(1, 100_000),
    Doc(
        "Rows in a mini-batch; all rows if the table has no more. Auto is the advised number for "
        "the table.",
        "rows a step",
    ),
    Advanced(),
]
Hidden = Annotated[
    int,
    Range(1, 4096),
    Doc("Units in each of the network's two hidden layers.", "hidden units"),
    Advanced(),
]
