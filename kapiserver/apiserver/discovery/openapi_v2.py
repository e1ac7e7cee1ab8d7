"""Builds the OpenAPI v2 document, which has all resources, from parts.

A part has the operations of one resource and the JSON of their paths. It stays for the next
document, as the schema of a type does: when a definition has changed, only its part and its schemas
are made again. Parameters that occur more than once in the document are listed once and referred to
by name. So a part is encoded again when a parameter of it begins or ceases to occur elsewhere.
Mirrors the builder of kube-openapi and its sharing of parameters.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeAlias

import orjson
from msgspec import Struct

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Tree, Type
from kapiserver.apiserver.discovery.openapi_operations import Operation, TypeOf
from kapiserver.apiserver.discovery.openapi_paths import BEARER, paths_v2
from kapiserver.apiserver.discovery.openapi_schemas import (
    Ref,
    Schemas,
    referenced_types,
    references_to,
    schema_name,
    types_of,
    undeclared_of,
)

Parts: TypeAlias = Mapping[Hashable, Callable[[], Iterable[Operation]]]
"""The operations of each part by a key that changes with them, such as the resource."""


class _Draft:
    """The paths of a part before its parameters are shared.

    paths       trees by path
    lists       the lists of parameters in them, each with the JSON of its parameters
    """

    def __init__(self, operations: Iterable[Operation], ref: Ref) -> None:
        self.paths = paths_v2(operations, ref)
        self.lists: list[tuple[list[Any], list[bytes]]] = [
            (holder["parameters"], [orjson.dumps(parameter) for parameter in holder["parameters"]])
            for item in self.paths.values()
            for holder in (item, *(value for key, value in item.items() if key != "parameters"))
            if "parameters" in holder
        ]

    def encode(self, shared: Mapping[bytes, str]) -> Mapping[str, orjson.Fragment]:
        """Return the JSON of each path, with references to the shared parameters."""
        for parameters, texts in self.lists:
            parameters[:] = [
                {"$ref": f"#/parameters/{shared[text]}"} if text in shared else parameter
                for parameter, text in zip(parameters, texts, strict=True)
            ]
        return {path: _fragment(item) for path, item in self.paths.items()}


class _Part(Struct):
    """The operations of one resource in one version, or of a path that is not a resource's.

    kinds       of bodies and responses
    counts      how often each parameter occurs, by its JSON
    draft       the paths, until they are encoded
    shared      the parameters that `paths` refers to by name
    paths       the JSON of each path
    """

    operations: tuple[Operation, ...]
    kinds: frozenset[GroupVersionKind]
    counts: Counter[bytes]
    draft: _Draft | None
    shared: frozenset[bytes] = frozenset()
    paths: Mapping[str, orjson.Fragment] = {}

    @classmethod
    def of(cls, operations: tuple[Operation, ...], ref: Ref) -> _Part:
        """Return a part whose paths are not encoded yet."""
        draft = _Draft(operations, ref)
        kinds = frozenset(kind for operation in operations for kind in operation.kinds)
        counts = Counter(text for _, texts in draft.lists for text in texts)
        return cls(operations, kinds, counts, draft)

    def share(self, shared: Mapping[bytes, str], ref: Ref) -> None:
        """Let the paths refer to the shared parameters of the document by their names."""
        own = frozenset(self.counts.keys() & shared.keys())
        if self.draft is None and own == self.shared:
            return
        draft = self.draft or _Draft(self.operations, ref)
        self.shared, self.paths, self.draft = own, draft.encode(shared), None


class _Schema(Struct, frozen=True):
    """The schema of a type, and the types that it refers to."""

    name: str
    json: orjson.Fragment
    types: list[type[Type]]


class V2Builder:
    """Builds v2 documents one after the other, in any thread.

    info    `info` of the document
    """

    def __init__(self, info: Tree) -> None:
        self._info = info
        self._lock = threading.Lock()
        self._parts: dict[Hashable, _Part] = {}
        self._schemas: dict[type[Type], _Schema] = {}

    def build(self, parts: Parts, type_of: TypeOf, schemas: Schemas) -> Tree:
        """Return the document of some parts. Its paths and definitions are fragments of JSON."""
        with self._lock:
            ref = references_to(type_of, schemas)
            old, self._parts = self._parts, {}
            for key, operations in parts.items():
                self._parts[key] = old.get(key) or _Part.of(tuple(operations()), ref)
            parameters = self._share_parameters(ref)
            paths = {
                path: item for part in self._parts.values() for path, item in part.paths.items()
            }
            kinds = {kind for part in self._parts.values() for kind in part.kinds}
            return {
                "swagger": "2.0",
                "info": self._info,
                "paths": dict(sorted(paths.items())),
                "definitions": self._definitions(kinds, type_of, schemas),
                "parameters": parameters,
                "securityDefinitions": {"BearerToken": BEARER},
                "security": [{"BearerToken": []}],
            }

    def clear(self) -> None:
        """Forget the parts and the schemas of the last document."""
        with self._lock:
            self._parts, self._schemas = {}, {}

    def _share_parameters(self, ref: Ref) -> Tree:
        """Encode the parts, and return the `parameters` of the document."""
        counts: Counter[bytes] = Counter()
        for part in self._parts.values():
            counts.update(part.counts)
        shared = {text: _shared_name(text) for text, count in counts.items() if count > 1}
        for part in self._parts.values():
            part.share(shared, ref)
        return {name: orjson.Fragment(text) for text, name in sorted(shared.items(), key=_name)}

    def _definitions(
        self, kinds: Iterable[GroupVersionKind], type_of: TypeOf, schemas: Schemas
    ) -> Tree:
        """Return the schemas of some kinds and of every type that they refer to, by name."""
        old, self._schemas = self._schemas, {}
        definitions: Tree = {name: _fragment(tree) for name, tree in undeclared_of(kinds).items()}
        queue = deque(types_of(kinds, type_of))
        while queue:
            type_ = queue.popleft()
            if type_ in self._schemas:
                continue
            schema = self._schemas[type_] = old.get(type_) or _Schema(
                schema_name(type_), _fragment(schemas.schema(type_)), referenced_types(type_)
            )
            definitions.setdefault(schema.name, schema.json)
            queue.extend(schema.types)
        return dict(sorted(definitions.items()))


def _fragment(tree: Tree) -> orjson.Fragment:
    return orjson.Fragment(orjson.dumps(tree))


def _name(shared: tuple[bytes, str]) -> str:
    return shared[1]


@functools.lru_cache(maxsize=16_384)
def _shared_name(text: bytes) -> str:
    """Return the name of a parameter in the document: its own, and a hash."""
    digest = base64.urlsafe_b64encode(hashlib.sha224(text).digest()[:6]).decode()
    return f"{orjson.loads(text)['name']}-{digest}"
