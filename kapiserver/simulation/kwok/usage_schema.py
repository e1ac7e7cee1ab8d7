"""The schemas of kwok's kinds that say what pods use: ResourceUsage and ClusterResourceUsage."""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.simulation.kwok.schemas import items, mapping, record, text, texts

_AMOUNT = record(
    "How much is used.",
    {
        "value": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "description": "A quantity. It counts if there is an expression, too.",
        },
        "expression": text(
            "A CEL expression of a number or Quantity, with the variables node, pod and container."
        ),
    },
)
_USAGES = items(
    "What containers use. The first entry that names a container counts for it, or else the first "
    "one without names.",
    record(
        "",
        {
            "containers": texts("The names of the containers. Without names, all are meant."),
            "usage": mapping("What they use, by resource: cpu and memory.", _AMOUNT),
        },
    ),
)
SELECTOR = record(
    "The pods; without a selector, all pods.",
    {
        "matchNamespaces": texts("Their namespaces. Without namespaces, all are meant."),
        "matchNames": texts("Their names. Without names, all are meant."),
    },
)

RESOURCE_USAGE: Tree = record("What the pod of the same name uses.", {"usages": _USAGES})
CLUSTER_RESOURCE_USAGE: Tree = record("What pods use.", {"selector": SELECTOR, "usages": _USAGES})
