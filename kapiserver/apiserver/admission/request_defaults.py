"""What objects of some kinds take from the request that writes them: its user and its time.

Strategies know neither. Mirrors the parts of PrepareForCreate and PrepareForUpdate that
kube-apiserver fills from the request's context and its clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kapiserver.api.accessors import value_at
from kapiserver.api.certificates import v1
from kapiserver.api.core.v1 import PersistentVolumeStatus
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.user import User

Stamp: TypeAlias = Callable[[Tree, Tree | None, User, str], None]
"""(new, old, user, now): changes `new`."""


def _requester(new: Tree, old: Tree | None, user: User, _now: str) -> None:
    """Who asks for a certificate."""
    if old is not None:
        return
    spec = new.setdefault("spec", {})
    extra = {name: list(values) for name, values in sorted(user.extra.items())}
    told = (("username", user.name), ("uid", user.uid), ("groups", list(user.groups)))
    for name, value in (*told, ("extra", extra)):
        if value:
            spec[name] = value
        else:
            spec.pop(name, None)
    reorder_keys(spec, v1.CertificateSigningRequestSpec)


def _condition_times(new: Tree, old: Tree | None, _user: User, now: str) -> None:
    """When conditions were told, and since when they hold."""
    before = value_at(old or {}, "status", "conditions") or ()
    since = {
        (one.get("type"), one.get("status")): one.get("lastTransitionTime")
        for one in reversed(before)
        if one.get("lastTransitionTime")
    }
    for one in value_at(new, "status", "conditions") or ():
        if not one.get("lastUpdateTime"):
            one["lastUpdateTime"] = now
        if not one.get("lastTransitionTime"):
            key = (one.get("type"), one.get("status"))
            one["lastTransitionTime"] = since.get(key) or now
        reorder_keys(one, v1.CertificateSigningRequestCondition)


def _phase_time(new: Tree, old: Tree | None, _user: User, now: str) -> None:
    """Since when a volume is in its phase."""
    status, before = new.get("status") or {}, (old or {}).get("status") or {}
    told = status.get("lastPhaseTransitionTime")
    same = told is None or told == before.get("lastPhaseTransitionTime")
    if status.get("phase") != before.get("phase") and same:
        status["lastPhaseTransitionTime"] = now
        reorder_keys(status, PersistentVolumeStatus)


def _device_taint_times(new: Tree, _old: Tree | None, _user: User, now: str) -> None:
    """Since when devices are tainted."""
    for device in value_at(new, "spec", "devices") or ():
        for taint in device.get("taints") or ():
            if not taint.get("timeAdded"):
                taint["timeAdded"] = now


def _rule_taint_time(new: Tree, old: Tree | None, _user: User, now: str) -> None:
    """Since when a rule taints; a new effect is a new taint."""
    taint, before = value_at(new, "spec", "taint"), value_at(old or {}, "spec", "taint")
    if taint is None:
        return
    told = taint.get("timeAdded")
    changed = before is not None and taint.get("effect") != before.get("effect")
    if not told or (changed and told == before.get("timeAdded")):
        taint["timeAdded"] = now


def _transition_times(new: Tree, _old: Tree | None, _user: User, now: str) -> None:
    """Since when conditions hold, where nobody says."""
    for one in value_at(new, "status", "conditions") or ():
        if not one.get("lastTransitionTime"):
            one["lastTransitionTime"] = now


_CSR = "certificatesigningrequests.certificates.k8s.io"

STAMPS: dict[str, Stamp] = {
    _CSR: _requester,
    f"{_CSR}/approval": _condition_times,
    f"{_CSR}/status": _condition_times,
    "devicetaintrules.resource.k8s.io": _rule_taint_time,
    "persistentvolumes/status": _phase_time,
    "podcertificaterequests.certificates.k8s.io/status": _transition_times,
    "resourceslices.resource.k8s.io": _device_taint_times,
}
"""By qualified resource and subresource."""
