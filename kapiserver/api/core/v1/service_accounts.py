"""ServiceAccount: an identity for the processes of pods."""

from __future__ import annotations

from kapiserver.api.core.v1.references import LocalObjectReference, ObjectReference
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, field


class ServiceAccount(Kind):
    """An identity for processes in pods, by which they are authorized."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The account's user name is "
            "system:serviceaccount:NAMESPACE:NAME."
        ),
    )
    secrets: list[ObjectReference] = field(
        2,
        keys=("name",),
        merge="name",
        doc=(
            "Deprecated: secrets for pods of the account, a limit only with the annotation "
            "kubernetes.io/enforce-mountable-secrets. Not where tokens are found."
        ),
    )
    imagePullSecrets: list[LocalObjectReference] = field(
        3,
        doc=(
            "Secrets with credentials for image registries, used by pods of the account that list "
            "none themselves."
        ),
    )
    automountServiceAccountToken: bool | None = field(
        4,
        doc=(
            "Whether pods of the account get its token mounted, unless a pod says otherwise. "
            "Default: true."
        ),
    )
