"""Rules for the annotations by which pods said, before there were fields, how they are confined."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapiserver.api.core.validation.common import descending
from kapiserver.api.errors import FieldError, Path, forbidden, invalid
from kapiserver.api.objects import annotations_of
from kapiserver.api.types import Tree

MIRROR = "kubernetes.io/config.mirror"
_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_KINDS = ("initContainers", "containers", "ephemeralContainers")
_DIGITS = re.compile(r"-?(0|[1-9][0-9]{0,9})")


def pod_annotations(pod: Tree) -> Iterator[FieldError]:
    """The annotations of a pod that mean something to Kubernetes."""
    annotations = annotations_of(pod)
    if annotations:  # most pods have none
        path = Path("metadata") / "annotations"
        yield from profile_annotations(pod, path)


def profile_annotations(pod: Tree, path: Path) -> Iterator[FieldError]:
    """The same of a pod or a template, whose annotations are at `path`."""
    annotations, spec = annotations_of(pod), pod.get("spec") or {}
    if MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(path[MIRROR], annotations[MIRROR], detail)
    cost = annotations.get(_COST)
    if cost is not None and not (_DIGITS.fullmatch(cost) and -(2**31) <= int(cost) < 2**31):
        yield invalid(path[_COST], cost, "must be a 32bit integer")
    for key, value in annotations.items():
        if key == _SECCOMP_POD or key.startswith(_SECCOMP):
            yield from _seccomp(value, path / key)
        elif key.startswith(_APP_ARMOR):
            yield from _app_armor(spec, key, value, path[key])


def _seccomp(value: str, path: Path) -> Iterator[FieldError]:
    if value in ("runtime/default", "docker/default", "unconfined"):
        return
    if value.startswith("localhost/"):
        yield from descending(value.removeprefix("localhost/"), path)
    else:
        yield invalid(path, value, "must be a valid seccomp profile")


def _app_armor(spec: Tree, key: str, value: str, path: Path) -> Iterator[FieldError]:
    name = key.removeprefix(_APP_ARMOR)
    if all(one.get("name") != name for kind in _KINDS for one in spec.get(kind) or ()):
        yield invalid(path, name, "container not found")
    known = value in ("", "runtime/default", "unconfined") or value.startswith("localhost/")
    if not known:
        yield invalid(path, value, f'invalid AppArmor profile name: "{value}"')


def matching_profiles(pod: Tree) -> Iterator[FieldError]:
    """What both an annotation and a field of a new pod say is the same."""
    if annotations_of(pod):
        spec = Path("spec")
        yield from matching_seccomp(pod, spec)
        if ((pod.get("spec") or {}).get("os") or {}).get("name") != "windows":
            yield from _matching_app_armor(pod, spec)


def matching_seccomp(pod: Tree, path: Path) -> Iterator[FieldError]:
    """The same of seccomp profiles alone, for templates too; `path` is that of the spec."""
    annotations, spec = annotations_of(pod), pod.get("spec") or {}
    for holder, at, key in (
        (spec, path, _SECCOMP_POD),
        *((one, where, _SECCOMP + (one.get("name") or "")) for one, where in _all(spec, path)),
    ):
        profile = (holder.get("securityContext") or {}).get("seccompProfile")
        if profile is not None and key in annotations:
            where = at / "securityContext" / "seccompProfile"
            plain = ("runtime/default", "docker/default")
            yield from _match(annotations[key], profile, where, "seccomp", plain)


def _matching_app_armor(pod: Tree, path: Path) -> Iterator[FieldError]:
    annotations, spec = annotations_of(pod), pod.get("spec") or {}
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container, at in _all(spec, path):
        profile = (container.get("securityContext") or {}).get("appArmorProfile") or of_pod
        key = _APP_ARMOR + (container.get("name") or "")
        if profile is not None and key in annotations:
            where = at / "securityContext" / "appArmorProfile"
            yield from _match(annotations[key], profile, where, "apparmor", ("runtime/default",))


def _all(spec: Tree, path: Path) -> Iterator[tuple[Tree, Path]]:
    for kind in _KINDS:
        for index, container in enumerate(spec.get(kind) or ()):
            yield container, (path / kind)[index]


def _match(
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
