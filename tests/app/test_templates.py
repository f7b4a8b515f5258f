"""HTML templates: user text stays text, and a forgotten value is an error."""

import jinja2
import pytest

from app.templates import render

NASTY = "<b onclick='run(1)'>\"&"


def test_every_value_is_escaped() -> None:
    html = render("facts.html", facts=[(NASTY, "{{ 6 * 7 }}")])
    assert "<dt>&lt;b onclick=&#39;run(1)&#39;&gt;&#34;&amp;</dt><dd>{{ 6 * 7 }}</dd>" in html


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        render("facts.html")


def test_an_unknown_template_is_an_error() -> None:
    with pytest.raises(jinja2.TemplateNotFound):
        render("unknown.html")
