"""An operator that keeps a ConfigMap with the page of each Website, and deletes expired Websites.

Run it with `kopf run -A website_operator.py`.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import kopf
from lightkube import Client
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.core_v1 import ConfigMap

Website = create_namespaced_resource("example.com", "v1", "Website", "websites")
MANAGER = "website-operator"
RETRY_SECONDS = 0.2
CHECK_SECONDS = 1.0
REGISTRY = kopf.get_default_registry()
"""The handlers of this module."""


@kopf.on.startup()
def configure(memo: kopf.Memo, settings: kopf.OperatorSettings, **_: Any) -> None:
    """Connect; use the system's time, unless a test has set another one."""
    settings.background.cancellation_polling = CHECK_SECONDS  # the end of a deleted object's timer
    memo.client = Client()
    memo.setdefault("now", time.time)


@kopf.on.cleanup()
def disconnect(memo: kopf.Memo, **_: Any) -> None:
    """Close the connections."""
    memo.client.close()


@kopf.on.resume("websites", backoff=RETRY_SECONDS)
@kopf.on.create("websites", backoff=RETRY_SECONDS)
@kopf.on.update("websites", field="spec", backoff=RETRY_SECONDS)
def publish(
    name: str, namespace: str, spec: kopf.Spec, patch: kopf.Patch, memo: kopf.Memo, **_: Any
) -> None:
    """Apply the ConfigMap of a Website. Any error is retried, so it must be safe to repeat."""
    page = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{name}-page", "namespace": namespace},
        "data": {"index.html": spec["html"]},
    }
    kopf.adopt(page)  # the server deletes it with the Website
    memo.client.apply(ConfigMap.from_dict(page), field_manager=MANAGER, force=True)
    patch.status["page"] = f"{name}-page"


@kopf.timer("websites", interval=CHECK_SECONDS)
def expire(
    name: str, namespace: str, spec: kopf.Spec, meta: kopf.Meta, memo: kopf.Memo, **_: Any
) -> None:
    """Delete a Website that is older than its `ttlSeconds`."""
    created = datetime.fromisoformat(meta["creationTimestamp"]).timestamp()
    if "ttlSeconds" in spec and memo.now() >= created + spec["ttlSeconds"]:
        memo.client.delete(Website, name, namespace=namespace)
