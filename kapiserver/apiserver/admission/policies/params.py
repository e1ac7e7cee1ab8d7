"""The parameter objects of a policy, as a binding refers to them.

They are read from the watch cache of their resource. Mirrors CollectParams of
pkg/admission/plugin/policy/generic in k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.errors import APIError, BadObject, ConversionFailed, NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind, Resource
from kapiserver.api.label_selectors import selection_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.cache.query import ListQuery
from kapiserver.storage.errors import NotFound, StorageError

_MISSING = "no params found for policy binding with `Deny` parameterNotFoundAction"


class ConfigurationError(Exception):
    """A policy or a binding cannot be evaluated for a request, because of its configuration."""


class ParamKind:
    """The kind of a policy's parameters. Raises ConfigurationError if it is not served."""

    def __init__(self, server: Server, param_kind: Tree) -> None:
        text = param_kind.get("apiVersion") or ""
        kind = param_kind.get("kind") or ""
        try:
            self.kind: GroupVersionKind = GroupVersion.parse(text).with_kind(kind)
            self.resource: Resource = server.scheme.resource_of(self.kind)
        except (ValueError, NotRegistered):
            group, _, version = text.rpartition("/")
            raise ConfigurationError(
                f"failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"
            ) from None
        if not self.resource.stored:
            raise ConfigurationError(f"paramKind kind `{self.kind}` not known")
        self._server = server

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
        if not self.resource.namespaced:
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
        store = self._server.stores.get(self.resource)
        name = reference.get("name") or ""
        if not name:
            selection = selection_of(reference.get("selector"))
            if selection is None:
                raise BadObject("one of name or selector must be provided")
            query = ListQuery(namespace=namespace, selection=selection, resource_version="0")
            entries = (await store.list(query)).entries
            return [await self._tree(entry) for entry in entries]
        try:
            entry = await store.get_cached_first(ObjectKey(namespace, name))
        except NotFound:
            return ()
        return (await self._tree(entry),)

    async def _tree(self, entry: Entry) -> Tree:
        tree = await self._server.offloader.tree(entry)
        if tree.get("apiVersion") == str(self.kind.group_version):
            return tree
        try:
            return self._server.scheme.convert(tree, self.kind.group_version)
        except (ConversionFailed, NotRegistered) as error:
            raise BadObject(str(error)) from None
