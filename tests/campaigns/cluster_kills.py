"""A campaign of kills on a Ray cluster: every run ends, with the result of a run in peace.

``python -m tests.campaigns.cluster_kills [--workers 100] [--nodes 20] [--dashboards 5] [--heads 3]
[--seed 0]``

A head and three nodes on 127.0.0.1 compute the runs of a store, whose launcher is in a process
of its own as that of a dashboard is. At random moments of the fits, in random order, it kills a
process of a run (the one that computes it, the one that Ray started for it, or the one beside the
store), a node, the dashboard, or the head with all nodes. After every kill all files of the store
are read; a run that was interrupted is resumed, as its owner would. The exit status is 1 where a
run is lost, a file is torn, or a bound differs.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from lvmcore.jobs.launcher import Launcher
from lvmcore.runs import Job, JobSpec, Store
from tests.kill.harness import dataset, read_everything
from tests.unit.lvmcore.jobs.executors.local_cluster import LocalCluster

__all__ = ["ClusterCampaign", "Report", "main", "victims"]

NODES = 3
#: A fit to so many rows takes a minute.
ROWS = 25_000
SETTINGS = {"n_components": 2, "n_inducing": 12, "max_iter": 3000, "learning_rate": 0.002}
#: Processes of a run: that which computes it, that which Ray started, and that beside the store.
PROCESSES = ("lvmcore.jobs.worker", "ray::NodeWorker", "lvmcore.jobs.executors.cluster_worker")
#: Longest time from a moment at which all runs make steps to a kill.
LONGEST_WAIT = 3.0
#: A head that was lost answers again after some half a minute.
PATIENCE = 300.0
SERVER = """
import sys, threading
from lvmcore.jobs.executors.cluster import RayExecutor
from lvmcore.jobs.launcher import Launcher
from lvmcore.runs import Store
launcher = Launcher(Store(sys.argv[1]), executor=RayExecutor(sys.argv[2], slots=int(sys.argv[3])))
print("up", flush=True)
threading.Event().wait()
"""


@dataclass
class Report:
    """What was killed, and what became of the runs.

    Attributes:
        kills: number of kills by what was killed.
        runs: number of runs that ended.
        attempts: number of their starts.
        resumed: how often a run was interrupted and resumed.
        failures: what was lost, torn or different.
    """

    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    attempts: int = 0
    resumed: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kills = ", ".join(f"{count} of {name}" for name, count in sorted(self.kills.items()))
        lines = [
            f"kills: {kills}; {self.runs} runs, {self.attempts} starts, {self.resumed} resumed"
        ]
        return "\n".join([*lines, *self.failures])


def victims(counts: dict[str, int], seed: int) -> list[str]:
    """What to kill, in random order; each kind of process as often as the others.

    Args:
        counts: number of kills of "worker", "node", "dashboard" and "head".
        seed: of the order.
    """
    kinds = [PROCESSES[n % len(PROCESSES)] for n in range(counts["worker"])]
    kinds += [name for name in ("node", "dashboard", "head") for _ in range(counts[name])]
    return [str(one) for one in np.random.default_rng(seed).permutation(np.array(kinds, dtype=str))]


class ClusterCampaign:
    """The cluster, the store and the dashboard's launcher, and the kills.

    Args:
        folder: an empty folder.
        seed: of the moments of the kills.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.store = Store(folder / "store")
        self._peace = Store(folder / "peace")
        self._rng = np.random.default_rng(seed)
        self._cluster = LocalCluster(NODES)
        self._server = self._new_server()
        self._names: list[str] = []

    def close(self) -> None:
        """Stop all processes."""
        self._kill_server()
        self._cluster.close()

    def run(self, kinds: Sequence[str]) -> Report:
        """Kill one after another, then let all runs end.

        Args:
            kinds: what to kill.
        """
        report = Report()
        for kind in kinds:
            if not self._all_at_work(report):
                break
            time.sleep(self._rng.uniform(0, LONGEST_WAIT))
            self._kill(kind)
            report.kills[kind] += 1
            print(f"{report.kills.total()} of {len(kinds)}: {kind}", file=sys.stderr, flush=True)
            read_everything(self.store.home)
        self._until_all_ended(report)
        self._compare(report)
        return report

    def _submit(self, store: Store) -> str:
        digest = store.datasets.put(dataset(ROWS))
        return store.submit(JobSpec(digest, "surface", "bayesian_gplvm", dict(SETTINGS)))

    def _at_work(self) -> list[Job]:
        return [job for name in self._names if not (job := self.store.get(name)).finished]

    def _all_at_work(self, report: Report) -> bool:
        """Have a run on each node, and wait until each makes steps; False where one does not."""
        began: dict[str, int] = {}
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self._resume(report)
            while len(self._at_work()) < NODES:
                self._names.append(self._submit(self.store))
            sizes = {job.id: self._size_of_events(job.id) for job in self._at_work()}
            began = {name: began.get(name, size) for name, size in sizes.items()}
            if all(sizes[name] > began[name] for name in sizes):
                return True
            time.sleep(0.3)
        report.failures.append("A run made no step for five minutes.")
        return False

    def _size_of_events(self, name: str) -> int:
        path = self.store.job_folder(name).files.events
        return path.stat().st_size if path.is_file() else 0

    def _resume(self, report: Report) -> None:
        for name in self._names:
            job = self.store.get(name)
            if job.status == "interrupted" and job.resumable:
                self.store.resume(name)
                report.resumed += 1

    def _kill(self, kind: str) -> None:
        if kind == "node":
            self._cluster.lose_node()
        elif kind == "head":
            self._cluster.restart()
        elif kind == "dashboard":
            self._kill_server()
            self._server = self._new_server()
        else:
            found = [one for one in self._processes() if kind in _command(one)]
            if found:  # a run may just have ended
                with suppress(psutil.NoSuchProcess):
                    found[int(self._rng.integers(len(found)))].kill()

    def _processes(self) -> Iterator[psutil.Process]:
        for pid in (self._cluster.pid, self._server.pid):
            yield from psutil.Process(pid).children(recursive=True)

    def _new_server(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", SERVER, str(self.store.home), self._cluster.address]
        server = subprocess.Popen([*command, str(NODES)], stdout=subprocess.PIPE)
        assert server.stdout is not None
        assert server.stdout.readline() == b"up\n"
        return server

    def _kill_server(self) -> None:
        self._server.kill()
        self._server.wait()
        assert self._server.stdout is not None
        self._server.stdout.close()

    def _until_all_ended(self, report: Report) -> None:
        deadline = time.monotonic() + PATIENCE
        while self._at_work() or self._interrupted():
            self._resume(report)
            if time.monotonic() > deadline:
                left = [f"{job.id} is {job.status}" for job in self._at_work()]
                report.failures.append(f"Runs did not end: {', '.join(left)}.")
                return
            time.sleep(0.5)

    def _interrupted(self) -> list[str]:
        return [name for name in self._names if self.store.get(name).status == "interrupted"]

    def _compare(self, report: Report) -> None:
        """Hold every run against the same fit by this machine, in peace."""
        with _launcher(self._peace):
            name = self._submit(self._peace)
            while not (whole := self._peace.get(name)).finished:
                time.sleep(0.1)
        for name in self._names:
            job, events = self.store.get(name), self.store.events(name)
            report.runs += 1
            report.attempts += job.attempt
            if job.status != "done":
                report.failures.append(f"{name} is {job.status}: {job.message}")
            elif job.elbo != whole.elbo:
                report.failures.append(f"{name} has the bound {job.elbo}, not {whole.elbo}.")
            if [event.n for event in events] != list(range(1, len(events) + 1)):
                report.failures.append(f"{name} has events out of order.")
        read_everything(self.store.home)


@contextmanager
def _launcher(store: Store) -> Iterator[Launcher]:
    launcher = Launcher(store, spare=False, slots=1)
    launcher.ensure_running()
    try:
        yield launcher
    finally:
        launcher.close()


def _command(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; 1 where something was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.cluster_kills")
    for name, count in (("worker", 100), ("node", 20), ("dashboard", 5), ("head", 3)):
        parser.add_argument(f"--{name}s", dest=name, type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    given = vars(parser.parse_args(arguments))
    with tempfile.TemporaryDirectory() as folder:
        campaign = ClusterCampaign(Path(folder), given["seed"])
        try:
            report = campaign.run(victims(given, given["seed"]))
        finally:
            campaign.close()
    print(report)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
