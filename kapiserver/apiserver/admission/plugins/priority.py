"""Priority: sets the priority and preemption policy of a pod from its priority class.

Mirrors plugin/pkg/admission/priority.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.accessors import name_of
from kapiserver.api.core import v1
from kapiserver.api.group import GroupVersion
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound

_SCHEDULING = GroupVersion("scheduling.k8s.io", "v1")
_DEFAULT_POLICY = "PreemptLowerPriority"
_FIELDS = ("priority", "preemptionPolicy")


async def admit(server: Server, attributes: Attributes, new: Tree | None, old: Tree | None) -> None:
    """Set both fields. Raises Forbidden for a missing class or values that contradict it."""
    if new is None or attributes.target.resource.name != "pods" or attributes.target.subresource:
        return
    spec = new.setdefault("spec", {})
    if old is not None:
        old_spec = old.get("spec") or {}
        for field in _FIELDS:
            if spec.get(field) is None and old_spec.get(field) is not None:
                spec[field] = old_spec[field]
    else:
        await _set_priority(server, attributes, spec)
    reorder_keys(spec, v1.PodSpec)


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Raise Forbidden for a second default class."""
    if new is None or attributes.target.resource.name != "priorityclasses":
        return
    if not new.get("globalDefault"):
        return
    for priority_class in await _priority_classes(server):
        if priority_class.get("globalDefault") and name_of(priority_class) != name_of(new):
            raise attributes.forbidden(
                f"PriorityClass {name_of(priority_class)} is already marked as default. "
                "Only one default can exist"
            )


async def _set_priority(server: Server, attributes: Attributes, spec: Tree) -> None:
    name = spec.get("priorityClassName")
    if name:
        priority_class = await _priority_class(server, attributes, name)
    else:
        defaults = [
            class_ for class_ in await _priority_classes(server) if class_.get("globalDefault")
        ]
        priority_class = min(defaults, key=lambda class_: class_.get("value") or 0, default={})
        if priority_class:
            spec["priorityClassName"] = name_of(priority_class)
    value = priority_class.get("value") or 0
    policy = priority_class.get("preemptionPolicy") or _DEFAULT_POLICY
    given_priority = spec.get("priority")
    if given_priority is not None and given_priority != value:
        raise attributes.forbidden(
            f"the integer value of priority ({given_priority}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
    spec["priority"] = value
    given_policy = spec.get("preemptionPolicy")
    if given_policy is not None and given_policy != policy:
        raise attributes.forbidden(
            f"the string value of PreemptionPolicy ({given_policy}) must not be provided in pod "
            f"spec; priority admission controller computed {policy} from the given PriorityClass "
            "name"
        )
    spec["preemptionPolicy"] = policy


async def _priority_class(server: Server, attributes: Attributes, name: str) -> Tree:
    """Return the class of that name. Raises Forbidden if it does not exist."""
    store = server.stores.by_name(_SCHEDULING, "priorityclasses")
    try:
        return (await store.get_cached_first(ObjectKey("", name))).tree()
    except NotFound:
        raise attributes.forbidden(f"no PriorityClass with name {name} was found") from None


async def _priority_classes(server: Server) -> Sequence[Tree]:
    store = server.stores.by_name(_SCHEDULING, "priorityclasses")
    return [entry.tree() for entry in await store.cached_entries()]
