"""NamespaceLifecycle: refuses to create objects in missing or terminating namespaces, and to delete
the namespaces of the system.

Mirrors pkg/admission/plugin/namespace/lifecycle of k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.api.accessors import is_terminating
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.namespaces import cached_namespace, namespace_object
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import Forbidden
from kapiserver.apiserver.status import cause

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_REVIEW = "localsubjectaccessreviews"


def is_idle(server: Server, attributes: Attributes) -> bool:
    """Whether a write changes an object, or creates one in a namespace that the watch cache has and
    that is not terminating."""
    name = attributes.target.key.namespace
    if attributes.operation != "CREATE" or not name:
        return attributes.operation == "UPDATE"
    namespace = cached_namespace(server, name)
    return namespace is not None and not is_terminating(namespace)


async def admit(
    server: Server, attributes: Attributes, _new: Tree | None, _old: Tree | None
) -> None:
    """Raise NotFound for a missing namespace, Forbidden for a terminating or a protected one."""
    target = attributes.target
    if attributes.operation == "DELETE":
        if target.is_namespace and attributes.name in IMMORTAL:
            raise Forbidden(
                "this namespace may not be deleted", resource="namespaces", name=attributes.name
            )
        return
    name = target.key.namespace
    if attributes.operation != "CREATE" or not name or target.resource.name == _REVIEW:
        return
    if is_terminating(await namespace_object(server, name)):
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
