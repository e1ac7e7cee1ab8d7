"""AppArmor profiles in pod annotations, which create requests copy into fields.

Mirrors applyAppArmorVersionSkew of pkg/registry/core/pod.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import annotations_of, value_at
from kapiserver.api.core import v1
from kapiserver.api.core.validation.common import all_containers
from kapiserver.api.core.validation.pod_annotations import APP_ARMOR
from kapiserver.api.core.validation.security import validate_app_armor_profile
from kapiserver.api.errors import Path
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree

_PROFILE_TYPES = {"runtime/default": "RuntimeDefault", "unconfined": "Unconfined"}
_LOCALHOST_PREFIX = "localhost/"
DEPRECATED = 'deprecated since v1.30; use the "appArmorProfile" field instead'


def warnings_for_app_armor(pod: Tree) -> Iterator[str]:
    """Yield a warning for each container whose profile is set by annotation only."""
    for container, profile in _containers_without_field(pod):
        key = APP_ARMOR + (container.get("name") or "")
        if profile is None or profile != _pod_profile(pod):
            yield f"{(Path('metadata') / 'annotations')[key]}: {DEPRECATED}"


def set_profiles_from_annotations(pod: Tree) -> None:
    """Set the profile field of each container whose annotation names another profile than the
    pod's."""
    for container, profile in _containers_without_field(pod):
        if profile is not None and profile != _pod_profile(pod):
            context = container.setdefault("securityContext", {})
            context["appArmorProfile"] = profile
            reorder_keys(context, v1.SecurityContext)
            reorder_keys(container, v1.Container)


def _pod_profile(pod: Tree) -> Tree | None:
    app_armor_profile: Tree | None = value_at(pod, "spec", "securityContext", "appArmorProfile")
    return app_armor_profile


def _containers_without_field(pod: Tree) -> Iterator[tuple[Tree, Tree | None]]:
    """Yield containers whose profile is set by annotation only, with the profile. The profile is
    None if the annotation is invalid."""
    annotations = annotations_of(pod)
    if not annotations or value_at(pod, "spec", "os", "name") == "windows":
        return
    for container, _ in all_containers(pod.get("spec") or {}, Path("spec")):
        annotation = annotations.get(APP_ARMOR + (container.get("name") or ""))
        if (
            annotation is not None
            and value_at(container, "securityContext", "appArmorProfile") is None
        ):
            yield container, _profile_of(annotation)


def _profile_of(annotation: str) -> Tree | None:
    if annotation in _PROFILE_TYPES:
        return {"type": _PROFILE_TYPES[annotation]}
    name = annotation.removeprefix(_LOCALHOST_PREFIX)
    if name == annotation or not name:
        return None
    profile = {"type": "Localhost", "localhostProfile": name}
    return None if any(validate_app_armor_profile(profile, Path("spec"))) else profile
