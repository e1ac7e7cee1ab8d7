"""AppArmor profiles that pods name in annotations: new ones get them as fields too.

Mirrors applyAppArmorVersionSkew of pkg/registry/core/pod.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.core import v1
from kapiserver.api.core.validation.common import all_containers
from kapiserver.api.core.validation.pod_annotations import APP_ARMOR
from kapiserver.api.core.validation.security import validate_app_armor_profile
from kapiserver.api.errors import Path
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.objects import annotations_of, value_at
from kapiserver.api.types import Tree

_PLAIN = {"runtime/default": "RuntimeDefault", "unconfined": "Unconfined"}
_LOCAL = "localhost/"
DEPRECATED = 'deprecated since v1.30; use the "appArmorProfile" field instead'


def warnings(pod: Tree) -> Iterator[str]:
    """What a client is told that knows only the annotations."""
    for container, profile in _without_field(pod):
        key = APP_ARMOR + (container.get("name") or "")
        if profile is None or profile != _of_pod(pod):
            yield f"{(Path('metadata') / 'annotations')[key]}: {DEPRECATED}"


def take_over(pod: Tree) -> None:
    """Give containers the profiles that annotations name, where they are others than the pod's."""
    for container, profile in _without_field(pod):
        if profile is not None and profile != _of_pod(pod):
            context = container.setdefault("securityContext", {})
            context["appArmorProfile"] = profile
            reorder_keys(context, v1.SecurityContext)
            reorder_keys(container, v1.Container)


def _of_pod(pod: Tree) -> Tree | None:
    app_armor_profile: Tree | None = value_at(pod, "spec", "securityContext", "appArmorProfile")
    return app_armor_profile


def _without_field(pod: Tree) -> Iterator[tuple[Tree, Tree | None]]:
    """The containers with an annotation alone, and the field that says the same; None where there
    can be none."""
    annotations = annotations_of(pod)
    if not annotations or value_at(pod, "spec", "os", "name") == "windows":
        return
    for container, _ in all_containers(pod.get("spec") or {}, Path("spec")):
        said = annotations.get(APP_ARMOR + (container.get("name") or ""))
        if said is not None and value_at(container, "securityContext", "appArmorProfile") is None:
            yield container, _field(said)


def _field(said: str) -> Tree | None:
    if said in _PLAIN:
        return {"type": _PLAIN[said]}
    name = said.removeprefix(_LOCAL)
    if name == said or not name:
        return None
    profile = {"type": "Localhost", "localhostProfile": name}
    return None if any(validate_app_armor_profile(profile, Path("spec"))) else profile
