"""The operator remembers in memory what it still has to clean up.

CassKop (issue 370, reported with Sieve) kept the step of a decommission in memory until the end of
its reconciliation. Here the members that were removed are remembered in a set: after a crash
between the deletion of a member and that of its claim, the claim stays.
"""

from tests.explore.operators.kube import (
    CLAIMS,
    CONFIG_MAPS,
    Client,
    Operator,
    child,
    claim,
    is_deleting,
    main,
)


class Decommission(Operator):
    watched = (CONFIG_MAPS, CLAIMS)

    def __init__(self, client: Client, *, repaired: bool) -> None:
        super().__init__(client, repaired=repaired)
        self._removed: set[str] = set()

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        members = [f"{name}-{index}" for index in range(database["spec"]["replicas"])]
        for member in members:
            await self.client.create_if_missing(CLAIMS, claim(database, member))
            await self.client.create_if_missing(CONFIG_MAPS, child(database, member))
        for member in self._members(CONFIG_MAPS, name) - set(members):
            self._removed.add(member)
            await self.client.delete(CONFIG_MAPS, member)
        if self.repaired:
            self._removed = self._members(CLAIMS, name)
        for member in self._removed - set(members):
            await self.client.delete(CLAIMS, member)
            self._removed.discard(member)

    def _members(self, resource, name):
        return {key for key in self.caches[resource].objects if key.startswith(f"{name}-")}


if __name__ == "__main__":
    main(Decommission)
