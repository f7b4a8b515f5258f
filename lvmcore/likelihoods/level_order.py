"""The order of the levels of a category: by number, by a known scale, else by name."""

import re
from collections.abc import Iterable

__all__ = ["by_known_scale", "ordered_levels"]

_FREQUENCY = (
    "never",
    "rarely",
    "seldom",
    "occasionally",
    "sometimes",
    "often",
    "usually",
    "always",
)
_AGREEMENT = (
    "strongly disagree",
    "disagree",
    "somewhat disagree",
    "neutral",
    "neither agree nor disagree",
    "somewhat agree",
    "agree",
    "strongly agree",
)
#: Scales whose levels have an order, from the lowest level.
_SCALES = (
    ("none", "minimal", "very low", "low", "medium", "moderate", "high", "very high", "extreme"),
    ("none", "very mild", "mild", "moderate", "severe", "very severe"),
    ("tiny", "very small", "small", "medium", "large", "very large", "huge"),
    ("xxs", "xs", "s", "m", "l", "xl", "xxl", "xxxl"),
    ("very bad", "bad", "poor", "fair", "average", "good", "very good", "excellent"),
    ("worse", "same", "better"),
    _FREQUENCY,
    _AGREEMENT,
    ("primary", "secondary", "tertiary"),
    ("first", "second", "third", "fourth", "fifth"),
    ("beginner", "intermediate", "advanced", "expert"),
    ("young", "middle-aged", "old"),
    ("negative", "neutral", "positive"),
    ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
)
#: Those that begin again after their last level, and so have no lowest one.
_CYCLES = 3
_LEADING_NUMBER = re.compile(r"\s*[<>≤≥=]*\s*(-?\d+(?:\.\d+)?)")


def ordered_levels(texts: Iterable[str]) -> list[str]:
    """Levels in order: of numbers at their beginnings, of a known scale, else of their names."""
    names = sorted(texts)
    numbers = [_LEADING_NUMBER.match(name) for name in names]
    if names and all(numbers):
        values = [float(found[1]) for found in numbers if found is not None]
        below = [not name.lstrip().startswith("<") for name in names]
        return [name for _, _, name in sorted(zip(values, below, names, strict=True))]
    scale = _scale_of(names)
    return names if scale is None else sorted(names, key=lambda name: scale.index(_plain(name)))


def by_known_scale(texts: Iterable[str]) -> bool:
    """Whether levels are those of a known scale with a lowest and a highest level."""
    scale = _scale_of(list(texts))
    return scale is not None and scale not in _SCALES[-_CYCLES:]


def _scale_of(names: list[str]) -> tuple[str, ...] | None:
    """The scale that has all of at least three levels; None without one."""
    plain = {_plain(name) for name in names}
    if len(plain) < 3 or len(plain) != len(names):
        return None
    return next((scale for scale in _SCALES if plain <= set(scale)), None)


def _plain(name: str) -> str:
    return " ".join(name.casefold().replace("_", " ").split())
