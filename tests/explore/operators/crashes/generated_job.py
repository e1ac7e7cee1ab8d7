"""A kopf operator creates a second Job if it crashes behind the first.

kopf calls a handler again until its success is written to the object. A creation with
`generateName` in it cannot be repeated: every crash, and every lost response, behind it makes one
more Job (Velero's change 6943 is about such creations). The corrected twin names the Job after the
object.
"""

import os
import sys

import kopf

from tests.explore.operators.kube import JOBS, Client, child

IS_REPAIRED = "--repaired" in sys.argv


@kopf.on.startup()
def connect(memo, **_):
    memo.client = Client(os.environ["KUBECONFIG"])


@kopf.on.create("databases", backoff=0.2)
async def initialize(body, name, memo, **_):
    container = {"name": "initialize", "image": "database:1"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    job = child(body, f"{name}-initialize", spec={"template": template})
    if IS_REPAIRED:
        await memo.client.create_if_missing(JOBS, job)
        return
    job["metadata"]["generateName"] = job["metadata"].pop("name") + "-"
    await memo.client.create(JOBS, job)


if __name__ == "__main__":
    kopf.run(namespaces=["default"], standalone=True)
