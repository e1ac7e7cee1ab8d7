"""storagemigration.k8s.io/v1beta1: the types of v1."""

from __future__ import annotations

from kapiserver.api.storagemigration import v1
from kapiserver.api.types import inherit_types

inherit_types(__name__, v1)
