"""Which flow schema and priority level a request belongs to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.filters.flow_control import LEVEL_HEADER, SCHEMA_HEADER
from kapiserver.apiserver.flowcontrol.classifier import FlowClassifier
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.user import AUTHENTICATED, MASTERS, User
from kapiserver.cluster import open_cluster
from kapiserver.storage.cache.query import ListQuery

GROUP = "flowcontrol.apiserver.k8s.io/v1"
SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
ALL = ["*"]


def _schema(name: str, precedence: int, subject: dict[str, Any], **rule: Any) -> dict[str, Any]:
    rules = [{"subjects": [subject], **{key: [value] for key, value in rule.items()}}]
    return {
        "kind": "FlowSchema",
        "apiVersion": GROUP,
        "metadata": {"name": name, "uid": name},
        "spec": {
            "matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": "level"},
            "rules": rules,
        },
    }


def _user(name: str) -> dict[str, Any]:
    return {"kind": "User", "user": {"name": name}}


def _group(name: str) -> dict[str, Any]:
    return {"kind": "Group", "group": {"name": name}}


ACCOUNT = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "ns", "name": "*"}}
PODS = {"verbs": ALL, "apiGroups": [""], "resources": ["pods"], "namespaces": ["ns"]}
EVERYWHERE = {
    "verbs": ALL, "apiGroups": ALL, "resources": ALL, "namespaces": ALL, "clusterScope": True,
}  # fmt: skip
URLS = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/debug/*"]}
SCHEMA_OBJECTS = (
    _schema("masters", 100, _group(MASTERS), resourceRules=EVERYWHERE, nonResourceRules=URLS),
    _schema("jane-pods", 200, _user("jane"), resourceRules=PODS),
    _schema("accounts", 300, ACCOUNT, resourceRules=EVERYWHERE),
    _schema("urls", 400, _user("*"), nonResourceRules=URLS),
    _schema("a-tie", 500, _group(AUTHENTICATED), resourceRules=PODS),
    _schema("b-tie", 500, _group(AUTHENTICATED), resourceRules=EVERYWHERE),
)


def _person(name: str, *groups: str) -> User:
    return User(name=name, groups=groups)


CASES = [
    (_person("root", MASTERS), "/api/v1/nodes", "masters"),
    (_person("jane", AUTHENTICATED), "/api/v1/namespaces/ns/pods/a", "jane-pods"),
    (_person("jane", AUTHENTICATED), "/api/v1/namespaces/ns/pods/a/status", "b-tie"),
    (_person("jane", AUTHENTICATED), "/api/v1/namespaces/other/pods/a", "b-tie"),
    (_person("jane", AUTHENTICATED), "/api/v1/pods", "b-tie"),
    (_person("joe", AUTHENTICATED), "/api/v1/namespaces/ns/pods/a", "a-tie"),
    (_person("joe"), "/api/v1/namespaces/ns/pods/a", None),
    (_person("system:serviceaccount:ns:robot"), "/api/v1/nodes", "accounts"),
    (_person("system:serviceaccount:other:robot"), "/api/v1/nodes", None),
    (_person("joe"), "/healthz", "urls"),
    (_person("joe"), "/debug/pprof/heap", "urls"),
    (_person("joe"), "/metrics", None),
]


def test_classification() -> None:
    """The first flow schema by precedence and name that matches the request is its flow."""

    async def run() -> list[str | None]:
        async with open_cluster(Config()) as cluster:
            stores = cluster.server.stores
            schemas = stores.by_name(GroupVersion.parse(GROUP), "flowschemas")
            for schema in SCHEMA_OBJECTS:
                await schemas.create({**schema, "metadata": dict(schema["metadata"])})
            classifier = FlowClassifier(stores)
            classifier.start()
            for subscription in classifier._subscriptions:
                await subscription.wait_synced()
            listed = await schemas.list(ListQuery())
            names = {entry.tree()["metadata"]["uid"]: entry.key.name for entry in listed.entries}
            flows: list[str | None] = []
            for user, path, _ in CASES:
                flow = classifier.classify(user, parse_request_info("GET", path, {}))
                flows.append(None if flow is None else names[flow.schema_uid])
            classifier.stop()
            return flows

    assert asyncio.run(run()) == [expected for _, _, expected in CASES]


def test_long_paths_are_not_cached() -> None:
    """The classifier keeps no path that fills memory."""

    async def run() -> int:
        async with open_cluster(Config()) as cluster:
            classifier = cluster.server.flow_classifier
            assert classifier is not None
            for length in (100, 100_000):
                path = "/" + "a" * length
                classifier.classify(_person("ann"), parse_request_info("GET", path, {}))
            return classifier._cached.cache_info().currsize

    assert asyncio.run(run()) == 1


@pytest.mark.parametrize("path", ["/api/v1/namespaces/default", "/api/v1/namespaces/none"])
def test_headers(make_server: Any, path: str) -> None:
    """Responses and errors name the flow; a change of the flow schemas counts at once."""
    api = make_server().api
    level = {
        "metadata": {"name": "mine"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    }
    assert api.post(LEVELS, level).status == 201
    schema = _schema("mine", 2, _user("*"), resourceRules=EVERYWHERE)
    schema["spec"]["priorityLevelConfiguration"]["name"] = "mine"
    created = api.post(SCHEMAS, schema)
    assert created.status == 201, created.body
    response = api.get(path)
    assert response.headers[SCHEMA_HEADER] == created.json["metadata"]["uid"]
    assert response.headers[LEVEL_HEADER] == api.get(f"{LEVELS}/mine").json["metadata"]["uid"]
