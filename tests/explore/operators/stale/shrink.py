"""A stale size deletes a StatefulSet.

RabbitMQ's cluster operator (issue 653, reported with Sieve) recreated the StatefulSet whenever its
size differed from the wanted one. With the size of an earlier revision, it deletes the StatefulSet
that has the current size. Sizes only grow: the corrected twin ignores a smaller one.
"""

from tests.explore.operators.kube import CONFIG_MAPS, Operator, child, is_deleting, main


class Resize(Operator):
    watched = (CONFIG_MAPS,)

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        size = database["spec"]["storage"]
        body = child(database, f"{name}-members", data={"size": size}, immutable=True)
        stored = await self.client.get_or_none(CONFIG_MAPS, f"{name}-members")
        if stored and self._is_replaced(stored["data"]["size"], size):
            await self.client.delete(CONFIG_MAPS, f"{name}-members")
            stored = None
        if stored is None:
            await self.client.create_if_missing(CONFIG_MAPS, body)

    def _is_replaced(self, stored: str, wanted: str) -> bool:
        if self.repaired:
            return int(stored.removesuffix("Gi")) < int(wanted.removesuffix("Gi"))
        return stored != wanted


if __name__ == "__main__":
    main(Resize)
