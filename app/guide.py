"""How to read what the dashboard shows: a few sentences and one computed figure each. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from app import figures
from app.colouring import categories
from app.illustrations import HELD_OUT, SHUFFLED_WEIGHT, Example, examples

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["ORIGIN", "Section", "sections"]

_HEIGHT = 430

#: Where the figures come from.
ORIGIN = (
    f"The figures are computed, not drawn: LDGD on the bundled sample of 178 wines, 13 columns and "
    f"3 classes, with {HELD_OUT} rows held out, 400 steps, seed 0. They are kept with the "
    "dashboard, so that this page opens at once."
)


@dataclass(frozen=True)
class Section:
    """One thing to read.

    Attributes:
        title: what it is.
        sentences: how to read it.
        figure: draws it, for a light or a dark page.
        alt: what the figure shows, for who cannot see it.
        caption: what the figure is of.
    """

    title: str
    sentences: tuple[str, ...]
    figure: Callable[[bool], go.Figure]
    alt: str
    caption: str


def sections() -> tuple[Section, ...]:
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


def _map(example: Example) -> Section:
    return Section(
        "The map",
        (
            "Every point is a row of the table. Rows that lie near one another are alike in the "
            "columns that the model learned from; rows far apart differ.",
            "The axes are latent dimensions: the model made them up, and they have no unit. A map "
            "may come out mirrored from another seed and say the same.",
            "Only two dimensions fit on the page. If a third one matters, put it on an axis before "
            "you call two groups one.",
        ),
        lambda dark: _drawn(example, dark),
        "Map of the wines in two latent dimensions, three groups by class",
        f"{len(example.mean)} wines, coloured by class.",
    )


def _uncertainty(example: Example) -> Section:
    return Section(
        "Its uncertainty",
        (
            "The colour behind the rows is the predictive sd: how far a row that lies there may be "
            "from what the model expects. Light is sure, dark is unsure.",
            "Where there are no rows the model guesses, and says so by a dark ground: what a place "
            "out there decodes to is not to be trusted.",
            "An ellipse is where one row may lie, at 2 sd. Two rows whose ellipses overlap are not "
            "told apart by their places.",
        ),
        lambda dark: _drawn(example, dark, behind=True),
        "The same map with the predictive sd behind the rows and an ellipse around some of them",
        "The same map: sd of a column on average, in units of its own sd; ellipses of 34 rows.",
    )


def _relevance(example: Example) -> Section:
    used = int((example.relevance["data"] >= 0.01).sum())
    return Section(
        "Relevance bars",
        (
            "A bar says how much a latent dimension counts for a path: how quickly what the path "
            "leads to changes along it. The bars of a path add up to 100 %.",
            "Dimensions with a bar near nothing are switched off: the model found that it does not "
            "need them. That is how it chooses the number of dimensions.",
            "With labels there is a path to the columns and one to the labels. A dimension that "
            "only the first uses varies within the classes; one that both use tells them apart.",
        ),
        lambda dark: figures.relevance_figure(example.relevance, example.axes, dark=dark),
        "Relevance of ten latent dimensions, for the path to the columns and that to the labels",
        f"Ten dimensions were offered; {used} have at least 1 % of the path to the columns.",
    )


def _bound(example: Example) -> Section:
    return Section(
        "The bound",
        (
            "A fit makes the bound (ELBO) as large as it can: the log probability of the data that "
            "the model can vouch for, in nats. Its size says nothing alone, as it grows with the "
            "table.",
            "It compares fits of the same model to the same rows with the same columns and labels: "
            "higher is better.",
            "A curve that is flat at its end has converged. One that still rises asks for more "
            "steps: the Fit page says how many, and what they would bring.",
        ),
        lambda dark: figures.course_figure(
            {"bound": (np.arange(1.0, len(example.bound) + 1), example.bound)},
            "bound (ELBO), nats",
            dark=dark,
        ),
        "The bound at each step: steep at first, then ever flatter",
        f"{len(example.bound)} steps; the last one reached {example.bound[-1]:,.0f} nats.".replace(
            ",", "\u202f"
        ).replace("-", "−"),
    )


def _held_out(true: Example, shuffled: Example) -> Section:
    return Section(
        "Held-out figures",
        (
            "A figure on rows of the fit says how well the model fits them; it may have learned "
            "them by heart. A figure on rows held out says how well it does on rows it never saw.",
            "Here the labels of the second fit were shuffled, so there is nothing to learn. On its "
            "own map the classes still part; on rows held out it can only guess.",
            "So compare models by held-out figures. The Data page holds rows out, and every figure "
            "names how it was measured.",
        ),
        lambda dark: figures.scores_figure(
            ("labels as they are", "labels shuffled"),
            {
                "nearest neighbour on the map of the fit": (true.on_map, shuffled.on_map),
                "rows held out": (true.held_out, shuffled.held_out),
            },
            chance=1 / true.n_classes,
            dark=dark,
        ),
        "Accuracy on the map and on rows held out, for labels as they are and shuffled",
        f"Share of rows whose class is told: 1-NN in five folds on the map, and {HELD_OUT} rows "
        "held out. The dotted line is guessing among three classes.",
    )


def _label_aware(shuffled: Example) -> Section:
    return Section(
        "A map that has seen the labels",
        (
            "LDGD and Fast LDGD use the labels to make the map. They show along which dimensions "
            "the classes differ, what a row between two classes looks like, and how sure the class "
            "of a place is.",
            "That the classes part on such a map is no evidence that they can be told apart. On "
            "this map they part, and their labels were drawn by lot.",
            "Evidence is the accuracy on rows held out, or a map that never saw the labels: the "
            "Bayesian GPLVM, or probabilistic PCA.",
        ),
        lambda dark: _drawn(shuffled, dark),
        "Map of the wines with shuffled labels: the classes part all the same",
        "The same wines with shuffled labels, which count "
        f"{SHUFFLED_WEIGHT:g} times: accuracy of the nearest neighbour on this map "
        f"{shuffled.on_map:.2f}, on rows held out {shuffled.held_out:.2f}.",
    )


def _drawn(example: Example, dark: bool, *, behind: bool = False) -> go.Figure:
    """An example's map, to look at."""
    sd = None
    if behind:
        sd = np.full_like(example.sd, np.nan)
        sd[::4] = example.sd[::4]
    rows = figures.Rows(
        points=example.mean,
        number=np.arange(len(example.mean)),
        hover=[[label] for label in example.labels],
        colouring=categories(pd.Series(example.labels, dtype=object), "class"),
        sd=sd,
    )
    grid = example.behind if behind else None
    figure = figures.map_figure(rows, example.axes, dark=dark, grid=grid)
    figure.data = tuple(trace for trace in figure.data if trace.name != "ground")
    return figure.update_layout(height=_HEIGHT, legend={"y": -0.18})
