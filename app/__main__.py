"""Start the dashboard: `latentboard`, or `python -m app`.

Settings and theme are in `.streamlit/config.toml` beside `main.py`, which Streamlit finds from any
working directory. Only address, port, browser and home folder are set here.
"""

import argparse
import errno
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

from app.web.access import LOOPBACK, Origin, is_loopback, parse_origin
from app.web.server_address import ServerAddress, refused_setting, server_address

__all__ = ["first_free_port", "main"]

HOST = LOOPBACK
DEFAULT_PORT = 8501
PORTS_TRIED = 100
_IDLE_SECONDS = 3.0
SCRIPT = Path(__file__).with_name("main.py")


def first_free_port(preferred: int, address: str = HOST) -> int:
    """Find a port on which the dashboard can listen.

    Args:
        preferred: The port to try first; 0 leaves the choice to the operating system.
        address: The IP address of this machine on which it listens.

    Returns:
        The first free port of the `PORTS_TRIED` from `preferred` on.

    Raises:
        OSError: None of them is free.
    """
    last = min(preferred + PORTS_TRIED, 65536)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for port in range(preferred, last):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if os.name == "posix":  # a port that was left a moment ago counts as free
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    raise OSError(
                        f"{address} is no address of this machine. Choose one with --listen, or "
                        "0.0.0.0 for all."
                    ) from error
                continue
            chosen: int = probe.getsockname()[1]
            return chosen
    raise OSError(
        f"No port from {preferred} to {last - 1} can be used at {address}. "
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


def _address(text: str) -> str:
    """Parse an IP address for the command line."""
    try:
        return LOOPBACK if text == "localhost" else str(ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"got {text!r}, expected an IP address of this machine, or 0.0.0.0 for all"
        ) from None


def _public(text: str) -> Origin:
    """Parse the address of a reverse proxy for the command line."""
    found = parse_origin(text.removesuffix("/"))
    if found is None:
        raise argparse.ArgumentTypeError(
            f"got {text!r}, expected http:// or https:// and a name, such as "
            "https://maps.example.org"
        )
    return found


def _parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(
        prog="latentboard",
        description="Open the Latentboard dashboard: fit a latent variable model to a table and "
        "explore the map it found.",
        epilog="latentboard mcp serves datasets and runs to agents (see latentboard mcp --help).",
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=DEFAULT_PORT,
        help="port to listen on (default: %(default)s; if it is taken, the next free one; "
        "0: any free one)",
    )
    parser.add_argument(
        "--listen",
        type=_address,
        default=LOOPBACK,
        metavar="ADDRESS",
        help="IP address to listen on (default: %(default)s, this machine only); other machines "
        "need the token that is then printed",
    )
    parser.add_argument(
        "--public-address",
        type=_public,
        metavar="URL",
        help="address under which a reverse proxy or a tunnel serves the dashboard",
    )
    parser.add_argument(
        "--home",
        type=Path,
        metavar="DIR",
        help="folder for datasets and runs (default: LATENTBOARD_HOME, else your user data folder)",
    )
    parser.add_argument(
        "--cluster",
        nargs="?",
        const="auto",
        metavar="ADDRESS",
        help="compute the fits on a Ray cluster: host:port, or auto (default) for RAY_ADDRESS, "
        "else the cluster of this machine",
    )
    parser.add_argument(
        "--data-folder",
        type=Path,
        action="append",
        metavar="DIR",
        help="folder whose tables can be read in place by everyone who can open the dashboard, "
        "where other machines can; repeat it for several (without other machines: any file)",
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address and open no browser"
    )
    return parser


def _serve_tools(argv: Sequence[str]) -> int:
    """Serve tools for agents over standard input and output: `latentboard mcp`."""
    parser = argparse.ArgumentParser(
        prog="latentboard mcp",
        description="Serve datasets and runs to an agent or a script, over standard input and "
        "output (Model Context Protocol). Nothing listens on a port.",
    )
    parser.add_argument(
        "--home",
        type=Path,
        metavar="DIR",
        help="folder of datasets and runs (default: LATENTBOARD_HOME, else your user data folder)",
    )
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="offer tools that start and stop fits (default: tools that only read)",
    )
    arguments = parser.parse_args(argv)
    from lvmcore.errors import LatentboardError
    from lvmcore.mcp.server import serve
    from lvmcore.runs import Store

    try:
        serve(Store(arguments.home), changes=arguments.allow_changes)
    except LatentboardError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _import_first_page() -> None:
    """Import what the first page needs, so that nobody waits for it before an empty page.

    Before the server, not beside it: two threads that import the same packages can meet halfway.
    """
    from PIL import Image  # noqa: F401
    from streamlit import env_util, material_icon_names  # noqa: F401

    from app.analysis.tables.column_profiles import column_profile
    from app.components import empty_states  # noqa: F401
    from app.shell import sidebar, tour  # noqa: F401
    from app.state import choices
    from app.views.data import page  # noqa: F401
    from app.views.data.profile_figures import profile_figure
    from lvmcore.data import load_sample

    # What reads a table, and what draws a figure, import more as they go. Streamlit asks at the
    # first element whether it is in a notebook, and reads where every module lies.
    table = load_sample(choices.DEFAULT_SAMPLE)
    table.dataset()
    profile_figure(column_profile(table, table.columns[0].name), dark=False).to_json()
    env_util.is_repl()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the dashboard until it is interrupted (Ctrl-C).

    Args:
        argv: The command line without the program's name; `None` takes it from `sys.argv`.

    Returns:
        The exit status: 0 after a normal stop, 1 where no port could be used.
    """
    given = sys.argv[1:] if argv is None else list(argv)
    if given[:1] == ["mcp"]:
        return _serve_tools(given[1:])
    arguments = _parser().parse_args(given)
    if arguments.home is not None:
        os.environ["LATENTBOARD_HOME"] = str(arguments.home.expanduser().resolve())
    if arguments.data_folder:
        from app.web.data_folders import open_folders
        from lvmcore.errors import DataError

        try:
            open_folders(arguments.data_folder)
        except DataError as error:
            print(error, file=sys.stderr)
            return 1
    if arguments.cluster is not None:
        from lvmcore.jobs.executors.cluster import ClusterError, choose_cluster

        try:
            choose_cluster(arguments.cluster)
        except ClusterError as error:
            print(error, file=sys.stderr)
            return 1
    refused = refused_setting() if is_loopback(arguments.listen) else None
    if refused is not None:
        print(refused, file=sys.stderr)
        return 1
    decided = server_address(arguments.listen, arguments.public_address)
    try:
        port = first_free_port(arguments.port, decided.address)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.port not in (0, port):
        print(f"Port {arguments.port} is taken: using {port}.", flush=True)
    for url in decided.addresses(port):
        print(f"Latentboard is at {url} (Ctrl-C stops it).", flush=True)
    warning = decided.warning(port)
    if warning is not None:
        print(warning, flush=True)
    _serve(decided, port, headless=arguments.no_browser)
    return 0


def _serve(decided: ServerAddress, port: int, *, headless: bool) -> None:
    """Serve the pages until a signal stops the server."""
    _import_first_page()
    from streamlit.web import cli

    from app.shell import preload
    from app.web import application

    application.grant(decided.address, decided.access)
    flags = [f"--server.address={decided.address}", f"--server.port={port}"]
    if headless:
        flags.append("--server.headless=true")
    with preload.background_preload(_IDLE_SECONDS), _normal_exit():
        cli.main(["run", str(SCRIPT), *flags], prog_name="latentboard", standalone_mode=False)


@contextmanager
def _normal_exit() -> Iterator[None]:
    """Make the signals that stop the server end the block without an error.

    The server ends its connections first, and then raises the signal again.
    """

    class _Stopped(BaseException):
        pass

    def stop(number: int, _frame: object) -> None:
        if number in (signal.SIGINT, signal.SIGTERM):
            raise _Stopped
        signal.raise_signal(signal.SIGTERM)  # the server handles no others

    names = ("SIGINT", "SIGTERM", "SIGQUIT", "SIGBREAK")  # as far as the system has them
    signals = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    except _Stopped:
        return
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
