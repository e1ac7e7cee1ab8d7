"""The operations of a group-version's paths, as data, and how OpenAPI v3 and v2 write them.

Derived from resources: verbs, scope, subresources. Knows no schema but by reference. Mirrors
apiserver/pkg/endpoints/installer.go of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from kapiserver.api.group import GroupVersion, GroupVersionKind, Resource
from kapiserver.api.types import Tree
from kapiserver.codecs.media_types import MEDIA_TYPES

Ref: TypeAlias = Callable[[GroupVersionKind], Tree]
"""A reference to the schema of a kind."""

PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_MEDIA = tuple(media.name for media in MEDIA_TYPES)
_STREAMS = tuple(media.stream_name for media in MEDIA_TYPES if media.stream_name)
_META = "meta.k8s.io"

_PARAMETERS: dict[str, tuple[str, str]] = {
    "allowWatchBookmarks": ("boolean", "Send BOOKMARK events now and then."),
    "continue": ("string", "Where a list that came in pages goes on."),
    "dryRun": ("string", "All: go through every step and persist nothing."),
    "fieldManager": ("string", "Who makes the change: at most 128 printable characters."),
    "fieldSelector": ("string", "Only objects with these field values."),
    "fieldValidation": (
        "string",
        "What to do about unknown and duplicate fields: Ignore, Warn or Strict.",
    ),
    "force": ("boolean", "Take fields over from other managers; for apply only."),
    "gracePeriodSeconds": ("integer", "Seconds until the object goes; 0: at once."),
    "labelSelector": ("string", "Only objects with these labels."),
    "limit": ("integer", "At most that many items in a page."),
    "orphanDependents": ("boolean", "Deprecated: use propagationPolicy."),
    "pretty": ("string", "true: indent the answer."),
    "propagationPolicy": (
        "string",
        "Orphan, Background or Foreground: what becomes of dependents.",
    ),
    "resourceVersion": ("string", "From, or at, or not before, this version."),
    "resourceVersionMatch": ("string", "How resourceVersion is meant: Exact or NotOlderThan."),
    "sendInitialEvents": ("boolean", "Begin a watch with the objects that are there."),
    "timeoutSeconds": ("integer", "How long a list or watch may last."),
    "watch": ("boolean", "Tell of changes instead of listing."),
}
_PATH_PARAMETERS = {
    "name": "Name of the {kind}.",
    "namespace": "The namespace of the object.",
}
_LIST = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "pretty",
    "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch",
)  # fmt: skip
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_WRITE = ("dryRun", "fieldManager", "fieldValidation", "pretty")

_VERBS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    # verb: method, x-kubernetes-action, first word of the operation id, query parameters
    "list": ("get", "list", "list", _LIST),
    "create": ("post", "post", "create", _WRITE),
    "deletecollection": (
        "delete", "deletecollection", "delete",
        tuple(name for name in sorted({*_LIST, *_DELETE}) if name not in ("watch",)),
    ),
    "get": ("get", "get", "read", ("pretty",)),
    "update": ("put", "put", "replace", _WRITE),
    "patch": ("patch", "patch", "patch", tuple(sorted((*_WRITE, "force")))),
    "delete": ("delete", "delete", "delete", (*_DELETE, "pretty")),
}  # fmt: skip
_OF_COLLECTION = ("list", "create", "deletecollection")
_OF_ITEM = ("get", "update", "patch", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path.

    kind        of the objects it is about
    body        kind of the request's body; None: none
    answer      kind of the answer's body
    """

    path: str
    verb: str
    id: str
    tag: str
    kind: GroupVersionKind
    body: GroupVersionKind | None
    answer: GroupVersionKind

    @property
    def method(self) -> str:
        """In lower case, as the documents have it."""
        return _VERBS[self.verb][0]

    @property
    def action(self) -> str:
        """`x-kubernetes-action`."""
        return _VERBS[self.verb][1]

    @property
    def codes(self) -> tuple[int, ...]:
        """The answers of a request that went well."""
        return {
            "create": (200, 201, 202),
            "update": (200, 201),
            "patch": (200, 201),
            "delete": (200, 202),
        }.get(self.verb, (200,))

    @property
    def parameters(self) -> tuple[str, ...]:
        """Query parameters."""
        return _VERBS[self.verb][3]

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """Those in braces."""
        return tuple(name for name in ("name", "namespace") if f"{{{name}}}" in self.path)

    @property
    def produces(self) -> tuple[str, ...]:
        """Media types of the answer."""
        return (*_MEDIA, *_STREAMS) if self.verb == "list" else _MEDIA

    @property
    def consumes(self) -> tuple[str, ...]:
        """Media types of the body."""
        return PATCH_TYPES if self.verb == "patch" else ("*/*",)


def operations(version: GroupVersion, resources: list[Resource]) -> Iterator[Operation]:
    """Every operation of a group-version."""
    root = f"/apis/{version}" if version.group else f"/api/{version.version}"
    for resource in resources:
        kind = version.with_kind(resource.kind)
        scoped = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
        collection = f"{scoped}/{resource.name}"
        scope = "Namespaced" if resource.namespaced else ""
        for verb in _OF_COLLECTION:
            if verb in resource.verbs:
                yield _operation(collection, verb, version, kind, scope)
        for verb in _OF_ITEM:
            if verb in resource.verbs:
                yield _operation(f"{collection}/{{name}}", verb, version, kind, scope)
        if resource.namespaced and "list" in resource.verbs:
            everywhere = f"{root}/{resource.name}"
            yield _operation(everywhere, "list", version, kind, "", suffix="ForAllNamespaces")
        for subresource in resource.subresources:
            path = f"{collection}/{{name}}/{subresource.name}"
            suffix = subresource.name.capitalize()
            about = subresource.kind or kind
            for verb in subresource.verbs:
                if verb in _VERBS:
                    yield _operation(
                        path, verb, version, about, scope, suffix=suffix, noun=resource.kind
                    )


def _operation(
    path: str,
    verb: str,
    version: GroupVersion,
    kind: GroupVersionKind,
    scope: str,
    *,
    suffix: str = "",
    noun: str = "",
) -> Operation:
    group = (version.group.partition(".")[0] or "core").capitalize()
    first = _VERBS[verb][2]
    collection = "Collection" if verb == "deletecollection" else ""
    place = f"{group}{version.version.capitalize()}"
    bodies = {
        "create": kind,
        "update": kind,
        "patch": GroupVersionKind(_META, "v1", "Patch"),
        "delete": GroupVersionKind(_META, "v1", "DeleteOptions"),
        "deletecollection": GroupVersionKind(_META, "v1", "DeleteOptions"),
    }
    answers = {
        "list": kind._replace(kind=f"{kind.kind}List"),
        "delete": GroupVersionKind(_META, "v1", "Status"),
        "deletecollection": GroupVersionKind(_META, "v1", "Status"),
    }
    return Operation(
        path=path,
        verb=verb,
        id=f"{first}{place}{collection}{scope}{noun or kind.kind}{suffix}",
        tag=f"{group.lower()}_{version.version}",
        kind=kind,
        body=bodies.get(verb),
        answer=answers.get(verb, kind),
    )


def paths_v3(found: list[Operation], ref: Ref) -> Tree:
    """`paths` of an OpenAPI v3 document."""
    paths: Tree = {}
    for one in found:
        answer = {media: {"schema": ref(one.answer)} for media in one.produces}
        operation = _head(one)
        if one.body is not None:
            content = {media: {"schema": ref(one.body)} for media in one.consumes}
            operation["requestBody"] = {"content": content}
            if one.verb in ("create", "update", "patch"):
                operation["requestBody"]["required"] = True
        operation["responses"] = {
            str(code): {"description": _CODES[code], "content": answer} for code in one.codes
        } | {"401": {"description": _CODES[401]}}
        operation |= _extensions(one)
        operation["parameters"] = [
            _parameter(name, "query", {"schema": _schema(name)}) for name in one.parameters
        ]
        path = paths.setdefault(one.path, {})
        path[one.method] = operation
        path["parameters"] = [
            _parameter(name, "path", {"schema": {"type": "string", "uniqueItems": True}}, one)
            for name in one.path_parameters
        ]
    return paths


def paths_v2(found: list[Operation], ref: Ref) -> Tree:
    """`paths` of a Swagger 2.0 document."""
    paths: Tree = {}
    for one in found:
        operation = _head(one) | {
            "consumes": list(one.consumes),
            "produces": list(one.produces),
            "schemes": ["https"],
        }
        parameters = [_parameter(name, "query", _schema(name)) for name in one.parameters]
        if one.body is not None:
            body: Tree = {"name": "body", "in": "body", "schema": ref(one.body)}
            if one.verb in ("create", "update", "patch"):
                body["required"] = True
            parameters.insert(0, body)
        operation["parameters"] = parameters
        operation["responses"] = {
            str(code): {"description": _CODES[code], "schema": ref(one.answer)}
            for code in one.codes
        } | {"401": {"description": _CODES[401]}}
        operation |= _extensions(one)
        path = paths.setdefault(one.path, {})
        path[one.method] = operation
        path["parameters"] = [
            _parameter(name, "path", {"type": "string", "uniqueItems": True}, one)
            for name in one.path_parameters
        ]
    return paths


_CODES = {200: "OK", 201: "Created", 202: "Accepted", 401: "Unauthorized"}


def _head(one: Operation) -> Tree:
    return {
        "tags": [one.tag],
        "description": f"{one.action} {one.kind.kind}",
        "operationId": one.id,
    }


def _extensions(one: Operation) -> Tree:
    group, version, kind = one.kind
    return {
        "x-kubernetes-action": one.action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    }


def _schema(name: str) -> Tree:
    return {"type": _PARAMETERS[name][0], "uniqueItems": True}


def _parameter(name: str, where: str, schema: Tree, one: Operation | None = None) -> Tree:
    if one is None:
        return {"name": name, "in": where, "description": _PARAMETERS[name][1]} | schema
    text = _PATH_PARAMETERS[name].format(kind=one.kind.kind)
    return {"name": name, "in": where, "description": text, "required": True} | schema
