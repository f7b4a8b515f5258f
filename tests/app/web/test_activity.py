"""The wait for quiet, on a clock of its own."""

import pytest

from app.web import activity
from app.web.access import Access
from tests.app.web.test_request_guard import ask


class Clock:
    """A clock that only sleeping moves on, and requests that arrive meanwhile.

    Attributes:
        now: seconds.
        requests: when the server is asked for something.
    """

    def __init__(self, requests: tuple[float, ...] = ()) -> None:
        self.now = 0.0
        self.requests = list(requests)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        end = self.now + seconds
        while self.requests and self.requests[0] <= end:
            self.now = self.requests.pop(0)
            activity.note_request()
        self.now = end


def clock_with(monkeypatch: pytest.MonkeyPatch, *requests: float) -> Clock:
    clock = Clock(requests)
    monkeypatch.setattr(activity, "time", clock)
    activity.note_request()
    return clock


@pytest.mark.parametrize(
    ("requests", "ends"),
    [((), 2.0), ((1.5, 3.0), 5.0), ((1.5, 4.0), 3.5), (tuple(range(1, 40)), 10.0)],
)
def test_it_waits_until_nothing_was_asked_for_or_for_the_longest_time(
    monkeypatch: pytest.MonkeyPatch, requests: tuple[float, ...], ends: float
) -> None:
    clock = clock_with(monkeypatch, *requests)
    activity.wait_until_quiet(2.0, 10.0)
    assert clock.now == ends


def test_a_quiet_server_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = clock_with(monkeypatch)
    clock.now = 30.0
    activity.wait_until_quiet(2.0, 10.0)
    assert clock.now == 30.0


def test_every_request_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = clock_with(monkeypatch)
    clock.now = 30.0
    assert ask(Access(), "/static/any.js").status == 200
    activity.wait_until_quiet(2.0, 10.0)
    assert clock.now == 32.0
