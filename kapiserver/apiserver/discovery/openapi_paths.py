"""How OpenAPI v3 and v2 write operations. Knows schemas by reference only.

Parameters that all operations of a path share stand beside them; in v2, those that several paths
share stand once in the document. Mirrors the builders of kube-openapi.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeAlias

import orjson

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Tree
from kapiserver.apiserver.discovery.openapi_operations import Operation, Parameter

Ref: TypeAlias = Callable[[GroupVersionKind], Tree]
"""A reference to the schema of a kind."""

_CODES = {200: "OK", 201: "Created", 202: "Accepted", 401: "Unauthorized"}


def paths_v3(found: Iterable[Operation], ref: Ref) -> Tree:
    """`paths` of an OpenAPI v3 document."""
    paths: Tree = {}
    for path, operations in _by_path(found).items():
        common = _common(operations)
        item: Tree = {one.method: _operation_v3(one, common, ref) for one in operations}
        if common:
            item["parameters"] = [_parameter_v3(one) for one in common]
        paths[path] = item
    return paths


def _operation_v3(one: Operation, common: tuple[Parameter, ...], ref: Ref) -> Tree:
    operation: Tree = {
        "tags": [one.tag],
        "description": one.description,
        "operationId": one.id,
    }
    own = [_parameter_v3(parameter) for parameter in one.parameters if parameter not in common]
    if own:
        operation["parameters"] = own
    if one.body is not None:
        content = {media: {"schema": ref(one.body)} for media in one.consumes}
        operation["requestBody"] = {"content": content}
        if one.needs_body:
            operation["requestBody"]["required"] = True
    answer = {media: {"schema": ref(one.answer)} for media in one.produces}
    operation["responses"] = {
        str(code): {"description": _CODES[code], "content": answer} for code in one.codes
    } | {"401": {"description": _CODES[401]}}
    return operation | _extensions(one)


def _parameter_v3(parameter: Parameter) -> Tree:
    return _head(parameter) | {"schema": {"type": parameter.type, "uniqueItems": True}}


def paths_v2(found: Iterable[Operation], ref: Ref) -> Tree:
    """`paths` of a Swagger 2.0 document, nothing shared between them yet."""
    paths: Tree = {}
    for path, operations in _by_path(found).items():
        common = _common(operations)
        item: Tree = {one.method: _operation_v2(one, common, ref) for one in operations}
        if common:
            item["parameters"] = [_parameter_v2(one) for one in common]
        paths[path] = item
    return paths


def _operation_v2(one: Operation, common: tuple[Parameter, ...], ref: Ref) -> Tree:
    operation: Tree = {
        "description": one.description,
        "consumes": list(one.consumes),
        "produces": list(one.produces),
        "schemes": ["https"],
        "tags": [one.tag],
        "operationId": one.id,
    }
    own = [_parameter_v2(parameter) for parameter in one.parameters if parameter not in common]
    if one.body is not None:
        body: Tree = {"name": "body", "in": "body"}
        if one.needs_body:
            body["required"] = True
        own.append(body | {"schema": ref(one.body)})
        own.sort(key=lambda parameter: str(parameter["name"]))
    if own:
        operation["parameters"] = own
    operation["responses"] = {
        str(code): {"description": _CODES[code], "schema": ref(one.answer)} for code in one.codes
    } | {"401": {"description": _CODES[401]}}
    return operation | _extensions(one)


def _parameter_v2(parameter: Parameter) -> Tree:
    return {"uniqueItems": True, "type": parameter.type} | _head(parameter)


def share_parameters(paths: Tree) -> Tree:
    """Move parameters that occur more than once out of v2's paths, which come to refer to them;
    returns the document's `parameters`."""
    lists = [
        holder["parameters"]
        for item in paths.values()
        for holder in (item, *(one for key, one in item.items() if key != "parameters"))
        if "parameters" in holder
    ]
    texts = [[orjson.dumps(one) for one in found] for found in lists]
    counts = Counter(text for found in texts for text in found)
    shared: Tree = {}
    names: dict[bytes, str] = {}
    for text in sorted(text for text, count in counts.items() if count > 1):
        parameter = orjson.loads(text)
        name = f"{parameter['name']}-{_short_hash(text)}"
        shared[name], names[text] = parameter, name
    for found, found_texts in zip(lists, texts, strict=True):
        found[:] = [
            {"$ref": f"#/parameters/{names[text]}"} if text in names else parameter
            for parameter, text in zip(found, found_texts, strict=True)
        ]
    return dict(sorted(shared.items()))


def _short_hash(text: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha224(text).digest()[:6]).decode()


def _by_path(found: Iterable[Operation]) -> dict[str, list[Operation]]:
    paths: dict[str, list[Operation]] = {}
    for one in found:
        paths.setdefault(one.path, []).append(one)
    return dict(sorted(paths.items()))


def _common(operations: list[Operation]) -> tuple[Parameter, ...]:
    first, *others = operations
    return tuple(
        parameter
        for parameter in first.parameters
        if all(parameter in other.parameters for other in others)
    )


def _head(parameter: Parameter) -> Tree:
    head: Tree = {"name": parameter.name, "in": parameter.where}
    if parameter.description:
        head["description"] = parameter.description
    if parameter.where == "path":
        head["required"] = True
    return head


def _extensions(one: Operation) -> Tree:
    if one.kind is None:
        return {}
    group, version, kind = one.kind
    return {
        "x-kubernetes-action": one.action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    }
