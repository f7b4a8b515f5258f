"""Workers and servers killed at random moments: nothing stuck, nothing torn, little lost.

``make campaign-kills`` does the same a hundred times.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lvmcore.runs import Store
from tests.campaigns.kills import cancel_again_and_again, kill_again_and_again
from tests.kill.harness import Bench

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(Store(tmp_path / "store"))
    yield made
    made.stop()


def test_kills_leave_nothing_stuck_and_nothing_torn(bench: Bench) -> None:
    kill_again_and_again(bench, kills=10, seed=2)


def test_cancels_end_their_fits_and_their_processes(bench: Bench) -> None:
    cancel_again_and_again(bench, trials=5, seed=4)
