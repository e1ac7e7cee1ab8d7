"""Custom metrics for HorizontalPodAutoscalers: custom.metrics.k8s.io from a file.

    python custom_metrics.py values.json

The file has values by namespace, metric and pod:

    {"default": {"requests_per_second": {"web-1": "12"}}}

Autoscalers ask for a metric of all pods that a selector selects, and drop those of other pods. A
real adapter would ask Prometheus.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kapiserver.extension import ApiServer, Call, Object, ObjectSource, Resource

METRIC = "requests_per_second"
VERSION = "custom.metrics.k8s.io/v1beta2"


class MetricValueList(Object):
    """Values of one metric."""


class NoPods(ObjectSource[MetricValueList]):
    """The pods themselves are objects of the cluster, and none here."""

    async def list(self) -> list[MetricValueList]:
        return []


def api_server(file: Path) -> ApiServer:
    """Return the API server of the values in a file."""
    pods = Resource(
        MetricValueList,
        group="custom.metrics.k8s.io",
        version="v1beta2",
        plural="pods",
        source=NoPods(),
    )

    @pods.connect(METRIC, methods=["GET"], of_objects=False)
    async def read(call: Call, _: None) -> dict[str, Any]:
        text = await asyncio.to_thread(file.read_text)
        values = json.loads(text).get(call.namespace, {}).get(METRIC, {})
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        items = [
            {
                "describedObject": {
                    "kind": "Pod", "apiVersion": "v1", "namespace": call.namespace, "name": name,
                },
                "metric": {"name": METRIC},
                "timestamp": now,
                "value": value,
            }
            for name, value in values.items()
            if call.name in ("*", name)
        ]  # fmt: skip
        return {"kind": "MetricValueList", "apiVersion": VERSION, "metadata": {}, "items": items}

    return ApiServer([pods])


if __name__ == "__main__":
    sys.exit(api_server(Path(sys.argv[1])).main(sys.argv[2:]))
