"""storage.k8s.io/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.storage import v1
from kapiserver.api.types import inherit_types, override_field

inherit_types(__name__, v1)


class CSIDriver(v1.CSIDriver):
    spec = override_field(required=False)


class CSIDriverSpec(v1.CSIDriverSpec):
    volumeLifecycleModes = override_field(set=False)


class CSINode(v1.CSINode):
    spec = override_field(required=False)


class CSINodeDriver(v1.CSINodeDriver):
    name = override_field(required=False)
    nodeID = override_field(required=False)


class CSINodeSpec(v1.CSINodeSpec):
    drivers = override_field(required=False)


class CSIStorageCapacity(v1.CSIStorageCapacity):
    storageClassName = override_field(required=False)


class StorageClass(v1.StorageClass):
    volumeBindingMode = override_field(enum=())


class TokenRequest(v1.TokenRequest):
    audience = override_field(required=False)


class VolumeAttachmentSpec(v1.VolumeAttachmentSpec):
    source = override_field(required=False)
    nodeName = override_field(required=False)


class VolumeAttachmentStatus(v1.VolumeAttachmentStatus):
    attached = override_field(required=False)


class VolumeAttributesClass(v1.VolumeAttributesClass):
    driverName = override_field(required=False)
