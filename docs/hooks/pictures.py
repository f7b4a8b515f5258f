"""The pictures of the model pages: ``python -m docs.hooks.pictures [KEY …]``, on one thread.

A map is drawn of a bundled sample by ``lvmcore.export.map_picture``, coloured by class whether the
model used the labels or not. A model of a target is drawn on one column: its mean and its 90 %
interval; a model of classes alone by held-out digits and its probabilities. The files are
committed; nothing makes them anew but this command.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from lvmcore.data import Dataset, load_sample
from lvmcore.export.column_colours import OKABE_ITO
from lvmcore.export.map_picture import map_picture
from lvmcore.models import MODELS, PREDICTORS
from lvmcore.relevance import leading_dimensions

__all__ = ["SIZE_LIMIT", "draw_map", "draw_prediction", "main"]

FOLDER = Path(__file__).resolve().parents[1] / "pictures"
#: Bytes of a picture, at most.
SIZE_LIMIT = 60_000
WIDTHS = (860, 720, 600)  # pixels: the first that is small enough
#: Models of counts are drawn on grey levels of digits, which are counts from 0 to 16.
COUNT_MODELS, N_DIGITS = ("topics", "hpf", "nbvae"), 300
#: Settings of the pictures: enough steps for a map that looks like a longer fit's.
SETTINGS: dict[str, dict[str, Any]] = {
    "rflvm": {"max_iter": 400, "n_features": 50, "n_chains": 1},
    "deep_qep_lvm": {"max_iter": 300, "n_components": 5},
    "sghmc": {"max_iter": 4000},
    "deep_qep": {"max_iter": 800},
}
#: Digits in the fit of a classifier, and held-out ones in a row of its picture.
N_FITTED, N_BESIDE = 1000, 7
N_ROWS, MODEL_COLOUR = 100, OKABE_ITO[0]
TRUTH_COLOUR, HAIRLINE = "#6B7280", "#9AA3AD"


def sample_of(key: str) -> tuple[Dataset, str]:
    """The rows that a map is drawn of, and their name."""
    if key in COUNT_MODELS:
        dataset = load_sample("digits").dataset(label="digit")
        return dataset.subset(np.arange(len(dataset)) < N_DIGITS), "digits"
    return load_sample("wine").dataset(label="cultivar"), "wine"


def draw_map(key: str) -> bytes:
    """The map of a model fitted to its sample, as PNG."""
    model = MODELS[key](**SETTINGS.get(key, {}))
    dataset, _ = sample_of(key)
    labels = None if model.capabilities.labels == "none" else dataset.labels
    model.fit(dataset.X, labels)
    axes = leading_dimensions(model.relevance_)
    return map_picture(model, dataset, axes, "png", sd_behind=True)


def series() -> tuple[np.ndarray, np.ndarray]:
    """A noisy function with a jump and a kink, [N, 1] and [N]."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 1, N_ROWS))
    x = x[(x < 0.62) | (x > 0.74)]  # a gap without rows
    return x[:, None], truth(x) + 0.08 * rng.normal(size=len(x))


def truth(x: np.ndarray) -> np.ndarray:
    """The function without its noise."""
    return np.where(x < 0.35, np.sin(9 * x), 1.4 - 2 * np.abs(x - 0.55))


def draw_prediction(family: str) -> bytes:
    """Mean and 90 % interval of a regressor on one column, as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    X, y = series()
    model = PREDICTORS[f"{family}_regressor"](**SETTINGS.get(family, {})).fit(X, y)
    grid = np.linspace(-0.05, 1.05, 400)[:, None]
    mean = model.predict(grid)
    low, high = model.predict_quantiles(grid, [0.05, 0.95]).T
    figure = Figure(figsize=(6.4, 3.6), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    plot = figure.add_subplot()
    plot.fill_between(grid[:, 0], low, high, color=MODEL_COLOUR, alpha=0.2, lw=0, label="90 %")
    plot.plot(grid[:, 0], mean, color=MODEL_COLOUR, label="mean")
    plot.plot(grid[:, 0], truth(grid[:, 0]), color=TRUTH_COLOUR, ls=":", lw=1, label="truth")
    plot.scatter(X[:, 0], y, s=9, color="#1A1D21", lw=0, label="rows")
    plot.set_xlabel("column")
    plot.set_ylabel("target")
    plot.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper right", ncols=4, frameon=False)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=200)
    return content.getvalue()


def draw_classified(key: str) -> bytes:
    """Held-out digits that a classifier is least sure of, with its probabilities, as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    dataset = load_sample("digits").dataset(label="digit")
    X, y = np.asarray(dataset.X), np.asarray(dataset.labels)
    model = PREDICTORS[key](**SETTINGS.get(key, {})).fit(X[:N_FITTED], y[:N_FITTED])
    probability = model.predict_proba(X[N_FITTED:])
    unsure = np.argsort(probability.max(1))[: 2 * N_BESIDE]
    figure = Figure(figsize=(6.4, 2.6), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    for plot, row in zip(figure.subplots(2, N_BESIDE).ravel(), unsure, strict=True):
        plot.imshow(X[N_FITTED + row].reshape(8, 8), cmap="gray_r")
        chosen, true = model.classes_[probability[row].argmax()], y[N_FITTED + row]
        right = str(chosen) == str(true)
        words = f"{chosen}: {probability[row].max():.2f}" + ("" if right else f", is {true}")
        plot.set_title(words, fontsize=8, color=TRUTH_COLOUR if right else OKABE_ITO[3])
        plot.set_axis_off()
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=200)
    return content.getvalue()


def draw(name: str) -> bytes:
    """The picture of a page: a map, a prediction, or classified pictures, as PNG."""
    if name in MODELS:
        return draw_map(name)
    if f"{name}_regressor" in PREDICTORS:
        return draw_prediction(name)
    return draw_classified(f"{name}_classifier")


def palette() -> Image.Image:
    """The colours of the pictures: those of the classes, of the background, and greys."""
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    classes = [np.array(to_rgb(colour)) for colour in (*OKABE_ITO, TRUTH_COLOUR, HAIRLINE)]
    shades = [colour + (1 - colour) * share for colour in classes for share in (0, 0.35, 0.7, 0.85)]
    ramp = colormaps["cividis_r"](np.linspace(0, 1, 160))[:, :3] * 0.78 + 0.22
    greys = np.linspace(0, 1, 256 - len(shades) - len(ramp))[:, None].repeat(3, axis=1)
    image = Image.new("P", (1, 1))
    colours = np.concatenate([shades, ramp, greys])
    image.putpalette((255 * colours).round().astype(np.uint8).ravel().tolist())
    return image


def small(content: bytes) -> bytes:
    """A PNG scaled down, with the colours of ``palette``.

    Raises:
        ValueError: it is larger than ``SIZE_LIMIT`` all the same.
    """
    image = Image.open(io.BytesIO(content)).convert("RGB")
    for width in WIDTHS:
        height = round(image.height * width / image.width)
        scaled = image.resize((width, height), Image.Resampling.LANCZOS)
        written = io.BytesIO()
        colours = scaled.quantize(palette=palette(), dither=Image.Dither.NONE)
        colours.save(written, "png", optimize=True)
        if written.tell() <= SIZE_LIMIT:
            return written.getvalue()
    raise ValueError(f"The picture has {written.tell()} bytes: at most {SIZE_LIMIT}.")


def main(keys: Sequence[str]) -> None:
    """Draw the pictures of some pages, or of all."""
    import torch

    torch.set_num_threads(1)
    families = [key.rpartition("_")[0] for key in PREDICTORS]
    for key in keys or [*MODELS, *dict.fromkeys(families)]:
        (FOLDER / f"{key}.png").write_bytes(small(draw(key)))
        print(key, (FOLDER / f"{key}.png").stat().st_size)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw the pictures of the model pages.")
    parser.add_argument("keys", nargs="*", metavar="KEY", help="a page; all where none is named")
    main(parser.parse_args().keys)
