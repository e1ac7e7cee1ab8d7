"""Table columns of the certificates group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Columns,
    human_duration,
    labels_text,
    text,
)
from kapiserver.api.types import Tree


def _duration(request: Tree) -> str:
    seconds = value_at(request, "spec", "expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


def _condition(request: Tree) -> str:
    types = {condition.get("type") for condition in value_at(request, "status", "conditions") or ()}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    if "Failed" in types:
        state += ",Failed"
    return f"{state},Issued" if value_at(request, "status", "certificate") else state


def _state(request: Tree) -> str:
    state = "Pending"
    for condition in value_at(request, "status", "conditions") or ():
        if condition.get("type") in ("Denied", "Failed", "Issued"):
            state = condition["type"]
    return state


def _annotations(request: Tree) -> str:
    return labels_text(value_at(request, "spec", "unverifiedUserAnnotations"))


_SIGNER = Column(
    "SignerName", text("spec", "signerName", empty=NONE), "Signer that the object is for."
)

COLUMNS: dict[str, Columns] = {
    "CertificateSigningRequest": Columns(
        (
            NAME,
            AGE,
            _SIGNER,
            Column("Requestor", text("spec", "username"), "User who made the request."),
            Column("RequestedDuration", _duration, "Requested lifetime of the certificate."),
            Column(
                "Condition",
                _condition,
                "Decision about the request and whether the certificate is issued.",
            ),
        )
    ),
    "ClusterTrustBundle": Columns((NAME, _SIGNER)),
    "PodCertificateRequest": Columns(
        (
            NAME,
            Column(
                "PodName", text("spec", "podName"), "Name of the pod that the certificate is for."
            ),
            Column(
                "ServiceAccountName",
                text("spec", "serviceAccountName"),
                "Service account of the pod.",
            ),
            Column("NodeName", text("spec", "nodeName"), "Node that the pod runs on."),
            Column("SignerName", text("spec", "signerName"), "Signer that the request is for."),
            Column("State", _state, "State of the request, such as Issued, Denied or Failed."),
            Column(
                "UnverifiedUserAnnotations",
                _annotations,
                "Annotations that the pod's author passes to the signer; not verified.",
            ),
        )
    ),
}
