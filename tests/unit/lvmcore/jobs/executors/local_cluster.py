"""A Ray cluster on the loopback address, in a process of its own that a test controls."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

__all__ = ["LocalCluster"]

_NODE: dict[str, Any] = {
    "num_cpus": 1,
    "object_store_memory": 80 * 2**20,
    "node_ip_address": "127.0.0.1",
}
#: Ray sends no report of its use. Its processes of tasks have the priority of the others: with
#: that of Ray (nice 15) tasks starve on a machine that runs other tests.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",
}


class LocalCluster:
    """A head without cores, and nodes of one core each, all on 127.0.0.1.

    Args:
        nodes: number of nodes beside the head.
        token: that the cluster asks for; "" for none.

    Attributes:
        address: address of the head.
    """

    def __init__(self, nodes: int = 1, token: str = "") -> None:
        access = {"RAY_AUTH_MODE": "token" if token else "disabled", "RAY_AUTH_TOKEN": token}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(nodes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **_ENVIRONMENT, **access},
        )
        self.address = self._answer()

    @property
    def pid(self) -> int:
        """The process that has started the head and the nodes."""
        return self._process.pid

    def lose_node(self) -> None:
        """Kill one node beside the head, and start another."""
        self._ask("lose node")

    def lose_nodes(self) -> None:
        """Kill all nodes but the head, and start as many others."""
        self._ask("lose nodes")

    def restart(self) -> None:
        """Kill the head and all nodes, and start them again at the same address."""
        self._ask("restart")

    def close(self) -> None:
        """Stop all processes of the cluster."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, what: str) -> None:
        assert self._process.stdin is not None
        print(what, file=self._process.stdin, flush=True)
        assert self._answer() == self.address

    def _answer(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("address "):
                return line.split()[1]
        raise AssertionError("the cluster ended")


def _started(nodes: int, port: int | None) -> Any:
    from ray.cluster_utils import Cluster

    fixed = {} if port is None else {"gcs_server_port": port}
    head = {**_NODE, **fixed, "num_cpus": 0, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    _add_nodes(cluster, nodes)
    return cluster


def _add_nodes(cluster: Any, count: int) -> None:
    for _ in range(count):
        cluster.add_node(**_NODE)


def _kill_nodes(cluster: Any, most: int | None = None) -> None:
    for node in list(cluster.list_all_nodes()[1:][:most]):
        cluster.remove_node(node, allow_graceful=False)


def main() -> None:
    """Start the cluster and follow the requests on standard input."""
    nodes = int(sys.argv[1])
    cluster = _started(nodes, None)
    address = cluster.address
    print("address", address, flush=True)
    for line in sys.stdin:
        if line.strip() == "restart":
            _kill_nodes(cluster)
            cluster.remove_node(cluster.head_node, allow_graceful=False)
            cluster = _started(nodes, int(address.rsplit(":", 1)[1]))
        else:
            lost = 1 if line.strip() == "lose node" else nodes
            _kill_nodes(cluster, lost)
            _add_nodes(cluster, lost)
        print("address", address, flush=True)
    _kill_nodes(cluster)
    cluster.remove_node(cluster.head_node, allow_graceful=False)


if __name__ == "__main__":
    main()
