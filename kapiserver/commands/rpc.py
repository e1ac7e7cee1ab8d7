"""`kapiserver rpc generate|release|serve`: flags, output and exit codes.

`rpc/generator/` and `rpc/serving.py` do the work. They need the extra `kapiserver[rpc]` and are
loaded when a command runs.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kapiserver.flags.values import positive, seconds, size

if TYPE_CHECKING:
    from kapiserver.rpc.serving import Addresses, Listening

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

OUTDATED = 3
"""Exit code of `generate --check` if files are out of date; 1 means that definitions are wrong."""


def add_rpc_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands and their flags."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    _add_generate(commands)
    _add_release(commands)
    _add_serve(commands)


def _add_generate(commands: _Commands) -> None:
    generate = commands.add_parser(
        "generate",
        help="generate the Python code of groups from protobuf files",
        description="Check the files GROUP/VERSION/api.proto below a directory, and generate "
        "conversions, registrations and clients. Files that are written by hand are created if "
        "they do not exist, and never changed. Prints each file that it writes or removes.",
    )
    generate.set_defaults(command=_generate, verbose=0)
    _add_directory(generate)
    _add_project(generate)
    generate.add_argument(
        "--check", action="store_true",
        help="Write nothing; print the files that are out of date. "
        f"Exit code 0: none, {OUTDATED}: some, 1: the definitions break a rule. Off by default.",
    )  # fmt: skip


def _add_release(commands: _Commands) -> None:
    release = commands.add_parser(
        "release",
        help="record a release, which publishes versions and announces deprecations",
        description="Record a release with today's date in DIR/rpc.lock. Its versions cannot "
        "change any more, and the time until a deprecated version may be removed begins.",
    )
    release.set_defaults(command=_release, verbose=0)
    _add_directory(release)
    _add_project(release)
    release.add_argument(
        "name", metavar="NAME", help="Name of the release, such as 1.2.0. Required."
    )


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory", type=Path, metavar="DIR", help="Directory of the groups. Required."
    )


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--project", metavar="NAME",
        help="Project, the first part of the names of sockets. "
        "Default: the name of DIR, with - for _.",
    )  # fmt: skip


def _add_serve(commands: _Commands) -> None:
    serve = commands.add_parser(
        "serve",
        help="serve groups over gRPC",
        description="Serve every version of the generated groups of a directory over gRPC until "
        "SIGTERM or SIGINT, each on the Unix socket PROJECT-GROUP-VERSION.sock, which only the "
        "user of the server and root can use. A DURATION is a number with a unit, as in 90s.",
    )
    serve.set_defaults(command=_serve)
    _add_directory(serve)
    serve.add_argument(
        "--socket-dir", type=Path, metavar="RUN",
        help="Directory of the Unix sockets; created with mode 0700 if missing. "
        "Default: no sockets.",
    )  # fmt: skip
    _add_tcp(serve)
    serve.add_argument(
        "--max-calls", type=positive, default=100, metavar="N",
        help="Maximum number of calls of a group at a time; more get RESOURCE_EXHAUSTED. "
        "Default: %(default)s.",
    )  # fmt: skip
    serve.add_argument(
        "--max-message-size", type=size, default="4Mi", metavar="SIZE",
        help="Maximum size of a request or response, such as 16Mi. Default: 4Mi.",
    )  # fmt: skip
    serve.add_argument(
        "--call-timeout", type=seconds, default=60.0, metavar="DURATION",
        help="Longest time for a call without a stream of responses; the deadline of its client "
        "can only shorten it. Default: 1m.",
    )  # fmt: skip
    serve.add_argument(
        "--shutdown-timeout", type=seconds, default=10.0, metavar="DURATION",
        help="Longest time to wait for running calls at the end. Default: 10s.",
    )  # fmt: skip
    serve.add_argument(
        "-v", "--verbose", action="count", default=0,
        help="Log more to standard error; by default (0) only warnings and errors are logged.",
    )  # fmt: skip


def _add_tcp(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bind-address", default="", metavar="HOST:PORT",
        help="Address on which to serve all groups over TCP; port 0 picks a free port. Needs the "
        "three flags below; any client with a certificate of --client-ca-file may make every "
        "call. Default: no TCP.",
    )  # fmt: skip
    parser.add_argument(
        "--tls-cert-file", type=Path, metavar="FILE",
        help="PEM file of the certificate for --bind-address. Default: none.",
    )  # fmt: skip
    parser.add_argument(
        "--tls-private-key-file", type=Path, metavar="FILE",
        help="PEM file of the private key of --tls-cert-file. Default: none.",
    )  # fmt: skip
    parser.add_argument(
        "--client-ca-file", type=Path, metavar="FILE",
        help="PEM file of the CA that signs the certificates of clients. Default: none.",
    )  # fmt: skip


def _generate(options: argparse.Namespace) -> int:
    _require_grpc()
    from kapiserver.rpc.generator.files import generate
    from kapiserver.rpc.generator.problems import InvalidDefinitions

    today, write = datetime.date.today(), not options.check
    try:
        changed = generate(options.directory, _project(options), today, write=write)
    except InvalidDefinitions as error:
        sys.stderr.write(f"{error}\n")  # each line begins with a path, for editors
        return 1
    for path in changed:
        sys.stdout.write(f"{path}\n")
    return OUTDATED if changed and options.check else 0


def _release(options: argparse.Namespace) -> int:
    _require_grpc()
    from kapiserver.rpc.generator.files import release

    release(options.directory, _project(options), options.name, datetime.date.today())
    return 0


def _project(options: argparse.Namespace) -> str:
    name: str = options.project or options.directory.resolve().name.replace("_", "-")
    return name


def _require_grpc() -> None:
    if find_spec("grpc_tools") is None:
        message = "the rpc commands need grpcio-tools: pip install 'kapiserver[rpc]'"
        raise ModuleNotFoundError(message, name="grpc_tools")


def _serve(options: argparse.Namespace) -> int:
    from kapiserver.apiserver.serving.process import logs

    logs.set_up(logs.Verbosity(options.verbose))
    addresses = _addresses(options)
    asyncio.run(_run(options, addresses))
    return 0


def _addresses(options: argparse.Namespace) -> Addresses:
    """Return the addresses of parsed flags. Raises ValueError for flags that lack others."""
    from kapiserver.rpc.serving import Addresses, TLSFiles

    files = (options.tls_cert_file, options.tls_private_key_file, options.client_ca_file)
    if any(files) != bool(options.bind_address) or not (all(files) or not any(files)):
        raise ValueError(
            "--bind-address, --tls-cert-file, --tls-private-key-file and --client-ca-file must be "
            "set together"
        )
    if options.socket_dir is None and not options.bind_address:
        raise ValueError("--socket-dir or --bind-address must be set")
    tls = TLSFiles(certificate=files[0], key=files[1], client_ca=files[2]) if all(files) else None
    return Addresses(socket_dir=options.socket_dir, tcp=options.bind_address, tls=tls)


async def _run(options: argparse.Namespace, addresses: Addresses) -> None:
    from kapiserver.apiserver.serving.process.signals import ServerSignals
    from kapiserver.rpc.calls import GroupRunner, Limits
    from kapiserver.rpc.loading import load_groups
    from kapiserver.rpc.serving import serve_rpc

    limits = Limits(
        calls=options.max_calls,
        message_bytes=options.max_message_size,
        seconds=options.call_timeout,
    )
    runners = [GroupRunner(group, limits) for group in load_groups(options.directory)]
    signals = ServerSignals()
    async with serve_rpc(runners, addresses, grace=options.shutdown_timeout) as listening:
        _print_greeting(listening)
        await signals.stop.wait()


def _print_greeting(listening: Listening) -> None:
    from kapiserver.apiserver.output import STANDARD_OUTPUT

    lines = [f"serving unix:{path}" for path in listening.sockets]
    if listening.port:
        lines.append(f"serving TCP port {listening.port}")
    STANDARD_OUTPUT.write("".join(f"{line}\n" for line in lines))
