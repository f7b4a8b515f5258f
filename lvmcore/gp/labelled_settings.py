"""Settings of label-aware fits that the rows decide: the label weight, and the dimensions of "ard".

A weight w above 1 tempers the likelihood of the labels, p(label | x)^w. Where the columns predict
the labels this makes up for the larger number of columns; where they do not, single labels are
learned by heart, with too high probabilities for new rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from lvmcore.base.advice import WIDE_TABLE
from lvmcore.base.fit_problem import FitProblem
from lvmcore.base.table_size import TableSize
from lvmcore.gp.labelled_model import LabelledGPLVM
from lvmcore.numerics.array_types import FloatArray
from lvmcore.numerics.conversion import to_numpy
from lvmcore.preprocessing.class_labels import ClassLabels
from lvmcore.preprocessing.table_rows import TableRows
from lvmcore.training.snapshots import thinned

__all__ = [
    "component_variances",
    "label_agreement",
    "settle_dimensions",
    "settle_label_weight",
    "weight_by_agreement",
]

# Agreement up to which the weight is 1, and from which it is the largest. Chosen on moons, breast
# cancer, tic-tac-toe, car, mouse bladder and MNIST, three splits each: 0.86 to 0.99 with the labels
# as they are, 0.54 to 0.80 with a tenth of them swapped, where the largest weight lowered the
# accuracy of Fast LDGD on other rows (moons from 0.93 to 0.86, MNIST from 0.75 to 0.59). With a
# twentieth swapped the agreement in moons was 0.90, and a weight of 2 lowered nothing, 4 by 0.02.
NO_AGREEMENT, FULL_AGREEMENT = 0.8, 0.95
TREES = 100
# Most dimensions of "ard", and the relative size of an eigenvalue that is rounding alone.
MOST_DIMENSIONS, TOLERANCE = 20, 1e-6


def settle_label_weight(model: LabelledGPLVM, problem: FitProblem) -> float:
    """The label weight of the fit, stored in ``settings_``; with a note where it is reduced.

    A given weight is kept. For None it is at most ``largest_label_weight`` of the table, and less
    where the columns predict the labels less well; of several label columns, the least
    predictable counts.

    Args:
        model: its setting ``label_weight`` is the given weight or None.
        problem: the problem to fit.
    """
    weight: float | None = model.settings_["label_weight"]
    if weight is None:
        size = TableSize(
            n_rows=len(problem.table),
            n_columns=problem.table.n_columns,
            n_classes=max(len(column.classes) for column in problem.labels),
            incomplete=not problem.table.complete,
        )
        weight = largest = model.largest_label_weight(size)
        if largest > 1:
            agreement = min(label_agreement(problem.table, column) for column in problem.labels)
            weight = weight_by_agreement(largest, agreement)
            if weight < largest:
                model._note(_reason(weight, largest))
        model.settings_["label_weight"] = weight
    return weight


def _reason(weight: float, largest: float) -> str:
    return (
        f"The weight of the labels is {weight:.3g}, where it can be up to {largest:.3g} in a table "
        "of this size: the columns do not predict them well enough, and with a larger weight "
        "single labels would be learned by heart."
    )


def weight_by_agreement(largest: float, agreement: float) -> float:
    """The label weight, largest^t; t rises linearly from 0 to 1 as κ does from 0.8 to 0.95.

    Args:
        largest: the weight of labels that the columns predict, at least 1.
        agreement: κ, as from ``label_agreement``.
    """
    t = np.clip((agreement - NO_AGREEMENT) / (FULL_AGREEMENT - NO_AGREEMENT), 0, 1)
    return float(largest**t)


def label_agreement(table: TableRows, labels: ClassLabels) -> float:
    """Cohen's κ of the labels and their predictions from the columns, at most 1; 0 for one class.

    κ = (p − p_c)/(1 − p_c) for the share p of right predictions and p_c, that of predictions by
    chance with the same frequencies (Cohen 1960).
    The predictions are the out-of-bag ones of a random forest (Breiman 2001), each by the trees
    whose sample lacks the row, of at most 2000 labelled rows that are evenly spaced.

    Args:
        table: standardised rows; missing cells count as the mean of their column.
        labels: codes of the rows, [N].
    """
    from sklearn.ensemble import RandomForestClassifier  # slow to import
    from sklearn.metrics import cohen_kappa_score

    known = np.flatnonzero(labels.codes >= 0)
    rows = known[thinned(len(known))]
    codes = labels.codes[rows]
    if len(np.unique(codes)) < 2:
        return 0.0
    forest = RandomForestClassifier(TREES, oob_score=True, random_state=0)
    forest.fit(to_numpy(table.take(torch.as_tensor(rows))[0]), codes)
    predicted = forest.classes_[forest.oob_decision_function_.argmax(axis=1)]
    return float(cohen_kappa_score(codes, predicted))


def settle_dimensions(model: LabelledGPLVM, problem: FitProblem) -> FitProblem:
    """The problem with the dimensions of its fit, and a note where they are more than usual.

    For "ard", a table of at most 30 columns with more than ten large principal components, those
    with more variance than a column (Kaiser 1960), has as many dimensions as components, at most
    20. This is so for the one-hot columns of categories: their components have about the same
    variance, any of them may carry the labels, and the fit does not find the directions that its
    initial map lacks. Accuracy on other rows of the boards of tic-tac-toe, two splits: 0.76 and
    0.74 with 10 dimensions, 0.79 and 0.96 with 14, 0.97 and 0.88 with 17, 0.99 with all 18.

    Args:
        model: its setting ``n_components`` is "ard" or a number, which is kept.
        problem: the problem to fit.
    """
    usual = problem.n_components
    if model.settings_["n_components"] != "ard" or problem.table.n_columns > WIDE_TABLE:
        return problem
    variances = component_variances(problem.table)
    if (variances > 1 + TOLERANCE).sum() <= usual:
        return problem
    rank = int((variances > TOLERANCE * variances.max()).sum())
    dimensions = min(rank, MOST_DIMENSIONS, len(problem.table) - 1)
    model._note(
        f"The map has {dimensions} dimensions, more than the usual {usual}: the principal "
        "components of the columns have similar variances, and the labels may depend on any."
    )
    return replace(problem, n_components=dimensions)


def component_variances(table: TableRows) -> FloatArray:
    """Variances of the principal components of standardised columns, descending, [D].

    Args:
        table: standardised rows, [N, D]; missing cells count as the mean of their column.
    """
    gram = table.like.new_zeros((table.n_columns,) * 2, dtype=torch.float64)
    for Y, _ in table.blocks():
        gram += Y.double().T @ Y.double()
    return to_numpy(torch.linalg.eigvalsh(gram / len(table)).flip(0))
