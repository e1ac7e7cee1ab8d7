"""The official Python client was generated from the same document: each of its functions is an
operation of ours, by the same name, on the same path, with the same parameters."""

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


def _of_client() -> dict[tuple[str, str], tuple[str, list[str]]]:
    """(method, path) to the function's name and its parameters."""
    spec = find_spec("kubernetes")
    assert spec is not None
    assert spec.origin is not None
    found = {}
    for file in (Path(spec.origin).parent / "client" / "api").glob("*_api.py"):
        if file.name == OF_OTHERS:
            continue
        _, *parts = _FUNCTION.split(file.read_text())
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            path, method = _PATH.search(body), _METHOD.search(body)
            assert path
            assert method
            parameters = sorted([*_QUERY.findall(body), *_IN_PATH.findall(body)])
            found[method[1], path[1]] = (name.replace("_", ""), parameters)
    return found


def _of_document(document: dict) -> dict[tuple[str, str], tuple[str, str, list[str]]]:
    """(method, path) to the operation's id, tag and parameters."""
    shared = document["parameters"]
    found = {}
    for path, item in document["paths"].items():
        if "/watch/" in path:
            continue  # the client's makers leave them out
        common = item.get("parameters", [])
        for method, one in item.items():
            if method == "parameters":
                continue
            every = [*common, *one.get("parameters", [])]
            named = [shared[two["$ref"].rpartition("/")[2]] if "$ref" in two else two
                     for two in every]  # fmt: skip
            parameters = sorted(two["name"] for two in named if two["in"] != "body")
            tag = one["tags"][0].replace("_", "").lower()
            found[method.upper(), path] = (one["operationId"].lower(), tag, parameters)
    return found


def test_functions_are_operations() -> None:
    """All of them, and no operation but those."""
    document = asyncio.run(OpenAPIDocuments(Scheme(), lambda: 0.0).v2())
    theirs = {key: one for key, one in _of_client().items() if key[1] not in NOT_SERVED}
    ours = _of_document(json.loads(document.json))
    assert len(theirs) > 900
    assert theirs.keys() == ours.keys()
    for key, (name, parameters) in theirs.items():
        id_, tag, found = ours[key]
        # The client's classes are named after the tag: most functions do not repeat it.
        assert name in (id_, id_.replace(tag, "", 1)), key
        assert found == parameters, key
