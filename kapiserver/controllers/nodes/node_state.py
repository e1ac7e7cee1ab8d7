"""What a Node should look like: its labels and taints, and its conditions when it is silent.

Every function is pure. Times are seconds since 1970. Mirrors pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kapiserver.api.accessors import labels_of, metadata_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.storage.objects.lifecycle import timestamp

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_EXCLUDED = "node.kubernetes.io/exclude-disruption"
"""A node with this label does not count when the health of its zone is computed."""
_TAINT_OF_CONDITION: Mapping[tuple[str, str], str] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
"""The keys of taints, by the type and the status of a condition."""
_MANAGED_TAINTS = {*_TAINT_OF_CONDITION.values(), _UNSCHEDULABLE}
_KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""What a kubelet reports. NetworkUnavailable comes from others."""
_RECONCILED_LABELS = (
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
)
"""Labels, and the older labels that repeat them."""
_NEVER_UPDATED = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
_UNKNOWN = ("NodeStatusUnknown", "Kubelet stopped posting node status.")


def ready_condition(node: Tree) -> Tree | None:
    """Return the Ready condition of a node, or None."""
    return find_condition(value_at(node, "status", "conditions") or (), "Ready")


def ready_status(node: Tree) -> str:
    """Return the status of the Ready condition of a node, or "" without one."""
    return (ready_condition(node) or {}).get("status") or ""


def zone_of(node: Tree) -> str:
    """Return the region and the zone of a node as one text; "" without either."""
    region, zone = (_topology_label(node, name) for name in ("region", "zone"))
    return f"{region}:\0:{zone}" if region or zone else ""


def _topology_label(node: Tree, name: str) -> str:
    labels = labels_of(node)
    older = labels.get(f"failure-domain.beta.kubernetes.io/{name}")
    return labels.get(f"topology.kubernetes.io/{name}") or "" if older is None else older


def counts_for_zone(node: Tree) -> bool:
    """Report whether a node counts when the health of its zone is computed."""
    return _EXCLUDED not in labels_of(node)


def silent_status(node: Tree, now: float) -> Tree:
    """Return the status of a node whose kubelet is silent: what it reports is unknown."""
    status = dict(node.get("status") or {})
    conditions = list(status.get("conditions") or ())
    for name in _KUBELET_CONDITIONS:
        present = find_condition(conditions, name)
        if present is None:
            heartbeat = metadata_of(node).get("creationTimestamp")
            new = {"type": name, "lastHeartbeatTime": heartbeat}
            conditions.append(new | _unknown(_NEVER_UPDATED, now))
        elif present.get("status") != "Unknown":
            place = conditions.index(present)
            conditions[place] = present | _unknown(_UNKNOWN, now)
    return status | {"conditions": conditions}


def _unknown(cause: tuple[str, str], now: float) -> Tree:
    reason, message = cause
    time = timestamp(now)
    return {"status": "Unknown", "lastTransitionTime": time, "reason": reason, "message": message}


def reconciled(node: Tree, now: float, *, evicts: bool) -> Tree:
    """Return a node with the labels and taints that follow from its labels, conditions and spec.

    The taints that evict pods (NoExecute) are only removed, or replaced by each other: `tainted`
    adds them.

    evicts  whether some node of the cluster is ready; if none is, no node has such a taint
    """
    taints = _taints_of(node)
    scheduling = [taint for taint in taints if _is_managed(taint)]
    keys = _keys_by_condition(node)
    remaining = [taint for taint in taints if taint not in scheduling or taint["key"] in keys]
    present = {taint["key"] for taint in scheduling}
    added = [_taint(key, "NoSchedule", now) for key in keys if key not in present]
    return _relabelled(_with_taints(node, _swapped([*remaining, *added], node, now, evicts=evicts)))


def _taints_of(node: Tree) -> list[Tree]:
    return value_at(node, "spec", "taints") or []


def _is_managed(taint: Tree) -> bool:
    return taint.get("effect") == "NoSchedule" and taint.get("key") in _MANAGED_TAINTS


def _keys_by_condition(node: Tree) -> list[str]:
    """Return the keys of the NoSchedule taints of a node, in the order of its conditions."""
    keys = [
        key
        for condition in value_at(node, "status", "conditions") or ()
        if (key := _TAINT_OF_CONDITION.get((condition.get("type"), condition.get("status"))))
    ]
    return [*keys, _UNSCHEDULABLE] if value_at(node, "spec", "unschedulable") else keys


def _swapped(taints: Sequence[Tree], node: Tree, now: float, *, evicts: bool) -> list[Tree]:
    """Return the taints such that none evicts for the wrong reason: of the two keys only that of
    the Ready condition, if the node has one of them already."""
    status = ready_status(node)
    if not status and evicts:
        return list(taints)
    key = _TAINT_OF_CONDITION.get(("Ready", status)) if evicts else None
    remaining = _without(taints, {NOT_READY, UNREACHABLE} - {key})
    if key is None or len(remaining) == len(taints) or _evicts(remaining, key):
        return remaining
    return [*remaining, _taint(key, "NoExecute", now)]


def _evicts(taints: Iterable[Tree], key: str) -> bool:
    return any(taint.get("key") == key and taint.get("effect") == "NoExecute" for taint in taints)


def _without(taints: Iterable[Tree], keys: set[str]) -> list[Tree]:
    return [
        taint
        for taint in taints
        if taint.get("effect") != "NoExecute" or taint.get("key") not in keys
    ]


def needs_taint(node: Tree) -> bool:
    """Report whether a node is not ready, and has not got the taint yet that evicts its pods."""
    key = _TAINT_OF_CONDITION.get(("Ready", ready_status(node)))
    return key is not None and not _evicts(_taints_of(node), key)


def tainted(node: Tree, now: float) -> Tree:
    """Return a node with the taint that evicts its pods, unless it is ready."""
    if not needs_taint(node):
        return node
    key = _TAINT_OF_CONDITION["Ready", ready_status(node)]
    remaining = _without(_taints_of(node), {NOT_READY, UNREACHABLE})
    return _with_taints(node, [*remaining, _taint(key, "NoExecute", now)])


def _taint(key: str, effect: str, now: float) -> Tree:
    return {"key": key, "effect": effect, "timeAdded": timestamp(now)}


def _with_taints(node: Tree, taints: list[Tree]) -> Tree:
    if taints == _taints_of(node):
        return node
    spec = {name: value for name, value in node["spec"].items() if name != "taints"}
    return node | {"spec": spec | ({"taints": taints} if taints else {})}


def _relabelled(node: Tree) -> Tree:
    labels = labels_of(node)
    changes = {
        older: labels[name]
        for name, older in _RECONCILED_LABELS
        if name in labels and labels.get(older) != labels[name]
    }
    if not changes:
        return node
    return node | {"metadata": metadata_of(node) | {"labels": {**labels, **changes}}}
