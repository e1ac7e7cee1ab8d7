"""The controls of a test server: each that waits is written once and has two forms."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from kapiserver.testing import TestServer, Users
from kapiserver.testing.determinism.clock import TestClock
from kapiserver.testing.faults.faults import Faults
from kapiserver.testing.history.objects import Objects
from kapiserver.testing.history.requests import Requests
from kapiserver.testing.simulated.images import Images
from kapiserver.testing.simulated.metrics import Metrics
from kapiserver.testing.simulated.nodes import Nodes
from kapiserver.testing.simulated.pods import Pods
from kapiserver.testing.state.state import State
from kapiserver.testing.subject import Subject

SUBJECTS = [type(value) for value in vars(TestServer()).values() if isinstance(value, Subject)]


@pytest.mark.parametrize("subject", [*SUBJECTS, Users])
def test_forms(subject: type) -> None:
    """The two forms have the same parameters and the same text, and a name of their own."""
    names = [name for name in dir(subject) if name.endswith("_async") and name != "run_async"]
    for name in names:
        waiting, blocking = (getattr(subject, each) for each in (name, name.removesuffix("_async")))
        assert inspect.iscoroutinefunction(waiting)
        assert not inspect.iscoroutinefunction(blocking)
        assert inspect.signature(waiting) == inspect.signature(blocking)
        assert waiting.__doc__
        assert waiting.__doc__ == blocking.__doc__
        assert (waiting.__name__, blocking.__name__) == (name, name.removesuffix("_async"))


def test_every_waiting_control_has_two_forms() -> None:
    """No coroutine method of a subject is without a form for tests that do not await."""
    simulated = {Pods, Nodes, Images, Metrics}
    others = {TestClock, Requests, Objects, State, Faults, TestServer}
    assert simulated | others == set(SUBJECTS)
    for subject in SUBJECTS:
        for name, value in vars(subject).items():
            if inspect.iscoroutinefunction(value) and hasattr(value, "__wrapped__"):
                assert hasattr(subject, name.removesuffix("_async")), name


SELECTED = {"app": "web"}
CONTAINERS = {"containers": [{"name": "app", "image": "nginx"}]}
BURST = [
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": SELECTED}, "spec": CONTAINERS},
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "spec": {"minAvailable": 1, "selector": {"matchLabels": SELECTED}},
    },
    {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "spec": {"hard": {"pods": "2"}},
    },
    {"apiVersion": "v1", "kind": "Service", "spec": {"selector": SELECTED, "ports": [{"port": 1}]}},
]
"""Objects whose controllers wait for more changes before they react."""


def test_until_settled() -> None:
    """Nothing is left to do afterwards, not even work that controllers put off for a moment."""
    names = [{"metadata": each.get("metadata", {}) | {"name": "web"}} for each in BURST]
    with TestServer(simulate=True) as server:
        server.clock.freeze()
        server.state.load([each | name for each, name in zip(BURST, names, strict=True)])
        server.until_settled()
        kinds = ("PodDisruptionBudget", "ResourceQuota", "Endpoints")
        budget, quota, endpoints = (
            server.objects.history(kind, "web")[-1].object for kind in kinds
        )
        assert budget["status"]["currentHealthy"] == 1
        assert quota["status"]["used"] == {"pods": "1"}
        assert len(endpoints["subsets"][0]["addresses"]) == 1


def test_settle() -> None:
    """Both forms return when the controllers have reacted to a write."""
    account = ("v1", "serviceaccounts", "default")

    def create(server: TestServer, name: str) -> None:
        namespaces = server.internal_client().resource("v1", "namespaces")
        server.run(namespaces.create({"metadata": {"name": name}}))

    def find(server: TestServer, namespace: str) -> object:
        accounts = server.internal_client().resource(*account[:2], namespace=namespace)
        return server.run(accounts.get(account[2]))

    with TestServer() as server:
        create(server, "a")
        server.settle()
        assert find(server, "a")
        create(server, "b")
        asyncio.run(server.settle_async())
        assert find(server, "b")
