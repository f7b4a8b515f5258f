"""Which labelled rows a step draws the positions of: the same ones wherever the rows are."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["LABELLED_ROWS_PER_STEP", "drawn_rows", "standard_noise"]

# Maximum number of labelled rows in a sample; of more, each sample uses a random subset.
LABELLED_ROWS_PER_STEP = 20_000


def drawn_rows(
    labelled: Tensor, draws: int, samples: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, int, float]]:
    """The rows of each average over labelled rows in a step.

    Args:
        labelled: numbers of the labelled rows, [n].
        draws: number of samples of q(X).
        samples: samples of each row's position per draw.
        generator: of random subsets; the caller draws the samples from it in turn.

    Yields:
        Rows, the number of their samples, and the factor by which a sum over these rows estimates
        that over all labelled rows without bias.
    """
    n = len(labelled)
    if n <= LABELLED_ROWS_PER_STEP:
        yield labelled, draws * samples, 1.0
        return
    for _ in range(draws):
        subset = torch.randperm(n, generator=generator)[:LABELLED_ROWS_PER_STEP]
        yield labelled[subset.to(labelled.device)], samples, n / LABELLED_ROWS_PER_STEP


def standard_noise(samples: int, n: int, Q: int, generator: torch.Generator) -> Tensor:
    """Standard normal numbers of n rows, float64, [samples, n, Q]."""
    return torch.randn((samples, n, Q), generator=generator, dtype=torch.float64)
