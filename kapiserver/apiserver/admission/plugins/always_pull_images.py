"""AlwaysPullImages: makes every pod pull its images, so that only users with access can run them.

Mirrors plugin/pkg/admission/alwayspullimages.
"""

from __future__ import annotations

from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.attributes import Attributes
from kapiserver.apiserver.context import Server


async def admit(
    _server: Server, _attributes: Attributes, new: Tree | None, _old: Tree | None
) -> None:
    """Set the pull policy of all containers and image volumes to Always."""
    spec = (new or {}).get("spec") or {}
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            container["imagePullPolicy"] = "Always"
    for volume in spec.get("volumes") or ():
        if volume.get("image") is not None:
            volume["image"]["pullPolicy"] = "Always"
