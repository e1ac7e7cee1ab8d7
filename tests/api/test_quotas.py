"""Validation and columns of limit ranges and resource quotas."""

import pytest

from tests.api.test_columns import cells
from tests.objects import GONE, changed, defaulted, strategy, texts

LIMITS = {
    "kind": "LimitRange",
    "apiVersion": "v1",
    "metadata": {"name": "l", "namespace": "n"},
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}]},
}
QUOTA = {
    "kind": "ResourceQuota",
    "apiVersion": "v1",
    "metadata": {"name": "q", "namespace": "n"},
    "spec": {"hard": {"pods": "3"}},
    "status": {},
}

LIMIT_RANGES = [
    ({}, []),
    ({"type": "Odd"}, [
        'spec.limits[0].type: Invalid value: "Odd": must be a standard limit type or fully '
        "qualified"
    ]),
    ({"min": {"cpu": "3"}}, [
        'spec.limits[0].min[cpu]: Invalid value: "3": min value 3 is greater than max value 2',
    ]),
    ({"default": {"cpu": "4"}}, [
        'spec.limits[0].default[cpu]: Invalid value: "2": default value 4 is greater than max '
        "value 2",
    ]),
    ({"defaultRequest": {"cpu": "500m"}}, [
        'spec.limits[0].defaultRequest[cpu]: Invalid value: "500m": min value 1 is greater than '
        "default request value 500m",
    ]),
    ({"maxLimitRequestRatio": {"cpu": "3"}}, [
        'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than '
        "max/min = 2.000000",
    ]),
    ({"type": "Pod", "default": {"cpu": "1"}}, [
        "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
    ]),
    ({"type": "PersistentVolumeClaim"}, [
        "spec.limits[0].limits: Required value: either minimum or maximum storage value is "
        "required, but neither was provided",
    ]),
    ({"max": {"pods": "1"}, "min": {}}, [
        'spec.limits[0].max[pods]: Invalid value: "pods": must be a standard resource for '
        "containers",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("item", "messages"), LIMIT_RANGES)
def test_limit_ranges(item, messages):
    """Limit ranges are validated."""
    obj = changed(LIMITS, "spec/limits/0", {**LIMITS["spec"]["limits"][0], **item})
    assert texts(strategy("limitranges").validate(obj)) == messages


def test_limits_of_one_type():
    """A limit range has at most one item for each type."""
    obj = changed(LIMITS, "spec/limits", LIMITS["spec"]["limits"] * 2)
    assert texts(strategy("limitranges").validate(obj)) == [
        'spec.limits[1].type: Duplicate value: "Container"'
    ]


def test_limit_defaults():
    """Missing limits default to other limits."""
    item = defaulted(LIMITS)["spec"]["limits"][0]
    assert (item["default"], item["defaultRequest"]) == ({"cpu": "2"}, {"cpu": "2"})


QUOTAS = [
    ("", GONE, []),
    ("spec/hard", {"requests.cpu": "1", "count/jobs.batch": "2", "hugepages-2Mi": "1"}, []),
    ("spec/hard", {"odd": "1"}, [
        'spec.hard[odd]: Invalid value: "odd": must be a standard resource type or fully '
        "qualified",
        'spec.hard[odd]: Invalid value: "odd": must be a standard resource for quota',
    ]),
    ("spec/hard", {"pods": "1500m"}, [
        'spec.hard[pods]: Invalid value: "1500m": must be an integer'
    ]),
    ("spec/hard", {"pods": "-1"}, [
        'spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0'
    ]),
    ("spec/scopes", ["Odd"], ['spec.scopes: Invalid value: ["Odd"]: unsupported scope']),
    ("spec/scopes", ["Terminating", "NotTerminating"], [
        'spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes'
    ]),
    ("spec/scopeSelector", {"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "In"}
    ]}, [
        "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value "
        "when `operator` is 'In' or 'NotIn' for scope selector"
    ]),
    ("spec/scopeSelector", {"matchExpressions": [
        {"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]}
    ]}, [
        'spec.scopeSelector.matchExpressions.values: Invalid value: ["a"]: must be no value when '
        "`operator` is 'Exist' or 'DoesNotExist' for scope selector"
    ]),
    ("spec/scopeSelector", {"matchExpressions": [{"scopeName": "Odd", "operator": "Odd"}]}, [
        'spec.scopeSelector.matchExpressions.scopeName: Invalid value: "Odd": unsupported scope',
        'spec.scopeSelector.matchExpressions.operator: Invalid value: "Odd": not a valid selector '
        "operator",
    ]),
    ("spec", {"hard": {"count/jobs.batch": "1", "pods": "1"}, "scopes": ["Terminating"]}, []),
    ("spec", {"hard": {"services": "1"}, "scopeSelector": {"matchExpressions": [
        {"scopeName": "BestEffort", "operator": "Exists"}
    ]}}, [
        "spec.scopeSelector.matchExpressions: Invalid value: "
        '{"MatchExpressions":[{"ScopeName":"BestEffort","Operator":"Exists","Values":null}]}: '
        "unsupported scope applied to resource"
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "messages"), QUOTAS)
def test_quotas(path, value, messages):
    """Resource quotas are validated."""
    assert texts(strategy("resourcequotas").validate(changed(QUOTA, path, value))) == messages


def test_resources_of_scopes():
    """A scope supports certain resources only."""
    obj = changed(QUOTA, "spec", {"hard": {"secrets": "1"}, "scopes": ["BestEffort"]})
    assert texts(strategy("resourcequotas").validate(obj)) == [
        'spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource'
    ]


def test_immutable_scopes():
    """The scopes of a quota are immutable."""
    new = changed(QUOTA, "spec/scopes", ["BestEffort"])
    assert texts(strategy("resourcequotas").validate_update(new, QUOTA)) == [
        'spec.scopes: Invalid value: ["BestEffort"]: field is immutable'
    ]


def test_quota_cells():
    """Columns show used and hard amounts, with requests and limits in separate columns."""
    status = {"hard": {"pods": "3", "limits.cpu": "2"}, "used": {"pods": "1"}}
    row = cells("resourcequotas", changed(QUOTA, "status", status))
    assert (row["Request"], row["Limit"]) == ("pods: 1/3", "limits.cpu: 0/2")
