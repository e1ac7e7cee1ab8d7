"""Writes of controllers, which other writers may overtake at any time."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kapiserver.api.accessors import copy_tree, uid_of
from kapiserver.api.resource_client import JSON_PATCH, ResourceClient, StatusError
from kapiserver.api.types import Tree, Value

UPDATE_ATTEMPTS = 100
"""How often an update is tried while others change the object."""


@contextlib.contextmanager
def suppress_reason(*reasons: str) -> Any:
    """Suppress StatusErrors with these reasons, such as NotFound."""
    try:
        yield
    except StatusError as error:
        if error.reason not in reasons:
            raise


async def update_object(
    objects: ResourceClient,
    name: str,
    change: Callable[[Tree], Tree],
    *,
    subresource: str = "",
    uid: str = "",
) -> Tree | None:
    """Read an object, let `change` modify a copy, and update it unless they are equal; begin again
    after a conflict. Return the current object, or None if it does not exist or has another uid.
    Raises StatusError."""

    async def update(current: Tree) -> Tree:
        desired = change(copy_tree(current))
        if desired == current:
            return current
        return await objects.update(desired, subresource=subresource)

    return await _write_current(objects, name, update, uid=uid)


async def replace_fields(
    objects: ResourceClient,
    name: str,
    fields: Callable[[Tree], Mapping[str, Value]],
    *,
    subresource: str = "",
    uid: str = "",
) -> Tree | None:
    """Update fields as `update_object` does, of an object that may be large: the event loop copies
    nothing.

    `fields` returns new values by JSON pointer (`{"/status": {...}}`), or {} if nothing changes. It
    must not change the object. The object and the returned one belong to the watch cache."""

    async def patch(current: Tree) -> Tree:
        values = fields(current)
        if not values:
            return current
        version = {"/metadata/resourceVersion": current["metadata"]["resourceVersion"]}
        operations = [
            {"op": "add", "path": path, "value": value}
            for path, value in (version | dict(values)).items()
        ]
        return await objects.shared.patch(
            name, operations, type=JSON_PATCH, subresource=subresource
        )

    return await _write_current(objects, name, patch, uid=uid)


async def _write_current(
    objects: ResourceClient, name: str, write: Callable[[Tree], Awaitable[Tree]], *, uid: str
) -> Tree | None:
    """Read an object and write it; repeat both after a conflict."""
    for attempt in range(1, UPDATE_ATTEMPTS + 1):
        try:
            current = await objects.shared.get(name)
            if uid and uid_of(current) != uid:
                return None
            return await write(current)
        except StatusError as error:
            if error.reason == "NotFound":
                return None
            if error.reason != "Conflict" or attempt == UPDATE_ATTEMPTS:
                raise
    raise AssertionError("unreachable")


async def delete_object(
    objects: ResourceClient, name: str, *, uid: str = "", **options: Any
) -> None:
    """Delete an object with DeleteOptions; one that does not exist, or has another uid, is not an
    error. Raises StatusError."""
    if uid:
        options["preconditions"] = {"uid": uid}
    with suppress_reason("NotFound", *(("Conflict",) if uid else ())):
        await objects.delete(name, options)


async def create_missing(objects: ResourceClient, obj: Tree) -> None:
    """Create an object unless one of its name exists. Raises StatusError."""
    with suppress_reason("AlreadyExists"):
        await objects.create(obj)
