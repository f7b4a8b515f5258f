"""What every test shares: one thread a process, its own home, the data folder, a generator."""

import gc
import os
from pathlib import Path

# Before NumPy or torch is imported here, in a test worker, or in a process that a test starts.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
# A thread that waits must not spin while the other test worker computes.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import none

from tests.needs import unavailable
from tests.shapes import check_shapes, start_test

check_shapes()

#: Where the tests are that mostly wait for processes that they have started.
WAITING = ("tests/kill/", "tests/unit/lvmcore/jobs/")

# The same examples on every run, and no deadline: a busy machine is not a bug.
settings.register_profile("latentboard", derandomize=True, deadline=None)
settings.load_profile("latentboard")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep some parameters of a slow test in the quick run.

    ``@pytest.mark.slow(quick=["pca", "ldgd"])`` leaves a parametrised test to ``make test-all``,
    except for the parameters with these ids.
    """
    for item in items:
        mark = item.get_closest_marker("slow")
        quick = () if mark is None else mark.kwargs.get("quick", ())
        if quick and item.callspec.id in quick:  # type: ignore[attr-defined]
            item.own_markers[:] = [own for own in item.own_markers if own.name != "slow"]
    # Tests that mostly wait for other processes go first, all to one test process: beside them the
    # others compute, and a cluster is started once for the tests of its module.
    items.sort(key=lambda item: not item.nodeid.startswith(WAITING))


def pytest_collection_finish() -> None:
    """Keep the tests themselves and their modules out of every later collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have shapes checked anew in every test, and skip tests of a GPU where there is none.

    This may be skipped in a continuous integration, too: few machines have a GPU.
    """
    start_test()
    if item.get_closest_marker("gpu") is not None:
        from lvmcore.devices import torch_gpus

        if not torch_gpus():
            pytest.skip("torch sees no GPU on this machine")


@pytest.fixture(scope="session", autouse=True)
def hypothesis_generator() -> None:
    """Have Hypothesis register its generator of random numbers before any page is opened.

    It looks for references to it, and takes it for garbage where the dashboard, in its own thread,
    calls ``gc.freeze`` meanwhile: frozen objects are no longer seen to refer to anything.
    """

    @given(none())
    def example(_: None) -> None:
        pass

    example()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `LATENTBOARD_HOME` of the test's own, so that no test sees another's runs or the user's."""
    folder = tmp_path / "latentboard-home"
    monkeypatch.setenv("LATENTBOARD_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of the papers' data sets, named by `LVMCORE_DATA`."""
    value = os.environ.get("LVMCORE_DATA")
    if not value:
        unavailable("LVMCORE_DATA is not set: it names the folder of the papers' data sets")
    folder = Path(value)
    if not folder.is_dir():
        unavailable(f"LVMCORE_DATA names {value!r}, which is not a folder")
    return folder


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed, new for each test."""
    return np.random.default_rng(20240607)
