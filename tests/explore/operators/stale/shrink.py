"""A stale size replaces a claim by a smaller one.

RabbitMQ's cluster operator (issue 653, reported with Sieve) deleted its StatefulSet whenever the
size differed from the wanted one, in either direction. Here a claim grows in place, and is replaced
when it has to shrink: with the size of an earlier revision, the operator deletes the data of a
claim that has the current size. Sizes only grow: the corrected twin ignores a smaller one.
"""

from tests.explore.operators.kube import CLAIMS, Object, Operator, claim, is_deleting, main

SIZE = "example.com/size"


class Resize(Operator):
    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        wanted = database["spec"]["storage"]
        stored = await self.client.get_or_none(CLAIMS, f"data-{name}")
        if stored and _gibibytes(wanted) < _gibibytes(_size(stored)):
            if self.repaired:
                return
            await self.client.delete(CLAIMS, f"data-{name}")
            stored = None
        if stored is None:
            body = claim(database, f"data-{name}")
            body["metadata"]["annotations"] = {SIZE: wanted}
            await self.client.create_if_missing(CLAIMS, body)
        elif _size(stored) != wanted:
            patch = {"metadata": {"annotations": {SIZE: wanted}}}
            await self.client.patch(CLAIMS, f"data-{name}", patch)


def _size(stored: Object) -> str:
    return stored["metadata"]["annotations"][SIZE]


def _gibibytes(size: str) -> int:
    return int(size.removesuffix("Gi"))


if __name__ == "__main__":
    main(Resize)
