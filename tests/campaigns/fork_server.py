"""A server that forks reading processes: their work and limits, without the start of Python.

It reads folders from standard input, a line each, and writes the exit status of the reading and
its largest memory in kilobytes.
"""

import os
import signal
import sys
import time
from pathlib import Path

from lvmcore.data.readers import sandbox_worker

__all__ = ["serve"]


def serve(seconds: float) -> None:
    """Read folders until the input ends; a reading that takes longer is killed."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            status = 1
            try:
                sandbox_worker.main(Path(line.strip()))
                status = 0
            finally:
                os._exit(status)
        started, done = time.monotonic(), 0
        while not done:
            done, code, usage = os.wait4(child, os.WNOHANG)
            if not done:
                if time.monotonic() - started > seconds:
                    os.kill(child, signal.SIGKILL)
                time.sleep(0.003)
        print(os.waitstatus_to_exitcode(code), usage.ru_maxrss, flush=True)


if __name__ == "__main__":
    serve(float(sys.argv[1]))
