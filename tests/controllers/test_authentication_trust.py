"""The ConfigMap extension-apiserver-authentication shows what servers trust."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.user import APISERVER
from kapiserver.app import RunningServer, serve
from kapiserver.controllers.certificates.authentication_trust import CONFIG_MAP
from tests.apiserver.authentication.test_client_certificates import Authority

HEADERS: dict[str, Any] = {
    "requestheader_username_headers": ("X-Remote-User",),
    "requestheader_group_headers": ("X-Remote-Group",),
    "requestheader_extra_headers_prefix": ("X-Remote-Extra-",),
    "requestheader_allowed_names": ("proxy",),
}


async def _published(running: RunningServer, expected: dict[str, str]) -> None:
    """Wait until the ConfigMap has the expected data."""
    client = running.cluster.server.client(APISERVER, authorize=False)
    config_maps = client.resource("v1", "configmaps", namespace="kube-system")
    async with asyncio.timeout(30):
        async for event in config_maps.watch(fieldSelector=f"metadata.name={CONFIG_MAP}"):
            if event.type in ("ADDED", "MODIFIED") and event.object["data"] == expected:
                return


def test_published(tmp_path: Path) -> None:
    """The CAs of users and of front proxies are published, with the headers; a second server adds
    its own, and a removed value is restored."""
    users, proxies, others = (Authority(tmp_path, name) for name in ("users", "proxies", "others"))

    async def run() -> None:
        config = Config.of(
            cert_dir=tmp_path / "server", storage=f"sqlite:{tmp_path / 'store.db'}",
            client_ca_file=users.file, requestheader_client_ca_file=proxies.file, **HEADERS,
        )  # fmt: skip
        async with serve(config) as running:
            own = (tmp_path / "server" / "ca.crt").read_text()
            expected = {
                "client-ca-file": own + users.file.read_text(),
                "requestheader-client-ca-file": proxies.file.read_text(),
                "requestheader-username-headers": '["X-Remote-User"]',
                "requestheader-uid-headers": "[]",
                "requestheader-group-headers": '["X-Remote-Group"]',
                "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
                "requestheader-allowed-names": '["proxy"]',
            }
            await _published(running, expected)
            client = running.cluster.server.client(APISERVER, authorize=False)
            config_maps = client.resource("v1", "configmaps", namespace="kube-system")
            await config_maps.patch(CONFIG_MAP, {"data": {"requestheader-allowed-names": "{"}})
            await _published(running, expected)
        settings = HEADERS | {"requestheader_allowed_names": ("other",)}
        second = Config.of(
            cert_dir=tmp_path / "server", storage=config.store.storage, client_ca_file=others.file,
            requestheader_client_ca_file=proxies.file, **settings,
        )  # fmt: skip
        async with serve(second) as running:
            expected["client-ca-file"] += others.file.read_text()
            expected["requestheader-allowed-names"] = json.dumps(
                ["proxy", "other"], separators=(",", ":")
            )
            await _published(running, expected)

    asyncio.run(run())
