"""The object and the old object of one write, in the versions that webhooks and policies ask for.

Each version is made when it is first needed, and once. A custom object that no webhook converts
keeps the fields that the other version does not know, so that a change in that version does not
lose them. Mirrors VersionedAttributes of k8s.io/apiserver/pkg/admission.
"""

from __future__ import annotations

from kapiserver.api.errors import ConversionFailed, NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.types import Tree, Value
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import BadRequest, InternalError
from kapiserver.apiserver.target import Target
from kapiserver.codecs.cost import cost_of_tree
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.json import encode_value
from kapiserver.codecs.object_decoder import decode_object, kind_of_document
from kapiserver.storage.errors import ConversionRefused


class VersionedObjects:
    """The objects of one write.

    new, old    the objects as admission sees them: the body of a subresource such as scale is a
                part of the stored object. Their version may be one that clients do not see.
    """

    def __init__(self, server: Server, target: Target, new: Tree | None, old: Tree | None) -> None:
        self._server = server
        self._target = target
        self._admitted = new
        view = target.view
        self.new = view.read(new) if view is not None and new is not None else new
        self.old = view.read(old) if view is not None and old is not None else old
        self._new_versions: dict[GroupVersion, Tree] = {}
        self._old_versions: dict[GroupVersion, Tree] = {}
        self._json: dict[int, bytes] = {}
        """The JSON of versions, by the identity of the tree."""

    async def object(self, kind: GroupVersionKind) -> Tree | None:
        """Return the object as that kind; do not change it. Raises InternalError if it cannot be
        converted."""
        return await self._versioned(self.new, kind.group_version, self._new_versions)

    async def old_object(self, kind: GroupVersionKind) -> Tree | None:
        """Return the old object as that kind; do not change it. Raises InternalError if it cannot
        be converted."""
        return await self._versioned(self.old, kind.group_version, self._old_versions)

    async def json(self, tree: Tree | None) -> bytes:
        """Return a tree of `object` or `old_object` as JSON, made once for all webhooks."""
        if tree is None:
            return b"null"
        data = self._json.get(id(tree))
        if data is None:
            run = self._server.offloader.run
            data = await run(cost_of_tree(tree), encode_value, tree)
            self._json[id(tree)] = data
        return data

    async def _versioned(
        self, obj: Tree | None, version: GroupVersion, versions: dict[GroupVersion, Tree]
    ) -> Tree | None:
        if obj is None:
            return None
        versioned = versions.get(version)
        if versioned is None:
            versioned = versions[version] = await self._convert(obj, version)
        return versioned

    async def replace(self, changed: Value, kind: GroupVersionKind) -> bool:
        """Replace the object by a changed version of it, which is decoded, pruned, defaulted and
        converted; the admitted object changes in place. Takes over `changed`. Return whether the
        object differs. Raises InternalError if it is not an object of that kind."""
        target, admitted = self._target, self._admitted
        assert admitted is not None
        before = self._new_versions.get(kind.group_version)
        offloader = self._server.offloader
        cost = cost_of_tree(changed)
        tree, is_different = await offloader.run(cost, self._decode, changed, kind, before)
        if target.view is not None:
            hub = target.view.write(admitted, await self._convert(tree, target.version))
        elif self._keeps_fields:  # without unknown fields
            hub = await offloader.run(cost, self._server.scheme.convert, tree, self._hub)
        else:
            hub = await self._convert(tree, self._hub)
        self.new = tree if target.view is not None else admitted
        admitted.clear()
        admitted.update(hub)
        self._new_versions = {kind.group_version: tree}
        self._json.clear()
        return is_different

    def _decode(
        self, changed: Value, kind: GroupVersionKind, before: Tree | None
    ) -> tuple[Tree, bool]:
        """Return the object with its defaults, and whether it differed before they were set. Raises
        InternalError."""
        scheme = self._server.scheme
        try:
            if (
                self._keeps_fields
                and isinstance(changed, dict)
                and kind_of_document(changed) == kind
            ):
                # The schema of the request's version says which fields remain.
                changed["apiVersion"] = str(self._hub)
                tree = decode_object(scheme, changed, defaults=None, source=b"").object
                tree["apiVersion"] = kind.api_version
            else:
                decoded = decode_object(scheme, changed, defaults=None, source=b"")
                if decoded.kind != kind:
                    raise InternalError(f"unable to convert a {decoded.kind} to a {kind}")
                tree = decoded.object
            is_different = tree != before
            scheme.default(tree)
        except (CodecError, NotRegistered) as error:
            raise InternalError(str(error)) from None
        return tree, is_different

    @property
    def _keeps_fields(self) -> bool:
        """Whether the versions of the object differ in its apiVersion alone."""
        target = self._target
        return (
            bool(target.resource.definition)
            and target.view is None
            and target.kind_info.conversion_webhook is None
        )

    @property
    def _hub(self) -> GroupVersion:
        target = self._target
        return target.kind.group_version if target.has_other_kind else target.kind_info.hub

    async def _convert(self, obj: Tree, version: GroupVersion) -> Tree:
        if self._target.view is not None or obj.get("apiVersion") == str(version):
            return obj
        if self._keeps_fields:
            return {**obj, "apiVersion": str(version)}
        definition = self._target.kind_info.conversion_webhook
        try:
            if definition is not None:
                (converted,) = await self._server.stores.converter(definition, [obj], version)
                return converted
            run = self._server.offloader.run
            return await run(cost_of_tree(obj), self._server.scheme.convert, obj, version)
        except (ConversionFailed, ConversionRefused, NotRegistered, BadRequest) as error:
            raise InternalError(str(error)) from None
