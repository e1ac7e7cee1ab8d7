"""A merge patch with a list of finalizers removes those of others.

A JSON merge patch replaces a list as a whole. An operator that reads the finalizers and patches
them with its own added drops the finalizer that somebody else has added meanwhile. With the
resourceVersion of the object it read, the server refuses the patch, and the operator tries again.
"""

from tests.explore.operators.kube import CLAIMS, DATABASES, Operator, claim, main

FINALIZER = "example.com/claims"


class Finalizers(Operator):
    async def reconcile(self, name: str) -> None:
        database = await self.client.get_or_none(DATABASES, name)
        if database is None:
            return
        finalizers = database["metadata"].get("finalizers", [])
        if "deletionTimestamp" not in database["metadata"]:
            wanted = finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]
            await self.client.create_if_missing(CLAIMS, claim(database, f"data-{name}"))
        else:
            wanted = [finalizer for finalizer in finalizers if finalizer != FINALIZER]
            await self.client.delete(CLAIMS, f"data-{name}")
        if wanted != finalizers:
            metadata = {"finalizers": wanted}
            if self.repaired:
                metadata["resourceVersion"] = database["metadata"]["resourceVersion"]
            await self.client.patch(DATABASES, name, {"metadata": metadata})


if __name__ == "__main__":
    main(Finalizers)
