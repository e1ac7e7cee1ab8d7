"""Servers with admission plugins and their configurations, for tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from kapiserver.apiserver.admission.plugin import Plugin
from kapiserver.apiserver.admission.plugins import PLUGINS
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.user import User
from kapiserver.app import serve
from kapiserver.parts import Parts
from tests.clock import ManualClock

JANE, KIM = (User(name=name, groups=("system:masters",)) for name in ("jane", "kim"))
PODS = "/api/v1/namespaces/default/pods"
KIND = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i"}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def write_configuration(folder: Path, name: str, configuration: Any) -> Path:
    """Write an AdmissionConfiguration with the configuration of one plugin. Returns its path."""
    file = folder / "admission.json"
    plugin = {"name": name, "configuration": configuration}
    file.write_text(json.dumps({**KIND, "plugins": [plugin]}))
    return file


def run(
    test: Callable[[Server], Awaitable[None]],
    clock: ManualClock | None = None,
    plugins: Sequence[Plugin] = PLUGINS,
    **settings: Any,
) -> None:
    """Run a test with a server of its own."""

    async def serve_and_test() -> None:
        config = Config.of(
            secure_port=None,
            insecure_port=0,
            shutdown_timeout=1,
            **{"controllers": ("-*",), **settings},
        )
        async with serve(config, Parts(clock=clock, admission_plugins=plugins)) as running:
            await test(running.cluster.server)

    asyncio.run(serve_and_test())
