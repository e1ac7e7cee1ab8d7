"""Which nodes a pod may run on by its node selector and its required node affinity.

Mirrors component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_INTEGER = re.compile(r"[+-]?[0-9]+")


class SelectableNode(Protocol):
    """What node selectors see of a node."""

    name: str
    labels: Mapping[str, str]


def required_affinity(pod_spec: Tree) -> Callable[[SelectableNode], bool] | None:
    """Return a function that reports whether node selector and required affinity of a pod select a
    node; None if the pod has neither."""
    labels = pod_spec.get("nodeSelector") or {}
    required = value_at(pod_spec, "affinity", "nodeAffinity", REQUIRED)
    if not labels and required is None:
        return None
    terms = (required or {}).get("nodeSelectorTerms") or ()

    def matches(node: SelectableNode) -> bool:
        if any(node.labels.get(name) != value for name, value in labels.items()):
            return False
        return required is None or any(term_matches(term, node) for term in terms)

    return matches


def term_matches(term: Tree, node: SelectableNode) -> bool:
    """Report whether a NodeSelectorTerm selects a node; an empty term selects none."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    names = {"metadata.name": node.name}
    return all(_holds(expression, node.labels) for expression in expressions) and all(
        _holds(field, names) for field in fields
    )


def _holds(requirement: Tree, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.get("key") or "")
    values: Sequence[str] = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _is_greater(value, values[0])
        case "Lt":
            return _is_greater(values[0], value)
    return False


def _is_greater(text: str | None, other_text: str | None) -> bool:
    if (
        not text
        or not other_text
        or not _INTEGER.fullmatch(text)
        or not _INTEGER.fullmatch(other_text)
    ):
        return False
    return int(text) > int(other_text)
