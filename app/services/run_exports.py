"""A run in files for other places: bundle, notebook, pictures, logs, its model in gpytorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.services import caching, fit_replay, fitted_maps, prediction, run_colours, server
from lvmcore.errors import DataError
from lvmcore.export.column_colours import DEFAULT_CATEGORIES
from lvmcore.runs.python_snippet import snippet

if TYPE_CHECKING:
    from app.analysis.map.map_axes import View
    from lvmcore.export.animation import AnimationFormat
    from lvmcore.export.map_picture import PictureFormat

__all__ = [
    "bundle",
    "fit_animation",
    "gpytorch_archive",
    "map_file",
    "notebook",
    "open_bundle",
    "tensorboard_log",
]


def bundle(run: str) -> bytes:
    """The run and its data in a ZIP file, which another Latentboard opens.

    Raises:
        DataError: the run has no model, or its rows are in registered files.
    """
    from lvmcore.export.run_bundle import run_bundle

    return run_bundle(server.store(), run)


def open_bundle(content: bytes) -> str:
    """Store the run of a bundle with its data.

    Returns:
        The id of the run.

    Raises:
        DataError: the file is no bundle, or is damaged.
    """
    from lvmcore.export.run_bundle import open_run_bundle

    try:
        return open_run_bundle(server.store(), content)
    finally:
        caching.clear()


def notebook(run: str) -> bytes:
    """A Jupyter notebook that repeats the run.

    Raises:
        LatentboardError: no program repeats it.
    """
    from lvmcore.export.notebook import run_notebook

    store = server.store()
    job = store.get(run)
    return run_notebook(job, snippet(job, store.home))


def map_file(run: str, axes: View, form: PictureFormat, *, sd_behind: bool) -> bytes:
    """The map of a run as a picture for print.

    Raises:
        DataError: the run has no model, or its dataset does not exist.
    """
    from lvmcore.export.map_picture import map_picture

    classes = run_colours.class_style(run)
    return map_picture(
        fitted_maps.model(run),
        fitted_maps.fitted_dataset(run),
        axes,
        form,
        sd_behind=sd_behind,
        colours=DEFAULT_CATEGORIES if classes is None else classes.colours,
    )


def fit_animation(run: str, form: AnimationFormat) -> bytes:
    """The maps of the steps of a fit as an animation.

    Args:
        run: id of the run.
        form: "gif" or "mp4".

    Raises:
        DataError: the fit recorded fewer than two maps, or its rows were deleted.
        UnsupportedError: the package that writes such a file is not installed.
    """
    from lvmcore.export import fit_animation

    replay = fit_replay.fit_replay(run)
    frames = () if replay is None else replay.frames
    return fit_animation.fit_animation(frames, form, run_colours.snapshot_style(run))


def tensorboard_log(run: str) -> bytes:
    """Curves and map of the run in a ZIP file of logs for TensorBoard.

    Raises:
        DataError: the run has neither, or the rows of its map were deleted.
    """
    from lvmcore.export.tensorboard import tensorboard_zip

    store = server.store()
    job = store.get(run)
    if job.spec.target or not job.has_model:
        return tensorboard_zip(store, run)
    return tensorboard_zip(
        store, run, (fitted_maps.fitted_dataset(run), fitted_maps.model(run).embedding_.mean)
    )


def gpytorch_archive(run: str) -> bytes:
    """The fitted model in a ZIP file of plain gpytorch.

    Raises:
        DataError: the run has no model.
        UnsupportedError: gpytorch has no such model.
    """
    from lvmcore.export.gpytorch.archive import gpytorch_zip
    from lvmcore.export.gpytorch.run_export import exported_run

    spec = server.store().get(run).spec
    model = prediction.predictor(run) if spec.target else fitted_maps.model(run)
    try:
        dataset = fitted_maps.stored_dataset(spec.dataset)
    except DataError:  # deleted since: the transforms are then read from the names alone
        dataset = None
    return gpytorch_zip(exported_run(model, spec, dataset))
