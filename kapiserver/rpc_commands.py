"""`kapiserver rpc generate|release`: flags, output and exit codes of the generator of RPC groups.

`rpc/generator/` does the work. It needs the extra `kapiserver[rpc]` and is loaded when a command
runs.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

OUTDATED = 3
"""Exit code of `generate --check` if files are out of date; 1 means that definitions are wrong."""


def add_rpc_commands(parser: argparse.ArgumentParser) -> None:
    """Add the commands and their flags."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    _add_generate(commands)
    _add_release(commands)


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
    release.add_argument(
        "name", metavar="NAME", help="Name of the release, such as 1.2.0. Required."
    )


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "directory", type=Path, metavar="DIR", help="Directory of the groups. Required."
    )
    parser.add_argument(
        "--project", metavar="NAME",
        help="Project, the first part of the names of sockets. "
        "Default: the name of DIR, with - for _.",
    )  # fmt: skip


def _generate(options: argparse.Namespace) -> int:
    _require_grpc()
    from kapiserver.rpc.generator.files import generate

    changed = generate(
        options.directory, _project(options), datetime.date.today(), write=not options.check
    )
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
