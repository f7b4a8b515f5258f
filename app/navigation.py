"""The pages and the links between them."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from app.state.session import session

__all__ = ["ICONS", "PAGES", "TITLES", "PageName", "go", "link"]

PageName = Literal[
    "data",
    "fit",
    "latent",
    "compare",
    "generate",
    "predict",
    "new_rows",
    "impute",
    "export",
    "runs",
    "papers",
    "guide",
]

#: Script of each page, relative to main.py, in the order of the navigation.
PAGES: dict[PageName, str] = {
    "data": "views/data/page.py",
    "fit": "views/fit/page.py",
    "latent": "views/latent/page.py",
    "compare": "views/compare/page.py",
    "generate": "views/generate/page.py",
    "predict": "views/predict/page.py",
    "new_rows": "views/new_rows/page.py",
    "impute": "views/impute/page.py",
    "export": "views/export/page.py",
    "runs": "views/runs/page.py",
    "papers": "views/papers/page.py",
    "guide": "views/guide/page.py",
}

#: Title of each page.
TITLES: dict[PageName, str] = {
    "data": "Data",
    "fit": "Fit",
    "latent": "Latent",
    "predict": "Predict",
    "new_rows": "New rows",
    "impute": "Missing cells",
    "export": "Export",
    "compare": "Compare",
    "generate": "Generate",
    "runs": "Runs",
    "papers": "Papers",
    "guide": "Guide",
}

#: Icon of each page in the navigation.
ICONS: dict[PageName, str] = {
    "data": ":material/table:",
    "fit": ":material/show_chart:",
    "latent": ":material/scatter_plot:",
    "predict": ":material/target:",
    "new_rows": ":material/add_location_alt:",
    "impute": ":material/format_color_fill:",
    "export": ":material/download:",
    "compare": ":material/compare:",
    "generate": ":material/auto_awesome_motion:",
    "runs": ":material/history:",
    "papers": ":material/article:",
    "guide": ":material/menu_book:",
}


def go(page: PageName) -> None:
    """Switch to another page after an action; the open run stays in the address.

    Only for pages without a polling fragment: see ``link``.
    """
    st.switch_page(PAGES[page], query_params=session.query_of(session.run_id))


def link(
    label: str,
    page: PageName,
    *,
    key: str,
    run: str | None = None,
    stretch: bool = False,
    primary: bool = True,
) -> None:
    """Draw a link to another page that looks like a button.

    The browser changes the page and stops its timers before it requests the next one. With
    ``st.switch_page`` a rerun of a fragment may be in progress: it names the old page, and the new
    page is removed as soon as it is drawn.

    Args:
        label: text of the link.
        page: the linked page.
        key: key of the container, unique in the page.
        run: the run to open there, with its data; None keeps the open run.
        stretch: whether it fills the width of its container.
        primary: whether it is the primary action of the page.
    """
    address = session.query_of(run or session.run_id)
    width: Literal["stretch", "content"] = "stretch" if stretch else "content"
    with st.container(key=f"{'link' if primary else 'quiet-link'}-{key}", width=width):
        st.page_link(PAGES[page], label=label, width=width, query_params=address)
