"""An object that refers to a Secret fails for ever if the Secret's watch is behind.

Watches of different kinds have no order between them. The Secret was created first, but its event
comes later; the operator takes it for missing and reports a failure that it never revises. The
corrected twin waits for the Secret and looks again when it comes.
"""

from tests.explore.operators.kube import (
    DATABASES,
    SECRETS,
    Object,
    Operator,
    Resource,
    is_deleting,
    main,
)


class Reference(Operator):
    watched = (SECRETS,)

    def handle(self, resource: Resource, type: str, obj: Object, before: Object | None) -> None:
        if resource == DATABASES:
            self.enqueue(obj["metadata"]["name"])
        elif self.repaired:
            for name in self.objects:
                self.enqueue(name)

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        phase = database.get("status", {}).get("phase")
        if phase == "Ready" or (phase == "Failed" and not self.repaired):
            return
        wanted = "Ready" if "password" in self.caches[SECRETS].objects else "Failed"
        if wanted != phase:
            await self.client.patch(DATABASES, name, {"status": {"phase": wanted}}, "status")


if __name__ == "__main__":
    main(Reference)
