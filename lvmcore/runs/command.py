"""The command ``lvmcore fit``: a run in this process, with its progress on the terminal."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from lvmcore.base import LatentVariableModel
from lvmcore.data import (
    Dataset,
    Table,
    load_paper,
    load_sample,
    propose_label,
    propose_row_id,
    read_table,
)
from lvmcore.models import MODELS, load_map
from lvmcore.parameters import parse_settings
from lvmcore.runs.artifacts import embedding_frame
from lvmcore.runs.execute import execute, model_class, rows_to_fit
from lvmcore.runs.exports import check_places, keep_places
from lvmcore.runs.folder import JobFolder, State
from lvmcore.runs.progress import meter_for
from lvmcore.runs.proposal import advised, propose, shape_of, suggested
from lvmcore.runs.spec import JobSpec
from lvmcore.runs.store import Store

__all__ = ["fit", "read_source"]

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
_BAD_INPUT_ERRORS = ("DataError", "ConfigError", "UnsupportedError")


def fit(arguments: argparse.Namespace) -> int:
    """Fit a model to a table in this process, and leave what a run leaves.

    Args:
        arguments: what ``lvmcore.cli`` parsed.

    Returns:
        The exit status: 0 where a model was kept, 2 for data or settings that cannot be used, 130
        when stopped before anything was kept, 1 for anything else.

    Raises:
        LatentboardError: data or settings cannot be used.
    """
    console = Console(highlight=False)
    if arguments.embedding is not None:
        check_places(arguments.embedding, "--embedding")
    table = read_source(arguments)
    dataset = _dataset(arguments, table, console)
    model = _model(arguments, dataset, console)
    rows, left_out = rows_to_fit(dataset, type(model))
    _say(console, f"{model.title}: {_settings(model)}")
    for note in left_out:
        _say(console, f"  {note}")
    with (
        _open_run(arguments, dataset, model) as folder,
        _ctrl_c() as pressed,
        meter_for(console) as meter,
    ):
        state = execute(
            folder,
            lambda: dataset,
            lambda: "cancelled" if pressed() or folder.cancel_requested() else None,
            on_step=meter.show,
        )
    status = _report(console, folder, state)
    if arguments.embedding is not None and folder.model_path.is_file():
        fitted = load_map(folder.model_path)
        keep_places(arguments.embedding, embedding_frame(fitted, rows), fitted, rows, folder.spec())
        _say(console, f"Map kept in {arguments.embedding}")
    return status


def read_source(arguments: argparse.Namespace) -> Table:
    """The table that a command line names: a file, ``sample:NAME`` or ``paper:NAME``.

    Raises:
        DataError: it cannot be read.
    """
    kind, colon, name = arguments.data.partition(":")
    if colon and kind == "sample":
        return load_sample(name)
    if colon and kind == "paper":
        return load_paper(name)
    return read_table(
        arguments.data,
        delimiter=arguments.delimiter,
        encoding=arguments.encoding,
        decimal=arguments.decimal,
        thousands=arguments.thousands,
        sheet=arguments.sheet,
        header=arguments.header,
        missing=_missing(arguments.missing),
    )


def _missing(texts: Sequence[str] | None) -> list[str | float] | None:
    """Cells that mean missing; what reads as a number means that number too."""
    if texts is None:
        return None
    found: list[str | float] = []
    for text in (part.strip() for item in texts for part in item.split(",")):
        found.append(text)
        try:
            found.append(float(text))
        except ValueError:
            continue
    return found


def _dataset(arguments: argparse.Namespace, table: Table, console: Console) -> Dataset:
    labels, row_id = arguments.label or [], arguments.row_id
    if not labels and not arguments.no_label:
        label = propose_label(table)
        if label is not None:
            labels = [label]
            _say(console, f"Label: {label}, which looks like one (--label or --no-label decide).")
    if row_id is None and not arguments.no_row_id:
        row_id = propose_row_id(table)
        if row_id in labels:
            row_id = None
        elif row_id is not None:
            _say(console, f"Row id: {row_id}, by its looks (--row-id or --no-row-id decide).")
    dataset = table.dataset(
        features=_names(arguments.features, table),
        label=labels,
        row_id=row_id,
        log1p=_names(arguments.log1p, table) or (),
        one_hot=_names(arguments.one_hot, table) or (),
        hold_out=arguments.hold_out,
        hold_out_seed=arguments.hold_out_seed,
    )
    rows, columns = dataset.X.shape
    labelled = "".join(
        f", label {name} with {len(dataset.classes_of(name))} classes"
        for name in dataset.label_columns
    )
    _say(console, f"{dataset.name}: {rows} rows, {columns} columns{labelled}.")
    for note in (*table.notes, *(note for note in dataset.notes if note not in table.notes)):
        _say(console, f"  {note}")
    return dataset


def _names(given: Sequence[str] | None, table: Table) -> list[str] | None:
    """Column names; one that holds a comma can be given by an option of its own."""
    if given is None:
        return None
    known = set(table.frame.columns)
    return [
        name.strip() for item in given for name in ([item] if item in known else item.split(","))
    ]


def _model(
    arguments: argparse.Namespace, dataset: Dataset, console: Console
) -> LatentVariableModel:
    """The unfitted model: its defaults, what it suggests for such a table, what was set."""
    shape, key = shape_of(dataset), arguments.model
    if key == "auto":
        found = propose(MODELS, shape)
        key = found.key
        _say(console, f"Model: {MODELS[key].title}, as {found.reason} (--model decides).")
    cls = model_class(key)
    texts = list(arguments.settings)
    if arguments.seed is not None:
        texts.append(f"random_state={arguments.seed}")
    if arguments.device is not None:
        texts.append(f"device={arguments.device}")
    chosen = parse_settings(cls, texts)
    for name, one in advised(cls, shape).items():
        if name not in chosen:
            _say(console, f"  {name}={one.value}, as {one.reason}.")
    return cls(**{**suggested(cls, shape), **chosen})


def _settings(model: LatentVariableModel) -> str:
    return ", ".join(f"{name}={value}" for name, value in model.get_params(deep=False).items())


@contextmanager
def _open_run(
    arguments: argparse.Namespace, dataset: Dataset, model: LatentVariableModel
) -> Iterator[JobFolder]:
    """The run's folder, its lock held: ``--out``, or one in the store for the dashboard to show."""
    spec = JobSpec(
        dataset=dataset.digest,
        dataset_name=dataset.name,
        model=model.key,
        parameters=model.get_params(deep=False),
        name=arguments.name,
    )
    if arguments.out is not None:
        path = arguments.out.expanduser().absolute()
        with JobFolder.create(path, spec, queued=False) as folder:
            yield folder
        return
    store = Store()
    store.put_dataset(dataset)
    with store.own(spec) as folder:
        yield folder


@contextmanager
def _ctrl_c() -> Iterator[Callable[[], bool]]:
    """Tells whether Ctrl-C was pressed; a second one stops at once."""
    presses: list[int] = []

    def note(number: int, frame: object) -> None:
        del frame
        if presses:
            raise KeyboardInterrupt
        presses.append(number)
        print("Stopping; what was fitted is kept. Ctrl-C again stops at once.", file=sys.stderr)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(presses)
    finally:
        signal.signal(signal.SIGINT, before)


def _report(console: Console, folder: JobFolder, state: State) -> int:
    """Say how the run ended, and what that makes the exit status."""
    kept = folder.model_path.is_file()
    if not kept:
        print(state.message, file=sys.stderr)
        if folder.log_path.is_file():
            print(f"See {folder.log_path}", file=sys.stderr)
        if state.status == "failed":
            return BAD_INPUT if state.error in _BAD_INPUT_ERRORS else FAILED
        return INTERRUPTED
    seconds = (
        (state.ended - state.started).total_seconds() if state.ended and state.started else 0.0
    )
    ended = "Done" if state.status == "done" else "Stopped"
    converged = "converged" if state.converged else "not converged"
    _say(console, f"{ended} after {seconds:.1f} s, {converged}.")
    for note in state.notes:
        _say(console, f"  {note}")
    for metric in folder.metrics().values():
        value = "not measured" if metric.value is None else _figure(metric.value)
        _say(console, f"  {metric.label}: {value}. {metric.protocol}")
    _say(console, f"Kept in {folder.path}")
    return OK


def _figure(value: float) -> str:
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3f}"


def _say(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)
