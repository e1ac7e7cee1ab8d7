"""A conflict is logged and forgotten.

"the object has been modified; please apply your changes to the latest version" is an ordinary
answer. An operator that only logs it, and does not reconcile again, leaves the object as it was
until something else happens to it.
"""

from tests.explore.operators.kube import DATABASES, ApiError, Operator, is_deleting, main


class Phase(Operator):
    async def reconcile(self, name: str) -> None:
        database = await self.client.get_or_none(DATABASES, name)
        if database is None or is_deleting(database):
            return
        wanted = database["spec"]["storage"]
        annotations = database["metadata"].setdefault("annotations", {})
        if annotations.get("example.com/allocated") == wanted:
            return
        annotations["example.com/allocated"] = wanted
        try:
            await self.client.update(DATABASES, database)
        except ApiError as error:
            if error.code != 409 or self.repaired:
                raise
            print(f"{name} has changed: {error}", flush=True)

    def handle(self, resource, type, obj, before) -> None:
        """Reconcile when the spec has changed, as many predicates of operators do."""
        if before is None or before["metadata"]["generation"] != obj["metadata"]["generation"]:
            super().handle(resource, type, obj, before)


if __name__ == "__main__":
    main(Phase)
