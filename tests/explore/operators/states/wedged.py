"""An invalid value wedges the operator, and its repair does not help.

Acto calls it a recovery failure, and Apicurio's operator (issue 252) shows it: after an invalid
value the object is marked as failed, and the operator does not look at it any more, although the
user has repaired the value. The corrected twin marks the generation that has failed.
"""

from tests.explore.operators.kube import (
    CONFIG_MAPS,
    DATABASES,
    Object,
    Operator,
    child,
    is_deleting,
    main,
)


class Wedged(Operator):
    async def reconcile(self, name: str) -> None:
        database = await self.client.get_or_none(DATABASES, name)
        if database is None or is_deleting(database):
            return
        failed = database.get("status", {}).get("phase") == "Failed"
        if failed and not self.repaired:
            return
        size = database.get("spec", {}).get("storage", "1Gi")
        is_valid = size.endswith("Gi") and size.removesuffix("Gi").isdecimal()
        if is_valid:
            await self._store(database, f"{name}-members", size)
        await self._set_phase(database, "Ready" if is_valid else "Failed")

    async def _store(self, database: Object, name: str, size: str) -> None:
        stored = await self.client.get_or_none(CONFIG_MAPS, name)
        if stored is None:
            await self.client.create(CONFIG_MAPS, child(database, name, data={"size": size}))
        elif stored["data"]["size"] != size:
            await self.client.patch(CONFIG_MAPS, name, {"data": {"size": size}})

    async def _set_phase(self, database: Object, phase: str) -> None:
        name = database["metadata"]["name"]
        if database.get("status", {}).get("phase") != phase:
            await self.client.patch(DATABASES, name, {"status": {"phase": phase}}, "status")


if __name__ == "__main__":
    main(Wedged)
