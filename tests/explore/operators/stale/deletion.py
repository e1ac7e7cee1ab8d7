"""A stale view of a deleted object deletes the claim of its successor.

Instaclustr's Cassandra operator (issue 402), cass-operator (412) and Pravega's ZooKeeper operator
(312), all reported with Sieve: a restarted operator reads from an API server that lags, sees the
deletion of an earlier object with the same name, and deletes the claims that have its label. The
corrected twin makes sure that the object which it saw is still there.
"""

from tests.explore.operators.kube import (
    CLAIMS,
    DATABASES,
    JSON_PATCH,
    ApiError,
    Operator,
    claim,
    is_deleting,
    main,
)

FINALIZER = "example.com/claims"


class Deletion(Operator):
    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None:
            return
        uid = database["metadata"]["uid"]
        if self.repaired:
            current = await self.client.get_or_none(DATABASES, name)
            if current is None or current["metadata"]["uid"] != uid:
                return
        has_finalizer = FINALIZER in database["metadata"].get("finalizers", [])
        if is_deleting(database):
            await self.client.delete(CLAIMS, f"data-{name}")
            if has_finalizer:
                await self._patch(name, uid, {"op": "remove", "path": "/metadata/finalizers"})
            return
        if not has_finalizer:
            finalizers = {"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}
            await self._patch(name, uid, finalizers)
        await self.client.create_if_missing(CLAIMS, claim(database, f"data-{name}"))

    async def _patch(self, name: str, uid: str, change: dict) -> None:
        """Patch this very object, none of its name that was created later."""
        patch = [{"op": "test", "path": "/metadata/uid", "value": uid}, change]
        try:
            await self.client.patch(DATABASES, name, patch, type=JSON_PATCH)
        except ApiError as error:
            if error.code not in (404, 422):
                raise


if __name__ == "__main__":
    main(Deletion)
