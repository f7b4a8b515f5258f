"""The command ``lvmcore fit``: a run in this process, with progress output."""

from __future__ import annotations

import argparse
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from lvmcore.base.predictor import Predictor
from lvmcore.cli.choose_model import chosen_model
from lvmcore.cli.console import CommandConsole, ExitCode, short_number
from lvmcore.cli.local_run import check_model_shards, run_here
from lvmcore.cli.output_files import check_outputs, write_placements
from lvmcore.data.build_dataset import exclusion_reason
from lvmcore.data.column_types import ColumnType
from lvmcore.data.dataset import Dataset
from lvmcore.data.date_scales import date_scale_texts, is_dates
from lvmcore.data.new_tables.matching_dataset import binary_codes
from lvmcore.data.number_questions import known_answers
from lvmcore.data.proposed_roles import propose_label, propose_row_id
from lvmcore.data.readers.sandbox import read_files_sandboxed, read_table_sandboxed
from lvmcore.data.samples.paper_datasets import load_paper
from lvmcore.data.samples.samples import load_sample
from lvmcore.data.table import Table
from lvmcore.data.transforms import MAX_LEVELS
from lvmcore.devices import computed_on
from lvmcore.distributed.choice import chosen_shards
from lvmcore.errors import ConfigError
from lvmcore.evaluation.target_scores import read_comparison
from lvmcore.jobs.executors.cluster import RayExecutor
from lvmcore.jobs.executors.single_run import run_on_cluster
from lvmcore.jobs.fitting import training_rows
from lvmcore.likelihoods.catalogue import BY_COLUMN
from lvmcore.models import AnyModel, load
from lvmcore.prediction.map_table import embedding_frame
from lvmcore.prediction.target_rows import date_scales_of_fit
from lvmcore.runs.convergence import convergence_clause
from lvmcore.runs.job import JobSpec
from lvmcore.runs.job_folder import JobFolder
from lvmcore.runs.job_state import JobState, Reason
from lvmcore.runs.store import Store

__all__ = ["fit", "read_likelihood_options", "read_source", "stays_in_place"]

#: COLUMN=ordinal(low < high): the levels may have an equals sign.
_ORDINAL = re.compile(r"(.*?)(=)\s*(ordinal\s*\(.*\)\s*)", re.IGNORECASE | re.DOTALL)
_BAD_INPUT_ERRORS = ("DataError", "ConfigError", "UnsupportedError")


def fit(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """Fit a model to a table in this process, and write the folder of a run.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status: 0 if a model was saved, 2 for data or settings that cannot be used, 130 if
        stopped before a model was saved, 1 for any other error.

    Raises:
        LatentboardError: data or settings cannot be used.
    """
    _check_options(arguments)
    executor = None if arguments.cluster is None else RayExecutor(arguments.cluster)
    if executor is not None:
        executor.check_answer()
    table = read_source(arguments)
    dataset = _dataset(arguments, table, console)
    model = chosen_model(arguments, dataset, console)
    check_model_shards(arguments.shards, model)
    console.say(f"{model.title}: {_settings(model)}")
    if not isinstance(model, Predictor):
        for note in training_rows(dataset, type(model))[1]:
            console.say(f"  {note}")
    with (
        _open_run(arguments, dataset, model) as folder,
        _ctrl_c(console) as pressed,
        console.meter() as meter,
    ):
        should_stop = partial(_should_stop, folder, pressed)
        with chosen_shards(arguments.shards):
            if executor is None:
                state = run_here(folder, dataset, should_stop, meter.show)
            else:
                state = run_on_cluster(folder, dataset, executor, should_stop, on_step=meter.show)
    status = _report(console, folder, state)
    if arguments.embedding is not None and folder.files.model.is_file():
        fitted = load(folder.files.model, "map")
        rows, _ = training_rows(dataset, type(fitted))
        write_placements(
            arguments.embedding, embedding_frame(fitted, rows), fitted, rows, folder.spec()
        )
        console.say(f"Map kept in {arguments.embedding}")
    return status


def _should_stop(folder: JobFolder, pressed: Callable[[], bool]) -> Reason | None:
    """The reason to stop the fit: Ctrl-C, or a cancellation from the dashboard."""
    return "cancelled" if pressed() or folder.cancel_requested() else None


def read_source(arguments: argparse.Namespace, fitted: Dataset | None = None) -> Table:
    """The table of a command line: a file, ``sample:NAME`` or ``paper:NAME``; or a sample of files.

    Args:
        arguments: the parsed command line.
        fitted: rows of a fit; numbers that allow two readings are read as in them.

    Raises:
        DataError: it cannot be read.
    """
    if stays_in_place(arguments):
        return read_files_sandboxed(
            [arguments.data, *arguments.more],
            delimiter=arguments.delimiter,
            encoding=arguments.encoding,
            decimal=arguments.decimal,
            header=arguments.header,
            missing=_missing(arguments.missing),
        )
    kind, colon, name = arguments.data.partition(":")
    if colon and kind == "sample":
        return load_sample(name)
    if colon and kind == "paper":
        return load_paper(name)
    chosen = dict(arguments.column_decimal or ())
    table = _read_file(arguments, chosen)
    as_fitted = {} if fitted is None else known_answers(table.questions, fitted.column_decimals)
    return _read_file(arguments, as_fitted | chosen) if as_fitted else table


def stays_in_place(arguments: argparse.Namespace) -> bool:
    """Whether the files of a command line stay in place: several, a folder, or by an option."""
    return bool(arguments.in_place or arguments.more or Path(arguments.data).expanduser().is_dir())


def _read_file(arguments: argparse.Namespace, column_decimals: Mapping[str, str]) -> Table:
    return read_table_sandboxed(
        arguments.data,
        delimiter=arguments.delimiter,
        encoding=arguments.encoding,
        decimal=arguments.decimal,
        thousands=arguments.thousands,
        column_decimals=column_decimals or None,
        sheet=arguments.sheet,
        header=arguments.header,
        missing=_missing(arguments.missing),
    )


def _missing(texts: Sequence[str] | None) -> list[str | float] | None:
    """The missing markers: texts, and the numbers that they represent."""
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


def _check_options(arguments: argparse.Namespace) -> None:
    """Check the combination of options, before the table is read.

    Raises:
        ConfigError: it is not allowed.
    """
    if arguments.embedding is not None:
        check_outputs(arguments.embedding, "--embedding")
        if arguments.target:
            raise ConfigError("--embedding writes a map, and a model of a target has none.")
    if not arguments.target and (arguments.groups or arguments.time):
        raise ConfigError(
            "--groups and --time say which rows a fit to a target leaves out: name it by --target."
        )


def _dataset(arguments: argparse.Namespace, table: Table, console: CommandConsole) -> Dataset:
    labels, row_id = arguments.label or [], arguments.row_id
    if not labels and not arguments.no_label and not arguments.target:
        label = propose_label(table)
        if label is not None:
            labels = [label]
            console.say(f"Label: {label}, detected (override with --label or --no-label).")
    features = _names(arguments.features, table)
    if row_id is None and not arguments.no_row_id:
        row_id = propose_row_id(table)
        if row_id in (*labels, *(features or ()), arguments.target):
            row_id = None
        elif row_id is not None:
            console.say(f"Row id: {row_id}, detected (override with --row-id or --no-row-id).")
    one_hot = _one_hot(arguments, table, {*labels, row_id})
    if features is None and arguments.target:
        features = _features_of_target(arguments, table, row_id, one_hot)
    dataset = table.dataset(
        features=features,
        label=labels,
        row_id=row_id,
        log1p=_names(arguments.log1p, table) or (),
        one_hot=one_hot,
        likelihoods=read_likelihood_options(arguments.likelihood or ()),
        hold_out=arguments.hold_out,
        hold_out_seed=arguments.hold_out_seed,
    )
    rows, columns = dataset.X.shape
    labelled = "".join(
        f", label {name} with {len(dataset.label_classes(name))} classes"
        for name in dataset.label_columns
    )
    console.say(f"{dataset.name}: {rows} rows, {columns} columns{labelled}.")
    target = f"Column {arguments.target!r} left out"  # the target is not a feature: no note needed
    notes = (*table.notes, *(note for note in dataset.notes if note not in table.notes))
    for note in notes:
        if not arguments.target or not note.startswith(target):
            console.say(f"  {note}")
    return dataset


def _features_of_target(
    arguments: argparse.Namespace, table: Table, row_id: str | None, one_hot: Sequence[str]
) -> list[str] | None:
    """The features of a target; None for the default ones, and with dates where there are none."""
    others = {*(arguments.label or ()), row_id}
    usual = [
        column.name
        for column in table.columns
        if column.name not in others
        and (exclusion_reason(column) is None or column.name in one_hot)
    ]
    if {*usual} - {arguments.target, arguments.groups}:
        return None
    dates = [
        column.name
        for column in table.columns
        if column.type is ColumnType.DATE
        and is_dates(table.frame[column.name])
        and column.name not in {*others, arguments.target, arguments.groups}
    ]
    return [*usual, *dates] if dates else None


def _one_hot(arguments: argparse.Namespace, table: Table, others: set[str | None]) -> Sequence[str]:
    """Category columns to encode: those given; for a target or likelihoods by column, else all."""
    given = _names(arguments.one_hot, table)
    every = arguments.target or f"column_likelihood={BY_COLUMN}" in arguments.settings
    if given is not None or not every or arguments.features:
        return given or ()
    others |= {arguments.target, arguments.groups, arguments.time}
    return [
        column.name
        for column in table.columns
        if column.type is ColumnType.CATEGORY
        and not column.is_annotation
        and column.name not in others
        and 0 < column.distinct <= MAX_LEVELS
    ]


def read_likelihood_options(given: Sequence[str]) -> dict[str, str]:
    """Likelihoods by column, from COLUMN=NAME.

    Raises:
        ConfigError: one has no equals sign.
    """
    found = {}
    for item in given:
        ordinal = _ORDINAL.fullmatch(item)
        column, equals, text = ordinal.groups() if ordinal else item.rpartition("=")
        if not equals or not column:
            raise ConfigError(
                f"--likelihood {item!r} has no likelihood. Expected COLUMN=NAME, for example "
                "visits=poisson."
            )
        found[column.strip()] = text.strip()
    return found


def _names(given: Sequence[str] | None, table: Table) -> list[str] | None:
    """Column names of a repeated option; a name with a comma needs its own option."""
    if given is None:
        return None
    known = set(table.frame.columns)
    return [
        name.strip() for item in given for name in ([item] if item in known else item.split(","))
    ]


def _settings(model: AnyModel) -> str:
    return ", ".join(f"{name}={value}" for name, value in model.get_params(deep=False).items())


@contextmanager
def _open_run(
    arguments: argparse.Namespace, dataset: Dataset, model: AnyModel
) -> Iterator[JobFolder]:
    """The locked folder of the run: ``--out``, or one in the store of the dashboard."""
    spec = JobSpec(
        dataset=dataset.digest,
        dataset_name=dataset.name,
        model=model.key,
        parameters=model.get_params(deep=False),
        name=arguments.name,
        target=arguments.target,
        groups=arguments.groups,
        time=arguments.time,
        codes=binary_codes(dataset),
        date_scales=date_scale_texts(
            date_scales_of_fit(dataset, arguments.target, arguments.groups)
        ),
    )
    if arguments.out is not None:
        path = arguments.out.expanduser().absolute()
        with JobFolder.create(path, spec, queued=False) as folder:
            yield folder
        return
    store = Store()
    store.datasets.put(dataset)
    with store.own(spec) as folder:
        yield folder


@contextmanager
def _ctrl_c(console: CommandConsole) -> Iterator[Callable[[], bool]]:
    """A function that returns whether Ctrl-C was pressed; a second one raises at once."""
    presses: list[int] = []

    def note(number: int, frame: object) -> None:
        del frame
        if presses:
            raise KeyboardInterrupt
        presses.append(number)
        console.error("Stopping; what was fitted is kept. Ctrl-C again stops at once.")

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(presses)
    finally:
        signal.signal(signal.SIGINT, before)


def _report(console: CommandConsole, folder: JobFolder, state: JobState) -> int:
    """Print how the run ended; its exit status."""
    kept = folder.files.model.is_file()
    if not kept:
        console.error(state.message)
        if folder.files.log.is_file():
            console.error(f"See {folder.files.log}")
        if state.status == "failed":
            return ExitCode.BAD_INPUT if state.error in _BAD_INPUT_ERRORS else ExitCode.FAILED
        return ExitCode.INTERRUPTED
    seconds = (
        (state.ended - state.started).total_seconds() if state.ended and state.started else 0.0
    )
    ended = "Done" if state.status == "done" else "Stopped"
    console.say(
        f"{ended} after {seconds:.1f} s, {convergence_clause(state, short_number)}."
        + computed_on(state.computation)
    )
    for note in state.notes:
        console.say(f"  {note}")
    console.say_metrics(folder.metrics())
    if folder.spec().target:
        console.say_comparison(read_comparison(folder.files.comparison))
    console.say(f"Kept in {folder.path}")
    return ExitCode.OK
