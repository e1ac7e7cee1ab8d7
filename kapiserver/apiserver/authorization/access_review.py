"""Describes requests as the spec of a SubjectAccessReview, for webhooks and match conditions.

Mirrors plugin/pkg/authorizer/webhook of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kapiserver.api.errors import BadObject
from kapiserver.api.selectors import (
    FieldTerm,
    Operator,
    Requirement,
    parse_fields,
    parse_labels,
)
from kapiserver.api.types import Tree
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User

_LABEL_OPERATORS = {
    "=": "In", "==": "In", "in": "In", "!=": "NotIn", "notin": "NotIn", "exists": "Exists",
    "!": "DoesNotExist",
}  # fmt: skip
"""The operators of LabelSelectorRequirements; requirements with others are left out."""
_OPERATORS: Mapping[str, Operator] = {
    "In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!",
}  # fmt: skip


def review_spec(user: User, info: RequestInfo) -> Tree:
    """Return the SubjectAccessReviewSpec of a request with every field, empty ones included."""
    spec: Tree = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {name: list(values) for name, values in user.extra.items()},
    }
    if info.is_resource_request:
        return {"resourceAttributes": _resource_attributes(info), **spec}
    return {"nonResourceAttributes": {"path": info.path, "verb": info.verb}, **spec}


def without_empty(tree: Tree) -> Tree:
    """Return a spec as it is sent: without empty fields."""
    return {
        name: without_empty(value) if isinstance(value, dict) else value
        for name, value in tree.items()
        if value
    }


def _resource_attributes(info: RequestInfo) -> Tree:
    attributes: Tree = {
        "namespace": info.namespace,
        "verb": info.verb,
        "group": info.version.group,
        "version": info.version.version,
        "resource": info.resource,
        "subresource": info.subresource,
        "name": info.name,
    }
    if fields := field_requirements(info):
        attributes["fieldSelector"] = {"requirements": fields}
    if labels := _label_requirements(info):
        attributes["labelSelector"] = {"requirements": labels}
    return attributes


def field_requirements(info: RequestInfo) -> Sequence[Tree]:
    """Return the FieldSelectorRequirements of a request, () if its selector does not parse."""
    try:
        terms = parse_fields(info.field_selector) if info.field_selector else ()
    except BadObject:
        return ()
    return [
        {"key": term.name, "operator": "In" if term.equal else "NotIn", "values": [term.value]}
        for term in terms
    ]


def _label_requirements(info: RequestInfo) -> Sequence[Tree]:
    try:
        requirements = parse_labels(info.label_selector) if info.label_selector else ()
    except BadObject:
        return ()
    return [
        {"key": requirement.key, "operator": operator}
        | ({"values": list(requirement.values)} if requirement.values else {})
        for requirement in requirements
        if (operator := _LABEL_OPERATORS.get(requirement.operator))
    ]


def field_selector_text(selector: Tree) -> str:
    """Return the text of the FieldSelectorAttributes of a review; requirements with several values
    or unknown operators are left out, as by kube-apiserver."""
    terms = [
        str(
            FieldTerm(
                requirement.get("key") or "",
                requirement["values"][0],
                requirement["operator"] == "In",
            )
        )
        for requirement in selector.get("requirements") or ()
        if requirement.get("operator") in ("In", "NotIn")
        and len(requirement.get("values") or ()) == 1
    ]
    return selector.get("rawSelector") or ",".join(terms)


def label_selector_text(selector: Tree) -> str:
    """Return the text of the LabelSelectorAttributes of a review; requirements with unknown
    operators are left out."""
    terms = [
        str(
            Requirement(
                requirement.get("key") or "", operator, tuple(requirement.get("values") or ())
            )
        )
        for requirement in selector.get("requirements") or ()
        if (operator := _OPERATORS.get(requirement.get("operator") or ""))
    ]
    return selector.get("rawSelector") or ",".join(terms)
