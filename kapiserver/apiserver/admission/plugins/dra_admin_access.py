"""Who may use devices beside their users: claims in namespaces that an administrator labelled.

Strategies cannot see namespaces. Mirrors AuthorizedForAdmin of pkg/registry/resource.
"""

from __future__ import annotations

from kapiserver.api.accessors import labels_of, name_of, value_at
from kapiserver.api.errors import InvalidObject, Path, forbidden
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.target import Target
from kapiserver.storage.entry import ObjectKey

_LABEL = "resource.kubernetes.io/admin-access"
_DETAIL = f"admin access to devices requires the `{_LABEL}: true` label on the containing namespace"
_RESULTS = ("status", "allocation", "devices", "results")


async def check(server: Server, target: Target, new: Tree, old: Tree | None) -> None:
    """Raises InvalidObject."""
    if old is not None and not target.subresource:
        return  # what was asked for stays
    path = _asked(target, new, old or {})
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


def _asked(target: Target, new: Tree, old: Tree) -> Path | None:
    # Where admin access is asked for, or was given.
    if target.subresource:
        found = value_at(new, *_RESULTS) or ()
        if any(one.get("adminAccess") for one in value_at(old, *_RESULTS) or ()):
            return None
        wanted = [one.get("adminAccess") for one in found]
        path = Path(".".join(_RESULTS))
    else:
        spec = ("spec", "spec") if target.resource.name == "resourceclaimtemplates" else ("spec",)
        requests = value_at(new, *spec, "devices", "requests") or ()
        wanted = [value_at(one, "exactly", "adminAccess") for one in requests]
        path = Path("spec.devices.requests")  # of templates too, as kube-apiserver has it
    return next((path[i] / "adminAccess" for i, one in enumerate(wanted) if one), None)
