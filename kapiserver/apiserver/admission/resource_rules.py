"""The rules of single resources that need more than a strategy knows: the user, the time, other
objects.

kube-apiserver has them in its registries, besides the strategies. The admission chain runs them
whatever plugins are enabled, and names no resource itself. The first write of a resource imports
its rules.
"""

from __future__ import annotations

from typing import TypeVar

from kapiserver.api.lazy import Lazy, lazy
from kapiserver.apiserver.context import Check, RequestDefaults, ResourceRules

Rule = TypeVar("Rule")

_CSR = "certificatesigningrequests.certificates.k8s.io"

_SET_CONDITION_TIMES: Lazy[RequestDefaults] = lazy(
    "kapiserver.apiserver.admission.request_defaults:set_condition_times"
)
_CHECK_ESCALATION: Lazy[Check] = lazy("kapiserver.apiserver.admission.role_escalation:check")
_CHECK_ADMIN_ACCESS: Lazy[Check] = lazy("kapiserver.apiserver.admission.dra_admin_access:check")
_CHECK_PARAM_ACCESS: Lazy[Check] = lazy("kapiserver.apiserver.admission.param_access:check")

REQUEST_DEFAULTS: dict[str, Lazy[RequestDefaults]] = {
    _CSR: lazy("kapiserver.apiserver.admission.request_defaults:set_requester"),
    f"{_CSR}/approval": _SET_CONDITION_TIMES,
    f"{_CSR}/status": _SET_CONDITION_TIMES,
    "devicetaintrules.resource.k8s.io": lazy(
        "kapiserver.apiserver.admission.request_defaults:set_rule_taint_time"
    ),
    "persistentvolumes/status": lazy(
        "kapiserver.apiserver.admission.request_defaults:set_phase_time"
    ),
    "podcertificaterequests.certificates.k8s.io/status": lazy(
        "kapiserver.apiserver.admission.request_defaults:set_transition_times"
    ),
    "resourceslices.resource.k8s.io": lazy(
        "kapiserver.apiserver.admission.request_defaults:set_device_taint_times"
    ),
}
"""Defaults from the request, by qualified resource and subresource."""

CHECKS: dict[str, Lazy[Check]] = {
    "clusterrolebindings.rbac.authorization.k8s.io": _CHECK_ESCALATION,
    "clusterroles.rbac.authorization.k8s.io": _CHECK_ESCALATION,
    "resourceclaims.resource.k8s.io": _CHECK_ADMIN_ACCESS,
    "resourceclaims.resource.k8s.io/status": _CHECK_ADMIN_ACCESS,
    "resourceclaimtemplates.resource.k8s.io": _CHECK_ADMIN_ACCESS,
    "rolebindings.rbac.authorization.k8s.io": _CHECK_ESCALATION,
    "roles.rbac.authorization.k8s.io": _CHECK_ESCALATION,
}
"""Checks of an object before its strategy prepares it, by qualified resource and subresource."""

PREPARED_CHECKS: dict[str, Lazy[Check]] = {
    "resourceclaims.resource.k8s.io/status": lazy(
        "kapiserver.apiserver.admission.claim_status_access:check"
    ),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": _CHECK_PARAM_ACCESS,
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": _CHECK_PARAM_ACCESS,
    "validatingadmissionpolicies.admissionregistration.k8s.io": _CHECK_PARAM_ACCESS,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": _CHECK_PARAM_ACCESS,
}
"""Checks of an object that its strategy has prepared, by qualified resource."""


def resource_rules(resource: str) -> ResourceRules:
    """Return the rules of a qualified resource and subresource, and import them."""
    return ResourceRules(
        set_defaults=_loaded(REQUEST_DEFAULTS.get(resource)),
        check=_loaded(CHECKS.get(resource)),
        check_prepared=_loaded(PREPARED_CHECKS.get(resource)),
    )


def _loaded(rule: Lazy[Rule] | None) -> Rule | None:
    return None if rule is None else rule()
