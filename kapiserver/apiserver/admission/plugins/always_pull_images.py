"""AlwaysPullImages: makes every pod pull its images, so that only users with access can run them.

Mirrors plugin/pkg/admission/alwayspullimages.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.errors import Path, not_supported
from kapiserver.api.go_format import join_errors
from kapiserver.api.types import Tree
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.context import Server

_ALWAYS = "Always"
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


async def admit(
    _server: Server, _attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Set the pull policy of all containers and image volumes to Always, unless an update has no
    new image."""
    if new is None or _has_no_new_image(new, old):
        return
    for _, image, field in _images(new):
        image[field] = _ALWAYS


async def validate(
    _server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
) -> None:
    """Raise Forbidden for another pull policy: other plugins may have changed the pod."""
    if new is None or _has_no_new_image(new, old):
        return
    problems = [
        str(not_supported(path / field, image.get(field) or "", [_ALWAYS]))
        for path, image, field in _images(new)
        if image.get(field) != _ALWAYS
    ]
    if problems:
        raise attributes.forbidden(join_errors(problems))


def _images(pod: Tree) -> Iterator[tuple[Path, Tree, str]]:
    """Yield the containers and image volumes of a pod: the path of each, the tree, and the name of
    the field with its pull policy."""
    spec, path = pod.get("spec") or {}, Path("spec")
    for kind in _CONTAINERS:
        for index, container in enumerate(spec.get(kind) or ()):
            yield (path / kind)[index], container, "imagePullPolicy"
    for index, volume in enumerate(spec.get("volumes") or ()):
        if volume.get("image") is not None:
            yield (path / "volumes")[index] / "image", volume["image"], "pullPolicy"


def _has_no_new_image(new: Tree, old: Tree | None) -> bool:
    """Whether an update leaves the images of all containers as they are."""
    if old is None:
        return False
    return _image_names(new) <= _image_names(old)


def _image_names(pod: Tree) -> set[str]:
    spec = pod.get("spec") or {}
    return {
        container.get("image") or "" for kind in _CONTAINERS for container in spec.get(kind) or ()
    }
