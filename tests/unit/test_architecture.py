"""The import arrows of the design, and other promises that the source as a whole keeps."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# The packages, lowest first: a module imports its own package and those above it in this list.
ARROWS = [
    f"lvmcore.{name}"
    for row in (
        "errors results parameters persistence numerics relevance projection devices",
        "preprocessing geometry likelihoods metrics classical",
        "kernels training",
        "distributed",
        "base",
        "neural",
        "gp",
        "random_features mcmc qep",
        "deep",
        "models.latent models.supervised models",
        "data.tables data.text data.readers data.samples data.new_tables data.long_tables data",
        "runs",
        "prediction",
        "evaluation export recommend",
        "jobs",
        "bench cli mcp notebook",
    )
    for name in row.split()
]
ARROWS += ["lvmcore"]
ARROWS += [
    f"app.{name}"
    for row in (
        "web",
        "formatting templates analysis state navigation figures services components report shell",
        "views",
        "main __main__",
    )
    for name in row.split()
]
RANK = {package: place for place, package in enumerate(ARROWS)}
# The public convenience Table.dataset() builds a dataset of itself, imported where it is called.
KNOWN_CIRCLES = [
    {
        "lvmcore.data.build_dataset",
        "lvmcore.data.table",
        "lvmcore.data.transforms",
    }
]
FRONT_END = {"streamlit", "plotly", "app"}

SKIPPED_FOLDERS = {"__pycache__", ".venv", ".git", "build", "dist", "node_modules"}


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


def package_of(module: str) -> str:
    """The package of ARROWS that a module belongs to: the longest name that it begins with."""
    parts = module.split(".")
    if parts[:2] == ["lvmcore", "data"] and len(parts) == 3 and module not in RANK:
        return "lvmcore.data.tables"  # from a table to a dataset: the files of the folder itself
    names = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    known = [name for name in names if name in RANK and (name != "lvmcore" or name == module)]
    if not known:
        pytest.fail(f"{module} has no place among the import arrows: give it one in ARROWS")
    return known[0]


@cache
def modules_imported(module: str) -> set[str]:
    """The modules of the project that a module imports; a name counts as the module it is in."""
    found = set()
    for name in imports_of(module):
        found |= {known for known in (name, name.rpartition(".")[0]) if known in MODULES} - {module}
    return {
        name for name in found if not any(other.startswith(f"{name}.") for other in found)
    }  # `from a import b` is of a.b where b is a module, and a itself is not meant


NAMES = sorted(set(MODULES) - {"app"})


def graph() -> dict[str, set[str]]:
    """The modules that each module imports; read by the tests, as every test process collects."""
    return {module: modules_imported(module) for module in NAMES}


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of names that lead to one another."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for name in graph.get(todo.pop(), set()) - seen:
                seen.add(name)
                todo.append(name)
        return seen

    ways = {name: reached(name) for name in graph}
    found: list[set[str]] = []
    for name, there in ways.items():
        circle = {other for other in there if name in ways.get(other, set())}
        if circle and circle not in found:
            found.append(circle)
    return found


INNER = sorted(name for name in MODULES if name.startswith("lvmcore."))
APP = sorted(name for name in MODULES if name.split(".")[0] == "app")
VIEWS = [name for name in APP if name.startswith("app.views")]
PURE = re.compile(r"app\.(analysis|figures)\b|app\.views\.\w+\.\w*figures$")
CACHING = {"app.services.caching", "app.services.server"}
MOST_MODULES, MOST_LINES, MOST_STATEMENTS = 20, 400, 40
MOST_CLASSES, MOST_METHODS = 4, 60


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


@pytest.mark.parametrize("module", NAMES)
def test_import_arrows_point_one_way(module: str) -> None:
    home = package_of(module)
    found = sorted(modules_imported(module))
    wrong = [name for name in found if RANK[package_of(name)] > RANK[home]]
    assert not wrong, f"{module} may not import {wrong}"


def test_no_modules_import_one_another() -> None:
    found = [circle for circle in circles(graph()) if circle not in KNOWN_CIRCLES]
    assert not found, f"these modules import one another: {found}"


def test_pages_do_not_import_one_another() -> None:
    wrong = [
        f"{module} imports {name}"
        for module in VIEWS
        for name in modules_imported(module)
        if name.startswith("app.views.") and name.split(".")[:3] != module.split(".")[:3]
    ]
    assert not wrong


@pytest.mark.parametrize("module", [name for name in MODULES if PURE.match(name)])
def test_analysis_and_figures_know_no_streamlit(module: str) -> None:
    assert "streamlit" not in {name.split(".")[0] for name in imports_of(module)}


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


@pytest.mark.parametrize("module", [name for name in APP if name not in CACHING])
def test_only_services_cache(module: str) -> None:
    assert not attributes(module) & {"cache_data", "cache_resource"}


@pytest.mark.parametrize("module", [name for name in APP if not name.startswith("app.state.")])
def test_only_state_touches_the_session_and_the_address(module: str) -> None:
    assert not attributes(module) & {"session_state", "query_params"}


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


def test_no_folder_holds_more_modules_than_a_reader_can_scan() -> None:
    folders = [path.parent for path in MODULES.values() if path.name != "__init__.py"]
    full = {folder.relative_to(ROOT).as_posix(): folders.count(folder) for folder in set(folders)}
    assert not {folder: count for folder, count in full.items() if count > MOST_MODULES}


def test_no_module_is_too_long_to_read() -> None:
    lengths = {
        name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()
    }
    long = {name: length for name, length in lengths.items() if length > MOST_LINES}
    assert not long


def test_no_function_has_more_statements_than_a_reader_can_hold() -> None:
    long = []
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                statements = sum(isinstance(inner, ast.stmt) for inner in ast.walk(node)) - 1
                if statements > MOST_STATEMENTS:
                    long.append(f"{name}.{node.name}: {statements}")
    assert not long


def test_no_model_stands_on_many_classes_or_offers_many_methods() -> None:
    """Counted of the project's own classes: those a model inherits from, and names with a body."""
    from lvmcore.models import MODELS, PREDICTORS

    wide = []
    for key, model in {**MODELS, **PREDICTORS}.items():
        own = [cls for cls in model.__mro__ if cls.__module__.split(".")[0] == "lvmcore"]
        names = {
            name
            for cls in own
            for name, value in vars(cls).items()
            if hasattr(value, "__get__")
            and not name.startswith("__")
            and name != "set_fit_request"  # scikit-learn's, for the routing of metadata
        }
        if len(own) - 1 > MOST_CLASSES or len(names) > MOST_METHODS:
            wide.append(f"{key}: {len(own) - 1} classes, {len(names)} methods")
    assert not wide
