"""Loads manifests into a test server, in an order in which each object finds what it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion
from kapiserver.api.resource_client import Client, StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.codecs import yaml
from kapiserver.codecs.errors import CodecError

Source: TypeAlias = str | Path | Mapping[str, Any] | Sequence["Source"]
"""A directory with files of YAML or JSON (subdirectories too), a file, the text of YAML documents
(with a line break), an object, or a list of these."""

MAX_FILE_BYTES = 64 << 20
_SUFFIXES = (".yaml", ".yml", ".json")

_ORDER = (
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "StorageClass",
    "ResourceQuota",
    "LimitRange",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
)
"""Kinds that come first, in this order; then all others, in the order of their files; webhooks and
policies come last, because they would judge the others."""
_LAST = (
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
)


def read_manifests(sources: Iterable[Source]) -> list[Tree]:
    """Return the objects of the sources in the order in which to create them; lists are taken
    apart. Raises OSError, and ValueError for malformed YAML and for objects without a kind."""
    objects = [obj for source in sources for obj in _read(source)]
    return sorted(objects, key=_position)


def _position(obj: Tree) -> int:
    kind = obj["kind"]
    if kind in _ORDER:
        return _ORDER.index(kind)
    return len(_ORDER) + 1 + _LAST.index(kind) if kind in _LAST else len(_ORDER)


def _read(source: Source) -> Iterator[Tree]:
    if isinstance(source, Mapping):
        yield from _objects(dict(source), "an object")
        return
    if isinstance(source, str) and "\n" in source:
        yield from _documents(source.encode(), "a text")
        return
    if isinstance(source, Sequence) and not isinstance(source, str):
        for part in source:
            yield from _read(part)
        return
    path = Path(source)
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES)
    for file in files:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ValueError(f"{file} has more than {MAX_FILE_BYTES} bytes")
        yield from _documents(file.read_bytes(), str(file))


def _documents(data: bytes, name: str) -> Iterator[Tree]:
    try:
        documents = yaml.decode_values(data)
    except CodecError as error:
        raise ValueError(f"{name}: {error}") from error
    for document in documents:
        if document is not None:
            yield from _objects(document, name)


def _objects(document: Any, name: str) -> Iterator[Tree]:
    if not isinstance(document, dict) or not document.get("kind"):
        raise ValueError(f"{name}: an object has no kind")
    if not isinstance(document.get("metadata") or {}, dict):
        raise ValueError(f"{name}: the metadata of an object are not an object")
    if isinstance(document.get("items"), list) and document["kind"].endswith("List"):
        for item in document["items"]:
            yield from _objects(item, name)
    else:
        yield document


async def load(
    server: Server,
    client: Client,
    objects: Iterable[Tree],
    namespace: str,
    settle: Callable[[], Awaitable[None]],
) -> list[Tree]:
    """Create the objects, or replace those that exist, with their status; return them as stored.

    namespace   the namespace of objects of namespaced kinds that name none

    A CustomResourceDefinition is served when its objects are created. Raises StatusError, and
    ValueError for a kind that is not served.
    """
    loaded, last_kind = [], ""
    for obj in objects:
        if last_kind in ("Namespace", "CustomResourceDefinition") and obj["kind"] != last_kind:
            await settle()  # definitions are established, and namespaces have service accounts
        loaded.append(await _load_object(server, client, obj, namespace))
        last_kind = obj["kind"]
    await settle()
    return loaded


async def _load_object(server: Server, client: Client, obj: Tree, namespace: str) -> Tree:
    version = GroupVersion.parse(str(obj.get("apiVersion") or ""))
    try:
        resource = server.scheme.resource_of(version.with_kind(obj["kind"]))
    except NotRegistered:
        raise ValueError(f"the server has no kind {obj['kind']} of {version}") from None
    metadata = dict(obj.get("metadata") or {})
    if resource.namespaced:
        namespace = metadata["namespace"] = metadata.get("namespace") or namespace
    else:
        namespace = ""
    for stamp in ("resourceVersion", "uid", "creationTimestamp", "managedFields"):
        metadata.pop(stamp, None)
    objects = client.resource(str(version), resource.name, namespace=namespace)
    body = obj | {"metadata": metadata}
    try:
        stored = await objects.create(body)
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise
        current = await objects.get(metadata["name"])
        metadata["resourceVersion"] = current["metadata"]["resourceVersion"]
        stored = await objects.update(body)
    has_status = any(subresource.name == "status" for subresource in resource.subresources)
    if obj.get("status") and has_status and obj["kind"] != "CustomResourceDefinition":
        with_status = stored | {"status": obj["status"]}
        stored = await objects.update(with_status, subresource="status")
    return stored
