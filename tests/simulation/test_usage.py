"""What a simulated container uses, by its annotations and requests."""

from __future__ import annotations

import pytest

from kapiserver.simulation.fate import unreadable_annotations
from kapiserver.simulation.metrics.usage import container_usage, node_usage, quantities
from tests.simulation.pods import pod_of

REQUESTS = {"requests": {"cpu": "2", "memory": "1Gi"}}


@pytest.mark.parametrize(
    ("annotations", "resources", "cpu", "memory"),
    [
        ({}, REQUESTS, "200m", "512Mi"),
        ({}, {}, "1m", "10Mi"),
        ({}, {"requests": {"cpu": "0"}}, "0", "10Mi"),
        ({"cpu-usage": "500m"}, REQUESTS, "500m", "512Mi"),
        ({"cpu-usage": "80%"}, REQUESTS, "1600m", "512Mi"),
        ({"cpu-usage": "80%"}, {}, "0", "10Mi"),
        ({"cpu-usage": "250%", "memory-usage": "1500M"}, REQUESTS, "5", "1500M"),
        ({"memory-usage": "100%"}, REQUESTS, "200m", "1Gi"),
        ({"cpu-usage": "1", "cpu-usage.app": "3"}, {}, "3", "10Mi"),
        ({"cpu-usage": "1", "cpu-usage.other": "3"}, {}, "1", "10Mi"),
        ({"cpu-usage": "123456n"}, {}, "123456n", "10Mi"),
        ({"cpu-usage": "-1"}, {}, "0", "10Mi"),
        # What cannot be read counts as missing.
        ({"cpu-usage": "much", "cpu-usage.app": "%"}, REQUESTS, "200m", "512Mi"),
        ({"cpu-usage": "1", "cpu-usage.app": "much"}, {}, "1", "10Mi"),
    ],
)
def test_container(annotations, resources, cpu, memory):
    pod = pod_of({"name": "app", "resources": resources}, annotations=annotations)
    usage = quantities(container_usage(pod, pod["spec"]["containers"][0]))
    assert usage["cpu"] == cpu
    assert usage["memory"] == memory.replace("1500M", "1500000000")


def test_unreadable_annotations():
    annotations = {
        "cpu-usage": "80%",
        "cpu-usage.app": "much",
        "memory-usage": "lots",
        "metric.hits": "25",
        "metric.misses": "few",
    }
    assert unreadable_annotations(pod_of(annotations=annotations)) == [
        "simulation.kapiserver.dev/cpu-usage.app: 'much'",
        "simulation.kapiserver.dev/memory-usage: 'lots'",
        "simulation.kapiserver.dev/metric.misses: 'few'",
    ]


def test_node():
    node = {"metadata": {"name": "one"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}
    pods = [{"cpu": 500_000_000, "memory": 1 << 30}, {"cpu": 250_000_000, "memory": 2 << 30}]
    assert quantities(node_usage(node, pods)) == {"cpu": "750m", "memory": "3Gi"}
    assert quantities(node_usage(node, [])) == {"cpu": "0", "memory": "0"}
    node["metadata"]["annotations"] = {"simulation.kapiserver.dev/cpu-usage": "50%"}
    assert quantities(node_usage(node, pods)) == {"cpu": "2", "memory": "3Gi"}
