"""A kopf operator cleans up on deletion, but does not ask for a finalizer.

With `optional=True` a handler of deletions is called only if the operator runs and its watch is not
broken when the object goes. zalando's postgres-operator (change 941) had no finalizer either, and
left StatefulSets and Secrets behind. The corrected twin leaves `optional` out, so that kopf adds
its finalizer.
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


@kopf.on.delete("databases", optional=not IS_REPAIRED)
async def delete(name, memo, **_):
    await memo.client.delete(CLAIMS, f"data-{name}")


if __name__ == "__main__":
    kopf.run(namespaces=["default"], standalone=True)
