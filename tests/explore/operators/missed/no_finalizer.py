"""A kopf operator cleans up when it sees that an object is gone, and has no finalizer.

The event of a deletion comes only to who watches when it happens. zalando's postgres-operator
(change 941) had no finalizer either, and left StatefulSets and Secrets behind. The corrected twin
has a handler for deletions, for which kopf adds its finalizer.
"""

import os
import sys

import kopf

from tests.explore.operators.kube import CLAIMS, Client, claim

IS_REPAIRED = "--repaired" in sys.argv


@kopf.on.startup()
def connect(memo, **_):
    memo.client = Client(os.environ["KUBECONFIG"])


@kopf.on.create("databases")
@kopf.on.resume("databases")
async def create(body, name, memo, **_):
    await memo.client.create_if_missing(CLAIMS, claim(body, f"data-{name}"))


async def delete(name, memo, **_):
    await memo.client.delete(CLAIMS, f"data-{name}")


async def handle_event(event, name, memo, **_):
    if event["type"] == "DELETED":
        await delete(name, memo)


if IS_REPAIRED:
    kopf.on.delete("databases")(delete)
else:
    kopf.on.event("databases")(handle_event)


if __name__ == "__main__":
    kopf.run(namespaces=["default"], standalone=True)
