"""The papers: what each claims, its models, and the figures of its tables. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

__all__ = [
    "Drawing",
    "FigureFit",
    "FitRecipe",
    "Paper",
    "PaperFigure",
    "PaperRow",
    "PaperTable",
    "papers",
]


#: What a figure draws of its fits: their maps; a number over its one column; classes over two
#: columns; scores of held-out rows; scores over the number of rows; pictures with hidden pixels;
#: kernel matrices beside that of a simulated sample; or the bound over the steps.
Drawing = Literal[
    "maps", "curves", "planes", "scores", "learning curves", "pictures", "kernels", "bounds"
]


@dataclass(frozen=True)
class FitRecipe:
    """The fit behind a figure.

    Attributes:
        data: key of a sample, or name of a dataset of the papers.
        settings: settings of the model; the others are those suggested for the table.
        target: the column to predict; "" for a map, whose label is the last column.
        hold_out: share of the rows that the dataset holds out; 0 for what a fit holds out itself.
        hidden: share of the cells that are hidden before the fit, at random.
        rows: number of rows drawn at random; 0 for all.
        sizes: numbers of rows of a learning curve; empty for one fit.
        repeats: fits of a learning curve for each.
    """

    data: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    target: str = ""
    hold_out: float = 0.0
    hidden: float = 0.0
    rows: int = 0
    sizes: tuple[int, ...] = ()
    repeats: int = 0

    @property
    def fits(self) -> int:
        """Number of fits: one, or those of a learning curve."""
        return len(self.sizes) * self.repeats if self.sizes else 1


@dataclass(frozen=True)
class PaperRow:
    """A figure of a paper.

    Attributes:
        model: key of the model.
        data: the dataset, as the page names it.
        paper: the paper's figure.
        paper_sd: its sd over fits or folds; None where the paper states none.
        measured: name of the stored measurement beside it.
        fit: the fit that "Fit this" starts; None where the page cannot start it.
        remark: what the two figures do not share, or what was tried; "" for nothing.
    """

    model: str
    data: str
    paper: float
    measured: str
    fit: FitRecipe | None = None
    remark: str = ""
    paper_sd: float | None = None


@dataclass(frozen=True)
class FigureFit:
    """A fit that a figure is drawn from.

    Attributes:
        model: key of the model.
        title: what distinguishes it from the figure's other fits.
        fit: its data and settings.
        group: title of the fits that differ from it only in their seed, and of it; "" for none.
    """

    model: str
    title: str
    fit: FitRecipe
    group: str = ""


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper that is drawn here from fits.

    Attributes:
        title: its number and what it shows.
        shows: what to look at, and what the paper's figure has that ours has not.
        page: the page on which a fit of it opens.
        fits: the fits, in the order of the figure; all have a map, or all predict a target.
        drawing: what is drawn of them.
        score: key of the score that is drawn, of a drawing of scores.
    """

    title: str
    shows: str
    page: Literal["latent", "generate", "fit", "predict", "impute"]
    fits: tuple[FigureFit, ...]
    drawing: Drawing = "maps"
    score: str = ""


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper.

    Attributes:
        title: its title, with what is measured.
        measure: short name of what is measured.
        higher: whether higher is better.
        benchmark: name of the benchmark in ``lvmcore bench``.
        paper_protocol: how the paper measured.
        protocol: how it was measured here.
        rows: its figures.
    """

    title: str
    measure: str
    higher: bool
    benchmark: str
    paper_protocol: str
    protocol: str
    rows: tuple[PaperRow, ...]


@dataclass(frozen=True)
class Paper:
    """A paper.

    Attributes:
        key: short name in addresses.
        title: short name on the page.
        name: its title.
        authors: its authors and year.
        claim: what it claims, in our words.
        models: keys of its models and of those that it compares with.
        tables: its tables.
        figures: its figures that are drawn here.
    """

    key: str
    title: str
    name: str
    authors: str
    claim: str
    models: tuple[str, ...]
    tables: tuple[PaperTable, ...]
    figures: tuple[PaperFigure, ...] = ()


@cache
def papers() -> tuple[Paper, ...]:
    """The papers, in the order of the page."""
    text = files("app").joinpath("analysis/papers/papers.toml").read_text(encoding="utf-8")
    return tuple(
        Paper(
            **{
                **entry,
                "models": tuple(entry["models"]),
                "tables": tuple(_table(table) for table in entry["tables"]),
                "figures": tuple(_figure(figure) for figure in entry.get("figures", ())),
            }
        )
        for entry in tomllib.loads(text)["papers"]
    )


def _table(entry: Mapping[str, Any]) -> PaperTable:
    return PaperTable(**{**entry, "rows": tuple(_row(row) for row in entry["rows"])})


def _row(entry: Mapping[str, Any]) -> PaperRow:
    fit = entry.get("fit")
    return PaperRow(**{**entry, "fit": None if fit is None else _recipe(fit)})


def _recipe(entry: Mapping[str, Any]) -> FitRecipe:
    return FitRecipe(**{**entry, "sizes": tuple(entry.get("sizes", ()))})


def _figure(entry: Mapping[str, Any]) -> PaperFigure:
    fits = tuple(fit for one in entry["fits"] for fit in _fits(one))
    return PaperFigure(**{**entry, "fits": fits})


def _fits(entry: Mapping[str, Any]) -> Iterator[FigureFit]:
    """The fit of an entry; of one with ``seeds``, a fit with each seed from 0."""
    seeds = entry.get("seeds", 0)
    if not seeds:
        yield FigureFit(**{**entry, "fit": _recipe(entry["fit"])})
        return
    for seed in range(seeds):
        recipe = _recipe(entry["fit"])
        settings = {**recipe.settings, "random_state": seed}
        title = f"{entry['title']}, seed {seed}"
        own = replace(recipe, settings=settings)
        yield FigureFit(entry["model"], title, own, group=entry["title"])
