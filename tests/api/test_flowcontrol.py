"""The flowcontrol group: flow schemas and priority levels."""

import copy

import pytest

from kapiserver.api.flowcontrol.defaults import MANDATORY_FLOW_SCHEMAS, MANDATORY_PRIORITY_LEVELS
from tests.api.test_columns import cells
from tests.objects import GONE, changed, defaulted, strategy, write_errors

RULE = {
    "subjects": [{"kind": "User", "user": {"name": "u"}}],
    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
}


def _object(kind, name, spec):
    version = "flowcontrol.apiserver.k8s.io/v1"
    return {"kind": kind, "apiVersion": version, "metadata": {"name": name}, "spec": spec}


SCHEMA = defaulted(
    {
        **_object("FlowSchema", "s", {"priorityLevelConfiguration": {"name": "l"}}),
        "status": {},
    }
)
SCHEMA["spec"]["rules"] = [RULE]
LEVEL = defaulted(
    {
        **_object(
            "PriorityLevelConfiguration",
            "l",
            {
                "type": "Limited",
                "limited": {"limitResponse": {"type": "Queue", "queuing": {}}},
            },
        ),
        "status": {},
    }
)

NEW = [
    ("prioritylevelconfigurations", LEVEL, "spec/limited/limitResponse/type", "x", [
        'spec.limited.limitResponse.type: Unsupported value: "x": supported values: "Queue", '
        '"Reject"',
        "spec.limited.limitResponse.queuing: Forbidden",
    ]),
    ("flowschemas", SCHEMA, "", GONE, []),
    ("flowschemas", SCHEMA, "spec/matchingPrecedence", 1, [
        "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have "
        "matchingPrecedence 1"
    ]),
    ("flowschemas", SCHEMA, "spec/distinguisherMethod", {"type": "ByMood"}, [
        'spec.distinguisherMethod.type: Unsupported value: {"Type":"ByMood"}: supported values: '
        '"ByNamespace", "ByUser"'
    ]),
    ("flowschemas", SCHEMA, "spec/matchingPrecedence", 10001, [
        "spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"
    ]),
    ("flowschemas", SCHEMA, "spec/priorityLevelConfiguration/name", "", [
        "spec.priorityLevelConfiguration.name: Required value: must reference a priority level"
    ]),
    ("flowschemas", SCHEMA, "spec/rules/0/subjects", [], [
        "spec.rules[0].subjects: Required value: subjects must contain at least one value"
    ]),
    ("flowschemas", SCHEMA, "spec/rules/0/subjects/0/kind", "Group", [
        "spec.rules[0].subjects[0].group: Required value: group is required when subject kind is "
        "'Group'",
        "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not "
        "'User'",
    ]),
    ("flowschemas", SCHEMA, "spec/rules/0/nonResourceRules/0/nonResourceURLs", ["a"], [
        'spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "a": must start '
        "with slash"
    ]),
    ("flowschemas", SCHEMA, "spec/rules/0/resourceRules",
     [{"verbs": ["*", "get"], "apiGroups": ["*"], "resources": ["*"]}], [
        'spec.rules[0].resourceRules[0].verbs: Invalid value: ["*","get"]: if \'*\' is present, '
        "must not specify other verbs",
        "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not "
        "cluster scoped must supply at least one namespace",
    ]),
    ("prioritylevelconfigurations", LEVEL, "", GONE, []),
    ("prioritylevelconfigurations", LEVEL, "spec/type", "Exempt", [
        "spec.type: Invalid value: \"Exempt\": type must be 'Exempt' if and only if name is "
        "'exempt'",
        "spec.limited: Forbidden",
    ]),
    ("prioritylevelconfigurations", LEVEL, "spec/limited/lendablePercent", 101, [
        "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"
    ]),
    ("prioritylevelconfigurations", LEVEL, "spec/limited/limitResponse/queuing/handSize", 20, [
        "spec.limited.limitResponse.queuing.handSize: Invalid value: 20: required entropy bits "
        "of deckSize 64 and handSize 20 should not be greater than 60"
    ]),
    ("prioritylevelconfigurations", LEVEL, "spec/limited/limitResponse/type", "Reject", [
        "spec.limited.limitResponse.queuing: Forbidden"
    ]),
    ("prioritylevelconfigurations", LEVEL, "spec/limited/limitResponse/queuing", GONE, [
        "spec.limited.limitResponse.queuing: Required value"
    ]),
    ("prioritylevelconfigurations", LEVEL, "spec/limited/limitResponse/type", "", [
        "spec.limited.limitResponse.type: Required value"
    ]),
    ("prioritylevelconfigurations", LEVEL, "spec", {"type": "Limited", "exempt": {}}, [
        "spec.limited: Required value",
        "spec.exempt: Forbidden",
    ]),
    ("prioritylevelconfigurations", LEVEL, "spec/type", "", ["spec.type: Required value"]),
    ("prioritylevelconfigurations", LEVEL, "spec/type", "Most", [
        'spec.type: Unsupported value: "Most": supported values: "Exempt", "Limited"'
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "base", "path", "value", "messages"), NEW)
def test_new(name, base, path, value, messages):
    """New flow schemas and priority levels are validated."""
    assert write_errors(name, changed(base, path, value)) == messages


@pytest.mark.parametrize("name", ["exempt", "catch-all"])
def test_mandatory(name):
    """Mandatory objects are valid, complete and immutable."""
    for plural, kind, specs in (
        ("flowschemas", "FlowSchema", MANDATORY_FLOW_SCHEMAS),
        ("prioritylevelconfigurations", "PriorityLevelConfiguration", MANDATORY_PRIORITY_LEVELS),
    ):
        obj = {**_object(kind, name, copy.deepcopy(specs[name])), "status": {}}
        assert defaulted(obj) == obj
        assert strategy(plural).validate(obj) == []
    schema = {**_object("FlowSchema", name, {**MANDATORY_FLOW_SCHEMAS[name]}), "status": {}}
    schema["spec"]["rules"] = []
    (error,) = strategy("flowschemas").validate(schema)
    assert error.detail == f"spec of '{name}' must equal the fixed value"


def test_cells():
    """Columns show priority levels, precedence and queues."""
    assert [cell for column, cell in cells("flowschemas", SCHEMA).items() if column != "Age"] == [
        "s", "l", 1000, "<none>", "?",
    ]  # fmt: skip
    row = cells("prioritylevelconfigurations", LEVEL)
    assert [cell for column, cell in row.items() if column != "Age"] == [
        "l", "Limited", 30, 64, 8, 50,
    ]  # fmt: skip
