"""The pods of a manifest: a pod itself, or the template from which a controller makes pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kapiserver.api.types import Tree
from kapiserver.checking.finding import Steps
from kapiserver.checking.rules.values import items_at, value_at

_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    "ReplicationController": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""The way to the pod or its template, by kind."""
_GROUPS = ("", "apps", "batch")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def pod_steps(tree: Tree) -> tuple[str, ...] | None:
    """Return the steps to the pod or the template of a manifest; None if it makes no pods."""
    group = tree["apiVersion"].rpartition("/")[0]
    return _TEMPLATES.get(tree["kind"]) if group in _GROUPS else None


def pod_of(tree: Tree) -> Any:
    """Return the pod or the template of a manifest; None if it has none."""
    steps = pod_steps(tree)
    return None if steps is None else value_at(tree, *steps)


def containers_of(pod: Any) -> Iterator[tuple[Steps, Any]]:
    """Yield all containers of a pod or a template, each with the steps from it."""
    for name in _CONTAINERS:
        yield from items_at(pod, "spec", name)
