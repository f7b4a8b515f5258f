"""Generate: move on the map and see what any place decodes to; paths, sweeps, and drawn rows."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app import (
    absent,
    atlas,
    canvas,
    chart,
    decoded,
    draws,
    figures,
    lines,
    navigation,
    services,
    state,
)
from app.aside import class_probabilities, logarithms, values_table
from app.axes import Axes, extent, place, positions
from app.canvas import At
from app.colouring import Colouring, part_of
from app.exploring import Ask, Grid, Reconstruction
from app.figures import Scene
from app.opened import Opened
from app.words import count, markdown, number
from lvmcore.errors import LatentboardError
from lvmcore.runs import Job
from lvmcore.runs.labels import label_columns

#: Rows drawn on the map at most: they are under the cursor as it moves.
MOST_DRAWN = 4000
HEIGHT = 520
_PATH, _SWEEP, _SAMPLE = "Path", "Sweep", "Draw rows"


def page() -> None:
    """Draw the page."""
    st.title(navigation.TITLES["generate"])
    job = services.job(state.run_id())
    if job is None:
        _empty()
    elif job.spec.target:
        absent.predicts(job)
    elif not job.has_model:
        absent.waiting(job, "Rows can be made from its map when the fit has ended.")
    else:
        _of_run(job)


def _of_run(job: Job) -> None:
    try:
        dataset = services.fitted_dataset(job.id)
        opened = Opened(job.id, services.model(job.id), dataset, page="generate")
    except LatentboardError as error:
        st.error(markdown(error))
        return
    title = markdown(opened.model.title)
    st.markdown(f"**{title}** on {markdown(dataset.name)} · {count(len(dataset), 'row')}")
    if not opened.model.capabilities.decoding:
        st.info(
            f"{title} turns no place of its map back into a row. Fit a model that decodes to the "
            "same data, such as PCA or the Bayesian GPLVM."
        )
        navigation.link("Fit another model", "fit", key="fit")
        return
    axes, look, unsure = _controls(opened)
    whole = st.container()
    st.divider()
    if state.value(opened.key("kind")) is None:  # "Set A here" sets it too, so it has no default
        state.set_value(opened.key("kind"), _PATH)
    kind = st.segmented_control(
        "What to make",
        [_PATH, _SWEEP, _SAMPLE],
        required=True,
        label_visibility="collapsed",
        key=opened.key("kind"),
        help="A path between two places, one dimension swept, or rows drawn from the model.",
    )
    drawn = lines.Drawn()
    if kind == _PATH:
        drawn = lines.path(opened)
    elif kind == _SWEEP:
        drawn = lines.sweep(opened, axes, state.spots(opened.run).get("cursor", _zero(opened)))
    else:
        draws.sample(opened)
    with whole:
        _look_around(opened, axes, look, unsure, drawn)


def _zero(opened: Opened) -> tuple[float, ...]:
    return (0.0,) * opened.dimensions


# ---- the map and the row ---------------------------------------------------------------------


def _controls(opened: Opened) -> tuple[Axes, Colouring, bool]:
    """The axes, how the rows are coloured, and whether the sd is drawn behind them."""
    horizontal, vertical, coloured, behind, _ = st.columns([0.8, 0.8, 1.6, 1.2, 1.4], gap="small")
    axes = atlas.choose_axes(opened, horizontal, vertical)
    options = atlas.colours(opened.dataset)
    colour = coloured.selectbox(
        "Colour",
        list(options),
        format_func=options.__getitem__,
        key=opened.key("colour"),
        help="What the rows on the map are coloured by.",
    )
    unsure = behind.selectbox(
        "Behind",
        ["predictive sd", "nothing"],
        key=opened.key("behind"),
        help="Predictive sd: dark ground is where the model knows least of what rows look like.",
    )
    return axes, chart.look_of(opened.dataset, colour or None), unsure == "predictive sd"


@st.fragment
def _look_around(
    opened: Opened, axes: Axes, look: Colouring, unsure: bool, drawn: lines.Drawn
) -> None:
    """The map with its cursor, and the row that is there: drawn anew as the cursor moves."""
    try:
        _map_and_row(opened, axes, look, unsure, drawn)
    except LatentboardError as error:  # the run went, and what draws the page does not hear of it
        absent.cut_short(error)


def _map_and_row(
    opened: Opened, axes: Axes, look: Colouring, unsure: bool, drawn: lines.Drawn
) -> None:
    left, right = st.columns([1.75, 1], gap="large")
    with left:
        grid = services.heatmap(opened.run, Ask("sd", axes, _zero(opened))) if unsure else None
        at = canvas.cursor(
            _scene(opened, axes, look, grid, drawn), key=opened.key("map"), dark=state.dark()
        )
        shown = at or At(*_start(opened, axes), held=False)
        latent = place(_zero(opened), axes, shown.x, shown.y)
        state.set_spot(opened.run, "cursor", latent)
        _keep(opened, latent, held=shown.held)
    with right:
        st.header("The row under the cursor" if at else "The row at the middle of the map")
        st.caption(_place(axes, shown))
        _row(opened, latent)


def _place(axes: Axes, at: At) -> str:
    """Where the cursor is, in words."""
    spot = f"dimension {axes[0] + 1} at {number(at.x)}"
    if axes[1] is not None:
        spot += f", dimension {axes[1] + 1} at {number(at.y)}"
    return f"{'Held: latent' if at.held else 'Latent'} {spot}."


def _start(opened: Opened, axes: Axes) -> tuple[float, float]:
    x, y = np.median(positions(opened.mean, axes), axis=0).tolist()
    return x, y


def _scene(
    opened: Opened, axes: Axes, look: Colouring, grid: Grid | None, drawn: lines.Drawn
) -> Scene:
    points = positions(opened.mean, axes)
    chosen = figures.sampled(len(points), MOST_DRAWN, chart.SEED)
    selected = opened.selected()
    on_map = {t: tuple(positions(np.array([at]), axes)[0].tolist()) for t, at in drawn.marks}
    return Scene(
        rows=figures.Rows(
            points=points[chosen],
            number=chosen,
            hover=(),
            colouring=part_of(look, chosen),
            selected=None if selected is None else selected[chosen],
        ),
        ranges=extent(points),
        titles=chart.axis_titles(axes),
        alt="Map of the rows with a cursor: the arrow keys move it, and a click holds it",
        turn=f"{opened.run} {axes}",
        grid=grid,
        path=None if drawn.path is None or axes[1] is None else positions(drawn.path, axes),
        letters=on_map if axes[1] is not None else {},
        follow=True,
        start=_start(opened, axes),
        height=HEIGHT,
    )


def _set(opened: Opened, letter: str, latent: tuple[float, ...]) -> None:
    state.set_spot(opened.run, letter, latent)
    state.set_value(opened.key("kind"), _PATH)
    state.set_value(opened.key(f"end {letter}"), lines.SPOT)


def _keep(opened: Opened, latent: tuple[float, ...], *, held: bool) -> None:
    """Buttons that make the cursor's place an end of a path."""
    with st.container(horizontal=True, vertical_alignment="center"):
        for letter, which in (("A", "beginning"), ("B", "end")):
            if st.button(
                f"Set {letter} here",
                on_click=_set,
                args=(opened, letter, latent),
                disabled=not held,
                key=opened.key(f"set {letter}"),
                help=f"Make this place the {which} of the path. Click the map first: that holds "
                "the cursor.",
            ):
                st.rerun()
    drawn = (
        ""
        if len(opened.mean) <= MOST_DRAWN
        else f"{count(MOST_DRAWN, 'row')} are drawn, picked at random (seed {chart.SEED}). "
    )
    others = "Dimensions that the map does not show are at 0. " if opened.dimensions > 2 else ""
    st.caption(
        f"{drawn}{others}Move over the map; a click holds the cursor there, another lets it go. "
        "The arrow keys move it too, with Shift in larger steps."
    )


def _row(opened: Opened, latent: tuple[float, ...]) -> None:
    found = services.reconstruction(opened.run, latent)
    dataset, dark = opened.dataset, state.dark()
    for column, probability in zip(label_columns(opened.model), found.probability, strict=True):
        st.caption(markdown(class_probabilities(column, probability)))
    if dataset.image_shape is None:
        farthest = min(max(services.sd_range(opened.run), 2.5), 6.0) + 0.5
        reach = -round(farthest, 1), round(farthest, 1)
        st.echarts_chart(
            decoded.row_chart(dataset.feature_names, found, reach, dark=dark),
            height=decoded.height(len(dataset.feature_names)),
            key=opened.key("row"),
            alt="The decoded row with intervals",
        )
        st.caption("Decoded, ± 2 sd of a new observation, in sd from each column's mean.")
    else:
        _images(opened, found, dataset.image_shape, dark=dark)
    if found.log1p.any():
        st.caption(logarithms(found, image=dataset.image_shape is not None))
    with st.expander("Values"):
        st.dataframe(values_table(dataset, found, None), hide_index=True, key=opened.key("values"))


def _images(opened: Opened, found: Reconstruction, shape: tuple[int, int], *, dark: bool) -> None:
    limits = services.cell_range(opened.run)
    image, doubt, most = decoded.images(found, shape, limits, dark=dark)
    left, right = st.columns(2)
    left.image(image, caption="decoded")
    right.image(doubt, caption=f"width of ± 2 sd, at most {most:.3g}")


# ---- nothing to show -------------------------------------------------------------------------


def _empty() -> None:
    """No run: what can be done here, and one way to get there."""
    absent.gone()
    st.markdown(
        "After a fit this page turns places of its map back into rows: under the cursor as it "
        "moves, along a path between two classes, along one latent dimension, or drawn at random "
        "from the model, each with how sure it is."
    )
    absent.fit_the_sample("generate")
    absent.illustrated("generate")


if __name__ == "__main__":  # as the navigation runs it
    page()
