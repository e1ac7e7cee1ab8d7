"""The scale subresource of a custom object, whose definition names the paths of the replicas.

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
from kapiserver.api.types import Tree, Value
from kapiserver.apiserver.errors import BadRequest, InternalError
from kapiserver.apiserver.scale import configuration_without_replicas, scale_metadata
from kapiserver.storage.errors import ObjectConflict

_NO_REPLICAS = -(1 << 31)
"""The replicas that a patch sees of an object that has none."""


class CustomScale:
    """Converts between a custom object and its Scale; `paths` is `subresources.scale` of the
    version."""

    def __init__(self, paths: Tree) -> None:
        self._spec = _path_names(paths["specReplicasPath"])
        self._status = _path_names(paths["statusReplicasPath"])
        self._selector = _path_names(paths.get("labelSelectorPath") or "")
        self._spec_text: str = paths["specReplicasPath"]

    def read(self, obj: Tree) -> Tree:
        """Return the Scale of an object. Raises InternalError for an object without replicas."""
        replicas = _integer(value_at(obj, *self._spec))
        if replicas is None:
            raise InternalError(f'the spec replicas field "{self._spec_text}" does not exist')
        return self._scale(obj, replicas)

    def read_to_write(self, obj: Tree) -> Tree:
        """Return the Scale of an object, with _NO_REPLICAS if it has no replicas."""
        replicas = _integer(value_at(obj, *self._spec))
        return self._scale(obj, _NO_REPLICAS if replicas is None else replicas)

    def _scale(self, obj: Tree, replicas: int) -> Tree:
        scale: Tree = {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": scale_metadata(obj),
            "spec": {"replicas": replicas} if replicas else {},
            "status": {"replicas": _integer(value_at(obj, *self._status)) or 0},
        }
        selector = value_at(obj, *self._selector) if self._selector else None
        if isinstance(selector, str) and selector:
            scale["status"]["selector"] = selector
        return scale

    def write(self, obj: Tree, body: Tree) -> Tree:
        """Return a copy of the object with the replicas of a Scale, which its strategy checks.
        Raises BadRequest, ObjectConflict."""
        replicas = _integer(value_at(body, "spec", "replicas")) or 0
        if replicas == _NO_REPLICAS:
            raise BadRequest(f'the spec replicas field "{self._spec_text}" cannot be empty')
        if uid_of(body) and uid_of(body) != uid_of(obj):
            detail = (
                f"Precondition failed: UID in precondition: {uid_of(body)}, "
                f"UID in object meta: {uid_of(obj)}"
            )
            raise ObjectConflict(detail, resource="scales", group="autoscaling", name=name_of(obj))
        scaled: Tree = copy_tree(obj)
        _set_value(scaled, self._spec, replicas)
        if resource_version_of(body):
            metadata_of(scaled)["resourceVersion"] = resource_version_of(body)
        return scaled

    def configuration(self, obj: Tree, body: Tree) -> Tree:
        """Return the apply configuration of the object for that of a Scale: the object's name and
        its replicas."""
        config = configuration_without_replicas(obj, body)
        replicas = _integer(value_at(body, "spec", "replicas"))
        if replicas is not None:
            _set_value(config, self._spec, replicas)
        return config


def _path_names(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split(".")) if path else ()


def _integer(value: Value) -> int | None:
    return value if type(value) is int else None


def _set_value(obj: Tree, names: tuple[str, ...], value: int) -> None:
    for name in names[:-1]:
        child = obj.setdefault(name, {})
        if not isinstance(child, dict):
            raise BadRequest(
                f"value cannot be set because {name} is not a map[string]interface{{}}"
            )
        obj = child
    obj[names[-1]] = value
