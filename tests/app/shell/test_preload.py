"""Reading ahead for the first page: in a process that nobody sees and that does not stay."""

import subprocess
import sys
import time

import psutil
import pytest

from app.shell import preload

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture(autouse=True)
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program that ends by itself."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"import os, sys, psutil\n{code}"],
        capture_output=True,
        text=True,
        check=False,
        env=preload._environment(),
    )


def children() -> list[psutil.Process]:
    """Those that run ``SLEEPS``: other tests of this process leave children of their own."""
    return [child for child in psutil.Process().children() if "time.sleep" in command_of(child)]


def command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def wait_for_a_child() -> psutil.Process:
    deadline = time.monotonic() + 30
    while not children():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return children()[0]


@pytest.mark.slow
def test_the_models_are_imported_silently_urgent_to_nobody_and_by_one_thread() -> None:
    done = run(
        "from app.shell import preload\n"
        "preload._LOWEST_PRIORITY = 3\n"  # with its own it hardly has a processor beside tests
        "preload.main(os.getppid())\n"
        "me = psutil.Process()\n"
        "named = 'torch', 'lvmcore.models.latent.ldgd', 'lvmcore.models.supervised.svgp'\n"
        "print(set(named) <= set(sys.modules), me.num_threads(), me.nice())\n"
    )
    assert done.stdout.split() == ["True", "1", "3"]
    assert done.stderr == ""


def test_nothing_is_imported_for_a_server_that_is_gone() -> None:
    done = run("from app.shell import preload\npreload.main(os.getppid() + 1)\nprint('still here')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_reads_ends_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "_COMMAND", SLEEPS)
    with preload.background_preload(0.0):
        child = wait_for_a_child()
        assert child.is_running()
    assert not child.is_running()


def test_what_has_read_is_no_more_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for, so that nothing of it is left while the server lives."""
    monkeypatch.setattr(preload, "_COMMAND", [*SLEEPS[:2], "import time; time.sleep(0.5)"])
    with preload.background_preload(0.0):
        child = wait_for_a_child()
        deadline = time.monotonic() + 30
        while child.is_running() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not child.is_running()  # a zombie is running, by its definition


def test_a_server_that_stops_at_once_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "_start", lambda: pytest.fail("it was started"))
    with preload.background_preload(3600.0):
        pass
    assert not children()


def test_a_server_that_has_the_models_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[None] = []
    monkeypatch.setattr(preload, "_start", lambda: started.append(None))
    monkeypatch.setitem(sys.modules, "torch", object())
    with preload.background_preload(0.0):
        time.sleep(0.2)
    assert not started


def test_a_process_that_cannot_be_started_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "_COMMAND", ["/nowhere/at/all"])
    problems: list[object] = []
    monkeypatch.setattr("threading.excepthook", problems.append)
    with preload.background_preload(0.0):
        time.sleep(0.2)
    assert not problems
