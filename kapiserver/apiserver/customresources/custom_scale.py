"""The scale of a custom object, whose numbers lie where its definition says.

Mirrors ScaleREST of k8s.io/apiextensions-apiserver/pkg/registry/customresource.
"""

from __future__ import annotations

from kapiserver.api.accessors import (
    copy_tree,
    metadata_of,
    name_of,
    resource_version_of,
    uid_of,
    value_at,
)
from kapiserver.api.errors import InvalidObject, Path, invalid
from kapiserver.api.types import Tree, Value
from kapiserver.apiserver.errors import BadRequest, InternalError
from kapiserver.storage.errors import ObjectConflict

_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class CustomScale:
    """An object seen as its scale; `paths` are `subresources.scale` of its version."""

    def __init__(self, paths: Tree) -> None:
        self._spec = _names(paths["specReplicasPath"])
        self._status = _names(paths["statusReplicasPath"])
        self._selector = _names(paths.get("labelSelectorPath") or "")
        self._spec_text: str = paths["specReplicasPath"]

    def read(self, obj: Tree) -> Tree:
        """The Scale of an object. Raises InternalError where it has no number of replicas."""
        wanted = _count(value_at(obj, *self._spec))
        if wanted is None:
            raise InternalError(f'the spec replicas field "{self._spec_text}" does not exist')
        metadata = obj.get("metadata", {})
        scale: Tree = {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: metadata[name] for name in _METADATA if name in metadata},
            "spec": {"replicas": wanted} if wanted else {},
            "status": {"replicas": _count(value_at(obj, *self._status)) or 0},
        }
        selector = value_at(obj, *self._selector) if self._selector else None
        if isinstance(selector, str) and selector:
            scale["status"]["selector"] = selector
        return scale

    def write(self, obj: Tree, body: Tree) -> Tree:
        """A copy of the object that wants what the Scale says. Raises InvalidObject,
        ObjectConflict."""
        replicas = _count(value_at(body, "spec", "replicas")) or 0
        _check(body, replicas)
        if uid_of(body) and uid_of(body) != uid_of(obj):
            detail = (
                f"Precondition failed: UID in precondition: {uid_of(body)}, "
                f"UID in object meta: {uid_of(obj)}"
            )
            raise ObjectConflict(detail, resource="scales", group="autoscaling", name=name_of(obj))
        changed: Tree = copy_tree(obj)
        _put(changed, self._spec, replicas)
        if resource_version_of(body):
            metadata_of(changed)["resourceVersion"] = resource_version_of(body)
        return changed

    def configuration(self, obj: Tree, body: Tree) -> Tree:
        """What applying a Scale says of the object: its name, and how many replicas it wants."""
        config: Tree = {
            "apiVersion": obj.get("apiVersion"),
            "kind": obj.get("kind"),
            "metadata": {
                name: value
                for name, value in (body.get("metadata") or {}).items()
                if name in ("name", "namespace", "uid", "resourceVersion")
            },
        }
        replicas = _count(value_at(body, "spec", "replicas"))
        if replicas is not None:
            _check(body, replicas)
            _put(config, self._spec, replicas)
        return config


def _check(scale: Tree, replicas: int) -> None:
    if replicas < 0:
        path = Path("spec") / "replicas"
        error = invalid(path, replicas, "must be greater than or equal to 0")
        raise InvalidObject(group="autoscaling", kind="Scale", name=name_of(scale), errors=[error])


def _names(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split(".")) if path else ()


def _count(value: Value) -> int | None:
    return value if type(value) is int else None


def _put(obj: Tree, names: tuple[str, ...], value: int) -> None:
    for name in names[:-1]:
        below = obj.setdefault(name, {})
        if not isinstance(below, dict):
            raise BadRequest(
                f"value cannot be set because {name} is not a map[string]interface{{}}"
            )
        obj = below
    obj[names[-1]] = value
