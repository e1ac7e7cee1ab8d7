"""apiregistration.k8s.io/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.apiregistration import v1
from kapiserver.api.types import inherit_types, override_field

inherit_types(__name__, v1)


class APIServiceCondition(v1.APIServiceCondition):
    type = override_field(required=False)
    status = override_field(required=False)


class APIServiceSpec(v1.APIServiceSpec):
    groupPriorityMinimum = override_field(required=False)
    versionPriority = override_field(required=False)
