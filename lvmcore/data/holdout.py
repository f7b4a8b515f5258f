"""Which rows are kept out of a fit, to measure it with."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lvmcore.errors import DataError

__all__ = [
    "MOST_HELD_OUT",
    "hold_out_groups",
    "hold_out_last",
    "hold_out_rows",
    "strata_of",
    "with_a_row_of_each",
]

#: The largest share of rows that can be held out.
MOST_HELD_OUT = 0.5


def hold_out_rows(
    n: int, labels: NDArray[np.object_] | None, share: float, seed: int
) -> NDArray[np.bool_]:
    """Draw rows to hold out, each class (and the rows without a label) by the same share.

    Every class keeps at least one row in the fit, so the share can come out lower where there are
    many small classes.

    Args:
        n: Number of rows.
        labels: Class of each row, None where it is missing [N]; None without labels.
        share: Of the rows, 0 to 0.5.
        seed: Of the draw.

    Returns:
        Which rows are held out, [N].

    Raises:
        DataError: The share is not in that range, or no row can be held out.
    """
    if not 0.0 <= share <= MOST_HELD_OUT:
        raise DataError(
            f"hold_out={share!r} cannot be used: expected a share of the rows between 0 and "
            f"{MOST_HELD_OUT:g}, such as 0.2."
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
    """Draw whole groups of rows to hold out, until they hold the share of the rows.

    A group that would take them beyond ``MOST_HELD_OUT`` of the rows stays in the fit.

    Args:
        groups: Group of each row as text [N]; the rows without one (None) are a group too.
        share: Of the rows, above 0.
        seed: Of the draw.
        name: Of the column of groups, for the message.

    Returns:
        Which rows are held out, [N].

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
        if count + sizes[group] <= MOST_HELD_OUT * len(groups):
            drawn.append(group)
            count += int(sizes[group])
    if not drawn:
        raise DataError(
            f"No group can be held out: each group of {name!r} has more than {MOST_HELD_OUT:.0%} "
            "of the rows. Expected smaller groups."
        )
    return np.asarray(np.isin(codes, drawn))


def hold_out_last(times: NDArray[np.float64], share: float, *, name: str) -> NDArray[np.bool_]:
    """The last rows, rows of one time together, so that none of the fit is later than they are.

    Args:
        times: When each row is from, finite [N].
        share: Of the rows, above 0: as near to it as the times allow.
        name: Of the column of times, for the message.

    Returns:
        Which rows are held out, [N].

    Raises:
        DataError: All are from one time, or too many from the last.
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
    if held.mean() > MOST_HELD_OUT:
        raise DataError(
            f"The last rows cannot be held out: {held.mean():.0%} of the rows are of the last of "
            f"{name!r}. Expected finer times."
        )
    return np.asarray(held)


def strata_of(columns: Sequence[NDArray[np.object_]], share: float) -> NDArray[np.object_] | None:
    """What to draw by the same share where there are label columns: the combinations of classes.

    The rows of a combination that is too rare to hold one out go by their first label.

    Args:
        columns: labels of each row, None where missing, [N] each.
        share: of the rows that is held out.

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


def with_a_row_of_each(
    held: NDArray[np.bool_], columns: Sequence[NDArray[np.object_]]
) -> NDArray[np.bool_]:
    """The rows held out, less one of each class that would have none left in the fit, [N]."""
    held = held.copy()
    for labels in columns:
        for name in sorted({label for label in labels.tolist() if label is not None}):
            rows = np.flatnonzero(labels == name)
            if held[rows].all():
                held[rows[0]] = False
    return held


def _allocate(sizes: NDArray[np.intp], total: int, share: float) -> NDArray[np.intp]:
    """How many rows of each stratum: its share rounded down, the rest to the largest remainders."""
    quotas = share * sizes
    counts: NDArray[np.intp] = np.minimum(np.floor(quotas + 1e-9).astype(np.intp), sizes - 1)
    order = np.argsort(-(quotas - counts), kind="stable")
    for stratum in order:
        if counts.sum() < total and counts[stratum] < sizes[stratum] - 1:
            counts[stratum] += 1
    return counts
