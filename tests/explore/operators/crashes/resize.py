"""A claim keeps its old size if the operator crashes while it resizes.

RabbitMQ's cluster operator (issue 782, reported with Sieve) compared the wanted size with that in
the StatefulSet, deleted the StatefulSet, resized the claims and created the StatefulSet again.
After a crash behind the deletion, the new StatefulSet has the new size, and nobody looks at the
claims any more.
"""

from tests.explore.operators.kube import (
    CLAIMS,
    STATEFUL_SETS,
    Object,
    Operator,
    child,
    claim,
    is_deleting,
    main,
)


class Resize(Operator):
    watched = (STATEFUL_SETS, CLAIMS)

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        size = database["spec"]["storage"]
        await self.client.create_if_missing(CLAIMS, claim(database, f"data-{name}-0", size))
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
        claim = await self.client.get(CLAIMS, f"data-{name}-0")
        if claim["spec"]["resources"]["requests"]["storage"] != size:
            patch = {"metadata": {"annotations": {"example.com/size": size}}}
            await self.client.patch(CLAIMS, f"data-{name}-0", patch)


def _size(stateful_set: Object) -> str:
    return stateful_set["metadata"]["annotations"]["example.com/size"]


def _stateful_set(database: Object, size: str) -> Object:
    name = database["metadata"]["name"]
    labels = {"database": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "database", "image": "database:1"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    result = child(database, name, spec=spec)
    result["metadata"]["annotations"] = {"example.com/size": size}
    return result


if __name__ == "__main__":
    main(Resize)
