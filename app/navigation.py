"""The pages, and the ways from one to another."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from app import state

__all__ = ["ICONS", "PAGES", "TITLES", "PageName", "go", "link"]

PageName = Literal[
    "data", "fit", "latent", "predict", "new_rows", "impute", "compare", "generate", "runs", "guide"
]

#: The script of each page, beside main.py, in the order of the navigation.
PAGES: dict[PageName, str] = {
    "data": "views/data.py",
    "fit": "views/fit.py",
    "latent": "views/latent.py",
    "predict": "views/predict.py",
    "new_rows": "views/new_rows.py",
    "impute": "views/impute.py",
    "compare": "views/compare.py",
    "generate": "views/generate.py",
    "runs": "views/runs.py",
    "guide": "views/guide.py",
}

#: What each page is called.
TITLES: dict[PageName, str] = {
    "data": "Data",
    "fit": "Fit",
    "latent": "Latent",
    "predict": "Predict",
    "new_rows": "New rows",
    "impute": "Missing cells",
    "compare": "Compare",
    "generate": "Generate",
    "runs": "Runs",
    "guide": "Guide",
}

#: What stands beside its title in the navigation.
ICONS: dict[PageName, str] = {
    "data": ":material/table:",
    "fit": ":material/show_chart:",
    "latent": ":material/scatter_plot:",
    "predict": ":material/target:",
    "new_rows": ":material/add_location_alt:",
    "impute": ":material/format_color_fill:",
    "compare": ":material/compare:",
    "generate": ":material/auto_awesome_motion:",
    "runs": ":material/history:",
    "guide": ":material/menu_book:",
}


def go(page: PageName) -> None:
    """Go to another page after something was done; the open run stays in the address.

    For a page on which nothing polls: see ``link``.
    """
    st.switch_page(PAGES[page], query_params=state.address(state.run_id()))


def link(
    label: str,
    page: PageName,
    *,
    key: str,
    run: str | None = None,
    stretch: bool = False,
    primary: bool = True,
) -> None:
    """Draw the way on: a link to another page that looks like a button.

    The browser changes the page and stops its timers before it asks for the next. With
    ``st.switch_page`` a tick of a fragment may be under way: it names the page that is left, and
    the new one is wiped as soon as it is there.

    Args:
        label: what it says.
        page: where it leads.
        key: of its place in the page, unique.
        run: the run to open there, its data with it; None keeps the open one.
        stretch: whether it is as wide as its place.
        primary: whether it is the one thing to do next.
    """
    address = state.address(run or state.run_id())
    width: Literal["stretch", "content"] = "stretch" if stretch else "content"
    with st.container(key=f"{'link' if primary else 'quiet-link'}-{key}", width=width):
        st.page_link(PAGES[page], label=label, width=width, query_params=address)
