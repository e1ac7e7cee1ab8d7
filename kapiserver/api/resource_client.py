"""The client interface: verbs on the objects of one resource, as trees.

`kapiserver.client` implements it over HTTP, `kapiserver.apiserver.internal_client` inside the
server, with the same results and errors. On top of the verbs, this module has paging,
listing, following and updating with retries. Knows no transport. Mirrors client-go's dynamic client
and reflector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from msgspec import Struct

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree

Expired: TypeAlias = Literal["raise", "restart", "continue"]
"""The reaction to an expired continue token: raise, restart the list, or continue
inconsistently."""

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
UPDATE_ATTEMPTS = 100

_GONE = 410
_RETRIABLE = (429, 500, 502, 503, 504)
_TOO_NEW = "Too large resource version"


class StatusError(Exception):
    """The server returned a Status with an error, which has the code and reason."""

    def __init__(self, status: Tree, code: int) -> None:
        super().__init__(status.get("message") or f"HTTP {code}")
        self.status = status
        self.code = int(status.get("code") or code)
        self.reason = str(status.get("reason") or "")


class Event(Struct, frozen=True):
    """One event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK, and its object."""

    type: str
    object: Tree


class Client(Protocol):
    """A client that acts as one user."""

    def resource(self, version: str, name: str, *, namespace: str = "") -> ResourceClient:
        """Return the objects of a resource: `resource("apps/v1", "deployments", namespace="x")`."""


class ResourceClient(ABC):
    """The objects of one resource, in one namespace or in all.

    `parameters` are query parameters under their API names: `dryRun="All"`, `fieldManager="me"`,
    `fieldValidation="Strict"`, `labelSelector="app=x"`. Returned trees belong to the caller. Every
    method raises StatusError.
    """

    transport_errors: ClassVar[tuple[type[Exception], ...]] = ()
    """Connection errors, after which `follow` retries."""

    def __init__(self, version: GroupVersion, name: str, namespace: str) -> None:
        self.version = version
        self.name = name
        self.namespace = namespace

    @property
    def shared(self) -> ResourceClient:
        """A read-only client of the same objects: inside the server, it returns the trees of the
        watch cache without copying. Never change them."""
        return self

    @abstractmethod
    async def get(self, name: str, *, subresource: str = "", **parameters: str | int) -> Tree:
        """Return an object, or a subresource of it."""

    @abstractmethod
    async def create(
        self, obj: Tree, *, name: str = "", subresource: str = "", **parameters: str | int
    ) -> Tree:
        """Create an object; with a subresource, post to the subresource of `name`."""

    @abstractmethod
    async def update(self, obj: Tree, *, subresource: str = "", **parameters: str | int) -> Tree:
        """Replace an object. A resourceVersion or uid in it must be current."""

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
        """Delete an object. Returns a Status, or the object if finalizers or a grace period delay
        it.

        `options` is a DeleteOptions: preconditions, propagationPolicy, gracePeriodSeconds.
        """

    @abstractmethod
    async def delete_collection(self, options: Tree | None = None, **parameters: str | int) -> Tree:
        """Delete the objects that the selectors in `parameters` select. Returns the list of
        them."""

    @abstractmethod
    async def list_page(self, **parameters: str | int) -> Tree:
        """Return the response to one list request; its items have kind and apiVersion."""

    @abstractmethod
    def watch(
        self, *, resource_version: str = "", **parameters: str | int
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of one watch, including bookmarks, until the server ends it.

        Raises StatusError for an ERROR event.
        """

    @abstractmethod
    async def _pause(self) -> None:
        """Wait before the next request."""

    async def pages(
        self, *, limit: int = 500, expired: Expired = "restart", **parameters: str | int
    ) -> AsyncGenerator[Tree, None]:
        """Yield the pages of a list, each a list object.

        If the continue token expires, `expired="restart"` restarts the list, so that objects are
        repeated; "continue" continues with the current state.
        """
        token = ""
        while True:
            query: dict[str, str | int] = {**parameters, "limit": limit}
            if token:
                query["continue"] = token
            try:
                page = await self.list_page(**query)
            except StatusError as error:
                if error.code != _GONE or not token or expired == "raise":
                    raise
                new_token = (error.status.get("metadata") or {}).get("continue") or ""
                token = new_token if expired == "continue" else ""
                continue
            yield page
            token = page["metadata"].get("continue") or ""
            if not token:
                return

    async def list(self, *, limit: int = 500, **parameters: Any) -> Tree:
        """Return all objects as one list, read in pages; restarted if the continue token
        expires."""
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

    async def follow(
        self, *, on_listed: Callable[[], None] | None = None, **parameters: Any
    ) -> AsyncGenerator[Event, None]:
        """Yield all objects as ADDED, then their changes, without end.

        A watch that ends is resumed. If it cannot be, the objects are listed again, and the
        differences are yielded as events. `on_listed` is called when the events of a list have
        been yielded.
        """
        objects: dict[str, Tree] = {}
        version = ""
        while True:
            try:
                if not version:
                    listed = await self.list(**parameters)
                    for event in _differences(objects, listed.get("items") or []):
                        yield event
                    version = listed["metadata"]["resourceVersion"]
                    if on_listed is not None:
                        on_listed()
                async for event in self.watch(resource_version=version, **parameters):
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type != "BOOKMARK":
                        _record(objects, event)
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
        """Update an object to `change(current)`; retry with the new object on a conflict."""
        for attempt in range(1, UPDATE_ATTEMPTS + 1):
            changed = change(await self.get(name))
            try:
                return await self.update(changed, subresource=subresource, **parameters)
            except StatusError as error:
                if error.reason != "Conflict" or attempt == UPDATE_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _versioned(self, obj: Tree) -> Tree:
        """Return the object with its apiVersion added if it has none."""
        return {"apiVersion": str(self.version), **obj}


def _key(obj: Tree) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _record(objects: dict[str, Tree], event: Event) -> None:
    if event.type == "DELETED":
        objects.pop(_key(event.object), None)
    else:
        objects[_key(event.object)] = event.object


def _differences(objects: dict[str, Tree], items: list[Tree]) -> list[Event]:
    """Return the events that lead from the known objects to a new list; updates `objects`."""
    current = {_key(item): item for item in items}
    events = [Event("DELETED", obj) for key, obj in objects.items() if key not in current]
    for key, item in current.items():
        old = objects.get(key)
        if old is None:
            events.append(Event("ADDED", item))
        elif old["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            events.append(Event("MODIFIED", item))
    objects.clear()
    objects.update(current)
    return events
