"""The program `kapiserver testing-server`: a TestServer in a process of its own, for tests in any
language, and its control API."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kapiserver.apiserver.output import STANDARD_OUTPUT
from kapiserver.apiserver.private_files import write_private
from kapiserver.apiserver.serving.process import logs
from kapiserver.apiserver.serving.process.event_loop import loop_factory
from kapiserver.apiserver.serving.process.memory import manage_memory
from kapiserver.apiserver.serving.process.signals import ServerSignals
from kapiserver.codecs import json
from kapiserver.testing.control_api.parent_process import call_at_end_of_input, call_at_exit_of
from kapiserver.testing.control_api.server import ControlApi
from kapiserver.testing.server import TestServer

_log = logging.getLogger(__name__)


def run_testing_server(
    settings: Mapping[str, Any],
    *,
    control_port: int,
    ready_file: Path | None,
    parent_pid: int | None,
    verbosity: int,
) -> None:
    """Serve until a signal or until the parent has ended.

    settings        settings of TestServer; the control API listens on the same address
    ready_file      gets the line that is printed on standard output, too
    parent_pid      the process to end with; None: only the one at the other end of the input pipe
    """
    gc.disable()  # until the server runs; see `run_server` in cli.py
    logs.set_up(logs.Verbosity(verbosity))
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(settings, control_port, ready_file, parent_pid))


async def _serve(
    settings: Mapping[str, Any],
    control_port: int,
    ready_file: Path | None,
    parent_pid: int | None,
) -> None:
    signals = ServerSignals()
    stop = signals.stop.set
    if parent_pid is not None:
        call_at_exit_of(parent_pid, _stop(stop, f"process {parent_pid} has ended"))
    call_at_end_of_input(_stop(stop, "standard input was closed"))
    async with TestServer(**settings) as server:
        api = ControlApi(server)
        address = settings.get(
            "bind_address", server.running.cluster.server.config.serving.bind_address
        )
        async with api.listen(address, control_port):
            signals.serve(reload=server.running.reload, status=server.running.status)
            manage_memory()
            line = json.encode_value(_description(server, api)) + b"\n"
            if ready_file is not None:
                write_private(ready_file, line)
            STANDARD_OUTPUT.write(line.decode())
            await signals.stop.wait()


def _stop(stop: Callable[[], None], reason: str) -> Callable[[], None]:
    def stop_with_reason() -> None:
        _log.info("stopping: %s", reason)
        stop()

    return stop_with_reason


def _description(server: TestServer, api: ControlApi) -> dict[str, Any]:
    """Return what a test needs to know of the server."""
    description = {
        "url": server.url,
        "insecureUrl": server.insecure_url,
        "ca": str(server.ca or ""),
        "token": server.token,
        "kubeconfig": str(server.running.kubeconfig or ""),
        "pid": os.getpid(),
        "controlUrl": api.url,
        "controlToken": api.token,
    }
    if server.page_url:
        description["pageUrl"] = server.page_url
    return description
