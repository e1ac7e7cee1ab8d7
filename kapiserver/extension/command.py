"""The command line of an extension API server: `ApiServer(...).main()`.

The flags are those of `kapiserver serve` that have a meaning here, and those of Go's extension API
servers.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kapiserver.apiserver.config import SECTIONS, Config
from kapiserver.apiserver.feature_gates import parse_feature_gates
from kapiserver.apiserver.output import STANDARD_OUTPUT
from kapiserver.apiserver.serving.process import logs
from kapiserver.apiserver.serving.process.event_loop import loop_factory
from kapiserver.apiserver.serving.process.memory import manage_memory, use_one_heap
from kapiserver.apiserver.serving.process.signals import ServerSignals
from kapiserver.extension.delegation import Delegation
from kapiserver.extension.resources import Resource
from kapiserver.extension.serving import RunningServer, serve
from kapiserver.flags import add_feature_gates_flag
from kapiserver.flags.admission import add_admission_plugin_flags
from kapiserver.flags.aggregation import add_service_resolver_flag
from kapiserver.flags.audit import add_audit_flags, add_audit_webhook_flags, check_audit_batches
from kapiserver.flags.backends import add_backend_flags
from kapiserver.flags.certificates import add_certificate_flags
from kapiserver.flags.debugging import add_debugging_flags, flag_texts
from kapiserver.flags.delegation import add_delegation_flags
from kapiserver.flags.logs import add_logging_flags
from kapiserver.flags.pairs import check_pairs
from kapiserver.flags.serving import add_address_flags
from kapiserver.flags.storage import (
    add_encryption_flags,
    add_storage_flags,
    check_storage_flags,
    storage_of,
)

if TYPE_CHECKING:
    from kapiserver.extension.controllers.controller import Controller

_PROXY_HEADERS = {
    "requestheader_username_headers": ("x-remote-user",),
    "requestheader_group_headers": ("x-remote-group",),
    "requestheader_extra_headers_prefix": ("x-remote-extra-",),
}
"""The headers of front proxies, unless flags name others; those of Go's extension API servers."""


def run(
    resources: Sequence[Resource[Any]],
    controllers: Sequence[type[Controller[Any]]],
    arguments: Sequence[str] | None = None,
) -> int:
    """Serve until a signal and return the exit code; an error is one line on standard error."""
    options = _parser(resources).parse_args(arguments)
    try:
        _serve(resources, controllers, options)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if options.verbose:
            raise
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser(resources: Sequence[Resource[Any]]) -> argparse.ArgumentParser:
    names = ", ".join(resource.name for resource in resources)
    parser = argparse.ArgumentParser(description=f"Serve {names} until SIGTERM or SIGINT.")
    add_address_flags(parser.add_argument_group("serving"))
    add_certificate_flags(parser.add_argument_group("certificates"))
    add_delegation_flags(parser.add_argument_group("the host cluster"))
    admission = parser.add_argument_group("admission by the host cluster")
    add_admission_plugin_flags(admission)
    add_service_resolver_flag(admission)
    audit = parser.add_argument_group("audit")
    add_audit_flags(audit)
    add_audit_webhook_flags(audit)
    storage = parser.add_argument_group("storage")
    add_storage_flags(storage)
    add_encryption_flags(storage)
    add_backend_flags(parser)
    add_feature_gates_flag(parser.add_argument_group("features"))
    add_debugging_flags(parser.add_argument_group("debugging"))
    add_logging_flags(parser)
    parser.set_defaults(flags=parser._actions)
    return parser


def config_of(options: argparse.Namespace) -> Config:
    """Return the settings of parsed flags. Raises ValueError for flags that contradict each
    other."""
    check_pairs(options)
    check_audit_batches(options)
    check_storage_flags(options)
    own = frozenset(Delegation.__struct_fields__)
    settings = {
        name: value for name, value in vars(options).items() if name in SECTIONS and name not in own
    }
    if options.requestheader_client_ca_file is not None:
        settings |= {name: settings[name] or names for name, names in _PROXY_HEADERS.items()}
    return Config.of(**settings).replace(
        storage=storage_of(options),
        cert_dir=options.cert_dir or options.data_dir / "certificates",
        kubeconfig_out=options.data_dir / "kubeconfig",
        tls_sni_cert_key=tuple(options.tls_sni_cert_key),
        feature_gates=parse_feature_gates(",".join(options.feature_gates)),
        flags=tuple(flag_texts(options)),
        verbosity=options.verbose,
    )


def delegation_of(options: argparse.Namespace) -> Delegation:
    """Return the settings of delegation."""
    fields = Delegation.__struct_fields__
    return Delegation(**{name: value for name, value in vars(options).items() if name in fields})


def _serve(
    resources: Sequence[Resource[Any]],
    controllers: Sequence[type[Controller[Any]]],
    options: argparse.Namespace,
) -> None:
    use_one_heap()
    config = config_of(options)
    logs.set_up(
        logs.Verbosity(config.serving.verbosity, config.serving.vmodule),
        config.serving.logging_format,
    )
    options.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve_until_signal(resources, controllers, config, delegation_of(options)))


async def _serve_until_signal(
    resources: Sequence[Resource[Any]],
    controllers: Sequence[type[Controller[Any]]],
    config: Config,
    delegation: Delegation,
) -> None:
    signals = ServerSignals()
    serving = serve(resources, config, delegation=delegation, controllers=controllers)
    async with serving as running:
        STANDARD_OUTPUT.write(_greeting(resources, running))
        manage_memory()
        signals.serve(reload=running.reload, status=lambda: _status(running))
        await signals.stop.wait()


def _greeting(resources: Sequence[Resource[Any]], running: RunningServer) -> str:
    lines = [f"serving {running.url}"]
    if running.kubeconfig is not None:
        lines.append(f"  export KUBECONFIG={running.kubeconfig.resolve()}")
        lines += [f"  kubectl get {resource.plural}" for resource in resources[:1]]
    return "\n".join(lines) + "\n"


def _status(running: RunningServer) -> Mapping[str, object]:
    server = running.server
    return {
        "requests": server.metrics.in_flight.executing,
        "watches": server.metrics.requests.open_streams,
        "objects": sum(store.cache.count for store in server.stores.in_use()),
    }
