"""After an upgrade the operator does not find what its earlier version has created.

A label that got another name in a new version hides the old objects from the new selectors:
astarte-kubernetes-operator (change 65) asked its users to delete their StatefulSets for this
reason. `--release=1` runs the earlier version. The corrected twin gives its objects the label that
they lack.
"""

import sys

from tests.explore.operators.kube import SECRETS, Operator, child, is_deleting, main

LABEL = "database" if "--release=1" in sys.argv else "example.com/database"


class Credentials(Operator):
    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        if await self.client.list(SECRETS, labelSelector=f"{LABEL}={name}"):
            return
        secret = child(database, f"{name}-credentials")
        secret["metadata"]["labels"] = {LABEL: name}
        await self.client.create_if_missing(SECRETS, secret)
        if self.repaired:
            metadata = {"labels": {"database": None, LABEL: name}}
            await self.client.patch(SECRETS, f"{name}-credentials", {"metadata": metadata})


if __name__ == "__main__":
    main(Credentials)
