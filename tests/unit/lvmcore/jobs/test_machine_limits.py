"""How a process that fits keeps its memory."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource
import torch
from lvmcore.jobs.machine_limits import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.zeros(1 << 20).add_(1), torch.zeros(1 << 20).add_(1)  # 4 MB each
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.set_num_threads(1)
first = faults()
print(keep_freed_memory())
faults()
print(first, faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it is glibc that is told")
def test_arrays_that_were_freed_are_used_again() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    done, faults = ran.stdout.splitlines()
    assert done == "True"
    before, after = map(int, faults.split())
    assert after < 100
    assert after < before / 10
