"""Validation of pod annotations that have a meaning for Kubernetes, such as security profiles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapiserver.api.accessors import annotations_of
from kapiserver.api.core.validation.common import all_containers, validate_local_descending_path
from kapiserver.api.core.validation.scheduling import validate_tolerations
from kapiserver.api.errors import FieldError, Path, forbidden, invalid
from kapiserver.api.types import Tree

MIRROR = "kubernetes.io/config.mirror"
_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_DIGITS = re.compile(r"-?(0|[1-9][0-9]{0,9})")


def validate_pod_annotations(pod: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the annotations of a pod or of a pod template. `path` is the path of the
    annotations."""
    annotations, spec = annotations_of(pod), pod.get("spec") or {}
    if not annotations:  # the common case
        return
    if MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(path[MIRROR], annotations[MIRROR], detail)
    if annotations.get(_TOLERATIONS):
        yield from _validate_tolerations(annotations[_TOLERATIONS], path)
    cost = annotations.get(_COST)
    if cost is not None and not (_DIGITS.fullmatch(cost) and -(2**31) <= int(cost) < 2**31):
        yield invalid(path[_COST], cost, "must be a 32bit integer")
    if _SECCOMP_POD in annotations:
        yield from _validate_seccomp(annotations[_SECCOMP_POD], path / _SECCOMP_POD)
    for key, value in annotations.items():
        if key.startswith(_SECCOMP):
            yield from _validate_seccomp(value, path / key)
    for key, value in annotations.items():
        if key.startswith(APP_ARMOR):
            yield from _validate_app_armor(spec, key, value, path[key])


def validate_annotations_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate the annotations of an updated pod. AppArmor and mirror pod annotations are
    immutable."""
    path = Path("metadata") / "annotations"
    annotations, old_annotations = annotations_of(new), annotations_of(old)
    for key, value in old_annotations.items():
        if annotations.get(key) != value:
            if key.startswith(APP_ARMOR):
                yield forbidden(path[key], "may not remove or update AppArmor annotations")
            if key == MIRROR:
                yield forbidden(path[key], "may not remove or update mirror pod annotation")
    for key in annotations:
        if key not in old_annotations:
            if key.startswith(APP_ARMOR):
                yield forbidden(path[key], "may not add AppArmor annotations")
            if key == MIRROR:
                yield forbidden(path[key], "may not add mirror pod annotation")
    yield from validate_pod_annotations(new, path)


def _validate_tolerations(text: str, path: Path) -> Iterator[FieldError]:
    """Validate tolerations in an annotation, which old clients used before the field existed."""
    import json  # imported late: almost no pod has the annotation

    try:
        annotation = json.loads(text)
    except (ValueError, RecursionError):
        yield invalid(path, _TOLERATIONS, "unexpected end of JSON input")
        return
    if not annotation and (annotation is None or isinstance(annotation, list)):
        return
    if isinstance(annotation, list) and all(
        isinstance(toleration, dict) for toleration in annotation
    ):
        # Go's decoder matches the names of struct fields without regard to case.
        parsed_tolerations = [
            {_lower_first(key): value for key, value in toleration.items()}
            for toleration in annotation
        ]
        yield from validate_tolerations(parsed_tolerations, path / _TOLERATIONS)
    else:
        detail = "json: cannot unmarshal into Go value of type []core.Toleration"
        yield invalid(path, _TOLERATIONS, detail)


def _lower_first(name: str) -> str:
    return name[:1].lower() + name[1:]


def _validate_seccomp(value: str, path: Path) -> Iterator[FieldError]:
    if value in ("runtime/default", "docker/default", "unconfined"):
        return
    if value.startswith("localhost/"):
        yield from validate_local_descending_path(value.removeprefix("localhost/"), path)
    else:
        yield invalid(path, value, "must be a valid seccomp profile")


def _validate_app_armor(spec: Tree, key: str, value: str, path: Path) -> Iterator[FieldError]:
    name = key.removeprefix(APP_ARMOR)
    if all(container.get("name") != name for container, _ in all_containers(spec, path)):
        yield invalid(path, name, "container not found")
    is_valid = value in ("", "runtime/default", "unconfined") or value.startswith("localhost/")
    if not is_valid:
        yield invalid(path, value, f'invalid AppArmor profile name: "{value}"')


def validate_profile_annotations_match(pod: Tree, path: Path) -> Iterator[FieldError]:
    """Validate that profiles in annotations of a new pod or template match those in its fields.
    `path` is the path of its spec."""
    if annotations_of(pod):
        yield from _validate_seccomp_annotations_match(pod, path)
        if ((pod.get("spec") or {}).get("os") or {}).get("name") != "windows":
            yield from _validate_app_armor_annotations_match(pod, path)


def _validate_seccomp_annotations_match(pod: Tree, path: Path) -> Iterator[FieldError]:
    annotations, spec = annotations_of(pod), pod.get("spec") or {}
    for holder, holder_path, key in (
        (spec, path, _SECCOMP_POD),
        *(
            (container, container_path, _SECCOMP + (container.get("name") or ""))
            for container, container_path in all_containers(spec, path)
        ),
    ):
        profile = (holder.get("securityContext") or {}).get("seccompProfile")
        if profile is not None and key in annotations:
            seccomp_profile_path = holder_path / "securityContext" / "seccompProfile"
            default_names = ("runtime/default", "docker/default")
            yield from _validate_profile_match(
                annotations[key], profile, seccomp_profile_path, "seccomp", default_names
            )


def _validate_app_armor_annotations_match(pod: Tree, path: Path) -> Iterator[FieldError]:
    annotations, spec = annotations_of(pod), pod.get("spec") or {}
    pod_profile = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container, container_path in all_containers(spec, path):
        profile = (container.get("securityContext") or {}).get("appArmorProfile") or pod_profile
        key = APP_ARMOR + (container.get("name") or "")
        if profile is not None and key in annotations:
            profile_path = container_path / "securityContext" / "appArmorProfile"
            yield from _validate_profile_match(
                annotations[key], profile, profile_path, "apparmor", ("runtime/default",)
            )


def _validate_profile_match(
    annotation: str, profile: Tree, path: Path, profile_kind: str, default_names: tuple[str, ...]
) -> Iterator[FieldError]:
    type_ = profile.get("type")
    wrong_type = forbidden(path / "type", f"{profile_kind} type in annotation and field must match")
    if (type_ == "Unconfined" and annotation != "unconfined") or (
        type_ == "RuntimeDefault" and annotation not in default_names
    ):
        yield wrong_type
    elif type_ == "Localhost":
        if not annotation.startswith("localhost/"):
            yield wrong_type
        elif annotation.removeprefix("localhost/") != profile.get("localhostProfile"):
            detail = f"{profile_kind} profile in annotation and field must match"
            yield forbidden(path / "localhostProfile", detail)
