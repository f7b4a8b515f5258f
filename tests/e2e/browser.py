"""Find a Chromium for the browser tests, or get one: `python -m tests.e2e.browser`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.needs import strict

__all__ = ["find", "launch_arguments", "main"]

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
APPLICATIONS = (
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
)
INSTALL_SECONDS = 600

# No window, no sandbox helper that root may not use, and no traffic but the page's.
ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def _candidates() -> Iterator[Path]:
    """Yield where a browser may be, in the order of preference."""
    chosen = os.environ.get("LATENTBOARD_BROWSER")
    if chosen:
        yield Path(chosen)
    for program in PROGRAMS:
        found = shutil.which(program)
        if found is not None:
            yield Path(found)
    yield from APPLICATIONS
    with sync_playwright() as playwright:
        yield Path(playwright.chromium.executable_path)


def find() -> Path | None:
    """Find a Chromium or Chrome on this machine.

    `LATENTBOARD_BROWSER` names one; else those on the path, the usual applications of macOS, and
    Playwright's own are tried in turn.
    """
    return next((path for path in _candidates() if path.is_file()), None)


def launch_arguments() -> list[str]:
    """The flags with which the tests start the browser."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [*ARGUMENTS, *(["--no-sandbox"] if root else [])]


def _attempts() -> Iterator[list[list[str]]]:
    """Yield the ways to get a browser here, each as the commands that it takes."""
    yield [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        yield [
            ["apt-get", "update", "-qq"],
            ["apt-get", "install", "-qq", "-y", "--no-install-recommends", "chromium"],
        ]


def _succeeds(command: list[str]) -> bool:
    """Run one installation command; its output is shown where it fails."""
    print("Getting a browser:", " ".join(command), flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"It did not finish within {INSTALL_SECONDS} s.", flush=True)
        return False
    if done.returncode != 0:
        print("\n".join(done.stdout.splitlines()[-5:]), flush=True)
    return done.returncode == 0


def main() -> int:
    """Make sure that there is a browser, and say which, or what to do.

    Returns:
        The exit status: 0 where the tests can go on (without a browser its tests are skipped), 1
        where they may not be skipped (`LATENTBOARD_CI`).
    """
    browser = find()
    for commands in _attempts():
        if browser is not None:
            break
        if all(_succeeds(command) for command in commands):
            browser = find()
    if browser is not None:
        print(f"The browser tests use {browser}", flush=True)
        return 0
    print(
        "No Chromium or Chrome was found, and none could be installed. The browser tests need one: "
        "install it with your system's package manager (Debian and Ubuntu: "
        "sudo apt-get install chromium), or set LATENTBOARD_BROWSER to the path of its program.",
        "The browser tests may not be skipped here (LATENTBOARD_CI is set)."
        if strict()
        else "The browser tests are skipped; all others run.",
        sep="\n",
        file=sys.stderr,
    )
    return 1 if strict() else 0


if __name__ == "__main__":
    sys.exit(main())
