"""OpenAPI documents as text for diffs, with one line for each field and each operation.

`python -m tests.apiserver.discovery.openapi_digest` rewrites the golden files.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.discovery.openapi_documents import OpenAPIDocuments

FOLDER = Path(__file__).parent / "openapi"


def digests() -> dict[str, str]:
    """A mapping of file names to texts, one for each document of the v3 index."""

    async def read() -> dict[str, str]:
        documents = OpenAPIDocuments(Scheme(), lambda: 0.0)
        index = json.loads((await documents.index()).json)
        texts = {}
        for path in index["paths"]:
            if path != "api/v1" and path.count("/") != 2:
                continue  # a path or two, the same in every group
            document = await documents.v3(path)
            assert document is not None
            texts[path.replace("/", "_") + ".txt"] = digest(json.loads(document.json), path)
        return texts

    return asyncio.run(read())


def digest(document: Any, path: str) -> str:
    """The operations of a document and the schemas of its group-version, one line each. Lists and
    /watch/ paths are left out."""
    lines = []
    for url, item in document["paths"].items():
        if "/watch/" in url:
            continue
        common = [parameter["name"] for parameter in item.get("parameters", [])]
        for method, operation in item.items():
            if method != "parameters":
                names = sorted(
                    common + [parameter["name"] for parameter in operation.get("parameters", [])]
                )
                codes = ",".join(code for code in operation["responses"] if code != "401")
                kind = _answer(operation["responses"]["200"])
                query = " ".join(_abbreviated(names))
                lines.append(
                    f"{method.upper()} {url} {operation['operationId']} ({query}) -> {codes} {kind}"
                )
    own = _own_prefix(path)
    schemas = document["components"]["schemas"].keys()
    for name, schema in document["components"]["schemas"].items():
        if not name.startswith(own) or name.removesuffix("List") in schemas - {name}:
            continue
        lines.append(f"\n{name}{_kind(schema)}")
        required = schema.get("required", ())
        for field, shape in schema.get("properties", {}).items():
            mark = "!" if field in required else ""
            lines.append(f"  {field}{mark}: {_shape(shape)}")
    return "\n".join(lines) + "\n"


SETS = {
    "LIST": "continue fieldSelector labelSelector limit resourceVersion resourceVersionMatch "
    "sendInitialEvents shardSelector timeoutSeconds",
    "WATCH": "allowWatchBookmarks watch",
    "DELETE": "dryRun gracePeriodSeconds ignoreStoreReadErrorWithClusterBreakingPotential "
    "orphanDependents propagationPolicy",
    "WRITE": "dryRun fieldManager fieldValidation",
}
"""Abbreviations of parameters that occur together."""


def _abbreviated(names: list[str]) -> list[str]:
    remaining = [name for name in names if name not in ("name", "namespace", "pretty")]
    words = []
    for word, members in SETS.items():
        if set(members.split()) <= set(remaining):
            words.append(word)
            remaining = [name for name in remaining if name not in members.split()]
    return [*words, *remaining]


def _own_prefix(path: str) -> str:
    """The prefix of the names of the group-version's own schemas."""
    root, _, rest = path.partition("/")
    if root == "api":
        return f"io.k8s.api.core.{rest}."
    group, _, version = rest.partition("/")
    packages = {
        "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
        "internal.apiserver.k8s.io": "io.k8s.api.apiserverinternal",
    }
    return packages.get(group, f"io.k8s.api.{group.partition('.')[0]}") + f".{version}."


def _answer(response: Any) -> str:
    content = next(iter(response["content"].values()))["schema"]
    return _name(content.get("$ref", content.get("type", "")))


def _kind(schema: Any) -> str:
    kinds = schema.get("x-kubernetes-group-version-kind", [])
    return " (kind)" if kinds else "" if "properties" in schema else f" {_shape(schema)}"


def _shape(schema: Any) -> str:
    schema = dict(schema)
    schema.pop("description", None)
    if "allOf" in schema:
        schema |= schema.pop("allOf")[0]
    shape = _name(schema.pop("$ref", "")) or str(schema.pop("type", "any"))
    if "items" in schema:
        shape = f"[]{_shape(schema.pop('items'))}"
    if "additionalProperties" in schema:
        shape = f"map of {_shape(schema.pop('additionalProperties'))}"
    if "format" in schema:
        shape += f" {schema.pop('format')}"
    for key in ("properties", "required", "x-kubernetes-group-version-kind"):
        schema.pop(key, None)
    if schema.get("default") in ("", 0, False, {}):
        del schema["default"]
    details = [
        f"{key.removeprefix('x-kubernetes-')}={_text(value)}" for key, value in schema.items()
    ]
    return " ".join([shape, *details])


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")).replace('"', "")


def _name(ref: str) -> str:
    return ref.rpartition("/")[2].removeprefix("io.k8s.api.").rpartition("pkg.apis.")[2]


def main() -> None:
    """Write the golden files."""
    FOLDER.mkdir(exist_ok=True)
    texts = digests()
    for old in FOLDER.glob("*.txt"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
