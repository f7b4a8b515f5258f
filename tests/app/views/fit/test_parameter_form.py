"""Fields of the form of a model's parameters."""

from streamlit.testing.v1 import AppTest


def field() -> None:
    import streamlit as st

    from app.views.fit.parameter_form import parameter_widget
    from lvmcore import SVGPRegressor

    kernel = next(one for one in SVGPRegressor.parameters() if one.name == "kernel")
    initial = st.session_state.get("initial", kernel.default)
    st.markdown(str(parameter_widget(kernel, initial, "kernel")))


def test_a_kernel_is_chosen_from_short_names_or_typed() -> None:
    page = AppTest.from_function(field).run()
    menu = page.selectbox(key="kernel")
    assert menu.options == ["auto", "rbf", "matern52", "matern32", "another, typed"]
    assert page.markdown[0].value == "auto"
    assert not page.text_input
    page = menu.set_value("matern32").run()
    assert page.markdown[0].value == "matern32"
    page = page.selectbox(key="kernel").set_value("another, typed").run()
    (typed,) = page.text_input
    page = typed.set_value("rbf + linear").run()
    assert page.markdown[0].value == "rbf + linear"


def test_a_kernel_of_an_earlier_fit_is_in_the_field() -> None:
    page = AppTest.from_function(field)
    page.session_state["initial"] = "linear + rbf(month)"
    page.run()
    assert page.text_input[0].value == "linear + rbf(month)"
    assert page.markdown[0].value == "linear + rbf(month)"
