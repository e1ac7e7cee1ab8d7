"""A refused creation is final.

A quota that is used up, a webhook that does not answer or a role that is granted a second later
refuse a creation for a while. An operator that reports a failure and stops trying needs somebody
who deletes the object and creates it again.
"""

from tests.explore.operators.kube import (
    CLAIMS,
    DATABASES,
    ApiError,
    Operator,
    claim,
    is_deleting,
    main,
)


class Storage(Operator):
    async def reconcile(self, name: str) -> None:
        database = await self.client.get_or_none(DATABASES, name)
        if database is None or is_deleting(database):
            return
        phase = database.get("status", {}).get("phase")
        if phase == "Ready" or (phase == "Failed" and not self.repaired):
            return
        try:
            await self.client.create_if_missing(CLAIMS, claim(database, f"data-{name}"))
        except ApiError as error:
            if error.code != 403 or self.repaired:
                raise
            await self._set_phase(name, "Failed")
            return
        await self._set_phase(name, "Ready")

    async def _set_phase(self, name: str, phase: str) -> None:
        await self.client.patch(DATABASES, name, {"status": {"phase": phase}}, "status")


if __name__ == "__main__":
    main(Storage)
