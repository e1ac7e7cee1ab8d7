"""Objects that every cluster has before its first request: the system namespaces.

Mirrors kube-apiserver's system namespaces controller.
"""

from __future__ import annotations

import asyncio

import orjson

from kapiserver.api.accessors import name_of
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import AlreadyExists, NotFound, Refused

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


async def create_system_namespaces(server: Server) -> None:
    """Create those that are missing."""
    await asyncio.gather(*(create(server, "namespaces", _namespace(n)) for n in SYSTEM_NAMESPACES))


def _namespace(name: str) -> Tree:
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}


async def create(server: Server, resource: str, tree: Tree) -> None:
    """Create an object of the core group, given as a client would write it; one that is there
    stays as it is. Raises StorageError."""
    store = server.stores.by_name(CORE, resource)
    namespace = tree["metadata"].get("namespace", "")
    try:
        await store.create(decoded(server, tree), namespace=namespace)
    except AlreadyExists:
        return
    except Refused as error:  # a store without space says so before it looks
        try:
            await store.get(ObjectKey(namespace, name_of(tree)))
        except NotFound:
            raise error from None


def decoded(server: Server, tree: Tree) -> Tree:
    """A tree as a client would write it, in canonical form and defaulted."""
    return server.codecs.universal_decoder().decode(orjson.dumps(tree)).object
