"""The script that starts a cluster in a job of Slurm, with stand-ins for its programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.__main__ import first_free_port

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "slurm.sh"
SRUN = """#!/usr/bin/env bash
echo "srun $*" >> "$CALLS"
while [[ "${1:-}" == --* ]]; do shift; done
exec "$@"
"""
RAY = f"""#!{sys.executable}
import os, socket, sys, time
for argument in sys.argv:
    if argument.startswith("--port="):
        listener = socket.create_server(("127.0.0.1", int(argument.split("=")[1])))
time.sleep(float(os.environ["RAY_SECONDS"]))
"""
PROGRAMS = {"srun": SRUN, "ray": RAY, "scontrol": "#!/bin/sh\nprintf 'first\\nsecond\\nthird\\n'\n"}


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_head_and_nodes_are_started_and_the_command_has_their_address(
    nodes: int, tmp_path: Path
) -> None:
    for name, content in PROGRAMS.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    calls, port = tmp_path / "calls", first_free_port(0)
    done = subprocess.run(
        ["bash", str(SCRIPT), "sh", "-c", "echo fitted on $RAY_ADDRESS"],
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "CALLS": str(calls),
            "RAY_SECONDS": "5",
            "SLURM_JOB_NODELIST": "first,second,third",
            "SLURM_JOB_NUM_NODES": str(nodes),
            "SLURM_CPUS_PER_TASK": "4",
            "LATENTBOARD_RAY_HOST": "127.0.0.1",
            "LATENTBOARD_RAY_PORT": str(port),
        },
        check=True,
        capture_output=True,
        text=True,
    )
    assert f"fitted on 127.0.0.1:{port}" in done.stdout
    assert f"latentboard --cluster 127.0.0.1:{port}" in done.stdout
    started = [line for line in calls.read_text("utf-8").splitlines() if " ray start" in line]
    assert "--nodelist=first ray start --head" in started[0]
    assert all("--num-cpus=4 --block" in line for line in started)
    others = [f"--nodes={nodes - 1} --ntasks={nodes - 1} --exclude=first ray start --address="]
    assert len(started) == 1 + (nodes > 1)
    assert all(words in line for words, line in zip(others, started[1:], strict=False))
