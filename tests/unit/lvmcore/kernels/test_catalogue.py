"""The kernels of expressions: every one has a component, and wrong values and columns are named."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lvmcore.errors import ConfigError
from lvmcore.kernels.catalogue import KERNEL_TYPES, check_kernel, read_kernel
from lvmcore.kernels.components import NATIVE_COMPONENTS
from lvmcore.kernels.gpytorch_components import GPYTORCH_COMPONENTS


def test_every_kernel_has_one_component() -> None:
    assert set(NATIVE_COMPONENTS) | set(GPYTORCH_COMPONENTS) == set(KERNEL_TYPES)
    assert not set(NATIVE_COMPONENTS) & set(GPYTORCH_COMPONENTS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("periodic(x, period=0)", "period=0 of the kernel periodic cannot be used"),
        ("polynomial(degree=2.5)", "expected a whole number from 2 to 6"),
        ("polynomial(degree=9)", "degree=9 of the kernel polynomial"),
    ],
)
def test_an_option_has_its_range(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_kernel(text)


def test_columns_are_checked_where_they_are_known() -> None:
    check_kernel("rbf(height)")
    check_kernel("rbf(height) + linear", ["height", "weight"])
    with pytest.raises(ConfigError, match=r"'hight'.*did you mean 'height'"):
        check_kernel("rbf(hight)", ["height", "weight"])
    with pytest.raises(ConfigError, match=r"'z', which is none of the columns of the fit\."):
        check_kernel("rbf(z)", ["height", "weight"])
    # cos(‖x − x'‖) is no kernel in two dimensions.
    with pytest.raises(ConfigError, match=r"acts on one column: name it, as in cosine\(height\)"):
        check_kernel("cosine", ["height", "weight"])
    check_kernel("cosine", ["height"])
    with pytest.raises(ConfigError, match="at most 3 columns: name them, as in spec"):
        check_kernel("spectral_mixture", ["a", "b", "c", "d"])
    check_kernel("spectral_mixture(a, d, n=2)", ["a", "b", "c", "d"])


def test_the_catalogue_needs_neither_torch_nor_gpytorch() -> None:
    source = (
        "import sys; import lvmcore.kernels.catalogue; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'gpytorch')))"
    )
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == 0


def test_gpytorch_is_imported_where_a_kernel_of_it_is_made() -> None:
    source = (
        "import sys; from lvmcore.kernels.composite import CompositeKernel; "
        "sys.exit('gpytorch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", source], check=False).returncode == 0
