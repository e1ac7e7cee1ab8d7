"""Defaulting of the admissionregistration group.

Mirrors pkg/apis/admissionregistration/v1/defaults.go and its siblings.
"""

from __future__ import annotations

import copy
from typing import Any

from kapiserver.api.admissionregistration import v1, v1alpha1, v1beta1
from kapiserver.api.defaulting import DefaultFunction
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree, Type

_WEBHOOK: dict[str, Any] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
_MATCH_RESOURCES: dict[str, Any] = {
    "namespaceSelector": {},
    "objectSelector": {},
    "matchPolicy": "Equivalent",
}


def _missing_defaults(type_: type[Type], **values: Any) -> DefaultFunction:
    def fill(obj: Tree) -> None:
        for name, value in values.items():
            if obj.get(name) is None:
                obj[name] = copy.deepcopy(value)
        reorder_keys(obj, type_)

    return fill


def _default_scope(rule: Tree) -> None:
    # The walk reorders the keys of the rule that embeds this one.
    if rule.get("scope") is None:
        rule["scope"] = "*"


DEFAULTS: dict[type[Type], DefaultFunction] = {
    v1.MutatingWebhook: _missing_defaults(
        v1.MutatingWebhook, **_WEBHOOK, reinvocationPolicy="Never"
    ),
    v1.Rule: _default_scope,
    v1.ServiceReference: _missing_defaults(v1.ServiceReference, port=443),
    v1.ValidatingWebhook: _missing_defaults(v1.ValidatingWebhook, **_WEBHOOK),
    v1alpha1.ParamRef: _missing_defaults(v1alpha1.ParamRef, parameterNotFoundAction="Deny"),
}
for _version in (v1, v1alpha1, v1beta1):
    _match = _version.MatchResources
    DEFAULTS[_match] = _missing_defaults(_match, **_MATCH_RESOURCES)
    for _policy in (_version.MutatingAdmissionPolicySpec, _version.ValidatingAdmissionPolicySpec):
        DEFAULTS[_policy] = _missing_defaults(_policy, failurePolicy="Fail")
