"""The keys of the pages, in a dialog."""

from __future__ import annotations

import streamlit as st

from app.state.widgets import widget_key

__all__ = ["keyboard_button"]

_KEYS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Map",
        (
            ("Tab", "moves to the map, its toolbar and its legend"),
            ("← ↑ → ↓", "moves the cursor, with Shift in larger steps; a zoomed map at its edge"),
            ("Enter", "selects the row or the point at the cursor"),
            ("+  −  0", "zooms in, zooms out, shows the whole map"),
            ("Shift + drag", "draws a lasso"),
            ("Ctrl + wheel", "zooms at the mouse"),
            ("Alt + ↑ ↓", "moves a category of the legend; the first one is drawn on top"),
        ),
    ),
    (
        "Latent",
        (
            ("Esc", "clears the selection"),
            ("Ctrl + Z", "undoes a change of the view"),
            ("Ctrl + Shift + Z", "repeats what was undone"),
        ),
    ),
    (
        "Data",
        (
            ("Ctrl + Z", "undoes a change of the columns"),
            ("Ctrl + Shift + Z", "repeats what was undone"),
        ),
    ),
    (
        "Fit",
        (
            ("Ctrl + Z", "undoes a change of the task, the model or its settings"),
            ("Ctrl + Shift + Z", "repeats what was undone"),
        ),
    ),
    (
        "Runs",
        (("Ctrl + Z", "restores what was deleted last"),),
    ),
    (
        "Charts of columns",
        (
            ("← →", "moves to another bar; with Shift selects the bars between"),
            ("Enter", "filters the rows by the selected bars"),
            ("Esc", "removes the condition of the chart"),
        ),
    ),
)


def keyboard_button() -> None:
    """Draw the button that lists the keys."""
    pressed = st.button(
        "Keyboard",
        type="tertiary",
        icon=":material/keyboard:",
        help="The keys of the map, of its selections and of the charts of columns.",
        key=widget_key("foot", "keyboard"),
    )
    if pressed:
        _sheet()


@st.dialog("Keyboard", width="medium")
def _sheet() -> None:
    lines = ["| Where | Key | What it does |", "|---|---|---|"]
    for title, keys in _KEYS:
        names = [title, *[""] * (len(keys) - 1)]
        lines += [
            f"| {name} | `{key}` | {about} |"
            for name, (key, about) in zip(names, keys, strict=True)
        ]
    st.markdown("\n".join(lines))
