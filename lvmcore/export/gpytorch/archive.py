"""The files of a model that is exported to gpytorch, as a folder or a ZIP file."""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import save

from lvmcore.errors import ConfigError
from lvmcore.export.gpytorch.exported_model import GPyTorchModel
from lvmcore.persistence import write_atomically
from lvmcore.runs.job import installed_version

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["gpytorch_files", "gpytorch_zip", "write_gpytorch"]

_PACKAGES = ("gpytorch", "torch", "safetensors", "numpy", "pandas")
_README = """# {model} as gpytorch

Written by Latentboard. Nothing here needs Latentboard: the packages are in `requirements.txt`.

| file | contents |
|---|---|
| `model.py` | the model, in classes of gpytorch |
| `model.safetensors` | its weights{rows} |
| `model.json` | columns, transforms and scalings |
| `predict.py` | predicts from a CSV file |
{more}
```
pip install -r requirements.txt
{command}
```

{text}
In Python, `model.load(safetensors.torch.load_file("model.safetensors"))` is the fitted model. Its
inputs and outputs are standardised: (x − mean)/scale of each column, as in `model.json`. The
variance of a sparse model of gpytorch has its `jitter_val` in it, which `predict.py` subtracts.
"""
_TARGET_TEXT = """`rows.csv` has the columns {columns},
in their own units. The mean of {target} and its standard deviation, noise included, are those of
Latentboard to rounding.
"""
_MAP_TEXT = """`points.csv` has the latent coordinates {columns}. `positions.csv`, the latent
means and standard deviations of the rows of the fit, is such a file. The means and standard
deviations of the columns, noise included, are those of Latentboard to rounding. New rows are not
placed on the map.
"""


def gpytorch_files(exported: GPyTorchModel) -> dict[str, bytes]:
    """The content of each file, by name."""
    facts = exported.facts
    is_map = facts["task"] == "map"
    program = Path(__file__).with_name("map_program.py" if is_map else "target_program.py")
    # without the build, such as +cpu, which the package index does not have
    versions = {name: (installed_version(name) or "").partition("+")[0] for name in _PACKAGES}
    pinned = (f"{name}=={version}\n" for name, version in versions.items() if version)
    files = {
        "model.py": exported.source.encode(),
        "model.safetensors": save(dict(exported.weights)),
        "model.json": json.dumps(dict(facts), indent=1, ensure_ascii=False).encode(),
        "predict.py": program.read_bytes(),
        "requirements.txt": "".join(pinned).encode(),
        "README.md": _readme(facts).encode(),
    }
    if is_map:
        files["positions.csv"] = _positions(exported.weights)
    return files


def gpytorch_zip(exported: GPyTorchModel) -> bytes:
    """A ZIP file of these files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in gpytorch_files(exported).items():
            archive.writestr(name, data)
    return content.getvalue()


def write_gpytorch(exported: GPyTorchModel, path: str | os.PathLike[str]) -> None:
    """Write a ZIP file, where the path ends in .zip, or a new folder.

    Raises:
        ConfigError: it cannot be written, or the folder is not empty.
    """
    target = Path(path)
    try:
        if target.suffix.lower() == ".zip":
            write_atomically(target, gpytorch_zip(exported))
            return
        target.mkdir(parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise ConfigError(f"The folder {target} is not empty: name a new folder, or a .zip.")
        for name, data in gpytorch_files(exported).items():
            write_atomically(target / name, data)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror}.") from error


def _readme(facts: Mapping[str, Any]) -> str:
    if facts["task"] == "map":
        names = [f"z{q + 1}" for q in range(facts["dimensions"])]
        return _README.format(
            model=facts["model"],
            rows=", and the latent means and variances of the rows of the fit",
            more="| `positions.csv` | latent means and standard deviations of the rows |\n",
            command="python predict.py points.csv columns.csv",
            text=_MAP_TEXT.format(columns=", ".join(f"`{name}`" for name in names)),
        )
    used = dict.fromkeys(column["column"] for column in facts["columns"])
    return _README.format(
        model=facts["model"],
        rows="",
        more="",
        command="python predict.py rows.csv predictions.csv",
        text=_TARGET_TEXT.format(
            columns=", ".join(f"`{name}`" for name in used), target=f"`{facts['target']}`"
        ),
    )


def _positions(weights: Mapping[str, Tensor]) -> bytes:
    """Latent means and standard deviations of the rows, as CSV."""
    mean, sd = weights["rows.mean"].tolist(), weights["rows.variance"].sqrt().tolist()
    text = io.StringIO()
    writer = csv.writer(text)
    Q = len(mean[0])
    writer.writerow([f"z{q + 1}" for q in range(Q)] + [f"z{q + 1}_sd" for q in range(Q)])
    writer.writerows([*m, *s] for m, s in zip(mean, sd, strict=True))
    return text.getvalue().encode()
