"""The fit replayed: the map at each step that was written down, with a slider over them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import streamlit as st

from app import by_label, live, services, state
from app.axes import MARGIN
from app.opened import Opened
from app.services import Film
from app.words import count, number

if TYPE_CHECKING:
    from lvmcore.results import FitStep

__all__ = ["replay", "scene"]

_HEIGHT = 360


def replay(opened: Opened) -> None:
    """How the map formed, folded away until somebody asks."""
    box = st.expander("How the map formed", key=opened.key("replay"), on_change="rerun")
    with box:
        if box.open:
            film = services.film(opened.run)
            if film is None:
                st.caption(
                    "There is nothing to replay: the fit was done in one go, or told of no maps "
                    "on its way."
                )
            else:
                st.fragment(_scrub)(opened.run, film)


def _scrub(run: str, film: Film) -> None:
    """The slider, and the map and the bound at the step that it is at."""
    key = state.widget("latent", run, "replay")
    place = st.select_slider(
        "Step",
        range(len(film.frames)),
        value=len(film.frames) - 1,
        format_func=lambda i: str(film.frames[i].iteration),
        help="Steps at which the map was written down while the fit ran.",
        # A run that was resumed has another film, in which there may be no such place.
        key=f"{key}:step {len(film.frames)}",
    )
    step = film.frames[place]
    dark = state.dark()
    left, right = st.columns([1.2, 1], gap="medium")
    with left:
        st.echarts_chart(
            scene(film, step, by_label.classes(run, key=f"{key}:label"), dark=dark),
            height=_HEIGHT,
            key=f"{key}:map",
            alt="The map at the chosen step of the fit",
        )
    with right:
        steps = live.steps_shown(film.steps, None)
        if any(math.isfinite(one.objective) for one in steps):
            st.echarts_chart(
                _bound(steps, step, dark=dark),
                height=_HEIGHT,
                key=f"{key}:bound",
                alt="The bound over the steps, the chosen one marked",
            )
    st.caption(_about(film, step))


def scene(film: Film, step: FitStep, labels: Any, *, dark: bool) -> dict[str, Any]:
    """The map at a step, on axes that hold every step's map.

    Args:
        film: the fit.
        step: one of its frames.
        labels: the class of every row of the fit; None without labels.
        dark: whether the page is dark.

    Returns:
        ECharts options.
    """
    assert step.snapshot is not None
    options = live.map_chart(step.snapshot, labels, dark=dark)
    for name, low, high in zip(("xAxis", "yAxis"), film.low, film.high, strict=True):
        margin = MARGIN * (float(high - low) or 1.0)
        options[name] |= {
            "min": float(f"{low - margin:.3g}"),
            "max": float(f"{high + margin:.3g}"),
            "scale": False,
        }
        # Round numbers only: the ends of the axes are where the outermost rows happen to be.
        options[name]["axisLabel"] |= {"showMinLabel": False, "showMaxLabel": False}
    return options


def _bound(steps: list[FitStep], step: FitStep, *, dark: bool) -> dict[str, Any]:
    """The bound at each step, with a line at the chosen one."""
    options = live.bound_chart(steps, dark=dark)
    options["series"][0]["markLine"] = {
        "silent": True,
        "symbol": "none",
        "animation": False,
        "label": {"show": False},
        "lineStyle": {"type": "dotted"},
        "data": [{"xAxis": step.iteration}],
    }
    return options


def _about(film: Film, step: FitStep) -> str:
    """What is shown, in a few plain sentences."""
    assert step.snapshot is not None
    first, second = (dimension + 1 for dimension in step.snapshot.dimensions)
    said = f"Step {step.iteration} of {film.frames[-1].iteration}"
    if math.isfinite(step.objective):
        said += f", bound {number(step.objective, 6)} nats"
    said += (
        f". Shown are the two dimensions that mattered most at that step, {first} and {second}; "
        "they may change on the way."
    )
    if film.starts > 1:
        said += f" Start {film.start} of {film.starts}, the one that was kept."
    rows = len(step.snapshot.rows)
    return f"{said} {count(rows, 'row')}, {count(len(film.frames), 'map')} written down."
