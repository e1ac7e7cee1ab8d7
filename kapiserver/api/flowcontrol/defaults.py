"""Defaulting of the flowcontrol group, and its mandatory objects.

Mirrors pkg/apis/flowcontrol/v1/defaults.go, its sibling of v1beta3, and the mandatory part of the
bootstrap.
"""

from __future__ import annotations

from kapiserver.api.defaulting import DefaultFunction, fill_missing
from kapiserver.api.flowcontrol import v1, v1beta3
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree, Type

_ALL_REQUESTS = {
    "resourceRules": [
        {
            "verbs": ["*"],
            "apiGroups": ["*"],
            "resources": ["*"],
            "clusterScope": True,
            "namespaces": ["*"],
        }
    ],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}


def _groups(*names: str) -> list[Tree]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


MANDATORY_FLOW_SCHEMAS: dict[str, Tree] = {
    "exempt": {
        "priorityLevelConfiguration": {"name": "exempt"},
        "matchingPrecedence": 1,
        "rules": [{"subjects": _groups("system:masters"), **_ALL_REQUESTS}],
    },
    "catch-all": {
        "priorityLevelConfiguration": {"name": "catch-all"},
        "matchingPrecedence": 10000,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [
            {
                "subjects": _groups("system:unauthenticated", "system:authenticated"),
                **_ALL_REQUESTS,
            }
        ],
    },
}
"""The specs of the mandatory flow schemas, which cannot be changed."""

MANDATORY_PRIORITY_LEVELS: dict[str, Tree] = {
    "exempt": {
        "type": "Exempt",
        "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    },
    "catch-all": {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 5,
            "limitResponse": {"type": "Reject"},
            "lendablePercent": 0,
        },
    },
}
"""The specs of the mandatory priority levels, which cannot be changed, except for `exempt` of the
exempt level."""


def _default_schema(spec: Tree) -> None:
    if not spec.get("matchingPrecedence"):
        spec["matchingPrecedence"] = 1000
        reorder_keys(spec, v1.FlowSchemaSpec)


def _default_exempt(level: Tree) -> None:
    fill_missing(level, nominalConcurrencyShares=0, lendablePercent=0)
    reorder_keys(level, v1.ExemptPriorityLevelConfiguration)


def _default_limited(level: Tree) -> None:
    fill_missing(level, nominalConcurrencyShares=30, lendablePercent=0)
    reorder_keys(level, v1.LimitedPriorityLevelConfiguration)


def _default_queuing(queuing: Tree) -> None:
    for name, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
        if not queuing.get(name):
            queuing[name] = value
    reorder_keys(queuing, v1.QueuingConfiguration)


def _default_beta_limited(level: Tree) -> None:
    fill_missing(level, lendablePercent=0)
    reorder_keys(level, v1beta3.LimitedPriorityLevelConfiguration)


def _default_beta_level(level: Tree) -> None:
    """Set the shares of a limited level: in v1beta3, 0 means the default unless an annotation says
    that a newer version has set it."""
    limited = (level.get("spec") or {}).get("limited")
    annotations = (level.get("metadata") or {}).get("annotations") or {}
    if limited is None or limited.get("nominalConcurrencyShares"):
        return
    if v1beta3.PRESERVE_ZERO_SHARES not in annotations:
        limited["nominalConcurrencyShares"] = 30
        reorder_keys(limited, v1beta3.LimitedPriorityLevelConfiguration)


DEFAULTS: dict[type[Type], DefaultFunction] = {
    v1.ExemptPriorityLevelConfiguration: _default_exempt,
    v1.FlowSchemaSpec: _default_schema,
    v1.LimitedPriorityLevelConfiguration: _default_limited,
    v1.QueuingConfiguration: _default_queuing,
    v1beta3.ExemptPriorityLevelConfiguration: _default_exempt,
    v1beta3.FlowSchemaSpec: _default_schema,
    v1beta3.LimitedPriorityLevelConfiguration: _default_beta_limited,
    v1beta3.PriorityLevelConfiguration: _default_beta_level,
    v1beta3.QueuingConfiguration: _default_queuing,
}
