"""Guide: the map, its uncertainty, relevance, the bound and held-out scores."""

from __future__ import annotations

import streamlit as st

from app import navigation
from app.state.session import session
from app.state.widgets import widget_key
from app.views.guide import sections

_CONFIG = {"displayModeBar": False, "scrollZoom": False}


def page() -> None:
    """Draw the page."""
    st.title("Guide")
    st.caption(sections.ORIGIN)
    for position, section in enumerate(sections.sections()):
        st.header(section.title)
        text, figure = st.columns([2, 3], gap="large")
        with text:
            for sentence in section.sentences:
                st.markdown(sentence)
        with figure:
            st.plotly_chart(
                section.figure(session.is_dark),
                theme=None,
                key=widget_key("guide", position),
                config=_CONFIG,
                alt=section.alt,
            )
            st.caption(section.caption)
    if session.run_id is None:
        navigation.link("Go to the data", "data", key="guide-on", primary=False)
    else:
        navigation.link("Back to the map", "latent", key="guide-on", primary=False)


if __name__ == "__main__":  # as the navigation runs it
    page()
