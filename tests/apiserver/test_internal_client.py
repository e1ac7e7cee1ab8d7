"""The internal client, where it differs from the HTTP client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.apiserver.authorizer import Decision, Rules, Verdict
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints import tree_body
from kapiserver.apiserver.errors import ServiceUnavailable
from kapiserver.apiserver.internal_client import InternalClient
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import ANONYMOUS, User, service_account_user
from kapiserver.app import serve
from kapiserver.codecs.cost import LARGE
from kapiserver.parts import Parts

ROBOT = service_account_user("kube-system", "robot")
CONFIG = Config.of(
    secure_port=None,
    insecure_port=0,
    shutdown_timeout=1,
    controllers=("-*",),
    authorization_mode=("AlwaysAllow",),
)


class ReadOnly:
    """Allows reads, denies writes and records the requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, RequestInfo]] = []

    async def authorize(self, user: User, info: RequestInfo) -> Decision:
        self.requests.append((user.name, info))
        reads = info.verb in ("get", "list", "watch")
        return Decision(verdict=Verdict.ALLOW if reads else Verdict.NO_OPINION)

    async def rules_for(self, _user: User, _namespace: str) -> Rules:
        return Rules()


def run(test: Callable[[Server], Awaitable[None]], **parts: Any) -> None:
    """Run a test coroutine with its own server."""

    async def serve_and_test() -> None:
        async with serve(CONFIG, Parts(**parts)) as running:
            await test(running.cluster.server)

    asyncio.run(serve_and_test())


def config_maps(server: Server, user: User = ROBOT) -> ResourceClient:
    return server.client(user).resource("v1", "configmaps", namespace="kube-system")


def test_user_is_authorized() -> None:
    """Each call is authorized like a request of the client's user."""
    authorizer = ReadOnly()

    async def test(server: Server) -> None:
        with pytest.raises(StatusError) as caught:
            await config_maps(server).create({"metadata": {"name": "a"}})
        assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
        assert 'User "system:serviceaccount:kube-system:robot" cannot create' in str(caught.value)
        assert (await config_maps(server).list())["items"] == []
        client = InternalClient(server, ROBOT, authorize=False)
        maps = client.resource("v1", "configmaps", namespace="kube-system")
        assert (await maps.create({"metadata": {"name": "a"}}))["metadata"]["name"] == "a"

    run(test, authorizer=authorizer)
    name, info = authorizer.requests[0]
    assert name == "system:serviceaccount:kube-system:robot"
    assert (info.verb, info.resource, info.namespace, info.name) == (
        "create", "configmaps", "kube-system", "",
    )  # fmt: skip
    assert authorizer.requests[1][1].verb == "list"


def test_anonymous_user() -> None:
    """The anonymous user has no more rights through the internal client than over HTTP."""

    async def test(server: Server) -> None:
        with pytest.raises(StatusError, match="system:anonymous"):
            await config_maps(server, ANONYMOUS).list()

    run(test)


def test_fields_have_a_manager() -> None:
    """Written fields belong to the manager that the call names, or else to the user agent."""

    async def test(server: Server) -> None:
        client = server.client(ROBOT, user_agent="robot/v1")
        maps = client.resource("v1", "configmaps", namespace="kube-system")
        created = await maps.create({"metadata": {"name": "a"}, "data": {"x": "1"}})
        changed = await maps.patch("a", {"data": {"y": "1"}}, fieldManager="other")
        assert [entry["manager"] for entry in created["metadata"]["managedFields"]] == ["robot"]
        managers = {entry["manager"] for entry in changed["metadata"]["managedFields"]}
        assert managers == {"robot", "other"}

    run(test)


def test_trees_belong_to_the_caller() -> None:
    """Changes to returned or passed trees do not change stored objects. `shared` returns the
    cache's own trees, the same ones each time."""

    async def test(server: Server) -> None:
        maps = config_maps(server)
        body = {"metadata": {"name": "a"}, "data": {"x": "1"}}
        created = await maps.create(body)
        created["data"]["x"] = body["data"]["x"] = "2"  # type: ignore[index]
        read = await maps.get("a")
        assert read["data"] == {"x": "1"}
        read["data"]["x"] = "3"
        (listed,) = (await maps.list())["items"]
        assert listed["data"] == {"x": "1"}
        listed["data"]["x"] = "4"
        shared = await maps.shared.get("a")
        assert shared["data"] == {"x": "1"}
        assert await maps.shared.get("a") is shared
        assert (await maps.shared.list())["items"][0] is shared

    run(test)


class FailsOnce(ReadOnly):
    """Raises Unavailable for the first list."""

    async def authorize(self, user: User, info: RequestInfo) -> Decision:
        decision = await super().authorize(user, info)
        if [info.verb for _, info in self.requests] == ["list"]:
            raise ServiceUnavailable("try again")
        return decision


def test_follow_tries_again() -> None:
    """`follow` repeats a failed call if the error may be temporary."""
    authorizer = FailsOnce()

    async def test(server: Server) -> None:
        namespaces = server.client(ROBOT).resource("v1", "namespaces")
        event = await asyncio.wait_for(anext(namespaces.follow()), 60)
        assert event.type == "ADDED"

    run(test, authorizer=authorizer)
    assert [info.verb for _, info in authorizer.requests] == ["list", "list"]


def test_watch_ends_with_the_server() -> None:
    """A watch ends when the server stops its stores."""

    async def test(server: Server) -> None:
        maps = config_maps(server)
        watch = maps.watch()
        await maps.create({"metadata": {"name": "a"}})
        assert (await anext(watch)).type == "ADDED"
        server.stores.stop()
        assert [event async for event in watch] == []

    run(test)


def test_large_objects_are_offloaded(monkeypatch: Any) -> None:
    """The event loop decodes small objects, and a thread decodes large ones."""
    threads: list[int] = []
    decode_object = tree_body.decode_object

    def decode(scheme: Any, tree: Any, **options: Any) -> Any:
        if tree["metadata"]["name"] in ("a", "b"):
            threads.append(threading.get_ident())
        return decode_object(scheme, tree, **options)

    monkeypatch.setattr(tree_body, "decode_object", decode)

    async def test(server: Server) -> None:
        maps = config_maps(server)
        small = {"data": {"k": "v"}}
        await maps.create({"metadata": {"name": "first"}, **small})  # compiles the decoder
        created = await maps.create({"metadata": {"name": "a"}, **small})
        assert threads.pop() == threading.get_ident()
        data = {f"key-{number}": "v" for number in range(LARGE + 1)}
        await maps.update({**created, "data": data})
        await maps.create({"metadata": {"name": "b"}, "data": data})
        assert threads
        assert threading.get_ident() not in threads

    run(test)
