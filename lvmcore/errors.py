"""The errors that lvmcore raises: what was got, what was expected, what to try."""

__all__ = [
    "CancelledError",
    "ConfigError",
    "DataError",
    "LatentboardError",
    "NumericalError",
    "UnsupportedError",
]


class LatentboardError(Exception):
    """Root of the errors below: catch it to catch them all."""


class DataError(LatentboardError, ValueError):
    """The data cannot be used as they are (a file, a table, a matrix or labels)."""


class ConfigError(LatentboardError, ValueError):
    """A setting is unknown, has the wrong type, or is out of its range."""


class NumericalError(LatentboardError, ArithmeticError):
    """A computation broke down: a matrix that cannot be factorised, a bound that is not finite."""


class UnsupportedError(LatentboardError, NotImplementedError):
    """The model does not declare the capability that was asked for."""


class CancelledError(LatentboardError):
    """The work was stopped on request before there was anything to keep."""
