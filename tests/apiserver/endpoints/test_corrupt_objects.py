"""Reads and writes of objects that cannot be decrypted or decoded, with and without the feature
gate. The texts are those of kube-apiserver 1.37.2 over the same values."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.conftest import Server

PATH = "/api/v1/namespaces/{}/configmaps"
ENCRYPTED = "identity transformer tried to read encrypted data"
VALUES = {
    "encrypted": (b"k8s:enc:aescbc:v1:lost:x", ENCRYPTED),
    "damaged": (b"k8s\x00\xff\xff", "unexpected EOF"),
    "text": (b"nothing", "illegal base64 data at input byte 4"),
    "brackets": (b"[]", "illegal base64 data at input byte 0"),
    "other-kind": (
        b'{"kind":"Secret","apiVersion":"v1","metadata":{"name":"other-kind"}}',
        "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
    ),
    "unknown-kind": (
        b'{"kind":"Foo","apiVersion":"v1","metadata":{"name":"unknown-kind"}}',
        'no kind "Foo" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"',
    ),
    "number": (
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":5}}',
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type "
        "string",
    ),
    "cut": (
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cut',
        "couldn't get version/kind; json parse error: unexpected end of JSON input",
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.end()


@pytest.fixture(scope="module")
def server_without_gate() -> Iterator[Server]:
    server = Server(feature_gates=frozenset())
    yield server
    server.end()


def store(server: Server, namespace: str, name: str, value: bytes) -> int:
    """Store a value under the key of a ConfigMap; return its revision."""
    kv = server.running.cluster.kv
    write = kv.create(f"/registry/configmaps/{namespace}/{name}", value)
    return asyncio.run_coroutine_threadsafe(write, server.loop).result(60)


def failure(message: str, **more: Any) -> dict[str, Any]:
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**head, "message": message, **more, "code": 500}


def internal(text: str) -> dict[str, Any]:
    causes = {"causes": [{"message": text}]}
    return failure(f"Internal error occurred: {text}", reason="InternalError", details=causes)


def storage_error(key: str, detail: str) -> str:
    return (
        f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: {detail}"
    )


def detail_of(name: str, revision: int) -> str:
    problem = VALUES[name][1]
    if name == "encrypted":
        return f"data from the storage is not transformable revision=0: {problem}"
    return f"object not decodable revision={revision}: {problem}"


def corrupt_list(namespace: str, details: dict[str, str]) -> dict[str, Any]:
    """The Status of a list with these objects: what is wrong with them, by name."""
    texts = {
        key: storage_error(key, detail)
        for key, detail in (
            (f"/registry/configmaps/{namespace}/{name}", each) for name, each in details.items()
        )
    }
    first = next(iter(texts.values()))
    message = f"failed to read one or more configmaps from the storage: {first}"
    if len(texts) > 1:
        message += f" (and {len(texts) - 1} more)"
    causes = [
        {"reason": "UnexpectedServerResponse", "message": text, "field": key}
        for key, text in texts.items()
    ]
    names = {"name": "list", "kind": "configmaps", "causes": causes}
    return failure(message, reason="StorageReadError", details=names)


def answers(server: Server, namespace: str, name: str) -> dict[str, Any]:
    """The bodies of the responses to requests of each verb."""
    api, listed, path = server.api, PATH.format(namespace), f"{PATH.format(namespace)}/{name}"
    body = {"metadata": {"name": name}}
    merge = {"Content-Type": "application/merge-patch+json"}
    return {
        "get": api.get(path).json,
        "delete": api.delete(path).json,
        "put": api.put(path, body).json,
        "patch": api.patch(path, {"data": {"a": "b"}}, headers=merge).json,
        "list": api.get(listed).json,
        "list by name": api.get(f"{listed}?fieldSelector=metadata.name%3D{name}").json,
        "delete collection": api.delete(listed).json,
    }


@pytest.mark.parametrize("name", VALUES)
def test_corrupt_objects(server: Server, name: str) -> None:
    """A read says which object is corrupt, and a write what is wrong with it."""
    revision = store(server, name, name, VALUES[name][0])
    detail = detail_of(name, revision)
    read = internal(storage_error(f"/configmaps/{name}/{name}", detail))
    write = internal(detail) if name == "encrypted" else failure(detail)
    listed = corrupt_list(name, {name: detail})
    assert answers(server, name, name) == {
        "get": read,
        "delete": read,
        "put": write,
        "patch": write,
        "list": listed,
        "list by name": listed,
        "delete collection": listed,
    }


@pytest.mark.parametrize("name", ["encrypted", "damaged"])
def test_corrupt_objects_without_the_gate(server_without_gate: Server, name: str) -> None:
    """Without the feature gate errors have no more than what is wrong with the first object."""
    store(server_without_gate, name, name, VALUES[name][0])
    problem = VALUES[name][1]
    single = listed = failure(problem)
    if name == "encrypted":
        single = internal(problem)
        listed = internal(
            f'unable to transform key "/registry/configmaps/{name}/{name}": {problem}'
        )
    assert answers(server_without_gate, name, name) == {
        "get": single,
        "delete": single,
        "put": single,
        "patch": single,
        "list": listed,
        "list by name": listed,
        "delete collection": listed,
    }


def test_long_list(server: Server) -> None:
    """An object behind the first chunk of a list, once it was read, fails the list before that, and
    no longer when it is replaced."""
    path = PATH.format("long")
    server.api.post("/api/v1/namespaces", {"metadata": {"name": "long"}})
    for number in range(3):
        data = {"data": {"a": "x" * 500_000}}
        assert server.api.post(path, {"metadata": {"name": f"{number}"}, **data}).status == 201
    detail = detail_of("text", store(server, "long", "z", VALUES["text"][0]))
    assert server.api.get(f"{path}/z").status == 500
    assert server.api.get(path).json == corrupt_list("long", {"z": detail})
    unsafe = {"ignoreStoreReadErrorWithClusterBreakingPotential": True}
    assert server.api.delete(f"{path}/z", unsafe).status == 200
    assert server.api.post(path, {"metadata": {"name": "z"}}).status == 201
    assert server.api.get(path).status == 200


def test_several_corrupt_objects(server: Server) -> None:
    """A list names each of its corrupt objects, up to a hundred; a page those of its own."""
    details = {}
    for name in ("a", "b"):
        details[name] = detail_of("text", store(server, "several", name, VALUES["text"][0]))
    path = PATH.format("several")
    assert server.api.get(path).json == corrupt_list("several", details)
    server.api.post("/api/v1/namespaces", {"metadata": {"name": "several"}})
    server.api.post(path, {"metadata": {"name": "0"}})
    assert server.api.get(f"{path}?limit=1").status == 200
    assert server.api.get(f"{path}?limit=2").json == corrupt_list("several", details)
    for number in range(110):
        store(server, "several", f"c-{number:03}", VALUES["text"][0])
    status = server.api.get(path).json
    assert status["message"].endswith(" (and 99 more)")
    assert len(status["details"]["causes"]) == 101
    assert status["details"]["causes"][-1] == {
        "reason": "FieldValueTooMany",
        "message": "too many errors, the list is truncated",
    }
