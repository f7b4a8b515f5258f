"""The fenced examples of a Markdown page, and how they are run."""

import re
import shlex
from pathlib import Path

from lvmcore import cli

__all__ = ["ROOT", "console_commands", "python_examples", "run_commands", "run_example"]

ROOT = Path(__file__).resolve().parents[2]


def _blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def python_examples(page: str) -> list[str]:
    """The Python examples of a page."""
    return _blocks(page, "python")


def console_commands(page: str) -> list[str]:
    """The commands of a page's console examples, in order."""
    lines = (line for block in _blocks(page, "console") for line in block.strip().splitlines())
    return [line.removeprefix("$ ") for line in lines]


def run_example(example: str, page: str) -> dict[str, object]:
    """Run a Python example in the current folder, and return its names."""
    names: dict[str, object] = {}
    exec(compile(example, page, "exec"), names)
    return names


def run_commands(commands: list[str], folder: Path) -> None:
    """Run commands of `lvmcore` one after the other; each must succeed and write its files."""
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "lvmcore"
        if arguments[0] == "bench":
            continue
        assert cli.main(arguments) == 0, command
        if "--out" in arguments:
            assert (folder / arguments[arguments.index("--out") + 1]).exists()
