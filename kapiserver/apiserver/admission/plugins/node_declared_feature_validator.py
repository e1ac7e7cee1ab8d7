"""NodeDeclaredFeatureValidator: refuses changes of a pod that need a feature which the status of
its node does not declare.

Only resizes need features. The rule for ResourceSlices belongs to the feature gate
DRANodeAllocatableResources, which is off in Kubernetes 1.37. Mirrors
plugin/pkg/admission/nodedeclaredfeatures and k8s.io/component-helpers/nodedeclaredfeatures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.go_format import quote
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.nodes import node_of_changed_pod
from kapiserver.apiserver.admission.pod_cost import pod_cost
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server


async def validate(
    server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raise Forbidden if the node does not declare a feature that the change needs."""
    if new is None or old is None:
        return
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    if not spec.get("nodeName"):
        return
    run = server.offloader.run
    needed = await run(pod_cost(spec), _needed_features, new, spec, old_spec)
    if not needed:
        return
    node = await node_of_changed_pod(server, attributes, new, old)
    declared = value_at(node or {}, "status", "declaredFeatures") or ()
    missing = [name for name in needed if name not in declared]
    if node is not None and missing:
        raise attributes.forbidden(
            f"pod update requires features {', '.join(missing)} which are not available on node "
            f"{quote(name_of(node))}"
        )


def _needed_features(pod: Tree, spec: Tree, old_spec: Tree) -> list[str]:
    features = [name for name, changes in _FEATURES.items() if changes(spec, old_spec)]
    if value_at(pod, "status", "qosClass") == "Guaranteed" and _changes_cpu(spec, old_spec):
        features.append("GuaranteedQoSPodCPUResize")
    return sorted(features)


def _changes_cpu(spec: Tree, old_spec: Tree) -> bool:
    return any(
        _cpu(container) != _cpu(old_container)
        for container, old_container in _pairs(spec, old_spec, "containers")
    )


def _cpu(container: Tree) -> object:
    return parse(value_at(container, "resources", "requests", "cpu") or "0").decimal


def _changes_pod_resources(spec: Tree, old_spec: Tree) -> bool:
    return bool((spec.get("resources") or {}) != (old_spec.get("resources") or {}))


def _changes_init_containers(spec: Tree, old_spec: Tree) -> bool:
    return any(
        old_container.get("restartPolicy") != "Always"
        and (container.get("resources") or {}) != (old_container.get("resources") or {})
        for container, old_container in _pairs(spec, old_spec, "initContainers")
    )


def _changes_memory_volumes(spec: Tree, old_spec: Tree) -> bool:
    pairs = [
        (volume.get("emptyDir") or {}, old_volume.get("emptyDir") or {})
        for volume, old_volume in _pairs(spec, old_spec, "volumes")
    ]
    return any(
        source.get("medium") == old_source.get("medium") == "Memory"
        and source.get("sizeLimit") != old_source.get("sizeLimit")
        for source, old_source in pairs
    )


def _pairs(spec: Tree, old_spec: Tree, field: str) -> Sequence[tuple[Tree, Tree]]:
    """Return the items of a list with those that have the same place and name in the old spec."""
    pairs = zip(spec.get(field) or (), old_spec.get(field) or (), strict=False)
    return [(item, old) for item, old in pairs if item.get("name") == old.get("name")]


_FEATURES: Mapping[str, Callable[[Tree, Tree], bool]] = {
    "InPlacePodLevelResourcesVerticalScaling": _changes_pod_resources,
    "InPlacePodVerticalScalingInitContainers": _changes_init_containers,
    "InPlacePodVerticalScalingMemoryBackedVolumes": _changes_memory_volumes,
}
