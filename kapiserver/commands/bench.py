"""`kapiserver bench`: its flags, progress and output.

`benching/` does the work and is loaded when the command runs.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kapiserver.flags.values import number_to

if TYPE_CHECKING:
    from kapiserver.benching.figures import Report
    from kapiserver.client import Client

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

FAILED = 2
"""The exit status if the command could not run; it is 0 otherwise."""
MAX_SECONDS, MAX_CONNECTIONS, MAX_WATCHES = 60, 256, 1000
_BAR = 20


def add_bench_command(commands: _Commands) -> None:
    """Add the command and its flags."""
    bench = commands.add_parser(
        "bench",
        help="measure any API server",
        description="Load the API server of a kubeconfig with reads, lists, writes and watches of "
        "ConfigMaps, and print rates, latencies and, if /metrics can be read, CPU time. The "
        "objects are in a new namespace, which is deleted at the end. The client is one Python "
        "process: compare latencies and CPU of servers, not their greatest rates. Exit status: 0, "
        "or 2 if the command could not run.",
    )
    bench.set_defaults(command=_bench, verbose=0)
    bench.add_argument(
        "url", nargs="?", default="", metavar="URL",
        help="The URL of a server with plain HTTP, which needs no kubeconfig, such as "
        "http://127.0.0.1:8080. Default: the cluster of --kubeconfig.",
    )  # fmt: skip
    bench.add_argument(
        "--kubeconfig", default="", metavar="FILE",
        help="The kubeconfig whose current context names the server and the user. Default: "
        "$KUBECONFIG, else the cluster whose pod runs the command, else ~/.kube/config.",
    )  # fmt: skip
    bench.add_argument(
        "--seconds", type=number_to(MAX_SECONDS), default=3, metavar="N",
        help=f"The seconds of each measure, up to {MAX_SECONDS}. Default: %(default)s.",
    )  # fmt: skip
    bench.add_argument(
        "--connections", type=number_to(MAX_CONNECTIONS), default=16, metavar="N",
        help=f"Connections that send requests at the same time, up to {MAX_CONNECTIONS}. Default: "
        "%(default)s.",
    )  # fmt: skip
    bench.add_argument(
        "--watches", type=number_to(MAX_WATCHES), default=100, metavar="N",
        help=f"Watches that are open at the same time, up to {MAX_WATCHES}. Default: %(default)s.",
    )  # fmt: skip
    bench.add_argument(
        "--yes", action="store_true",
        help="Load a server that is not on this machine, too: others may use it. Off by default.",
    )  # fmt: skip
    bench.add_argument(
        "--output", choices=("text", "json"), default="text",
        help="The form of the figures on standard output. Default: %(default)s.",
    )  # fmt: skip


def _bench(options: argparse.Namespace) -> int:
    """Run the command and return its exit status; an error is one line on standard error."""
    from kapiserver.benching.server_process import FAILURES

    try:
        return _run(options)
    except* (OSError, ValueError, *FAILURES) as group:
        sys.stderr.write(f"kapiserver: {_first(group)}\n")
    return FAILED


def _first(group: BaseExceptionGroup) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _run(options: argparse.Namespace) -> int:
    import asyncio

    from kapiserver.api.scheme import Scheme
    from kapiserver.apiserver.webhooks.cluster_access import cluster_access, is_on_this_machine
    from kapiserver.benching.figures import as_json, as_text
    from kapiserver.benching.session import Settings, run
    from kapiserver.client import Client
    from kapiserver.codecs.codec_factory import CodecFactory

    access = None if options.url else cluster_access(options.kubeconfig)
    url = access.url if access is not None else options.url
    if options.url and urlsplit(url).scheme != "http":
        raise ValueError(f"{url} is not a URL of plain HTTP; name others by --kubeconfig")
    if not options.yes and not is_on_this_machine(urlsplit(url).hostname or ""):
        raise ValueError(
            f"{url} is not on this machine, and others may use it; --yes loads it all the same"
        )
    codecs = CodecFactory(Scheme())

    def connect() -> Client:
        if access is None:
            return Client(url, codecs=codecs)
        return Client.from_access(access, codecs=codecs)

    settings = Settings(
        seconds=options.seconds, connections=options.connections, watches=options.watches
    )

    async def measure() -> Report:
        task = asyncio.current_task()
        assert task is not None
        with contextlib.suppress(NotImplementedError, AttributeError):  # Windows: Ctrl-C alone
            for number in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await run(connect, settings, _show_progress)

    try:
        report = asyncio.run(measure())
    except asyncio.CancelledError:
        sys.stderr.write("kapiserver: a signal ended the run\n")
        return FAILED
    sys.stdout.write(as_json(report) if options.output == "json" else as_text(report))
    return 0


def _show_progress(done: int, total: int, work: str) -> None:
    """Draw a bar on a terminal, over the one before."""
    if not sys.stderr.isatty():
        return
    filled = _BAR * done // total
    bar = "#" * filled + "-" * (_BAR - filled)
    sys.stderr.write(f"\r\x1b[K[{bar}] {work}" if done < total else "\r\x1b[K")
    sys.stderr.flush()
