"""Options of the commands. Importing this module loads neither torch nor the models."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

__all__ = ["build_parser"]


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command line.

    The attribute ``command`` of its result is the module and the function of the command.
    """
    parser = argparse.ArgumentParser(
        prog="lvmcore",
        description="Fit probabilistic latent variable models to tables.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_fit(commands)
    _add_transform(commands)
    _add_impute(commands)
    _add_predict(commands)
    _add_export(commands)
    _add_runs(commands)
    models = commands.add_parser("models", help="list the models, or the settings of one")
    models.add_argument("--model", metavar="KEY", help="show the settings of this model")
    models.set_defaults(command=("lvmcore.cli.models", "list_models"))
    bench = commands.add_parser("bench", help="measure accuracy and speed, with references")
    bench.add_argument(
        "name",
        help="all, classify, files-in-place, first-fit, impute, kernels, ldgd, map-methods, maps, "
        "mixed, mnist, precision, psi, qep, s-curve, shard-batches, shards, short-tables, sod-dgp, "
        "srflvm or verdict",
    )
    bench.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    bench.add_argument("--full", action="store_true", help="the long version, as published")
    bench.add_argument("--cluster", nargs="?", const="auto", metavar="ADDRESS",
        help="measure the rows at once on a Ray cluster: host:port, or auto (default)")  # fmt: skip
    bench.set_defaults(command=("lvmcore.cli.bench", "run"))
    return parser


def _add_fit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    fit = commands.add_parser(
        "fit",
        help="fit a model to a table",
        description="Fit a model to a table, and keep the model, the map and the figures. Ctrl-C "
        "stops the fit and keeps the model fitted so far.",
    )
    fit.set_defaults(command=("lvmcore.cli.fit", "fit"))
    add = fit.add_argument
    add(
        "data",
        help="a file (CSV, TSV, JSON lines, XLSX, NPZ, Parquet, H5AD), sample:NAME or paper:NAME; "
        "or a folder of Parquet or CSV files, which stay in place",
    )
    _add_files(fit)
    add("--model", default="auto", metavar="KEY",
        help="see `lvmcore models`; auto proposes one for the table (default)")  # fmt: skip
    add(
        "--features", action="append", metavar="A,B,…", help="columns to use (default: all numbers)"
    )
    add("--log1p", action="append", metavar="A,B,…", help="features to learn as log(1 + x)")
    add("--one-hot", action="append", metavar="A,B,…",
        help="categories to learn from, as one 0/1 feature a level (default: all for a target "
        "and with 'column_likelihood=by column', else none)")  # fmt: skip
    add("--likelihood", action="append", metavar="COLUMN=NAME",
        help="likelihood of a column in place of the proposed one, with --set "
        "'column_likelihood=by column'; with an order 'size=ordinal(low < high)'")  # fmt: skip
    add("--label", action="append", metavar="COLUMN",
        help="column of classes (default: detected); repeat it for several, which LDGD and Fast "
        "LDGD learn from jointly")  # fmt: skip
    add("--no-label", action="store_true", help="use no label")
    _add_row_id(fit)
    add("--target", default="", metavar="COLUMN",
        help="learn to predict this column, a number or a class, in place of a map")  # fmt: skip
    add("--groups", default="", metavar="COLUMN",
        help="with --target: hold out whole groups of this column")  # fmt: skip
    add("--time", default="", metavar="COLUMN",
        help="with --target: hold out the last rows by this column")  # fmt: skip
    add("--hold-out", type=float, default=0.0, metavar="SHARE",
        help="share of the rows, up to 0.5, to hold out of the fit and evaluate it on")  # fmt: skip
    add("--hold-out-seed", type=int, default=0, metavar="SEED", help="seed of the held-out rows")
    add("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="a setting of the model; see `lvmcore models --model KEY`")  # fmt: skip
    add("--seed", type=int, help="seed of the fit (short for --set random_state=…)")
    add("--device", help="auto, cpu, cuda or cuda:1 (short for --set device=…)")
    add("--dtype", help="float64, float32 or mixed (short for --set dtype=…)")
    add("--cluster", nargs="?", const="auto", metavar="ADDRESS",
        help="compute the fit on a Ray cluster: host:port, or auto (default) for RAY_ADDRESS, "
        "else the cluster of this machine")  # fmt: skip
    add("--shards", type=int, default=0, metavar="N",
        help="split the rows of one fit over N processes, or with --cluster over N cores of the "
        "nodes: bayesian_gplvm, qep_lvm and ldgd, tables without missing cells")  # fmt: skip
    add("--name", default="", help="name of the run")
    add("--out", type=Path, metavar="DIR",
        help="new folder for the run (default: in the dashboard's store)")  # fmt: skip
    add("--embedding", type=Path, metavar="FILE",
        help="also write the map here: .csv, .parquet or .h5ad (AnnData)")  # fmt: skip
    _add_reading(fit)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    reading = parser.add_argument_group("format of the file (detected by default)")
    reading.add_argument("--delimiter", help="character between the cells")
    reading.add_argument("--decimal", choices=[".", ","], help="decimal mark")
    reading.add_argument(
        "--column-decimal",
        type=_column_decimal,
        action="append",
        metavar="COLUMN=MARK",
        help="decimal mark of one column (dose=, or dose=.), or dose=text for no numbers",
    )
    reading.add_argument("--thousands", help="mark between groups of three digits, '' for none")
    reading.add_argument(
        "--sheet", help="sheet of a workbook, or matrix of an H5AD file (X, layers/NAME, raw/X)"
    )
    reading.add_argument("--encoding", help="text encoding, such as utf-8 or latin-1")
    reading.add_argument(
        "--header",
        type=_header,
        metavar="ROW",
        help="number of the header row from 0, or of nested header rows (0,1), or yes, or no",
    )
    reading.add_argument(
        "--missing",
        action="append",
        metavar="A,B,…",
        help="further cells that mean missing (--missing=-999 where one starts with a dash)",
    )


def _add_application(parser: argparse.ArgumentParser, formats: str) -> None:
    """The arguments of a command that applies a fitted model to a table."""
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="a model file, or the folder of a run")
    add("data", help="a file or folder in any format of fit, sample:NAME or paper:NAME")
    _add_files(parser)
    add("--out", type=Path, required=True, metavar="FILE",
        help=f"what to write: {formats}; for files that stay in place a folder of Parquet files, "
        "one for each block of rows, of which those that exist are not computed again")  # fmt: skip
    add("--workers", type=int, metavar="N",
        help="processes for files that stay in place (default: one a core)")  # fmt: skip
    add("--cluster", nargs="?", const="auto", metavar="ADDRESS",
        help="send blocks of rows of files that stay in place to a Ray cluster: host:port, or "
        "auto (default)")  # fmt: skip
    _add_row_id(parser)


def _add_files(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("more", nargs="*", metavar="FILE", help="further files of the same table")
    add("--in-place", action="store_true",
        help="read a Parquet or CSV file block by block where it is, as for a folder or several "
        "files: for tables larger than memory")  # fmt: skip


def _add_row_id(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--row-id", metavar="COLUMN", help="column of row identifiers (default: detected)")
    add("--no-row-id", action="store_true", help="number the rows instead")


def _add_transform(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "transform",
        help="place the rows of a table on the map of a fitted model",
        description="Place the rows of a table on the map of a fitted model, and write their row "
        "ids, latent means and sds; from a model with labels also class probabilities; and how "
        "unusual each row is compared with those of the fit. Columns are matched by name.",
    )
    parser.set_defaults(command=("lvmcore.cli.apply_model", "transform"))
    _add_application(parser, ".csv, .parquet or .h5ad (AnnData)")
    add = parser.add_argument
    add("--label", action="append", metavar="COLUMN",
        help="column of classes to compare with (default: the label of the fit); repeat it for a "
        "model with several labels")  # fmt: skip
    add("--no-label", action="store_true", help="compare with no label")
    add("--abstain", type=_probability, default=0.5, metavar="P",
        help="smallest probability of the predicted class; rows below are undecided "
        "(default: 0.5)")  # fmt: skip
    add("--surprise", action="store_true",
        help="also measure how unusual rows of files that stay in place are, which takes longer "
        "than their positions (always done for other tables)")  # fmt: skip
    add("--fitted", metavar="FILE",
        help="the table of the fit, if MODEL is a file or a folder outside the dashboard's "
        "store: needed to measure how unusual rows are")  # fmt: skip
    _add_reading(parser)


def _add_impute(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "impute",
        help="fill the missing cells of a table with a fitted model",
        description="Fill the missing cells of a table with a fitted model that takes missing "
        "cells. Writes every column of the table in its order and format, observed cells as they "
        "are in the file. Columns are matched by name.",
    )
    parser.set_defaults(command=("lvmcore.cli.apply_model", "impute"))
    _add_application(parser, ".csv or .parquet")
    parser.add_argument("--details", action="store_true",
        help="also write, for each column with filled cells, their sd (of a category the "
        "probability) and a flag of these cells")  # fmt: skip
    _add_reading(parser)


def _add_predict(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "predict",
        help="predict the target of the rows of a table with a fitted model",
        description="Predict the target of the rows of a table with a model fitted with --target, "
        "and write the mean, the sd and the ends of the 90 % interval of a number, or the class "
        "and the probabilities of each. Columns are matched by name; where the table has the "
        "target too, the predictions are measured on it.",
    )
    parser.set_defaults(command=("lvmcore.cli.apply_model", "predict"))
    _add_application(parser, ".csv or .parquet")
    parser.add_argument("--fitted", metavar="FILE",
        help="the table of the fit, if MODEL is outside the dashboard's store: gives the encoding "
        "of words")  # fmt: skip
    _add_reading(parser)


def _add_export(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "export",
        help="write a fitted model for another library, or an animation of its fit",
        description="Write a fitted model as plain gpytorch: its classes in Python, its weights, "
        "and a script that predicts from a CSV file without this package. For GPRegressor, "
        "SVGPRegressor, and for the maps of BayesianGPLVM, StochasticGPLVM, LDGD and FastLDGD. "
        "Or write the map at the recorded steps of the fit, as GIF or MP4.",
    )
    parser.set_defaults(command=("lvmcore.cli.export", "export"))
    add = parser.add_argument
    add("run", metavar="RUN",
        help="the folder of a run, a model file, or the first digits of a run's id")  # fmt: skip
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--gpytorch", action="store_true", help="the model as gpytorch")
    kind.add_argument("--animation", action="store_true", help="the map forming during the fit")
    add("--out", type=Path, required=True, metavar="PATH",
        help="a new folder or a .zip file; for an animation a .gif or .mp4 file")  # fmt: skip


def _add_runs(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    runs = commands.add_parser("runs", help="list and manage the runs of the dashboard")
    runs.add_argument("--json", action="store_true", help="as JSON, for other programs")
    runs.set_defaults(command=("lvmcore.cli.runs", "list_runs"))
    tasks = runs.add_subparsers(metavar="TASK")
    for name, text in (
        ("show", "show a run with its settings and metrics"),
        ("delete", "delete a run with its model, map and curves"),
        ("resume", "resume a run that was stopped early"),
        ("continue", "continue a run whose bound was still rising with more steps"),
    ):
        task = tasks.add_parser(name, help=text)
        task.add_argument("id", metavar="ID", help="id of the run, or its first digits")
        if name == "show":
            task.add_argument("--json", action="store_true", help="as JSON, for other programs")
        if name == "continue":
            task.add_argument(
                "--steps",
                type=int,
                metavar="N",
                help="total number of steps (default: proposed from its curve)",
            )
        task.set_defaults(command=("lvmcore.cli.runs", f"{name}_run"))
    restore = tasks.add_parser("restore", help="restore a run or dataset that was deleted")
    restore.add_argument("id", metavar="ID", help="id of the run or deletion, or its first digits")
    restore.set_defaults(command=("lvmcore.cli.bin", "restore"))
    contents = tasks.add_parser("bin", help="list what was deleted and can be restored")
    contents.add_argument("--empty", action="store_true", help="delete all of it permanently")
    contents.set_defaults(command=("lvmcore.cli.bin", "list_bin"))


def _header(text: str) -> int | bool | list[int]:
    known = {"yes": True, "no": False, "none": False}
    if text.lower() in known:
        return known[text.lower()]
    if text.isdecimal():
        return int(text)
    parts = text.split(",")
    if all(part.strip().isdecimal() for part in parts):
        return [int(part) for part in parts]
    raise argparse.ArgumentTypeError(
        f"got {text!r}, expected a row number, several such as 0,1, or yes or no"
    )


def _column_decimal(text: str) -> tuple[str, str]:
    column, sign, mark = text.rpartition("=")
    if column and sign and mark in {".", ",", "text"}:
        return column, "" if mark == "text" else mark
    raise argparse.ArgumentTypeError(
        f"got {text!r}, expected a column and its decimal mark, such as dose=, or dose=. or "
        "dose=text"
    )


def _probability(text: str) -> float:
    with suppress(ValueError):
        if 0 <= float(text) <= 1:
            return float(text)
    raise argparse.ArgumentTypeError(f"got {text!r}, expected a probability from 0 to 1")
