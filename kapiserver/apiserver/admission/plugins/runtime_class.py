"""RuntimeClass: the class of a pod is there; its overhead and its nodes are the pod's.

Mirrors plugin/pkg/admission/runtimeclass.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.core import v1
from kapiserver.api.group import GroupVersion
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound

_NODE = GroupVersion("node.k8s.io", "v1")


async def admit(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Raises Forbidden."""
    if new is None or attributes.target.subresource:
        return
    spec = new.setdefault("spec", {})
    found = await _class_of(server, attributes, spec)
    if found is None:
        return
    overhead = value_at(found, "overhead", "podFixed")
    if overhead:
        if spec.get("overhead") is not None and not _equal(spec["overhead"], overhead):
            raise attributes.forbidden(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            )
        spec["overhead"] = dict(overhead)
    scheduling = found.get("scheduling") or {}
    _narrow(attributes, spec, scheduling)
    reorder_keys(spec, v1.PodSpec)


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Raises Forbidden."""
    spec = (new or {}).get("spec") or {}
    if attributes.target.subresource:
        return
    found = await _class_of(server, attributes, spec)
    given = spec.get("overhead")
    overhead = value_at(found or {}, "overhead", "podFixed")
    if overhead and (not given or not _equal(given, overhead)):
        raise attributes.forbidden(
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        )
    if given and not overhead:
        raise attributes.forbidden(
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )


async def _class_of(server: Server, attributes: Attributes, spec: Tree) -> Tree | None:
    name = spec.get("runtimeClassName")
    if not name:
        return None
    store = server.stores.by_name(_NODE, "runtimeclasses")
    key = ObjectKey("", name)
    try:
        return (await store.get(key, resource_version="0")).tree()
    except NotFound:
        try:
            return (await store.get(key)).tree()
        except NotFound:
            raise attributes.forbidden(f'pod rejected: RuntimeClass "{name}" not found') from None


def _equal(one: Tree, other: Tree) -> bool:
    return one.keys() == other.keys() and all(
        parse(one[name]).decimal == parse(other[name]).decimal for name in one
    )


def _narrow(attributes: Attributes, spec: Tree, scheduling: Tree) -> None:
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if key in selector and selector[key] != value:
            raise attributes.forbidden(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
        selector[key] = value
    if selector:
        spec["nodeSelector"] = dict(sorted(selector.items()))
    found = spec.get("tolerations") or []
    added = [dict(one) for one in scheduling.get("tolerations") or () if one not in found]
    if added:
        spec["tolerations"] = [*found, *added]
