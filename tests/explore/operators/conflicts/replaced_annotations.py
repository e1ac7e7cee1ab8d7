"""A JSON patch replaces all annotations of an object, also those of others.

An `add` to `/metadata/annotations` replaces the map as a whole: whatever another writer has put
there since the operator has read the object is gone. Finalizers and owner references are lost in
the same way when a merge patch sends a list of them. The corrected twin lets the patch test the
resourceVersion first, and tries again when the server refuses it.
"""

from tests.explore.operators.kube import DATABASES, JSON_PATCH, Operator, is_deleting, main

ALLOCATED = "example.com/allocated"


class Annotations(Operator):
    async def reconcile(self, name: str) -> None:
        database = await self.client.get_or_none(DATABASES, name)
        if database is None or is_deleting(database):
            return
        metadata = database["metadata"]
        annotations = metadata.get("annotations", {})
        wanted = annotations | {ALLOCATED: database["spec"]["storage"]}
        if annotations == wanted:
            return
        patch = [{"op": "add", "path": "/metadata/annotations", "value": wanted}]
        if self.repaired:
            version = metadata["resourceVersion"]
            patch.insert(0, {"op": "test", "path": "/metadata/resourceVersion", "value": version})
        await self.client.patch(DATABASES, name, patch, type=JSON_PATCH)


if __name__ == "__main__":
    main(Annotations)
