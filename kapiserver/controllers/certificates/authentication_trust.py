"""Publishes how this cluster authenticates clients, for extension API servers: the ConfigMap
`kube-system/extension-apiserver-authentication`.

If several servers share a store, each adds what it trusts, and removes expired CAs only. Mirrors
pkg/controlplane/controller/clusterauthenticationtrust of kube-apiserver.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.client_authorities import (
    client_authority_files,
    pem_certificates,
    read_certificates,
)
from kapiserver.apiserver.config import Config
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import create_missing, update_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

NAMESPACE = "kube-system"
CONFIG_MAP = "extension-apiserver-authentication"
KEY = ObjectKey(NAMESPACE, CONFIG_MAP)
_PATH_END = f"/{NAMESPACE}/{CONFIG_MAP}"
RESYNC_SECONDS = 60.0
"""The time between two checks of the files."""
_LISTS = (
    "requestheader-username-headers",
    "requestheader-uid-headers",
    "requestheader-group-headers",
    "requestheader-extra-headers-prefix",
    "requestheader-allowed-names",
)
"""Keys of the ConfigMap whose values are JSON lists, by the names of the settings."""

_log = logging.getLogger(__name__)


class AuthenticationTrustController(Controller[ObjectKey]):
    """The control loop; its queue holds the key of the ConfigMap."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._config = context.server.config

    def set_up(self) -> None:
        """Watch ConfigMaps, if the server accepts client certificates."""
        if (
            client_authority_files(self._config)
            or self._config.authentication.requestheader_client_ca_file
        ):
            self._config_maps = self.watch(CORE, "configmaps", _for_config_map)
            self.resync(RESYNC_SECONDS, lambda: [KEY])

    async def reconcile(self, key: ObjectKey) -> None:
        """Add what this server trusts to the ConfigMap."""
        current = self._config_maps.lister.get(key)
        trusted, now = _trust_data(self._config), self.clock.now()
        config_maps = self.context.resource("v1", "configmaps", namespace=NAMESPACE)
        if current is None:
            await create_missing(config_maps, {"metadata": {"name": key.name}, "data": trusted})
            return

        def change(tree: Tree) -> Tree:
            return tree | {"data": _combine(tree.get("data") or {}, trusted, now)}

        if change(current.tree()) != current.tree():
            await update_object(config_maps, key.name, change)


def _for_config_map(change: ObjectChange) -> Iterable[ObjectKey]:
    return (KEY,) if change.last.path.endswith(_PATH_END) else ()


def _trust_data(config: Config) -> dict[str, str]:
    """Return the data of the ConfigMap for one server."""
    data: dict[str, str] = {}
    files = client_authority_files(config)
    if files:
        data["client-ca-file"] = _bundle(files)
    if config.authentication.requestheader_client_ca_file is not None:
        data["requestheader-client-ca-file"] = _bundle(
            [config.authentication.requestheader_client_ca_file]
        )
        for key in _LISTS:
            data[key] = _json(getattr(config.authentication, key.replace("-", "_")))
    return data


def _bundle(files: Sequence[Path]) -> str:
    certificates: dict[str, None] = {}
    for file in files:
        try:
            certificates.update(dict.fromkeys(read_certificates(file)))
        except (OSError, ValueError) as error:  # a file that is being replaced
            _log.error("the client CAs of %s are not published: %s", file, error)
    return "".join(certificates)


def _combine(current: Mapping[str, str], trusted: Mapping[str, str], now: float) -> dict[str, str]:
    """Return the data with what this server trusts added."""
    data = dict(current)
    for key, text in trusted.items():
        old = data.get(key) or ""
        if key in _LISTS:
            data[key] = _json(dict.fromkeys((*_parsed(old), *_parsed(text))))
        else:
            certificates = dict.fromkeys((*pem_certificates(old), *pem_certificates(text)))
            # The server keeps its own CAs even if they have expired: the administrator set them.
            current_certificates = frozenset(pem_certificates(text))
            data[key] = "".join(
                certificate
                for certificate in certificates
                if certificate in current_certificates or not _has_expired(certificate, now)
            )
    return data


def _has_expired(certificate: str, now: float) -> bool:
    from cryptography import x509  # needed only if several servers trust different CAs

    try:
        parsed = x509.load_pem_x509_certificate(certificate.encode())
    except ValueError:
        return True
    return parsed.not_valid_after_utc.timestamp() < now


def _json(values: Iterable[str]) -> str:
    return json.dumps(list(values), separators=(",", ":"), ensure_ascii=False)


def _parsed(text: str) -> list[str]:
    try:
        values: Tree | list[str] = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
