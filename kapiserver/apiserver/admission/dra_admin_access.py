"""Admin access to devices (DRA): only for claims in namespaces with the admin-access label.

Not a strategy, because strategies cannot read namespaces. Mirrors AuthorizedForAdmin of
pkg/registry/resource.
"""

from __future__ import annotations

from kapiserver.api.accessors import labels_of, name_of, value_at
from kapiserver.api.errors import InvalidObject, Path, forbidden
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.target import Target
from kapiserver.storage.cache.entry import ObjectKey

_LABEL = "resource.kubernetes.io/admin-access"
_DETAIL = f"admin access to devices requires the `{_LABEL}: true` label on the containing namespace"
_RESULTS = ("status", "allocation", "devices", "results")


async def check(server: Server, attributes: Attributes, new: Tree, old: Tree | None) -> None:
    """Raise InvalidObject for a claim with admin access in a namespace without the label."""
    target = attributes.target
    if old is not None and not target.subresource:
        return  # the spec is immutable
    path = _admin_access_path(target, new, old or {})
    if path is None:
        return
    namespaces = server.stores.by_name(CORE, "namespaces")
    key = ObjectKey("", target.key.namespace)
    namespace = (await namespaces.get(key)).tree()
    if labels_of(namespace).get(_LABEL) == "true":
        return
    resource = target.resource
    errors = [forbidden(path, _DETAIL)]
    raise InvalidObject(group=resource.group, kind=resource.kind, name=name_of(new), errors=errors)


def _admin_access_path(target: Target, new: Tree, old: Tree) -> Path | None:
    # The first request for admin access, or its first grant in the status.
    if target.subresource:
        results = value_at(new, *_RESULTS) or ()
        if any(result.get("adminAccess") for result in value_at(old, *_RESULTS) or ()):
            return None
        admin_access = [result.get("adminAccess") for result in results]
        path = Path(".".join(_RESULTS))
    else:
        spec = ("spec", "spec") if target.resource.name == "resourceclaimtemplates" else ("spec",)
        requests = value_at(new, *spec, "devices", "requests") or ()
        admin_access = [value_at(request, "exactly", "adminAccess") for request in requests]
        path = Path("spec.devices.requests")  # of templates too, as in kube-apiserver
    indices = (index for index, value in enumerate(admin_access) if value)
    return next((path[index] / "adminAccess" for index in indices), None)
