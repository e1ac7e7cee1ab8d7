"""Extended resources that device classes provide: a pod asks for them as for cpu, without a claim.

A DeviceClass provides the resource that its `extendedResourceName` names, and always
`deviceclass.resource.kubernetes.io/NAME`. On a node that does not have the resource itself, the pod
gets devices by a claim that the scheduler makes. Mirrors extendeddynamicresources.go of
pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kapiserver.api.accessors import metadata_of, name_of, namespace_of, uid_of, value_at
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree

EXTENDED = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of a claim for extended resources."""
_PREFIX = "deviceclass.resource.kubernetes.io/"


class ExtendedClaim(Struct, frozen=True):
    """The claim for extended resources of a pod.

    mappings    which request of the claim is for which resource of which container
    """

    tree: Tree
    mappings: Sequence[Tree]


def classes_of(resources: Iterable[str], classes: Mapping[str, Tree]) -> dict[str, str]:
    """Return the names of the device classes that provide resources, by resource. Of several
    classes the youngest counts."""
    class_names: dict[str, str] = {}
    for resource in resources:
        providers = [
            (metadata_of(device_class).get("creationTimestamp") or "", name)
            for name, device_class in classes.items()
            if resource
            in (value_at(device_class, "spec", "extendedResourceName"), f"{_PREFIX}{name}")
        ]
        if providers:
            youngest = max(time for time, _ in providers)
            class_names[resource] = min(name for time, name in providers if time == youngest)
    return class_names


def extended_claim(pod: Tree, classes: Mapping[str, str]) -> ExtendedClaim:
    """Return the claim for the resources of a pod, each with the name of its class."""
    requests: list[Tree] = []
    mappings: list[Tree] = []
    for resource in sorted(classes):
        plan = _Plan(pod, resource, classes[resource])
        requests += plan.requests
        mappings += plan.mappings
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
    tree = {
        "metadata": {
            "namespace": namespace_of(pod),
            "generateName": f"{name_of(pod)}-extended-resources-",
            "ownerReferences": [owner | {"controller": True}],
            "annotations": {EXTENDED: "true"},
        },
        "spec": {"devices": {"requests": sorted(requests, key=lambda request: request["name"])}},
    }
    return ExtendedClaim(tree, mappings)


class _Plan:
    """The requests for one resource. Containers and sidecars have devices of their own. Init
    containers run one after the other: they use the devices of those that start after them, and
    share one request for what is missing."""

    def __init__(self, pod: Tree, resource: str, class_name: str) -> None:
        self._resource, self._class = resource, class_name
        spec: Tree = pod.get("spec") or {}
        init: Sequence[Tree] = spec.get("initContainers") or ()
        containers = [*init, *(spec.get("containers") or ())]
        ending = [
            index
            for index, container in enumerate(init)
            if container.get("restartPolicy") != "Always"
        ]
        self.mappings: list[Tree] = []
        self._own: dict[int, Tree] = {}
        for index, container in enumerate(containers):
            if index not in ending:
                self._add_own(index, container)
        self._shared: Tree | None = None
        sharing = [
            mapping for index in ending if (mapping := self._share(index, containers[index]))
        ]
        for mapping in sharing:
            assert self._shared is not None
            self.mappings.append(mapping | {"requestName": self._shared["name"]})

    @property
    def requests(self) -> list[Tree]:
        """The requests of all containers."""
        return [*([self._shared] if self._shared else ()), *self._own.values()]

    def _add_own(self, index: int, container: Tree) -> None:
        count = self._count(container)
        if count:
            request = self._own[index] = self._request(index, container, count)
            self.mappings.append(self._mapping(container, request["name"]))

    def _share(self, index: int, container: Tree) -> Tree | None:
        """Let an init container use the devices of later ones; return its mapping to the shared
        request if they are not enough."""
        missing = self._count(container)
        for later, request in self._own.items():
            if missing > 0 and later >= index:
                self.mappings.append(self._mapping(container, request["name"]))
                missing -= request["exactly"]["count"]
        if missing <= 0:
            return None
        if self._shared is None or self._shared["exactly"]["count"] < missing:
            self._shared = self._request(index, container, missing)
        return self._mapping(container, "")

    def _count(self, container: Tree) -> int:
        text = (value_at(container, "resources", "requests") or {}).get(self._resource)
        return parse(text).scaled(0) if text else 0

    def _request(self, index: int, container: Tree, count: int) -> Tree:
        resources = sorted(value_at(container, "resources", "requests") or ())
        name = f"container-{index}-request-{resources.index(self._resource)}"
        exactly = {"deviceClassName": self._class, "allocationMode": "ExactCount", "count": count}
        return {"name": name, "exactly": exactly}

    def _mapping(self, container: Tree, request: str) -> Tree:
        return {
            "containerName": container["name"],
            "resourceName": self._resource,
            "requestName": request,
        }
