"""Table columns of the apps group. Mirrors pkg/printers/internalversion of Kubernetes."""

from __future__ import annotations

from kapiserver.api.accessors import metadata_of, value_at
from kapiserver.api.columns import (
    AGE,
    NAME,
    NONE,
    REPLICA_COLUMNS,
    Column,
    Columns,
    labels_text,
    number,
    pod_template_columns,
    selector_column,
)
from kapiserver.api.errors import BadObject
from kapiserver.api.label_selectors import selector_text
from kapiserver.api.types import Tree


def _ready(controller: Tree) -> str:
    ready = value_at(controller, "status", "readyReplicas") or 0
    return f"{ready}/{value_at(controller, 'spec', 'replicas') or 0}"


def _selector(deployment: Tree) -> str:
    try:
        return selector_text(value_at(deployment, "spec", "selector"))
    except BadObject:
        return "<invalid>"


def _node_selector(daemon_set: Tree) -> str:
    return labels_text(value_at(daemon_set, "spec", "template", "spec", "nodeSelector"))


def _controller(revision: Tree) -> str:
    for owner in metadata_of(revision).get("ownerReferences") or ():
        if owner.get("controller"):
            group = (owner.get("apiVersion") or "").rpartition("/")[0]
            kind = (owner.get("kind") or "").lower()
            return f"{kind}.{group}/{owner.get('name') or ''}".replace("./", "/", 1)
    return NONE


_POD_COLUMNS = pod_template_columns("spec", "template")

COLUMNS: dict[str, Columns] = {
    "ControllerRevision": Columns(
        (
            NAME,
            Column("Controller", _controller, "Controller that owns the revision."),
            Column("Revision", number("revision"), "Number of the revision; higher is newer."),
            AGE,
        )
    ),
    "DaemonSet": Columns(
        (
            NAME,
            Column(
                "Desired",
                number("status", "desiredNumberScheduled"),
                "Number of nodes that should run a pod.",
                type="integer",
            ),
            Column(
                "Current",
                number("status", "currentNumberScheduled"),
                "Number of nodes that should run a pod and do.",
                type="integer",
            ),
            Column(
                "Ready",
                number("status", "numberReady"),
                "Number of nodes whose pod is ready.",
                type="integer",
            ),
            Column(
                "Up-to-date",
                number("status", "updatedNumberScheduled"),
                "Number of nodes whose pod has the current template.",
                type="integer",
            ),
            Column(
                "Available",
                number("status", "numberAvailable"),
                "Number of nodes whose pod has been ready for minReadySeconds.",
                type="integer",
            ),
            Column("Node Selector", _node_selector, "Labels of the nodes that run the pods."),
            AGE,
            *_POD_COLUMNS,
            selector_column("spec", "selector"),
        )
    ),
    "Deployment": Columns(
        (
            NAME,
            Column("Ready", _ready, "Number of ready pods and number of desired pods."),
            Column(
                "Up-to-date",
                number("status", "updatedReplicas"),
                "Number of pods that have the current template.",
            ),
            Column(
                "Available",
                number("status", "availableReplicas"),
                "Number of pods that have been ready for minReadySeconds.",
            ),
            AGE,
            *_POD_COLUMNS,
            Column("Selector", _selector, "Label selector of the pods.", priority=1),
        )
    ),
    "ReplicaSet": Columns(
        (
            NAME,
            *REPLICA_COLUMNS,
            AGE,
            *_POD_COLUMNS,
            selector_column("spec", "selector"),
        )
    ),
    "StatefulSet": Columns(
        (
            NAME,
            Column("Ready", _ready, "Number of ready pods and number of desired pods."),
            AGE,
            *_POD_COLUMNS,
        )
    ),
}
