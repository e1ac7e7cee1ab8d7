"""Create the system namespaces, which every cluster has before its first request.

Mirrors kube-apiserver's system namespaces controller.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import orjson

from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import AlreadyExists, NotFound
from kapiserver.storage.lifecycle import timestamp

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


_MANAGED_FIELDS: Tree = {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}
"""The fields that kube-apiserver manages of a namespace that it created. A literal, because these
namespaces are created before the first request, and the code that computes it is loaded later."""


async def create_system_namespaces(server: Server) -> None:
    """Create those that are missing. Raises StorageError."""
    await asyncio.gather(*(_create(server, name) for name in SYSTEM_NAMESPACES))


async def _create(server: Server, name: str) -> None:
    store = server.stores.by_name(CORE, "namespaces")
    with suppress(NotFound):
        await store.get(ObjectKey("", name))
        return
    managed = {
        "manager": "kube-apiserver",
        "operation": "Update",
        "apiVersion": "v1",
        "time": timestamp(server.clock.now()),
        "fieldsType": "FieldsV1",
        "fieldsV1": _MANAGED_FIELDS,
    }
    metadata = {"name": name, "managedFields": [managed]}
    tree = {"kind": "Namespace", "apiVersion": "v1", "metadata": metadata}
    with suppress(AlreadyExists):  # another server may create it at the same time
        await store.create(decoded(server, tree), namespace="")


def decoded(server: Server, tree: Tree) -> Tree:
    """Return an object, as a client would write it, in canonical form and defaulted."""
    return server.codecs.universal_decoder().decode(orjson.dumps(tree)).object
