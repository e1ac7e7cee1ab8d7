"""After an upgrade the operator does not find what its earlier version has created.

A label that got another name in a new version hides the old children: the operator creates a
second set beside them. astarte-kubernetes-operator (change 65) asked its users to delete their
StatefulSets for this reason. `--release 1` runs the earlier version, which all releases after it
have to take over from; the corrected twin looks for both labels.
"""

import sys

from tests.explore.operators.kube import SECRETS, Operator, child, is_deleting, main

OLD, NEW = "database", "example.com/database"
IS_FIRST_RELEASE = "--release=1" in sys.argv


class Credentials(Operator):
    async def reconcile(self, name: str) -> None:
        database = self.objects.get(name)
        if database is None or is_deleting(database):
            return
        label = OLD if IS_FIRST_RELEASE else NEW
        for selector in (OLD, NEW) if self.repaired else (label,):
            if await self.client.list(SECRETS, labelSelector=f"{selector}={name}"):
                return
        suffix = "password" if IS_FIRST_RELEASE else "credentials"
        secret = child(database, f"{name}-{suffix}")
        secret["metadata"]["labels"] = {label: name}
        await self.client.create_if_missing(SECRETS, secret)


if __name__ == "__main__":
    main(Credentials)
