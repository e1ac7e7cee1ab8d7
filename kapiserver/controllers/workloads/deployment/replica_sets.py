"""The ReplicaSets of a Deployment: the new one, their annotations, and what is planned for each.

Mirrors pkg/controller/deployment/util.
"""

from __future__ import annotations

from kapiserver.api.accessors import (
    annotations_of,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.claims import controller_reference, controller_uid
from kapiserver.controllers.workloads.pods import seconds_of
from kapiserver.controllers.workloads.replicas import replicas_of
from kapiserver.controllers.workloads.template_hash import (
    POD_TEMPLATE_HASH,
    same_template,
    template_hash,
)

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
NOT_COPIED = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
    )
)
"""Annotations of the Deployment that its ReplicaSets do not take over."""
_MAX_HISTORY_LENGTH = 2000
_MAX_NAME_LENGTH = 253


class PlannedReplicaSet:
    """A ReplicaSet and the changes that are planned for it."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.name = name_of(tree)
        self.replicas = replicas_of(tree)
        self.annotations = dict(annotations_of(tree))
        self.revision = number(self.annotations.get(REVISION))
        self.created = seconds_of(metadata_of(tree).get("creationTimestamp")) or float("inf")

    def count(self, name: str) -> int:
        """Return a number of the status, such as availableReplicas."""
        return value_at(self.tree, "status", name) or 0

    def copy_annotations(self, deployment: Tree) -> None:
        """Take over the annotations of the Deployment that describe it."""
        self.annotations |= {
            name: value
            for name, value in annotations_of(deployment).items()
            if name not in NOT_COPIED
        }

    def raise_revision(self, revision: int) -> None:
        """Set the revision if it is higher than the present one, which the history keeps."""
        if self.revision >= revision:
            return
        previous = self.annotations.get(REVISION)
        if previous:
            history = [*self.annotations.get(REVISION_HISTORY, "").split(","), previous]
            history = [revision for revision in history if revision]
            while len(",".join(history)) > _MAX_HISTORY_LENGTH:
                history.pop(0)
            self.annotations[REVISION_HISTORY] = ",".join(history)
        self.annotations[REVISION] = str(revision)
        self.revision = revision

    def planned(self) -> Tree:
        """Return the ReplicaSet with the planned replicas and annotations."""
        metadata = metadata_of(self.tree) | {"annotations": dict(self.annotations)}
        spec = (self.tree.get("spec") or {}) | {"replicas": self.replicas}
        return self.tree | {"metadata": metadata, "spec": spec}


def new_replica_set(deployment: Tree) -> Tree:
    """Return the ReplicaSet for the Deployment's template, without replicas and annotations."""
    template: Tree = value_at(deployment, "spec", "template") or {}
    digest = template_hash(template, value_at(deployment, "status", "collisionCount"))
    labels = {**labels_of(template), POD_TEMPLATE_HASH: digest}
    selector: Tree = value_at(deployment, "spec", "selector") or {}
    match_labels = (selector.get("matchLabels") or {}) | {POD_TEMPLATE_HASH: digest}
    metadata: Tree = template.get("metadata") or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name_of(deployment)[: _MAX_NAME_LENGTH - 1 - len(digest)]}-{digest}",
            "namespace": namespace_of(deployment),
            "labels": labels,
            "ownerReferences": [controller_reference(deployment, "apps/v1", "Deployment")],
        },
        "spec": {
            "replicas": 0,
            "minReadySeconds": value_at(deployment, "spec", "minReadySeconds") or 0,
            "selector": selector | {"matchLabels": match_labels},
            "template": template | {"metadata": metadata | {"labels": labels}},
        },
    }


def has_collided(deployment: Tree, existing: Tree) -> bool:
    """Report whether an existing ReplicaSet that has the name of the new one is another one."""
    is_own = controller_uid(existing) == uid_of(deployment)
    return not is_own or not has_template_of(deployment, existing)


def has_template_of(deployment: Tree, replica_set: Tree) -> bool:
    """Report whether a ReplicaSet has the pod template of a Deployment, whatever its hash."""
    template = value_at(deployment, "spec", "template") or {}
    other_template = value_at(replica_set, "spec", "template") or {}
    return same_template(template, other_template)


def age(replica_set: PlannedReplicaSet) -> tuple[float, str]:
    """Return a sort key that puts the oldest ReplicaSet first."""
    return replica_set.created, replica_set.name


def number(text: str | None) -> int:
    """Return the number that an annotation holds, or 0."""
    return number_or_none(text) or 0


def number_or_none(text: str | None) -> int | None:
    """Return the number that an annotation holds; None if it is missing or something else."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None
