"""Export of a model, and its script in this process or in one of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lvmcore.export.gpytorch.archive import write_gpytorch
from lvmcore.export.gpytorch.exported_model import GPyTorchModel
from lvmcore.kernels.gpytorch_components import gpytorch_kernels

__all__ = ["program_of", "run_programs"]


def program_of(exported: GPyTorchModel, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script of an exported model as a module."""
    gpytorch_kernels()  # whose import warns
    write_gpytorch(exported, folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "model", raising=False)
    found = importlib.util.spec_from_file_location("predict", folder / "predict.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def run_programs(folders: Sequence[Path], tables: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """The tables of scripts in a process that does not know this project."""
    code = "import json, os, runpy, sys\nsys.path = [path for path in sys.path if path]\n"
    outs = []
    for folder, table in zip(folders, tables, strict=True):
        given, out = folder.with_suffix(".given.csv"), folder.with_suffix(".out.csv")
        table.to_csv(given, index=False)
        outs.append(out)
        code += (
            f"os.chdir({str(folder)!r})\nsys.path.insert(0, {str(folder)!r})\n"
            f"sys.argv = ['predict.py', {str(given)!r}, {str(out)!r}]\n"
            "sys.modules.pop('model', None)\nrunpy.run_path('predict.py', run_name='__main__')\n"
        )
    code += "print(json.dumps(sorted(sys.modules)))"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=folders[0],
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    packages = {name.split(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    assert "gpytorch" in packages
    assert not packages & {"lvmcore", "app"}
    return [pd.read_csv(out) for out in outs]
