"""The typed client: verbs on the objects of a declared class, as instances of it.

    databases = client.objects(Database, namespace="default")
    database = await databases.get("orders")
    database.spec.size = 20
    await databases.update(database)

It wraps any client of trees: `kapiserver.client` over HTTP, or that of a server in the same
process. A `Resource` must declare the class; for a kind of others, such as Deployments, the program
declares the fields that it needs. An update of such an object would remove all other fields:
`patch` and `apply` do not.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic

import msgspec
from msgspec import Struct, structs

from kapiserver.api.resource_client import MERGE_PATCH, Client, ResourceClient
from kapiserver.api.types import Tree
from kapiserver.extension.models import is_model
from kapiserver.extension.objects import AnyObject, read, write
from kapiserver.extension.resources import resource_of
from kapiserver.storage.concurrency.time_slice import TimeSlice

_APPLIED_METADATA = (
    "name", "namespace", "labels", "annotations", "ownerReferences", "finalizers",
)  # fmt: skip


class ObjectEvent(Struct, Generic[AnyObject], frozen=True):
    """One event of a watch: ADDED, MODIFIED or DELETED, and its object."""

    type: str
    object: AnyObject


class Objects(Generic[AnyObject]):
    """The objects of a class, in one namespace or in all.

    client      a client of trees
    type_       the class of a Resource, or of one of its versions
    namespace   "": all namespaces; the methods then use the namespace that they are given, or that
                of the object

    `parameters` are those of `ResourceClient`. Methods raise StatusError, and
    msgspec.ValidationError for an object that does not fit the class.
    """

    def __init__(self, client: Client, type_: type[AnyObject], *, namespace: str = "") -> None:
        self.type = type_
        self.resource = resource_of(type_)
        self.version = self.resource.version_of(type_)
        self.namespace = namespace
        self._client = client

    def trees(self, namespace: str = "") -> ResourceClient:
        """Return the client of trees."""
        version = f"{self.resource.group}/{self.version}".lstrip("/")
        namespace = namespace or self.namespace
        return self._client.resource(version, self.resource.plural, namespace=namespace)

    async def get(self, name: str, *, namespace: str = "", **parameters: Any) -> AnyObject:
        """Return an object."""
        return self.read(await self.trees(namespace).get(name, **parameters))

    async def list(self, **parameters: Any) -> list[AnyObject]:
        """Return all objects that the selectors in `parameters` select."""
        listed, time_slice, objects = await self.trees().list(**parameters), TimeSlice(), []
        for item in listed["items"]:
            objects.append(self.read(item))
            await time_slice.yield_if_expired()
        return objects

    async def watch(
        self, *, resource_version: str = "", **parameters: Any
    ) -> AsyncGenerator[ObjectEvent[AnyObject], None]:
        """Yield the events of one watch, until the server ends it."""
        events = self.trees().watch(resource_version=resource_version, **parameters)
        async for event in events:
            if event.type != "BOOKMARK":
                yield ObjectEvent(event.type, self.read(event.object))

    async def follow(self, **parameters: Any) -> AsyncGenerator[ObjectEvent[AnyObject], None]:
        """Yield all objects as ADDED, then their changes, without end."""
        async for event in self.trees().follow(**parameters):
            yield ObjectEvent(event.type, self.read(event.object))

    async def create(self, obj: AnyObject, **parameters: Any) -> AnyObject:
        """Create an object."""
        return self.read(await self._of(obj).create(self.write(obj), **parameters))

    async def update(
        self, obj: AnyObject, *, subresource: str = "", **parameters: Any
    ) -> AnyObject:
        """Replace an object. Its resource version must be current if it has one."""
        client, tree = self._of(obj), self.write(obj)
        return self.read(await client.update(tree, subresource=subresource, **parameters))

    async def update_status(self, obj: AnyObject, **parameters: Any) -> AnyObject:
        """Replace the status of an object."""
        return await self.update(obj, subresource="status", **parameters)

    async def update_with_retry(
        self,
        name: str,
        change: Callable[[AnyObject], None],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> AnyObject:
        """Read an object, let `change` modify it, and update it; begin again after a conflict."""

        def changed(tree: Tree) -> Tree:
            obj = self.read(tree)
            change(obj)
            return self.write(obj)

        client = self.trees(namespace)
        return self.read(await client.update_with_retry(name, changed, subresource=subresource))

    async def patch(
        self,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        type: str = MERGE_PATCH,
        subresource: str = "",
        **parameters: Any,
    ) -> AnyObject:
        """Patch an object with any JSON value."""
        client = self.trees(namespace)
        patched = await client.patch(name, patch, type=type, subresource=subresource, **parameters)
        return self.read(patched)

    async def apply(
        self,
        obj: AnyObject,
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        **parameters: Any,
    ) -> AnyObject:
        """Apply the fields that differ from the defaults of the class (server-side apply); `force`
        takes over fields of others."""
        parameters |= {"force": "true"} if force else {}
        client, tree = self._of(obj), self._configuration(obj)
        applied = await client.apply(tree, manager=manager, subresource=subresource, **parameters)
        return self.read(applied)

    async def delete(
        self,
        name: str,
        options: Tree | None = None,
        *,
        namespace: str = "",
        **parameters: Any,
    ) -> None:
        """Delete an object; `options` is a DeleteOptions."""
        await self.trees(namespace).delete(name, options, **parameters)

    def _of(self, obj: AnyObject) -> ResourceClient:
        return self.trees(obj.metadata.namespace if self.resource.namespaced else "")

    def read(self, tree: Tree) -> AnyObject:
        """Return the object of a tree."""
        return read(tree, self.type)

    def write(self, obj: AnyObject) -> Tree:
        """Return the tree of an object, with its version and kind."""
        return {**write(obj), **self._type_meta()}

    def _type_meta(self) -> Tree:
        version = f"{self.resource.group}/{self.version}".lstrip("/")
        return {"apiVersion": version, "kind": self.resource.kind}

    def _configuration(self, obj: AnyObject) -> Tree:
        tree = write(obj)
        fields: Tree = _without_defaults(obj, tree)
        metadata = tree["metadata"]
        fields["metadata"] = {
            name: metadata[name] for name in _APPLIED_METADATA if name in metadata
        }
        return {**fields, **self._type_meta()}


def _without_defaults(value: Any, tree: Any) -> Any:
    """Return the tree of a value without those fields of structs, and of structs in lists, that
    have their default."""
    if isinstance(value, Struct):
        return {
            field.encode_name: _without_defaults(member, tree[field.encode_name])
            for field in structs.fields(value)
            if not _is_default(field, member := getattr(value, field.name))
        }
    if is_model(type(value)):
        return value.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude_defaults=True
        )
    if isinstance(value, list | tuple):
        return [_without_defaults(*pair) for pair in zip(value, tree, strict=True)]
    return tree


def _is_default(field: structs.FieldInfo, value: Any) -> bool:
    """Report whether a value is the default of its field, or None, which trees do not have."""
    if field.default_factory is not msgspec.NODEFAULT:
        return bool(value == field.default_factory())
    return value is None or (field.default is not msgspec.NODEFAULT and value == field.default)
