"""The command ``lvmcore models``: the list of models, or the settings of one.

It reads the declarations and imports no model.
"""

from __future__ import annotations

import argparse

from rich.table import Column
from rich.table import Table as Grid
from rich.text import Text

from lvmcore.cli.console import CommandConsole, ExitCode
from lvmcore.models import MODELS, PREDICTORS, REGISTRY, ModelDeclaration, check_model

__all__ = ["list_models"]


def list_models(arguments: argparse.Namespace, console: CommandConsole) -> int:
    """List the models, or the settings of one.

    Args:
        arguments: the parsed command line.
        console: the output.

    Returns:
        The exit status.

    Raises:
        ConfigError: there is no such model.
    """
    if arguments.model is not None:
        check_model(arguments.model)
        console.show(_settings_grid(REGISTRY.declarations[arguments.model]))
        return ExitCode.OK
    grid = Grid(Column("key", no_wrap=True), "model", "when to use it", "supports")
    for key, model in MODELS.declarations.items():
        grid.add_row(key, model.title, Text(model.summary), Text(_supports(model)))
    console.show(grid)
    grid = Grid(Column("key", no_wrap=True), "model of a target", "when to use it", "predicts")
    for key, predictor in PREDICTORS.declarations.items():
        what = "numbers" if predictor.task == "number" else "classes"
        grid.add_row(key, predictor.title, Text(predictor.summary), what)
    console.show(grid)
    return ExitCode.OK


def _settings_grid(model: ModelDeclaration) -> Grid:
    grid = Grid("setting", "default", "expected", "what it does", title=f"{model.title}")
    for parameter in model.parameters():
        default = "none" if parameter.default is None else str(parameter.default)
        grid.add_row(parameter.name, default, Text(parameter.expected), Text(parameter.doc))
    return grid


def _supports(model: ModelDeclaration) -> str:
    can = model.capabilities
    named = {
        "labels": can.labels != "none",
        "several label columns": can.several_labels,
        "missing labels": can.missing_labels,
        "missing cells": can.missing_cells,
        "new rows": can.new_rows,
        "decoding": can.decoding,
        "sampling": can.sampling,
        "uncertainty": can.uncertainty,
    }
    return ", ".join(name for name, supported in named.items() if supported)
