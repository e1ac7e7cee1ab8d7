"""The parameter objects of a policy, as a binding refers to them.

They are read from the watch cache of their resource, or from the host of an extension API server.
Mirrors CollectParams of
pkg/admission/plugin/policy/generic in k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.errors import APIError, BadObject, ConversionFailed, NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind, Resource
from kapiserver.api.label_selectors import selection_of
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import ParamObjects, Server
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.cache.query import ListQuery
from kapiserver.storage.errors import NotFound, StorageError

_MISSING = "no params found for policy binding with `Deny` parameterNotFoundAction"


class ConfigurationError(Exception):
    """A policy or a binding cannot be evaluated for a request, because of its configuration."""


class ParamKind:
    """The kind of a policy's parameters, and its objects."""

    def __init__(self, objects: ParamObjects) -> None:
        self._objects = objects

    async def collect(self, reference: Tree, namespace: str) -> Sequence[Tree]:
        """Return the objects that a paramRef selects for a request in a namespace. There may be
        none if the reference allows that. The objects are shared: never change them. Raises
        ConfigurationError."""
        scope = self._scope(reference, namespace)
        try:
            objects = await self._find(reference, scope)
        except (APIError, StorageError) as error:
            raise ConfigurationError(str(error)) from None
        if not objects and reference.get("parameterNotFoundAction") == "Deny":
            raise ConfigurationError(_MISSING)
        return objects

    def _scope(self, reference: Tree, namespace: str) -> str:
        reference_namespace = reference.get("namespace") or ""
        if not self._objects.namespaced:
            if reference_namespace:
                raise ConfigurationError(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                )
            return ""
        if not reference_namespace and not namespace:
            raise ConfigurationError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped "
                "resources"
            )
        return reference_namespace or namespace

    async def _find(self, reference: Tree, namespace: str) -> Sequence[Tree]:
        name = reference.get("name") or ""
        if name:
            obj = await self._objects.get(namespace, name)
            return () if obj is None else (obj,)
        selection = selection_of(reference.get("selector"))
        if selection is None:
            raise BadObject("one of name or selector must be provided")
        return await self._objects.list(namespace, selection)


async def read_param_kind(server: Server, param_kind: Tree) -> ParamKind:
    """Return the kind of a policy's parameters. Raises ConfigurationError if it is not served,
    APIError."""
    text = param_kind.get("apiVersion") or ""
    name = param_kind.get("kind") or ""
    objects: ParamObjects | None = None
    try:
        kind = GroupVersion.parse(text).with_kind(name)
        if server.host_reader is not None:
            objects = await server.host_reader.params(kind)
        else:
            objects = StoredParams(server, kind)
    except (ValueError, NotRegistered):
        objects = None
    if objects is None:
        group, _, version = text.rpartition("/")
        raise ConfigurationError(
            f"failed to find resource referenced by paramKind: '{group}/{version}, Kind={name}'"
        )
    return ParamKind(objects)


class StoredParams:
    """The objects of a kind that this server stores."""

    def __init__(self, server: Server, kind: GroupVersionKind) -> None:
        """Raises NotRegistered, ConfigurationError."""
        self._resource: Resource = server.scheme.resource_of(kind)
        if not self._resource.stored:
            raise ConfigurationError(f"paramKind kind `{kind}` not known")
        self.namespaced = self._resource.namespaced
        self._server = server
        self._kind = kind

    async def get(self, namespace: str, name: str) -> Tree | None:
        """Return one object, or None. Raises APIError, StorageError."""
        store = self._server.stores.get(self._resource)
        try:
            entry = await store.get_cached_first(ObjectKey(namespace, name))
        except NotFound:
            return None
        return await self._tree(entry)

    async def list(self, namespace: str, selection: Selection) -> Sequence[Tree]:
        """Return the selected objects of a namespace, "" for all. Raises APIError, StorageError."""
        store = self._server.stores.get(self._resource)
        query = ListQuery(namespace=namespace, selection=selection, resource_version="0")
        return [await self._tree(entry) for entry in (await store.list(query)).entries]

    async def _tree(self, entry: Entry) -> Tree:
        tree = await self._server.offloader.tree(entry)
        if tree.get("apiVersion") == self._kind.api_version:
            return tree
        try:
            return self._server.scheme.convert(tree, self._kind.group_version)
        except (ConversionFailed, NotRegistered) as error:
            raise BadObject(str(error)) from None
