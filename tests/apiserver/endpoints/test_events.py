"""Events expire."""

import asyncio

from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.config import Config
from kapiserver.app import serve
from kapiserver.parts import Parts
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.cache.query import ListQuery
from tests.clock import ManualClock


def test_events_expire():
    """An Event is deleted `--event-ttl` after its last write; a ConfigMap is not."""

    async def run():
        clock = ManualClock()
        config = Config.of(secure_port=None, insecure_port=0, event_ttl=600)
        async with serve(config, Parts(clock=clock)) as running:
            stores = running.cluster.server.stores
            events = stores.by_name(GroupVersion("", "v1"), "events")
            maps = stores.by_name(GroupVersion("", "v1"), "configmaps")
            metadata = {"name": "x", "namespace": "default"}
            about = {"namespace": "default", "name": "p", "kind": "Pod"}
            event = {"kind": "Event", "apiVersion": "v1", "metadata": dict(metadata)}
            await events.create(event | {"involvedObject": about})
            await maps.create({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})
            clock.advance(599)
            assert (await events.get(ObjectKey("default", "x"))).key.name == "x"
            clock.advance(2)
            async with asyncio.timeout(60):  # a later write deletes it
                while (await events.list(ListQuery(namespace="default"))).entries:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            assert (await maps.get(ObjectKey("default", "x"))).key.name == "x"

    asyncio.run(run())
