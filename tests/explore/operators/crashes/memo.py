"""A kopf operator keeps in its memo what it needs after a restart.

kopf's memo is memory: it is empty after a restart. A handler that reads from it what the handler of
the creation has put there raises a KeyError from then on, at every attempt. The corrected twin
derives the value from the object.
"""

import os
import sys

import kopf

from tests.explore.operators.kube import CONFIG_MAPS, Client, child

IS_REPAIRED = "--repaired" in sys.argv


@kopf.on.startup()
def connect(memo, **_):
    memo.client = Client(os.environ["KUBECONFIG"])


@kopf.on.create("databases", backoff=0.2)
async def create(body, name, spec, memo, **_):
    memo["settings"] = f"{name}-settings"
    settings = child(body, f"{name}-settings", data={"storage": spec["storage"]})
    if not await memo.client.create_if_missing(CONFIG_MAPS, settings):
        # An earlier attempt, whose response was lost, may have created it with another size.
        await memo.client.patch(CONFIG_MAPS, f"{name}-settings", {"data": settings["data"]})


@kopf.on.update("databases", field="spec.storage", backoff=0.2)
async def update(name, new, memo, **_):
    settings = f"{name}-settings" if IS_REPAIRED else memo["settings"]
    await memo.client.patch(CONFIG_MAPS, settings, {"data": {"storage": new}})


if __name__ == "__main__":
    kopf.run(namespaces=["default"], standalone=True)
