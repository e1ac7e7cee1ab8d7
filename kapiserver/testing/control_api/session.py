"""What an operation of the control API is, and the state that operations share.

Knows no HTTP.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

from kapiserver.testing.control_api.schemas import Argument, Schema
from kapiserver.testing.fixtures.namespace import TestNamespace
from kapiserver.testing.fixtures.users import Users
from kapiserver.testing.server import TestServer
from kapiserver.testing.state.memory_store import Snapshot

if TYPE_CHECKING:
    from kapiserver.testing.fixtures.clusters import TestClusters

Tree: TypeAlias = dict[str, Any]


class Session:
    """A running server, the users and clusters that clients have added, and the snapshots that they
    have taken, by number."""

    def __init__(self, server: TestServer) -> None:
        self.server = server
        self.users = Users(TestNamespace(server, "default", server.kubeconfig))
        self.snapshots: dict[int, Snapshot] = {}
        self.last_snapshot = 0

    @functools.cached_property
    def clusters(self) -> TestClusters:
        """The clusters. Raises RuntimeError for a server without logical clusters."""
        from kapiserver.testing.fixtures.clusters import TestClusters  # few servers have them

        return TestClusters(self.server)

    async def forget(self) -> None:
        """Remove the users and clusters, when the server's objects are reset."""
        self.users.forget()
        if "clusters" in self.__dict__:
            await self.clusters.delete_all_async()


class Operation(Struct, frozen=True, kw_only=True):
    """One operation.

    name        identifies it in the OpenAPI document
    path        `{name}` stands for an argument; the others are in the query of GET and DELETE, and
                in the JSON object of a body of POST
    run         does the work on the server's loop, and returns the JSON of the response or an
                awaitable of it. Raises ValueError (400), KeyError (404), RuntimeError (409),
                AssertionError (417)
    result      the schema of the response
    waits       whether it changes nothing and waits for the programs under test, so that it ends
                when its client has gone
    """

    name: str
    method: str
    path: str
    summary: str
    run: Callable[[Session, Tree], Any]
    result: Schema
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    waits: bool = False
