"""Copies of a run's folder that follow its changes."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lvmcore.jobs.executors.folder_mirror import FileMark, apply_changes, changed_files
from lvmcore.persistence import write_atomically


def copied(source: Path, target: Path, known: dict[str, FileMark]) -> list[str]:
    """Copy what changed; the names of the changed files in their order."""
    changes = changed_files(source, known)
    for name, mark in apply_changes(target, changes).items():
        if mark is None:
            known.pop(name)
        else:
            known[name] = mark
    return [change.name for change in changes]


def folders(tmp_path: Path) -> tuple[Path, Path]:
    found = tmp_path / "source", tmp_path / "target"
    for folder in found:
        folder.mkdir()
    return found


def test_the_state_is_last_and_what_has_not_changed_is_not_sent(tmp_path: Path) -> None:
    source, target = folders(tmp_path)
    for name in ("status.json", "model.safetensors", "events.jsonl", "branch-1.safetensors"):
        (source / name).write_bytes(name.encode())
    (source / "lock").touch()
    (source / ".status.json.part").touch()
    known: dict[str, FileMark] = {}
    names = copied(source, target, known)
    assert names[-1] == "status.json"
    assert sorted(names) == sorted(path.name for path in target.iterdir())
    assert "lock" not in names
    assert copied(source, target, known) == []
    (source / "model.safetensors").unlink()
    assert copied(source, target, known) == ["model.safetensors"]
    assert not (target / "model.safetensors").exists()


def test_only_the_new_lines_of_events_are_sent(tmp_path: Path) -> None:
    source, target = folders(tmp_path)
    events, known = source / "events.jsonl", dict[str, FileMark]()
    events.write_bytes(b"1\n" * 1000)
    copied(source, target, known)
    with events.open("ab") as file:
        file.write(b"2\n")
    (change,) = changed_files(source, known)
    assert (change.offset, change.content) == (2000, b"2\n")
    copied(source, target, known)
    assert (target / "events.jsonl").read_bytes() == events.read_bytes()


FILES = st.sampled_from(["status.json", "events.jsonl", "checkpoint.safetensors", "worker.log"])
STEPS = st.lists(st.tuples(FILES, st.sampled_from(["append", "replace", "delete", "copy"])))


@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_a_copy_equals_its_source_after_any_changes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    source, target = folders(tmp_path_factory.mktemp("mirror"))
    known: dict[str, FileMark] = {}
    for number, (name, step) in enumerate([*steps, ("", "copy")]):
        path = source / name
        if step == "append":
            with path.open("ab") as file:
                file.write(b"%d\n" % number)
        elif step == "replace":
            write_atomically(path, b"%d\n" % number)
        elif step == "delete":
            path.unlink(missing_ok=True)
        else:
            copied(source, target, known)
    contents = [
        {path.name: path.read_bytes() for path in folder.iterdir()} for folder in (source, target)
    ]
    assert contents[0] == contents[1]
