"""The dashboard: page configuration, navigation and sidebar, and the web application around them.

A script that `streamlit run app/main.py` and AppTest run as it is. Imported as a module, which the
server does once at its start, it holds the web application that runs the script for every visitor.
"""

from __future__ import annotations

import sys
from pathlib import Path

import streamlit as st
from streamlit.starlette import App

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:  # a source tree that is not installed
    sys.path.append(str(HERE.parent))

from app.web import application as web  # noqa: E402
from app.web import row_files  # noqa: E402


def main() -> None:
    """Draw the navigation and sidebar, and the page of the address."""
    from app import navigation
    from app.components.empty_states import interrupted_page
    from app.formatting import markdown
    from app.services import server
    from app.shell.colour_scheme import colour_scheme
    from app.shell.keyboard_sheet import keyboard_button
    from app.shell.sidebar import sidebar
    from app.shell.text_undo import text_undo
    from app.shell.tour import tour_line
    from app.shell.upload_roles import upload_roles
    from app.state.session import session
    from lvmcore.errors import LatentboardError

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
    st.html(HERE / "static" / ("dark.css" if session.is_dark else "light.css"))
    page = st.navigation(
        [
            st.Page(
                script,
                title=navigation.TITLES[name],
                icon=navigation.ICONS[name],
                url_path=name,
                default=name == "data",
            )
            for name, script in navigation.PAGES.items()
        ]
    )
    try:
        store = server.store()
    except LatentboardError as error:  # the folder cannot be created
        st.error(markdown(error))
        return
    session.sync_address()
    foot = st.sidebar.container(key="foot")
    tour_line(page.url_path or "data")
    if not store.writable:
        st.warning(
            f"The folder {markdown(str(store.home))} cannot be written, so nothing new can be "
            "fitted or saved. Earlier runs can be viewed. Make the folder writable, or start the "
            "dashboard with another one (--home)."
        )
    if page.url_path:  # the first page, that of the data, imports none of it
        server.import_scikit_learn()
    try:
        page.run()
    except LatentboardError as error:  # the run or its data were deleted while the page was drawn
        interrupted_page(error)
    with foot:  # after the page, so that it shows its changes
        sidebar(polling=page.url_path != "fit")
        keyboard_button()
        colour_scheme()
        upload_roles()
        text_undo()
    server.warm_up()


if __name__ == "__main__":
    main()
else:
    application = App(
        __file__,
        routes=[row_files.route()],
        middleware=web.middleware(),
        lifespan=web.lifespan,
    )
