"""A worker process that ends before its run does."""

import dataclasses
import os
import sys

from lvmcore.jobs.executors.executor import NODE_LOST, PROCESS_LOST, UNAVAILABLE
from lvmcore.jobs.parent_process import read_request
from lvmcore.runs import Store


def main() -> int:
    """End in the way that the variable ``WAY`` says."""
    way, request = os.environ["WAY"], read_request()
    if request is None:
        return 0
    if way == "unavailable":
        print("No node has room.", file=sys.stderr)
        return UNAVAILABLE
    home, name, _ = request
    folder = Store(home).job_folder(name)
    with folder.lock(5):
        state = dataclasses.replace(folder.state(), status="running", stage="fitting")
        folder.write_state(state)
        if way == "lost":
            folder.requeue()
    return {"lost": NODE_LOST, "process lost": PROCESS_LOST, "aborted": 1}[way]


if __name__ == "__main__":
    sys.exit(main())
