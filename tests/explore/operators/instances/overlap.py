"""Two instances create two Secrets, because each looks for the other's in its own cache.

Without a Lease, the old and the new pod of a rolling update run side by side for a while. Both see
an object without a Secret, and both create one under a generated name (compare Tekton's change
4361, which names children after their parents for this reason). The corrected twin does that.
"""

from tests.explore.operators.kube import SECRETS, Operator, child, is_deleting, main


class Token(Operator):
    watched = (SECRETS,)

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        if any(secret.startswith(f"{name}-token") for secret in self.caches[SECRETS].objects):
            return
        secret = child(database, f"{name}-token")
        if self.repaired:
            await self.client.create_if_missing(SECRETS, secret)
            return
        secret["metadata"]["generateName"] = secret["metadata"].pop("name") + "-"
        await self.client.create(SECRETS, secret)


if __name__ == "__main__":
    main(Token)
