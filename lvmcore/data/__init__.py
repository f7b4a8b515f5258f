"""Tables read from files, and the datasets (numeric matrices) that models are fitted to."""

from lvmcore.data.build_dataset import exclusion_reason
from lvmcore.data.column_likelihoods import ProposedLikelihood, proposed_likelihood
from lvmcore.data.column_types import ColumnDescription, ColumnType
from lvmcore.data.dataset import Dataset
from lvmcore.data.date_scales import DateScale
from lvmcore.data.long_tables.memory_mapped import MappedTable, memory_mapped
from lvmcore.data.new_tables.column_matching import ColumnMatching, match_columns
from lvmcore.data.new_tables.matching_dataset import binary_codes, matching_dataset
from lvmcore.data.new_tables.unit_checks import TypicalRange, UnitWarning, unit_warnings
from lvmcore.data.number_questions import NumberQuestion, NumberReading, known_answers
from lvmcore.data.proposed_roles import propose_label, propose_row_id
from lvmcore.data.readers.read_table import read_table
from lvmcore.data.readers.sandbox import SandboxLimits, read_table_sandboxed
from lvmcore.data.samples.paper_datasets import load_paper, load_paper_images, paper_names
from lvmcore.data.samples.samples import SampleDataset, load_sample, samples
from lvmcore.data.table import DetectedFormat, Table
from lvmcore.data.transforms import check_likelihood, check_log1p, check_one_hot
from lvmcore.preprocessing.picture_shape import propose_image_shape

__all__ = [
    "ColumnDescription",
    "ColumnMatching",
    "ColumnType",
    "Dataset",
    "DateScale",
    "DetectedFormat",
    "MappedTable",
    "NumberQuestion",
    "NumberReading",
    "ProposedLikelihood",
    "SampleDataset",
    "SandboxLimits",
    "Table",
    "TypicalRange",
    "UnitWarning",
    "binary_codes",
    "check_likelihood",
    "check_log1p",
    "check_one_hot",
    "exclusion_reason",
    "known_answers",
    "load_paper",
    "load_paper_images",
    "load_sample",
    "match_columns",
    "matching_dataset",
    "memory_mapped",
    "paper_names",
    "propose_image_shape",
    "propose_label",
    "propose_row_id",
    "proposed_likelihood",
    "read_table",
    "read_table_sandboxed",
    "samples",
    "unit_warnings",
]
