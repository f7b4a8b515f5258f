"""Which device a fit takes: the queries of torch are stand-ins, as no test machine has a GPU."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from lvmcore import PCA, BayesianGPLVM, SVGPRegressor, devices, load
from lvmcore.devices import Computation, Gpu
from lvmcore.errors import ConfigError
from lvmcore.numerics import step_workload
from lvmcore.numerics.step_workload import Workload, measured_seconds, step_work

BIG = Workload(rows=100_000, columns=50, width=200)
SMALL = Workload(rows=100, columns=5, width=20)
TWO = (Gpu("cuda:0", "First", 80 << 30), Gpu("cuda:1", "Second", 40 << 30))

Machine = Callable[..., list[str]]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with GPUs, their free memory, and the times of a step by device."""

    def made(
        gpus: tuple[Gpu, ...], *, free: int = 80 << 30, seconds: dict[str, float] | None = None
    ) -> list[str]:
        measured: list[str] = []

        def seconds_on(device: str, work: Workload) -> float:
            measured.append(device)
            return (seconds or {})[device]

        monkeypatch.setattr(devices, "torch_gpus", lambda: gpus)
        monkeypatch.setattr(devices, "free_memory", lambda device: free)
        monkeypatch.setattr(devices, "measured_seconds", seconds_on)
        return measured

    return made


def chosen(device: str, work: Workload = BIG, precision: Any = "float64", **options: Any) -> str:
    options = {"uses_gpu": True, **options}
    return devices.resolve(device, precision, work, **options).device


# ---- the choice --------------------------------------------------------------------------------


def test_without_a_gpu_the_cpu_is_taken_and_nothing_is_measured(machine: Machine) -> None:
    measured = machine(())
    found = devices.resolve("auto", "float32", BIG, uses_gpu=True)
    assert (found.device, found.precision) == ("cpu", "float32")
    assert found.threads == torch.get_num_threads()
    assert measured == []


@pytest.mark.parametrize(("on_gpu", "expected"), [(0.1, "cuda:0"), (3.0, "cpu")])
def test_auto_takes_the_device_that_is_quicker_at_a_large_step(
    on_gpu: float, expected: str, machine: Machine
) -> None:
    measured = machine(TWO[:1], seconds={"cpu": 1.0, "cuda:0": on_gpu})
    assert chosen("auto") == expected
    assert measured == ["cpu", "cuda:0"]


def test_auto_takes_the_cpu_for_a_small_step_without_a_measurement(machine: Machine) -> None:
    measured = machine(TWO[:1], seconds={"cpu": 1.0, "cuda:0": 0.1})
    assert chosen("auto", SMALL) == "cpu"
    assert measured == []


def test_auto_takes_the_cpu_where_the_step_does_not_fit_into_the_gpu(machine: Machine) -> None:
    seconds = {"cpu": 1.0, "cuda:0": 0.1}
    machine(TWO[:1], free=BIG.memory, seconds=seconds)
    assert chosen("auto") == "cpu"
    machine(TWO[:1], free=2 * BIG.memory, seconds=seconds)
    assert chosen("auto") == "cuda:0"


def test_a_model_without_a_gpu_takes_the_cpu_whatever_was_set(machine: Machine) -> None:
    measured = machine(TWO, seconds={"cpu": 1.0, "cuda:0": 0.1})
    assert chosen("cuda:1", uses_gpu=False) == chosen("auto", uses_gpu=False) == "cpu"
    assert measured == []


def test_a_named_gpu_is_taken_and_cuda_is_the_one_that_the_process_was_given(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(TWO, seconds={"cpu": 1.0, "cuda:1": 0.5})
    assert chosen("cuda:1", SMALL) == "cuda:1"
    given = [0]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: given[0])
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: given.__setitem__(0, number))
    assert chosen("cuda", SMALL) == "cuda:0"
    devices.use_gpu("cuda:1")
    assert chosen("cuda", SMALL) == chosen("auto") == "cuda:1"
    devices.use_gpu("")
    assert given == [1]


@pytest.mark.parametrize(
    ("device", "gpus", "named"),
    [("cuda", (), "no GPU"), ("cuda:2", TWO, "cuda:0, cuda:1")],
)
def test_a_gpu_that_is_not_there_is_refused(
    device: str, gpus: tuple[Gpu, ...], named: str, machine: Machine
) -> None:
    machine(gpus)
    with pytest.raises(ConfigError, match=f"device='{device}' cannot be used: torch sees {named}"):
        chosen(device, SMALL)


def test_what_is_offered_is_what_is_there() -> None:
    assert devices.device_choices(()) == ("auto", "cpu")
    assert devices.device_choices(TWO[:1]) == ("auto", "cpu", "cuda")
    assert devices.device_choices(TWO) == ("auto", "cpu", "cuda:0", "cuda:1")


@pytest.mark.parametrize("text", ["auto", "cpu", "cuda", "cuda:0", "cuda:12"])
def test_names_of_devices_are_taken(text: str) -> None:
    devices.check_device(text)


@pytest.mark.parametrize(
    "text", ["tpu", "mps", "cuda:", "cuda:-1", "cuda:1 ", "CPU", "cuda:1234", ""]
)
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected one of auto, cpu, cuda"):
        devices.check_device(text)


# ---- which run needs a GPU ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "work", "expected"),
    [
        ("cpu", BIG, ()),
        ("auto", BIG, ("cuda:0", "cuda:1")),
        ("auto", None, ("cuda:0", "cuda:1")),
        ("auto", SMALL, ()),
        ("cuda", SMALL, ("cuda:0", "cuda:1")),
        ("cuda:1", SMALL, ("cuda:1",)),
        ("cuda:7", SMALL, ()),
    ],
)
def test_gpus_of_a_run(device: str, work: Workload | None, expected: tuple[str, ...]) -> None:
    assert devices.gpu_of_run(device, TWO, work, uses_gpu=True) == expected
    assert devices.gpu_of_run(device, TWO, work, uses_gpu=False) == ()


# ---- the size of a step and its measurement ----------------------------------------------------


def test_the_size_of_a_step_is_that_of_the_settings() -> None:
    full = step_work({"n_inducing": 30, "dtype": "float32"}, 1000, 12)
    assert full == Workload(1000, 12, 30, "float32")
    assert full.products == 1000 * 30 * 42 + 9000
    batch = step_work({"n_inducing": None, "batch_size": 256}, 1000, 12)
    assert (batch.rows, batch.width) == (256, 50)
    assert step_work({"batch_size": None}, 700, 3).width == 700  # a kernel matrix of all rows
    assert step_work({"n_features": 80}, 40, 3).width == 40


def test_a_step_is_measured_on_the_cpu_and_a_larger_one_takes_longer() -> None:
    measured_seconds.cache_clear()
    small, large = (Workload(rows, 20, width) for rows, width in ((500, 10), (20_000, 300)))
    assert 0 < measured_seconds("cpu", small) < measured_seconds("cpu", large)
    longer = Workload(200_000, 20, 300)  # measured by as many rows, and scaled
    assert measured_seconds("cpu", longer) > 3 * measured_seconds("cpu", large)


def test_a_measurement_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measured_seconds.cache_clear()
    calls = []
    monkeypatch.setattr(step_workload, "_seconds", lambda step: calls.append(step) or 1.0)
    assert measured_seconds("cpu", SMALL) == measured_seconds("cpu", SMALL) == 1.0
    assert len(calls) == 4
    measured_seconds.cache_clear()


# ---- detection ---------------------------------------------------------------------------------


def test_gpus_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        name, total_memory = "Card", 5 << 30

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda i: Properties)
    assert devices.torch_gpus() == tuple(Gpu(f"cuda:{i}", "Card", 5 << 30) for i in range(2))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.torch_gpus() == ()


def test_the_import_loads_no_torch_and_a_build_for_the_cpu_starts_no_process() -> None:
    program = (
        "import subprocess, sys, lvmcore.devices as d\n"
        "assert 'torch' not in sys.modules\n"
        "d.version = lambda name: '2.9.0+cpu'\n"
        "d.subprocess.run = None\n"
        "assert d.machine_gpus() == ()\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_gpus_are_asked_for_in_a_process_of_its_own() -> None:
    program = (
        "import sys, subprocess, lvmcore.devices as d\n"
        "d.version = lambda name: '2.9.0'\n"
        'class Ended: stdout = \'[{"device": "cuda:0", "name": "Card", "memory": 7}]\'\n'
        "d.subprocess.run = lambda command, **rest: Ended\n"
        "assert d.machine_gpus() == (d.Gpu('cuda:0', 'Card', 7),)\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    asked = [sys.executable, "-P", "-m", "lvmcore.devices"]
    text = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    assert text.strip().startswith("[")


# ---- the record, and stored models -------------------------------------------------------------


def test_a_fit_records_what_it_computed_on(tmp_path: Any, rng: np.random.Generator) -> None:
    X = rng.standard_normal((30, 4))
    model = BayesianGPLVM(n_components=2, n_inducing=5, max_iter=3, dtype="float32").fit(X)
    found = model.computation_
    assert found is not None
    assert (found.device, found.precision) == ("cpu", "float32")
    assert found.threads == torch.get_num_threads()
    assert found.text.startswith("CPU")
    assert found.text.endswith("float32, 1 thread")
    assert devices.computed_on(found) == f" Computed on {found.text}."
    assert devices.computed_on(None) == ""
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").computation_ == found


def test_a_model_that_was_fitted_on_a_gpu_opens_without_one(
    tmp_path: Any, rng: np.random.Generator
) -> None:
    X = rng.standard_normal((30, 4))
    model = SVGPRegressor(n_inducing=5, max_iter=3).fit(X, X[:, 0])
    model.computation_ = Computation("cuda:1", "Card", "float64", 4)
    model.device = "cuda:1"
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.computation_ == model.computation_
    assert again.computation_.text == "cuda:1 (Card), float64, 4 threads"
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_stored_model_computes_on_the_gpu_that_it_names(machine: Machine) -> None:
    machine(TWO)
    assert devices.stored_device("auto") == devices.stored_device("cuda:5") == torch.device("cpu")
    assert devices.stored_device("cuda:1") == torch.device("cuda:1")
    assert devices.stored_device("cuda") == torch.device("cuda")
    machine(())
    assert devices.stored_device("cuda") == torch.device("cpu")


def test_a_linear_map_uses_no_gpu(machine: Machine, rng: np.random.Generator) -> None:
    machine(TWO)
    model = PCA(n_components=1, device="cuda:1").fit(rng.standard_normal((10, 3)))
    assert model.computation_ is not None
    assert model.computation_.device == "cpu"
