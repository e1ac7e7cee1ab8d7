"""Discovery and OpenAPI of a host with extension API servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.aggregation.aggregationkit import (
    CLOSE,
    GROUP,
    PATH,
    SERVICES,
    Authority,
    answer_json,
    extension_server,
    register,
    resolver_file,
    wait_for_reason,
)
from tests.apiserver.conftest import Api, Server
from tests.apiserver.proxy.upstreams import Exchange, reply

NAME = f"v1.{GROUP}"

DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
THINGS = {
    "name": "things",
    "singularName": "thing",
    "namespaced": True,
    "kind": "Thing",
    "verbs": ["get", "list"],
    "shortNames": ["th"],
}
LEGACY = {
    "kind": "APIResourceList",
    "groupVersion": f"{GROUP}/v1",
    "resources": [
        {"name": "things/scale", "singularName": "", "namespaced": True, "group": "autoscaling",
         "version": "v1", "kind": "Scale", "verbs": ["get"]},
        THINGS,
    ],
}  # fmt: skip
SPEC = {
    "swagger": "2.0",
    "paths": {
        f"{PATH}/things": {"get": {"schema": {"$ref": "#/definitions/Thing"}}},
        "/apis/other/v1/x": {},
    },
    "definitions": {"Thing": {"type": "object"}, "Unused": {}},
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def serve_documents(documents: dict[str, Any]) -> Callable[[Exchange], None]:
    """Return an answer with the document of a path, or 404."""

    def answer(exchange: Exchange) -> None:
        path = exchange.target.partition("?")[0]
        document = documents.get(path)
        status = "200 OK" if path in documents else "404 Not Found"
        answer_json(document or {}, status=status)(exchange)

    return answer


def discovered(api: Api, group: str, *, freshness: str) -> Any:
    """Return the version of a group in aggregated discovery once it has a freshness."""
    while True:
        document = api.get("/apis", accept=DISCOVERY)
        items = {item["metadata"]["name"]: item for item in document.json["items"]}
        [found] = items[group]["versions"]
        if found["freshness"] == freshness:
            return found


def test_discovery(
    authority: Authority, tmp_path: Path, make_server: Callable[..., Server]
) -> None:
    """Discovery has the resources of an extension API server, in all its forms; without an answer
    they are stale."""
    documents = {PATH: LEGACY}
    with extension_server(authority.issue("ext.default.svc")) as upstream:
        upstream.answer = serve_documents(documents)
        file = resolver_file(tmp_path, ext=f"127.0.0.1:{upstream.port}", dead="127.0.0.1:1")
        api = make_server(service_resolver=file).api
        accept = DISCOVERY
        before = api.get("/apis", accept=accept)
        register(api, insecureSkipTLSVerify=True, groupPriorityMinimum=17550)
        register(api, "dead", group="dead.example.com", groupPriorityMinimum=5)
        found = discovered(api, GROUP, freshness="Current")
        assert found == {
            "version": "v1",
            "freshness": "Current",
            "resources": [
                {
                    "resource": "things",
                    "responseKind": {"group": "", "version": "", "kind": "Thing"},
                    "scope": "Namespaced",
                    "singularResource": "thing",
                    "verbs": ["get", "list"],
                    "shortNames": ["th"],
                    "subresources": [
                        {
                            "subresource": "scale",
                            "responseKind": {
                                "group": "autoscaling", "version": "v1", "kind": "Scale",
                            },
                            "verbs": ["get"],
                        }
                    ],
                }
            ],
        }  # fmt: skip
        stale = discovered(api, "dead.example.com", freshness="Stale")
        assert stale == {"version": "v1", "freshness": "Stale"}
        after = api.get("/apis", accept=accept)
        assert before.headers["ETag"] != after.headers["ETag"]
        again = api.get("/apis", accept=accept, headers={"If-None-Match": after.headers["ETag"]})
        assert again.status == 304
        names = [group["name"] for group in api.get("/apis").json["groups"]]
        assert GROUP in names
        assert names[-1] == "dead.example.com"
        group = api.get(f"/apis/{GROUP}").json
        assert group["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}
        assert api.get(PATH).json == LEGACY
        assert PATH in api.get("/").json["paths"]
        api.delete(f"{SERVICES}/{NAME}")
        api.delete(f"{SERVICES}/v1.dead.example.com")
        assert api.get("/apis", accept=accept).headers["ETag"] == before.headers["ETag"]


def test_aggregated_discovery(
    authority: Authority, tmp_path: Path, make_server: Callable[..., Server]
) -> None:
    """Aggregated discovery of an extension API server is fetched once for all group-versions of
    its Service; a version that it does not have is empty."""
    versions = [{"version": "v1", "resources": [{"resource": "things", "responseKind": None}]}]
    body = {"items": [{"metadata": {"name": GROUP}, "versions": versions}]}

    def answer(exchange: Exchange) -> None:
        media_type = f"Content-Type: {DISCOVERY}"
        if exchange.target == "/apis":
            exchange.send(reply(json.dumps(body).encode(), CLOSE, media_type))
        else:
            answer_json({})(exchange)

    with extension_server(authority.issue("ext.default.svc")) as upstream:
        upstream.answer = answer
        file = resolver_file(tmp_path, ext=f"127.0.0.1:{upstream.port}")
        api = make_server(service_resolver=file).api
        register(api, insecureSkipTLSVerify=True)
        register(api, insecureSkipTLSVerify=True, group="none.example.com")
        kind = {"group": "", "version": "", "kind": ""}
        assert discovered(api, GROUP, freshness="Current") == {
            "version": "v1",
            "freshness": "Current",
            "resources": [{"resource": "things", "responseKind": kind}],
        }
        none = discovered(api, "none.example.com", freshness="Current")
        assert none == {"version": "v1", "freshness": "Current"}


def test_openapi(authority: Authority, tmp_path: Path, make_server: Callable[..., Server]) -> None:
    """The index of OpenAPI v3 names the document of an extension API server, which answers itself;
    its part of v2 is merged."""
    url = f"/openapi/v3{PATH}?hash=A"
    documents = {
        PATH: LEGACY,
        "/openapi/v3": {"paths": {PATH[1:]: {"serverRelativeURL": url}, "version": {}}},
        f"/openapi/v3{PATH}": {"openapi": "3.0.0", "paths": {}},
        "/openapi/v2": SPEC,
    }
    with extension_server(authority.issue("ext.default.svc")) as upstream:
        upstream.answer = serve_documents(documents)
        file = resolver_file(tmp_path, ext=f"127.0.0.1:{upstream.port}")
        api = make_server(service_resolver=file).api
        before, index = api.get("/openapi/v2"), api.get("/openapi/v3")
        register(api, insecureSkipTLSVerify=True)
        while PATH[1:] not in (paths := api.get("/openapi/v3").json["paths"]):
            pass
        assert paths == index.json["paths"] | {PATH[1:]: {"serverRelativeURL": url}}
        assert api.get("/openapi/v3").headers["ETag"] != index.headers["ETag"]
        assert api.get(url).json == documents[f"/openapi/v3{PATH}"]
        old = api.get(url.replace("=A", "=B"))
        assert (old.status, old.headers["Location"]) == (301, url)
        after = api.get("/openapi/v2")
        assert after.headers["ETag"] != before.headers["ETag"]
        assert after.json["paths"].keys() - before.json["paths"].keys() == {f"{PATH}/things"}
        assert after.json["definitions"].keys() - before.json["definitions"].keys() == {"Thing"}
        etag = {"If-None-Match": after.headers["ETag"]}
        assert api.get("/openapi/v2", headers=etag).status == 304
        assert (
            api.get(
                "/openapi/v2", accept="application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
            ).status
            == 200
        )
        api.delete(f"{SERVICES}/{NAME}")
        assert api.get("/openapi/v2").headers["ETag"] == before.headers["ETag"]


@pytest.mark.parametrize(
    "body",
    [
        b"[",
        b"[]",
        b'{"items":[1]}',
        b'{"resources":[{}]}',
        b'{"paths":[],"items":1}',
        b'{"paths":{"a":"b"},"resources":1}',
    ],
)
def test_malformed_documents(
    authority: Authority, tmp_path: Path, make_server: Callable[..., Server], body: bytes
) -> None:
    """Documents that are none leave the group-version stale and the host's own documents whole."""

    def answer(exchange: Exchange) -> None:
        media_type = f"Content-Type: {DISCOVERY}"
        exchange.send(reply(body, CLOSE, media_type if exchange.target == "/apis" else "A: b"))

    with extension_server(authority.issue("ext.default.svc")) as upstream:
        upstream.answer = answer
        file = resolver_file(tmp_path, ext=f"127.0.0.1:{upstream.port}")
        api = make_server(service_resolver=file).api
        register(api, insecureSkipTLSVerify=True)
        wait_for_reason(api, NAME, "Passed")
        while not upstream.request().target.startswith("/openapi/"):
            pass
        assert api.get("/openapi/v3").status == 200
        assert api.get("/openapi/v2").status == 200
        assert api.get("/apis", accept=DISCOVERY).status == 200
        assert api.get("/apis").status == 200
