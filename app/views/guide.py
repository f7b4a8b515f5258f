"""Guide: how to read the map, its uncertainty, its bars, the bound and the figures."""

from __future__ import annotations

import streamlit as st

from app import guide, navigation, state

_CONFIG = {"displayModeBar": False, "scrollZoom": False}


def page() -> None:
    """Draw the page."""
    st.title("Guide")
    st.caption(guide.ORIGIN)
    for place, section in enumerate(guide.sections()):
        st.header(section.title)
        words, drawn = st.columns([2, 3], gap="large")
        with words:
            for sentence in section.sentences:
                st.markdown(sentence)
        with drawn:
            st.plotly_chart(
                section.figure(state.dark()),
                theme=None,
                key=state.widget("guide", place),
                config=_CONFIG,
                alt=section.alt,
            )
            st.caption(section.caption)
    if state.run_id() is None:
        navigation.link("Go to the data", "data", key="guide-on", primary=False)
    else:
        navigation.link("Back to the map", "latent", key="guide-on", primary=False)


if __name__ == "__main__":  # as the navigation runs it
    page()
