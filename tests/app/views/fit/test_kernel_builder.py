"""A kernel built from components on the form of a fit."""

from streamlit.testing.v1 import AppTest


def form() -> None:
    import numpy as np
    import streamlit as st

    from app.views.fit.kernel_builder import KernelBuilder
    from app.views.fit.parameter_form import parameter_form
    from lvmcore.data import Dataset

    X = np.random.default_rng(0).standard_normal((30, 2)) * [12.0, 3.0]
    dataset = Dataset.from_arrays(X, feature_names=["month", "a b"])
    builder = KernelBuilder(dataset, st.session_state.get("columns", dataset.feature_names))
    model = st.session_state.get("model", "gp_regressor")
    from lvmcore.models import MODELS, PREDICTORS

    declared = (PREDICTORS[model] if model in PREDICTORS else MODELS[model]).parameters()
    suggested = {"kernel": st.session_state.get("initial", "rbf")}
    values = parameter_form(declared, suggested, str, kernels=builder)
    st.code(values["kernel"])


def opened(**state: object) -> AppTest:
    page = AppTest.from_function(form)
    for name, value in state.items():
        page.session_state[name] = value
    page = page.run()
    return page.selectbox(key="kernel").set_value("built from components").run()


def test_a_kernel_is_built_from_components_with_a_picture_of_each() -> None:
    page = opened()
    assert page.code[0].value == "rbf"
    assert len(page.get("plotly_chart")) == 1
    page = page.selectbox(key="kernel:kernel 1").set_value("periodic").run()
    page = page.multiselect(key="kernel:periodic 1 columns").set_value(["month"]).run()
    page = page.number_input(key="kernel:periodic 1 period").set_value(12.0).run()
    page = page.selectbox(key="kernel:kernel 2").set_value("matern52").run()
    page = page.selectbox(key="kernel:sign 2").set_value("*").run()
    page = page.multiselect(key="kernel:matern52 2 columns").set_value(["a b"]).run()
    assert page.code[0].value == 'rbf + periodic(month, period=12) * matern52("a b")'
    assert len(page.get("plotly_chart")) == 4
    assert not page.error
    assert not page.exception


def test_a_sum_of_products_is_taken_over_and_one_with_brackets_is_not() -> None:
    page = opened(initial="linear(month) * rbf + cosine(month, period=3)")
    assert page.code[0].value == "linear(month) * rbf + cosine(month, period=3)"
    assert opened(initial="(linear + rbf) * rbf").code[0].value == "rbf"


def test_a_kernel_of_one_column_has_one() -> None:
    page = opened()
    page = page.selectbox(key="kernel:kernel 0").set_value("cosine").run()
    assert page.code[0].value == "cosine(month)"
    page = page.multiselect(key="kernel:cosine 0 columns").set_value([]).run()
    assert "name it" in page.error[0].value
    assert not page.exception


def test_features_of_a_network_have_no_columns() -> None:
    page = opened(model="deep_kernel_regressor")
    assert not page.multiselect
    page = page.selectbox(key="kernel:kernel 1").set_value("linear").run()
    assert page.code[0].value == "rbf + linear"


def test_a_kernel_of_a_map_acts_on_its_dimensions() -> None:
    page = opened(model="bayesian_gplvm")
    page = page.number_input(key="n_components").set_value(3).run()
    page = page.selectbox(key="kernel:kernel 0").set_value("matern52").run()
    columns = page.multiselect(key="kernel:matern52 0 columns")
    assert columns.options == ["z1", "z2", "z3"]
    page = columns.set_value(["z2"]).run()
    assert page.code[0].value == "matern52(z2)"
    assert not page.error
    assert not page.exception


def test_a_kernel_of_random_features_has_a_closed_spectrum() -> None:
    page = opened(model="srflvm", initial="learned")
    offered = page.selectbox(key="kernel:kernel 0").options
    assert "Matérn-3/2" in offered
    assert not {"linear", "polynomial", "piecewise polynomial"} & set(offered)
    page = page.selectbox(key="kernel:kernel 0").set_value("matern32").run()
    columns = page.multiselect(key="kernel:matern32 0 columns")
    assert columns.options == ["z1", "z2"]
    page = columns.set_value(["z1"]).run()
    assert page.code[0].value == "matern32(z1)"
    assert not page.error
    assert not page.exception
