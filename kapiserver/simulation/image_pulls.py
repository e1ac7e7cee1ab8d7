"""The images of simulated containers: their names as containerd reports them, and their pulls.

Mirrors EnsureImageExists of pkg/kubelet/images.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from kapiserver.api.types import Tree

PULL_ERROR, PULL_BACK_OFF = "ErrImagePull", "ImagePullBackOff"


def full_image_name(image: str) -> str:
    """Return the name of an image with its registry and tag, as containerd reports it."""
    first, slash, _ = image.partition("/")
    if not slash:
        image = f"docker.io/library/{image}"
    elif "." not in first and ":" not in first and first != "localhost":
        image = f"docker.io/{image}"
    has_tag = "@" in image or ":" in image.rpartition("/")[2]
    return image if has_tag else f"{image}:latest"


def image_id(image: str) -> str:
    """Return the reference of an image by its digest."""
    name = full_image_name(image)
    return f"{name.partition('@')[0].rpartition(':')[0] or name}@sha256:{digest(name)}"


def digest(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def pull_error(image: str, missing: Collection[str]) -> str:
    """Return why an image cannot be pulled, or "": `missing` has the full names of those that a
    node does not find."""
    name = full_image_name(image)
    if name not in missing:
        return ""
    return (
        f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": '
        f"{name}: not found"
    )


def is_pulled_anew(container: Tree) -> bool:
    """Report whether each start of a container pulls its image."""
    return container.get("imagePullPolicy") == "Always"
