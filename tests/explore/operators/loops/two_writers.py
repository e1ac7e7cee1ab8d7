"""Two controllers of one operator write different values to one field.

One sets the size from the number of replicas, the other one from the storage. With the values of
the examples both agree; with others each undoes what the other has written, for ever. Restate's
operator (issue 138) and OLM (change 1816) show what such loops cost an API server.
"""

from tests.explore.operators.kube import CONFIG_MAPS, Operator, child, is_deleting, main


class TwoWriters(Operator):
    watched = (CONFIG_MAPS,)

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        spec = database.get("spec", {})
        by_replicas = "large" if spec.get("replicas", 1) > 1 else "small"
        by_storage = "large" if spec.get("storage", "1Gi") not in ("", "1Gi") else "small"
        if self.repaired:
            by_storage = by_replicas
        members = child(database, f"{name}-members", data={"size": by_replicas})
        await self.client.create_if_missing(CONFIG_MAPS, members)
        for size in (by_replicas, by_storage):
            stored = await self.client.get(CONFIG_MAPS, f"{name}-members")
            if stored["data"]["size"] != size:
                await self.client.patch(CONFIG_MAPS, f"{name}-members", {"data": {"size": size}})


if __name__ == "__main__":
    main(TwoWriters)
