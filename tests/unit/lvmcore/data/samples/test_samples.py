"""The samples that ship."""

import subprocess
import sys

import numpy as np
import pytest

from lvmcore.data import load_sample, propose_label, samples
from lvmcore.errors import ConfigError


@pytest.mark.parametrize("key", list(samples()))
def test_sample_is_as_announced(key: str) -> None:
    sample = samples()[key]
    table = load_sample(key)
    assert table.name == key
    assert table.frame.shape == (sample.rows, sample.columns)
    label = propose_label(table)
    assert (label is None) == (sample.classes == 0)
    dataset = table.dataset(label=label)
    assert dataset.X.shape == (sample.rows, sample.columns - (label is not None))
    assert len(dataset.classes) == sample.classes
    assert not np.isnan(dataset.X).any()


def test_digits_are_images() -> None:
    dataset = load_sample("digits").dataset(label="digit")
    assert dataset.image_shape == (8, 8)


@pytest.mark.parametrize("dimensions", [10, 30, 40])
def test_moons_are_as_the_paper_describes(dimensions: int) -> None:
    dataset = load_sample(f"moons{dimensions}").dataset(label="label")
    assert dataset.labels is not None
    assert [int(np.sum(dataset.labels == name)) for name in dataset.classes] == [250, 250]
    signal, noise = np.split(dataset.X, 2, axis=1)
    # The signal is a linear image of the plane: two directions carry everything.
    strength = np.linalg.svd(signal - signal.mean(axis=0), compute_uv=False)
    assert strength[1] > 1.0
    assert np.all(strength[2:] < 1e-6)
    spread = noise.std(axis=0)
    assert np.all((spread > 0.85) & (spread < 1.15))


def test_seed() -> None:
    first, again = load_sample("moons10"), load_sample("moons10", random_state=0)
    other = load_sample("moons10", random_state=1)
    assert first.digest == again.digest != other.digest
    assert load_sample("s_curve", random_state=3).digest != load_sample("s_curve").digest


def test_unknown_sample_and_needless_seed() -> None:
    with pytest.raises(ConfigError, match="Expected one of iris"):
        load_sample("penguins")
    with pytest.raises(ConfigError, match="takes no random_state"):
        load_sample("iris", random_state=1)


def test_importing_the_package_is_light() -> None:
    code = (
        "import sys, lvmcore.data\n"
        "heavy = {'torch', 'streamlit', 'sklearn', 'clevercsv'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
