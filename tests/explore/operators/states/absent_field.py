"""An optional field that is absent ends the operator.

Pravega's operator (issue 31) and others exit, or log a traceback for ever, when they meet an object
that the schema allows and their author did not think of: one object stops the operator for all.
"""

from tests.explore.operators.kube import CONFIG_MAPS, Operator, child, is_deleting, main


class Members(Operator):
    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        spec = database.get("spec", {})
        storage = spec.get("storage", "1Gi") if self.repaired else spec["storage"]
        stored = await self.client.get_or_none(CONFIG_MAPS, f"{name}-members")
        if stored is None:
            members = child(database, f"{name}-members", data={"size": storage})
            await self.client.create(CONFIG_MAPS, members)
        elif stored["data"]["size"] != storage:
            await self.client.patch(CONFIG_MAPS, f"{name}-members", {"data": {"size": storage}})


if __name__ == "__main__":
    main(Members)
