"""The time that a worker has to end when its server closes its standard input."""

import subprocess
import sys

import pytest

WORKER = """
import sys, time, threading
from types import SimpleNamespace
from lvmcore.jobs import parent_process

class Folder:
    def cancel_requested(self):
        return False

    def state(self):
        return SimpleNamespace(stage=sys.argv[1])

parent_process.GRACE_SECONDS = 0.05
watch = parent_process.ParentWatch(Folder())
watch.start()
print("up", flush=True)
while not watch.stopped:
    time.sleep(0.01)
assert watch.should_stop() == "interrupted"
if sys.argv[1] == "stopping":
    time.sleep(0.5)
    watch.finish()
    print("saved", flush=True)
else:
    threading.Event().wait()
"""


@pytest.mark.parametrize(("stage", "end"), [("stopping", ("saved", 0)), ("fitting", ("", 1))])
def test_a_process_that_saves_may_finish_and_one_that_does_not_stop_is_ended(
    stage: str, end: tuple[str, int]
) -> None:
    command = [sys.executable, "-W", "error", "-c", WORKER, stage]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.stdin.close()
        said = process.stdout.read().strip()
    assert (said, process.returncode) == end
