"""A port is taken from a counter in a write of its own.

A counter that is incremented in one write and used in a second one is a classic: a crash between
both, or an increment whose response is lost and that is tried again, skips a number. The corrected
twin writes who has the port together with the counter.
"""

from tests.explore.operators.kube import CONFIG_MAPS, DATABASES, Operator, is_deleting, main

FIRST_PORT = 30000


class Ports(Operator):
    async def reconcile(self, name: str) -> None:
        database = await self.client.get_or_none(DATABASES, name)
        if database is None or is_deleting(database) or "port" in database.get("status", {}):
            return
        status = {"status": {"port": await self._allocate(name)}}
        await self.client.patch(DATABASES, name, status, subresource="status")

    async def _allocate(self, name: str) -> int:
        await self.client.create_if_missing(CONFIG_MAPS, {"metadata": {"name": "ports"}})
        ports = await self.client.get(CONFIG_MAPS, "ports")
        data = ports.setdefault("data", {"next": str(FIRST_PORT)})
        if self.repaired and name in data:
            return int(data[name])
        port = int(data["next"])
        data["next"] = str(port + 1)
        if self.repaired:
            data[name] = str(port)
        await self.client.update(CONFIG_MAPS, ports)
        return port


if __name__ == "__main__":
    main(Ports)
