import io
import math
from dataclasses import replace

from rich.console import Console

from lvmcore.cli.progress import LiveMeter, PlainMeter, describe_step, meter_for
from lvmcore.results import FitStep


def step(iteration: int, objective: float = -1234.56) -> FitStep:
    terms = {} if math.isnan(objective) else {"data fit": -1000.0, "KL": -234.56}
    return FitStep(iteration, 100, 0.5 * iteration, objective, terms)


def test_a_step_says_how_far_how_long_and_how_good() -> None:
    assert describe_step(step(20)) == (
        "step 20/100 · 10.0 s, at most 40.0 s left · bound -1,234.6 · data fit -1,000.0 · KL -234.6"
    )


def test_the_time_that_is_left_is_at_the_pace_of_the_last_steps() -> None:
    """Later steps may take longer, and those of all rows longer than those of a subset."""
    slow = replace(step(60), seconds=step(50).seconds + 20)
    assert "at most 80.0 s left" in describe_step(slow, step(50))
    assert "at most 15.0 s left" in describe_step(replace(step(20), left=30), step(10))


def test_the_last_step_has_nothing_left_and_no_bound_is_no_number() -> None:
    assert describe_step(step(100, math.nan)) == "step 100/100 · 50.0 s"


def test_plain_lines_hold_the_first_and_the_last_step() -> None:
    written = io.StringIO()
    with PlainMeter(Console(file=written)) as meter:
        for iteration in range(1, 101):
            meter.show(step(iteration))
    lines = written.getvalue().splitlines()
    assert lines[0].startswith("step 1/100")
    assert lines[-1].startswith("step 100/100")
    assert len(lines) == 2
    assert "\x1b" not in written.getvalue()


def test_a_live_line_is_redrawn_in_place_and_ends_on_the_last_step() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=200, legacy_windows=False)
    with LiveMeter(console) as meter:
        for iteration in range(1, 101):
            meter.show(step(iteration))
    assert written.getvalue().count("\n") == 1
    assert "step 100/100" in written.getvalue()


def test_meters_that_saw_no_step_write_no_line() -> None:
    for meter in (PlainMeter, LiveMeter):
        written = io.StringIO()
        with meter(Console(file=written, force_terminal=True)):
            pass
        assert "step" not in written.getvalue()


def test_the_meter_suits_where_the_console_writes() -> None:
    assert isinstance(meter_for(Console(file=io.StringIO(), force_terminal=True)), LiveMeter)
    assert isinstance(meter_for(Console(file=io.StringIO())), PlainMeter)
