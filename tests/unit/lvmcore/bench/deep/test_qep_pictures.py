"""The rows of pictures: each is measured on the pictures' own test set, here a small one."""

import pytest
from sklearn.datasets import load_digits

from lvmcore.bench.deep import qep_pictures
from lvmcore.bench.harness.report import Options


@pytest.mark.slow(quick=["convolutional network"])
@pytest.mark.parametrize("name", list(qep_pictures.IMAGES))
def test_each_row_is_measured(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = load_digits()
    monkeypatch.setattr(
        qep_pictures, "load_paper_images", lambda key: (digits.images[:700], digits.target[:700])
    )
    monkeypatch.setattr(qep_pictures, "MNIST_ROWS", 600)
    monkeypatch.setattr(qep_pictures, "SEEDS", range(2))
    few = {**qep_pictures.PICTURES, "max_iter": 100, "n_hidden": 16}
    monkeypatch.setattr(qep_pictures, "PICTURES", few)
    position = list(qep_pictures.IMAGES).index(name)
    row = list(qep_pictures.rows(Options()))[position]()
    assert row.name.startswith(f"MNIST: {name}, accuracy on its 10 000 own rows held out")
    assert row.value > 0.8
    assert row.settings["network"] == "pictures"
    assert "paper .9" in row.reference
