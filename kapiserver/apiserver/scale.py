"""The scale subresource: the desired and actual replicas of an object, as autoscaling/v1 Scale.

Works on trees of any kind with `spec.replicas`, `status.replicas` and `spec.selector`. Mirrors
the ScaleREST of pkg/registry/apps.
"""

from __future__ import annotations

import copy

from kapiserver.api.accessors import metadata_of, name_of, resource_version_of, uid_of, value_at
from kapiserver.api.errors import FieldError, InvalidObject, Path, invalid
from kapiserver.api.label_selectors import selector_text
from kapiserver.api.types import Tree

_IDENTITY = ("name", "namespace", "uid", "resourceVersion")
_METADATA = (*_IDENTITY, "creationTimestamp")


def scale_metadata(obj: Tree) -> Tree:
    """Return the metadata of the Scale of an object."""
    metadata = obj.get("metadata", {})
    return {name: metadata[name] for name in _METADATA if name in metadata}


def configuration_without_replicas(obj: Tree, body: Tree) -> Tree:
    """Return kind and identity of the apply configuration of an object for that of its Scale."""
    metadata = body.get("metadata") or {}
    return {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "metadata": {name: value for name, value in metadata.items() if name in _IDENTITY},
    }


class Scale:
    """Converts between an object and its Scale."""

    def read(self, obj: Tree) -> Tree:
        """Return the Scale of an object."""
        scale: Tree = {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": scale_metadata(obj),
            "spec": {},
            "status": {"replicas": value_at(obj, "status", "replicas") or 0},
        }
        replicas = value_at(obj, "spec", "replicas")
        if replicas:
            scale["spec"]["replicas"] = replicas
        selector = selector_text(_label_selector(obj))
        if selector:
            scale["status"]["selector"] = selector
        return scale

    def read_to_write(self, obj: Tree) -> Tree:
        """Return the Scale of an object, which a patch changes."""
        return self.read(obj)

    def write(self, obj: Tree, body: Tree) -> Tree:
        """Return a copy of the object with the replicas of a Scale. Raises InvalidObject."""
        replicas = value_at(body, "spec", "replicas") or 0
        if replicas < 0:
            raise _negative_replicas(body, replicas)
        scaled = copy.deepcopy(obj)
        scaled["spec"]["replicas"] = replicas
        metadata = metadata_of(scaled)
        metadata["resourceVersion"] = resource_version_of(body)
        if uid_of(body):
            metadata["uid"] = uid_of(body)
        return scaled

    def configuration(self, obj: Tree, body: Tree) -> Tree:
        """Return the apply configuration of the object for that of a Scale: the object's name and
        its replicas. Raises InvalidObject."""
        config = configuration_without_replicas(obj, body)
        replicas = value_at(body, "spec", "replicas")
        if replicas is not None:
            if replicas < 0:
                raise _negative_replicas(body, replicas)
            config["spec"] = {"replicas": replicas}
        return config


def _label_selector(obj: Tree) -> Tree | None:
    selector: Tree | None = value_at(obj, "spec", "selector")
    # The selector of a ReplicationController is a map of labels.
    return {"matchLabels": selector} if obj.get("kind") == "ReplicationController" else selector


def _negative_replicas(scale: Tree, replicas: int) -> InvalidObject:
    error: FieldError = invalid(
        Path("spec") / "replicas", replicas, "must be greater than or equal to 0"
    )
    return InvalidObject(group="autoscaling", kind="Scale", name=name_of(scale), errors=[error])
