"""Rules for the annotations by which pods said, before there were fields, how they are confined."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapiserver.api.core.validation.common import all_containers, validate_local_descending_path
from kapiserver.api.core.validation.scheduling import validate_tolerations
from kapiserver.api.errors import FieldError, Path, forbidden, invalid
from kapiserver.api.objects import annotations_of
from kapiserver.api.types import Tree

MIRROR = "kubernetes.io/config.mirror"
_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_DIGITS = re.compile(r"-?(0|[1-9][0-9]{0,9})")


def validate_pod_annotations(pod: Tree, path: Path) -> Iterator[FieldError]:
    """The annotations of a pod or a template that mean something to Kubernetes; `path` is
    theirs."""
    annotations, spec = annotations_of(pod), pod.get("spec") or {}
    if not annotations:  # most pods have none
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
    """Annotations of a pod that is changed: some are there from the beginning or never."""
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
    """What pods said in an annotation before there was a field."""
    import json  # hardly a pod has it

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        yield invalid(path, _TOLERATIONS, "unexpected end of JSON input")
        return
    if not found and (found is None or isinstance(found, list)):
        return
    if isinstance(found, list) and all(isinstance(one, dict) for one in found):
        # The text is read by the names of Go's fields, in any case.
        named = [{_lower_first(key): value for key, value in one.items()} for one in found]
        yield from validate_tolerations(named, path / _TOLERATIONS)
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
    if all(one.get("name") != name for one, _ in all_containers(spec, path)):
        yield invalid(path, name, "container not found")
    known = value in ("", "runtime/default", "unconfined") or value.startswith("localhost/")
    if not known:
        yield invalid(path, value, f'invalid AppArmor profile name: "{value}"')


def validate_profile_annotations_match(pod: Tree, path: Path) -> Iterator[FieldError]:
    """What both an annotation and a field of a new pod or a template say is the same; `path` is
    that of its spec."""
    if annotations_of(pod):
        yield from _validate_seccomp_annotations_match(pod, path)
        if ((pod.get("spec") or {}).get("os") or {}).get("name") != "windows":
            yield from _validate_app_armor_annotations_match(pod, path)


def _validate_seccomp_annotations_match(pod: Tree, path: Path) -> Iterator[FieldError]:
    annotations, spec = annotations_of(pod), pod.get("spec") or {}
    for holder, holder_path, key in (
        (spec, path, _SECCOMP_POD),
        *(
            (one, where, _SECCOMP + (one.get("name") or ""))
            for one, where in all_containers(spec, path)
        ),
    ):
        profile = (holder.get("securityContext") or {}).get("seccompProfile")
        if profile is not None and key in annotations:
            seccomp_profile_path = holder_path / "securityContext" / "seccompProfile"
            plain = ("runtime/default", "docker/default")
            yield from _validate_profile_match(
                annotations[key], profile, seccomp_profile_path, "seccomp", plain
            )


def _validate_app_armor_annotations_match(pod: Tree, path: Path) -> Iterator[FieldError]:
    annotations, spec = annotations_of(pod), pod.get("spec") or {}
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container, container_path in all_containers(spec, path):
        profile = (container.get("securityContext") or {}).get("appArmorProfile") or of_pod
        key = APP_ARMOR + (container.get("name") or "")
        if profile is not None and key in annotations:
            profile_path = container_path / "securityContext" / "appArmorProfile"
            yield from _validate_profile_match(
                annotations[key], profile, profile_path, "apparmor", ("runtime/default",)
            )


def _validate_profile_match(
    said: str, profile: Tree, path: Path, what: str, plain: tuple[str, ...]
) -> Iterator[FieldError]:
    type_ = profile.get("type")
    wrong_type = forbidden(path / "type", f"{what} type in annotation and field must match")
    if (type_ == "Unconfined" and said != "unconfined") or (
        type_ == "RuntimeDefault" and said not in plain
    ):
        yield wrong_type
    elif type_ == "Localhost":
        if not said.startswith("localhost/"):
            yield wrong_type
        elif said.removeprefix("localhost/") != profile.get("localhostProfile"):
            detail = f"{what} profile in annotation and field must match"
            yield forbidden(path / "localhostProfile", detail)
