"""The scheduling and node groups: priority classes, pod groups, workloads, runtime classes."""

import pytest

from kapiserver.api import names
from tests.api.test_columns import cells
from tests.objects import GONE, changed, defaulted, strategy, texts, write_errors

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
WHOLE = {
    **WORKLOAD,
    "spec": {
        "podGroupTemplates": None,
        "compositePodGroupTemplates": [{**COMPOSITE, "podGroupTemplates": [TEMPLATE]}],
    },
}
GANGS = changed(WORKLOAD, "spec/podGroupTemplates/0/schedulingPolicy", {"gang": {"minCount": 1}})
ODD_GROUP = changed(GROUP, "spec/preemptionPolicy", "Odd")
CLAIM_OF_GROUP = {"name": "d", "resourceClaimName": "e"}
COMPOSED = {
    "kind": "CompositePodGroup",
    "apiVersion": "scheduling.k8s.io/v1alpha3",
    "metadata": {"name": "c", "namespace": "n"},
    "spec": {
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingPolicy": {"gang": {"minGroupCount": 1}},
    },
    "status": {},
}
ONE_OF = "`podGroupTemplates`, `compositePodGroupTemplates`"
NOT_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
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
        'preemptionPolicy: Unsupported value: "Odd": supported values: "PreemptLowerPriority", '
        '"Never"'
    ]),
    ("podgroups", GROUP, "", GONE, []),
    ("podgroups", GROUP, "spec/schedulingPolicy", {}, [
        'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'
    ]),
    ("podgroups", GROUP, "spec/schedulingPolicy/gang/minCount", 0, [
        "spec.schedulingPolicy.gang.minCount: Required value"
    ]),
    ("podgroups", GROUP, "spec/schedulingPolicy/gang/minCount", -1, [
        "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"
    ]),
    ("podgroups", GROUP, "spec/schedulingPolicy/basic", {}, [
        'spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: '
        "`basic`, `gang`"
    ]),
    ("podgroups", GROUP, "spec/workloadRef", {"workloadName": "a.b", "templateName": "a.b"}, [
        'spec.workloadRef.templateName: Invalid value: "a.b": must not contain dots'
    ]),
    ("podgroups", GROUP, "spec/workloadRef", {"workloadName": "", "templateName": ""}, [
        "spec.workloadRef.workloadName: Required value",
        "spec.workloadRef.templateName: Required value",
    ]),
    ("podgroups", GROUP, "spec/disruptionMode", {}, [
        'spec.disruptionMode: Invalid value: "": must specify one of: `single`, `all`'
    ]),
    ("podgroups", GROUP, "spec/priority", 1_000_000_001, [
        "spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000"
    ]),
    ("podgroups", GROUP, "spec/preemptionPolicy", "Odd", [
        'spec.preemptionPolicy: Unsupported value: "Odd": supported values: "Never", '
        '"PreemptLowerPriority"'
    ]),
    ("podgroups", GROUP, "spec/schedulingConstraints", {"topology": [{"key": "a"}, {"key": "b"}]}, [
        "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"
    ]),
    ("podgroups", GROUP, "spec/resourceClaims", [{"name": "c"}, CLAIM_OF_GROUP, CLAIM_OF_GROUP], [
        'spec.resourceClaims[2]: Duplicate value: {"name":"d","resourceClaimName":"e"}',
        'spec.resourceClaims[0]: Invalid value: "": must specify one of: `resourceClaimName`, '
        "`resourceClaimTemplateName`",
    ]),
    ("compositepodgroups", COMPOSED, "", GONE, []),
    ("compositepodgroups", COMPOSED, "spec/workloadRef", GONE, [
        "spec.workloadRef: Required value"
    ]),
    ("compositepodgroups", COMPOSED, "spec/schedulingPolicy/gang/minGroupCount", -1, [
        "spec.schedulingPolicy.gang.minGroupCount: Invalid value: -1: must be greater than or "
        "equal to 1"
    ]),
    ("workloads", WORKLOAD, "", GONE, []),
    ("workloads", WORKLOAD, "spec/podGroupTemplates", [TEMPLATE, TEMPLATE], [
        'spec.podGroupTemplates[1]: Duplicate value: {"name":"t","schedulingPolicy":{"basic":{}},'
        '"schedulingConstraints":null}'
    ]),
    ("workloads", WORKLOAD, "spec/podGroupTemplates", [TEMPLATE] * 9, [
        "spec.podGroupTemplates: Too many: 9: must have at most 8 items"
    ]),
    ("workloads", WORKLOAD, "spec/podGroupTemplates", None, [
        f'spec: Invalid value: "": must specify one of: {ONE_OF}'
    ]),
    ("workloads", WORKLOAD, "spec/podGroupTemplates", [TEMPLATE, {**TEMPLATE, "name": "u",
                                                                  "priority": 1}], [
        'spec: Invalid value: null: detected multiple priority configurations'
    ]),
    ("workloads", WORKLOAD, "spec/controllerRef", {"apiGroup": "a b", "kind": "a/b", "name": ""}, [
        f'spec.controllerRef.apiGroup: Invalid value: "a b": {NOT_SUBDOMAIN}',
        "spec.controllerRef.kind: Invalid value: \"a/b\": may not contain '/'",
        "spec.controllerRef.name: Required value",
    ]),
    ("workloads", WHOLE, "spec/compositePodGroupTemplates", [COMPOSITE], [
        'spec.compositePodGroupTemplates[0]: Invalid value: "c": must have at least one child '
        "PodGroupTemplate or CompositePodGroupTemplate"
    ]),
    ("workloads", WHOLE, "spec/compositePodGroupTemplates",
     [{**COMPOSITE, "podGroupTemplates": [{**TEMPLATE, "name": "c"}]}], [
        'spec.compositePodGroupTemplates[0].podGroupTemplates[0].name: Duplicate value: "c"'
    ]),
    ("workloads", WORKLOAD, "spec/compositePodGroupTemplates",
     [{**COMPOSITE, "podGroupTemplates": [{**TEMPLATE, "name": "u"}]}], [
        'spec: Invalid value: "{podGroupTemplates, compositePodGroupTemplates}": must specify '
        f"exactly one of: {ONE_OF}"
    ]),
    ("runtimeclasses", RUNTIME, "", GONE, []),
    ("runtimeclasses", RUNTIME, "scheduling",
     {"tolerations": [{"operator": "Exists"}, {"operator": "Exists"}]}, [
        'scheduling.tolerations[1]: Duplicate value: '
        '{"Key":"","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}'
    ]),
    ("runtimeclasses", RUNTIME, "handler", "", ["handler: Required value"]),
    ("runtimeclasses", RUNTIME, "handler", "R", [
        f'handler: Invalid value: "R": {names.dns1123_label("R")[0]}'
    ]),
    ("runtimeclasses", RUNTIME, "overhead", {"podFixed": {"pods": "1"}}, [
        'overhead.limits[pods]: Invalid value: "pods": must be a standard resource for containers'
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), NEW)
def test_new(name, base, path, value, messages):
    """New objects of each kind are validated."""
    assert write_errors(name, changed(base, path, value)) == messages


KEPT = [
    ("priorityclasses", CLASS, "value", 5, [
        "value: Forbidden: may not be changed in an update."
    ]),
    ("priorityclasses", CLASS, "preemptionPolicy", "Never", [
        'preemptionPolicy: Invalid value: "Never": field is immutable'
    ]),
    ("priorityclasses", CLASS, "description", "x", []),
    ("runtimeclasses", RUNTIME, "handler", "gvisor", [
        "handler: Invalid value: null: field is immutable"
    ]),
    ("podgroups", GROUP, "spec/schedulingPolicy/gang/minCount", 3, []),
    ("podgroups", GROUP, "spec/schedulingPolicy/gang/minCount", 0, [
        "spec.schedulingPolicy.gang.minCount: Required value"
    ]),
    ("podgroups", GROUP, "spec/schedulingPolicy", {"basic": {}}, [
        "spec.schedulingPolicy.basic: Invalid value: null: field is immutable",
        'spec.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set',
    ]),
    ("podgroups", GROUP, "spec/priorityClassName", "p", [
        "spec.priorityClassName: Invalid value: null: field is immutable"
    ]),
    ("podgroups", ODD_GROUP, "metadata/labels", {"a": "b"}, []),
    ("workloads", WORKLOAD, "spec/controllerRef", {"kind": "Job", "name": "j"}, [
        "spec.controllerRef: Invalid value: null: field is immutable"
    ]),
    ("workloads", WORKLOAD, "spec/podGroupTemplates", [{**TEMPLATE, "name": "u"}], [
        "spec.podGroupTemplates[0]: Forbidden: item may not be added",
        "spec.podGroupTemplates: Forbidden: item may not be removed",
    ]),
    ("workloads", WORKLOAD, "spec/podGroupTemplates/0/priority", 1, [
        "spec.podGroupTemplates[0].priority: Invalid value: null: field is immutable"
    ]),
    ("workloads", GANGS, "spec/podGroupTemplates/0/schedulingPolicy/gang/minCount", 2, []),
    ("workloads", WHOLE,
     "spec/compositePodGroupTemplates/0/podGroupTemplates/0/priorityClassName", "p", [
        'spec: Invalid value: null: all priority and priorityClassName values must be identical, '
        "detected multiple values",
        "spec.compositePodGroupTemplates[0].podGroupTemplates[0].priorityClassName: Invalid value: "
        "null: field is immutable",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), KEPT)
def test_changed(name, base, path, value, messages):
    """Immutable fields give exact messages."""
    assert write_errors(name, changed(base, path, value), base) == messages


def test_depth_of_workloads():
    """Templates of a workload have at most four levels."""
    template = {**COMPOSITE, "name": "c0", "podGroupTemplates": [TEMPLATE]}
    for level in range(1, 4):
        obj = changed(WHOLE, "spec/compositePodGroupTemplates", [template])
        assert texts(strategy("workloads").validate(obj)) == []
        template = {
            **COMPOSITE, "name": f"c{level}", "compositePodGroupTemplates": [template]
        }  # fmt: skip
    obj = changed(WHOLE, "spec/compositePodGroupTemplates", [template])
    (error,) = strategy("workloads").validate(obj)
    assert (error.path.text, error.detail) == (
        "spec.compositePodGroupTemplates[0]", "maximum template hierarchy depth is 4"
    )  # fmt: skip


def test_claims_of_groups():
    """The status of a group may contain only claims of its spec, each once."""
    group = changed(GROUP, "spec/resourceClaims", [CLAIM_OF_GROUP])
    new = changed(group, "status/resourceClaimStatuses", [{"name": "d"}, {"name": "d"},
                                                          {"name": "x"}])  # fmt: skip
    assert texts(strategy("podgroups/status").validate_update(new, group)) == [
        'status.resourceClaimStatuses[2].name: Invalid value: "x": must match the name of an entry '
        "in `spec.resourceClaims`",
        'status.resourceClaimStatuses[1]: Duplicate value: {"name":"d"}',
    ]


def test_default_preemption_policy():
    """The default preemption policy is PreemptLowerPriority."""
    assert CLASS["preemptionPolicy"] == "PreemptLowerPriority"


CELLS = [
    ("priorityclasses", CLASS, ["high", 1000, False, "PreemptLowerPriority"]),
    ("runtimeclasses", RUNTIME, ["r", "runc"]),
    ("podgroups", GROUP, ["g", "Gang", "<none>", "Pending"]),
]


@pytest.mark.parametrize(("name", "obj", "expected"), CELLS)
def test_cells(name, obj, expected):
    """Columns show the values of kubectl."""
    assert [cell for column, cell in cells(name, obj).items() if column != "Age"] == expected
