"""Extended resources that device classes provide: the devices of pods and of their containers."""

from __future__ import annotations

import pytest

from kapiserver.simulation.scheduler.devices.extended_resources import extended_claim
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.schedule import Placement, schedule
from tests.simulation.devices import (
    GPUS,
    NO_DEVICES,
    NOT_HELPFUL,
    a_class,
    a_device,
    a_slice,
    with_devices,
)
from tests.simulation.scheduling import a_container, a_node, a_pod

EXTENDED = a_class("gpu", extendedResourceName="example.com/gpu")
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


def extended_on(node, slices, *, requests=None, classes=(EXTENDED,), pod=None):
    """The node of a pod with extended resources, and the devices and mappings of its claim."""
    pod = pod or a_pod(requests=requests or {"example.com/gpu": "1"})
    decision = schedule(PodInfo(pod), with_devices([node], slices, classes=list(classes)))
    if not isinstance(decision, Placement):
        return decision.message
    return [
        (
            [each["device"] for each in claim.allocation["devices"]["results"]],
            [(each["containerName"], each["requestName"]) for each in claim.mappings],
        )
        for claim in decision.claims
    ]


def test_devices_that_wait_for_their_driver():
    """Devices with binding conditions are not used for extended resources."""
    device = a_device("x", bindingConditions=["attached"])
    assert extended_on(a_node("one"), [a_slice("s", device)]) == NO_DEVICES


NO_GPU = f"0/1 nodes are available: 1 Insufficient example.com/gpu. {NOT_HELPFUL}"
OLDER = a_class("older", "false", extendedResourceName="example.com/gpu")
OLDER["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z"
EXTENDED["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
FIRST = "container-0-request-0"


@pytest.mark.parametrize(
    ("node", "fields", "expected"),
    [
        (a_node("one"), {}, [(["big"], [("c", FIRST)])]),
        (a_node("one"), {"requests": {"example.com/gpu": "2", "cpu": "1"}},
         [(["big", "small"], [("c", "container-0-request-1")])]),
        (a_node("one"), {"requests": {"example.com/gpu": "3"}}, NO_DEVICES),
        (a_node("one"), {"requests": {IMPLICIT: "1"}}, [(["big"], [("c", FIRST)])]),
        (a_node("one"), {"classes": [OLDER, EXTENDED]}, [(["big"], [("c", FIRST)])]),
        (a_node("one"), {"classes": []}, NO_GPU),
        (a_node("one", **{"example.com/gpu": "1"}), {}, []),
        (a_node("one", **{"example.com/gpu": "1"}), {"requests": {"example.com/gpu": "2"}}, NO_GPU),
    ],
)  # fmt: skip
def test_extended_resources(node, fields, expected):
    """A device class provides an extended resource on nodes that do not have it themselves."""
    assert extended_on(node, [GPUS], **fields) == expected


def a_gpu_container(name, count, **fields):
    return a_container({"example.com/gpu": str(count)}, **fields) | {"name": name}


@pytest.mark.parametrize(
    ("init", "containers", "requests", "mappings"),
    [
        ([], [("a", 1), ("b", 2)], {0: 1, 1: 2}, [("a", 0), ("b", 1)]),
        ([("i", 1)], [("a", 2)], {1: 2}, [("a", 1), ("i", 1)]),
        ([("i", 3)], [("a", 1)], {0: 2, 1: 1}, [("a", 1), ("i", 1), ("i", 0)]),
        ([("i", 3), ("j", 4)], [("a", 1)], {1: 3, 2: 1},
         [("a", 2), ("i", 2), ("j", 2), ("i", 1), ("j", 1)]),
    ],
)  # fmt: skip
def test_requests_of_containers(init, containers, requests, mappings):
    """Each container has a request of its own; init containers use the devices of the containers
    that start later, and share one request for what is missing."""
    pod = a_pod(
        initContainers=[a_gpu_container(*each) for each in init],
        containers=[a_gpu_container(*each) for each in containers],
    )
    claim = extended_claim(pod, {"example.com/gpu": "gpu"})
    found = claim.tree["spec"]["devices"]["requests"]
    assert [(each["name"], each["exactly"]["count"]) for each in found] == [
        (f"container-{index}-request-0", count) for index, count in requests.items()
    ]
    assert [(each["containerName"], each["requestName"]) for each in claim.mappings] == [
        (name, f"container-{index}-request-0") for name, index in mappings
    ]
