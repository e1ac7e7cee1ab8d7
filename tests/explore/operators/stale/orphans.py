"""A cleanup of orphans at the start trusts a list that may be stale.

A list with `resourceVersion=0` may be of any age. An operator that deletes what belongs to no
object in such a list deletes the claim of a new object, whose creation the list does not show yet
(compare Kubernetes issue 59848 and the reports that it led to). The corrected twin asks again,
without a cache, before it deletes.
"""

from tests.explore.operators.kube import (
    CLAIMS,
    DATABASES,
    Operator,
    claim,
    is_deleting,
    main,
    owner_name,
)


class Orphans(Operator):
    async def start(self) -> None:
        for stored in await self.client.list(CLAIMS, labelSelector="database"):
            name = owner_name(stored)
            if name in self.objects:
                continue
            if self.repaired and await self.client.get_or_none(DATABASES, name):
                continue
            await self.client.delete(CLAIMS, stored["metadata"]["name"], stored["metadata"]["uid"])

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database and not is_deleting(database):
            await self.client.create_if_missing(CLAIMS, claim(database, f"data-{name}"))


if __name__ == "__main__":
    main(Orphans)
