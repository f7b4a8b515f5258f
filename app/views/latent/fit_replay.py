"""Replay of a fit: the map at each recorded step, with a slider."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.analysis.map.fitted_map import FittedMap
from app.analysis.map.map_axes import MARGIN
from app.components.class_colours import choose_class_style
from app.figures import live_charts, snapshot_charts
from app.formatting import count, number
from app.services import fit_replay
from app.services.fit_replay import FitReplay
from app.state.session import session
from app.state.widgets import map_widget_key, widget_key

if TYPE_CHECKING:
    from lvmcore.results import FitStep

__all__ = ["replay_panel", "replay_scene"]

_HEIGHT = 360


def replay_panel(fitted_map: FittedMap) -> None:
    """Draw the replay of the fit in an expander."""
    box = st.expander(
        "Replay of the fit", key=map_widget_key(fitted_map, "replay"), on_change="rerun"
    )
    with box:
        if box.open:
            replay = fit_replay.fit_replay(fitted_map.run)
            if replay is None:
                st.caption(
                    "There is nothing to replay: the fit has a single step, or recorded no maps."
                )
            else:
                st.fragment(_replay)(fitted_map.run, replay)


def _replay(run: str, replay: FitReplay) -> None:
    """Draw the slider, with the map and the bound at its step."""
    key = widget_key("latent", run, "replay")
    position = st.select_slider(
        "Step",
        range(len(replay.frames)),
        value=len(replay.frames) - 1,
        format_func=lambda i: str(replay.frames[i].iteration),
        help="Steps at which the map was recorded.",
        # A resumed run has another replay, in which this position may not exist.
        key=f"{key}:step {len(replay.frames)}",
    )
    step = replay.frames[position]
    dark = session.is_dark
    left, right = st.columns([1.2, 1], gap="medium")
    with left:
        st.echarts_chart(
            replay_scene(replay, step, choose_class_style(run, key=f"{key}:label"), dark=dark),
            height=_HEIGHT,
            key=f"{key}:map",
            alt="The map at the chosen step of the fit",
        )
    with right:
        steps = live_charts.steps_shown(replay.steps, None)
        if any(math.isfinite(one.objective) for one in steps):
            st.echarts_chart(
                _bound(steps, step, dark=dark),
                height=_HEIGHT,
                key=f"{key}:bound",
                alt="The bound over the steps, the chosen one marked",
            )
    st.caption(_caption(replay, step))


def replay_scene(replay: FitReplay, step: FitStep, labels: Any, *, dark: bool) -> dict[str, Any]:
    """The map at a step, on axes that hold the maps of all steps.

    Args:
        replay: the replay of the fit.
        step: one of its frames.
        labels: class of every row of the fit; None without labels.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    assert step.snapshot is not None
    options = snapshot_charts.map_chart(step.snapshot, labels, dark=dark)
    for name, low, high in zip(("xAxis", "yAxis"), replay.low, replay.high, strict=True):
        margin = MARGIN * (float(high - low) or 1.0)
        options[name] |= {
            "min": float(f"{low - margin:.3g}"),
            "max": float(f"{high + margin:.3g}"),
            "scale": False,
        }
        # The ends of the axes are no round numbers, so they have no label.
        options[name]["axisLabel"] |= {"showMinLabel": False, "showMaxLabel": False}
    return options


def _bound(steps: list[FitStep], step: FitStep, *, dark: bool) -> dict[str, Any]:
    """The bound at each step, with a line at the chosen one."""
    options = live_charts.bound_chart(steps, dark=dark)
    options["series"][0]["markLine"] = {
        "silent": True,
        "symbol": "none",
        "animation": False,
        "label": {"show": False},
        "lineStyle": {"type": "dotted"},
        "data": [{"xAxis": step.iteration}],
    }
    return options


def _caption(replay: FitReplay, step: FitStep) -> str:
    """The step, its bound and its dimensions."""
    assert step.snapshot is not None
    first, second = (dimension + 1 for dimension in step.snapshot.dimensions)
    text = f"Step {step.iteration} of {replay.frames[-1].iteration}"
    if math.isfinite(step.objective):
        text += f", bound {number(step.objective, 6)} nats"
    text += (
        f". The map shows the two most relevant dimensions at this step, {first} and {second}; "
        "they may differ between steps."
    )
    if replay.starts > 1:
        text += f" Restart {replay.start} of {replay.starts}, which was kept."
    rows = len(step.snapshot.rows)
    return f"{text} {count(rows, 'row')}, {count(len(replay.frames), 'map')} recorded."
