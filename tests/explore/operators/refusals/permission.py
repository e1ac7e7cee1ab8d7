"""The operator's role does not allow what the operator does only sometimes.

A role is written for what the operator was seen to do. The deletion of a claim, which only happens
when members are removed, is missing in it: the operator tries for ever, and the claim stays. Faults
like this are the most frequent first issue of a new operator's users. The corrected twin has
the verb in its role (`operator-role.yaml` of this folder), and nothing else differs.
"""

from tests.explore.operators.kube import CLAIMS, Operator, claim, is_deleting, main


class Claims(Operator):
    watched = (CLAIMS,)

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        wanted = {f"data-{name}-{index}" for index in range(database["spec"]["replicas"])}
        existing = {key for key in self.caches[CLAIMS].objects if key.startswith(f"data-{name}-")}
        for member in wanted - existing:
            await self.client.create_if_missing(CLAIMS, claim(database, member))
        for member in existing - wanted:
            await self.client.delete(CLAIMS, member)


if __name__ == "__main__":
    main(Claims)
