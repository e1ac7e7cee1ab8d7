"""The interface of clients: verbs on the objects of one resource, as trees.

`kapiserver.client` implements it over HTTP, `kapiserver.apiserver.internal_client` within the
server, with the same results and errors; what follows from the verbs (pages, lists, following) is
here. Knows no transport. Mirrors client-go's dynamic client and reflector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree

Expired: TypeAlias = Literal["raise", "restart", "continue"]
"""What to do if a list's continue token is too old: raise, list anew, or go on inconsistently."""

MERGE_PATCH = "application/merge-patch+json"
UPDATE_ATTEMPTS = 100

_GONE = 410
_RETRIABLE = (429, 500, 502, 503, 504)
_TOO_NEW = "Too large resource version"


class StatusError(Exception):
    """The server refused a request: its Status, with the code and reason in it."""

    def __init__(self, status: Tree, code: int) -> None:
        super().__init__(status.get("message") or f"HTTP {code}")
        self.status = status
        self.code = int(status.get("code") or code)
        self.reason = str(status.get("reason") or "")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, and its object."""

    type: str
    object: Tree


class Client(Protocol):
    """Makes calls as one user."""

    def resource(self, version: str, name: str, *, namespace: str = "") -> ResourceClient:
        """The objects of a resource: `resource("apps/v1", "deployments", namespace="x")`."""


class ResourceClient(ABC):
    """The objects of one resource, in one namespace or in all.

    `parameters` are query parameters of the API by their names there: `dryRun="All"`,
    `fieldManager="me"`, `fieldValidation="Strict"`, `labelSelector="app=x"`. Returned trees belong
    to the caller. Every method raises StatusError.
    """

    transport_errors: ClassVar[tuple[type[Exception], ...]] = ()
    """Errors of the connection, after which `follow` tries again."""

    def __init__(self, version: GroupVersion, name: str, namespace: str) -> None:
        self.version = version
        self.name = name
        self.namespace = namespace

    @property
    def shared(self) -> ResourceClient:
        """The same objects for reading: within the server, trees are those of the watch cache,
        which nobody may change."""
        return self

    @abstractmethod
    async def get(self, name: str, *, subresource: str = "", **parameters: str | int) -> Tree:
        """Return one object, or a subresource of it."""

    @abstractmethod
    async def create(
        self, obj: Tree, *, name: str = "", subresource: str = "", **parameters: str | int
    ) -> Tree:
        """Create an object; with a subresource, post to that of `name`."""

    @abstractmethod
    async def update(self, obj: Tree, *, subresource: str = "", **parameters: str | int) -> Tree:
        """Replace an object. A resourceVersion or uid in it must be the current one."""

    @abstractmethod
    async def patch(
        self,
        name: str,
        patch: Any,
        *,
        type: str = MERGE_PATCH,
        subresource: str = "",
        **parameters: str | int,
    ) -> Tree:
        """Patch an object with any JSON value."""

    @abstractmethod
    async def apply(
        self, obj: Tree, *, manager: str, subresource: str = "", **parameters: str | int
    ) -> Tree:
        """Apply a configuration (server-side apply); `force=1` takes over fields of others."""

    @abstractmethod
    async def delete(self, name: str, options: Tree | None = None, **parameters: str | int) -> Tree:
        """Delete an object. `options` is a DeleteOptions: preconditions, propagationPolicy,
        gracePeriodSeconds. Return a Status, or the object if it is not gone yet."""

    @abstractmethod
    async def delete_collection(self, options: Tree | None = None, **parameters: str | int) -> Tree:
        """Delete what the selectors in `parameters` select and return the list of it."""

    @abstractmethod
    async def list_page(self, **parameters: str | int) -> Tree:
        """Return the answer to one list request; its items have kind and apiVersion."""

    @abstractmethod
    def watch(
        self, *, resource_version: str = "", **parameters: str | int
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of one watch, bookmarks included, until the server ends it. An ERROR
        event is raised as StatusError."""

    @abstractmethod
    async def _pause(self) -> None:
        """Wait before the server is asked again."""

    async def pages(
        self, *, limit: int = 500, expired: Expired = "restart", **parameters: str | int
    ) -> AsyncGenerator[Tree, None]:
        """Yield the pages of a list, each a list object. With `expired="restart"` a token that is
        too old begins the list anew, and yields objects once more; with "continue" the rest follows
        as it is now."""
        token = ""
        while True:
            asked: dict[str, str | int] = {**parameters, "limit": limit}
            if token:
                asked["continue"] = token
            try:
                page = await self.list_page(**asked)
            except StatusError as error:
                if error.code != _GONE or not token or expired == "raise":
                    raise
                following = (error.status.get("metadata") or {}).get("continue") or ""
                token = following if expired == "continue" else ""
                continue
            yield page
            token = page["metadata"].get("continue") or ""
            if not token:
                return

    async def list(self, *, limit: int = 500, **parameters: Any) -> Tree:
        """Return all objects as one list, read page by page; begun anew if a page came too
        late."""
        while True:
            items: list[Tree] = []
            try:
                async for page in self.pages(limit=limit, expired="raise", **parameters):
                    items.extend(page.get("items") or [])
            except StatusError as error:
                if error.code != _GONE:
                    raise
                continue
            return {**page, "metadata": {**page["metadata"], "continue": ""}, "items": items}

    async def follow(self, **parameters: Any) -> AsyncGenerator[Event, None]:
        """Yield all objects as ADDED, then their changes, for ever. A watch that ends is resumed
        where it was; if it cannot be, a new list is compared with what was known, and the
        differences are yielded as events."""
        known: dict[str, Tree] = {}
        version = ""
        while True:
            try:
                if not version:
                    listed = await self.list(**parameters)
                    for event in _differences(known, listed.get("items") or []):
                        yield event
                    version = listed["metadata"]["resourceVersion"]
                async for event in self.watch(resource_version=version, **parameters):
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type != "BOOKMARK":
                        _note(known, event)
                        yield event
            except StatusError as error:
                if error.code == _GONE or _TOO_NEW in str(error):
                    version = ""
                elif error.code not in _RETRIABLE:
                    raise
                else:
                    await self._pause()
            except self.transport_errors:
                await self._pause()

    async def update_with_retry(
        self,
        name: str,
        change: Callable[[Tree], Tree],
        *,
        subresource: str = "",
        **parameters: str | int,
    ) -> Tree:
        """Read an object, let `change` return the wanted one and update it; begin anew if somebody
        else changed the object meanwhile."""
        for attempt in range(1, UPDATE_ATTEMPTS + 1):
            wanted = change(await self.get(name))
            try:
                return await self.update(wanted, subresource=subresource, **parameters)
            except StatusError as error:
                if error.reason != "Conflict" or attempt == UPDATE_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _versioned(self, obj: Tree) -> Tree:
        """The object with its apiVersion, if it does not name one."""
        return {"apiVersion": str(self.version), **obj}


def _key(obj: Tree) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _note(known: dict[str, Tree], event: Event) -> None:
    if event.type == "DELETED":
        known.pop(_key(event.object), None)
    else:
        known[_key(event.object)] = event.object


def _differences(known: dict[str, Tree], items: list[Tree]) -> list[Event]:
    """The events that lead from what was known to a new list; `known` is updated."""
    there = {_key(item): item for item in items}
    events = [Event("DELETED", obj) for key, obj in known.items() if key not in there]
    for key, item in there.items():
        before = known.get(key)
        if before is None:
            events.append(Event("ADDED", item))
        elif before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            events.append(Event("MODIFIED", item))
    known.clear()
    known.update(there)
    return events
