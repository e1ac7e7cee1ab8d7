"""OpenAPI documents in a form that a reader of a diff takes in: a line a field and an operation.

`python -m tests.apiserver.openapi_digest` writes the golden files anew.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.discovery.openapi_documents import OpenAPIDocuments

FOLDER = Path(__file__).parent / "openapi"


def digests() -> dict[str, str]:
    """File name to text, one a document of the index of v3."""

    async def read() -> dict[str, str]:
        documents = OpenAPIDocuments(Scheme(), lambda: 0.0)
        index = json.loads((await documents.index()).json)
        found = {}
        for path in index["paths"]:
            if path != "api/v1" and path.count("/") != 2:
                continue  # a path or two, the same in every group
            document = await documents.v3(path)
            assert document is not None
            found[path.replace("/", "_") + ".txt"] = digest(json.loads(document.json), path)
        return found

    return asyncio.run(read())


def digest(document: Any, path: str) -> str:
    """Operations, then the schemas that are this document's own; no lists, no /watch/ paths."""
    lines = []
    for url, item in document["paths"].items():
        if "/watch/" in url:
            continue
        common = [one["name"] for one in item.get("parameters", [])]
        for method, one in item.items():
            if method != "parameters":
                names = sorted(common + [two["name"] for two in one.get("parameters", [])])
                codes = ",".join(code for code in one["responses"] if code != "401")
                response = _answer(one["responses"]["200"])
                asked = " ".join(_abbreviated(names))
                lines.append(
                    f"{method.upper()} {url} {one['operationId']} ({asked}) -> {codes} {response}"
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
"""What stands for the parameters that belong together."""


def _abbreviated(names: list[str]) -> list[str]:
    left = [name for name in names if name not in ("name", "namespace", "pretty")]
    found = []
    for word, members in SETS.items():
        if set(members.split()) <= set(left):
            found.append(word)
            left = [name for name in left if name not in members.split()]
    return [*found, *left]


def _own_prefix(path: str) -> str:
    """What names of a group-version's own schemas begin with."""
    first, _, rest = path.partition("/")
    if first == "api":
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
    said = [f"{key.removeprefix('x-kubernetes-')}={_text(one)}" for key, one in schema.items()]
    return " ".join([shape, *said])


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")).replace('"', "")


def _name(ref: str) -> str:
    return ref.rpartition("/")[2].removeprefix("io.k8s.api.").rpartition("pkg.apis.")[2]


def main() -> None:
    """Write the golden files."""
    FOLDER.mkdir(exist_ok=True)
    found = digests()
    for old in FOLDER.glob("*.txt"):
        if old.name not in found:
            old.unlink()
    for name, text in found.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
