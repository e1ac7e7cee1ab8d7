"""Reads from the host what the copies lack: new namespaces, and the parameters of policies.

The objects of a kind of parameters are followed from their first use on. Mirrors policy_source.go
and policy_dispatcher.go of pkg/admission/plugin/policy/generic in k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import quote

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.policies.params import ConfigurationError
from kapiserver.apiserver.errors import InternalError
from kapiserver.apiserver.http_client.session import StreamingClient
from kapiserver.extension.admission.copies import TreeCopies
from kapiserver.extension.admission.reflector import Reflector
from kapiserver.extension.host_cluster import REVIEW_SECONDS, HostCluster, HostFailed
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.concurrency.clock import Clock

MAX_PARAM_KINDS = 64
"""Kinds of parameters that are followed; the one that was not used for the longest time goes."""
DISCOVERY_SECONDS = 30.0
"""How long a kind that the host does not serve is not looked up again."""
SYNC_SECONDS = 1.0
"""How long a request waits for the first list of a kind of parameters."""
_NOT_FOUND = 404


class ReaderOfHost:
    """Implements HostReader."""

    def __init__(self, host: HostCluster, clock: Clock, offloader: Offloader) -> None:
        self._host = host
        self._clock = clock
        self._offloader = offloader
        self._client = StreamingClient()
        self._params: dict[GroupVersionKind, Params] = {}
        """Copies of params by kind, in the order of their last use."""
        self._adding = asyncio.Lock()
        self._absent: dict[GroupVersionKind, float] = {}
        """When the host did not serve a kind."""

    async def stop(self) -> None:
        """Stop following parameters, and close connections. Idempotent."""
        self._client.close()
        while self._params:
            _, params = self._params.popitem()
            await params.reflector.stop()

    async def namespace(self, name: str) -> Tree | None:
        """Return a namespace as the host has it now, or None. Raises InternalError."""
        return await self.get("/api/v1/namespaces", name)

    async def get(self, folder: str, name: str) -> Tree | None:
        """Return the object of a name below a path, or None. Raises InternalError."""
        if name in ("", ".", ".."):
            return None
        path = f"{folder}/{quote(name, safe='')}"
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                return await self._host.get(self._client, path)
        except TimeoutError:
            raise InternalError(f"{path}: the host cluster does not answer") from None
        except HostFailed as error:
            if error.status == _NOT_FOUND:
                return None
            raise InternalError(str(error)) from None

    async def params(self, kind: GroupVersionKind) -> Params | None:
        """Return the objects of a kind, or None if the host does not serve it. Raises
        InternalError."""
        params = self._params.pop(kind, None)
        if params is None:
            if self._clock.now() - self._absent.get(kind, 0.0) < DISCOVERY_SECONDS:
                return None
            async with self._adding:
                params = self._params.pop(kind, None) or await self._follow(kind)
        if params is not None:
            self._params[kind] = params
        else:
            if len(self._absent) >= MAX_PARAM_KINDS:
                self._absent.clear()
            self._absent[kind] = self._clock.now()
        return params

    async def _follow(self, kind: GroupVersionKind) -> Params | None:
        group = f"/apis/{quote(kind.group, safe='')}" if kind.group else "/api"
        parent = f"{group}/{quote(kind.version, safe='')}"
        discovered = await self.get(group, kind.version)
        for resource in (discovered or {}).get("resources") or ():
            name = str(resource.get("name") or "")
            if resource.get("kind") != kind.kind or "/" in name:
                continue
            while len(self._params) >= MAX_PARAM_KINDS:
                await self._params.pop(next(iter(self._params))).reflector.stop()
            copies, path = TreeCopies(), f"{parent}/{name}"
            reflector = Reflector(self._host, path, copies, self._clock, self._offloader)
            reflector.start()
            return Params(self, kind, path, copies, reflector, bool(resource.get("namespaced")))
        return None


class Params:
    """Implements ParamObjects: the objects of one kind."""

    def __init__(
        self,
        reader: ReaderOfHost,
        kind: GroupVersionKind,
        path: str,
        copies: TreeCopies,
        reflector: Reflector,
        namespaced: bool,
    ) -> None:
        self.namespaced = namespaced
        self.reflector = reflector
        self._reader = reader
        self._kind = kind
        self._path = path
        self._copies = copies

    async def get(self, namespace: str, name: str) -> Tree | None:
        """Return one object, from the host if it is new, or None. Raises ConfigurationError."""
        await self._wait_synced()
        obj = self._copies.get(namespace, name)
        if obj is not None:
            return obj
        parent, _, plural = self._path.rpartition("/")
        folder = f"{parent}/namespaces/{quote(namespace)}/{plural}" if namespace else self._path
        try:
            return await self._reader.get(folder, name)
        except InternalError as error:
            raise ConfigurationError(str(error)) from None

    async def list(self, namespace: str, selection: Selection) -> Sequence[Tree]:
        """Return the selected objects of a namespace, "" for all. Raises
        ConfigurationError."""
        await self._wait_synced()
        return self._copies.select(namespace, selection)

    async def _wait_synced(self) -> None:
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                await self.reflector.synced.wait()
        except TimeoutError:
            reason = f"paramKind kind `{self._kind}` not yet synced to use for admission"
            raise ConfigurationError(reason) from None
