"""What may refuse or change a write after it was decoded and before it is stored.

A chain of plain coroutines, each given the same Attributes; the store calls it with the object
in the hub version. Mirrors the admission plugin NamespaceLifecycle of k8s.io/apiserver and the
clean-up that its handlers do between mutation and validation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kapiserver.api.objects import is_terminating, metadata_of, name_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import Forbidden
from kapiserver.apiserver.request import Request, User, Warnings
from kapiserver.apiserver.status import cause
from kapiserver.apiserver.target import Target
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.query import Admit

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]

IMMORTAL_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """What admission knows of a request; `name` is empty where the server still makes one."""

    operation: Operation
    target: Target
    user: User
    warnings: Warnings
    name: str
    dry_run: bool = False


Plugin: TypeAlias = Callable[[Server, Attributes, Tree | None, Tree | None], Awaitable[None]]
"""(server, attributes, new, old): may change `new`, raises to refuse."""


def admission(server: Server, request: Request, target: Target, *, dry_run: bool = False) -> Admit:
    """The chain as the store calls it: (new, old), the operation read from which is missing."""

    async def admit(new: Tree | None, old: Tree | None) -> None:
        operation: Operation = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
        attributes = Attributes(
            operation=operation,
            target=target,
            user=request.user,
            warnings=request.warnings,
            name=name_of(new or old or {}) or target.key.name,
            dry_run=dry_run,
        )
        for plugin in PLUGINS:
            await plugin(server, attributes, new, old)

    return admit


async def namespace_lifecycle(
    server: Server, attributes: Attributes, _new: Tree | None, _old: Tree | None
) -> None:
    """Nothing is created in a namespace that is not there or on its way out, and some namespaces
    stay. Raises NotFound, Forbidden."""
    target = attributes.target
    if attributes.operation == "DELETE":
        if target.is_namespace and attributes.name in IMMORTAL_NAMESPACES:
            raise Forbidden(
                "this namespace may not be deleted", resource="namespaces", name=attributes.name
            )
        return
    name = target.key.namespace
    if attributes.operation != "CREATE" or not name:
        return
    if is_terminating(await _namespace(server, target, name)):
        raise Forbidden(
            f"unable to create new content in namespace {name} because it is being terminated",
            resource=target.resource.name,
            group=target.resource.group,
            name=attributes.name,
            causes=[
                cause(
                    reason="NamespaceTerminating",
                    message=f"namespace {name} is being terminated",
                    field="metadata.namespace",
                )
            ],
        )


async def _namespace(server: Server, target: Target, name: str) -> Tree:
    core = server.scheme.resources("")
    namespaces = server.stores.of(next(one for one in core if one.name == "namespaces"))
    key = ObjectKey("", name)
    try:
        return (await namespaces.get(key, resource_version="0")).tree()
    except NotFound:
        # The cache may be behind another server's write.
        return (await namespaces.get(key)).tree()


async def unique_owners(
    _server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Owner references that repeat are dropped, with a warning."""
    owners = metadata_of(new).get("ownerReferences") if new else None
    if not new or not owners:
        return
    seen: set[str] = set()
    unique, repeated = [], []
    for owner in owners:
        text = repr(sorted(owner.items()))
        if text not in seen:
            unique.append(owner)
        elif owner.get("uid") not in repeated:
            repeated.append(owner.get("uid", ""))
        seen.add(text)
    if repeated:
        metadata_of(new)["ownerReferences"] = unique
        attributes.warnings.add(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner "
            "references in 1.20+, and may reject such requests as early as 1.24; please fix your "
            f"requests; duplicate UID(s) observed: {', '.join(repeated)}"
        )


PLUGINS: tuple[Plugin, ...] = (namespace_lifecycle, unique_owners)
"""In the order in which a write meets them."""
