"""Choice of the model of ``lvmcore fit``: by its key, or proposed for the table."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from lvmcore.base.predictor import Predictor
from lvmcore.cli.console import CommandConsole
from lvmcore.data.dataset import Dataset
from lvmcore.errors import ConfigError, DataError
from lvmcore.models import MODELS, PREDICTORS, AnyModel, model_class
from lvmcore.parameters import parse_settings
from lvmcore.recommend.latent_models import advised_settings, propose, suggested_settings, summarise
from lvmcore.recommend.target_models import (
    TargetSummary,
    advised_target_settings,
    propose_for_target,
    suggested_target_settings,
    summarise_target,
    target_obstacle,
)

__all__ = ["chosen_model"]


def chosen_model(
    arguments: argparse.Namespace, dataset: Dataset, console: CommandConsole
) -> AnyModel:
    """The unfitted model of ``lvmcore fit``, with settings: given, else suggested, else default.

    Args:
        arguments: the parsed command line.
        dataset: the dataset of the fit.
        console: the output of the proposed model and settings, with reasons.

    Raises:
        ConfigError: the model or a setting of it is unknown or not allowed; the model predicts a
            target and none is given, or it cannot learn this target.
        DataError: the column cannot be a target.
    """
    if arguments.target:
        return _predictor(arguments, dataset, console)
    summary, key = summarise(dataset), arguments.model
    if key == "auto":
        found = propose(MODELS.declarations, summary)
        key = found.key
        console.say(
            f"Model: {MODELS.declarations[key].title}, as {found.reason} (override with --model)."
        )
    if key in PREDICTORS:
        raise ConfigError(
            f"{PREDICTORS.declarations[key].title} predicts a target: name it by --target."
        )
    cls = model_class(key, "map")
    chosen = _given_settings(arguments, cls)
    given = {name: value for name, value in chosen.items() if value is not None}
    for name, one in advised_settings(cls, summary).items():
        if name not in given:
            console.say(f"  {name}={one.value}, as {one.reason}.")
    return cls(**{**chosen, **suggested_settings(cls, summary), **given})


def _predictor(
    arguments: argparse.Namespace, dataset: Dataset, console: CommandConsole
) -> Predictor:
    """The unfitted model of a target, with its settings."""
    summary, key = _target_summary(arguments, dataset), arguments.model
    what = "a number" if summary.task == "number" else f"one of {summary.distinct} classes"
    console.say(f"Target: {summary.name}, {what}.")
    if key == "auto":
        found = propose_for_target(_with_settings(PREDICTORS, arguments.settings), summary)
        key = found.key
        console.say(f"Model: {PREDICTORS[key].title}, as {found.reason} (override with --model).")
    cls = model_class(key, "target")
    obstacle = target_obstacle(cls, summary)
    if obstacle is not None:
        raise ConfigError(f"{cls.title} ({key}) cannot learn {summary.name!r}. {obstacle}")
    chosen = _given_settings(arguments, cls)
    for name, one in advised_target_settings(cls, summary).items():
        if name not in chosen:
            console.say(f"  {name}={one.value}, as {one.reason}.")
    return cls(**{**suggested_target_settings(cls, summary), **chosen})


def _with_settings(
    models: Mapping[str, type[Predictor]], texts: Sequence[str]
) -> Mapping[str, type[Predictor]]:
    """The models that have all given settings, texts NAME=VALUE; all models if none has."""
    names = {text.partition("=")[0].strip() for text in texts}
    found = {
        key: model
        for key, model in models.items()
        if names <= {parameter.name for parameter in model.parameters()}
    }
    return found or models


def _target_summary(arguments: argparse.Namespace, dataset: Dataset) -> TargetSummary:
    name = arguments.target
    if name not in dataset.frame:
        shown = ", ".join(repr(str(column)) for column in dataset.frame.columns[:10])
        raise DataError(f"There is no column {name!r} in {dataset.name!r}. It has {shown}.")
    summary = summarise_target(dataset, name)
    if summary is None:
        raise DataError(
            f"Column {name!r} can be no target: its cells are missing, dates, or texts that differ "
            "in every row."
        )
    return summary


def _given_settings(arguments: argparse.Namespace, cls: type[AnyModel]) -> dict[str, Any]:
    """The settings given on the command line."""
    texts = list(arguments.settings)
    if arguments.seed is not None:
        texts.append(f"random_state={arguments.seed}")
    if arguments.device is not None:
        texts.append(f"device={arguments.device}")
    if arguments.dtype is not None:
        texts.append(f"dtype={arguments.dtype}")
    return parse_settings(cls, texts)
