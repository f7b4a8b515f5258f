"""The fit replayed: which maps are shown, on which axes, and when there are none."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image

from app.services import caching, fit_replay, run_colours, run_exports, server
from app.views.latent.fit_replay import replay_scene
from lvmcore.runs import Store
from tests.app.components.map.test_measured_colours import ran
from tests.app.conftest import OpenPage
from tests.app.views.latent.test_page import texts


@pytest.fixture(scope="module")
def run(shared_home: object) -> str:
    """A run whose events hold a map at every other step."""
    del shared_home  # where it is kept
    run = ran(random_state=3)
    path = server.store().job_folder(run).files.events
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    last = lines[-1]["snapshot"]
    mean = np.array(last["mean"])
    told = []
    for i in range(1, 11):
        step = {**lines[-1], "iteration": i, "total": 10, "objective": -100.0 + i}
        if i % 2 == 0:
            step["snapshot"] = {**last, "mean": (mean * i / 10).tolist()}
        else:
            step.pop("snapshot")
        told.append(json.dumps(step))
    path.write_text("\n".join(told) + "\n")
    return run


def test_the_frames_are_the_steps_with_a_map(run: str) -> None:
    film = fit_replay.fit_replay(run)
    assert film is not None
    assert [step.iteration for step in film.frames] == [2, 4, 6, 8, 10]
    assert [step.iteration for step in film.steps] == list(range(1, 11))
    assert all(step.snapshot is None for step in film.steps)
    last = film.frames[-1].snapshot
    assert last is not None
    np.testing.assert_allclose(film.low, last.mean.min(axis=0))
    np.testing.assert_allclose(film.high, last.mean.max(axis=0))


def test_the_maps_are_taken_away_as_an_animation(run: str, open_page: OpenPage) -> None:
    page = open_page("export", run=run)
    assert not page.exception
    assert "Fit as GIF" in {one.proto.label for one in page.main.get("download_button")}
    with Image.open(io.BytesIO(run_exports.fit_animation(run, "gif"))) as gif:
        assert gif.n_frames == 5  # type: ignore[attr-defined]


def test_the_axes_hold_every_map_and_stay(run: str) -> None:
    film = fit_replay.fit_replay(run)
    assert film is not None
    classes = run_colours.class_style(run)
    scenes = [replay_scene(film, step, classes, dark=False) for step in film.frames]
    for axis, side in (("xAxis", 0), ("yAxis", 1)):
        ((low, high),) = {(one[axis]["min"], one[axis]["max"]) for one in scenes}
        for step in film.frames:
            assert step.snapshot is not None
            assert low < step.snapshot.mean[:, side].min()
            assert step.snapshot.mean[:, side].max() < high


def test_a_long_fit_keeps_frames_evenly_with_the_first_and_the_last(
    run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit_replay, "MAX_FRAMES", 3)
    caching.clear()
    film = fit_replay.fit_replay(run)
    caching.clear()
    assert film is not None
    assert [step.iteration for step in film.frames] == [2, 6, 10]


def test_the_slider_goes_over_the_frames(open_page: OpenPage, run: str) -> None:
    page = open_page("latent", run=run)
    assert not page.select_slider
    page.session_state[f"latent:{run}:replay"] = True
    page.run()
    assert not page.exception
    (slider,) = page.select_slider
    assert slider.options == ["2", "4", "6", "8", "10"]
    assert "Step 10 of 10" in texts(page)
    slider.set_value(3).run()
    assert not page.exception
    assert "Step 8 of 10, bound −92" in texts(page)


def test_a_fit_in_one_go_has_nothing_to_replay(open_page: OpenPage, fitted: str) -> None:
    assert fit_replay.fit_replay(fitted) is None
    page = open_page("latent", run=fitted)
    page.session_state[f"latent:{fitted}:replay"] = True
    page.run()
    assert not page.exception
    assert "nothing to replay" in texts(page)


def test_a_run_without_events_has_nothing_to_replay(
    run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "events", lambda *_: [])
    caching.clear()
    assert fit_replay.fit_replay(run) is None
    caching.clear()
