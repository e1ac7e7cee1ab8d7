"""flowcontrol.apiserver.k8s.io/v1beta1: the types of v1beta2."""

from __future__ import annotations

from kapiserver.api.flowcontrol import v1beta2
from kapiserver.api.types import inherit_types

inherit_types(__name__, v1beta2)
