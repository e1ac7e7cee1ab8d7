"""Whose client certificates the host cluster trusts: those of its users, and of front proxies.

The host publishes its CAs, and the headers of its front proxies, in the ConfigMap
extension-apiserver-authentication of kube-system. The server reads it before it serves, and again
whenever a watch shows a change. Mirrors dynamic_cafile_content.go, configmap_cafile_content.go and
requestheader_controller.go of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from pathlib import Path

import orjson

from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.client_authorities import OWN_CA, ClientAuthorities
from kapiserver.apiserver.authentication.request_header import RequestHeaderAuthenticator
from kapiserver.apiserver.config import AuthenticationSettings
from kapiserver.apiserver.http_client.session import StreamingClient
from kapiserver.apiserver.private_files import PUBLIC, write_private
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.user import User
from kapiserver.extension.host_cluster import HostCluster, HostFailed
from kapiserver.storage.concurrency.clock import Clock, wait

NAME = "extension-apiserver-authentication"
PATH = "/api/v1/namespaces/kube-system/configmaps"
WATCH_SECONDS = 300
"""The time of a watch; the ConfigMap is read again when it ends."""
RETRY_SECONDS = 10.0
LOOKUP_SECONDS = 10.0
WATCH_GRACE_SECONDS = 30.0
"""A watch that has not ended these seconds after its time is given up: the host is gone, and the
connection does not show it."""

_log = logging.getLogger(__name__)


class FrontProxies:
    """Recognizes the users whom front proxies of the host name in headers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._authenticator: RequestHeaderAuthenticator | None = None

    def trust(self, data: Tree) -> None:
        """Use what the data of the ConfigMap says. Raises ValueError for data that is malformed."""
        pem = data.get("requestheader-client-ca-file") or ""
        if not pem:
            self._authenticator = None
            return
        authorities = ClientAuthorities(())
        authorities.trust(pem)
        settings = AuthenticationSettings(
            requestheader_allowed_names=_names(data, "requestheader-allowed-names"),
            requestheader_username_headers=_names(data, "requestheader-username-headers"),
            requestheader_uid_headers=_names(data, "requestheader-uid-headers"),
            requestheader_group_headers=_names(data, "requestheader-group-headers"),
            requestheader_extra_headers_prefix=_names(data, "requestheader-extra-headers-prefix"),
        )
        self._authenticator = RequestHeaderAuthenticator(settings, authorities, self._clock)

    def authenticate(self, request: Request) -> User | None:
        """Return the user whom the headers name, or None. Raises InvalidCredentials."""
        if self._authenticator is None:
            return None
        return self._authenticator.authenticate(request)


def _names(data: Tree, key: str) -> tuple[str, ...]:
    """Return a list of names, which is JSON in a text. Raises ValueError."""
    names = orjson.loads(data.get(key) or "[]")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{key} is not a list of strings")
    return tuple(names)


class HostTrust:
    """Follows the ConfigMap of the host.

    front_proxies   those of the host
    users           the CAs of users; None: those of the host are not used
    file            the CAs of all, for TLS; the server's CA is in the same folder; None without TLS
    """

    def __init__(
        self, host: HostCluster, clock: Clock, users: ClientAuthorities | None, file: Path | None
    ) -> None:
        self.front_proxies = FrontProxies(clock)
        self.users = users
        self.file = file
        self._host = host
        self._clock = clock
        self._data: Tree = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self, *, tolerates_failure: bool) -> None:
        """Read the ConfigMap, write the file, and follow the ConfigMap from then on. Raises
        OSError, and ValueError if it cannot be read and the failure is not tolerated."""
        self._write_file()
        client = StreamingClient()
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                await self._read(client)
        except (HostFailed, TimeoutError) as error:
            reason = str(error) or f"no answer within {LOOKUP_SECONDS:g} seconds"
            text = f"unable to load configmap based request-header-client-ca-file: {reason}"
            if not tolerates_failure:
                raise ValueError(text) from None
            _log.warning("%s; trying again", text)
        finally:
            client.close()
        self._task = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Stop following the ConfigMap. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            client = StreamingClient()
            try:
                async with asyncio.timeout(WATCH_SECONDS + WATCH_GRACE_SECONDS):
                    await self._read_and_watch(client)
            except (HostFailed, TimeoutError) as error:
                text = str(error) or "the watch has not ended in time"
                _log.warning("the CAs of the host cluster are not read again: %s", text)
                await wait(self._clock, RETRY_SECONDS)
            finally:
                client.close()

    async def _read_and_watch(self, client: StreamingClient) -> None:
        """Read the ConfigMap, and again at each change until the watch ends. Raises HostFailed."""
        version = await self._read(client)
        query = {
            "fieldSelector": f"metadata.name={NAME}",
            "watch": "1",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        async with aclosing(self._host.watch(client, PATH, query)) as events:
            async for _ in events:
                await self._read(client)

    async def _read(self, client: StreamingClient) -> str:
        """Use the ConfigMap as it is now, and return its resource version. Raises HostFailed."""
        config_map = await self._host.get(client, f"{PATH}/{NAME}")
        data = config_map.get("data") or {}
        if data != self._data:
            try:
                self._use(data)
            except (ValueError, OSError) as error:
                _log.error("the CAs of the host cluster are not used: %s", error)
            else:
                self._data = data
        return str((config_map.get("metadata") or {}).get("resourceVersion") or "")

    def _use(self, data: Tree) -> None:
        """Raises ValueError, OSError."""
        self.front_proxies.trust(data)
        users = data.get("client-ca-file") or ""
        if self.users is not None:
            self.users.trust(users)
        self._write_file(users, data.get("requestheader-client-ca-file") or "")

    def _write_file(self, *texts: str) -> None:
        """Raises OSError."""
        if self.file is not None:
            own = (self.file.parent / OWN_CA).read_text()
            write_private(self.file, "\n".join((own, *texts)).encode(), mode=PUBLIC)
