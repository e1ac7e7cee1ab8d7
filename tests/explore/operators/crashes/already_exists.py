"""A second attempt to create an object fails for ever, because the first one was successful.

Handlers of published operators report a failure when their object exists already: crate-operator
(issue 48) had to make each of its creations idempotent. A crash, or a lost response, behind the
first creation makes the operator meet its own object.
"""

from tests.explore.operators.kube import (
    DATABASES,
    SECRETS,
    ApiError,
    Operator,
    child,
    is_deleting,
    main,
)


class Password(Operator):
    async def reconcile(self, name: str) -> None:
        database = await self.client.get_or_none(DATABASES, name)
        if database is None or is_deleting(database) or "phase" in database.get("status", {}):
            return
        phase = "Ready"
        try:
            await self.client.create(SECRETS, child(database, f"{name}-password"))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            if not self.repaired:
                phase = "Failed"
        await self.client.patch(DATABASES, name, {"status": {"phase": phase}}, "status")


if __name__ == "__main__":
    main(Password)
