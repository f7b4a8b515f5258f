"""The dashboard: page set-up, navigation, and what is open at its foot.

A plain script: `streamlit run app/main.py` and AppTest run it as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import streamlit as st

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:  # a source tree that is not installed
    sys.path.append(str(HERE.parent))

from app import absent, foot, navigation, services, state, tour  # noqa: E402
from lvmcore.errors import LatentboardError  # noqa: E402


def main() -> None:
    """Draw the shell, then the page that the address names."""
    st.set_page_config(
        page_title="Latentboard",
        page_icon=str(HERE / "static" / "logo.svg"),
        layout="wide",
        initial_sidebar_state="expanded",
    )
    st.logo(
        str(HERE / "static" / "wordmark.svg"),
        size="large",
        icon_image=str(HERE / "static" / "logo.svg"),
    )
    st.html(HERE / "static" / "shell.css")
    page = st.navigation(
        [
            st.Page(
                script,
                title=navigation.TITLES[name],
                icon=navigation.ICONS[name],
                default=name == "data",
            )
            for name, script in navigation.PAGES.items()
        ]
    )
    state.sync_address()
    place = st.sidebar.container(key="foot")
    tour.line(page.url_path or "data")
    try:
        page.run()
    except LatentboardError as error:  # a run or its data went while the page was being drawn
        absent.cut_short(error)
    with place:  # after the page, so that it says what the page has just changed
        foot.show(polling=page.url_path != "fit")
    services.warm_up()


main()
