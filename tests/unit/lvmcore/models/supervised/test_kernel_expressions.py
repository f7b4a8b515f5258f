"""Kernel expressions in every supervised model that evaluates a kernel."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lvmcore import ConfigError, load
from lvmcore.models import PREDICTORS
from lvmcore.models.supervised.deep_kernel import DeepKernelGPRegressor
from lvmcore.models.supervised.dspp import DSPPRegressor
from lvmcore.models.supervised.dsvi import DSVIDeepGPRegressor
from lvmcore.models.supervised.qep import DeepQEPRegressor, QEPRegressor
from lvmcore.models.supervised.subset_of_data import SoDDeepGPRegressor
from lvmcore.models.supervised.svgp import SVGPClassifier, SVGPRegressor
from lvmcore.parameters import parse_settings

WITH_KERNEL = {
    key: cls
    for key, cls in PREDICTORS.items()
    if any(parameter.name == "kernel" for parameter in cls.parameters())
}
ON_FEATURES = {key for key in WITH_KERNEL if key.startswith("deep_kernel")}


def months(n: int = 90, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """A yearly wave over months, a line over heights, and a column of one value."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"month": np.arange(n, dtype=float), "body height": rng.normal(size=n)})
    y = np.sin(2 * np.pi * table["month"] / 12) + 0.5 * table["body height"]
    table["same"] = 1.0
    return table, (y + 0.1 * rng.normal(size=n)).to_numpy()


def given(key: str, kernel: str, **more: Any) -> dict[str, Any]:
    small = {} if key in ("gp_classifier", "gp_regressor") else {"n_inducing": 8}
    return {"kernel": kernel, "max_iter": 12, "random_state": 0, **small, **more}


def test_every_model_with_a_covariance_takes_a_kernel() -> None:
    assert set(PREDICTORS) - {"cnn_classifier"} == set(WITH_KERNEL)  # a network has none


@pytest.mark.parametrize("key", sorted(WITH_KERNEL))
def test_a_model_with_an_expression_is_saved_and_loaded(key: str, tmp_path: Path) -> None:
    table, y = months(40)
    cls: Any = WITH_KERNEL[key]
    classes = cls.task == "class"
    target = np.digitize(y, [-0.4, 0.4]) if classes else y
    kernel = "linear + matern12 * polynomial"
    if key not in ON_FEATURES:
        kernel = 'linear("body height") + periodic(month) * rbf'
    model = cls(**given(key, kernel)).fit(table, target)
    model.save(tmp_path / "model.safetensors")
    again: Any = load(tmp_path / "model.safetensors")
    new, _ = months(12, seed=1)

    def predicted(one: Any) -> Any:
        return one.predict_proba(new) if classes else np.stack(one.predict(new, return_std=True))

    assert np.isfinite(predicted(model)).all()
    np.testing.assert_array_equal(predicted(again), predicted(model))
    if not classes:
        assert (np.stack(model.predict(new, return_std=True))[1] > 0).all()
    for name, alpha in model.relevance_.items():
        np.testing.assert_array_equal(again.relevance_[name], alpha)


@pytest.mark.parametrize("key", sorted(set(WITH_KERNEL) - ON_FEATURES))
def test_a_wrong_column_is_named_before_the_fit(key: str) -> None:
    table, y = months(30)
    cls: Any = WITH_KERNEL[key]
    target = (y > 0).astype(int) if cls.task == "class" else y
    for kernel, message in (
        ("rbf(moth)", "'moth', which is none of the columns of the fit .did you mean 'month'"),
        ("rbf(same)", "'same', which has one value in all rows"),
        ("cosine", "acts on one column: name it"),
        ("rbf(month", "ends too early"),
        ("rbv(month)", "did you mean rbf"),
    ):
        with pytest.raises(ConfigError, match=message):
            cls(**given(key, kernel)).fit(table, target)


@pytest.mark.parametrize("key", sorted(ON_FEATURES))
def test_features_of_a_network_have_no_names(key: str) -> None:
    table, y = months(30)
    for kernel in ("rbf(month)", "linear + cosine", "spectral_mixture"):
        with pytest.raises(ConfigError, match="leave the columns out"):
            WITH_KERNEL[key](**given(key, kernel)).fit(table, y > 0)


def test_the_command_line_takes_the_same_text() -> None:
    text = "linear + rbf * periodic(month)"
    for cls in WITH_KERNEL.values():
        if cls.key in ON_FEATURES:
            continue
        assert parse_settings(cls, [f"kernel={text}"]) == {"kernel": text}
    with pytest.raises(ConfigError, match="leave the columns out"):
        parse_settings(DeepKernelGPRegressor, [f"kernel={text}"])


@pytest.mark.slow
@pytest.mark.parametrize("cls", [SVGPRegressor, QEPRegressor, SVGPClassifier])
def test_a_period_is_found_by_the_exact_process(cls: Any) -> None:
    """Eight inducing inputs for seven waves: the RBF cannot follow them."""
    table, y = months()
    classes = cls is SVGPClassifier
    target = (y > 0).astype(int) if classes else y
    scores = {}
    for kernel in ("rbf", 'linear("body height") + periodic(month)'):
        model = cls(n_inducing=8, kernel=kernel, max_iter=150, random_state=0)
        scores[kernel] = model.fit(table[:66], target[:66]).score(table[66:], target[66:])
    plain, composed = scores.values()
    assert composed > (0.8 if classes else 0.9)
    assert plain < composed - 0.2


@pytest.mark.slow
@pytest.mark.parametrize("cls", [DSVIDeepGPRegressor, SoDDeepGPRegressor, DSPPRegressor])
def test_a_deep_process_finds_a_period_in_its_first_layer(cls: Any) -> None:
    table, y = months()
    kernel = 'linear("body height") + periodic(month)'
    model = cls(n_layers=1, n_inducing=10, kernel=kernel, max_iter=60, random_state=0)
    model.fit(table[:66], y[:66])
    assert model._function.gp.hidden[0].width == 3  # the columns that vary, and one
    assert model.score(table[66:], y[66:]) > 0.85
    narrow = cls(n_layers=1, n_inducing=10, hidden_dim=2, kernel=kernel, max_iter=5)
    assert narrow.fit(table, y)._function.gp.hidden[0].width == 2


def test_a_stationary_name_in_another_writing_is_that_kernel() -> None:
    table, y = months(30)
    found = [
        SVGPRegressor(n_inducing=8, kernel=text, max_iter=10).fit(table, y).predict(table)
        for text in ("matern32", " matern32 ", "(matern32)")
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize(
    ("cls", "later"), [(DSVIDeepGPRegressor, "rbf"), (DeepQEPRegressor, "matern32")]
)
def test_later_layers_keep_the_kernel_of_the_model(cls: Any, later: str) -> None:
    table, y = months(30)
    for kernel, composed in (("rbf(month) + linear", False), ("rbf + linear", True)):
        model = cls(n_inducing=6, kernel=kernel, max_iter=3, random_state=0).fit(table, y)
        gp = model._function.gp
        assert str(gp.hidden[0].composite.expression) == kernel
        for layer in (gp.hidden[1], gp.last):
            if composed:
                assert str(layer.composite.expression) == kernel
            else:
                assert layer.composite is None
                assert layer.kernel == later


def test_the_matern_kernel_in_a_deep_process_on_a_subset() -> None:
    table, y = months(40)
    model = SoDDeepGPRegressor(n_inducing=8, kernel="matern52", max_iter=12, random_state=0)
    gp = model.fit(table, y)._function.gp
    assert {layer.kernel for layer in (*gp.hidden, gp.last)} == {"matern52"}
