"""The fitted model of a run as a ZIP file of plain gpytorch."""

from __future__ import annotations

from app.services import fitted_maps, prediction, server
from lvmcore.errors import DataError

__all__ = ["gpytorch_archive"]


def gpytorch_archive(run: str) -> bytes:
    """The ZIP file.

    Raises:
        DataError: the run has no model.
        UnsupportedError: gpytorch has no such model.
    """
    from lvmcore.export.gpytorch.archive import gpytorch_zip
    from lvmcore.export.gpytorch.run_export import exported_run

    spec = server.store().get(run).spec
    model = prediction.predictor(run) if spec.target else fitted_maps.model(run)
    try:
        dataset = fitted_maps.stored_dataset(spec.dataset)
    except DataError:  # deleted since: the transforms are then read from the names alone
        dataset = None
    return gpytorch_zip(exported_run(model, spec, dataset))
