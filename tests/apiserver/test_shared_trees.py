"""No request changes a tree in the watch cache: responses, watches and later writes share it."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator

from tests.apiserver.conftest import Api, Server
from tests.e2e.every_kind import APPLY, JSON, MERGE, STRATEGIC, objects

JSON_PATCH = "application/json-patch+json"

PATCHES = (
    ({"metadata": {"labels": {"a": "1"}, "annotations": {"b": None}}}, MERGE),
    ({"metadata": {"labels": {"a": "2"}}}, STRATEGIC),
    ([{"op": "add", "path": "/metadata/labels/c", "value": "1"}], JSON_PATCH),
    ({"metadata": {"labels": {"a": "-"}}}, MERGE),
    ({"status": {"conditions": []}}, MERGE),
)


def _collection(api: Api, obj: dict) -> str | None:
    """Return the path of the collection of an object; None if its version is not served."""
    prefix = "/apis" if "/" in obj["apiVersion"] else "/api"
    response = api.get(f"{prefix}/{obj['apiVersion']}")
    resources = response.json["resources"] if response.status == 200 else ()
    for resource in resources:
        if resource["kind"] == obj["kind"] and "/" not in resource["name"]:
            scope = "/namespaces/default" if resource["namespaced"] else ""
            return f"{prefix}/{obj['apiVersion']}{scope}/{resource['name']}"
    return None


def _writes(obj: dict, collection: str) -> Iterator[tuple[str, str, object, str]]:
    """Method, path, body and media type of all kinds of writes of an object and its status, among
    them invalid ones, dry runs and ones without effect."""
    path = f"{collection}/{obj['metadata']['name']}"
    applied = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    yield "POST", collection, obj, JSON
    for target in (path, f"{path}/status"):
        for patch, type in PATCHES:
            yield "PATCH", f"{target}?dryRun=All", patch, type
            yield "PATCH", target, patch, type
            yield "PATCH", target, patch, type
        yield "PATCH", f"{target}?fieldManager=m&force=true", applied, APPLY
        for labels in ({"d": "1"}, {"d": "2"}, {"d": "-"}):
            yield "PUT", target, labels, JSON
    yield "DELETE", f"{path}?dryRun=All", None, JSON
    yield "DELETE", f"{path}?gracePeriodSeconds=0", None, JSON


def _send(api: Api, path: str, write: tuple[str, str, object, str]) -> int:
    """Send a write and return its status. A PUT has labels as its body, for the latest object."""
    method, target, body, type = write
    if method == "PUT":
        labels, body = body, api.get(path).json
        body["metadata"]["labels"] = labels
    return api(method, target, body, type=type).status


def _changed(server: Server, name: str) -> list[str]:
    """Return the paths of the objects of a name whose tree is not that of their stored bytes."""

    async def find() -> list[str]:
        return [
            entry.path
            for store in server.running.cluster.server.stores.in_use()
            for entry in store.cache.range(store.cache.prefix)
            if entry.path.endswith(f"/{name}") and entry.cached_tree is not None
            if _text(entry.cached_tree) != _text(entry.codec.tree(entry))
        ]

    return asyncio.run_coroutine_threadsafe(find(), server.loop).result(60)


def _text(tree: object) -> str:
    return json.dumps(tree, sort_keys=True)


def test_no_write_changes_a_cached_tree(make_server: Callable[..., Server]) -> None:
    server = make_server()
    kinds, statuses = 0, Counter[int]()
    for obj in objects():
        name = obj["metadata"]["name"]
        obj["metadata"].pop("namespace", None)
        for field in {"involvedObject", "regarding"} & obj.keys():
            obj[field]["namespace"] = "default"
        collection = _collection(server.api, obj)
        if collection is None:
            continue
        kinds += 1
        for write in _writes(obj, collection):
            status = _send(server.api, f"{collection}/{name}", write)
            statuses[status] += 1
            assert _changed(server, name) == [], write
    assert statuses[201] == kinds > 0, statuses
    assert max(statuses) < 500, statuses
