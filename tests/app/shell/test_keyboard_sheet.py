"""The keys of the pages, in a dialog on every page."""

import pytest

from app import navigation
from tests.app.conftest import OpenPage


@pytest.mark.parametrize("page", ["data", "fit", "latent"])
def test_the_button_opens_the_list_of_keys(open_page: OpenPage, page: navigation.PageName) -> None:
    opened = open_page(page)
    assert "Ctrl + Shift + Z" not in " ".join(one.value for one in opened.markdown)
    opened.button(key="foot:keyboard").click().run()
    assert not opened.exception
    said = " ".join(one.value for one in opened.markdown)
    for key in ("Ctrl + Shift + Z", "Esc", "Enter"):
        assert f"`{key}`" in said
