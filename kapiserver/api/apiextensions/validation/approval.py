"""Whether a definition in a group of the Kubernetes community says that it was approved.

Mirrors api_approval.go of k8s.io/apiextensions-apiserver/pkg/apihelpers.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from kapiserver.api.accessors import annotations_of
from kapiserver.api.types import Tree

ANNOTATION = "api-approved.kubernetes.io"
_WHERE = "see https://github.com/kubernetes/enhancements/pull/1111"


def is_protected(group: str) -> bool:
    """Whether a group is the community's."""
    return group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))


def approval_of(obj: Tree) -> tuple[str, str] | None:
    """How it stands with the approval, as the reason of a condition and its message; None where
    none is needed."""
    if not is_protected(obj["spec"]["group"]):
        return None
    text = annotations_of(obj).get(ANNOTATION)
    if not text:
        words = f'protected groups must have approval annotation "{ANNOTATION}", {_WHERE}'
        return ("MissingAnnotation", words)
    if text.startswith("unapproved"):
        return ("UnapprovedAnnotation", f'not approved: "{text}"')
    try:
        address = urlsplit(text)
    except ValueError:
        address = urlsplit("")
    if address.scheme and address.netloc:
        return ("ApprovedAnnotation", f"approved in {text}")
    words = (
        f'protected groups must have approval annotation "{ANNOTATION}" with either a URL or a '
        f'reason starting with "unapproved", {_WHERE}'
    )
    return ("InvalidAnnotation", words)
