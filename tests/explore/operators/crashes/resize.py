"""A claim keeps its old size if the operator crashes while it resizes.

RabbitMQ's cluster operator (issue 782, reported with Sieve) compared the wanted size with that in
the StatefulSet, deleted the StatefulSet, resized the claims and created the StatefulSet again.
After a crash behind the deletion, the new StatefulSet has the new size, and nobody looks at the
claims any more.
"""

from tests.explore.operators.kube import (
    CLAIMS,
    DATABASES,
    STATEFUL_SETS,
    Object,
    Operator,
    child,
    claim,
    is_deleting,
    main,
)

SIZE = "example.com/size"


class Resize(Operator):
    watched = (STATEFUL_SETS, CLAIMS)

    async def reconcile(self, name: str) -> None:
        # The twin must not go back to the size that an old view of the database shows.
        get = self.client.get_or_none
        database = await get(DATABASES, name) if self.repaired else self.objects.get(name)
        if database is None or is_deleting(database):
            return
        size = database["spec"]["storage"]
        await self.client.create_if_missing(CLAIMS, _claim(database, size))
        current = await self.client.get_or_none(STATEFUL_SETS, name)
        if current and _size(current) != size:
            await self.client.delete(STATEFUL_SETS, name)
            if not self.repaired:
                await self._resize_claim(name, size)
            current = None
        if self.repaired:
            await self._resize_claim(name, size)
        if current is None:
            await self.client.create_if_missing(STATEFUL_SETS, _stateful_set(database, size))

    async def _resize_claim(self, name: str, size: str) -> None:
        if _size(await self.client.get(CLAIMS, f"data-{name}-0")) != size:
            patch = {"metadata": {"annotations": {SIZE: size}}}
            await self.client.patch(CLAIMS, f"data-{name}-0", patch)


def _size(obj: Object) -> str:
    return obj["metadata"]["annotations"][SIZE]


def _claim(database: Object, size: str) -> Object:
    result = claim(database, f"data-{database['metadata']['name']}-0")
    result["metadata"]["annotations"] = {SIZE: size}
    return result


def _stateful_set(database: Object, size: str) -> Object:
    name = database["metadata"]["name"]
    labels = {"database": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "database", "image": "database:1"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    result = child(database, name, spec=spec)
    result["metadata"]["annotations"] = {SIZE: size}
    return result


if __name__ == "__main__":
    main(Resize)
