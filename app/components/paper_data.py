"""Datasets of the papers: the choice of one, and the button that fetches one that is elsewhere."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from app.formatting import file_size, markdown
from app.services import tables
from app.state.choices import SampleChoice
from app.state.session import session
from app.state.widgets import widget_key
from lvmcore.data.samples.paper_datasets import VARIABLE
from lvmcore.data.samples.public_datasets import fetch_public, public_dataset, public_names
from lvmcore.errors import LatentboardError

__all__ = ["choose_paper_data", "data_panel"]

#: Height of a long list of addresses, in pixels.
_ADDRESSES = 120


def choose_paper_data() -> None:
    """Draw the choice of a dataset of the papers, folded; one that is here is opened at once."""
    titles = tables.paper_titles()
    source = session.source
    current = source.key if isinstance(source, SampleChoice) and source.key in titles else None
    # Another table has another key, so that the list is folded and has no old choice.
    with st.popover(
        "From the papers",
        key=widget_key("data", "papers", current),
        help="The data behind the figures of the Papers page; some are fetched first.",
    ):
        name = st.selectbox(
            "Dataset",
            list(titles),
            index=None if current is None else list(titles).index(current),
            format_func=lambda key: titles[key],
            placeholder="Choose a dataset",
            key=widget_key("data", "paper", current),
            help="One that is on this machine is opened at once; the others show their size.",
        )
        if name is None or name == current:
            return
        st.markdown(markdown(tables.sample_description(name)))
        if data_panel(name, "data"):
            session.choose_source(SampleChoice(name))
            st.rerun()


def data_panel(name: str, page: str, key: str = "fetch") -> bool:
    """Whether a dataset is on this machine; where it is not, the button that fetches it.

    Args:
        name: of the sample or the dataset of the papers.
        page: page of the widget key.
        key: widget key of the button.
    """
    if tables.has_paper_table(name):
        return True
    if name in public_names():
        _fetch_button(name, widget_key(page, key))
    else:
        st.caption(
            f"These data have no public address. Set {VARIABLE} to a folder that holds them and "
            "start the dashboard again."
        )
    return False


def _fetch_button(name: str, key: str) -> None:
    dataset = public_dataset(name)
    if not st.button(
        f"Fetch the data ({file_size(dataset.bytes)})",
        type="primary",
        key=key,
        help="Downloads the files from their public address and checks them. They are kept.",
    ):
        files = dataset.files
        others = f" and {len(files) - 1} other files" if len(files) > 1 else ""
        st.caption(markdown(f"From {dataset.address(files[0])}{others}, kept in {dataset.folder}."))
        return
    place = st.empty()  # what an earlier attempt drew here is gone at once
    bar = place.progress(0.0, "Fetching the data")
    try:
        fetch_public(name, lambda done, total: bar.progress(done / total, "Fetching the data"))
    except LatentboardError as error:
        with place.container():
            st.error(markdown(error))
            # an address in Markdown is not one that can be copied
            addresses = [dataset.address(file) for file in dataset.files]
            st.code("\n".join(addresses), language=None, height=_height(len(addresses)))
    else:
        st.rerun()


def _height(addresses: int) -> int | Literal["content"]:
    return _ADDRESSES if addresses > 4 else "content"
