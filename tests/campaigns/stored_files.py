"""Model files and the files of a run in a campaign: the whole ones, and what becomes of others."""

import tempfile
from functools import lru_cache
from pathlib import Path

from lvmcore.errors import LatentboardError
from lvmcore.runs import Store
from tests.compatibility.earlier import unpack

__all__ = ["RUN_FILES", "model_files", "model_outcome", "run_files", "run_outcome"]

#: Files of a run that hold text.
RUN_FILES = ("spec.json", "status.json", "about.json", "metrics.json", "events.jsonl")


@lru_cache(maxsize=1)
def _earlier() -> Path:
    """What version 0.1.0 wrote, unpacked for this process."""
    return unpack(Path(tempfile.mkdtemp(prefix="latentboard-campaign-store-")))


@lru_cache(maxsize=1)
def _run_folder() -> Path:
    """The folder of a run with a map."""
    home = _earlier() / "store"
    maps = [job for job in Store(home).list() if job.has_model and not job.spec.target]
    return home / "jobs" / maps[0].id


def model_files() -> dict[str, list[bytes]]:
    """A saved model of every kind."""
    saved = sorted((_earlier() / "models").glob("*.safetensors"))
    return {"model": [path.read_bytes() for path in saved]}


def run_files() -> dict[str, list[bytes]]:
    """The files of a run, in the order of ``RUN_FILES``."""
    paths = [_run_folder() / name for name in RUN_FILES]
    return {"run": [path.read_bytes() if path.is_file() else b"{}" for path in paths]}


def model_outcome(content: bytes) -> list[str]:
    """Whether a model file is read or refused; then what is wrong with that."""
    from lvmcore import load

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        path.write_bytes(content)
        try:
            load(path)
        except LatentboardError as error:
            return ["refused"] if str(error).strip() else ["refused", "an empty message"]
        except Exception as error:
            return ["refused", f"{type(error).__name__}: {error}"]
        return ["read"]


def run_outcome(content: bytes, name: str) -> list[str]:
    """What becomes of a store with a damaged file in a run; then what is wrong with that."""
    folder = _run_folder()
    path = folder / name
    whole = path.read_bytes() if path.is_file() else None
    path.write_bytes(content)
    try:
        store = Store(_earlier() / "store")
        listed = {job.id: job for job in store.list(None)}
        damaged = {run.id: run.reason for run in store.damaged()}
        if folder.name in damaged:
            return ["damaged"] if damaged[folder.name].strip() else ["damaged", "an empty reason"]
        if folder.name not in listed:
            return ["lost", "the run is neither listed nor damaged"]
        store.events(folder.name)
        assert listed[folder.name].finished or listed[folder.name].seconds is None
        return ["read"]
    except Exception as error:
        return ["refused", f"{type(error).__name__}: {error}"]
    finally:
        if whole is None:
            path.unlink()
        else:
            path.write_bytes(whole)
