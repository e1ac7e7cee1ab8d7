"""Writes of controllers, which other writers may overtake at any time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from kapiserver.api.accessors import copy_tree, uid_of
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree

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
    """Read an object, let `change` modify a copy, and update it unless they are equal; begin anew
    if somebody else changed the object meanwhile. Return the object as it is then, or None if it
    does not exist, or its uid is another. Raises StatusError."""
    for attempt in range(1, UPDATE_ATTEMPTS + 1):
        try:
            current = await objects.shared.get(name)
            if uid and uid_of(current) != uid:
                return None
            desired = change(copy_tree(current))
            if desired == current:
                return current
            return await objects.update(desired, subresource=subresource)
        except StatusError as error:
            if error.reason == "NotFound":
                return None
            if error.reason != "Conflict" or attempt == UPDATE_ATTEMPTS:
                raise
    raise AssertionError("unreachable")


async def delete_object(
    objects: ResourceClient, name: str, *, uid: str = "", **options: Any
) -> None:
    """Delete an object with DeleteOptions; one that does not exist, or has another uid, is no
    error. Raises StatusError."""
    if uid:
        options["preconditions"] = {"uid": uid}
    with suppress_reason("NotFound", *(("Conflict",) if uid else ())):
        await objects.delete(name, options)


async def create_missing(objects: ResourceClient, obj: Tree) -> None:
    """Create an object unless one of its name exists. Raises StatusError."""
    with suppress_reason("AlreadyExists"):
        await objects.create(obj)
