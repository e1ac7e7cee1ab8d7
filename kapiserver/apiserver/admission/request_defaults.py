"""Defaults that depend on the request: fields set to the request's user or to the current time.

Strategies know neither. `resource_rules.py` says which resource uses which function. Mirrors the
parts of PrepareForCreate and PrepareForUpdate that use the request's context or the clock in
kube-apiserver.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.certificates import v1
from kapiserver.api.core.v1 import PersistentVolumeStatus
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree
from kapiserver.apiserver.user import User


def set_requester(new: Tree, old: Tree | None, user: User, _now: str) -> None:
    """Set the user who requests a certificate."""
    if old is not None:
        return
    spec = new.setdefault("spec", {})
    extra = {name: list(values) for name, values in sorted(user.extra.items())}
    identity = (("username", user.name), ("uid", user.uid), ("groups", list(user.groups)))
    for name, value in (*identity, ("extra", extra)):
        if value:
            spec[name] = value
        else:
            spec.pop(name, None)
    reorder_keys(spec, v1.CertificateSigningRequestSpec)


def set_condition_times(new: Tree, old: Tree | None, _user: User, now: str) -> None:
    """Set when conditions were last updated and last changed their status."""
    old_conditions = value_at(old or {}, "status", "conditions") or ()
    transition_times = {
        (condition.get("type"), condition.get("status")): condition.get("lastTransitionTime")
        for condition in reversed(old_conditions)
        if condition.get("lastTransitionTime")
    }
    for condition in value_at(new, "status", "conditions") or ():
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            key = (condition.get("type"), condition.get("status"))
            condition["lastTransitionTime"] = transition_times.get(key) or now
        reorder_keys(condition, v1.CertificateSigningRequestCondition)


def set_phase_time(new: Tree, old: Tree | None, _user: User, now: str) -> None:
    """Set when a volume entered its phase, unless the client did."""
    status, old_status = new.get("status") or {}, (old or {}).get("status") or {}
    transition_time = status.get("lastPhaseTransitionTime")
    not_set_by_client = transition_time is None or transition_time == old_status.get(
        "lastPhaseTransitionTime"
    )
    if status.get("phase") != old_status.get("phase") and not_set_by_client:
        status["lastPhaseTransitionTime"] = now
        reorder_keys(status, PersistentVolumeStatus)


def set_device_taint_times(new: Tree, _old: Tree | None, _user: User, now: str) -> None:
    """Set when devices were tainted."""
    for device in value_at(new, "spec", "devices") or ():
        for taint in device.get("taints") or ():
            if not taint.get("timeAdded"):
                taint["timeAdded"] = now


def set_rule_taint_time(new: Tree, old: Tree | None, _user: User, now: str) -> None:
    """Set when a rule's taint was added; a change of its effect counts as a new taint."""
    taint, old_taint = value_at(new, "spec", "taint"), value_at(old or {}, "spec", "taint")
    if taint is None:
        return
    time_added = taint.get("timeAdded")
    effect_changed = old_taint is not None and taint.get("effect") != old_taint.get("effect")
    if not time_added or (effect_changed and time_added == old_taint.get("timeAdded")):
        taint["timeAdded"] = now


def set_transition_times(new: Tree, _old: Tree | None, _user: User, now: str) -> None:
    """Set when conditions changed their status, unless the client did."""
    for condition in value_at(new, "status", "conditions") or ():
        if not condition.get("lastTransitionTime"):
            condition["lastTransitionTime"] = now
