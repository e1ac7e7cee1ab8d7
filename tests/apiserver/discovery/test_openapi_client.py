"""The operations of the OpenAPI document and the functions of the official Python client are the
same: names, paths and parameters."""

import asyncio
import json
import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.discovery.openapi_documents import OpenAPIDocuments

NOT_SERVED = ("/logs/", "/logs/{logpath}")
OF_OTHERS = "custom_objects_api.py"
_FUNCTION = re.compile(r"^    def _(\w+)_serialize\(", re.MULTILINE)
_QUERY = re.compile(r"_query_params\.append\(\('(\w+)'")
_IN_PATH = re.compile(r"_path_params\['(\w+)'\]")
_METHOD = re.compile(r"method='(\w+)'")
_PATH = re.compile(r"resource_path='([^']+)'")

pytestmark = pytest.mark.skipif(
    version("kubernetes").partition(".")[0] != "37", reason="the client of another release"
)


def _client_operations() -> dict[tuple[str, str], tuple[str, list[str]]]:
    """A mapping of (method, path) to the name and the parameters of the function."""
    spec = find_spec("kubernetes")
    assert spec is not None
    assert spec.origin is not None
    operations = {}
    for file in (Path(spec.origin).parent / "client" / "api").glob("*_api.py"):
        if file.name == OF_OTHERS:
            continue
        _, *parts = _FUNCTION.split(file.read_text())
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            path, method = _PATH.search(body), _METHOD.search(body)
            assert path
            assert method
            parameters = sorted([*_QUERY.findall(body), *_IN_PATH.findall(body)])
            operations[method[1], path[1]] = (name.replace("_", ""), parameters)
    return operations


def _document_operations(document: dict) -> dict[tuple[str, str], tuple[str, str, list[str]]]:
    """A mapping of (method, path) to the id, the tag and the parameters of the operation."""
    shared = document["parameters"]
    operations = {}
    for path, item in document["paths"].items():
        if "/watch/" in path:
            continue  # the client's generator leaves them out
        common = item.get("parameters", [])
        for method, operation in item.items():
            if method == "parameters":
                continue
            references = [*common, *operation.get("parameters", [])]
            resolved = [
                shared[ref["$ref"].rpartition("/")[2]] if "$ref" in ref else ref
                for ref in references
            ]
            parameters = sorted(
                parameter["name"] for parameter in resolved if parameter["in"] != "body"
            )
            tag = operation["tags"][0].replace("_", "").lower()
            operations[method.upper(), path] = (operation["operationId"].lower(), tag, parameters)
    return operations


def test_functions_are_operations() -> None:
    """The client and the document have the same operations."""
    document = asyncio.run(OpenAPIDocuments(Scheme(), lambda: 0.0).v2())
    client_operations = {
        key: operation
        for key, operation in _client_operations().items()
        if key[1] not in NOT_SERVED
    }
    document_operations = _document_operations(json.loads(document.json))
    assert len(client_operations) > 900
    assert client_operations.keys() == document_operations.keys()
    for key, (name, parameters) in client_operations.items():
        id_, tag, document_parameters = document_operations[key]
        # The client's classes are named after the tag: most functions do not repeat it.
        assert name in (id_, id_.replace(tag, "", 1)), key
        assert document_parameters == parameters, key
