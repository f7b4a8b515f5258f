"""The controls of a page, and what explains each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamlit.testing.v1 import AppTest

__all__ = ["unexplained"]

#: Elements that somebody can use; links to other pages say where they lead.
KINDS = frozenset(
    {
        "button",
        "button_group",
        "chat_input",
        "checkbox",
        "color_picker",
        "date_input",
        "download_button",
        "file_uploader",
        "multiselect",
        "number_input",
        "radio",
        "selectbox",
        "select_slider",
        "slider",
        "text_area",
        "text_input",
        "time_input",
        "toggle",
    }
)


def unexplained(page: AppTest) -> set[str]:
    """Controls without a sentence: no help of their own, and no caption just before or after."""
    return {
        f"{block.type}: {getattr(block.proto, 'label', '')}"
        for block, beside in _leaves(page.main)
        if block.type in KINDS and not _help(block) and "caption" not in beside
    }


def _leaves(block: Any) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Every element below a block, with the kinds of those just before and after it."""
    children = [block.children[place] for place in sorted(block.children)]
    kinds = [_kind(child) for child in children]
    for place, child in enumerate(children):
        if hasattr(child, "children"):
            yield from _leaves(child)
        else:
            yield child, (*kinds[max(0, place - 1) : place], *kinds[place + 1 : place + 2])


def _kind(child: Any) -> str:
    """What an element is; a block is a caption where its first element is one."""
    if hasattr(child, "children"):
        inside = [child.children[place] for place in sorted(child.children)]
        return _kind(inside[0]) if inside else ""
    is_caption = child.type == "markdown" and getattr(child.proto, "is_caption", False)
    return "caption" if is_caption or child.type == "caption" else str(child.type)


def _help(block: Any) -> bool:
    return bool(str(getattr(block.proto, "help", "")).strip())
