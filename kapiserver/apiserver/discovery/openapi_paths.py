"""Builds the `paths` of OpenAPI v3 and v2 documents. Knows schemas by reference only.

Parameters that all operations of a path share are listed once for the path. Mirrors the builders of
kube-openapi.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kapiserver.api.types import Tree
from kapiserver.apiserver.discovery.openapi_operations import Operation, Parameter
from kapiserver.apiserver.discovery.openapi_schemas import Ref

BEARER = {
    "description": "A token in the Authorization header.",
    "type": "apiKey",
    "name": "authorization",
    "in": "header",
}
"""How clients authenticate, in either version."""
_CODES = {200: "OK", 201: "Created", 202: "Accepted", 401: "Unauthorized"}


def paths_v3(all_operations: Iterable[Operation], ref: Ref) -> Tree:
    """Return the `paths` of an OpenAPI v3 document."""
    return _paths(all_operations, ref, _operation_v3, _parameter_v3)


def paths_v2(all_operations: Iterable[Operation], ref: Ref) -> Tree:
    """Return the `paths` of a Swagger 2.0 document, before its paths share parameters."""
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
