"""Runs: what was fitted so far, beside one another."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from app import chosen, history, navigation, services, state, storage
from app.cards import ModelCard
from lvmcore.runs import Job

_MOST_OPEN = 12
_HEIGHT = 460


def page() -> None:
    """Draw the page."""
    st.title("Runs")
    jobs = services.store().list()
    if not jobs:
        _empty()
    else:
        cards = services.all_cards()
        busy = any(map(history.under_way, jobs))
        if busy:
            st.fragment(_table, run_every=chosen.EVERY_SECONDS)(cards, _stand(jobs))
        else:
            _table(cards, None)
        ticked = [job for job in jobs if job.id in state.chosen_runs()]
        if ticked:
            chosen.show(ticked, cards)
        else:
            st.caption(
                "Tick a run to open, rename, export or delete it; tick several to compare their "
                "bounds and settings."
            )
    storage.show(jobs)


def _stand(jobs: list[Job]) -> tuple[object, ...]:
    """What the rest of the page has to be drawn anew for: what has ended, what is ticked."""
    return tuple((job.id, job.status, job.stage == "finished") for job in jobs), state.chosen_runs()


def _table(cards: Mapping[str, ModelCard], drawn: tuple[object, ...] | None) -> None:
    """The table of runs; inside a fragment while something is under way.

    Args:
        cards: of the models, by key.
        drawn: how things stood when the page was drawn; None where they do not change.
    """
    jobs = services.store().list()
    if drawn is not None and drawn != _stand(jobs):
        st.rerun()
    ids = tuple(job.id for job in jobs)
    # Rows are ticked by their place: another list of runs is another table, ticked anew.
    key = state.widget("runs", "table", hash(ids))
    places = [place for place, run in enumerate(ids) if run in state.chosen_runs()]
    frame = history.listing(jobs, cards, _shares(jobs))
    st.dataframe(
        frame,
        hide_index=True,
        key=key,
        on_select=lambda: _tick(key, ids),
        selection_mode="multi-row",
        selection_default={"selection": {"rows": places}},
        placeholder="–",
        height="content" if len(jobs) <= _MOST_OPEN else _HEIGHT,
        column_config=_COLUMNS,
        alt="Runs",
    )


_COLUMNS = {
    "Name": st.column_config.TextColumn(width=150),
    "Settings": st.column_config.TextColumn(
        width=130, help="Where they differ from the model's defaults"
    ),
    history.PROGRESS: st.column_config.ProgressColumn(min_value=0.0, max_value=1.0, width=90),
    "Bound": st.column_config.NumberColumn(
        format="%.1f", help="ELBO, total nats: of numbers standardised, of counts as they are"
    ),
    "1-NN": st.column_config.NumberColumn(
        format="%.3f",
        help="1-NN accuracy on the map, of models that never see the labels",
    ),
    "Held-out accuracy": st.column_config.NumberColumn(
        format="%.3f", help="Of classes, on rows that the fit did not see"
    ),
    "R²": st.column_config.NumberColumn(
        format="%.3f", help="Of a predicted number, on rows that the fit did not see"
    ),
    "Trustworthiness": st.column_config.NumberColumn(
        format="%.3f", help="Of 5 neighbours; the Latent page has its protocol"
    ),
    "Seconds": st.column_config.NumberColumn(format="%.1f"),
    "When": st.column_config.DatetimeColumn(format="distance"),
}


def _shares(jobs: list[Job]) -> dict[str, float]:
    """How far the runs under way are, by id."""
    found = {}
    for job in jobs:
        if not job.finished:
            steps = services.progress(job.id).steps
            found[job.id] = steps[-1].iteration / max(1, steps[-1].total) if steps else 0.0
    return found


def _tick(key: str, ids: tuple[str, ...]) -> None:
    rows = state.value(key).selection.rows
    state.choose_runs(tuple(ids[row] for row in sorted(rows)))


def _empty() -> None:
    """No run yet: what will be here, and one way to get there."""
    st.markdown(
        "Every fit is kept here: its data, model and settings, the bound that it reached and "
        "figures about its map. Runs can be compared, named, taken away and deleted."
    )
    if st.button(
        "Fit the sample",
        type="primary",
        key=state.widget("runs", "sample"),
        help="Fits the recommended model to the bundled sample wine, and shows it forming.",
    ):
        state.open_run(services.fit_sample(), follow=True)
        navigation.go("fit")


if __name__ == "__main__":  # as the navigation runs it
    page()
