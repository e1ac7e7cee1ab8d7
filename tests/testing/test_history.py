"""The revisions of objects: differences, managers, bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kapiserver.testing import TestServer
from kapiserver.testing.history import history
from kapiserver.testing.history.diffs import Change, changes
from tests.testing.http_client import MERGE, HttpClient

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def server() -> Iterator[TestServer]:
    with TestServer() as server:
        yield server


def _deployment(image: str = "app:1") -> dict[str, Any]:
    return {
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    }


def test_history(server: TestServer) -> None:
    """Each write has its operation, field manager, subresource and difference; also the delete."""
    user, controller = HttpClient(server, agent="user"), HttpClient(server, agent="controller")
    server.clock.freeze()
    user("POST", DEPLOYMENTS, _deployment())
    path = f"{DEPLOYMENTS}/web"
    patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "app:2"}]
    user("PATCH", path, patch, type="application/json-patch+json")
    status = {"status": {"replicas": 1, "observedGeneration": 2}}
    controller("PATCH", f"{path}/status", status, type=MERGE)
    user("DELETE", path)
    created, updated, observed, deleted = server.objects.history("deploy", "web")
    assert [r.operation for r in (created, updated, observed, deleted)] == [
        "created", "updated", "updated", "deleted",
    ]  # fmt: skip
    assert (updated.manager, updated.subresource) == ("user", "")
    assert list(updated.diff) == [
        Change("metadata.generation", 1, 2),
        Change("spec.template.spec.containers[name=c].image", "app:1", "app:2"),
    ]
    assert (observed.manager, observed.subresource) == ("controller", "status")
    assert "+ status.replicas: 1" in map(str, observed.diff)
    assert deleted.object is None
    assert created.object is not None
    assert created.object["apiVersion"] == "apps/v1"
    assert [r.revision for r in (created, updated)] == sorted(
        r.revision for r in (created, updated)
    )
    assert str(observed).startswith(
        f"revision {observed.revision}: updated by controller (status)\n"
    )
    document = json.loads(json.dumps(updated.to_dict()))
    assert document["time"] == server.clock.time.isoformat()
    assert "  metadata.generation: 1 -> 2" in document["diff"]


def test_history_outlives_compaction(server: TestServer) -> None:
    """The store forgets old revisions; the history does not."""
    client = HttpClient(server)
    client("POST", MAPS, {"metadata": {"name": "m"}, "data": {"k": "1"}})
    client("PATCH", f"{MAPS}/m", {"data": {"k": "2"}}, type=MERGE)
    server.clock.advance("20m")
    assert len(server.objects.history("cm", "m")) == 2


def test_custom_objects(server: TestServer) -> None:
    """Objects of a CustomResourceDefinition have a history; cluster-scoped kinds need no
    namespace."""
    client = HttpClient(server)
    names = {"plural": "crons", "kind": "Cron"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "metadata": {"name": "crons.example.com"},
        "spec": {
            "group": "example.com",
            "names": names,
            "scope": "Cluster",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
    client("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    server.objects.wait_for("crd/crons.example.com", "condition=Established")
    body = {"apiVersion": "example.com/v1", "kind": "Cron", "metadata": {"name": "c"}}
    assert client("POST", "/apis/example.com/v1/crons", body)[0] == 201
    for kind in ("Cron", "crons.example.com", "example.com/v1/Cron"):
        (created,) = server.objects.history(kind, "c")
        assert created.operation == "created"


def test_unknown_kind(server: TestServer) -> None:
    """A kind that is not served is reported."""
    with pytest.raises(ValueError, match="the server has no resource 'crons'"):
        server.objects.history("crons", "c")
    assert server.objects.history("pod", "none") == []


def test_memory_is_bounded(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest writes are forgotten."""
    monkeypatch.setattr(history, "MAX_EVENTS", 3)
    client = HttpClient(server)
    client("POST", MAPS, {"metadata": {"name": "m"}})
    for number in range(5):
        client("PATCH", f"{MAPS}/m", {"data": {"k": str(number)}}, type=MERGE)
    revisions = server.objects.history("configmaps", "m")
    assert len(revisions) <= 3
    assert revisions[0].operation == "updated", "the value before is known"


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ({"a": 1}, {"a": 2}, ["  a: 1 -> 2"]),
        ({}, {"a": {"b": 1}}, ['+ a: {"b": 1}']),
        ({"a": [{"name": "x", "v": 1}]}, {"a": [{"name": "y"}, {"name": "x", "v": 2}]},
         ["  a[name=x].v: 1 -> 2", '+ a[name=y]: {"name": "y"}']),
        ({"a": [1, 2]}, {"a": [1]}, ["- a[1]: 2"]),
        ({"metadata": {"resourceVersion": "1", "managedFields": []}},
         {"metadata": {"resourceVersion": "2"}}, []),
    ],
)  # fmt: skip
def test_changes(old: Any, new: Any, lines: list[str]) -> None:
    """A change names the field; items of lists are matched by their identity."""
    assert sorted(map(str, changes(old, new))) == sorted(lines)
