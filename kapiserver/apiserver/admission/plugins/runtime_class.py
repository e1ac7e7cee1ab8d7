"""RuntimeClass: sets the overhead, node selector and tolerations of a pod from its runtime class.

Mirrors plugin/pkg/admission/runtimeclass.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.core import v1
from kapiserver.api.group import GroupVersion
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound

_NODE = GroupVersion("node.k8s.io", "v1")


async def admit(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Apply the class. Raises Forbidden for a missing class or values that contradict it."""
    if new is None or attributes.target.subresource:
        return
    spec = new.setdefault("spec", {})
    runtime_class = await _runtime_class(server, attributes, spec)
    if runtime_class is None:
        return
    overhead = value_at(runtime_class, "overhead", "podFixed")
    if overhead:
        if spec.get("overhead") is not None and not _are_equal(spec["overhead"], overhead):
            raise attributes.forbidden(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            )
        spec["overhead"] = dict(overhead)
    scheduling = runtime_class.get("scheduling") or {}
    _apply_scheduling(attributes, spec, scheduling)
    reorder_keys(spec, v1.PodSpec)


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Raise Forbidden if the overhead is not that of the class."""
    spec = (new or {}).get("spec") or {}
    if attributes.target.subresource:
        return
    runtime_class = await _runtime_class(server, attributes, spec)
    pod_overhead = spec.get("overhead")
    overhead = value_at(runtime_class or {}, "overhead", "podFixed")
    if overhead and (not pod_overhead or not _are_equal(pod_overhead, overhead)):
        raise attributes.forbidden(
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        )
    if pod_overhead and not overhead:
        raise attributes.forbidden(
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        )


async def _runtime_class(server: Server, attributes: Attributes, spec: Tree) -> Tree | None:
    name = spec.get("runtimeClassName")
    if not name:
        return None
    store = server.stores.by_name(_NODE, "runtimeclasses")
    try:
        return (await store.get_cached_first(ObjectKey("", name))).tree()
    except NotFound:
        raise attributes.forbidden(f'pod rejected: RuntimeClass "{name}" not found') from None


def _are_equal(left: Tree, right: Tree) -> bool:
    return left.keys() == right.keys() and all(
        parse(left[name]).decimal == parse(right[name]).decimal for name in left
    )


def _apply_scheduling(attributes: Attributes, spec: Tree, scheduling: Tree) -> None:
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
    tolerations = spec.get("tolerations") or []
    added = [
        dict(toleration)
        for toleration in scheduling.get("tolerations") or ()
        if toleration not in tolerations
    ]
    if added:
        spec["tolerations"] = [*tolerations, *added]
