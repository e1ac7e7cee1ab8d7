"""Create the objects that exist before the first request: the system namespaces, and RBAC's policy.

They go straight to the store: creating them as a client does would load the code of admission and
field management at every start. Mirrors kube-apiserver's system namespaces controller.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import orjson

from kapiserver.api.accessors import metadata_of
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import AlreadyExists, NotFound
from kapiserver.storage.lifecycle import timestamp
from kapiserver.storage.object_store import ResourceStore

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


_MANAGED_FIELDS: Tree = {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}
"""The fields that kube-apiserver manages of a namespace that it created."""


async def create_system_namespaces(server: Server) -> None:
    """Create those that are missing. Raises StorageError."""
    await asyncio.gather(*(_create_namespace(server, name) for name in SYSTEM_NAMESPACES))


async def _create_namespace(server: Server, name: str) -> None:
    store = server.stores.by_name(CORE, "namespaces")
    with suppress(NotFound):
        await store.get(ObjectKey("", name))
        return
    tree = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}
    await create_directly(server, store, tree, managed=_MANAGED_FIELDS)


async def create_directly(
    server: Server, store: ResourceStore, tree: Tree, *, managed: Tree
) -> None:
    """Create an object of kube-apiserver in the store, without admission, unless one of its name
    exists. Raises StorageError, InvalidObject.

    managed     the fieldsV1 that field management would compute
    """
    metadata = metadata_of(tree)
    entry = {
        "manager": "kube-apiserver",
        "operation": "Update",
        "apiVersion": tree["apiVersion"],
        "time": timestamp(server.clock.now()),
        "fieldsType": "FieldsV1",
        "fieldsV1": managed,
    }
    complete = {**tree, "metadata": {**metadata, "managedFields": [entry]}}
    namespace = metadata.get("namespace") or ""
    with suppress(AlreadyExists):  # another server may create it at the same time
        await store.create(decoded(server, complete), namespace=namespace)


def decoded(server: Server, tree: Tree) -> Tree:
    """Return an object, as a client would write it, in canonical form and defaulted."""
    return server.codecs.universal_decoder().decode(orjson.dumps(tree)).object
