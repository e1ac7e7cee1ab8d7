"""API approval of definitions in groups of the Kubernetes community.

Mirrors api_approval.go of k8s.io/apiextensions-apiserver/pkg/apihelpers.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from kapiserver.api.accessors import annotations_of
from kapiserver.api.types import Tree

ANNOTATION = "api-approved.kubernetes.io"
_APPROVAL_PROCESS = "see https://github.com/kubernetes/enhancements/pull/1111"


def is_protected(group: str) -> bool:
    """Report whether a group belongs to the Kubernetes community."""
    return group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))


def approval_of(obj: Tree) -> tuple[str, str] | None:
    """Return reason and message of the approval condition; None if no approval is needed."""
    if not is_protected(obj["spec"]["group"]):
        return None
    text = annotations_of(obj).get(ANNOTATION)
    if not text:
        message = (
            f'protected groups must have approval annotation "{ANNOTATION}", {_APPROVAL_PROCESS}'
        )
        return ("MissingAnnotation", message)
    if text.startswith("unapproved"):
        return ("UnapprovedAnnotation", f'not approved: "{text}"')
    try:
        address = urlsplit(text)
    except ValueError:
        address = urlsplit("")
    if address.scheme and address.netloc:
        return ("ApprovedAnnotation", f"approved in {text}")
    message = (
        f'protected groups must have approval annotation "{ANNOTATION}" with either a URL or a '
        f'reason starting with "unapproved", {_APPROVAL_PROCESS}'
    )
    return ("InvalidAnnotation", message)
