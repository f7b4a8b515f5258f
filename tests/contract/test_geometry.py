"""What every model that decodes promises about the geometry of its map."""

import numpy as np
import pytest

from lvmcore.errors import ConfigError, DataError, UnsupportedError
from lvmcore.models import MODELS
from tests.contract.small import fit, fitted, for_models, table_for

DECODING = [key for key, model in MODELS.items() if model.capabilities.decoding]
#: Models whose columns are functions without a variance of their own.
CERTAIN = {"pca", "ppca", "sppca", "factor_analysis", "nmf", "topics"}
CERTAIN |= {"vae", "supervised_vae", "nbvae"}


@pytest.mark.parametrize("key", DECODING)
def test_the_metric_holds_the_slopes_of_what_is_decoded(key: str) -> None:
    model, scale = fitted(key), table_for(key)[0].to_numpy().std(axis=0)
    Q, h = model.embedding_.mean.shape[1], 1e-5
    places = model.embedding_.mean[:4]
    G = model.latent_metric(places)
    for place, metric in zip(places, G, strict=True):
        steps = h * np.vstack([np.eye(Q), -np.eye(Q)])
        decoded = model.decode(place + steps).mean / scale
        slopes = (decoded[:Q] - decoded[Q:]) / (2 * h)
        beyond = metric - slopes @ slopes.T
        if key in CERTAIN:
            np.testing.assert_allclose(beyond, 0, atol=1e-4 * np.abs(metric).max())
        assert np.linalg.eigvalsh(beyond).min() > -1e-4 * np.abs(metric).max()


@pytest.mark.slow(quick=["factor_analysis", "pca", "topics"])
@pytest.mark.parametrize("key", DECODING)
def test_a_way_begins_and_ends_where_it_should_and_is_no_longer_than_the_line(key: str) -> None:
    model = fitted(key)
    a, b = model.embedding_.mean[[0, 1]]
    path, line = model.latent_path(a, b, points=9), model.latent_path(a, b, along="line", points=9)
    for way in (path, line):
        np.testing.assert_allclose(way.points[[0, -1]], [a, b])
        assert way.distance[0] == 0
        assert (np.diff(way.distance) > 0).all()
    np.testing.assert_allclose(np.diff(line.points, axis=0), np.tile((b - a) / 8, (8, 1)))


@for_models()
def test_what_has_no_geometry_says_so(key: str) -> None:
    model = fitted(key)
    Q = model.embedding_.mean.shape[1]
    if key not in DECODING:
        with pytest.raises(UnsupportedError, match="cannot turn latent points back"):
            model.latent_metric(np.zeros((1, Q)))
        with pytest.raises(UnsupportedError, match="cannot turn latent points back"):
            model.latent_path(np.zeros(Q), np.ones(Q))
        return
    with pytest.raises(DataError, match="expected finite"):
        model.latent_path(np.zeros(Q), np.ones(Q + 1))
    with pytest.raises(ConfigError, match="at least 2"):
        model.latent_path(np.zeros(Q), np.ones(Q), points=1)
    with pytest.raises(ConfigError, match="along='sea'"):
        model.latent_path(np.zeros(Q), np.ones(Q), along="sea")  # type: ignore[arg-type]


@pytest.mark.slow(quick=["nbvae", "nmf", "vae"])
@pytest.mark.parametrize("key", DECODING)
def test_a_path_in_single_precision(key: str) -> None:
    frame, labels = table_for(key)
    model = fit(key, frame, labels, dtype="float32")
    ends = model.embedding_.mean[:2]
    for along in ("data", "line"):
        assert np.isfinite(model.latent_path(*ends, along=along, points=5).points).all()
