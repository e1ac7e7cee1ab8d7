"""The pods of a DaemonSet: on which nodes they run, and what they look like.

Mirrors pkg/controller/daemon/util.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from msgspec import Struct

from kapiserver.api.accessors import (
    annotations_of,
    copy_tree,
    labels_of,
    metadata_of,
    name_of,
    value_at,
)
from kapiserver.api.core.pods.node_affinity import REQUIRED, required_affinity
from kapiserver.api.core.pods.tolerations import tolerates
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.pod_control import pod_from_template
from kapiserver.controllers.workloads.pods import node_of
from kapiserver.controllers.workloads.revisions import REVISION_HASH

_GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"
_GENERATION_LABEL = "pod-template-generation"
_NODE_NAME = "metadata.name"
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""The taints that every pod of a DaemonSet tolerates: key and effect."""
_TOLERATED_ON_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


class Eligibility(Struct, frozen=True):
    """Whether a node gets a pod, and whether a present pod may stay."""

    should_run: bool
    may_continue: bool


class _Node(Struct):
    name: str
    labels: Mapping[str, str]


def eligibility_of(owner: Tree) -> Callable[[Tree], Eligibility]:
    """Return a function that returns the eligibility of a Node."""
    spec: Tree = value_at(owner, "spec", "template", "spec") or {}
    tolerations, selects = daemon_tolerations(spec), required_affinity(spec)

    def eligibility(node: Tree) -> Eligibility:
        if spec.get("nodeName") not in (None, "", name_of(node)):
            return Eligibility(should_run=False, may_continue=False)
        if selects is not None and not selects(_Node(name_of(node), labels_of(node))):
            return Eligibility(should_run=False, may_continue=False)
        untolerated = {
            taint.get("effect")
            for taint in value_at(node, "spec", "taints") or ()
            if not tolerates(tolerations, taint)
        }
        return Eligibility(
            should_run=untolerated.isdisjoint(("NoSchedule", "NoExecute")),
            may_continue="NoExecute" not in untolerated,
        )

    return eligibility


def daemon_tolerations(spec: Tree) -> list[Tree]:
    """Return the tolerations of a pod's spec and those that every daemon has."""
    tolerated = [*_TOLERATED]
    if spec.get("hostNetwork"):
        tolerated.append(_TOLERATED_ON_HOST_NETWORK)
    added: list[Tree] = [
        {"key": key, "operator": "Exists", "effect": effect} for key, effect in tolerated
    ]
    return [
        toleration
        for toleration in spec.get("tolerations") or ()
        if _plain(toleration) not in added
    ] + added


def _plain(toleration: Tree) -> Tree:
    return {name: toleration.get(name) for name in ("key", "operator", "effect")}


def new_daemon_pod(owner: Tree, node_name: str, text: str) -> Tree:
    """Return a pod whose node affinity allows only one node; `text` is the hash of its revision."""
    pod = pod_from_template(value_at(owner, "spec", "template") or {}, owner)
    labels = dict(labels_of(pod))
    generation = _generation_of(owner)
    if generation:
        labels[_GENERATION_LABEL] = generation
    metadata_of(pod)["labels"] = labels | {REVISION_HASH: text}
    spec = pod["spec"]
    spec["tolerations"] = daemon_tolerations(spec)
    only = {"matchFields": [{"key": _NODE_NAME, "operator": "In", "values": [node_name]}]}
    affinity = copy_tree(spec.get("affinity") or {})
    node_affinity = affinity.get("nodeAffinity") or {}
    affinity["nodeAffinity"] = node_affinity | {REQUIRED: {"nodeSelectorTerms": [only]}}
    spec["affinity"] = affinity
    return pod


def target_node_of(pod: Tree) -> str:
    """Return the node on which the pod runs or is meant to run, or ""."""
    if node := node_of(pod):
        return node
    terms = value_at(pod, "spec", "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
    for term in terms or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == _NODE_NAME and field.get("operator") == "In":
                values: list[str] = field.get("values") or []
                return values[0] if len(values) == 1 else ""
    return ""


def is_updated(owner: Tree, pod: Tree, text: str) -> bool:
    """Report whether the pod has the present template, whose hash is `text`."""
    generation = _generation_of(owner)
    labels = labels_of(pod)
    return labels.get(REVISION_HASH) == text or (
        bool(generation) and labels.get(_GENERATION_LABEL) == generation
    )


def _generation_of(owner: Tree) -> str:
    """Return the generation of the template, which clients of apps/v1 see as an annotation, or
    ""."""
    with contextlib.suppress(ValueError):
        return str(int(annotations_of(owner).get(_GENERATION_ANNOTATION) or ""))
    return ""
