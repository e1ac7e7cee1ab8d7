"""The table of kwok's kinds that are served with `--simulate`, and their definitions."""

from __future__ import annotations

from dataclasses import dataclass

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.simulation.kwok.metric_schema import METRIC
from kapiserver.simulation.kwok.schemas import items, record, text
from kapiserver.simulation.kwok.stage_schema import STAGE
from kapiserver.simulation.kwok.stream_schema import (
    ATTACH,
    CLUSTER_ATTACH,
    CLUSTER_EXEC,
    CLUSTER_LOGS,
    CLUSTER_PORT_FORWARD,
    EXEC,
    LOGS,
    PORT_FORWARD,
)
from kapiserver.simulation.kwok.usage_schema import CLUSTER_RESOURCE_USAGE, RESOURCE_USAGE

KWOK = GroupVersion("kwok.x-k8s.io", "v1alpha1")

_CONDITION = {
    "type": text("The type of the condition."),
    "status": text("Whether it holds.", "True", "False", "Unknown"),
    "reason": text("Why, as one word."),
    "message": text("Why, for people."),
    "lastTransitionTime": {"type": "string", "format": "date-time"},
}
_STATUS = record(
    "What was found out about the object.",
    {
        "conditions": items("Conditions.", record("", _CONDITION, required=("type", "status")))
        | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    },
)


@dataclass(frozen=True)
class KwokKind:
    """One kind. `spec` is the schema of its spec."""

    kind: str
    resource: str
    spec: Tree
    namespaced: bool = False


KINDS = (
    KwokKind("Stage", "stages", STAGE),
    KwokKind("ResourceUsage", "resourceusages", RESOURCE_USAGE, namespaced=True),
    KwokKind("ClusterResourceUsage", "clusterresourceusages", CLUSTER_RESOURCE_USAGE),
    KwokKind("Metric", "metrics", METRIC),
    KwokKind("Logs", "logs", LOGS, namespaced=True),
    KwokKind("ClusterLogs", "clusterlogs", CLUSTER_LOGS),
    KwokKind("Exec", "execs", EXEC, namespaced=True),
    KwokKind("ClusterExec", "clusterexecs", CLUSTER_EXEC),
    KwokKind("Attach", "attaches", ATTACH, namespaced=True),
    KwokKind("ClusterAttach", "clusterattaches", CLUSTER_ATTACH),
    KwokKind("PortForward", "portforwards", PORT_FORWARD, namespaced=True),
    KwokKind("ClusterPortForward", "clusterportforwards", CLUSTER_PORT_FORWARD),
)
"""To add a kind: write the schema of its spec in a module here, and a record in this table."""


def _definition_of(kind: KwokKind) -> Tree:
    """Return the CustomResourceDefinition of a kind."""
    plural, singular = kind.resource, kind.kind.lower()
    schema = record(kind.spec["description"], {"spec": kind.spec, "status": _STATUS})
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{KWOK.group}"},
        "spec": {
            "group": KWOK.group,
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": plural,
                "singular": singular,
            },
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [
                {
                    "name": KWOK.version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema | {"required": ["spec"]}},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


DEFINITIONS = {f"{kind.resource}.{KWOK.group}": _definition_of(kind) for kind in KINDS}
"""The definitions by name."""
