import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from lvmcore.results import FitStep, Snapshot
from lvmcore.runs.event_log import EventLog, read_events, step_from_json, step_to_json


def snapshot(n: int = 5) -> Snapshot:
    rng = np.random.default_rng(1)
    return Snapshot(
        mean=rng.standard_normal((n, 2)) * 1e-3,
        rows=np.arange(n) * 7,
        dimensions=(3, 0),
        relevance={"data": np.array([0.123456, 0.0, 0.876544, 0.0]), "labels": np.ones(4) / 4},
    )


def step(iteration: int, **parts: object) -> FitStep:
    given = {"total": 100, "seconds": 0.1, "objective": -1.5, "terms": {"data": -1.0, "KL": -0.5}}
    return FitStep(iteration, **{**given, **parts})  # type: ignore[arg-type]


def test_a_step_comes_back_as_it_was() -> None:
    before = step(3, snapshot=snapshot())
    after = step_from_json(json.loads(json.dumps(step_to_json(before), default=np.ndarray.tolist)))
    assert after.snapshot is not None
    assert before.snapshot is not None
    assert (after.iteration, after.total, after.objective) == (3, 100, -1.5)
    assert after.terms == before.terms
    assert after.snapshot.dimensions == (3, 0)
    np.testing.assert_array_equal(after.snapshot.rows, before.snapshot.rows)
    np.testing.assert_allclose(after.snapshot.mean, before.snapshot.mean, rtol=5e-4)
    np.testing.assert_allclose(after.snapshot.relevance["data"], [0.1235, 0, 0.8765, 0])


def test_a_bound_that_is_not_finite_comes_back_as_nan(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events")
    log.add(step(1, objective=math.nan, terms={"data": math.inf}))
    log.close()
    assert b"NaN" not in (tmp_path / "events").read_bytes()
    (event,), _, _ = read_events(tmp_path / "events")
    assert math.isnan(event.step.objective)
    assert math.isnan(event.step.terms["data"])


def test_the_steps_that_are_left_come_back() -> None:
    """In multiples of the duration of a step, where they are not those up to the total."""
    one = step(1)
    assert step_from_json(step_to_json(one)).left is None
    assert "left" not in step_to_json(one)
    more = replace(one, left=12.5)
    assert step_from_json(step_to_json(more)).steps_left == 12.5
    assert one.steps_left == one.total - 1


def test_what_was_measured_on_rows_held_out_comes_back_where_it_was(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events")
    log.add(step(1, seconds=0.1))
    log.add(step(2, seconds=0.1, held_out=0.25))  # at once, and yet it is written
    log.add(step(3, seconds=0.1))
    log.close()
    first, second, _ = (event.step for event in read_events(tmp_path / "events")[0])
    assert math.isnan(first.held_out)
    assert second.held_out == 0.25
    assert "held_out" not in step_to_json(first)


def test_a_large_snapshot_is_thinned_evenly() -> None:
    stored = step_to_json(step(1, snapshot=snapshot(5001)))["snapshot"]
    assert len(stored["mean"]) == len(stored["rows"]) == 2000
    assert stored["rows"][0] == 0
    assert stored["rows"][-1] == 5000 * 7
    assert set(np.diff(stored["rows"])) <= {14, 21}


def test_a_quick_fit_is_throttled_and_keeps_its_first_and_last_step(
    tmp_path: Path,
) -> None:
    log = EventLog(tmp_path / "events")
    for iteration in range(1, 2002):
        log.add(step(iteration, seconds=0.001 * iteration))
    log.close()
    found, last, _ = read_events(tmp_path / "events")
    assert found[0].step.iteration == 1
    assert found[-1].step.iteration == 2001
    assert 80 <= len(found) == last <= 102
    assert [event.n for event in found] == list(range(1, last + 1))


def test_every_step_of_a_slow_fit_is_kept_and_the_last_is_not_doubled(
    tmp_path: Path,
) -> None:
    log = EventLog(tmp_path / "events")
    for iteration in range(1, 6):
        log.add(step(iteration, seconds=0.1 * iteration))
    log.close()
    found, _, _ = read_events(tmp_path / "events")
    assert [event.step.iteration for event in found] == [1, 2, 3, 4, 5]


def test_snapshots_are_fewer_than_events_and_thin_out(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events")
    for iteration in range(1, 6001):
        log.add(step(iteration, seconds=0.1 * iteration, snapshot=snapshot()))
    log.close()
    found, _, _ = read_events(tmp_path / "events")
    at = [0.1 * event.step.iteration for event in found if event.step.snapshot is not None]
    assert sum(seconds <= 1 for seconds in at) <= 5
    assert sum(seconds <= 600 for seconds in at) < 200
    assert found[-1].step.snapshot is not None


def test_the_last_step_of_a_start_is_written_with_its_snapshot_at_once(
    tmp_path: Path,
) -> None:
    log = EventLog(tmp_path / "events")
    for start in (1, 2):
        for iteration in (1, 2, 3):
            log.add(
                step(
                    3 * start - 3 + iteration,
                    seconds=0.001 * (3 * start - 3 + iteration),
                    snapshot=snapshot(),
                    start=start,
                    starts=2,
                    ends=iteration == 3,
                )
            )
        found, _, _ = read_events(tmp_path / "events")
        assert found[-1].step.iteration == 3 * start
        assert found[-1].step.snapshot is not None
    log.close()
    found, _, _ = read_events(tmp_path / "events")
    assert [event.step.iteration for event in found] == [1, 3, 4, 6]


def test_lines_that_are_no_events_are_left_out_but_counted(tmp_path: Path) -> None:
    path = tmp_path / "events"
    good = json.dumps(step_to_json(step(1)))
    path.write_text(f'{good}\n{{"iteration": 2, "tot\n[]\n{good}\n{good[:20]}')
    found, last, end = read_events(path)
    assert [event.n for event in found] == [1, 4]
    assert last == 4
    assert end == path.read_text().rindex("\n") + 1


def test_steps_told_all_at_once_are_thinned_by_the_seconds_that_they_took(tmp_path: Path) -> None:
    """As those of a shorter fit are, which a longer one goes on from."""
    log = EventLog(tmp_path / "events")
    for iteration in range(1, 51):
        log.add(step(iteration, seconds=0.05 * iteration))
    log.close()
    found, _, _ = read_events(tmp_path / "events")
    assert [event.step.iteration for event in found] == list(range(1, 51))
