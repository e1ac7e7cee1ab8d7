"""Builds the `paths` of OpenAPI v3 and v2 documents. Knows schemas by reference only.

Parameters that all operations of a path share are listed once for the path; in v2, parameters that
several paths share are listed once for the document. Mirrors the builders of kube-openapi.
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
"""Returns a reference to the schema of a kind."""

_CODES = {200: "OK", 201: "Created", 202: "Accepted", 401: "Unauthorized"}


def paths_v3(all_operations: Iterable[Operation], ref: Ref) -> Tree:
    """Return the `paths` of an OpenAPI v3 document."""
    return _paths(all_operations, ref, _operation_v3, _parameter_v3)


def paths_v2(all_operations: Iterable[Operation], ref: Ref) -> Tree:
    """Return the `paths` of a Swagger 2.0 document; call `share_parameters` with them."""
    return _paths(all_operations, ref, _operation_v2, _parameter_v2)


def _paths(
    all_operations: Iterable[Operation],
    ref: Ref,
    operation_tree: Callable[[Operation, tuple[Parameter, ...], Ref], Tree],
    parameter_tree: Callable[[Parameter], Tree],
) -> Tree:
    paths: Tree = {}
    for path, path_operations in _by_path(all_operations).items():
        shared = _shared_parameters(path_operations)
        item: Tree = {
            operation.method: operation_tree(operation, shared, ref)
            for operation in path_operations
        }
        if shared:
            item["parameters"] = [parameter_tree(parameter) for parameter in shared]
        paths[path] = item
    return paths


def _operation_v3(operation: Operation, shared: tuple[Parameter, ...], ref: Ref) -> Tree:
    tree: Tree = {
        "tags": [operation.tag],
        "description": operation.description,
        "operationId": operation.id,
    }
    parameters = [
        _parameter_v3(parameter) for parameter in operation.parameters if parameter not in shared
    ]
    if parameters:
        tree["parameters"] = parameters
    if operation.body is not None:
        content = {media: {"schema": ref(operation.body)} for media in operation.consumes}
        tree["requestBody"] = {"content": content}
        if operation.needs_body:
            tree["requestBody"]["required"] = True
    content = {media: {"schema": ref(operation.response)} for media in operation.produces}
    tree["responses"] = {
        str(code): {"description": _CODES[code], "content": content} for code in operation.codes
    } | {"401": {"description": _CODES[401]}}
    return tree | _extensions(operation)


def _parameter_v3(parameter: Parameter) -> Tree:
    return _parameter_head(parameter) | {"schema": {"type": parameter.type, "uniqueItems": True}}


def _operation_v2(operation: Operation, shared: tuple[Parameter, ...], ref: Ref) -> Tree:
    tree: Tree = {
        "description": operation.description,
        "consumes": list(operation.consumes),
        "produces": list(operation.produces),
        "schemes": ["https"],
        "tags": [operation.tag],
        "operationId": operation.id,
    }
    parameters = [
        _parameter_v2(parameter) for parameter in operation.parameters if parameter not in shared
    ]
    if operation.body is not None:
        body: Tree = {"name": "body", "in": "body"}
        if operation.needs_body:
            body["required"] = True
        parameters.append(body | {"schema": ref(operation.body)})
        parameters.sort(key=lambda parameter: str(parameter["name"]))
    if parameters:
        tree["parameters"] = parameters
    tree["responses"] = {
        str(code): {"description": _CODES[code], "schema": ref(operation.response)}
        for code in operation.codes
    } | {"401": {"description": _CODES[401]}}
    return tree | _extensions(operation)


def _parameter_v2(parameter: Parameter) -> Tree:
    return {"uniqueItems": True, "type": parameter.type} | _parameter_head(parameter)


def share_parameters(paths: Tree) -> Tree:
    """Replace parameters that occur more than once in v2 `paths` by references, and return the
    `parameters` of the document."""
    parameter_lists = [
        holder["parameters"]
        for item in paths.values()
        for holder in (item, *(value for key, value in item.items() if key != "parameters"))
        if "parameters" in holder
    ]
    texts = [
        [orjson.dumps(parameter) for parameter in parameters] for parameters in parameter_lists
    ]
    counts = Counter(text for parameters in texts for text in parameters)
    shared: Tree = {}
    names: dict[bytes, str] = {}
    for text in sorted(text for text, count in counts.items() if count > 1):
        parameter = orjson.loads(text)
        name = f"{parameter['name']}-{_short_hash(text)}"
        shared[name], names[text] = parameter, name
    for parameters, list_texts in zip(parameter_lists, texts, strict=True):
        parameters[:] = [
            {"$ref": f"#/parameters/{names[text]}"} if text in names else parameter
            for parameter, text in zip(parameters, list_texts, strict=True)
        ]
    return dict(sorted(shared.items()))


def _short_hash(text: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha224(text).digest()[:6]).decode()


def _by_path(operations: Iterable[Operation]) -> dict[str, list[Operation]]:
    by_path: dict[str, list[Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, []).append(operation)
    return dict(sorted(by_path.items()))


def _shared_parameters(operations: list[Operation]) -> tuple[Parameter, ...]:
    first, *other_operations = operations
    return tuple(
        parameter
        for parameter in first.parameters
        if all(parameter in operation.parameters for operation in other_operations)
    )


def _parameter_head(parameter: Parameter) -> Tree:
    head: Tree = {"name": parameter.name, "in": parameter.location}
    if parameter.description:
        head["description"] = parameter.description
    if parameter.location == "path":
        head["required"] = True
    return head


def _extensions(operation: Operation) -> Tree:
    if operation.kind is None:
        return {}
    group, version, kind = operation.kind
    return {
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    }
