"""What a page about a run says when there is no run, or one without a model."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app import figures, navigation, services, state
from app.axes import extent
from app.colouring import Categories
from app.exploring import Grid
from app.words import markdown
from lvmcore.runs import Job

__all__ = ["cut_short", "fit_the_sample", "gone", "illustrated", "predicts", "waiting"]


def gone() -> None:
    """Say that the run in the address is not there, where there is one."""
    if state.run_id() is not None:
        st.warning("The run in the address is not there. It may have been deleted.")


def cut_short(error: Exception) -> None:
    """Say why a page could not be drawn to its end, and lead on.

    Args:
        error: what kept it: most often a run that was deleted in another window meanwhile.
    """
    if state.run_id() is not None and services.job(state.run_id()) is None:
        st.warning("The open run was deleted while this page was being drawn.")
    else:
        st.error(markdown(error))
    navigation.link("Choose a run", "runs", key="cut-short")


def fit_the_sample(page: str) -> None:
    """One way to get a run: a fit of the first sample.

    Args:
        page: what its widgets belong to.
    """
    if st.button(
        "Fit the sample",
        type="primary",
        key=state.widget(page, "sample"),
        help="Fits the recommended model to the bundled sample wine, and shows it forming.",
    ):
        state.open_run(services.fit_sample(), follow=True)
        navigation.go("fit")


def waiting(job: Job, later: str) -> None:
    """A run without a model: not yet, or never.

    Args:
        job: the run.
        later: what will be here when the fit has ended, a sentence.
    """
    if job.finished:
        st.info(markdown(job.message or f"This run is {job.status} and left no model."))
    else:
        st.info(f"This run is still being fitted. {later}")
    navigation.link("Go to the fit", "fit", key="fit")


def predicts(job: Job) -> None:
    """A run of a model of a target, on a page about maps.

    Args:
        job: the run.
    """
    st.info(
        f"This run learned to predict {markdown(job.spec.target)}: it has no map of its rows. Open "
        "a run with a map, or fit one to the same data."
    )
    with st.container(horizontal=True):
        navigation.link("See the predictions", "predict", key="predictions")
        navigation.link("Choose another run", "runs", key="other-run", primary=False)


def illustrated(page: str) -> None:
    """A picture of a map, for a page that has none yet.

    Args:
        page: what it belongs to.
    """
    st.plotly_chart(
        _illustration(state.dark()),
        theme=None,
        key=state.widget(page, "illustration"),
        config={"staticPlot": True},
        alt="Illustration of a map, not of your data",
    )
    st.caption("An illustration, not computed from any data.")


def _illustration(dark: bool) -> object:
    """A map as it could be: three groups, and doubt that grows away from them."""
    rng = np.random.default_rng(7)
    centres = np.array([[-1.3, 0.6], [1.2, 0.9], [0.2, -1.1]])
    codes = np.repeat(np.arange(3), 40)
    points = centres[codes] + 0.33 * rng.standard_normal((120, 2))
    (x0, x1), (y0, y1) = extent(points)
    x, y = np.linspace(x0, x1, 60), np.linspace(y0, y1, 60)
    places = np.stack(np.meshgrid(x, y), axis=-1)[:, :, None, :]
    near = np.exp(-((places - points) ** 2).sum(axis=-1) / 0.45).max(axis=-1)
    rows = figures.Rows(
        points=points,
        number=np.arange(120),
        hover=[[""]] * 120,
        colouring=Categories("group", ("one group", "another", "a third"), codes),
    )
    doubt = Grid(x, y, np.sqrt(1.05 - near), "predictive sd", "sd of a column", None, True)
    return figures.map_figure(rows, (0, 1), dark=dark, grid=doubt).update_layout(height=440)
