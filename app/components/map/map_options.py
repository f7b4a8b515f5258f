"""What the map of a run can show: the options of its controls, and the view of a new map."""

from __future__ import annotations

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.heatmaps import Kind
from app.analysis.map.map_view import (
    DECODED_MEAN,
    NO_BACKGROUND,
    OF_ONE_COLUMN,
    MapOptions,
    MapView,
)
from app.analysis.map.selections import is_number
from app.components.map.measured_colours import (
    BY_DISAGREEMENT,
    BY_RESIDUAL,
    DISAGREEMENT_TITLE,
    RESIDUAL_TITLE,
    disagreement_colour,
)
from app.components.map.row_appearance import BY_SD
from app.components.map.side_panel import RELEVANCE, TABS
from app.formatting import distinct_titles, shortened
from app.services import fitted_maps, placement
from lvmcore.data import Dataset
from lvmcore.prediction.label_columns import label_columns
from lvmcore.relevance import leading_dimensions

__all__ = [
    "BACKGROUNDS",
    "LABEL",
    "OF_COLUMNS",
    "OF_LABEL_COLUMNS",
    "colour_options",
    "coloured_column",
    "label_colour",
    "map_options",
]

#: Most rows for which ellipses are on by default.
MOST_DEFAULT_ELLIPSES = 200

#: Colour option of the first label column.
LABEL = "label"
_ONE_COLOUR = "one colour"
BACKGROUNDS: dict[str, Kind] = {
    OF_ONE_COLUMN: "sd",
    DECODED_MEAN: "mean",
    "magnification": "magnification",
    "class probability": "probability",
    "class entropy": "entropy",
    "class probability variance": "probability variance",
}
#: Heatmaps of the columns; the others are of the classes.
OF_COLUMNS = (OF_ONE_COLUMN, DECODED_MEAN, "magnification")
#: Heatmaps of all classes of a label column; the further ones are of a class.
OF_LABEL_COLUMNS = ("class entropy",)


def map_options(fitted_map: FittedMap) -> MapOptions:
    """What the map of a run can show."""
    model, dataset, can = fitted_map.model, fitted_map.dataset, fitted_map.model.capabilities
    axes = leading_dimensions(model.variance_shares())
    several = axes[1] is not None
    run = fitted_map.run
    held = placement.held_out_rows(run) if placement.has_held_out_rows(run) else None
    colours = _colours(fitted_map)
    types = {str(name): dtype for name, dtype in dataset.frame.dtypes.items()}
    numbers = [name for name, dtype in types.items() if is_number(dtype)]
    labels = list(dataset.label_columns)
    taken = {*numbers, *labels}
    drawn: tuple[str, ...] = OF_COLUMNS if can.decoding else ()
    if can.labels != "none":
        drawn += tuple(name for name in BACKGROUNDS if name not in OF_COLUMNS)
    return MapOptions(
        new=MapView(
            axes=(axes[0], axes[1]) if axes[1] is not None else None,
            colour=next(iter(colours)),
            background=OF_ONE_COLUMN if can.decoding else NO_BACKGROUND,
            ellipses=several and can.uncertainty and len(dataset) <= MOST_DEFAULT_ELLIPSES,
            held_out=held is not None,
            tab=RELEVANCE,
        ),
        dimensions=fitted_map.dimensions,
        best=fitted_maps.best_view(run),
        colours=colours,
        backgrounds=_backgrounds(fitted_map),
        drawn=drawn,
        columns=len(dataset.feature_names),
        sizes=[BY_SD, *numbers] if can.uncertainty and BY_SD not in types else numbers,
        shapes=[*labels, *(name for name in types if name not in taken)],
        rows=len(dataset) + (0 if held is None else len(held)),
        ellipses=several and can.uncertainty,
        inducing=several and bool(model.inducing_inputs_),
        held_out=held is not None,
        tabs=TABS,
        pictures=dataset.image_shape is not None,
        attempt=fitted_maps.attempt(run),
    )


def _colours(fitted_map: FittedMap) -> dict[str, str]:
    """Options for the row colours of a run's map with their titles."""
    options = colour_options(fitted_map.dataset)
    if disagreement_colour(fitted_map.run) is not None:
        options[BY_DISAGREEMENT] = DISAGREEMENT_TITLE
    if fitted_map.model.capabilities.decoding:
        options[BY_RESIDUAL] = RESIDUAL_TITLE
    return options


def _backgrounds(fitted_map: FittedMap) -> dict[str, int]:
    """Number of classes or label columns to choose from, by the name of a heatmap."""
    found = dict.fromkeys((NO_BACKGROUND, *BACKGROUNDS), 0)
    if fitted_map.model.capabilities.labels != "none":
        columns = label_columns(fitted_map.model)
        classes = sum(len(column.classes) for column in columns)
        for name in BACKGROUNDS:
            if name not in OF_COLUMNS:
                found[name] = len(columns) if name in OF_LABEL_COLUMNS else classes
    return found


def colour_options(dataset: Dataset) -> dict[str, str]:
    """Options for the row colours with their titles; labels come first."""
    options = {}
    for label in dataset.label_columns:
        options[label_colour(dataset, label)] = f"label: {shortened(label)}"
    options |= {f"column {name}": shortened(name) for name in map(str, dataset.frame.columns)}
    one_colour = {"": _ONE_COLOUR}
    ordered = {**options, **one_colour} if dataset.labels is not None else {**one_colour, **options}
    return dict(zip(ordered, distinct_titles(ordered.values()), strict=True))


def label_colour(dataset: Dataset, label: str) -> str:
    """Colour option of a label column; that of the first one does not hold its name."""
    return LABEL if label == dataset.label_name else f"{LABEL} {label}"


def coloured_column(dataset: Dataset, colour: str) -> str:
    """Name of the column of an option of ``colour_options``."""
    for label in dataset.label_columns:
        if colour == label_colour(dataset, label):
            return label
    return colour.removeprefix("column ")
