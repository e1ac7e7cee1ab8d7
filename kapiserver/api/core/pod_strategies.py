"""How writes of pods behave, and of what lies below them. Mirrors pkg/registry/core/pod."""

from __future__ import annotations

from collections.abc import Mapping

from kapiserver.api.core import pod_warnings, v1, warnings
from kapiserver.api.core.affinity import affinity_terms
from kapiserver.api.core.quality_of_service import quality_of_service
from kapiserver.api.core.validation.pod_status import changed_pod_status
from kapiserver.api.core.validation.pod_updates import changed_ephemeral_containers, changed_pod
from kapiserver.api.core.validation.pods import new_pod
from kapiserver.api.core.validation.resize import resized_pod
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.meta.v1 import LabelSelector
from kapiserver.api.objects import generation_of, labels_of, metadata_of, value_at
from kapiserver.api.order import settle
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy, keep
from kapiserver.api.types import Tree


class PodStrategy(SpecStrategy):
    """Begins as Pending; ends in its own time, which the kubelet says is over."""

    graceful = True

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
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
        return list(new_pod(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_pod(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        if old is not None:  # people do not change pods by hand
            return []
        return [*warnings.pod_name(new), *pod_warnings.pod(new, Path())]


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
    settle(selector, LabelSelector)


class PodStatusStrategy(StatusStrategy):
    """The kubelet's and the scheduler's reports."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        quality = value_at(old, "status", "qosClass")
        if quality and not value_at(new, "status", "qosClass"):
            new["status"]["qosClass"] = quality
            settle(new["status"], v1.PodStatus)


class EphemeralContainersStrategy(Strategy):
    """Writes of `pods/ephemeralcontainers`: nothing but that list changes."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        wanted = value_at(new, "spec", "ephemeralContainers")
        _keep_all(new, old)
        if wanted is None:
            new["spec"].pop("ephemeralContainers", None)
        else:
            new["spec"]["ephemeralContainers"] = wanted
            settle(new["spec"], v1.PodSpec)
        _count_change(new, old)

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_ephemeral_containers(new, old))


class ResizeStrategy(Strategy):
    """Writes of `pods/resize`: nothing but the resources of containers changes."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        wanted = {kind: value_at(new, "spec", kind) or () for kind in _RESIZABLE}
        _keep_all(new, old)
        for kind, containers in wanted.items():
            found = {one.get("name"): one for one in containers}
            for container in new["spec"].get(kind) or ():
                for part in ("resources", "resizePolicy"):
                    keep(container, found.get(container.get("name")) or container, part)
                settle(container, v1.Container)
        _count_change(new, old)

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(resized_pod(new, old))


_RESIZABLE = ("containers", "initContainers")


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
        _POD, keeps_metadata=("deletionTimestamp", "ownerReferences"), rule=changed_pod_status
    ),
}
