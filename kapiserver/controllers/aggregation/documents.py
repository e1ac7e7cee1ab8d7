"""Keep the documents of extension API servers fresh: their resources, and their OpenAPI.

Every server has the documents in memory. They are fetched when an APIService becomes available, and
again every minute with the ETags of the last ones. Mirrors the discovery manager and the OpenAPI
controllers of k8s.io/kube-aggregator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.apiserver.aggregation.api_services import (
    APIService,
    OpenAPISource,
    ServiceReference,
)
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller

if TYPE_CHECKING:
    from kapiserver.apiserver.aggregation.documents import Discovery

REFRESH_SECONDS = 60.0


class _Documents(Controller[str]):
    """A control loop whose queue holds names of APIServices that name a Service."""

    workers = 2
    min_retry_seconds = 0.5
    max_retry_seconds = REFRESH_SECONDS

    def set_up(self) -> None:
        """Queue the APIServices that name a Service, now and when they change."""
        api_services = self.server.api_services
        self.add_subscription(api_services.subscribe(self.queue.add))
        for name in api_services.remote:
            self.queue.add(name)

    async def reconcile(self, name: str) -> None:
        """Fetch the documents of an APIService, and again later. Raises FetchFailed."""
        api_service = self.server.api_services.remote.get(name)
        if api_service is not None and api_service.is_available:
            await self.fetch(api_service)
            self.queue.add_after(name, REFRESH_SECONDS, is_regular=True)

    async def fetch(self, api_service: APIService) -> None:
        """Fetch the documents of an APIService. Raises FetchFailed."""
        raise NotImplementedError


class DiscoveryDocuments(_Documents):
    """Fetches the resources of each group-version."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._by_service: dict[ServiceReference, Discovery] = {}
        """What each Service answered last."""

    async def fetch(self, api_service: APIService) -> None:
        """Fetch the resources of an APIService. Raises FetchFailed."""
        from kapiserver.apiserver.aggregation.documents import FetchFailed, fetch_discovery

        api_services, service = self.server.api_services, api_service.service
        assert service is not None
        last_discovery = self._by_service.get(service)
        try:
            discovery = await fetch_discovery(self.server.back_ends(), api_service, last_discovery)
        except FetchFailed:
            api_services.set_discovery(api_service.name, None)
            raise
        services = {api_service.service for api_service in api_services.remote.values()}
        discoveries = {
            key: discovery for key, discovery in self._by_service.items() if key in services
        }
        self._by_service = discoveries | {service: discovery}
        version = {"version": api_service.version.version}
        resources = discovery.versions.get(api_service.version, version)
        api_services.set_discovery(api_service.name, resources)


class OpenAPIDocuments(_Documents):
    """Fetches the OpenAPI of each group-version."""

    min_retry_seconds = REFRESH_SECONDS
    max_retry_seconds = 3600.0

    async def fetch(self, api_service: APIService) -> None:
        """Fetch the OpenAPI of an APIService. Raises FetchFailed."""
        from kapiserver.apiserver.aggregation.documents import fetch_openapi

        api_services, name = self.server.api_services, api_service.name
        source = api_services.openapi.get(name, OpenAPISource())
        back_ends = self.server.back_ends()
        api_services.set_openapi(name, await fetch_openapi(back_ends, api_service, source))
