"""Images: prefers nodes that already have the images of a pod, because they start it earlier.

An image counts by its size and by the part of the nodes that have it, so that a single node does
not get all pods of an image. Mirrors the plugin imagelocality of pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.accessors import value_at
from kapiserver.simulation.scheduler.plugins.normalize import MAX_SCORE
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_MEBIBYTE = 1024 * 1024
_MIN_SIZE = 23 * _MEBIBYTE
"""A sum of sizes up to this one does not count."""
_MAX_SIZE = 1000 * _MEBIBYTE
"""The most that each container counts for."""


def image_scores(pod: PodInfo, snapshot: Snapshot, nodes: Sequence[NodeInfo]) -> list[int] | None:
    """Return a higher score for a node that has more of the pod's images."""
    if not snapshot.nodes_with_image:
        return None
    images = [_normalized(image) for image in _images_of(pod)]
    shares = {name: snapshot.nodes_with_image[name] / len(snapshot.nodes) for name in images}
    most = _MAX_SIZE * len(images)
    scores = []
    for node in nodes:
        size = sum(int(node.images.get(name, 0) * shares[name]) for name in images)
        counted = min(max(size, _MIN_SIZE), most)
        scores.append(MAX_SCORE * (counted - _MIN_SIZE) // (most - _MIN_SIZE))
    return scores


def _images_of(pod: PodInfo) -> list[str]:
    fields = ("initContainers", "containers")
    containers = [container for field in fields for container in pod.spec.get(field) or ()]
    volumes = [value_at(volume, "image", "reference") for volume in pod.spec.get("volumes") or ()]
    return [
        *(container.get("image") or "" for container in containers),
        *(image for image in volumes if image),
    ]


def _normalized(image: str) -> str:
    """Return the name of an image with its tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
