"""Held-out rows: the test set that scores a fit."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lvmcore.errors import DataError

__all__ = [
    "MAX_HELD_OUT",
    "hold_out_groups",
    "hold_out_last",
    "hold_out_rows",
    "keep_every_class",
    "label_strata",
]

#: The largest share of rows that can be held out.
MAX_HELD_OUT = 0.5


def hold_out_rows(
    n: int, labels: NDArray[np.object_] | None, share: float, seed: int
) -> NDArray[np.bool_]:
    """Draw held-out rows, stratified by class (rows without a label are a stratum).

    At least one row of every class stays in the fit, so the share can be lower where there are many
    small classes.

    Args:
        n: Number of rows.
        labels: Class of each row, None where it is missing [N]; None without labels.
        share: Share of the rows, 0 to 0.5.
        seed: Random seed.

    Returns:
        Mask of the held-out rows, [N].

    Raises:
        DataError: The share is not in that range, or no row can be held out.
    """
    if not 0.0 <= share <= MAX_HELD_OUT:
        raise DataError(
            f"hold_out={share!r} cannot be used: expected a share of the rows between 0 and "
            f"{MAX_HELD_OUT:g}, such as 0.2."
        )
    held = np.zeros(n, dtype=bool)
    if share == 0.0:
        return held
    known = np.full(n, "") if labels is None else np.array([f"={label}" for label in labels])
    if labels is not None:
        known[[label is None for label in labels]] = ""
    _, strata, sizes = np.unique(known, return_inverse=True, return_counts=True)
    counts = _allocate(sizes, max(1, round(share * n)), share)
    if not counts.any():
        raise DataError(
            f"No row can be held out: there are {n} rows, and every class has to keep one in the "
            "fit. Hold out nothing, or use a label with fewer classes."
        )
    rng = np.random.default_rng(seed)
    for stratum, count in enumerate(counts.tolist()):
        members = np.flatnonzero(strata == stratum)
        held[rng.choice(members, count, replace=False)] = True
    return held


def hold_out_groups(
    groups: NDArray[np.object_], share: float, seed: int, *, name: str
) -> NDArray[np.bool_]:
    """Draw whole groups of rows to hold out, until they contain the share of the rows.

    A group that would exceed ``MAX_HELD_OUT`` of the rows stays in the fit.

    Args:
        groups: Group of each row as text [N]; the rows without one (None) are a group too.
        share: Share of the rows, above 0.
        seed: Random seed.
        name: Name of the column of groups, for the message.

    Returns:
        Mask of the held-out rows, [N].

    Raises:
        DataError: There is one group only, or every group is too large to be held out.
    """
    named = np.array(["" if group is None else f"={group}" for group in groups.tolist()])
    _, codes, sizes = np.unique(named, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        raise DataError(
            f"No group can be held out: the rows are all of one group of {name!r}. Expected two "
            "groups or more."
        )
    order = np.random.default_rng(seed).permutation(len(sizes))
    drawn: list[int] = []
    count = 0
    for group in order.tolist():
        if count >= share * len(groups):
            break
        if count + sizes[group] <= MAX_HELD_OUT * len(groups):
            drawn.append(group)
            count += int(sizes[group])
    if not drawn:
        raise DataError(
            f"No group can be held out: each group of {name!r} has more than {MAX_HELD_OUT:.0%} "
            "of the rows. Expected smaller groups."
        )
    return np.asarray(np.isin(codes, drawn))


def hold_out_last(times: NDArray[np.float64], share: float, *, name: str) -> NDArray[np.bool_]:
    """Hold out the latest rows, so that no row of the fit is later than a held-out row.

    Rows of the same time stay together.

    Args:
        times: Time of each row, finite [N].
        share: Share of the rows, above 0; approximated as well as the times allow.
        name: Name of the column of times, for the message.

    Returns:
        Mask of the held-out rows, [N].

    Raises:
        DataError: All rows have the same time, or too many the latest.
    """
    n = len(times)
    first = np.sort(times)[n - max(1, min(n - 1, round(share * n)))]
    found = [held for held in (times >= first, times > first) if held.any() and not held.all()]
    if not found:
        raise DataError(
            f"The last rows cannot be held out: {name!r} is the same in all of them. Expected two "
            "times or more."
        )
    held = min(found, key=lambda held: abs(held.mean() - share))
    if held.mean() > MAX_HELD_OUT:
        raise DataError(
            f"The last rows cannot be held out: {held.mean():.0%} of the rows are of the last of "
            f"{name!r}. Expected finer times."
        )
    return np.asarray(held)


def label_strata(
    columns: Sequence[NDArray[np.object_]], share: float
) -> NDArray[np.object_] | None:
    """Strata of the held-out rows: combinations of the classes of all label columns.

    The rows of a combination too rare for a held-out row are grouped by their first label.

    Args:
        columns: labels of each row, None where missing, [N] each.
        share: share of the rows that is held out.

    Returns:
        The stratum of each row, [N]; None without labels.
    """
    if len(columns) < 2:
        return columns[0] if columns else None
    rows = zip(*(column.tolist() for column in columns), strict=True)
    joint = np.array([repr(row) for row in rows], dtype=object)
    _, strata, sizes = np.unique(joint.astype(str), return_inverse=True, return_counts=True)
    rare = share * sizes[strata] < 1
    joint[rare] = [f"rare, {label!r}" for label in columns[0][rare].tolist()]
    return joint


def keep_every_class(
    held: NDArray[np.bool_], columns: Sequence[NDArray[np.object_]]
) -> NDArray[np.bool_]:
    """Return the mask of held-out rows, with a row of every class left in the fit, [N]."""
    held = held.copy()
    for labels in columns:
        for name in sorted({label for label in labels.tolist() if label is not None}):
            rows = np.flatnonzero(labels == name)
            if held[rows].all():
                held[rows[0]] = False
    return held


def _allocate(sizes: NDArray[np.intp], total: int, share: float) -> NDArray[np.intp]:
    """Rows per stratum by the largest-remainder method."""
    quotas = share * sizes
    counts: NDArray[np.intp] = np.minimum(np.floor(quotas + 1e-9).astype(np.intp), sizes - 1)
    order = np.argsort(-(quotas - counts), kind="stable")
    for stratum in order:
        if counts.sum() < total and counts[stratum] < sizes[stratum] - 1:
            counts[stratum] += 1
    return counts
