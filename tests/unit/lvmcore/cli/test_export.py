"""``lvmcore export``: a run as plain gpytorch."""

import zipfile
from pathlib import Path

import pytest

from lvmcore import cli


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "run"
    options = ["--target", "alcohol", "--model", "gp_regressor", "--features", "ash,hue"]
    settings = ["--set", "kernel=rbf", "--set", "max_iter=2", "--out", str(path)]
    assert cli.main(["fit", "sample:wine", *options, *settings]) == 0
    capsys.readouterr()
    return path


def test_a_run_is_written_as_a_folder_or_a_zip_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, archive = tmp_path / "out", tmp_path / "out.zip"
    assert cli.main(["export", str(folder), "--gpytorch", "--out", str(out)]) == 0
    assert "exported to gpytorch" in capsys.readouterr().out
    assert cli.main(["export", str(folder), "--gpytorch", "--out", str(archive)]) == 0
    with zipfile.ZipFile(archive) as content:
        assert sorted(content.namelist()) == sorted(path.name for path in out.iterdir())
        assert content.read("model.py") == (out / "model.py").read_bytes()
    readme = (out / "README.md").read_text(encoding="utf-8")
    assert "`ash`, `hue`" in readme
    assert "`alcohol`" in readme
    pinned = (out / "requirements.txt").read_text(encoding="utf-8").split()
    assert all("==" in line for line in pinned)


def test_a_run_that_cannot_be_exported_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    fit = ["fit", "sample:wine", "--model", "pca", "--no-label", "--out", str(path)]
    assert cli.main(fit) == 0
    assert cli.main(["export", str(path), "--gpytorch", "--out", str(tmp_path / "out")]) == 2
    assert "cannot be exported to gpytorch" in capsys.readouterr().err
    assert cli.main(["export", str(path), "--out", str(tmp_path / "out")]) == 2
    assert "--gpytorch" in capsys.readouterr().err
    assert cli.main(["export", "0000", "--gpytorch", "--out", str(tmp_path / "out")]) == 2
    assert "There is no run '0000'" in capsys.readouterr().err
