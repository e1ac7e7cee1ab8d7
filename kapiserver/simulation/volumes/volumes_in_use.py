"""What simulated kubelets say about the volumes of their pods: `status.volumesInUse` of a node.

A volume that is in use is not detached. So it stays attached while its pod ends, and on a node
whose kubelet has stopped.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import value_at
from kapiserver.api.core.pods.references import claim_names
from kapiserver.api.group import CORE
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import field_value, for_object
from kapiserver.controllers.loop.writing import suppress_reason
from kapiserver.controllers.volumes.attach_plan import needs_attachment, unique_name
from kapiserver.controllers.volumes.matching import claim_key, is_in_bound_phase
from kapiserver.controllers.volumes.persistent_volume_binder import STORAGE, claim_keys
from kapiserver.controllers.workloads.pods import is_finished, node_of
from kapiserver.simulation.node_objects import has_kubelet
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange


class VolumesInUseSimulator(Controller[ObjectKey]):
    """Reports the volumes that nodes use. Its queue holds nodes."""

    def set_up(self) -> None:
        """Watch drivers, volumes, claims, nodes and pods."""
        self._pods_by_node = Index(field_value("spec", "nodeName"))
        self._pods_by_claim = Index(claim_keys)
        self._drivers = self.watch(STORAGE, "csidrivers")
        self._volumes = self.watch(CORE, "persistentvolumes", self._on_volume)
        self._claims = self.watch(CORE, "persistentvolumeclaims", self._on_claim)
        self._nodes = self.watch(CORE, "nodes", for_object)
        indexes = (self._pods_by_node, self._pods_by_claim)
        self._pods = self.watch(CORE, "pods", _on_pod, *indexes)

    def _on_volume(self, change: ObjectChange) -> Iterator[ObjectKey]:
        return self._nodes_of(claim_key(change.last.tree()))

    def _on_claim(self, change: ObjectChange) -> Iterator[ObjectKey]:
        return self._nodes_of(str(change.last.key))

    def _nodes_of(self, claim: str) -> Iterator[ObjectKey]:
        for entry in self._pods_by_claim.get(claim):
            yield ObjectKey("", node_of(entry.tree()))

    async def reconcile(self, key: ObjectKey) -> None:
        """Report the volumes of a node."""
        node = self._nodes.lister.get(key)
        if node is None or not has_kubelet(node):
            return
        names = sorted(set(self._volumes_of(key.name)))
        if names != (value_at(node.tree(), "status", "volumesInUse") or []):
            nodes = self.context.resource("v1", "nodes")
            patch = {"status": {"volumesInUse": names}}
            with suppress_reason("NotFound"):
                await nodes.patch(key.name, patch, subresource="status")

    def _volumes_of(self, node: str) -> Iterator[str]:
        """Yield the names of the attachable volumes that pods on a node use."""
        for pod in self._pods_by_node.get(node):
            if is_finished(pod.tree()):
                continue
            for name in claim_names(pod.tree()):
                volume = self._volume_of(ObjectKey(pod.key.namespace, name))
                if volume is not None and self._is_attachable(volume):
                    yield unique_name(volume.tree())

    def _volume_of(self, key: ObjectKey) -> Entry | None:
        claim = self._claims.lister.get(key)
        if claim is None or not is_in_bound_phase(claim.tree()):
            return None
        return self._volumes.lister.get(ObjectKey("", claim.tree()["spec"]["volumeName"]))

    def _is_attachable(self, volume: Entry) -> bool:
        name = value_at(volume.tree(), "spec", "csi", "driver") or ""
        driver = self._drivers.lister.get(ObjectKey("", name))
        return needs_attachment(volume.tree(), None if driver is None else driver.tree())


def _on_pod(change: ObjectChange) -> Iterator[ObjectKey]:
    """Queue the node of a pod with claims."""
    if node_of(change.last.tree()) and any(claim_names(change.last.tree())):
        yield ObjectKey("", node_of(change.last.tree()))
