"""OwnerReferencesPermissionEnforcement: a user who changes the owners of an object needs the right
to delete it; a user who blocks the deletion of an owner needs the right to set its finalizers.

Mirrors pkg/admission/plugin/gc of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kapiserver.api.accessors import metadata_of
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request_info import RequestInfo

_ALL = "*"


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raise Forbidden if the user lacks a right that the new owners need."""
    target = attributes.target
    if new is None or (target.resource.qualified_name, target.subresource) == ("pods", "status"):
        return
    owners, old_owners = _owners(new), _owners(old or {})
    if owners == old_owners:
        return
    if attributes.operation != "CREATE":
        reason = await _refusal(
            server,
            attributes,
            verb="delete",
            version=target.version,
            namespace=target.key.namespace,
            resource=target.resource.name,
            name=attributes.name,
            subresource=target.subresource,
        )
        if reason is not None:
            raise attributes.forbidden(
                f"cannot set an ownerRef on a resource you can't delete: {reason}"
            )
    blocking = _newly_blocking(owners, old_owners)
    if blocking and await _refusal(
        server,
        attributes,
        verb="update",
        version=GroupVersion(_ALL, _ALL),
        resource=_ALL,
        name=_ALL,
        subresource="finalizers",
    ):
        for owner in blocking:
            await _check_owner(server, attributes, owner)


def _owners(tree: Tree) -> Sequence[Tree]:
    return metadata_of(tree).get("ownerReferences") or []


def _newly_blocking(owners: Sequence[Tree], old_owners: Sequence[Tree]) -> list[Tree]:
    blocked = {owner.get("uid") for owner in old_owners if owner.get("blockOwnerDeletion")}
    return [
        owner
        for owner in owners
        if owner.get("blockOwnerDeletion") and owner.get("uid") not in blocked
    ]


async def _check_owner(server: Server, attributes: Attributes, owner: Tree) -> None:
    version, kind = owner.get("apiVersion") or "", owner.get("kind") or ""
    try:
        resource, served = _resource_of(server, version, kind)
    except (ValueError, NotRegistered) as error:
        raise attributes.forbidden(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for "
            f"APIVersion {version} Kind {kind}: {error}"
        ) from None
    reason = await _refusal(
        server,
        attributes,
        verb="update",
        version=served,
        namespace=attributes.target.key.namespace if resource.namespaced else "",
        resource=resource.name,
        name=owner.get("name") or "",
        subresource="finalizers",
    )
    if reason is not None:
        raise attributes.forbidden(
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set "
            f"finalizers on: {reason}"
        )


def _resource_of(server: Server, text: str, kind: str) -> tuple[Resource, GroupVersion]:
    """Return the resource of an owner's kind and its version. Raises ValueError, NotRegistered."""
    version = GroupVersion.parse(text)
    return server.scheme.resource_of(version.with_kind(kind)), version


async def _refusal(server: Server, attributes: Attributes, **parts: Any) -> str | None:
    """Return why the authorizer refuses a request of the user, in kube-apiserver's words: its
    reason and its error. None if it allows the request."""
    decision = await server.authorizer.authorize(attributes.user, RequestInfo(**parts))
    return None if decision.allowed else f"{decision.reason}, {decision.error or '<nil>'}"
