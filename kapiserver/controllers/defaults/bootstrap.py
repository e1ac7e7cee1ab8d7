"""Create the objects that exist before the first request: the system namespaces, and RBAC's policy.

They go straight to the store: creating them as a client does would load the code of admission and
field management at every start. Mirrors kube-apiserver's system namespaces controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import orjson

from kapiserver.api.accessors import metadata_of
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import AlreadyExists, NotFound
from kapiserver.storage.objects.lifecycle import timestamp
from kapiserver.storage.objects.object_store import ResourceStore

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


_MANAGED_FIELDS: Tree = {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}
"""The fields that kube-apiserver manages of a namespace that it created."""


async def create_system_namespaces(server: Server) -> None:
    """Create the missing namespaces. Raises StorageError."""
    await asyncio.gather(*(_create_namespace(server, name) for name in SYSTEM_NAMESPACES))


async def _create_namespace(server: Server, name: str) -> None:
    store = server.stores.by_name(CORE, "namespaces")
    with suppress(NotFound):
        await store.get(ObjectKey("", name))
        return
    tree = canonical_tree(
        server.codecs, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}
    )
    await create_directly(server, store, tree, managed=_MANAGED_FIELDS)


async def create_directly(
    server: Server,
    store: ResourceStore,
    tree: Tree,
    *,
    managed: Tree,
    applied: Mapping[str, Tree] | None = None,
) -> None:
    """Create an object of kube-apiserver in the store, without admission, unless one of its name
    exists. Raises StorageError, InvalidObject.

    tree        the object in canonical form; not changed
    managed     the fieldsV1 that field management would compute
    applied     the fieldsV1 of other managers, by name, as if they had applied these fields
    """
    metadata = metadata_of(tree)
    managers = [(name, "Apply", fields) for name, fields in (applied or {}).items()]
    entries = [
        {
            "manager": manager,
            "operation": operation,
            "apiVersion": tree["apiVersion"],
            "time": timestamp(server.clock.now()),
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        for manager, operation, fields in (*managers, ("kube-apiserver", "Update", managed))
    ]
    complete = {**tree, "metadata": {**metadata, "managedFields": entries}}
    namespace = metadata.get("namespace") or ""
    with suppress(AlreadyExists):  # another server may create it at the same time
        await store.create(complete, namespace=namespace)


def canonical_tree(codecs: CodecFactory, tree: Tree) -> Tree:
    """Return an object, as a client would write it, in canonical form, defaulted, in the hub
    version."""
    decoded = codecs.universal_deserializer.decode(orjson.dumps(tree))
    codecs.scheme.default(decoded.object)
    hub = codecs.scheme.hub_version(decoded.kind.group, decoded.kind.kind)
    return codecs.scheme.convert(decoded.object, hub)
