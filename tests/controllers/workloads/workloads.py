"""A server in memory whose workload controllers run on a clock that the test moves."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.user import APISERVER
from kapiserver.cluster import open_cluster
from kapiserver.controllers.manager import apiserver_context
from kapiserver.controllers.rbac.bootstrap import reconcile_policy
from kapiserver.controllers.registry import REGISTRY
from kapiserver.parts import Parts
from kapiserver.simulation.controllers import SIMULATORS
from tests.clock import ManualClock
from tests.times import text_of


class Workloads:
    """The objects of one namespace, the controllers, and the pods' lives, which the test plays."""

    def __init__(self, server, clock, controllers):
        self.server, self.clock, self.controllers = server, clock, controllers
        self.client = server.client(APISERVER, authorize=False)

    def objects(self, name, version="apps/v1"):
        return self.client.resource(version, name, namespace="shop")

    @property
    def pods(self):
        return self.objects("pods", "v1")

    async def settle(self):
        """Wait until no controller has anything left to do at this time."""
        async with asyncio.timeout(60):
            while not all(controller.settled for controller in self.controllers):
                for controller in self.controllers:
                    await controller.wait_settled()

    async def advance(self, seconds):
        self.clock.advance(seconds)
        await self.settle()

    async def items(self, name, version="apps/v1"):
        return (await self.objects(name, version).list())["items"]

    async def sizes(self, name="replicasets"):
        """The replicas of each ReplicaSet that has some, in the order of their revisions."""
        sets = sorted(await self.items(name), key=lambda each: int(revision_of(each)))
        return [each["spec"]["replicas"] for each in sets if each["spec"]["replicas"]]

    async def get_ready(self, count=1000):
        """Bind the first `count` pods that are not ready and make them ready; end the pods that are
        being deleted."""
        for pod in await self.items("pods", "v1"):
            if pod["metadata"].get("deletionTimestamp"):
                await self.pods.delete(pod["metadata"]["name"], {"gracePeriodSeconds": 0})
            elif count and not pod.get("status", {}).get("conditions"):
                count -= 1
                ready = {
                    "type": "Ready",
                    "status": "True",
                    "lastTransitionTime": text_of(self.clock.now()),
                }
                status = {"status": {"phase": "Running", "conditions": [ready]}}
                name = pod["metadata"]["name"]
                node = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "one"}}
                await self.pods.create(node, name=name, subresource="binding")
                await self.pods.patch(name, status, subresource="status")
        await self.settle()

    async def roll_out(self, rounds=20):
        """Let pods live until nothing changes any more."""
        before = None
        for _ in range(rounds):
            await self.settle()
            await self.get_ready()
            after = [
                (pod["metadata"]["name"], pod["status"]) for pod in await self.items("pods", "v1")
            ]
            if after == before:
                return
            before = after
        raise AssertionError("the rollout does not end")

    async def events(self):
        """The reasons of the events, with the name of the object."""
        return [
            (each["involvedObject"]["name"], each["reason"], each["message"])
            for each in await self.items("events", "v1")
        ]


def revision_of(obj):
    return obj["metadata"]["annotations"]["deployment.kubernetes.io/revision"]


@contextlib.asynccontextmanager
async def running(*classes, **settings):
    """Run controllers on a server in memory: classes, and names of the registry, which run with the
    rights of their own users."""
    clock = ManualClock()
    async with open_cluster(Config.of(**settings), Parts(clock=clock)) as cluster:
        server = cluster.server
        namespaces = server.client(APISERVER, authorize=False).resource("v1", "namespaces")
        await namespaces.create({"metadata": {"name": "shop"}})
        accounts = server.client(APISERVER, authorize=False).resource(
            "v1", "serviceaccounts", namespace="shop"
        )
        await accounts.create({"metadata": {"name": "default"}})
        if any(isinstance(each, str) for each in classes):
            await reconcile_policy(apiserver_context(server), aggregate=False)
            await server.authorizer.start()
        controllers = [_controller(server, each) for each in classes]
        for controller in controllers:
            controller.start()
        try:
            yield Workloads(server, clock, controllers)
        finally:
            for controller in controllers:
                await controller.stop()
            await server.authorizer.stop()


def on_server(subject, *classes):
    """Return a decorator that runs a coroutine function as a test, with controllers on a server in
    memory. The test gets `subject`, a function of the Workloads."""

    def decorate(test):
        async def run():
            async with running(*classes) as workloads:
                await test(subject(workloads))

        def run_test():
            asyncio.run(run())

        run_test.__doc__ = test.__doc__
        return run_test

    return decorate


def _controller(server, controller):
    context = apiserver_context(server, getattr(controller, "__name__", controller))
    if not isinstance(controller, str):
        return controller(context)
    (descriptor,) = (each for each in (*REGISTRY, *SIMULATORS) if each.name == controller)
    user, manager = descriptor.user, descriptor.manager
    return descriptor.factory(dataclasses.replace(context, user=user, manager=manager))
