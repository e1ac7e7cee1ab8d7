"""The pods of a manifest: a pod itself, or the template from which a controller makes pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kapiserver.api.types import Tree
from kapiserver.checking.finding import Steps
from kapiserver.checking.rules.values import items_at, text_at, texts_at, value_at

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
_JUDGES = ("LimitRange", "ResourceQuota", "ValidatingAdmissionPolicy")
_POD_SECURITY = "pod-security.kubernetes.io/enforce"
_PREFIX, _SUFFIX = 57, "xxxxx"
"""The length of the first part of a pod's name, and what stands for the generated part."""
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def pod_steps(tree: Tree) -> tuple[str, ...] | None:
    """Return the steps to the pod or the template of a manifest; None if it makes no pods."""
    group = tree["apiVersion"].rpartition("/")[0]
    return _TEMPLATES.get(tree["kind"]) if group in _GROUPS else None


def pod_of(tree: Tree) -> Any:
    """Return the pod or the template of a manifest; None if it has none."""
    steps = pod_steps(tree)
    return None if steps is None else value_at(tree, *steps)


def new_pod(tree: Tree, namespace: str) -> Tree | None:
    """Return a pod as a controller makes it from its template; None for an object without one."""
    template = pod_of(tree)
    if tree["kind"] == "Pod" or not isinstance(template, dict):
        return None
    metadata = {
        "name": f"{text_at(tree, 'metadata', 'name')[:_PREFIX]}-{_SUFFIX}",
        "namespace": namespace,
        "labels": dict(texts_at(template, "metadata", "labels")),
        "annotations": dict(texts_at(template, "metadata", "annotations")),
    }
    spec = template.get("spec")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def judges_pods(tree: Tree) -> bool:
    """Report whether an object may make the server refuse pods."""
    labels = texts_at(tree, "metadata", "labels")
    return tree["kind"] in _JUDGES or (
        tree["kind"] == "Namespace" and any(key.startswith(_POD_SECURITY) for key in labels)
    )


def containers_of(pod: Any) -> Iterator[tuple[Steps, Any]]:
    """Yield all containers of a pod or a template, each with the steps from it."""
    for name in _CONTAINERS:
        yield from items_at(pod, "spec", name)
