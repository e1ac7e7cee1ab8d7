"""The finalizer is removed before the cleanup that it protects.

ClickHouse's operator (issue 2056) removed its finalizer whatever had become of the cleanup. Here
the order of the two writes is wrong: after a crash between them the object is gone, and nobody
deletes its claim.
"""

from tests.explore.operators.kube import (
    CLAIMS,
    DATABASES,
    Object,
    Operator,
    claim,
    is_deleting,
    main,
)

FINALIZER = "example.com/claims"


class Finalizer(Operator):
    async def reconcile(self, name: str) -> None:
        database = await self.client.get_or_none(DATABASES, name)
        if database is None:
            return
        finalizers = database["metadata"].get("finalizers", [])
        if not is_deleting(database):
            if FINALIZER not in finalizers:
                database["metadata"]["finalizers"] = [*finalizers, FINALIZER]
                await self.client.update(DATABASES, database)
            await self.client.create_if_missing(CLAIMS, claim(database, f"data-{name}"))
        elif FINALIZER in finalizers:
            if self.repaired:
                await self.client.delete(CLAIMS, f"data-{name}")
                await self._release(database)
            else:
                await self._release(database)
                await self.client.delete(CLAIMS, f"data-{name}")

    async def _release(self, database: Object) -> None:
        database["metadata"]["finalizers"].remove(FINALIZER)
        await self.client.update(DATABASES, database)


if __name__ == "__main__":
    main(Finalizer)
