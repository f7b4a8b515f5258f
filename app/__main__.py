"""Start the dashboard: `latentboard`, or `python -m app`.

Settings and theme are in `.streamlit/config.toml` beside `main.py`, which Streamlit finds from any
working directory. Only port, browser and home folder are set here.
"""

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["first_free_port", "main"]

HOST = "127.0.0.1"
DEFAULT_PORT = 8501
PORTS_TRIED = 100
_IDLE_SECONDS = 3.0
SCRIPT = Path(__file__).with_name("main.py")


def first_free_port(preferred: int) -> int:
    """Find a port on which the dashboard can listen.

    Args:
        preferred: The port to try first; 0 leaves the choice to the operating system.

    Returns:
        The first free port of the `PORTS_TRIED` from `preferred` on.

    Raises:
        OSError: None of them is free.
    """
    last = min(preferred + PORTS_TRIED, 65536)
    for port in range(preferred, last):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            if os.name == "posix":  # a port that was left a moment ago counts as free
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            chosen: int = probe.getsockname()[1]
            return chosen
    raise OSError(
        f"No port from {preferred} to {last - 1} can be used on this machine. "
        "Choose another range with --port, or --port 0 for any free port."
    )


def _port(text: str) -> int:
    """Parse a port number for the command line."""
    try:
        port = int(text)
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number from 0 to 65535")
    return port


def _parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(
        prog="latentboard",
        description="Open the Latentboard dashboard: fit a latent variable model to a table and "
        "explore the map it found.",
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        help="port to listen on (default: %(default)s; if it is taken, the next free one; "
        "0: any free one)",
    )
    parser.add_argument(
        "--home",
        type=Path,
        metavar="DIR",
        help="folder for datasets and runs (default: LATENTBOARD_HOME, else your user data folder)",
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address and open no browser"
    )
    return parser


def _import_first_page() -> None:
    """Import what the first page needs, so that nobody waits for it before an empty page.

    Before the server, not beside it: two threads that import the same packages can meet halfway.
    """
    from PIL import Image  # noqa: F401
    from streamlit import material_icon_names  # noqa: F401

    from app.state import choices
    from lvmcore.data import load_sample

    load_sample(choices.DEFAULT_SAMPLE)  # what reads a table imports more as it goes


def main(argv: Sequence[str] | None = None) -> int:
    """Run the dashboard until it is interrupted (Ctrl-C).

    Args:
        argv: The command line without the program's name; `None` takes it from `sys.argv`.

    Returns:
        The exit status: 0 after a normal stop, 1 where no port could be used.
    """
    arguments = _parser().parse_args(argv)
    if arguments.home is not None:
        os.environ["LATENTBOARD_HOME"] = str(arguments.home.expanduser().resolve())
    try:
        port = first_free_port(arguments.port)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.port not in (0, port):
        print(f"Port {arguments.port} is taken: using {port}.", flush=True)
    print(f"Latentboard is at http://{HOST}:{port} (Ctrl-C stops it).", flush=True)

    _import_first_page()
    from streamlit.web import cli

    from app.shell import preload

    flags = [f"--server.port={port}", "--logger.hideWelcomeMessage=true"]
    if arguments.no_browser:
        flags.append("--server.headless=true")
    with preload.background_preload(_IDLE_SECONDS):
        cli.main(["run", str(SCRIPT), *flags], prog_name="latentboard", standalone_mode=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
