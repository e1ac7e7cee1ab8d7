"""A stale number of replicas deletes the claims of members that were added since.

Pravega's ZooKeeper operator (issue 314, reported with Sieve): after a scale down and a scale up, a
restarted operator that sees the smaller number deletes the claim of a member that exists. The
corrected twin reads the object again, without a cache, before it deletes.
"""

from tests.explore.operators.kube import CLAIMS, DATABASES, Operator, claim, is_deleting, main


class Claims(Operator):
    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        wanted, existing = _claims(database), await self._existing(name)
        for member in wanted - existing:
            await self.client.create_if_missing(CLAIMS, claim(database, member))
        surplus = existing - wanted
        if surplus and self.repaired:
            surplus -= _claims(await self.client.get(DATABASES, name))
        for member in surplus:
            await self.client.delete(CLAIMS, member)

    async def _existing(self, name: str) -> set[str]:
        claims = await self.client.list(CLAIMS, labelSelector=f"database={name}")
        return {item["metadata"]["name"] for item in claims}


def _claims(database: dict) -> set[str]:
    name = database["metadata"]["name"]
    return {f"data-{name}-{index}" for index in range(database["spec"]["replicas"])}


if __name__ == "__main__":
    main(Claims)
