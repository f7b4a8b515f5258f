"""Blocks become smaller, and results stay the same."""

import numpy as np

from lvmcore import BayesianGPLVM
from lvmcore.numerics.block_sizes import block_cells, smaller_blocks
from lvmcore.numerics.row_blocks import BLOCK_ROWS, row_blocks


def test_blocks_are_a_quarter_within_the_context() -> None:
    assert block_cells(1000) == 1000
    with smaller_blocks():
        assert block_cells(1000) == 250
        assert block_cells(2) == 1
        sizes = [len(block) for block in row_blocks(np.zeros((BLOCK_ROWS + 1, 1)))]
    assert sizes == [BLOCK_ROWS // 4] * 4 + [1]
    assert block_cells(1000) == 1000


def test_a_fit_in_smaller_blocks_has_the_same_bound(rng: np.random.Generator) -> None:
    X = rng.standard_normal((900, 3))
    model = BayesianGPLVM(n_components=2, n_inducing=40, max_iter=5, start="pca")
    usual = model.fit(X).elbo_
    with smaller_blocks():
        smaller = model.fit(X).elbo_
    assert abs(usual - smaller) < 1e-8 * abs(usual)
