"""The command ``lvmcore export``: a fitted model for another library."""

from __future__ import annotations

import argparse
from pathlib import Path

from lvmcore.cli.console import CommandConsole, ExitCode
from lvmcore.cli.runs import run_by_id
from lvmcore.data.dataset import Dataset
from lvmcore.data.dataset_storage import load_dataset
from lvmcore.errors import ConfigError
from lvmcore.models import AnyModel, load
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.store import Store

__all__ = ["export"]


def export(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Export the fitted model of a run, as plain gpytorch.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status, 0.

    Raises:
        ConfigError: no format was chosen, or the output cannot be written.
        DataError: there is no such run, or it has no fitted model.
        UnsupportedError: gpytorch has no such model.
    """
    from lvmcore.export.gpytorch.archive import write_gpytorch
    from lvmcore.export.gpytorch.run_export import exported_run

    if not arguments.gpytorch:
        raise ConfigError("Name the library to export to: lvmcore export RUN --gpytorch --out DIR.")
    path = Path(arguments.run)
    if not path.exists():
        store = Store()
        path = store.job_folder(run_by_id(store, arguments.run).id).path
    model, folder = _load(path), JobFolder(path)
    spec = folder.spec() if folder.exists() else None
    dataset = None if spec is None else _stored_dataset(path, spec.dataset)
    exported = exported_run(model, spec, dataset)
    write_gpytorch(exported, arguments.out)
    console.say(f"{model.title} exported to gpytorch.")
    console.say(f"Kept in {arguments.out}")
    return ExitCode.OK


def _load(path: Path) -> AnyModel:
    return load(path / "model.safetensors" if path.is_dir() else path)


def _stored_dataset(path: Path, digest: str) -> Dataset | None:
    """The dataset of the run in a folder; None outside a store."""
    stored = path.absolute().parent.parent / "datasets" / digest
    return load_dataset(stored) if stored.is_dir() else None
