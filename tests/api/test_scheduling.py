"""The scheduling and node groups: priorities, groups of pods, runtimes."""

import pytest

from tests.api.test_columns import cells
from tests.objects import GONE, changed, defaulted, strategy, texts

CLASS = defaulted(
    {
        "kind": "PriorityClass",
        "apiVersion": "scheduling.k8s.io/v1",
        "metadata": {"name": "high"},
        "value": 1000,
    }
)
GROUP = {
    "kind": "PodGroup",
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "metadata": {"name": "g", "namespace": "n"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    "status": {},
}
TEMPLATE = {"name": "t", "schedulingPolicy": {"basic": {}}, "schedulingConstraints": None}
WORKLOAD = {
    "kind": "Workload",
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "metadata": {"name": "w", "namespace": "n"},
    "spec": {"podGroupTemplates": [TEMPLATE]},
}
COMPOSITE = {"name": "c", "schedulingPolicy": {"basic": {}}}
RUNTIME = {
    "kind": "RuntimeClass",
    "apiVersion": "node.k8s.io/v1",
    "metadata": {"name": "r"},
    "handler": "runc",
}
RESERVED = (
    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for "
    "system use only. error: "
)

NEW = [
    ("priorityclasses", CLASS, "", GONE, []),
    ("priorityclasses", CLASS, "value", 1_000_000_001, [
        "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"
    ]),
    ("priorityclasses", CLASS, "metadata/name", "system-x", [
        f"{RESERVED}system-x is not a known system priority class"
    ]),
    ("priorityclasses", CLASS, "metadata/name", "system-node-critical", [
        f"{RESERVED}value of system-node-critical PriorityClass must be 2000001000"
    ]),
    ("priorityclasses", CLASS, "preemptionPolicy", "Odd", [
        'preemptionPolicy: Unsupported value: "Odd": supported values: "Never", '
        '"PreemptLowerPriority"'
    ]),
    ("podgroups", GROUP, "", GONE, []),
    ("podgroups", GROUP, "spec/schedulingPolicy", {}, [
        'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'
    ]),
    ("podgroups", GROUP, "spec/schedulingPolicy/gang/minCount", 0, [
        "spec.schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than or equal to 1"
    ]),
    ("workloads", WORKLOAD, "", GONE, []),
    ("workloads", WORKLOAD, "spec/podGroupTemplates", [TEMPLATE, TEMPLATE], [
        'spec.podGroupTemplates[1]: Duplicate value: {"name":"t"}'
    ]),
    ("workloads", WORKLOAD, "spec/compositePodGroupTemplates", [COMPOSITE], [
        'spec.compositePodGroupTemplates[0]: Invalid value: "c": must have at least one child '
        "PodGroupTemplate or CompositePodGroupTemplate"
    ]),
    ("workloads", WORKLOAD, "spec/compositePodGroupTemplates",
     [{**COMPOSITE, "podGroupTemplates": [TEMPLATE]}], [
        'spec.compositePodGroupTemplates[0].podGroupTemplates[0].name: Duplicate value: "t"'
    ]),
    ("runtimeclasses", RUNTIME, "", GONE, []),
    ("runtimeclasses", RUNTIME, "scheduling",
     {"tolerations": [{"operator": "Exists"}, {"operator": "Exists"}]}, [
        'scheduling.tolerations[1]: Duplicate value: {"operator":"Exists"}'
    ]),
    ("runtimeclasses", RUNTIME, "overhead", {"podFixed": {"pods": "1"}}, [
        'overhead.limits[pods]: Invalid value: "pods": must be a standard resource for containers'
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), NEW)
def test_new(name, base, path, value, messages):
    """Each kind keeps to its rules."""
    assert texts(strategy(name).validate(changed(base, path, value))) == messages


KEPT = [
    ("priorityclasses", CLASS, "value", 5, [
        "value: Forbidden: may not be changed in an update."
    ]),
    ("priorityclasses", CLASS, "preemptionPolicy", "Never", [
        'preemptionPolicy: Invalid value: "Never": field is immutable'
    ]),
    ("priorityclasses", CLASS, "description", "x", []),
    ("runtimeclasses", RUNTIME, "handler", "gvisor", [
        'handler: Invalid value: "gvisor": field is immutable'
    ]),
    ("podgroups", GROUP, "spec/schedulingPolicy/gang/minCount", 3, [
        'spec: Invalid value: {"schedulingPolicy":{"gang":{"minCount":3}}}: field is immutable'
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), KEPT)
def test_changed(name, base, path, value, messages):
    """What cannot change does not, and the message says so."""
    assert texts(strategy(name).validate_update(changed(base, path, value), base)) == messages


def test_priority_preempts():
    """A class whose maker does not say lets its pods push others out."""
    assert CLASS["preemptionPolicy"] == "PreemptLowerPriority"


CELLS = [
    ("priorityclasses", CLASS, ["high", 1000, False, "PreemptLowerPriority"]),
    ("runtimeclasses", RUNTIME, ["r", "runc"]),
    ("podgroups", GROUP, ["g", "Gang", "<none>", "Pending"]),
]


@pytest.mark.parametrize(("name", "obj", "shown"), CELLS)
def test_cells(name, obj, shown):
    """Cells as kubectl shows them."""
    assert [cell for column, cell in cells(name, obj).items() if column != "Age"] == shown
