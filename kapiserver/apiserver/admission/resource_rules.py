"""The rules of single resources that need more than a strategy knows: the user, the time, other
objects.

kube-apiserver has them in its registries, beside the strategies. The admission chain runs them
whatever plugins are enabled, and names no resource itself. A rule is a function `module:name`,
which the first write of its resource imports.
"""

from __future__ import annotations

import pkgutil
from typing import Any

from kapiserver.apiserver.context import ResourceRules

_CSR = "certificatesigningrequests.certificates.k8s.io"

REQUEST_DEFAULTS = {
    _CSR: "request_defaults:set_requester",
    f"{_CSR}/approval": "request_defaults:set_condition_times",
    f"{_CSR}/status": "request_defaults:set_condition_times",
    "devicetaintrules.resource.k8s.io": "request_defaults:set_rule_taint_time",
    "persistentvolumes/status": "request_defaults:set_phase_time",
    "podcertificaterequests.certificates.k8s.io/status": "request_defaults:set_transition_times",
    "resourceslices.resource.k8s.io": "request_defaults:set_device_taint_times",
}
"""Defaults from the request, by qualified resource and subresource."""

CHECKS = {
    "clusterrolebindings.rbac.authorization.k8s.io": "role_escalation:check",
    "clusterroles.rbac.authorization.k8s.io": "role_escalation:check",
    "resourceclaims.resource.k8s.io": "dra_admin_access:check",
    "resourceclaims.resource.k8s.io/status": "dra_admin_access:check",
    "resourceclaimtemplates.resource.k8s.io": "dra_admin_access:check",
    "rolebindings.rbac.authorization.k8s.io": "role_escalation:check",
    "roles.rbac.authorization.k8s.io": "role_escalation:check",
}
"""Checks of an object before its strategy prepares it, by qualified resource and subresource."""

PREPARED_CHECKS = {
    "mutatingadmissionpolicies.admissionregistration.k8s.io": "param_access:check",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": "param_access:check",
    "validatingadmissionpolicies.admissionregistration.k8s.io": "param_access:check",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": "param_access:check",
}
"""Checks of an object that its strategy has prepared, by qualified resource."""


def resource_rules(resource: str) -> ResourceRules:
    """Return the rules of a qualified resource and subresource, and import them."""
    return ResourceRules(
        set_defaults=_function(REQUEST_DEFAULTS.get(resource)),
        check=_function(CHECKS.get(resource)),
        check_prepared=_function(PREPARED_CHECKS.get(resource)),
    )


def _function(name: str | None) -> Any:
    return None if name is None else pkgutil.resolve_name(f"{__package__}.{name}")
