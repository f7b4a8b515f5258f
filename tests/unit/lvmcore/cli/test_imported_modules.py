"""What a command imports: nothing heavy where it fits no model, and no compiler where it does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
HEAVY = {"torch", "sklearn", "scipy", "pandas", "pyarrow", "gpytorch"}

MODELS = """
import lvmcore
from lvmcore import DataError, cli
assert cli.main(["models"]) == 0
assert cli.main(["models", "--model", "ldgd"]) == 0
"""
FIT = """
from lvmcore import cli
assert cli.main(["fit", "sample:iris", "--set", "max_iter=2", "--out", sys.argv[1]]) == 0
"""


PROCESS = """
import os
for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY"):
    os.environ.pop(name, None)
from lvmcore import cli
from lvmcore.jobs.machine_limits import threads_of_a_fit
sys.argv = ["lvmcore", "models"]
assert cli.main() == 0
assert os.environ["OMP_NUM_THREADS"] == str(threads_of_a_fit())
assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
"""


def modules_of(code: str, *arguments: str) -> set[str]:
    """The modules that a fresh interpreter has imported after running some code."""
    shown = "\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import json, sys\n{code}{shown}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_list_of_models_imports_no_model() -> None:
    found = modules_of(MODELS)
    assert "lvmcore.models" in found
    assert not found & HEAVY
    assert not [name for name in found if name.startswith("lvmcore.models.latent.")]


def test_the_command_has_the_threads_of_a_fit_of_the_dashboard() -> None:
    """The limit takes effect only before OpenMP is loaded, with torch or scikit-learn."""
    assert not modules_of(PROCESS) & HEAVY


@pytest.fixture(scope="module")
def modules_of_a_fit(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return modules_of(FIT, str(tmp_path_factory.mktemp("fit") / "run"))


def test_a_fit_imports_no_compiler(modules_of_a_fit: set[str]) -> None:
    """torch.optim imports them with its first step."""
    assert "torch" in modules_of_a_fit
    assert not modules_of_a_fit & {"torch._dynamo", "torch._inductor", "sympy", "gpytorch"}


def test_a_fit_imports_the_module_of_its_model_alone(modules_of_a_fit: set[str]) -> None:
    packages = "lvmcore.models.latent.", "lvmcore.models.supervised."
    found = {name for name in modules_of_a_fit if name.startswith(packages)}
    assert found == {"lvmcore.models.latent.ldgd"}
