"""The scale subresource: how many replicas an object wants and has, as autoscaling/v1 Scale.

Works on trees of any kind with `spec.replicas`, `status.replicas` and `spec.selector`. Mirrors
the ScaleREST of pkg/registry/apps.
"""

from __future__ import annotations

import copy

from kapiserver.api.accessors import metadata_of, name_of, resource_version_of, uid_of, value_at
from kapiserver.api.errors import FieldError, InvalidObject, Path, invalid
from kapiserver.api.label_selectors import selector_text
from kapiserver.api.types import Tree

_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class Scale:
    """An object seen as its scale."""

    def read(self, obj: Tree) -> Tree:
        """The Scale of an object."""
        metadata = obj.get("metadata", {})
        scale: Tree = {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {name: metadata[name] for name in _METADATA if name in metadata},
            "spec": {},
            "status": {"replicas": value_at(obj, "status", "replicas") or 0},
        }
        wanted = value_at(obj, "spec", "replicas")
        if wanted:
            scale["spec"]["replicas"] = wanted
        selector = selector_text(_label_selector(obj))
        if selector:
            scale["status"]["selector"] = selector
        return scale

    def write(self, obj: Tree, body: Tree) -> Tree:
        """A copy of the object that wants what the Scale says. Raises InvalidObject."""
        replicas = value_at(body, "spec", "replicas") or 0
        if replicas < 0:
            raise _not_a_count(body, replicas)
        changed = copy.deepcopy(obj)
        changed["spec"]["replicas"] = replicas
        metadata = metadata_of(changed)
        metadata["resourceVersion"] = resource_version_of(body)
        if uid_of(body):
            metadata["uid"] = uid_of(body)
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
        replicas = value_at(body, "spec", "replicas")
        if replicas is not None:
            if replicas < 0:
                raise _not_a_count(body, replicas)
            config["spec"] = {"replicas": replicas}
        return config


def _label_selector(obj: Tree) -> Tree | None:
    found: Tree | None = value_at(obj, "spec", "selector")
    # The elder of replica sets has a plain map of labels.
    return {"matchLabels": found} if obj.get("kind") == "ReplicationController" else found


def _not_a_count(scale: Tree, replicas: int) -> InvalidObject:
    error: FieldError = invalid(
        Path("spec") / "replicas", replicas, "must be greater than or equal to 0"
    )
    return InvalidObject(group="autoscaling", kind="Scale", name=name_of(scale), errors=[error])
