"""An object with managedFields, written through a FieldManager as a server does."""

from __future__ import annotations

import copy
from typing import Any

import yaml

from kapiserver.api.apply import merge_schema
from kapiserver.api.apply.managed_fields import FieldManager
from kapiserver.api.apply.merge_schema import Node
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.codecs.tree_decoder import decode_tree

SCHEME = Scheme()
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


class KindSchemas:
    """The merge schemas of one kind of the scheme."""

    def __init__(self, group: str, kind: str) -> None:
        self._group = group
        self._kind = kind

    def _of(self, api_version: str) -> GroupVersionKind:
        return GroupVersion.parse(api_version).with_kind(self._kind)

    def node(self, api_version: str) -> Node:
        return merge_schema.schema_of(SCHEME.type_of(self._of(api_version)))

    def convert(self, obj: Tree, api_version: str) -> Tree:
        kind = self._of(api_version)
        if obj["apiVersion"] == api_version:
            return obj
        SCHEME.type_of(kind)
        return SCHEME.convert(canonical(obj), kind.group_version)

    def empty(self, api_version: str) -> Tree:
        kind = self._of(api_version)
        return canonical({"kind": kind.kind, "apiVersion": api_version})


def canonical(obj: Tree) -> Tree:
    kind = GroupVersion.parse(obj["apiVersion"]).with_kind(obj["kind"])
    return decode_tree(SCHEME.type_of(kind), copy.deepcopy(obj), [])


def field_manager(api_version: str, kind: str, **options: Any) -> FieldManager:
    group = GroupVersion.parse(api_version).group
    options.setdefault("ignored", {"f:status": {}})
    return FieldManager(schemas=KindSchemas(group, kind), version=api_version, **options)


class OwnedObject:
    """An object as a server stores it: every write goes through a FieldManager."""

    def __init__(self, api_version: str, kind: str, **options: Any) -> None:
        self.fields = field_manager(api_version, kind, **options)
        self.tree: Tree | None = None

    def apply(self, text: str | Tree, manager: str, *, force: bool = False, now: str = NOW) -> Tree:
        config = yaml.safe_load(text) if isinstance(text, str) else copy.deepcopy(text)
        out, entries = self.fields.apply(self.tree, config, manager=manager, now=now, force=force)
        return self._stored(out, entries)

    def update(self, new: Tree, manager: str, *, now: str = NOW) -> Tree:
        new = canonical(new)
        entries = self.fields.update(self.tree, new, manager=manager, now=now)
        return self._stored(new, entries)

    def _stored(self, tree: Tree, entries: list[Tree]) -> Tree:
        tree = canonical(tree)
        SCHEME.default(tree)
        tree["metadata"]["uid"] = "1"
        tree["metadata"].pop("managedFields", None)
        if entries:
            tree["metadata"]["managedFields"] = entries
        self.tree = tree
        return tree

    def owned(self) -> dict[tuple[str, str], Any]:
        assert self.tree is not None
        entries = self.tree["metadata"].get("managedFields", [])
        return {(entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in entries}

    def plain(self) -> Tree:
        assert self.tree is not None
        tree = copy.deepcopy(self.tree)
        tree["metadata"].pop("managedFields", None)
        return tree


CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: x, namespace: default}
data: {a: "1"}
"""


def config_map(**data: str) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "default"},
        "data": data,
    }


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: x, namespace: default, labels: {app: x}}
spec:
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec:
      containers:
      - name: nginx
        image: nginx:1
        ports: [{containerPort: 443}, {containerPort: 80}]
        env: [{name: B, value: b}, {name: A, value: a}]
"""
