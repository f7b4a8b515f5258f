"""Graphical models of the families of latent variable models."""

from __future__ import annotations

from app.analysis.graphical_models.graphical_model import (
    GraphicalModel,
    Plate,
    Variable,
    function,
    latent,
    observed,
    parameter,
)

__all__ = ["MAP_FAMILIES"]

_ROWS = "rows n"
_GP, _QEP = "a Gaussian process", "a q-exponential process"
_CELL = "cell of row n in column d"

_POSITION = latent("x_n", 1, 1, "position of row n on the map")


# ---- maps --------------------------------------------------------------------------------------


def _curved_map(title: str, process: str) -> GraphicalModel:
    return GraphicalModel(
        title,
        (
            _POSITION,
            latent("f_nd", 2, 1, f"value at the position of the function of column d, {process}"),
            observed("y_nd", 3, 1, _CELL),
            parameter("θ", 2, 0, "kernel parameters"),
            parameter("σ^2", 3, 0, "noise variance"),
        ),
        ("x_n → f_nd → y_nd", "θ → f_nd", "σ^2 → y_nd"),
        (Plate(_ROWS, "x_n f_nd y_nd"), Plate("columns d", "f_nd y_nd")),
    )


def _labelled_map() -> GraphicalModel:
    curved = _curved_map("Gaussian-process map of columns and labels", _GP)
    return GraphicalModel(
        curved.title,
        (
            *curved.variables,
            latent("g_nk", 2, 2.1, f"value at the position of the function of class k, {_GP}"),
            observed("c_n", 3, 2.1, "class of row n"),
            parameter("φ", 1, 3.1, "kernel parameters of the classes"),
        ),
        (*curved.arrows, "x_n → g_nk → c_n", "φ → g_nk"),
        (
            Plate(_ROWS, "x_n f_nd y_nd g_nk c_n"),
            Plate("columns d", "f_nd y_nd"),
            Plate("classes k", "g_nk"),
        ),
    )


def _discriminative_map() -> GraphicalModel:
    curved = _curved_map("Gaussian-process map with a prior by class", _GP)
    return GraphicalModel(
        curved.title,
        (
            *curved.variables,
            observed("c_n", 0, 1, "class of row n, which draws its class together"),
        ),
        ("c_n → x_n", *curved.arrows),
        (Plate(_ROWS, "c_n x_n f_nd y_nd"), Plate("columns d", "f_nd y_nd")),
    )


def _layered_map() -> GraphicalModel:
    return GraphicalModel(
        "Map with layers of q-exponential processes",
        (
            _POSITION,
            latent("h_n^ℓ", 2, 1, f"values of hidden layer ℓ at row n, {_QEP} each"),
            latent("f_nd", 3, 1, f"value of the function of column d, {_QEP}"),
            observed("y_nd", 4, 1, _CELL),
            parameter("θ_ℓ", 2, 0, "kernel parameters of layer ℓ"),
            parameter("θ", 3, 0, "kernel parameters of the columns"),
            parameter("σ^2", 4, 0, "noise variance"),
        ),
        ("x_n → h_n^ℓ → f_nd → y_nd", "θ_ℓ → h_n^ℓ", "θ → f_nd", "σ^2 → y_nd"),
        (
            Plate(_ROWS, "x_n h_n^ℓ f_nd y_nd"),
            Plate("layers ℓ", "θ_ℓ h_n^ℓ"),
            Plate("columns d", "f_nd y_nd"),
        ),
    )


_LINEAR = GraphicalModel(
    "Linear map of the columns",
    (
        _POSITION,
        observed("y_nd", 2, 1, _CELL),
        parameter("w_d", 2, 0, "weights and mean of column d"),
        parameter("σ^2", 3, 1, "noise variance: one, one a column, or in the limit 0"),
    ),
    ("x_n → y_nd", "w_d → y_nd", "σ^2 → y_nd"),
    (Plate(_ROWS, "x_n y_nd"), Plate("columns d", "w_d y_nd")),
)

_LINEAR_LABELLED = GraphicalModel(
    "Linear map of columns and labels",
    (
        *_LINEAR.variables,
        observed("t_nk", 2, 2.1, "1 if row n is of class k, otherwise 0"),
        parameter("v_k", 2, 3.1, "weights and mean of class k"),
        parameter("τ^2", 3, 2.1, "noise variance of the classes"),
    ),
    (*_LINEAR.arrows, "x_n → t_nk", "v_k → t_nk", "τ^2 → t_nk"),
    (
        Plate(_ROWS, "x_n y_nd t_nk"),
        Plate("columns d", "w_d y_nd"),
        Plate("classes k", "v_k t_nk"),
    ),
)

_LINEAR_CURVED_CLASSES = GraphicalModel(
    "Linear map with Gaussian processes to the classes",
    (
        *_LINEAR.variables[:-1],
        parameter("σ^2", 3, 0, "noise variance of the columns"),
        latent("g_nk", 2, 2.1, f"value at the position of the function of class k, {_GP}"),
        observed("c_n", 3, 2.1, "class of row n"),
        parameter("φ", 1, 3.1, "kernel parameters of the classes"),
    ),
    (*_LINEAR.arrows, "x_n → g_nk → c_n", "φ → g_nk"),
    (
        Plate(_ROWS, "x_n y_nd g_nk c_n"),
        Plate("columns d", "w_d y_nd"),
        Plate("classes k", "g_nk"),
    ),
)

_DISCRIMINANTS = GraphicalModel(
    "Linear discriminants of classes",
    (
        observed("c_n", 1, 1, "class of row n"),
        observed("y_n", 2, 1, "columns of row n"),
        function("x_n", 3, 1, "position of row n: a linear map of its columns"),
        parameter("μ_k", 2, 0, "mean of class k"),
        parameter("Σ", 2.8, 0, "covariance that the classes share"),
    ),
    ("c_n → y_n → x_n", "μ_k → y_n", "Σ → y_n"),
    (Plate(_ROWS, "c_n y_n x_n"), Plate("k", "μ_k")),
)

_RANDOM_FEATURES = GraphicalModel(
    "Map with random features of a learned kernel",
    (
        _POSITION,
        function("φ_n", 2, 1, "sines and cosines of the position at the frequencies"),
        observed("y_nd", 3, 1, _CELL),
        latent("s_k", 1, 0, "mean and covariance of component k of the spectrum"),
        latent("w_m", 2, 0, "frequency m, from a mixture of the components"),
        latent("h_d", 3, 0, "weights of the features for column d"),
        parameter("σ^2", 4, 1, "noise variance or dispersion of the columns"),
    ),
    ("s_k → w_m → φ_n", "x_n → φ_n → y_nd", "h_d → y_nd", "σ^2 → y_nd"),
    (
        Plate(_ROWS, "x_n φ_n y_nd"),
        Plate("columns d", "h_d y_nd"),
        Plate("k", "s_k"),
        Plate("m", "w_m"),
    ),
)


def _autoencoder(title: str, noise: Variable, *, labelled: bool = False) -> GraphicalModel:
    encoder = 3.2 if labelled else 2.1
    variables = [
        _POSITION,
        function("dec", 2, 1, "decoder, a neural network"),
        observed("y_nd", 3, 1, _CELL),
        parameter("ω", 2, 0, "weights of the decoder"),
        noise,
        function("enc", 2, encoder, "encoder, a neural network that infers the position"),
    ]
    arrows = ["x_n → dec → y_nd", "ω → dec", f"{noise.symbol} → y_nd"]
    inside = "x_n dec y_nd enc"
    if labelled:
        variables += [
            function("net", 2, 2.1, "network of the classes"),
            observed("c_n", 3, 2.1, "class of row n"),
        ]
        arrows.append("x_n → net → c_n")
        inside += " net c_n"
    of_column = "y_nd" if noise is _NOISE else f"{noise.symbol} y_nd"
    return GraphicalModel(
        title,
        tuple(variables),
        tuple(arrows),
        (Plate(_ROWS, inside), Plate("d", of_column)),
        inference=("y_nd → enc → x_n",),
    )


_NOISE = parameter("σ^2", 3, 0, "noise variance")

_CODES = GraphicalModel(
    "Autoencoder with codes",
    (
        observed("y_n", 1, 1, "columns of row n"),
        function("x_n", 2, 1, "position of row n, from the encoder network"),
        function("k_n", 3, 1, "number of the code nearest to the position"),
        function("r_n", 4, 1, "reconstruction of the row, from the decoder network"),
        parameter("e_k", 3, 0, "code k"),
        parameter("ω", 4, 0, "weights of the decoder"),
        parameter("ψ", 2, 0, "weights of the encoder"),
    ),
    ("y_n → x_n → k_n → r_n", "e_k → k_n", "ω → r_n", "ψ → x_n"),
    (Plate(_ROWS, "y_n x_n k_n r_n"), Plate("k", "e_k")),
)

# ---- counts and parts --------------------------------------------------------------------------

_TOPICS = GraphicalModel(
    "Topics of rows of counts",
    (
        parameter("α", 0, 1, "concentration of the shares"),
        latent("x_n", 1, 1, "shares of the topics in row n"),
        latent("z_ni", 2, 1, "topic of count i of row n"),
        observed("y_ni", 3, 1, "column of count i of row n"),
        latent("β_k", 4, 1, "distribution of topic k over the columns"),
    ),
    ("α → x_n → z_ni → y_ni", "β_k → y_ni"),
    (Plate(_ROWS, "x_n z_ni y_ni"), Plate("counts i", "z_ni y_ni"), Plate("topics k", "β_k")),
)

_POISSON_FACTORS = GraphicalModel(
    "Poisson factors of counts",
    (
        latent("ξ_n", 1, 1, "activity of row n"),
        latent("x_n", 2, 1, "factors of row n, its position"),
        observed("y_nd", 3, 1, "count of row n in column d"),
        latent("β_d", 4, 1, "factors of column d"),
        latent("η_d", 5, 1, "popularity of column d"),
    ),
    ("ξ_n → x_n → y_nd", "η_d → β_d → y_nd"),
    (Plate(_ROWS, "ξ_n x_n y_nd"), Plate("columns d", "y_nd β_d η_d")),
)

_PARTS = GraphicalModel(
    "Non-negative parts",
    (
        parameter("x_n", 1, 1, "weights of the parts in row n, none below 0"),
        observed("y_nd", 2, 1, _CELL),
        parameter("h_d", 3, 1, "parts in column d, none below 0"),
    ),
    ("x_n → y_nd", "h_d → y_nd"),
    (Plate(_ROWS, "x_n y_nd"), Plate("columns d", "y_nd h_d")),
)

_NEIGHBOURS = GraphicalModel(
    "Map of neighbours, without a probabilistic model",
    (
        observed("y_n", 1, 1, "columns of row n"),
        function("s_nm", 2, 1, "distance or similarity of rows n and m"),
        parameter("x_n", 3, 1, "position of row n, which reproduces them"),
    ),
    ("y_n → s_nm → x_n",),
    (Plate(_ROWS, "y_n s_nm x_n"), Plate("rows m", "s_nm")),
)

#: Graphical models by the keys of the models that they describe.
MAP_FAMILIES: tuple[tuple[str, GraphicalModel], ...] = (
    ("ldgd fast_ldgd sgplvm", _labelled_map()),
    ("sllgplvm", _LINEAR_CURVED_CLASSES),
    ("discriminative_gplvm", _discriminative_map()),
    ("sppca", _LINEAR_LABELLED),
    ("bayesian_gplvm stochastic_gplvm gplvm", _curved_map("Gaussian-process map", _GP)),
    ("qep_lvm", _curved_map("Map by q-exponential processes", _QEP)),
    ("deep_qep_lvm", _layered_map()),
    ("srflvm rflvm", _RANDOM_FEATURES),
    ("ppca linear_qep_lvm pca factor_analysis", _LINEAR),
    ("vae", _autoencoder("Variational autoencoder", _NOISE)),
    (
        "nbvae",
        _autoencoder("Autoencoder of counts", parameter("r_d", 3, 0, "dispersion of column d")),
    ),
    ("supervised_vae", _autoencoder("Autoencoder with classes", _NOISE, labelled=True)),
    ("cvq_vae", _CODES),
    ("topics", _TOPICS),
    ("hpf", _POISSON_FACTORS),
    ("nmf", _PARTS),
    ("lda", _DISCRIMINANTS),
    ("isomap tsne umap", _NEIGHBOURS),
)
