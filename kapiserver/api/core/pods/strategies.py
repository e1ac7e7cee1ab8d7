"""Strategies of pods and their subresources. Mirrors pkg/registry/core/pod."""

from __future__ import annotations

from collections.abc import Mapping

from kapiserver.api import addresses
from kapiserver.api.accessors import (
    generation_of,
    labels_of,
    metadata_of,
    next_generation,
    value_at,
)
from kapiserver.api.core import v1, warnings
from kapiserver.api.core.pods import app_armor
from kapiserver.api.core.pods.disabled_fields import (
    drop_disabled_spec_fields,
    drop_disabled_status_fields,
)
from kapiserver.api.core.pods.pod_affinity import affinity_terms
from kapiserver.api.core.pods.quality_of_service import quality_of_service
from kapiserver.api.core.pods.warnings import warnings_for_pod
from kapiserver.api.core.validation.pod_status import validate_pod_status_update
from kapiserver.api.core.validation.pod_updates import (
    validate_ephemeral_containers_update,
    validate_pod_update,
)
from kapiserver.api.core.validation.pods import validate_pod_create
from kapiserver.api.core.validation.resize import validate_pod_resize
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy, copy_field
from kapiserver.api.types import Tree


class PodStrategy(SpecStrategy):
    """The strategy of pods."""

    graceful = True

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        drop_disabled_spec_fields(obj.get("spec"), None)
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
            _merge_label_keys(term, labels_of(obj))
        for constraint in value_at(obj, "spec", "topologySpreadConstraints") or ():
            _merge_label_keys(constraint, labels_of(obj))

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        drop_disabled_spec_fields(new.get("spec"), old.get("spec"))
        super().prepare_for_update(new, old)

    def grace_period(self, obj: Tree, requested: int | None) -> int:
        # A pod without a node, and a finished one, are deleted at once.
        if not value_at(obj, "spec", "nodeName"):
            return 0
        if value_at(obj, "status", "phase") in ("Failed", "Succeeded"):
            return 0
        period = requested
        if period is None:
            period = value_at(obj, "spec", "terminationGracePeriodSeconds") or 0
        return 1 if period < 0 else period

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_pod_create(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_pod_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        if old is not None:  # clients seldom update pods by hand
            return []
        return [
            *app_armor.warnings_for_app_armor(new),
            *warnings.warnings_for_pod_name(new),
            *warnings_for_pod(new, Path()),
        ]

    def canonicalize(self, obj: Tree) -> None:
        if not metadata_of(obj).get("resourceVersion"):  # the object is new
            app_armor.set_profiles_from_annotations(obj)


_OPERATORS = (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))


def _merge_label_keys(term: Tree, labels: Mapping[str, str]) -> None:
    """Add requirements for matchLabelKeys and mismatchLabelKeys to the label selector of a term."""
    selector = term.get("labelSelector")
    if selector is None:
        return
    for name, operator in _OPERATORS:
        for key in term.get(name) or ():
            if key in labels:
                requirement = {"key": key, "operator": operator, "values": [labels[key]]}
                requirements = selector.get("matchExpressions") or []
                selector["matchExpressions"] = [*requirements, requirement]
    reorder_keys(selector, LabelSelector)


class PodStatusStrategy(StatusStrategy):
    """The strategy of status updates of the kubelet and the scheduler."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        qos_class = value_at(old, "status", "qosClass")
        if qos_class and not value_at(new, "status", "qosClass"):
            new["status"]["qosClass"] = qos_class
        status, old_status = new.setdefault("status", {}), old.get("status") or {}
        _keep_observed_generations(status, old_status)
        drop_disabled_status_fields(status, old_status)
        reorder_keys(status, v1.PodStatus)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return [
            warning
            for name in ("podIPs", "hostIPs")
            for index, address in enumerate(value_at(new, "status", name) or ())
            for warning in addresses.ip_warnings(
                address.get("ip") or "", (Path("status") / name)[index] / "ip"
            )
        ]


def _keep_observed_generations(status: Tree, old_status: Tree) -> None:
    """Keep the observed generations that old clients do not send."""
    if not status.get("observedGeneration") and old_status.get("observedGeneration"):
        status["observedGeneration"] = old_status["observedGeneration"]
    old_generations: dict[str | None, list[int]] = {}
    for condition in old_status.get("conditions") or ():
        generation = condition.get("observedGeneration") or 0
        old_generations.setdefault(condition.get("type"), []).append(generation)
    for index, condition in enumerate(status.get("conditions") or ()):
        generations = old_generations.get(condition.get("type"))
        generation = generations.pop(0) if generations else 0
        if generation and not condition.get("observedGeneration"):
            new_condition = {**condition, "observedGeneration": generation}
            reorder_keys(new_condition, v1.PodCondition)
            status["conditions"][index] = new_condition


class EphemeralContainersStrategy(Strategy):
    """The strategy of updates of `pods/ephemeralcontainers`, which change nothing but that list."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        ephemeral_containers = value_at(new, "spec", "ephemeralContainers")
        _restore_old(new, old)
        if ephemeral_containers is None:
            new["spec"].pop("ephemeralContainers", None)
        else:
            new["spec"]["ephemeralContainers"] = ephemeral_containers
            reorder_keys(new["spec"], v1.PodSpec)
        drop_disabled_spec_fields(new["spec"], old.get("spec"))
        _increment_generation(new, old)

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_ephemeral_containers_update(new, old))


class ResizeStrategy(Strategy):
    """The strategy of updates of `pods/resize`, which change nothing but resources."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        requested_spec = new.get("spec") or {}
        old_containers = {kind: value_at(old, "spec", kind) or () for kind in _RESIZABLE}
        # Validation reports containers that were added, removed or renamed.
        if all(
            len(requested_spec.get(kind) or ()) == len(containers)
            for kind, containers in old_containers.items()
        ):
            _restore_old(new, old)
            for kind in _RESIZABLE:
                if requested_spec.get(kind):
                    _take_resources(new["spec"], requested_spec, kind)
            copy_field(new["spec"], requested_spec, "resources")
            reorder_keys(new["spec"], v1.PodSpec)
        drop_disabled_spec_fields(new.get("spec"), old.get("spec"))
        _increment_generation(new, old)

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_pod_resize(new, old))


_RESIZABLE = ("containers", "initContainers")


def _take_resources(spec: Tree, requested_spec: Tree, kind: str) -> None:
    pairs = list(zip(spec[kind], requested_spec[kind], strict=True))
    if any(stored.get("name") != requested.get("name") for stored, requested in pairs):
        spec[kind] = requested_spec[kind]
        return
    for container, requested in pairs:
        for field_name in ("resources", "resizePolicy"):
            copy_field(container, requested, field_name)
        reorder_keys(container, v1.Container)


_PRESERVED_METADATA = (
    "deletionTimestamp", "generation", "labels", "annotations", "finalizers", "ownerReferences",
)  # fmt: skip


def _restore_old(new: Tree, old: Tree) -> None:
    """Restore the old object but for the metadata that no client changes: its resourceVersion says
    what the client saw, and its managedFields have the fields that this write changes."""
    for name in _PRESERVED_METADATA:
        copy_field(metadata_of(new), metadata_of(old), name)
    reorder_keys(metadata_of(new), ObjectMeta)
    for part in ("spec", "status"):
        copy_field(new, old, part)


def _increment_generation(new: Tree, old: Tree) -> None:
    if new.get("spec") != old.get("spec"):
        metadata_of(new)["generation"] = next_generation(generation_of(old))


_POD = PodStrategy()

STRATEGIES: dict[str, Strategy] = {
    "pods": _POD,
    "pods/binding": Strategy(),  # a binding does not increment the generation
    "pods/ephemeralcontainers": EphemeralContainersStrategy(),
    "pods/resize": ResizeStrategy(),
    "pods/status": PodStatusStrategy(
        _POD,
        preserved_metadata=("deletionTimestamp", "ownerReferences"),
        validate_status=validate_pod_status_update,
    ),
}
