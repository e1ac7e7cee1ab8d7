"""storage.k8s.io/v1alpha1: some types of v1beta1."""

from __future__ import annotations

from kapiserver.api.storage import v1beta1
from kapiserver.api.types import inherit_types

inherit_types(
    __name__,
    v1beta1,
    only=(
        "CSIStorageCapacity",
        "VolumeAttachment",
        "VolumeAttachmentSource",
        "VolumeAttachmentSpec",
        "VolumeAttachmentStatus",
        "VolumeAttributesClass",
        "VolumeError",
    ),
)
