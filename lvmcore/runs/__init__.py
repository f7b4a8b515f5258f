"""Runs: fits that are kept, each in a process of its own and in a folder of its own.

Importing this package loads neither torch nor the models.
"""

from lvmcore.runs.annotated import embedding_to_h5ad, places_to_h5ad, writes_h5ad
from lvmcore.runs.artifacts import embedding_frame, to_csv_bytes, to_parquet_bytes
from lvmcore.runs.curves import curves_frame
from lvmcore.runs.estimate import Estimate, Estimator
from lvmcore.runs.launcher import Launcher
from lvmcore.runs.picture import map_picture
from lvmcore.runs.snippet import snippet
from lvmcore.runs.spec import Event, Job, JobSpec, Metric
from lvmcore.runs.store import Store

__all__ = [
    "Estimate",
    "Estimator",
    "Event",
    "Job",
    "JobSpec",
    "Launcher",
    "Metric",
    "Store",
    "curves_frame",
    "embedding_frame",
    "embedding_to_h5ad",
    "map_picture",
    "places_to_h5ad",
    "snippet",
    "to_csv_bytes",
    "to_parquet_bytes",
    "writes_h5ad",
]
