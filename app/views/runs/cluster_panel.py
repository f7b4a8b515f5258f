"""The nodes of the Ray cluster on which the runs are computed, and what waits for them."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.formatting import count, listed, markdown, size
from app.services import server
from lvmcore.jobs.executors.cluster_state import ClusterState
from lvmcore.runs import Job

__all__ = ["cluster_panel"]

_EVERY_SECONDS = 3.0
_COLUMNS = {
    "Node": st.column_config.TextColumn(width=180),
    "Cores": st.column_config.NumberColumn(format="%d", width=70),
    "GPUs": st.column_config.NumberColumn(format="%d", width=70),
    "Memory": st.column_config.TextColumn(width=90, help="Memory of the node for runs"),
}


def cluster_panel() -> None:
    """Draw the cluster, renewed every few seconds; nothing on this machine alone."""
    if server.cluster() is not None:
        st.fragment(_cluster, run_every=_EVERY_SECONDS)()


def _cluster() -> None:
    executor = server.cluster()
    assert executor is not None
    st.header("Cluster")
    state = executor.monitor.latest()
    trouble = server.launcher().trouble
    if state is None:
        st.caption(markdown(f"Connecting to {executor.address}."))
    elif state.error:
        st.warning(markdown(f"{state.error} Queued runs start when the cluster answers."))
    else:
        _nodes(state)
        if trouble:
            st.warning(markdown(trouble))
    waiting = [job for job in server.store().list(None) if job.status == "queued"]
    if waiting:
        st.caption(markdown(f"Waiting: {listed([_waits(job) for job in waiting])}."))


def _nodes(state: ClusterState) -> None:
    """The nodes as a table, and what is free."""
    cores, gpus = sum(node.cores for node in state.nodes), sum(node.gpus for node in state.nodes)
    free = f"{state.free_cores:g} of {cores:g} cores"
    if gpus:
        free += f", {state.free_gpus:g} of {gpus:g} GPUs"
    st.markdown(markdown(f"Free: {free} and {size(int(state.free_memory))} of memory."))
    st.dataframe(
        pd.DataFrame(
            {
                "Node": [f"{node.name} ({node.address})" for node in state.nodes],
                "Cores": [node.cores for node in state.nodes],
                "GPUs": [node.gpus for node in state.nodes],
                "Memory": [size(int(node.memory)) for node in state.nodes],
            }
        ),
        hide_index=True,
        column_config=_COLUMNS,
        width="content",
        alt=f"Cluster of {count(len(state.nodes), 'node')}",
    )


def _waits(job: Job) -> str:
    """A queued run and what it asks for."""
    memory = "" if job.memory is None else f" ({size(job.memory)})"
    return f"{job.name}{memory}"
