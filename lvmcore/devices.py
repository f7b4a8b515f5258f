"""Device, precision and threads of a fit: resolved once, and recorded with its run.

The setting ``device`` is ``auto``, ``cpu``, ``cuda`` (the GPU that the process was given) or
``cuda:1``. GPUs are those that torch can use with double precision, which the sums and
factorisations of the models have: those of CUDA and ROCm. ``auto`` decides by the work of a step
and, where a GPU may be worth it, by a measurement of such a step on the CPU and on the GPU.

Importing this module does not load torch.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from lvmcore.errors import ConfigError
from lvmcore.numerics.step_workload import Precision, Workload, measured_seconds

if TYPE_CHECKING:
    import torch

__all__ = [
    "Computation",
    "Gpu",
    "check_device",
    "computed_on",
    "device_choices",
    "gpu_of_run",
    "machine_gpus",
    "peak_memory",
    "release_memory",
    "resolve",
    "storage_type",
    "stored_device",
    "torch_gpus",
    "use_gpu",
    "worth_measuring",
]

#: Multiplications of a step below which the CPU is taken without a measurement: it needs about a
#: millisecond for them, and a GPU as long to start the operations of a step.
FEWEST_PRODUCTS = 2_000_000
#: Share of a GPU's free memory that a step may need at most for ``auto`` to take it.
MEMORY_SHARE = 0.8
_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
_EXPECTED = "one of auto, cpu, cuda, or cuda:0 and so on"
_PROBE_SECONDS = 60.0


@dataclass(frozen=True)
class Gpu:
    """A GPU that torch can use.

    Attributes:
        device: its name in torch, such as "cuda:0".
        name: of the product.
        memory: its memory, bytes; 0 if it is not known.
    """

    device: str
    name: str
    memory: int = 0


@dataclass(frozen=True)
class Computation:
    """What the device and the precision of a fit were resolved to.

    Attributes:
        device: name in torch, "cpu" or "cuda:0".
        name: of the processor or of the GPU.
        precision: of the arithmetic.
        threads: threads of an operation on the CPU.
        shards: processes with a part of the rows each; 0 where the fit has all of them.
    """

    device: str
    name: str
    precision: Precision
    threads: int
    shards: int = 0

    @property
    def place(self) -> str:
        """Device and precision, as a phrase."""
        return f"{_short(self.device)}, {self.precision}"

    @property
    def text(self) -> str:
        """Device, its name, precision and threads, as a phrase."""
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        named = f"{_short(self.device)} ({self.name})" if self.name else _short(self.device)
        shards = f", rows in {self.shards} shards" if self.shards > 1 else ""
        return f"{named}, {self.precision}, {threads}{shards}"


def _short(device: str) -> str:
    return "CPU" if device == "cpu" else device


def computed_on(found: Computation | None) -> str:
    """A sentence on what a fit was computed on, after a space; "" where it is not known."""
    return "" if found is None else f" Computed on {found.text}."


# ---- the setting -------------------------------------------------------------------------------


def check_device(value: str, columns: Sequence[str] | None = None) -> None:
    """Check the text of the setting ``device``, whether this machine has the device or not.

    Raises:
        ConfigError: it names no device.
    """
    del columns
    if not _DEVICE.fullmatch(value):
        raise ConfigError(f"device={value!r} cannot be used: expected {_EXPECTED}.")


def device_choices(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """The values of the setting ``device`` on a machine with these GPUs."""
    return (
        "auto",
        "cpu",
        *([gpu.device for gpu in gpus] if len(gpus) > 1 else ["cuda"] * len(gpus)),
    )


# ---- the GPUs of the machine -------------------------------------------------------------------


def torch_gpus() -> tuple[Gpu, ...]:
    """The GPUs that torch can use in this process (loads torch)."""
    import torch

    if not torch.cuda.is_available():
        return ()
    found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return tuple(Gpu(f"cuda:{i}", p.name, int(p.total_memory)) for i, p in enumerate(found))


@cache
def machine_gpus() -> tuple[Gpu, ...]:
    """The GPUs that torch can use, found without loading torch into this process.

    A process of its own asks torch, once. It takes seconds, so none is started for a torch that was
    built for the CPU alone.
    """
    if "torch" in sys.modules:
        return torch_gpus()
    if _is_cpu_build():
        return ()
    with suppress(OSError, ValueError, TypeError, subprocess.SubprocessError):
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "lvmcore.devices"],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONPATH": _path()},
            timeout=_PROBE_SECONDS,
        )
        return tuple(Gpu(**one) for one in json.loads(ended.stdout))
    return ()


def _is_cpu_build() -> bool:
    """Whether the installed torch supports no GPU, by its version."""
    with suppress(PackageNotFoundError):
        return version("torch").endswith("+cpu")
    return True


def _path() -> str:
    """The module search path of a process that imports this lvmcore."""
    root, inherited = str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH")
    return root if not inherited else os.pathsep.join((root, inherited))


# ---- resolution --------------------------------------------------------------------------------


def resolve(device: str, precision: Precision, work: Workload, *, uses_gpu: bool) -> Computation:
    """The device of a fit on this machine (loads torch).

    Args:
        device: the setting.
        precision: the setting ``dtype``.
        work: a step of the fit.
        uses_gpu: whether the model computes on a GPU; other models use the CPU.

    Raises:
        ConfigError: the GPU is not there.
    """
    import torch

    chosen = _cpu() if not uses_gpu or device == "cpu" else _chosen(device, work)
    return Computation(chosen.device, chosen.name, precision, torch.get_num_threads())


def _chosen(device: str, work: Workload) -> Gpu:
    gpus = torch_gpus()
    if device == "auto":
        return _fastest(gpus, work)
    named = (gpu for gpu in gpus if gpu.device == device)
    found = _current(gpus) if device == "cuda" else next(named, None)
    if found is None:
        there = ", ".join(gpu.device for gpu in gpus) or "no GPU"
        raise ConfigError(
            f"device={device!r} cannot be used: torch sees {there} on this machine. Choose cpu or "
            "auto."
        )
    return found


def _fastest(gpus: Sequence[Gpu], work: Workload) -> Gpu:
    """The CPU for small steps, and the faster of the two by a measurement for others."""
    cpu, gpu = _cpu(), _current(gpus)
    if gpu is None or not worth_measuring(work):
        return cpu
    if work.memory > MEMORY_SHARE * free_memory(gpu.device):
        return cpu
    return min((cpu, gpu), key=lambda one: measured_seconds(one.device, work))


def worth_measuring(work: Workload) -> bool:
    """Whether a step has enough work for a GPU to be considered."""
    return work.products >= FEWEST_PRODUCTS


def _cpu() -> Gpu:
    return Gpu("cpu", _processor())


@cache
def _processor() -> str:
    """Name of the processor; "" if the system does not say."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _current(gpus: Sequence[Gpu]) -> Gpu | None:
    """The GPU that this process was given, the first one by default; None without any."""
    if len(gpus) < 2:
        return gpus[0] if gpus else None
    import torch

    return gpus[torch.cuda.current_device()]


def use_gpu(device: str) -> None:
    """Make a GPU that of ``cuda`` and ``auto`` in this process (loads torch).

    Args:
        device: such as "cuda:1"; "" for none.
    """
    if not device:
        return
    import torch

    if torch.cuda.is_available():
        torch.cuda.set_device(int(device.partition(":")[2]))


def release_memory() -> None:
    """Give memory of GPUs that is kept for later arrays back, after a fit ran out of it."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def peak_memory(device: str) -> int | None:
    """Largest memory of this process on a GPU so far, bytes; None for the CPU."""
    if device == "cpu":
        return None
    import torch

    return int(torch.cuda.max_memory_reserved(device))


def free_memory(device: str) -> int:
    """Free memory of a GPU, bytes."""
    import torch

    return int(torch.cuda.mem_get_info(device)[0])


# ---- runs and stored models --------------------------------------------------------------------


def gpu_of_run(
    device: str, gpus: Sequence[Gpu], work: Workload | None, *, uses_gpu: bool
) -> tuple[str, ...]:
    """The GPUs of which a run needs one, in order of preference; none for a run on the CPU.

    Args:
        device: the setting.
        gpus: the GPUs of the machine.
        work: a step of its fit; None if it is not known.
        uses_gpu: whether the model computes on a GPU.
    """
    if not uses_gpu or device == "cpu":
        return ()
    if device == "auto" and work is not None and not worth_measuring(work):
        return ()
    named = tuple(gpu.device for gpu in gpus)
    if device in ("auto", "cuda"):
        return named
    return (device,) if device in named else ()


def storage_type(precision: Precision) -> torch.dtype:
    """Type of the table and of the parameters in a precision."""
    import torch

    return torch.float32 if precision == "float32" else torch.float64


def stored_device(device: str) -> torch.device:
    """The device of a loaded model: the GPU that its setting names, else the CPU.

    A loaded model computes predictions, which are short. A model fitted on a GPU that this machine
    does not have can be used here as well.
    """
    import torch

    if device in ("auto", "cpu"):
        return torch.device("cpu")
    named = [gpu.device for gpu in torch_gpus()]
    there = device in named or (device == "cuda" and bool(named))
    return torch.device(device if there else "cpu")


if __name__ == "__main__":
    print(json.dumps([asdict(gpu) for gpu in torch_gpus()]))
