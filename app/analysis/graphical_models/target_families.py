"""Graphical models of the families of models of a target."""

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

__all__ = ["TARGET_FAMILIES"]

_ROWS = "rows n"
_GP, _QEP = "a Gaussian process", "a q-exponential process"

_COLUMNS = observed("x_n", 1, 1, "columns of row n")


def _target(column: float, row: float = 1) -> Variable:
    return observed("y_n", column, row, "target of row n: a number or a class")


def _noise(column: float, row: float) -> Variable:
    return parameter("σ^2", column, row, "noise variance, for a number")


_EXACT_GP = GraphicalModel(
    "Gaussian process of a target",
    (
        _COLUMNS,
        latent("f_n", 2, 1, f"value of the function at row n, {_GP}"),
        _target(3),
        parameter("θ", 2, 0, "kernel parameters"),
        _noise(3, 0),
    ),
    ("x_n → f_n → y_n", "θ → f_n", "σ^2 → y_n"),
    (Plate(_ROWS, "x_n f_n y_n"),),
)


def _sparse(title: str, process: str) -> GraphicalModel:
    return GraphicalModel(
        title,
        (
            _COLUMNS,
            latent("f_n", 2, 1, f"value of the function at row n, {process}"),
            _target(3),
            parameter("z_m", 1, 0, "inducing input m"),
            latent("u_m", 2, 0, "value of the function at inducing input m"),
            parameter("θ", 3, 0, "kernel parameters"),
            _noise(4, 1),
        ),
        ("x_n → f_n → y_n", "z_m → u_m → f_n", "θ → f_n", "σ^2 → y_n"),
        (Plate(_ROWS, "x_n f_n y_n"), Plate("m", "z_m u_m")),
    )


def _deep_kernel(title: str, process: str) -> GraphicalModel:
    return GraphicalModel(
        title,
        (
            _COLUMNS,
            function("h_n", 2, 1, "features of row n, from a neural network"),
            latent("f_n", 3, 1, f"value of the function at row n, {process} of the features"),
            _target(4),
            parameter("ω", 2, 0, "weights of the network"),
            parameter("θ", 3, 0, "kernel parameters"),
            _noise(4, 0),
        ),
        ("x_n → h_n → f_n → y_n", "ω → h_n", "θ → f_n", "σ^2 → y_n"),
        (Plate(_ROWS, "x_n h_n f_n y_n"),),
    )


def _deep(
    title: str, process: str, *more: Variable, arrows: tuple[str, ...] = ()
) -> GraphicalModel:
    """Layers of processes with inducing variables; further variables are of each row if latent."""
    own = " ".join(one.symbol for one in more if one.kind == "latent")
    return GraphicalModel(
        title,
        (
            _COLUMNS,
            latent("h_n^ℓ", 2, 1, f"values of hidden layer ℓ at row n, {process} each"),
            latent("f_n", 3, 1, f"value of the last layer at row n, {process}"),
            _target(4),
            latent("u_ℓ", 2, 0, "inducing variables of hidden layer ℓ"),
            latent("u", 3, 0, "inducing variables of the last layer"),
            parameter("θ_ℓ", 1.62, 0, "kernel parameters of hidden layer ℓ"),
            parameter("θ", 2.62, 0, "kernel parameters of the last layer"),
            _noise(4, 0),
            *more,
        ),
        (
            "x_n → h_n^ℓ → f_n → y_n",
            "u_ℓ → h_n^ℓ",
            "θ_ℓ → h_n^ℓ",
            "u → f_n",
            "θ → f_n",
            "σ^2 → y_n",
            *arrows,
        ),
        (Plate(_ROWS, f"x_n h_n^ℓ f_n y_n {own}"), Plate("layers ℓ", "θ_ℓ u_ℓ h_n^ℓ")),
    )


_NETWORK = GraphicalModel(
    "Neural network of a target",
    (
        _COLUMNS,
        function("h_n", 2, 1, "features of row n, from a neural network"),
        _target(3),
        parameter("ω", 2, 0, "weights of the network"),
    ),
    ("x_n → h_n → y_n", "ω → h_n"),
    (Plate(_ROWS, "x_n h_n y_n"),),
)

#: Graphical models by the keys of the models that they describe, without the ending of their task.
TARGET_FAMILIES: tuple[tuple[str, GraphicalModel], ...] = (
    ("gp", _EXACT_GP),
    ("svgp", _sparse("Sparse Gaussian process of a target", _GP)),
    ("qep", _sparse("Sparse q-exponential process of a target", _QEP)),
    ("sod dsvi sghmc", _deep("Layers of Gaussian processes", _GP)),
    (
        "dspp",
        _deep(
            "Layers of Gaussian processes with sigma points",
            _GP,
            parameter("ω_s", 5, 1, "weight of component s of the predicted mixture"),
            arrows=("ω_s → y_n",),
        ),
    ),
    (
        "iwvi",
        _deep(
            "Layers of Gaussian processes with a noise input",
            _GP,
            latent("w_n", 1, 2.1, "noise input of row n, to the first layer"),
            arrows=("w_n → h_n^ℓ",),
        ),
    ),
    ("deep_qep", _deep("Layers of q-exponential processes", _QEP)),
    ("deep_kernel", _deep_kernel("Gaussian process on features of a network", _GP)),
    ("deep_kernel_qep", _deep_kernel("q-exponential process on features of a network", _QEP)),
    ("cnn", _NETWORK),
)
