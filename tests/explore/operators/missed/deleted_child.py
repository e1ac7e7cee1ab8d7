"""A child is created again when the event of its deletion comes, and only then.

Sieve calls this an unobserved state: an operator that acts on an event instead of on the state
loses what happened while it was down or while its watch was broken. Instaclustr's Cassandra
operator (issue 398) lost the deletion of a pod like this.
"""

from tests.explore.operators.kube import (
    CONFIG_MAPS,
    DATABASES,
    Client,
    Object,
    Operator,
    Resource,
    child,
    is_deleting,
    main,
    owner_name,
)

LOOK_AGAIN_SECONDS = 1.0


class Members(Operator):
    watched = (CONFIG_MAPS,)

    def __init__(self, client: Client, *, repaired: bool) -> None:
        super().__init__(client, repaired=repaired)
        self._deleted: set[str] = set()

    def handle(self, resource: Resource, type: str, obj: Object, before: Object | None) -> None:
        if resource == CONFIG_MAPS and type == "DELETED":
            self._deleted.add(owner_name(obj))
        super().handle(resource, type, obj, before)

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        is_new = "phase" not in database.get("status", {})
        is_missing = f"{name}-member" not in self.caches[CONFIG_MAPS].objects
        if is_new or name in self._deleted or (self.repaired and is_missing):
            await self.client.create_if_missing(CONFIG_MAPS, child(database, f"{name}-member"))
            self._deleted.discard(name)
            if self.repaired:  # the cache may miss both the creation and the deletion
                self.enqueue_after(name, LOOK_AGAIN_SECONDS)
        if is_new:
            await self.client.patch(DATABASES, name, {"status": {"phase": "Ready"}}, "status")


if __name__ == "__main__":
    main(Members)
