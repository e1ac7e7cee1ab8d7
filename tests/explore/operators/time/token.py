"""A token that has expired is used for ever.

The operator asks for a token of a ServiceAccount with limited rights when it starts, and does its
work with it. Tokens expire: Vault's agents, service meshes and, since Kubernetes 1.21, all pods had
to learn to get a new one. This one tries again with the old token. The corrected twin asks for
another one after the first 401.
"""

from typing import Any

from tests.explore.operators.kube import (
    CONFIG_MAPS,
    SERVICE_ACCOUNTS,
    ApiError,
    Client,
    Operator,
    child,
    is_deleting,
    main,
)

LIFETIME_SECONDS = 600


class Token(Operator):
    _agent: Client | None = None

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        if self._agent is None:
            self._agent = await self._log_in()
        data = {"storage": database["spec"]["storage"]}
        try:
            await self._publish(self._agent, child(database, f"{name}-settings", data=data))
        except ApiError as error:
            if self.repaired and error.code == 401:
                self._agent = None
            raise

    async def _log_in(self) -> Client:
        request = {"spec": {"expirationSeconds": LIFETIME_SECONDS}}
        answer = await self.client.create(SERVICE_ACCOUNTS, request, "agent", "token")
        return self.client.with_token(answer["status"]["token"])

    async def _publish(self, agent: Client, settings: dict[str, Any]) -> None:
        name = settings["metadata"]["name"]
        stored = await agent.get_or_none(CONFIG_MAPS, name)
        if stored is None:
            await agent.create(CONFIG_MAPS, settings)
        elif stored["data"] != settings["data"]:
            await agent.patch(CONFIG_MAPS, name, {"data": settings["data"]})


if __name__ == "__main__":
    main(Token)
