"""A scale down leaves the claims of the removed members.

A later scale up then starts members with old data: elassandra-operator (issue 17), RabbitMQ's
operator by Indeed (issue 17) and Pravega's ZooKeeper operator (issue 94) had this fault, and Acto
found it again. The end state differs from that of a fresh installation with the same object.
"""

from tests.explore.operators.kube import (
    CLAIMS,
    CONFIG_MAPS,
    Operator,
    child,
    claim,
    is_deleting,
    main,
)


class Members(Operator):
    watched = (CONFIG_MAPS, CLAIMS)

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        replicas = database.get("spec", {}).get("replicas", 1)
        members = {f"{name}-{index}" for index in range(replicas)}
        for member in sorted(members):
            await self.client.create_if_missing(CLAIMS, claim(database, member))
            await self.client.create_if_missing(CONFIG_MAPS, child(database, member))
        for resource in self.watched if self.repaired else (CONFIG_MAPS,):
            existing = {key for key in self.caches[resource].objects if key.startswith(f"{name}-")}
            for member in existing - members:
                await self.client.delete(resource, member)


if __name__ == "__main__":
    main(Members)
