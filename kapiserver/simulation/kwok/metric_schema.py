"""The schema of the spec of a Metric. Mirrors metric_types.go of kwok's pkg/apis/v1alpha1."""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.simulation.kwok.schemas import flag, items, record, text

MAX_METRICS = 1000
"""The most metrics of a page."""
_NAME = {"type": "string", "minLength": 1}
_BUCKET = record(
    "",
    {
        "le": {"type": "number", "minimum": 0, "description": "The upper bound."},
        "value": text("An expression of the number of observations above the bucket before."),
        "hidden": flag("Whether the observations are shown in the next bucket only."),
    },
    required=("le", "value"),
)
_CONFIG = record(
    "",
    {
        "name": _NAME | {"description": "The name of the metric."},
        "help": text("What the metric means."),
        "kind": text("The type of the metric.", "counter", "gauge", "histogram"),
        "labels": items(
            "The labels of the metric.",
            record(
                "",
                {
                    "name": _NAME | {"description": "The name of the label."},
                    "value": _NAME | {"description": "An expression of the text of the label."},
                },
                required=("name", "value"),
            ),
        )
        | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "value": text("An expression of the number, for a counter or gauge."),
        "buckets": items("The buckets of a histogram.", _BUCKET)
        | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["le"]},
        "dimension": text(
            "What has a value each: the node, its pods or their containers.",
            "node",
            "pod",
            "container",
            default="node",
        ),
    },
    required=("kind", "name"),
)

METRIC: Tree = record(
    "A page of metrics in the Prometheus text format.",
    {
        "path": _NAME
        | {
            "description": "The path of the page. It begins with /metrics; {nodeName} stands for "
            "the name of a node."
        },
        "metrics": items("The metrics of the page.", _CONFIG) | {"maxItems": MAX_METRICS},
    },
    required=("metrics", "path"),
)
