"""Priority: the number and the preemption that the class of a pod stands for.

Mirrors plugin/pkg/admission/priority.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from kapiserver.api.accessors import name_of
from kapiserver.api.core import v1
from kapiserver.api.group import GroupVersion
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.attributes import Attributes
from kapiserver.apiserver.context import Server
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.query import ListQuery

_SCHEDULING = GroupVersion("scheduling.k8s.io", "v1")
_PREEMPTS = "PreemptLowerPriority"
_FIELDS = ("priority", "preemptionPolicy")


async def admit(server: Server, attributes: Attributes, new: Tree | None, old: Tree | None) -> None:
    """Raises Forbidden."""
    if new is None or attributes.target.resource.name != "pods" or attributes.target.subresource:
        return
    spec = new.setdefault("spec", {})
    if old is not None:
        before = old.get("spec") or {}
        for field in _FIELDS:
            if spec.get(field) is None and before.get(field) is not None:
                spec[field] = before[field]
    else:
        await _resolve(server, attributes, spec)
    reorder_keys(spec, v1.PodSpec)


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """One class is the default at most. Raises Forbidden."""
    if new is None or attributes.target.resource.name != "priorityclasses":
        return
    if not new.get("globalDefault"):
        return
    for other in await _classes(server):
        if other.get("globalDefault") and name_of(other) != name_of(new):
            raise attributes.forbidden(
                f"PriorityClass {name_of(other)} is already marked as default. Only one default "
                "can exist"
            )


async def _resolve(server: Server, attributes: Attributes, spec: Tree) -> None:
    name = spec.get("priorityClassName")
    if name:
        chosen = await _named(server, attributes, name)
    else:
        defaults = [one for one in await _classes(server) if one.get("globalDefault")]
        chosen = min(defaults, key=lambda one: one.get("value") or 0, default={})
        if chosen:
            spec["priorityClassName"] = name_of(chosen)
    value, policy = chosen.get("value") or 0, chosen.get("preemptionPolicy") or _PREEMPTS
    asked = spec.get("priority")
    if asked is not None and asked != value:
        raise attributes.forbidden(
            f"the integer value of priority ({asked}) must not be provided in pod spec; priority "
            f"admission controller computed {value} from the given PriorityClass name"
        )
    spec["priority"] = value
    wanted = spec.get("preemptionPolicy")
    if wanted is not None and wanted != policy:
        raise attributes.forbidden(
            f"the string value of PreemptionPolicy ({wanted}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
    spec["preemptionPolicy"] = policy


async def _named(server: Server, attributes: Attributes, name: str) -> Tree:
    """The class of that name, one that was made just now too. Raises Forbidden."""
    store = server.stores.by_name(_SCHEDULING, "priorityclasses")
    for version in ("0", ""):
        with suppress(NotFound):
            return (await store.get(ObjectKey("", name), resource_version=version)).tree()
    raise attributes.forbidden(f"no PriorityClass with name {name} was found")


async def _classes(server: Server) -> Sequence[Tree]:
    store = server.stores.by_name(_SCHEDULING, "priorityclasses")
    return [one.tree() for one in (await store.list(ListQuery(resource_version="0"))).entries]
