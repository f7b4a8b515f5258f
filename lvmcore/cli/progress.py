"""Progress meters of a fit: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections import deque
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from lvmcore.results import PACE_STEPS, FitStep

__all__ = ["LiveMeter", "PlainMeter", "ProgressMeter", "describe_step", "meter_for"]

_PLAIN_EVERY_SECONDS = 2.0
_REDRAWS_PER_SECOND = 10


class ProgressMeter(Protocol):
    """Shows the steps of a fit, inside a ``with`` block."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def show(self, step: FitStep) -> None:
        """Show a step."""


class LiveMeter:
    """A line that is redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._drawn = float("-inf")
        self._recent: deque[FitStep] = deque(maxlen=PACE_STEPS)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._recent:
            self._draw()
        self._live.stop()

    def show(self, step: FitStep) -> None:
        """Redraw the line, at most ten times a second."""
        self._recent.append(step)
        if time.monotonic() - self._drawn >= 1 / _REDRAWS_PER_SECOND:
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        text = describe_step(self._recent[-1], self._recent[0])
        line = Text(text, no_wrap=True, overflow="ellipsis")
        self._live.update(line, refresh=True)


class PlainMeter:
    """Lines at intervals of two seconds, and for the first and the last step."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printed = float("-inf")
        self._recent: deque[FitStep] = deque(maxlen=PACE_STEPS)
        self._pending = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pending:
            self._print()

    def show(self, step: FitStep) -> None:
        """Print a line, at most every two seconds."""
        self._recent.append(step)
        self._pending = True
        if time.monotonic() - self._printed >= _PLAIN_EVERY_SECONDS:
            self._print()

    def _print(self) -> None:
        self._printed = time.monotonic()
        self._pending = False
        text = describe_step(self._recent[-1], self._recent[0])
        self._console.print(Text(text), soft_wrap=True)


def meter_for(console: Console) -> ProgressMeter:
    """The meter of a console: live on a terminal, plain elsewhere."""
    return LiveMeter(console) if console.is_terminal else PlainMeter(console)


def describe_step(step: FitStep, before: FitStep | None = None) -> str:
    """A step on one line: its number, time passed and left, the bound and its terms.

    Args:
        step: the step.
        before: an earlier step, since which the pace counts; None for the whole fit.
    """
    timing = f"{step.seconds:.1f} s"
    left = step.seconds_left(before)
    if left > 0:
        timing += f", at most {left:.1f} s left"
    parts = [f"step {step.iteration}/{step.total}", timing]
    if step.starts > 1:
        parts.insert(0, f"start {step.start}/{step.starts}")
    if math.isfinite(step.objective):
        parts.append(f"bound {step.objective:,.1f}")
    parts += [f"{name} {_term(value)}" for name, value in step.terms.items()]
    return " · ".join(parts)


def _term(value: float) -> str:
    """A term of the bound to 0.1 nats; one below 10 nats to four significant digits."""
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.4g}"
