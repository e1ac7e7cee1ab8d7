"""The test harness: API servers for tests of operators and controllers.

    from kapiserver.testing import TestServer

    with TestServer() as server:
        ...  # server.kubeconfig, server.url

The names are imported when they are first used, because pytest imports this package in each run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kapiserver.testing.fixtures.clients import KubeClients
    from kapiserver.testing.fixtures.clusters import TestCluster, TestClusters
    from kapiserver.testing.fixtures.environment import use_kubeconfig
    from kapiserver.testing.fixtures.namespace import TestNamespace
    from kapiserver.testing.fixtures.users import TestUser, Users
    from kapiserver.testing.fixtures.webhook_server import Webhook
    from kapiserver.testing.fixtures.webhooks import Webhooks
    from kapiserver.testing.server import TestServer

__all__ = [
    "KubeClients",
    "TestCluster",
    "TestClusters",
    "TestNamespace",
    "TestServer",
    "TestUser",
    "Users",
    "Webhook",
    "Webhooks",
    "use_kubeconfig",
]

_MODULES = {
    "KubeClients": "fixtures.clients",
    "TestCluster": "fixtures.clusters",
    "TestClusters": "fixtures.clusters",
    "TestNamespace": "fixtures.namespace",
    "TestServer": "server",
    "TestUser": "fixtures.users",
    "Users": "fixtures.users",
    "Webhook": "fixtures.webhook_server",
    "Webhooks": "fixtures.webhooks",
    "use_kubeconfig": "fixtures.environment",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
