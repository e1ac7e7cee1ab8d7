"""The servers and clients of `tests/apiserver/conftest.py`; the shared server has RBAC on, so that
controllers have no other rights than their roles give."""

from collections.abc import Iterator

import pytest

from tests.apiserver.conftest import Api, Server, apps, core, make_server, namespace, own_server

__all__ = ["api", "apps", "core", "make_server", "namespace", "own_server"]


@pytest.fixture(scope="session")
def api() -> Iterator[Api]:
    """The server that the tests of controllers share."""
    server = Server(authorization_mode=("RBAC",))
    yield server.api
    server.end()
