"""admission.k8s.io/v1beta1: the types of v1."""

from __future__ import annotations

from kapiserver.api.admission import v1
from kapiserver.api.types import inherit_types

inherit_types(__name__, v1)
