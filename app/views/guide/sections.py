"""Sections of the guide: a few sentences and a computed figure each. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from app.analysis.map.row_colours import category_style
from app.figures import latent_map, row_panels, row_traces, training_curve
from app.views.guide.examples import HELD_OUT, SHUFFLED_WEIGHT, ExampleFit, examples
from app.views.guide.figures import scores_figure

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["ORIGIN", "GuideSection", "sections"]

_HEIGHT = 430

#: Source of the figures.
ORIGIN = (
    f"All figures are computed: LDGD on the bundled sample of 178 wines, 13 columns and 3 classes, "
    f"with {HELD_OUT} held-out rows, 400 steps, seed 0. The results are stored with the dashboard, "
    "so that this page opens quickly."
)


@dataclass(frozen=True)
class GuideSection:
    """A section of the guide.

    Attributes:
        title: its title.
        sentences: the explanation.
        figure: draws the figure, for a light or a dark page.
        alt: alternative text of the figure.
        caption: caption of the figure.
    """

    title: str
    sentences: tuple[str, ...]
    figure: Callable[[bool], go.Figure]
    alt: str
    caption: str


def sections() -> tuple[GuideSection, ...]:
    """All sections, in the order of the work."""
    true, shuffled = examples()["true"], examples()["shuffled"]
    return (
        _map(true),
        _uncertainty(true),
        _relevance(true),
        _bound(true),
        _held_out(true, shuffled),
        _label_aware(shuffled),
    )


def _map(example: ExampleFit) -> GuideSection:
    return GuideSection(
        "The map",
        (
            "Every point is a row of the table. Rows that are close on the map are similar in the "
            "columns of the fit; rows far apart differ.",
            "The axes are latent dimensions without a unit. Another seed may give a mirrored map, "
            "which has the same meaning.",
            "The page shows two dimensions. If a third one is relevant, display it as well before "
            "you conclude that two groups are one.",
        ),
        lambda dark: _map_figure(example, dark),
        "Map of the wines in two latent dimensions, three groups by class",
        f"{len(example.mean)} wines, coloured by class.",
    )


def _uncertainty(example: ExampleFit) -> GuideSection:
    return GuideSection(
        "Its uncertainty",
        (
            "The background is the predictive sd: the expected deviation of a row at this point "
            "from its prediction. Light is certain, dark is uncertain.",
            "Far from the rows the background is dark: the reconstruction of a point there is not "
            "reliable.",
            "An ellipse is the posterior of the latent position of a row, at 2 sd. The positions "
            "of two rows with overlapping ellipses may not differ.",
        ),
        lambda dark: _map_figure(example, dark, uncertainty=True),
        "The same map with the predictive sd as background and ellipses of some rows",
        "The same map: mean predictive sd over columns, in sd of each column; ellipses of 34 rows.",
    )


def _relevance(example: ExampleFit) -> GuideSection:
    used = int((example.relevance["data"] >= 0.01).sum())
    return GuideSection(
        "Relevance bars",
        (
            "A bar is the relevance of a latent dimension for a path: the share of the variance of "
            "the path's outputs that the dimension carries. The bars of a path add up to 100 %.",
            "Dimensions with a bar near 0 are switched off. In this way the model chooses the "
            "number of dimensions. During a fit the Fit page shows the kernel's weights, which "
            "need no further computation and are small where the outputs are straight.",
            "With labels there is a path to the columns and one to the labels. A dimension that is "
            "relevant only for the columns varies within the classes; one that is relevant for "
            "both separates the classes.",
        ),
        lambda dark: row_panels.relevance_figure(example.relevance, example.axes, dark=dark),
        "Relevance of ten latent dimensions, for the paths to the columns and to the labels",
        f"The fit has ten dimensions; {used} have at least 1 % of the path to the columns.",
    )


def _bound(example: ExampleFit) -> GuideSection:
    return GuideSection(
        "The bound",
        (
            "A fit maximises the bound (ELBO), a lower bound of the log probability of the data, "
            "in nats. Its value alone has no meaning, since it depends on the size of the table.",
            "It compares fits of the same model to the same rows, columns and labels: higher is "
            "better.",
            "A curve that is flat at its end has converged. If it still rises, the fit needs more "
            "steps: the Fit page estimates how many, and their gain.",
            "Where a step uses a batch of rows, averages of the bound decide: converged, still "
            "improving, or noisy if the batches differ too much to tell.",
        ),
        lambda dark: training_curve.training_curve_figure(
            {"bound": (np.arange(1.0, len(example.bound) + 1), example.bound)},
            "bound (ELBO), nats",
            dark=dark,
        ),
        "The bound at each step: steep at first, then flat",
        f"{len(example.bound)} steps; the last one reached {example.bound[-1]:,.0f} nats.".replace(
            ",", "\u202f"
        ).replace("-", "−"),
    )


def _held_out(true: ExampleFit, shuffled: ExampleFit) -> GuideSection:
    return GuideSection(
        "Held-out scores",
        (
            "A score on the rows of the fit may be high because of overfitting. A score on "
            "held-out rows measures the performance on rows that the fit did not use.",
            "The labels of the second fit are shuffled, so there is nothing to learn. The classes "
            "still separate on its map; on held-out rows its accuracy is that of guessing.",
            "Compare models by held-out scores. Rows are held out on the Data page, and every "
            "score states its protocol.",
        ),
        lambda dark: scores_figure(
            ("true labels", "shuffled labels"),
            {
                "1-NN on the map of the fit": (true.on_map, shuffled.on_map),
                "held-out rows": (true.held_out, shuffled.held_out),
            },
            chance=1 / true.n_classes,
            dark=dark,
        ),
        "Accuracy on the map and on held-out rows, for true and shuffled labels",
        f"Accuracy: 1-NN in five folds on the map, and {HELD_OUT} held-out rows. The dotted line "
        "is guessing among three classes.",
    )


def _label_aware(shuffled: ExampleFit) -> GuideSection:
    return GuideSection(
        "A map that uses the labels",
        (
            "LDGD and Fast LDGD use the labels for the map. They show the dimensions in which the "
            "classes differ, the reconstruction of points between two classes, and the class "
            "probability of any point.",
            "The separation of classes on such a map is no evidence that they can be predicted. On "
            "this map they separate although the labels are random.",
            "Evidence is the accuracy on held-out rows, or a map of a model without labels: the "
            "Bayesian GPLVM, or probabilistic PCA.",
        ),
        lambda dark: _map_figure(shuffled, dark),
        "Map of the wines with shuffled labels, on which the classes separate",
        f"The same wines with shuffled labels of weight {SHUFFLED_WEIGHT:g}: 1-NN accuracy on this "
        f"map {shuffled.on_map:.2f}, accuracy on held-out rows {shuffled.held_out:.2f}.",
    )


def _map_figure(example: ExampleFit, dark: bool, *, uncertainty: bool = False) -> go.Figure:
    """The map of an example."""
    sd = None
    if uncertainty:
        sd = np.full_like(example.sd, np.nan)
        sd[::4] = example.sd[::4]
    rows = row_traces.MapRows(
        points=example.mean,
        number=np.arange(len(example.mean)),
        hover=[[label] for label in example.labels],
        colouring=category_style(pd.Series(example.labels, dtype=object), "class"),
        sd=sd,
    )
    grid = example.background if uncertainty else None
    figure = latent_map.map_figure(rows, example.axes, dark=dark, grid=grid)
    figure.data = tuple(trace for trace in figure.data if trace.name != "ground")
    return figure.update_layout(height=_HEIGHT, legend={"y": -0.18})
