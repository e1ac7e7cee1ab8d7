"""Deletion of objects that cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.conftest import Server

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"
UNSAFE = {OPTION: True}
VALUES = {
    "encrypted": b"k8s:enc:aescbc:v1:lost:x",
    "damaged": b"k8s\x00\xff\xff",
    "text": b"nothing",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.end()


def store(server: Server, name: str, value: bytes) -> None:
    """Store a value under the key of a ConfigMap."""
    kv = server.running.cluster.kv
    write = kv.create(f"/registry/configmaps/default/{name}", value)
    asyncio.run_coroutine_threadsafe(write, server.loop).result(60)


@pytest.mark.parametrize("name", VALUES)
def test_unreadable_objects(server: Server, name: str) -> None:
    """An object that cannot be read is deleted only with the option; then lists work again."""
    path = f"{CONFIG_MAPS}/{name}"
    store(server, name, VALUES[name])
    assert server.api.get(path).status == 500
    assert server.api.delete(path).status == 500
    with server.api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion=0&timeoutSeconds=1"):
        dry_run = server.api.delete(path, {**UNSAFE, "dryRun": ["All"]})
        assert dry_run.status == 200
        assert server.api.get(path).status == 500
        deleted = server.api.delete(path, UNSAFE)
        assert deleted.json == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {"name": name, "kind": "ConfigMap"},
            "code": 200,
        }
    assert server.api.get(path).status == 404
    assert server.api.get(CONFIG_MAPS).status == 200
    assert server.api.delete(path, UNSAFE).status == 404
    assert server.api.post(CONFIG_MAPS, {"metadata": {"name": name}}).status == 201


def test_readable_objects(server: Server) -> None:
    """An object that can be read is not deleted so."""
    server.api.post(CONFIG_MAPS, {"metadata": {"name": "fine"}})
    refused = server.api.delete(f"{CONFIG_MAPS}/fine", UNSAFE)
    assert (refused.status, refused.json["reason"]) == (409, "Conflict")
    assert refused.message == (
        'Operation cannot be fulfilled on configmaps "fine": StorageError: invalid object, Code: '
        "4, Key: /registry/configmaps/default/fine, ResourceVersion: 0, AdditionalErrorMsg: unsafe "
        "deletion is not allowed because the object is decodable from storage"
    )
    assert server.api.get(f"{CONFIG_MAPS}/fine").status == 200


def test_rights(server: Server) -> None:
    """The user needs the verb unsafe-delete-ignore-read-errors besides delete."""
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]}]
    server.api.post(f"{roles}/roles", {"metadata": {"name": "deleter"}, "rules": rules})
    binding = {
        "metadata": {"name": "deleter"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deleter"},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    server.api.post(f"{roles}/rolebindings", binding)
    store(server, "lost", VALUES["encrypted"])
    jane = {"Impersonate-User": "jane"}
    refused = server.api.delete(f"{CONFIG_MAPS}/lost", UNSAFE, headers=jane)
    assert refused.status == 403
    assert refused.message.startswith(
        'configmaps "lost" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", '
        "reason: "
    )
    rules[0]["verbs"].append("unsafe-delete-ignore-read-errors")
    server.api.patch(f"{roles}/roles/deleter", {"rules": rules})
    assert server.api.delete(f"{CONFIG_MAPS}/lost", UNSAFE, headers=jane).status == 200


@pytest.mark.parametrize(
    "other",
    [
        {"propagationPolicy": "Background"},
        {"gracePeriodSeconds": 0},
        {"preconditions": {"uid": "u"}},
        {"orphanDependents": False},
    ],
)
def test_other_options(server: Server, other: dict[str, Any]) -> None:
    """The option stands alone."""
    refused = server.api.delete(f"{CONFIG_MAPS}/none", {**UNSAFE, **other})
    (name,) = other
    assert refused.status == 422
    assert refused.message == (
        f'DeleteOptions.meta.k8s.io "" is invalid: {OPTION}: Invalid value: true: cannot be set '
        f"together with .{name}"
    )


def test_collections(server: Server) -> None:
    """The objects of a collection cannot be deleted so."""
    refused = server.api.delete(CONFIG_MAPS, UNSAFE)
    assert refused.status == 422
    assert refused.message == (
        f'DeleteOptions.meta.k8s.io "" is invalid: {OPTION}: Invalid value: true: is not allowed '
        "with DELETECOLLECTION, try again after removing the option"
    )


def test_gate() -> None:
    """Without the feature gate the option has no effect."""
    server = Server(feature_gates=frozenset())
    try:
        store(server, "lost", VALUES["encrypted"])
        assert server.api.delete(f"{CONFIG_MAPS}/lost", UNSAFE).status == 500
        assert server.api.delete(f"{CONFIG_MAPS}", {**UNSAFE, "dryRun": ["All"]}).status != 422
    finally:
        server.end()
