"""The kubeconfig is read once.

Since Kubernetes 1.21 the tokens of pods expire, and a file has the new one. Clients that had read
it once were locked out (Kubernetes' Python client, issue 616; lightkube, pull request 141). The
corrected twin reads its kubeconfig again after a 401.
"""

from tests.explore.operators.kube import (
    CONFIG_MAPS,
    Operator,
    child,
    is_deleting,
    main,
)


class Kubeconfig(Operator):
    async def start(self) -> None:
        if not self.repaired:
            self.client.kubeconfig = None

    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        data = {"storage": database["spec"]["storage"]}
        settings = child(database, f"{name}-settings", data=data)
        stored = await self.client.get_or_none(CONFIG_MAPS, f"{name}-settings")
        if stored is None:
            await self.client.create(CONFIG_MAPS, settings)
        elif stored["data"] != data:
            await self.client.patch(CONFIG_MAPS, f"{name}-settings", {"data": data})


if __name__ == "__main__":
    main(Kubeconfig)
