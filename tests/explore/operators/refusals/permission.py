"""The operator's role does not allow what the operator does only sometimes.

A role is written for what its author saw the operator do. Here it allows to create the settings of
an object, and not to read them, which is needed only if they exist already: after a crash the
operator asks for ever for what it may not do. Faults like this are among the first that users of a
new operator report. The program of the twin is the same; its account has the missing verb.
"""

from tests.explore.operators.kube import (
    CONFIG_MAPS,
    DATABASES,
    ApiError,
    Operator,
    child,
    is_deleting,
    main,
)


class Settings(Operator):
    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database) or "phase" in database.get("status", {}):
            return
        data = {"storage": database["spec"]["storage"]}
        try:
            await self.client.create(CONFIG_MAPS, child(database, f"{name}-settings", data=data))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            stored = await self.client.get(CONFIG_MAPS, f"{name}-settings")
            if stored["data"] != data:
                raise
        await self.client.patch(DATABASES, name, {"status": {"phase": "Ready"}}, "status")


if __name__ == "__main__":
    main(Settings)
