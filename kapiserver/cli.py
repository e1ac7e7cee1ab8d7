"""The command line: the commands of `kapiserver`.

Each command imports what it needs when it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from kapiserver import __version__
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.process.event_loop import loop_factory
from kapiserver.apiserver.serving.process.systemd import ServiceManager, passed_sockets
from kapiserver.commands.bench import add_bench_command
from kapiserver.commands.check import add_check_command
from kapiserver.commands.clusters import add_clusters_commands
from kapiserver.commands.completion import add_completion_command
from kapiserver.commands.doctor import add_doctor_command
from kapiserver.commands.explore import add_explore_command
from kapiserver.commands.extension import add_extension_commands
from kapiserver.commands.rpc import add_rpc_commands
from kapiserver.commands.storage import add_storage_commands
from kapiserver.commands.testing import add_testing_commands
from kapiserver.flags import add_recode_flags, add_serve_flags
from kapiserver.server_config import config_of

if TYPE_CHECKING:
    import socket

    from kapiserver.apiserver.serving.process.worker_channel import WorkerChannel
    from kapiserver.app import RunningServer
    from kapiserver.rpc.api_server import ServedGroups
    from kapiserver.storage.cache.sharing import MemorySharing

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; an error is one line on standard error."""
    _open_standard_streams()
    options = parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if options.verbose:
            raise
        sys.stderr.write(f"kapiserver: {error}\n")
        return 1


def _open_standard_streams() -> None:
    """Open those of the standard streams that the caller has closed. Otherwise the first sockets
    would be in their place, and get what is printed; libuv aborts when it closes such a socket."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # returns the lowest descriptor that is free


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and their flags."""
    root = argparse.ArgumentParser(
        prog="kapiserver", description="A Kubernetes API server in Python."
    )
    root.add_argument(
        "--version", action="version", version=f"kapiserver {__version__}",
        help="Print the version of kapiserver and exit.",
    )  # fmt: skip
    commands = root.add_subparsers(required=True, metavar="COMMAND", title="commands")
    serve = commands.add_parser(
        "serve",
        help="serve the Kubernetes API",
        description="Serve the Kubernetes API until SIGTERM or SIGINT. A DURATION is a number with "
        "a unit, as in 90s, 5m or 1h30m; a BOOL is true or false.",
        epilog="Signals: SIGTERM and SIGINT drain the server and end it; SIGQUIT writes the stacks "
        "of all threads and tasks first. SIGHUP reads certificates, client CAs, tokens and "
        "encryption keys again. SIGUSR1 writes the stacks, and SIGUSR2 logs a line with the state "
        "of the server.",
    )
    serve.set_defaults(command=run_server)
    add_serve_flags(serve)
    add_storage_commands(
        commands.add_parser(
            "storage",
            help="check, compact, back up or restore a SQLite store",
            description="Maintain the SQLite file in which a server stores its objects.",
        )
    )
    add_rpc_commands(
        commands.add_parser(
            "rpc",
            help="generate and serve versioned groups of RPCs",
            description="Define calls in protobuf files, as versioned groups, generate their "
            "Python code, and serve them. Needs the extra kapiserver[rpc].",
        )
    )
    add_clusters_commands(commands)
    add_testing_commands(commands)
    add_check_command(commands)
    add_doctor_command(commands)
    add_bench_command(commands)
    add_extension_commands(commands)
    add_explore_command(commands)
    recode = commands.add_parser(
        "recode",
        help="convert an object from one encoding to another",
        description="Read an object, or a value from etcd, on standard input and write it to "
        "standard output in another encoding. Nothing is defaulted or converted between versions.",
    )
    recode.set_defaults(command=_recode, verbose=0)
    add_recode_flags(recode)
    add_completion_command(commands, root)
    return root


def run_server(options: argparse.Namespace) -> int:
    """Serve with the options of `kapiserver serve` until a signal, and return the exit code."""
    from kapiserver.apiserver.serving.process import logs
    from kapiserver.apiserver.serving.process.memory import use_one_heap

    use_one_heap()
    # Starting allocates many long-lived objects and little garbage; collections would cost 5 % of
    # the start-up time. `manage_memory` enables the collector again.
    gc.disable()
    config = config_of(options)
    logs.set_up(
        logs.Verbosity(config.serving.verbosity, config.serving.vmodule),
        config.serving.logging_format,
    )
    if config.serving.insecure_port is not None:
        _log.warning(
            "--insecure-port: everybody on this machine who reaches the port is a cluster "
            "administrator, without authentication and TLS"
        )
    options.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    service, sockets = ServiceManager(), passed_sockets()
    if config.serving.workers == 1:
        _serve_in_one_process(config, _served_groups(options), service, sockets)
        return 0
    from kapiserver.apiserver.serving.process.workers import supervise
    from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
    from kapiserver.warm_up import warm_up

    if config.certificates.cert_dir is not None:
        # Before the fork, so that only one process creates them.
        ensure_certificates(config, config.certificates.cert_dir)
    warm_up(config.store.storage)
    work = functools.partial(_serve_as_worker, loop_factory(), sockets)
    return supervise(config, work, service, has_sockets=bool(sockets))


def _serve_in_one_process(
    config: Config,
    groups: ServedGroups | None,
    service: ServiceManager,
    sockets: Sequence[socket.socket],
) -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_run_server(config, sockets, groups, service))


def _served_groups(options: argparse.Namespace) -> ServedGroups | None:
    """Return the RPC groups of the server; None without --rpc and --rpc-storage."""
    if options.rpc is None and not options.rpc_storage:
        return None
    from kapiserver.rpc.api_server import ServedGroups

    return ServedGroups(
        options.rpc, with_storage=options.rpc_storage, socket_dir=options.rpc_socket_dir
    )


def _serve_as_worker(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
    sockets: Sequence[socket.socket],
    config: Config,
    channel: WorkerChannel,
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_run_worker(config, sockets, channel))


async def _run_server(
    config: Config,
    sockets: Sequence[socket.socket],
    groups: ServedGroups | None,
    service: ServiceManager,
) -> None:
    """Serve until a signal, then drain. `sockets` are those that the secure port has instead of one
    that is opened."""
    from kapiserver.apiserver.output import STANDARD_OUTPUT
    from kapiserver.apiserver.serving.process.memory import manage_memory
    from kapiserver.apiserver.serving.process.signals import ServerSignals
    from kapiserver.app import serve
    from kapiserver.host import Host
    from kapiserver.parts import Parts

    signals = ServerSignals()
    parts = Parts(call_groups=groups.call_groups if groups is not None else ())
    async with AsyncExitStack() as stack:
        reports = asyncio.create_task(service.report_life())
        stack.callback(reports.cancel)  # after the drain, which may take long
        server = serve(config, parts, host=Host(config, sockets))
        running = await stack.enter_async_context(server)
        if groups is not None:
            await stack.enter_async_context(groups.serve(running.cluster.server))
        STANDARD_OUTPUT.write(_greeting(running))
        manage_memory()
        reload = functools.partial(service.reload, running.reload)
        signals.serve(reload=reload, status=running.status)
        service.ready(f"serving {running.url}")
        await signals.stop.wait()
        service.stopping(config)


async def _run_worker(
    config: Config, sockets: Sequence[socket.socket], channel: WorkerChannel
) -> None:
    """Serve as one of several workers until the supervisor sends SIGTERM or exits, then drain."""
    from kapiserver.apiserver.output import STANDARD_OUTPUT
    from kapiserver.apiserver.serving.process.memory import manage_memory
    from kapiserver.apiserver.serving.process.signals import ServerSignals
    from kapiserver.app import serve
    from kapiserver.host import Host

    signals = ServerSignals(worker=True)
    host = Host(config, sockets, is_first_worker=channel.is_first_worker)
    async with AsyncExitStack() as stack:
        reports = asyncio.create_task(channel.report_life())
        stack.callback(reports.cancel)  # after the drain, which may take long
        server = serve(config, host=host, barrier=channel.wait_all_ready)
        running = await stack.enter_async_context(server)
        if channel.prints_greeting:
            STANDARD_OUTPUT.write(_greeting(running))
        sharing = _memory_sharing(running, channel)
        stack.enter_context(sharing.running())
        channel.listen(sharing.receive, sharing.publish_for_others, signals.stop.set)
        manage_memory()
        signals.serve(reload=running.reload, status=running.status)
        await signals.stop.wait()


def _memory_sharing(running: RunningServer, channel: WorkerChannel) -> MemorySharing:
    """Return what shares the bytes of cached objects with other workers."""
    from kapiserver.storage.cache.sharing import MemorySharing  # not for one process
    from kapiserver.storage.concurrency.clock import MonotonicClock

    stores = running.cluster.server.stores
    return MemorySharing(
        lambda: [store.cache for store in stores.in_use()],
        channel,
        MonotonicClock(),
        is_publisher=channel.is_first_worker,
    )


def _greeting(running: RunningServer) -> str:
    lines = [f"kapiserver {__version__} serves {running.url}"]
    if running.insecure_url and running.insecure_url != running.url:
        lines.append(f"  as administrator, without TLS: {running.insecure_url}")
    if running.page_url:
        lines.append(f"  look at it: {running.page_url}")
    if running.kubeconfig is not None:
        lines.append(f"  export KUBECONFIG={running.kubeconfig.resolve()}")
        lines.append("  kubectl get namespaces")
    return "\n".join(lines) + "\n"


def _recode(options: argparse.Namespace) -> int:
    from kapiserver.api.scheme import Scheme
    from kapiserver.codecs.codec_factory import CodecFactory
    from kapiserver.codecs.recode import recode

    data = sys.stdin.buffer.read()
    recoded = recode(data, options.from_, options.to, codecs=CodecFactory(Scheme()))
    sys.stdout.buffer.write(recoded)
    return 0


if __name__ == "__main__":
    sys.exit(main())
