"""The command line of a program of controllers: `Manager(...).main()`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Protocol, TypeAlias

from kapiserver.apiserver.metrics import WorkQueueMetrics
from kapiserver.apiserver.webhooks.in_cluster import SERVICE_ACCOUNT
from kapiserver.client import Client

_log = logging.getLogger(__name__)


class Running(Protocol):
    """The controllers that run."""

    @property
    def is_ready(self) -> bool:
        """Whether the informers have all objects."""


Run: TypeAlias = Callable[..., AbstractAsyncContextManager[Running]]
"""`Manager.run`."""


def run(run_controllers: Run, names: Sequence[str], arguments: Sequence[str] | None) -> int:
    """Run the controllers of these names until a signal and return the exit code; an error is one
    line on standard error."""
    options = _parser(names).parse_args(arguments)
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(options.verbose, 2)]
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(_run(run_controllers, options))
    except Exception as error:
        if options.verbose:
            raise
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser(names: Sequence[str]) -> argparse.ArgumentParser:
    text = f"Run {', '.join(names)} until SIGTERM or SIGINT."
    parser = argparse.ArgumentParser(description=text)
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE",
        help="The kubeconfig of the cluster. Default: $KUBECONFIG, else the files of the pod, else "
        "~/.kube/config.",
    )  # fmt: skip
    parser.add_argument(
        "--namespace", default="", metavar="NAME",
        help="Reconcile the objects of this namespace only. Default: all namespaces.",
    )  # fmt: skip
    parser.add_argument(
        "--leader-elect", action="store_true",
        help="Run the controllers only while this process holds a Lease. Off by default.",
    )  # fmt: skip
    parser.add_argument(
        "--leader-elect-resource-name", default="controllers", metavar="NAME",
        help="The name of the Lease. Default: %(default)s.",
    )  # fmt: skip
    parser.add_argument(
        "--leader-elect-resource-namespace", default="", metavar="NAME",
        help="The namespace of the Lease. Default: that of the pod, else default.",
    )  # fmt: skip
    parser.add_argument(
        "--health-probe-bind-address", default="0", metavar="HOST:PORT",
        help="Serve /healthz, /readyz and /metrics at this address without TLS; :PORT means all "
        "addresses. Default: 0, which means nowhere.",
    )  # fmt: skip
    parser.add_argument(
        "-v", "--verbose", action="count", default=0,
        help="Log more: -v retries and leaders, -vv debug messages. By default (0) only warnings "
        "and errors are logged.",
    )  # fmt: skip
    return parser


async def _run(run_controllers: Run, options: argparse.Namespace) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises instead
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    lease = ""
    if options.leader_elect:
        namespace = options.leader_elect_resource_namespace or _namespace_of_pod() or "default"
        lease = f"{namespace}/{options.leader_elect_resource_name}"
    metrics = WorkQueueMetrics()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client.from_kubeconfig(options.kubeconfig or ""))
        running = await stack.enter_async_context(
            run_controllers(client, namespace=options.namespace, lease=lease, metrics=metrics)
        )
        address = options.health_probe_bind_address
        if address != "0":
            from kapiserver.extension.controllers.health import HealthPort  # off by default

            port = HealthPort(lambda: running.is_ready, metrics)
            url = await stack.enter_async_context(port.listen(address))
            _log.info("health and metrics at %s", url)
        await stop.wait()


def _namespace_of_pod() -> str:
    file = SERVICE_ACCOUNT / "namespace"
    return file.read_text().strip() if file.exists() else ""
