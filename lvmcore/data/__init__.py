"""Reading tables, and making the matrices that models are fitted to."""

from lvmcore.data.build import why_left_out
from lvmcore.data.columns import Column, ColumnType
from lvmcore.data.dataset import Dataset
from lvmcore.data.like import codes_of, dataset_like
from lvmcore.data.limited import Limits, read_table_limited
from lvmcore.data.mapped import MappedTable, memory_mapped
from lvmcore.data.matching import Matching, match_columns
from lvmcore.data.papers import load_paper, load_paper_images, paper_names
from lvmcore.data.propose import propose_image_shape, propose_label, propose_row_id
from lvmcore.data.reading import read_table
from lvmcore.data.samples import Sample, load_sample, samples
from lvmcore.data.table import Detected, Table
from lvmcore.data.transforms import check_log1p, check_one_hot
from lvmcore.data.units import Suspicion, Typical, other_units

__all__ = [
    "Column",
    "ColumnType",
    "Dataset",
    "Detected",
    "Limits",
    "MappedTable",
    "Matching",
    "Sample",
    "Suspicion",
    "Table",
    "Typical",
    "check_log1p",
    "check_one_hot",
    "codes_of",
    "dataset_like",
    "load_paper",
    "load_paper_images",
    "load_sample",
    "match_columns",
    "memory_mapped",
    "other_units",
    "paper_names",
    "propose_image_shape",
    "propose_label",
    "propose_row_id",
    "read_table",
    "read_table_limited",
    "samples",
    "why_left_out",
]
