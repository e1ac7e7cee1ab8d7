"""apidiscovery.k8s.io/v2beta1: the types of v2."""

from __future__ import annotations

from kapiserver.api.apidiscovery import v2
from kapiserver.api.types import inherit_types

inherit_types(__name__, v2)
