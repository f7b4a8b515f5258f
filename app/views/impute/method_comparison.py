"""The comparison of an imputation with column means, nearest neighbours and a forest."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd
import streamlit as st

from app.formatting import count, markdown, number, shortened
from app.state.widgets import widget_key
from lvmcore.evaluation.imputation_scores import (
    BASELINES,
    MODEL,
    ColumnComparison,
    ImputationComparison,
)
from lvmcore.runs import Job

__all__ = ["comparison_headline", "comparison_table"]

_METHODS = {MODEL: "model", "means": "means", "neighbours": "neighbours", "forest": "forest"}
#: Most columns named with their reasons in the warning; the table has all.
_MOST_NAMED = 6
_USE, _DO_NOT = "yes", "no"


def comparison_headline(comparison: ImputationComparison) -> None:
    """Draw how much better or worse the model is, and the columns not to use it for."""
    for total in comparison.total:
        st.markdown(_headline(total))
    poor = [column for column in comparison.columns if column.better]
    if not poor:
        return
    reasons = [
        f"**{markdown(shortened(column.column, 40))}** ({_reason(column)})"
        for column in poor[:_MOST_NAMED]
    ]
    left = len(poor) - len(reasons)
    more = f" and {count(left, 'further column')}, listed below" if left else ""
    st.warning(f"Do not use for {', '.join(reasons)}{more}.")


def comparison_table(job: Job, comparison: ImputationComparison) -> None:
    """Draw the errors and log densities of all methods by column."""
    columns = comparison.columns
    # The names of grouped columns cannot be keys of a column's settings: numbers align themselves.
    data: dict[tuple[str, str], list[object]] = {
        ("", "column"): [shortened(one.column, 40) for one in columns],
        ("", "use it"): [_DO_NOT if one.better else _USE for one in columns],
        ("", "hidden"): [one.cells for one in columns],
    }
    for title, part in (("error", "errors"), ("log density", "log_densities")):
        for key, method in _METHODS.items():
            data[title, method] = [
                math.nan if value is None else value
                for value in (getattr(one, part).get(key) for one in columns)
            ]
    frame = pd.DataFrame(data)
    st.dataframe(
        frame.style.format(_cell, subset=frame.columns[3:]),
        hide_index=True,
        height=min(290, 75 + 35 * len(columns)),
        key=widget_key("impute", job.id, "comparison"),
        alt="Errors and log densities of hidden cells by column and method",
    )
    st.caption(
        "Error: root mean square in sd of the column, low is good; for a category or a column of 0 "
        "and 1 the share of wrong cells. Log density: mean over the hidden cells, nats, high is "
        "good; for a category the log probability of the true level. Do not use it: a baseline is "
        "better by more than two standard errors, or column means are not worse in either. "
        f"{markdown(comparison.protocol)}"
    )


def _reason(column: ColumnComparison) -> str:
    """The best baseline against the model, by the error or else by the log density."""
    errors, densities = _known(column.errors), _known(column.log_densities)
    own, density = column.errors[MODEL], column.log_densities[MODEL]
    best = min(errors, key=errors.__getitem__)
    if own is None or errors[best] < own:
        return f"error {_figure(own)} against {number(errors[best], 3)} of {BASELINES[best]}"
    best = max(densities, key=densities.__getitem__)
    return (
        f"log density {_figure(density)} against {number(densities[best], 3)} of {BASELINES[best]}"
    )


def _headline(total: ColumnComparison) -> str:
    """The model against each baseline, over all columns of numbers or of levels."""
    own, known = total.errors[MODEL], _known(total.errors)
    density, densities = total.log_densities[MODEL], _known(total.log_densities)
    if own is None or density is None:
        return ""
    parts = [_difference(own, value, BASELINES[key]) for key, value in known.items()]
    others = [f"{number(value, 3)} of {BASELINES[key]}" for key, value in densities.items()]
    figure = f"**{number(own, 3)} sd**" if total.kind == "numbers" else f"**{_percent(own)}** wrong"
    subject = "Numbers" if total.kind == "numbers" else "Categories"
    hidden = count(total.cells, "hidden cell")
    text = (
        f"{subject}, {hidden}: error {figure}, {_joined(parts)}. "
        f"Log density **{number(density, 3)}** nats a cell, against {_joined(others)}."
    )
    if len(known) < len(BASELINES):
        missing = [BASELINES[key] for key in BASELINES if key not in known]
        text += f" Not measured for every column: {_joined(missing)}."
    return text


def _difference(own: float, other: float, name: str) -> str:
    if other <= 0:
        return f"{'equal to' if own <= 0 else 'worse than'} {name} ({number(other, 3)})"
    share = own / other - 1
    if abs(share) < 0.005:
        return f"equal to {name} ({number(other, 3)})"
    side = "below" if share < 0 else "**above**"
    return f"{_percent(abs(share))} {side} {name} ({number(other, 3)})"


def _known(values: Mapping[str, float | None]) -> dict[str, float]:
    """The values of the baselines that have one."""
    found = ((key, values.get(key)) for key in BASELINES)
    return {key: value for key, value in found if value is not None}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _cell(value: object) -> str:
    return number(value, 3) if isinstance(value, float) else str(value)


def _figure(value: float | None) -> str:
    return number(value, 3)


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
