"""The import arrows of the design, and other promises that the source as a whole keeps."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BRICKS = frozenset(
    {
        "allocator",
        "bilinear",
        "blocks",
        "cells",
        "counts",
        "decoding",
        "deep_kernel",
        "deep_layers",
        "deep_layout",
        "deep_likelihoods",
        "deep_map",
        "deep_outputs",
        "deep_paths",
        "deep_predictions",
        "deep_sampled",
        "deep_sigma_points",
        "deep_starts",
        "deep_subset",
        "deep_variational",
        "dirichlet",
        "draws",
        "feature_sums",
        "features",
        "geometry",
        "kernels",
        "labels",
        "layers",
        "likelihoods",
        "logistic",
        "poisson",
        "masked",
        "networks",
        "image_network",
        "optim",
        "principal",
        "psi",
        "qep_bound",
        "qexponential",
        "qexponential_blocks",
        "relevance",
        "rows",
        "sampling_chain",
        "sampling_diagnostics",
        "sampling_draws",
        "sampling_gradients",
        "sampling_positions",
        "sampling_spectral",
        "sampling_weights",
        "spectral",
        "standardise",
        "stochastic",
        "stochastic_columns",
        "stochastic_masked",
        "streamed",
        "subsets",
        "variational",
        "weighted",
    }
)
LOOPS = frozenset(
    {
        "checkpoint",
        "disagreement",
        "decoding_counts",
        "decoding_numbers",
        "feature_decoding",
        "inference",
        "quadratic",
        "intervals",
        "metrics",
        "persistence",
        "sampling_run",
        "training",
    }
)
# Where each module of lvmcore stands; a package stands as one.
LAYER = dict.fromkeys(BRICKS, "bricks") | dict.fromkeys(LOOPS, "loops")
LAYER |= dict.fromkeys(("feature_batches", "feature_columns", "feature_counts"), "feature_fit")
LAYER |= {
    "qep_fit": "unlabelled",
    "deep_fit": "batchfit",
    "targets": "bricks",
    "deep_predictor": "predictor",
}
LAYER |= dict.fromkeys(
    (
        "deep_chain",
        "deep_induced",
        "deep_parameters",
        "deep_sigma_fit",
        "deep_single",
        "prediction_tasks",
    ),
    "predictor",
)
LAYER |= {
    name: name
    for name in (
        "autoencoder",
        "base",
        "batchfit",
        "bench",
        "checks",
        "cli",
        "data",
        "errors",
        "estimator",
        "feature_fit",
        "gplvm",
        "labelled",
        "linalg",
        "models",
        "parameters",
        "predictor",
        "restarts",
        "results",
        "runs",
        "starts",
        "unlabelled",
    )
}
_BELOW_BASE = frozenset({"errors", "linalg", "results", "bricks", "loops"})
_BELOW_MODELS = _BELOW_BASE | {"parameters", "checks", "base", "starts", "gplvm", "labelled"}
_MODELS = _BELOW_MODELS | {"restarts", "batchfit", "feature_fit", "autoencoder", "predictor"}
_MODELS |= {"estimator", "unlabelled"}
_ENGINE = _MODELS | {"models", "data"}
# What each layer may import, itself included where its modules may import one another.
MAY_IMPORT = {
    "errors": frozenset(),
    "linalg": frozenset({"errors"}),
    "results": frozenset({"errors"}),
    "parameters": frozenset({"errors"}),
    "bricks": frozenset({"errors", "linalg", "results", "bricks"}),
    "loops": _BELOW_BASE,
    "checks": frozenset({"errors", "results", "bricks", "parameters"}),
    "estimator": _BELOW_BASE | {"parameters", "checks"},
    "base": _BELOW_BASE | {"parameters", "checks", "estimator"},
    "starts": _BELOW_BASE | {"parameters", "checks", "base"},
    "gplvm": _BELOW_BASE | {"parameters", "checks", "base"},
    "labelled": _BELOW_BASE | {"parameters", "checks", "base", "gplvm"},
    "restarts": _BELOW_BASE | {"parameters", "checks", "base", "starts", "gplvm"},
    "unlabelled": _BELOW_MODELS | {"restarts", "unlabelled"},
    "batchfit": _BELOW_MODELS,
    "feature_fit": _BELOW_MODELS | {"feature_fit"},
    "autoencoder": _BELOW_MODELS,
    "predictor": _BELOW_BASE | {"parameters", "checks", "estimator", "batchfit", "predictor"},
    "models": _MODELS,
    "data": frozenset({"errors", "data"}),
    "runs": _ENGINE | {"runs"},
    "bench": _ENGINE | {"bench"},
    "cli": _ENGINE | {"runs", "bench", "cli"},
}
FRONT_END = {"streamlit", "plotly", "app"}

SKIPPED_FOLDERS = {"__pycache__", ".venv", ".git", "build", "dist"}


def modules(package: str) -> dict[str, Path]:
    """The modules of a package by their dotted names."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules("lvmcore") | modules("app")


def imported(source: str, module: str, *, package: bool = False) -> set[str]:
    """The dotted names that a module imports anywhere in it, those for type checking included.

    `from a import b` counts as `a.b`, whether b is a module or a name in one.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                climbed = node.level - 1 if package else node.level
                parts = parts[: len(parts) - climbed]
                base = ".".join([*parts, base] if base else parts)
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def imports_of(module: str) -> set[str]:
    path = MODULES[module]
    return imported(path.read_text(encoding="utf-8"), module, package=path.name == "__init__.py")


def layer_of(name: str) -> str:
    """The layer of a dotted name below lvmcore."""
    top = name.split(".")[1]
    if top not in LAYER:
        pytest.fail(f"lvmcore.{top} has no place among the import arrows: give it one in LAYER")
    return LAYER[top]


INNER = sorted(name for name in MODULES if name.startswith("lvmcore."))
APP = sorted(name for name in MODULES if name.split(".")[0] == "app")
VIEWS = [name for name in APP if name.startswith("app.views")]


@pytest.mark.parametrize(
    ("source", "module", "package", "expected"),
    [
        ("import a.b, c", "m", False, {"a.b", "c"}),
        ("from a import b, c", "m", False, {"a.b", "a.c"}),
        ("def f():\n    from a.b import c", "m", False, {"a.b.c"}),
        ("from . import x", "p.q.m", False, {"p.q.x"}),
        ("from .y import x", "p.q.m", False, {"p.q.y.x"}),
        ("from ..y import x", "p.q.m", False, {"p.y.x"}),
        ("from .y import x", "p.q", True, {"p.q.y.x"}),
        ("from ..y import x", "p.q", True, {"p.y.x"}),
    ],
)
def test_the_reader_of_imports_sees_every_form(
    source: str, module: str, package: bool, expected: set[str]
) -> None:
    assert imported(source, module, package=package) == expected


@pytest.mark.parametrize("module", INNER)
def test_import_arrows_point_one_way(module: str) -> None:
    layer = layer_of(module)
    allowed = MAY_IMPORT[layer]
    if module == "lvmcore.models":  # finds the models, which do not know one another
        allowed = allowed | {"models"}
    names = sorted(name for name in imports_of(module) if name.startswith("lvmcore."))
    wrong = [name for name in names if layer_of(name) not in allowed]
    assert not wrong, f"{module} may not import {wrong}"


@pytest.mark.parametrize("module", ["lvmcore", *INNER])
def test_the_engine_does_not_know_the_front_end(module: str) -> None:
    assert not {name.split(".")[0] for name in imports_of(module)} & FRONT_END


@pytest.mark.parametrize("module", VIEWS)
def test_views_do_no_maths(module: str) -> None:
    assert "torch" not in {name.split(".")[0] for name in imports_of(module)}


def attributes(module: str) -> set[str]:
    """The names that a module reads as attributes or imports, however it spells the owner."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return read | {name.rsplit(".", 1)[-1] for name in imports_of(module)}


@pytest.mark.parametrize("module", [name for name in APP if "services" not in name.split(".")])
def test_only_services_cache(module: str) -> None:
    assert not attributes(module) & {"cache_data", "cache_resource"}


@pytest.mark.parametrize("module", [name for name in APP if name != "app.state"])
def test_only_state_touches_the_session_and_the_address(module: str) -> None:
    assert not attributes(module) & {"session_state", "query_params"}


def test_figures_are_pure() -> None:
    assert "streamlit" not in {name.split(".")[0] for name in imports_of("app.figures")}


def loads_torch(imports: list[str]) -> bool:
    """Whether a fresh interpreter has torch loaded after importing some modules."""
    code = (
        "import importlib, sys\n"
        f"for name in {imports!r}: importlib.import_module(name)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1] == "True"


@pytest.mark.parametrize(
    "package", ["lvmcore", "lvmcore.errors", "lvmcore.data", "lvmcore.runs", "lvmcore.cli"]
)
def test_the_cheap_parts_of_the_engine_do_not_load_torch(package: str) -> None:
    assert not loads_torch([package])


def test_the_front_end_does_not_load_torch() -> None:
    assert not loads_torch([name for name in APP if name not in ("app.main", "app.__main__")])


def texts() -> Iterator[tuple[str, str]]:
    """Yield the project's text files as (path within it, content)."""
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        outside = any(
            part in SKIPPED_FOLDERS or part.endswith((".egg-info", "_cache", ".hypothesis"))
            for part in parts
        )
        if outside or not path.is_file():
            continue
        try:
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


# Put together here, so that this file does not hold what it looks for.
DOTTED = {"org": ["pypi", "pythonhosted", "npmjs"], "io": ["anaconda"]}
HOSTS = [f"{name}.{end}" for end, names in DOTTED.items() for name in names]
DATA_BESIDE = "/".join(["..", "shared"])
ABSOLUTE = re.compile(r"(?<![\w.\-])/(?:" + "|".join(["work", "home", "Users"]) + r")/\w")


def test_no_file_names_a_registry_or_somebodys_folder() -> None:
    found = []
    for path, text in texts():
        if any(host in text for host in HOSTS):
            found.append(f"{path}: a registry's host")
        if ABSOLUTE.search(text):
            found.append(f"{path}: a path of one machine")
        if DATA_BESIDE in text and path != ".ci/run":
            found.append(f"{path}: the folder of the test data (use LVMCORE_DATA)")
    assert not found


@pytest.mark.parametrize("name", ["logo.svg", "wordmark.svg"])
def test_the_packaged_logo_is_the_one_of_the_readme(name: str) -> None:
    assert (ROOT / "assets" / name).read_bytes() == (ROOT / "app" / "static" / name).read_bytes()


def test_there_is_one_file_of_settings() -> None:
    """Streamlit finds it from the root and, where the package is installed, beside the script."""
    at_root = ROOT / ".streamlit" / "config.toml"
    packaged = ROOT / "app" / ".streamlit" / "config.toml"
    assert at_root.resolve() == packaged
