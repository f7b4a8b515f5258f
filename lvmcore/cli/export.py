"""The command ``lvmcore export``: a fitted model for another library, an animation of its fit."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pandas as pd

from lvmcore.cli.console import CommandConsole, ExitCode
from lvmcore.cli.output_files import animation_format, write_output
from lvmcore.cli.runs import run_by_id
from lvmcore.data.dataset import Dataset
from lvmcore.data.dataset_storage import load_dataset
from lvmcore.errors import ConfigError, DataError
from lvmcore.export.categories import CategoryStyle, category_style
from lvmcore.export.column_colours import CategoryColours, read_colours
from lvmcore.models import AnyModel, load
from lvmcore.runs.event_log import read_events
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.store import Store

__all__ = ["export"]

#: Ends the names of the label columns of a map; with one label column it is the whole name.
_LABEL = "label"


def export(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Export the fitted model of a run, as plain gpytorch, or the map forming during its fit.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status, 0.

    Raises:
        ConfigError: nothing to export is named, or the output has an unknown suffix or cannot be
            written.
        DataError: there is no such run, it has no fitted model, or it recorded no maps.
        UnsupportedError: gpytorch has no such model, or the package that writes MP4 files is not
            installed.
    """
    if not (arguments.gpytorch or arguments.animation):
        raise ConfigError(
            "Name what to export: lvmcore export RUN --gpytorch --out DIR for the model, or "
            "lvmcore export RUN --animation --out FILE.gif for the map forming during the fit."
        )
    path = Path(arguments.run)
    if not path.exists():
        store = Store()
        path = store.job_folder(run_by_id(store, arguments.run).id).path
    if arguments.animation:
        _export_animation(path, arguments.out, console)
    else:
        _export_model(path, arguments.out, console)
    console.say(f"Kept in {arguments.out}")
    return ExitCode.OK


def _export_model(path: Path, out: Path, console: CommandConsole) -> None:
    from lvmcore.export.gpytorch.archive import write_gpytorch
    from lvmcore.export.gpytorch.run_export import exported_run

    model, folder = _load(path), JobFolder(path)
    spec = folder.spec() if folder.exists() else None
    dataset = None if spec is None else _stored_dataset(path, spec.dataset)
    write_gpytorch(exported_run(model, spec, dataset), out)
    console.say(f"{model.title} exported to gpytorch.")


def _export_animation(path: Path, out: Path, console: CommandConsole) -> None:
    from lvmcore.export.fit_animation import NO_ANIMATION, fit_animation
    from lvmcore.gp.starts.restarts import kept_start

    form, folder = animation_format(out), JobFolder(path)
    if not folder.exists() or not folder.files.model.is_file():
        raise DataError(f"{path} is not the folder of a finished fit, so there is no animation.")
    if not folder.files.events.is_file():
        raise DataError(NO_ANIMATION)
    start = kept_start(_load(path))
    steps = [event.step for event in read_events(folder.files.events)[0]]
    steps = [step for step in steps if step.start == start]
    write_output(out, fit_animation(steps, form, _classes(folder)))
    console.say(f"The map of {folder.spec().model} at its recorded steps as {form.upper()}.")


def _classes(folder: JobFolder) -> CategoryStyle | None:
    """The rows of the map by the first label column; None without labels.

    The labels are read from the map, as a run outside the store has no dataset beside it. Of files
    that stay in place the map is a sample, and the maps of the steps have any of their rows.
    """
    files = folder.files
    if files.all_rows.exists() or not files.embedding.is_file():
        return None
    frame = pd.read_parquet(files.embedding)
    column = next((str(one) for one in frame if str(one).endswith(_LABEL)), None)
    if column is None:
        return None
    dataset = _stored_dataset(folder.path, folder.spec().dataset)
    name = column.removesuffix(f": {_LABEL}")
    if dataset is not None and dataset.label_name is not None:
        name = dataset.label_name
    style = category_style(frame[column].astype(object), name)
    colours = read_colours(files.colours).get(name)
    return replace(style, colours=colours) if isinstance(colours, CategoryColours) else style


def _load(path: Path) -> AnyModel:
    return load(path / "model.safetensors" if path.is_dir() else path)


def _stored_dataset(path: Path, digest: str) -> Dataset | None:
    """The dataset of the run in a folder; None outside a store."""
    stored = path.absolute().parent.parent / "datasets" / digest
    return load_dataset(stored) if stored.is_dir() else None
