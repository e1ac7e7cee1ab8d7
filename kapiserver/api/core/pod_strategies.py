"""How writes of pods behave, and of what lies below them. Mirrors pkg/registry/core/pod."""

from __future__ import annotations

from collections.abc import Mapping

from kapiserver.api import addresses
from kapiserver.api.core import app_armor, pod_warnings, v1, warnings
from kapiserver.api.core.affinity import affinity_terms
from kapiserver.api.core.gated_fields import drop_from_spec, drop_from_status
from kapiserver.api.core.quality_of_service import quality_of_service
from kapiserver.api.core.validation.pod_status import validate_pod_status_update
from kapiserver.api.core.validation.pod_updates import (
    validate_ephemeral_containers_update,
    validate_pod_update,
)
from kapiserver.api.core.validation.pods import validate_pod_create
from kapiserver.api.core.validation.resize import validate_pod_resize
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import LabelSelector
from kapiserver.api.objects import generation_of, labels_of, metadata_of, value_at
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy, keep
from kapiserver.api.types import Tree


class PodStrategy(SpecStrategy):
    """Begins as Pending; ends in its own time, which the kubelet says is over."""

    graceful = True

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        drop_from_spec(obj.get("spec"), None)
        status: Tree = {"phase": "Pending"}
        if value_at(obj, "spec", "schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": metadata_of(obj).get("creationTimestamp"),
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]
        status["qosClass"] = quality_of_service(obj)
        obj["status"] = status
        for term in affinity_terms(value_at(obj, "spec", "affinity") or {}):
            _add_own_labels(term, labels_of(obj))
        for constraint in value_at(obj, "spec", "topologySpreadConstraints") or ():
            _add_own_labels(constraint, labels_of(obj))

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        drop_from_spec(new.get("spec"), old.get("spec"))
        super().prepare_for_update(new, old)

    def grace_period(self, obj: Tree, asked: int | None) -> int:
        # A pod that no kubelet knows, or that has ended, needs no time to end.
        if not value_at(obj, "spec", "nodeName"):
            return 0
        if value_at(obj, "status", "phase") in ("Failed", "Succeeded"):
            return 0
        period = asked
        if period is None:
            period = value_at(obj, "spec", "terminationGracePeriodSeconds") or 0
        return 1 if period < 0 else period

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_pod_create(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_pod_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        if old is not None:  # people do not change pods by hand
            return []
        return [
            *app_armor.warnings(new),
            *warnings.pod_name(new),
            *pod_warnings.pod(new, Path()),
        ]

    def canonicalize(self, obj: Tree) -> None:
        if not metadata_of(obj).get("resourceVersion"):  # a new one
            app_armor.take_over(obj)


_OPERATORS = (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))


def _add_own_labels(term: Tree, labels: Mapping[str, str]) -> None:
    """Make conditions of the keys whose values are the pod's own."""
    selector = term.get("labelSelector")
    if selector is None:
        return
    for name, operator in _OPERATORS:
        for key in term.get(name) or ():
            if key in labels:
                condition = {"key": key, "operator": operator, "values": [labels[key]]}
                conditions = selector.get("matchExpressions") or []
                selector["matchExpressions"] = [*conditions, condition]
    reorder_keys(selector, LabelSelector)


class PodStatusStrategy(StatusStrategy):
    """The kubelet's and the scheduler's reports."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        quality = value_at(old, "status", "qosClass")
        if quality and not value_at(new, "status", "qosClass"):
            new["status"]["qosClass"] = quality
        status, old_status = new.setdefault("status", {}), old.get("status") or {}
        _keep_generations(status, old_status)
        drop_from_status(status, old_status)
        reorder_keys(status, v1.PodStatus)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return [
            warning
            for name in ("podIPs", "hostIPs")
            for index, one in enumerate(value_at(new, "status", name) or ())
            for warning in addresses.ip_warnings(
                one.get("ip") or "", (Path("status") / name)[index] / "ip"
            )
        ]


def _keep_generations(status: Tree, old_status: Tree) -> None:
    """What older reporters do not know of, stays: the generations that things were seen in."""
    if not status.get("observedGeneration") and old_status.get("observedGeneration"):
        status["observedGeneration"] = old_status["observedGeneration"]
    seen: dict[str | None, list[int]] = {}
    for condition in old_status.get("conditions") or ():
        generation = condition.get("observedGeneration") or 0
        seen.setdefault(condition.get("type"), []).append(generation)
    for index, condition in enumerate(status.get("conditions") or ()):
        generations = seen.get(condition.get("type"))
        generation = generations.pop(0) if generations else 0
        if generation and not condition.get("observedGeneration"):
            kept = {**condition, "observedGeneration": generation}
            reorder_keys(kept, v1.PodCondition)
            status["conditions"][index] = kept


class EphemeralContainersStrategy(Strategy):
    """Writes of `pods/ephemeralcontainers`: nothing but that list changes."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        wanted = value_at(new, "spec", "ephemeralContainers")
        _keep_all(new, old)
        if wanted is None:
            new["spec"].pop("ephemeralContainers", None)
        else:
            new["spec"]["ephemeralContainers"] = wanted
            reorder_keys(new["spec"], v1.PodSpec)
        drop_from_spec(new["spec"], old.get("spec"))
        _count_change(new, old)

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_ephemeral_containers_update(new, old))


class ResizeStrategy(Strategy):
    """Writes of `pods/resize`: nothing but the resources changes."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        wanted = new.get("spec") or {}
        had = {kind: value_at(old, "spec", kind) or () for kind in _RESIZABLE}
        # Validation tells who adds, removes or renames containers.
        if all(len(wanted.get(kind) or ()) == len(one) for kind, one in had.items()):
            _keep_all(new, old)
            for kind in _RESIZABLE:
                if wanted.get(kind):
                    _take_sizes(new["spec"], wanted, kind)
            keep(new["spec"], wanted, "resources")
            reorder_keys(new["spec"], v1.PodSpec)
        drop_from_spec(new.get("spec"), old.get("spec"))
        _count_change(new, old)

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_pod_resize(new, old))


_RESIZABLE = ("containers", "initContainers")


def _take_sizes(spec: Tree, wanted: Tree, kind: str) -> None:
    pairs = list(zip(spec[kind], wanted[kind], strict=True))
    if any(one.get("name") != other.get("name") for one, other in pairs):
        spec[kind] = wanted[kind]
        return
    for container, other in pairs:
        for part in ("resources", "resizePolicy"):
            keep(container, other, part)
        reorder_keys(container, v1.Container)


def _keep_all(new: Tree, old: Tree) -> None:
    """Make it the old object again, in the version that the client sent."""
    version = metadata_of(new).get("resourceVersion")
    for part in ("metadata", "spec", "status"):
        keep(new, old, part)
    if version:
        metadata_of(new)["resourceVersion"] = version


def _count_change(new: Tree, old: Tree) -> None:
    if new.get("spec") != old.get("spec"):
        metadata_of(new)["generation"] = generation_of(old) + 1


_POD = PodStrategy()

STRATEGIES: dict[str, Strategy] = {
    "pods": _POD,
    "pods/binding": Strategy(),  # what the server itself does: a new node is no new generation
    "pods/ephemeralcontainers": EphemeralContainersStrategy(),
    "pods/resize": ResizeStrategy(),
    "pods/status": PodStatusStrategy(
        _POD,
        keeps_metadata=("deletionTimestamp", "ownerReferences"),
        rule=validate_pod_status_update,
    ),
}
