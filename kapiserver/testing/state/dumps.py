"""Dumps of a server's objects as YAML, normalised so that two runs can be compared."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

from kapiserver.api.accessors import copy_tree
from kapiserver.api.group import Resource
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.tables import in_version
from kapiserver.codecs import yaml
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.kv.contract import KeyValue
from kapiserver.testing.state.kinds import all_resources, find_resource, preferred_version

_NOT_DUMPED = frozenset(
    {
        "events",
        "events.events.k8s.io",
        "leases.coordination.k8s.io",
        "ipaddresses.networking.k8s.io",
        "apiservices.apiregistration.k8s.io",
    }
)
"""A dump leaves out these resources unless the test names them: they change by themselves."""
_DROPPED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "selfLink")
_ADDRESSES = frozenset({"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"})

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PEM = re.compile(r"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----\n?", re.DOTALL)
_ACCESS_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}\b")


def dumped_resources(server: Server, kinds: Sequence[str]) -> list[Resource]:
    """Return the resources to dump: those of the kinds, or all that do not change by themselves.
    Raises ValueError for an unknown kind."""
    if kinds:
        return [find_resource(server.scheme, kind) for kind in kinds]
    stored: dict[tuple[str, str, str], Resource] = {}
    for resource in all_resources(server.scheme):
        if resource.qualified_name not in _NOT_DUMPED:
            stored.setdefault(server.scheme.storage_resource(resource).store_key, resource)
    return list(stored.values())


def dumped_objects(
    server: Server,
    items: Iterable[KeyValue],
    resources: Sequence[Resource],
    namespace: str,
    unchanged: Iterable[KeyValue],
) -> list[Tree]:
    """Return the objects under keys of the store, in their preferred versions, by kind, namespace
    and name.

    namespace   only objects of this namespace; "" for all
    unchanged   keys and values to leave out
    """
    left_out = {(item.key, item.value) for item in unchanged}
    changed = sorted(
        (item for item in items if (item.key, item.value) not in left_out),
        key=attrgetter("key"),
    )
    keys = [item.key for item in changed]
    objects = []
    for resource in resources:
        codec = server.stores.get(resource).codec
        scope = codec.scope(namespace) if not namespace or resource.namespaced else None
        if scope is None:
            continue
        for item in islice(changed, bisect_left(keys, scope), None):
            if not item.key.startswith(scope):
                break
            tree = codec.tree(Entry(codec, item.key, item.value, item.revision))
            objects.append(in_version(server.scheme, tree, preferred_version(resource)))
    return sorted(objects, key=_order)


def _order(obj: Tree) -> tuple[str, ...]:
    metadata = obj["metadata"]
    group = obj["apiVersion"].rpartition("/")[0]
    return group, obj["kind"], metadata.get("namespace", ""), metadata["name"]


def to_yaml(objects: Sequence[Tree], *, normalise: bool) -> str:
    """Return the objects as YAML documents.

    normalise   leave out or replace what differs between runs: uids, resource versions, times,
                managedFields, certificates, and addresses, ports and names that were chosen at
                random
    """
    if normalise:
        names = dict(map(_replaced_name, objects))
        objects = [normalised(obj, names) for obj in objects]
    return "---\n".join(yaml.encode_value(obj).decode() for obj in objects)


def _replaced_name(obj: Tree) -> tuple[str, str]:
    """Return the name of an object, and the name in a dump, which has no random suffix."""
    metadata = obj["metadata"]
    name, prefix = metadata["name"], metadata.get("generateName")
    return name, f"{prefix}<suffix>" if prefix and name.startswith(prefix) else name


def normalised(obj: Tree, names: dict[str, str]) -> Tree:
    """Return the object without what differs between runs; `names` replaces names in texts."""
    tree: Tree = copy_tree(obj)
    for field in _DROPPED:
        tree["metadata"].pop(field, None)
    return {key: _value(key, value, names) for key, value in tree.items()}


def _value(key: str, value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            name: _value(name, item, names)
            for name, item in value.items()
            if not (name == "resourceVersion" and isinstance(item, str))
        }
    if key in _ADDRESSES and value not in ("", "None", ["None"], None):
        return [f"<{key}>"] * len(value) if isinstance(value, list) else f"<{key}>"
    if isinstance(value, list):
        return [_value(key, item, names) for item in value]
    return _text(names.get(value, value)) if isinstance(value, str) else value


def _text(value: str) -> str:
    if "-" not in value:  # as in none of the patterns
        return value
    if _TIME.fullmatch(value):
        return "<time>"
    value = _PEM.sub("<certificate>", value)
    value = _ACCESS_VOLUME.sub("kube-api-access-<suffix>", value)
    return _UID.sub("<uid>", value)


def assert_matches(path: Path, text: str, *, update: bool) -> None:
    """Compare a dump with the one in a file; with `update` write it instead. Raises AssertionError
    with the difference."""
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return
    if not path.exists():
        raise AssertionError(f"{path} does not exist; --kapiserver-update-snapshots writes it")
    expected = path.read_text()
    if expected == text:
        return
    lines = difflib.unified_diff(
        expected.splitlines(keepends=True),
        text.splitlines(keepends=True),
        fromfile=str(path),
        tofile="the server",
    )
    raise AssertionError(
        f"the objects of the server differ from {path}; "
        f"--kapiserver-update-snapshots writes them to the file\n{''.join(lines)}"
    )
