"""The first requests of a type hold the event loop no longer than others.

They import modules and compile codecs, in threads. The longest turn of the event loop is measured
in CPU time of its thread; each test has a process in which nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.apiserver.conftest import Api, Server
from tests.apiserver.endpoints.test_written_cost import Turns

MAX_SECONDS = 0.05
CORE, APPS = "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
APPLY = "application/apply-patch+yaml"
SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "c",
            "image": "i",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resources": {"requests": {"cpu": "1"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
            "securityContext": {"capabilities": {"drop": ["ALL"]}},
        }
    ],
    "securityContext": {"fsGroup": 1, "seccompProfile": {"type": "RuntimeDefault"}},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
            }
        }
    },
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "volumes": [
        {"name": "v", "emptyDir": {}},
        {"name": "w", "configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}},
        {"name": "x", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
    ],
}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": SPEC}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": SPEC},
    },
}
CRD = {
    "metadata": {"name": "foos.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "foos", "kind": "Foo"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}

WRITES: list[Callable[[Api], Any]] = [
    lambda api: api.patch(f"{APPS}/deployments/a?fieldManager=m", DEPLOYMENT, APPLY),
    lambda api: api.post(f"{CORE}/pods", POD),
    lambda api: api.post(f"{CORE}/configmaps", {"metadata": {"name": "a"}, "data": {"a": "b"}}),
    lambda api: api.post(CRDS, CRD),
    lambda api: api.patch(f"{CORE}/pods/a", {"metadata": {"labels": {"a": "b"}}}, "strategic"),
]
READS: list[Callable[[Api], Any]] = [
    lambda api: api.get(f"{CORE}/pods"),
    lambda api: api.get(f"{APPS}/deployments/a"),
    lambda api: api.get(f"{APPS}/deployments", accept=TABLE),
    lambda api: api.get(f"{APPS}/deployments/a", accept="application/yaml"),
    lambda api: api.get(f"{CORE}/configmaps", accept="application/cbor"),
    lambda api: api.get(CRDS),
]


def _assert_short_turns(server: Server, requests: list[Callable[[Api], Any]]) -> None:
    for send in requests:
        with Turns(server.loop) as turns:
            response = send(server.api)
        assert response.status in (200, 201), response.body[:500]
        assert turns.longest < MAX_SECONDS


@pytest.mark.own_process
def test_first_writes(own_server: Server) -> None:
    """The first apply of an object took 68 to 86 ms in some orders of requests."""
    _assert_short_turns(own_server, [*WRITES, lambda api: api.delete(f"{CORE}/pods/a")])


@pytest.mark.own_process
def test_first_reads(own_server: Server) -> None:
    """The first list of stored Pods took 76 ms, and the first watch 72 ms."""
    for send in WRITES:
        assert send(own_server.api).status in (200, 201)
    own_server.loop.call_soon_threadsafe(own_server.running.cluster.server.stores.free_memory)
    _assert_short_turns(own_server, READS)
    with Turns(own_server.loop) as turns, own_server.api.watch(f"{CORE}/pods?watch=1") as watch:
        assert watch.event()["type"] == "ADDED"
    assert turns.longest < MAX_SECONDS


@pytest.mark.own_process
def test_other_fields(own_server: Server) -> None:
    """Fields that the first Pod does not have load with the first Pod that has them, on the event
    loop, which takes 25 ms for many fields."""
    plain = {"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert own_server.api.post(f"{CORE}/pods", plain).status == 201
    _assert_short_turns(own_server, [WRITES[1]])
