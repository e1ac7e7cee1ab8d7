"""The tables of the certificates group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from datetime import datetime

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
from kapiserver.api.objects import value_at
from kapiserver.api.types import Tree


def _duration(request: Tree, _: datetime) -> str:
    seconds = value_at(request, "spec", "expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


def _condition(request: Tree, _: datetime) -> str:
    found = {one.get("type") for one in value_at(request, "status", "conditions") or ()}
    state = "Denied" if "Denied" in found else "Approved" if "Approved" in found else "Pending"
    if "Failed" in found:
        state += ",Failed"
    return f"{state},Issued" if value_at(request, "status", "certificate") else state


def _state(request: Tree, _: datetime) -> str:
    state = "Pending"
    for one in value_at(request, "status", "conditions") or ():
        if one.get("type") in ("Denied", "Failed", "Issued"):
            state = one["type"]
    return state


def _annotations(request: Tree, _: datetime) -> str:
    return labels_text(value_at(request, "spec", "unverifiedUserAnnotations"))


_SIGNER = Column("SignerName", text("spec", "signerName", empty=NONE), "Who signs.")

COLUMNS: dict[str, Columns] = {
    "CertificateSigningRequest": Columns(
        (
            NAME,
            AGE,
            _SIGNER,
            Column("Requestor", text("spec", "username"), "Who asked."),
            Column("RequestedDuration", _duration, "How long the certificate shall be good."),
            Column("Condition", _condition, "What was decided."),
        )
    ),
    "ClusterTrustBundle": Columns((NAME, _SIGNER)),
    "PodCertificateRequest": Columns(
        (
            NAME,
            Column("PodName", text("spec", "podName"), "The pod."),
            Column("ServiceAccountName", text("spec", "serviceAccountName"), "Its account."),
            Column("NodeName", text("spec", "nodeName"), "Its node."),
            Column("SignerName", text("spec", "signerName"), "Who signs."),
            Column("State", _state, "What was decided."),
            Column("UnverifiedUserAnnotations", _annotations, "What its user added."),
        )
    ),
}
