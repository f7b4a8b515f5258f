"""Pure functions: arrays to plotly figures. No streamlit."""

from app.figures.cells import missing_figure, profile_figure
from app.figures.comparison import side_figure
from app.figures.course import course_figure
from app.figures.density import density_picture
from app.figures.hidden import Hidden, hidden_figure
from app.figures.kernel import kernel_figure, spectrum_figure
from app.figures.latent_map import axis_title, evenly, map_figure, sampled
from app.figures.legend import legend
from app.figures.pairs import pairs_html
from app.figures.panels import image_figure, reconstruction_figure, relevance_figure
from app.figures.placed import NewLayer, placed_figure
from app.figures.predicted import (
    calibration_figure,
    confusion_figure,
    input_relevance_figure,
)
from app.figures.rows import Rows
from app.figures.scene import ELLIPSE_SD, Ranges, Scene
from app.figures.scores import scores_figure
from app.figures.sequence import curves_figure, strip_figure
from app.figures.theme import escape, ink, template, veil

__all__ = [
    "ELLIPSE_SD",
    "Hidden",
    "NewLayer",
    "Ranges",
    "Rows",
    "Scene",
    "axis_title",
    "calibration_figure",
    "confusion_figure",
    "course_figure",
    "curves_figure",
    "density_picture",
    "escape",
    "evenly",
    "hidden_figure",
    "image_figure",
    "ink",
    "input_relevance_figure",
    "kernel_figure",
    "legend",
    "map_figure",
    "missing_figure",
    "pairs_html",
    "placed_figure",
    "profile_figure",
    "reconstruction_figure",
    "relevance_figure",
    "sampled",
    "scores_figure",
    "side_figure",
    "spectrum_figure",
    "strip_figure",
    "template",
    "veil",
]
