"""Exceptions of lvmcore; messages say what was given, what was expected and what to try."""

__all__ = [
    "CancelledError",
    "ConfigError",
    "DataError",
    "LatentboardError",
    "NumberFormatWarning",
    "NumericalError",
    "UnsupportedError",
]


class LatentboardError(Exception):
    """Base class of all exceptions of lvmcore."""


class DataError(LatentboardError, ValueError):
    """The data are invalid (a file, a table, a matrix or labels)."""


class ConfigError(LatentboardError, ValueError):
    """A setting is unknown, has the wrong type, or is out of its range."""


class NumericalError(LatentboardError, ArithmeticError):
    """A computation failed: a matrix without a factorisation, a bound that is not finite."""


class UnsupportedError(LatentboardError, NotImplementedError):
    """The model does not have the requested capability."""


class CancelledError(LatentboardError):
    """The work was cancelled before there was a result."""


class NumberFormatWarning(UserWarning):
    """The numbers of a column of a file allow two readings."""
