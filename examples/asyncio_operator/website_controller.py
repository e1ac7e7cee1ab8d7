"""A controller that keeps a ConfigMap with the page of each Website, and deletes expired Websites.

It does what the operator in `examples/kopf_operator` does, with asyncio alone. Run it with
`python website_controller.py`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from lightkube import ALL_NS, ApiError, AsyncClient
from lightkube.generic_resource import GenericNamespacedResource, create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta, OwnerReference
from lightkube.resources.core_v1 import ConfigMap

Website = create_namespaced_resource("example.com", "v1", "Website", "websites")
MANAGER = "website-controller"
RETRY_SECONDS = 0.2
CHECK_SECONDS = 1.0

_log = logging.getLogger(__name__)


class WebsiteController:
    """Reconciles Websites until it is cancelled.

    now     returns the time in seconds since the epoch
    """

    def __init__(self, client: AsyncClient, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._now = now
        self._websites: dict[tuple[str, str], GenericNamespacedResource] = {}
        """The Websites that exist, by namespace and name."""

    async def run(self) -> None:
        """Watch, reconcile and expire Websites."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(tasks))
            tasks.create_task(self._expire_regularly())

    async def _watch(self, tasks: asyncio.TaskGroup) -> None:
        """Watch for ever; a watch that ends begins again with all Websites."""
        while True:
            try:
                async for operation, website in self._client.watch(Website, namespace=ALL_NS):
                    key = (website.metadata.namespace, website.metadata.name)
                    if operation == "DELETED":
                        self._websites.pop(key, None)
                    else:
                        self._websites[key] = website
                        tasks.create_task(self._reconcile(key))
            except Exception as error:
                _log.warning("the watch ended: %s", error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _reconcile(self, key: tuple[str, str]) -> None:
        """Publish a Website; try again until it succeeds or the Website is deleted."""
        while website := self._websites.get(key):
            try:
                await self._publish(website)
                break
            except Exception as error:
                _log.warning("cannot publish %s/%s: %s", *key, error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _publish(self, website: GenericNamespacedResource) -> None:
        """Apply the ConfigMap of a Website, and report its name."""
        namespace, name = website.metadata.namespace, website.metadata.name
        owner = OwnerReference(
            apiVersion=website.apiVersion, kind=website.kind, name=name, uid=website.metadata.uid
        )
        metadata = ObjectMeta(name=f"{name}-page", namespace=namespace, ownerReferences=[owner])
        page = ConfigMap(metadata=metadata, data={"index.html": website.spec["html"]})
        await self._client.apply(page, field_manager=MANAGER, force=True)
        status = Website.Status(
            apiVersion=website.apiVersion,
            kind=website.kind,
            metadata=ObjectMeta(name=name, namespace=namespace),
            status={"page": f"{name}-page"},
        )
        await self._client.apply(status, field_manager=MANAGER, force=True)

    async def _expire_regularly(self) -> None:
        while True:
            for (namespace, name), website in list(self._websites.items()):
                if self._is_expired(website):
                    try:
                        await self._client.delete(Website, name, namespace=namespace)
                    except ApiError as error:  # deleted already, or tried again after a second
                        _log.warning("cannot delete %s/%s: %s", namespace, name, error)
            await asyncio.sleep(CHECK_SECONDS)

    def _is_expired(self, website: GenericNamespacedResource) -> bool:
        ttl = website.spec.get("ttlSeconds")
        created = website.metadata.creationTimestamp
        return ttl is not None and self._now() >= created.timestamp() + ttl


async def main() -> None:
    """Run the controller in the cluster of the kubeconfig, or in which it runs."""
    client = AsyncClient()
    try:
        await WebsiteController(client).run()
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(main())
