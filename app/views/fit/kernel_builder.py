"""A kernel built from components: each one's kernel, its columns, and draws from its prior."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from app.figures.prior_draws import prior_draws_figure
from app.formatting import markdown, shortened
from app.services.kernel_draws import kernel_draws
from app.state.session import session
from app.state.widgets import set_default_value
from lvmcore.data import Dataset
from lvmcore.errors import ConfigError
from lvmcore.kernels.catalogue import KERNEL_TYPES, KernelType, check_kernel, read_kernel
from lvmcore.kernels.expression import (
    KernelExpression,
    KernelProduct,
    KernelSum,
    KernelTerm,
    kernel_terms,
)

__all__ = ["KernelBuilder"]

#: Most components of a form; a typed kernel may have more.
MOST_COMPONENTS = 6
MOST_DIMENSIONS = 10
#: Dimensions of a map by random features where the fit chooses them.
USUAL_DIMENSIONS = 2
_START = "rbf"
_OF_DIMENSIONS = "lvmcore.kernels.catalogue:check_map_kernel"
_OF_SPECTRA = "lvmcore.kernels.catalogue:check_spectral_kernel"
_OF_FEATURES = "lvmcore.kernels.catalogue:check_feature_kernel"
_SIGNS = {"+": "+", "*": "×"}
_WIDTHS = [0.7, 2, 2.6, 1.8, 2]
_HEIGHT, _TOTAL_HEIGHT = 56, 190
_ABOUT = (
    "Each picture has four functions drawn from the prior, before any data: what the kernel "
    "expects. A fit adapts all that is not given. × comes before +."
)


@dataclass(frozen=True)
class KernelBuilder:
    """Fields from which a kernel expression is built.

    Attributes:
        dataset: of the columns; None for inputs of mean 0 and sd 1.
        columns: names of the columns or dimensions that a component may act on; none where they
            have no names.
        inputs: what they are called.
        kernels: names of the kernels that are offered.
    """

    dataset: Dataset | None
    columns: Sequence[str]
    inputs: str = "columns"
    kernels: tuple[str, ...] = tuple(KERNEL_TYPES)

    def of_syntax(self, syntax: str | None, n_dimensions: int | None) -> KernelBuilder:
        """The fields for a kernel of columns, of the dimensions of a map or of features.

        Args:
            syntax: as of ``Parameter``.
            n_dimensions: of the map; None where the fit chooses it.
        """
        if syntax in (_OF_DIMENSIONS, _OF_SPECTRA):
            spectra = syntax == _OF_SPECTRA
            usual = USUAL_DIMENSIONS if spectra else MOST_DIMENSIONS
            names = [f"z{q + 1}" for q in range(min(n_dimensions or usual, MOST_DIMENSIONS))]
            offered = tuple(
                name for name, one in KERNEL_TYPES.items() if one.closed_spectrum or not spectra
            )
            return KernelBuilder(None, names, "dimensions", offered)
        return KernelBuilder(None, (), "features") if syntax == _OF_FEATURES else self

    def expression(self, initial: str, key: Callable[[str], str]) -> str:
        """Draw the components with their pictures, and return the text of the expression.

        Args:
            initial: text of the initial expression; another than a sum of products of kernels
                is not taken over.
            key: gives the widget key of a field.
        """
        start = self._components(initial)
        products: list[list[KernelTerm]] = []
        with st.container(border=True, gap="xsmall", key=key("components")):
            for place in range(MOST_COMPONENTS):
                sign, term = start[place] if place < len(start) else ("+", None)
                found = self._component(place, sign, term, key)
                if found is None:
                    break
                if found[0] == "*":
                    products[-1].append(found[1])
                else:
                    products.append([found[1]])
            text = str(_sum_of_products(products))
            self._whole(text, key)
        return text

    def _components(self, text: str) -> list[tuple[str, KernelTerm]]:
        """The signs and kernels of an expression; an RBF kernel for one that has brackets."""
        try:
            expression = read_kernel(text)
            check_kernel(text, self.columns if self.columns else None)
        except ConfigError:
            return [("+", KernelTerm(_START))]
        if any(term.name not in self.kernels for term in kernel_terms(expression)):
            return [("+", KernelTerm(_START))]
        found = []
        for summand in expression.parts if isinstance(expression, KernelSum) else (expression,):
            factors = summand.parts if isinstance(summand, KernelProduct) else (summand,)
            for place, factor in enumerate(factors):
                if not isinstance(factor, KernelTerm):
                    return [("+", KernelTerm(_START))]
                found.append(("*" if place else "+", factor))
        return found[:MOST_COMPONENTS]

    def _component(
        self, place: int, sign: str, term: KernelTerm | None, key: Callable[[str], str]
    ) -> tuple[str, KernelTerm] | None:
        """A line of fields; None where no kernel is chosen."""
        at = st.columns(_WIDTHS, vertical_alignment="center")
        number = f"component {place + 1}"
        kernels = list(self.kernels)
        set_default_value(key(f"kernel {place}"), None if term is None else term.name)
        with at[1]:
            name = st.selectbox(
                f"Kernel of {number}",
                kernels,
                index=None if term is None else 0,
                format_func=lambda one: KERNEL_TYPES[one].title,
                placeholder="add a component",
                help="The kernel of the component; the picture has functions that it describes.",
                key=key(f"kernel {place}"),
                label_visibility="collapsed",
                persist_state="session",
            )
        if name is None:
            if place == 0:
                st.caption(f"Choose a kernel; without one the fit has {_START}.")
            return None
        if place:
            set_default_value(key(f"sign {place}"), sign)
            with at[0]:
                sign = st.selectbox(
                    f"Sign of {number}",
                    list(_SIGNS),
                    format_func=_SIGNS.__getitem__,
                    key=key(f"sign {place}"),
                    help="Whether the component is added to those before it, or multiplies the "
                    "last of them.",
                    label_visibility="collapsed",
                    persist_state="session",
                )
        same = term if term is not None and term.name == name else None
        kernel = KERNEL_TYPES[name]
        with at[2]:
            columns = self._columns(kernel, same, number, key(f"{name} {place}"))
        with at[3]:
            options = _options(kernel, same, number, key(f"{name} {place}"))
        built = KernelTerm(name, columns, options)
        with at[4]:
            self._picture(str(built), columns, key(f"picture {place}"), kernel.summary)
        return ("+" if place == 0 else sign), built

    def _columns(
        self, kernel: KernelType, term: KernelTerm | None, number: str, key: str
    ) -> tuple[str, ...]:
        """The columns that a component acts on; none for all."""
        if not self.columns:
            st.caption(f"all {self.inputs}")
            return ()
        must = kernel.most_columns is not None and len(self.columns) > kernel.most_columns
        initial = list(term.columns) if term is not None else list(self.columns[:1]) * must
        set_default_value(f"{key} columns", initial)
        chosen: list[str] = st.multiselect(
            f"Columns of {number}",
            self.columns,
            format_func=lambda name: shortened(name, 40),
            max_selections=kernel.most_columns,
            placeholder=f"choose {self.inputs}" if must else f"all {self.inputs}",
            key=f"{key} columns",
            help="The columns or dimensions that the component acts on; empty for all.",
            label_visibility="collapsed",
            persist_state="session",
        )
        return tuple(chosen)

    def _picture(
        self, text: str, columns: Sequence[str], key: str, summary: str, total: bool = False
    ) -> None:
        """Draws of a kernel along its first column."""
        along = columns[0] if columns else self.columns[0] if self.columns else "feature"
        try:
            x, draws = kernel_draws(self.dataset, text, along)
        except ConfigError as error:
            st.caption(markdown(error))
            return
        figure = prior_draws_figure(
            x,
            draws,
            (along if self.dataset is not None else f"{along}, sd") if total else None,
            dark=session.is_dark,
            height=_TOTAL_HEIGHT if total else _HEIGHT,
        )
        st.plotly_chart(
            figure,
            theme=None,
            key=key,
            config={"staticPlot": True},
            alt=f"Functions drawn from the prior of {text}: {summary}",
        )

    def _whole(self, text: str, key: Callable[[str], str]) -> None:
        """The expression, its draws, and what is wrong with it."""
        st.markdown(f"The kernel: `{text}`")
        try:
            check_kernel(text, self.columns if self.columns else None)
        except ConfigError as error:
            st.error(markdown(error))
            return
        expression = read_kernel(text)
        if not isinstance(expression, KernelTerm):
            named = [name for name in self.columns if name in _named(expression)]
            self._picture(text, named, key("picture"), "the whole kernel", total=True)
        st.caption(_ABOUT)


def _named(expression: KernelExpression) -> set[str]:
    """Names of the columns in an expression."""
    if isinstance(expression, KernelTerm):
        return set(expression.columns)
    return {name for part in expression.parts for name in _named(part)}


def _options(
    kernel: KernelType, term: KernelTerm | None, number: str, key: str
) -> tuple[tuple[str, float], ...]:
    """The options of a component that are given; others are fitted or usual."""
    given = dict(term.options) if term is not None else {}
    found = []
    for name, option in kernel.options.items():
        value = given.get(name)
        cast = int if option.whole else float
        set_default_value(f"{key} {name}", None if value is None else cast(value))
        entered: float | None = st.number_input(
            f"{name.capitalize()} of {number}",
            cast(option.low),
            cast(option.high),
            None,
            placeholder=name,
            help=f"{option.summary[:1].upper()}{option.summary[1:]}.",
            format="%d" if option.whole else "%g",
            key=f"{key} {name}",
            label_visibility="collapsed",
            persist_state="session",
        )
        if entered is not None:
            found.append((name, float(entered)))
    return tuple(found)


def _sum_of_products(products: Sequence[Sequence[KernelTerm]]) -> KernelExpression:
    """The expression of a form; an RBF kernel for an empty one."""
    if not products:
        return KernelTerm(_START)
    parts = [one[0] if len(one) == 1 else KernelProduct(tuple(one)) for one in products]
    return parts[0] if len(parts) == 1 else KernelSum(tuple(parts))
