"""ServiceAccount."""

from __future__ import annotations

from kapiserver.api.core.v1.references import LocalObjectReference, ObjectReference
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, field


class ServiceAccount(Kind):
    """An identity for processes in pods."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    secrets: list[ObjectReference] = field(
        2, keys=("name",), merge="name", doc="Secrets that its pods may use."
    )
    imagePullSecrets: list[LocalObjectReference] = field(
        3, doc="Secrets with which images are pulled."
    )
    automountServiceAccountToken: bool | None = field(
        4, doc="Whether pods get a token of the account."
    )
