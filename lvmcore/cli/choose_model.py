"""Which model ``lvmcore fit`` fits: the one that is named, or the one that suits the table."""

from __future__ import annotations

import argparse
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
    """The unfitted model of ``lvmcore fit``: its defaults, what suits the table, what was set.

    Args:
        arguments: what ``lvmcore.cli.parser`` parsed.
        dataset: of the fit.
        console: where it says which model is proposed, and why.

    Raises:
        ConfigError: the model or a setting of it is unknown or not allowed, or the model does not
            do what is asked for.
        DataError: the target cannot be one.
    """
    if arguments.target:
        return _predictor(arguments, dataset, console)
    shape, key = summarise(dataset), arguments.model
    if key == "auto":
        found = propose(MODELS, shape)
        key = found.key
        console.say(f"Model: {MODELS[key].title}, as {found.reason} (--model decides).")
    if key in PREDICTORS:
        raise ConfigError(f"{PREDICTORS[key].title} predicts a target: name it by --target.")
    cls = model_class(key, "map")
    chosen = _chosen(arguments, cls)
    for name, one in advised_settings(cls, shape).items():
        if name not in chosen:
            console.say(f"  {name}={one.value}, as {one.reason}.")
    return cls(**{**suggested_settings(cls, shape), **chosen})


def _predictor(
    arguments: argparse.Namespace, dataset: Dataset, console: CommandConsole
) -> Predictor:
    """The unfitted model of a target, likewise."""
    shape, key = _target_shape(arguments, dataset), arguments.model
    what = "a number" if shape.task == "number" else f"one of {shape.distinct} classes"
    console.say(f"Target: {shape.name}, {what}.")
    if key == "auto":
        found = propose_for_target(PREDICTORS, shape)
        key = found.key
        console.say(f"Model: {PREDICTORS[key].title}, as {found.reason} (--model decides).")
    cls = model_class(key, "target")
    obstacle = target_obstacle(cls.task, shape)
    if obstacle is not None:
        raise ConfigError(f"{cls.title} ({key}) cannot learn {shape.name!r}. {obstacle}")
    chosen = _chosen(arguments, cls)
    for name, one in advised_target_settings(cls, shape).items():
        if name not in chosen:
            console.say(f"  {name}={one.value}, as {one.reason}.")
    return cls(**{**suggested_target_settings(cls, shape), **chosen})


def _target_shape(arguments: argparse.Namespace, dataset: Dataset) -> TargetSummary:
    name = arguments.target
    if name not in dataset.frame:
        shown = ", ".join(repr(str(column)) for column in dataset.frame.columns[:10])
        raise DataError(f"There is no column {name!r} in {dataset.name!r}. It has {shown}.")
    shape = summarise_target(dataset, name)
    if shape is None:
        raise DataError(
            f"Column {name!r} can be no target: its cells are missing, dates, or texts that differ "
            "in every row."
        )
    return shape


def _chosen(arguments: argparse.Namespace, cls: type[AnyModel]) -> dict[str, Any]:
    """The settings that the command line names."""
    texts = list(arguments.settings)
    if arguments.seed is not None:
        texts.append(f"random_state={arguments.seed}")
    if arguments.device is not None:
        texts.append(f"device={arguments.device}")
    return parse_settings(cls, texts)
