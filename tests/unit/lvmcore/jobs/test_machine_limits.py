"""Memory and threads of a process that fits."""

import subprocess
import sys

import pytest

from lvmcore.jobs.machine_limits import limit_threads

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


def test_threads_are_limited_and_idle_ones_sleep() -> None:
    environment = {"LANG": "C"}
    limit_threads(environment, 3)
    assert environment.pop("LANG") == "C"
    assert environment.pop("OMP_WAIT_POLICY") == "PASSIVE"
    assert {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"} <= set(environment)
    assert set(environment.values()) == {"3"}


def test_a_decision_of_the_person_about_threads_is_kept() -> None:
    environment = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "ACTIVE"}
    limit_threads(environment, 1)
    assert environment["OMP_NUM_THREADS"] == "2"
    assert environment["OMP_WAIT_POLICY"] == "ACTIVE"
    assert environment["OPENBLAS_NUM_THREADS"] == "1"
