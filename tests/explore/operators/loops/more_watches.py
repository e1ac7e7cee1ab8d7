"""Each watch that ends is followed by two.

The function that watches settings starts itself again when the server ends its watch, and its own
loop goes on, too. A server ends watches after some minutes, so their number doubles again and
again, although nothing changes.
"""

import asyncio

from tests.explore.operators.kube import CONFIG_MAPS, ApiError, Operator, child, is_deleting, main


class MoreWatches(Operator):
    def __init__(self, *arguments, **keywords) -> None:
        super().__init__(*arguments, **keywords)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._follow_soon()

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is not None and not is_deleting(database):
            await self.client.create_if_missing(CONFIG_MAPS, child(database, f"{name}-settings"))

    def _follow_soon(self) -> None:
        self._tasks.add(asyncio.create_task(self._follow()))

    async def _follow(self) -> None:
        while True:
            try:
                page = await self.client.list_page(CONFIG_MAPS)
                version = page["metadata"]["resourceVersion"]
                async for event in self.client.watch(CONFIG_MAPS, version):
                    name = event["object"]["metadata"].get("name", "")
                    self.enqueue(name.removesuffix("-settings"))
            except ApiError as error:
                print(f"the watch ended: {error}", flush=True)
            if not self.repaired:
                self._follow_soon()
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    main(MoreWatches)
