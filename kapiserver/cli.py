"""The command line: flags in, one frozen Config out. The only module that reads flags.

Names are kube-apiserver's where it has the flag. What a command needs is imported when it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kapiserver import __version__
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.feature_gates import described, parse_feature_gates
from kapiserver.controllers.registry import CONTROLLER_NAMES, enabled_controllers
from kapiserver.storage.backends import backend_of
from kapiserver.storage_commands import add_storage_commands

if TYPE_CHECKING:
    from kapiserver.apiserver.serving.workers import Seat
    from kapiserver.app import RunningServer

DEFAULTS = Config()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
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


def parser() -> argparse.ArgumentParser:
    """All commands and their flags."""
    found = argparse.ArgumentParser(
        prog="kapiserver", description="A Kubernetes API server in Python."
    )
    found.add_argument("--version", action="version", version=f"kapiserver {__version__}")
    commands = found.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands.add_parser("serve", help="serve the Kubernetes API"))
    add_storage_commands(commands.add_parser("storage", help="look after the file of a store"))
    _add_recode(commands.add_parser("recode", help="write one object in another encoding"))
    return found


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_serve)
    add = parser.add_argument
    serving = parser.add_argument_group("serving")
    serving.add_argument("--bind-address", default="127.0.0.1", metavar="IP")
    serving.add_argument(
        "--secure-port", type=_port, default=6443, metavar="PORT", help="HTTPS; 0: a free one"
    )
    serving.add_argument(
        "--insecure-port", type=_port, metavar="PORT",
        help="plain HTTP on the loopback, everybody an administrator; off unless given",
    )  # fmt: skip
    serving.add_argument(
        "--cert-dir", type=Path, metavar="DIR", help="own CA and certificates, made when missing"
    )
    serving.add_argument("--tls-cert-file", type=Path, metavar="FILE")
    serving.add_argument("--tls-private-key-file", type=Path, metavar="FILE")
    serving.add_argument(
        "--service-cluster-ip-range", default=DEFAULTS.service_cluster_ip_range, metavar="CIDR"
    )
    serving.add_argument(
        "--service-node-port-range", default=DEFAULTS.service_node_port_range, metavar="FROM-TO"
    )
    serving.add_argument(
        "--runtime-config", action="append", default=[], metavar="KEY=BOOL,...",
        help="versions to turn on or off: api/all, api/beta, GROUP/VERSION[/RESOURCE]",
    )  # fmt: skip
    serving.add_argument(
        "--kubeconfig-out", type=Path, metavar="FILE", help="an administrator's kubeconfig"
    )
    serving.add_argument(
        "--feature-gates", action="append", default=[], metavar="NAME=BOOL,...", help=described()
    )
    serving.add_argument(
        "--workers", type=_count, default=DEFAULTS.workers, metavar="N",
        help="processes that share the port, over etcd only; bounds are for each",
    )  # fmt: skip
    users = parser.add_argument_group("authentication")
    users.add_argument("--client-ca-file", type=Path, metavar="FILE")
    users.add_argument(
        "--token-auth-file", type=Path, metavar="FILE", help='CSV: token,user,uid,"group1,group2"'
    )
    users.add_argument("--anonymous-auth", type=_bool, default=True, metavar="BOOL")
    _add_service_accounts(users)
    _add_admission(parser.add_argument_group("admission and controllers"))
    _add_storage(parser.add_argument_group("storage"))
    _add_bounds(parser.add_argument_group("bounds"))
    add("-v", "--verbose", action="count", default=0, help="log each request; -vv: all there is")


def _add_admission(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--enable-admission-plugins", type=_list, default=(), metavar="NAME,...")
    group.add_argument("--disable-admission-plugins", type=_list, default=(), metavar="NAME,...")
    group.add_argument(
        "--admission-control-config-file", type=Path, metavar="FILE",
        help="an AdmissionConfiguration: defaults and exemptions of PodSecurity",
    )  # fmt: skip
    group.add_argument(
        "--controllers", type=_list, default=DEFAULTS.controllers, metavar="NAME,...",
        help="controllers to run: '*' for all, NAME, -NAME; known: "
        + ", ".join(sorted(CONTROLLER_NAMES)),
    )  # fmt: skip


def _add_service_accounts(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--service-account-issuer", action="append", metavar="URL",
        help="signs tokens; given more than once, the others are believed too",
    )  # fmt: skip
    group.add_argument(
        "--service-account-key-file", action="append", type=Path, metavar="FILE",
        help="keys whose signature is believed",
    )  # fmt: skip
    group.add_argument("--service-account-signing-key-file", type=Path, metavar="FILE")
    group.add_argument("--service-account-jwks-uri", default="", metavar="URL")
    group.add_argument("--api-audiences", type=_list, default=(), metavar="NAME,...")


def _add_storage(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--data-dir", type=Path, default=Path(".data"), metavar="DIR",
        help="where everything is kept that has no flag of its own",
    )  # fmt: skip
    group.add_argument(
        "--storage",
        metavar="SPEC",
        help="sqlite:PATH (default, below --data-dir), sqlite::memory:, etcd:URL,...",
    )
    group.add_argument("--etcd-servers", type=_list, metavar="URL,...")
    group.add_argument("--etcd-prefix", default=DEFAULTS.etcd_prefix, metavar="PATH")
    group.add_argument("--etcd-cafile", type=Path, metavar="FILE", help="signs etcd's certificates")
    group.add_argument("--etcd-certfile", type=Path, metavar="FILE", help="shown to etcd")
    group.add_argument("--etcd-keyfile", type=Path, metavar="FILE")
    group.add_argument("--etcd-username", default="", metavar="NAME", help="a user of etcd's own")
    group.add_argument(
        "--etcd-password-file", type=Path, metavar="FILE",
        help="holds that user's password, where no list of processes shows it",
    )  # fmt: skip
    group.add_argument(
        "--etcd-compaction-interval", type=_seconds, metavar="DURATION",
        default=DEFAULTS.etcd_compaction_interval,
        help="how long history is kept at least, by every storage; 0: for ever",
    )  # fmt: skip
    group.add_argument(
        "--encryption-provider-config", type=Path, metavar="FILE",
        help="an EncryptionConfiguration: which resources are sealed at rest, with which keys",
    )  # fmt: skip
    group.add_argument(
        "--encryption-provider-config-automatic-reload", type=_bool, nargs="?", const=True,
        default=False, metavar="BOOL", help="look at that file every minute",
    )  # fmt: skip
    group.add_argument("--event-ttl", type=_seconds, default=3600.0, metavar="DURATION")


def _add_bounds(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-requests-inflight", type=int, default=DEFAULTS.max_requests_inflight, metavar="N"
    )
    group.add_argument(
        "--max-mutating-requests-inflight", type=int, metavar="N",
        default=DEFAULTS.max_mutating_requests_inflight,
    )  # fmt: skip
    group.add_argument(
        "--request-timeout", type=_seconds, default=DEFAULTS.request_timeout, metavar="DURATION"
    )
    group.add_argument(
        "--min-request-timeout", type=int, default=DEFAULTS.min_request_timeout, metavar="SECONDS",
        help="watches last this long, or up to twice as long",
    )  # fmt: skip


def _add_recode(parser: argparse.ArgumentParser) -> None:
    media = "json, yaml, protobuf, cbor or a media type"
    parser.set_defaults(command=_recode, verbose=0)
    parser.add_argument("--from", dest="from_", metavar="MEDIA", help=f"{media}; else recognised")
    parser.add_argument("--to", required=True, metavar="MEDIA", help=media)


def config_of(options: argparse.Namespace) -> Config:
    """The settings that flags say. Raises ValueError for flags that do not go together."""
    from kapiserver.apiserver.admission.plugins import AdmissionPlugins

    if (options.tls_cert_file is None) != (options.tls_private_key_file is None):
        raise ValueError("--tls-cert-file and --tls-private-key-file go together")
    if (options.etcd_certfile is None) != (options.etcd_keyfile is None):
        raise ValueError("--etcd-certfile and --etcd-keyfile go together")
    if bool(options.etcd_username) != (options.etcd_password_file is not None):
        raise ValueError("--etcd-username and --etcd-password-file go together")
    if options.encryption_provider_config_automatic_reload and (
        options.encryption_provider_config is None
    ):
        raise ValueError(
            "--encryption-provider-config-automatic-reload must be set with "
            "--encryption-provider-config"
        )
    AdmissionPlugins(
        enable=options.enable_admission_plugins, disable=options.disable_admission_plugins
    )
    enabled_controllers(options.controllers)
    data: Path = options.data_dir
    storage = options.storage or f"sqlite:{data / 'kapiserver.db'}"
    if options.etcd_servers is not None:
        if not options.etcd_servers:  # a variable that is not set: not to be taken for no etcd
            raise ValueError("--etcd-servers must be specified")
        if options.storage:
            raise ValueError("--storage and --etcd-servers exclude each other")
        storage = f"etcd:{','.join(options.etcd_servers)}"
    if options.workers > 1 and not backend_of(storage).shared:
        raise ValueError("--workers needs --etcd-servers: one process owns an embedded store")
    if options.workers > 1 and not hasattr(os, "fork"):
        raise ValueError("--workers needs a system on which processes fork")
    names = Config.__dataclass_fields__.keys() & vars(options).keys()
    given = {name: getattr(options, name) for name in names}
    return replace(
        Config(**given),
        storage=storage,
        cert_dir=options.cert_dir or data / "certificates",
        kubeconfig_out=options.kubeconfig_out or data / "kubeconfig",
        event_ttl=int(options.event_ttl),
        service_account_issuer=tuple(
            options.service_account_issuer or DEFAULTS.service_account_issuer
        ),
        service_account_key_file=tuple(options.service_account_key_file or ()),
        feature_gates=parse_feature_gates(",".join(options.feature_gates)),
        runtime_config=",".join(options.runtime_config),
        verbosity=options.verbose,
    )


def _serve(options: argparse.Namespace) -> int:
    from kapiserver.apiserver.serving import logs

    # Start-up makes much that stays and hardly any garbage: looking for it would cost 5 % of it.
    gc.disable()
    config = config_of(options)
    logs.set_up(config.verbosity)
    options.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    if config.workers == 1:
        _serve_alone(config)
        return 0
    from kapiserver import app  # noqa: F401 - what workers share is imported once
    from kapiserver.apiserver.serving.tls import credentials
    from kapiserver.apiserver.serving.workers import supervise

    if config.cert_dir is not None:
        credentials(config, config.cert_dir)  # made once, before several would
    return supervise(config, _serve_as_worker)


def _serve_alone(config: Config) -> None:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_until_told(config))


def _serve_as_worker(config: Config, seat: Seat) -> None:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_until_told(config, seat))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _until_told(config: Config, seat: Seat | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then drain; a second signal ends the process at once. A
    worker is told by its supervisor, or its supervisor's end."""
    from kapiserver.apiserver.serving.process_memory import tend
    from kapiserver.app import serve

    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT) if seat is None else (signal.SIGTERM,):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises instead
            loop.add_signal_handler(number, _tell, told, number)
    serving = serve(config) if seat is None else serve(config, barrier=seat.everybody)
    async with serving as running:
        if seat is None or seat.greets:
            sys.stdout.write(_greeting(running))
            sys.stdout.flush()
        if seat is not None:
            seat.when_left_alone(told.set)
        tend()
        await told.wait()


def _tell(told: asyncio.Event, number: signal.Signals) -> None:
    if told.is_set():
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    told.set()


def _greeting(running: RunningServer) -> str:
    lines = [f"kapiserver {__version__} serves {running.url}"]
    if running.insecure_url and running.insecure_url != running.url:
        lines.append(f"and, for administrators on this machine, {running.insecure_url}")
    if running.kubeconfig is not None:
        lines.append(f"  export KUBECONFIG={running.kubeconfig.resolve()}")
        lines.append("  kubectl get namespaces")
    return "\n".join(lines) + "\n"


def _recode(options: argparse.Namespace) -> int:
    from kapiserver.api.scheme import Scheme
    from kapiserver.codecs.factory import CodecFactory
    from kapiserver.codecs.recode import recode

    data = sys.stdin.buffer.read()
    written = recode(data, options.from_, options.to, codecs=CodecFactory(Scheme()))
    sys.stdout.buffer.write(written)
    return 0


def _port(text: str) -> int:
    return _number(text, 0, 65535)


def _count(text: str) -> int:
    return _number(text, 1, 256)


def _number(text: str, least: int, most: int) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from {least} to {most}")
    return int(text)


def _bool(text: str) -> bool:
    found = {"": True, "true": True, "false": False}.get(text.lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return found


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _seconds(text: str) -> float:
    from kapiserver.apiserver.durations import parse_duration

    seconds = parse_duration(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
