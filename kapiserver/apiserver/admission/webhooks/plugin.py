"""The base of the plugins MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

A plugin subscribes to its configurations at the first write. Mirrors
pkg/admission/plugin/webhook/generic of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kapiserver.apiserver.admission.manifest_configuration import load_static_manifests
from kapiserver.apiserver.admission.matching.index import Candidate
from kapiserver.apiserver.admission.plugin import PluginContext
from kapiserver.apiserver.admission.webhook_configuration import read_webhook_settings
from kapiserver.apiserver.admission.webhooks.calls import WebhookCaller
from kapiserver.apiserver.admission.webhooks.configurations import Webhook, WebhookConfigurations
from kapiserver.apiserver.admission.webhooks.identities import WebhookIdentities
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.webhooks.client_config import service_endpoint
from kapiserver.apiserver.webhooks.http_client import HttpClient

_EXCLUSION_GATE = "ExcludeAdmissionWebhookVirtualResources"


class WebhookPlugin:
    """The webhooks of one kind of configuration, and their caller."""

    kind: ClassVar[str]
    """The kind of the configurations."""

    def __init__(self, context: PluginContext) -> None:
        """Read the credentials and the static manifests. Raises BadAdmissionConfiguration."""
        settings = read_webhook_settings(context.configuration)
        try:
            identities = WebhookIdentities(settings.kubeconfig)
        except BadConfiguration as error:
            raise context.configuration.error(str(error)) from None
        self.caller = WebhookCaller(
            identities,
            HttpClient(context.metrics.client),
            context.resolve_service or service_endpoint,
        )
        self._resource = f"{self.kind.lower()}s"
        self._manifests = load_static_manifests(
            context, settings.manifests, {self.kind: self._resource}
        )
        self._configurations: WebhookConfigurations | None = None

    def is_idle(self, _server: Server, attributes: Attributes) -> bool:
        """Whether it is known already that no rule of a webhook matches a request."""
        configurations = self._configurations
        return configurations is not None and configurations.is_idle(attributes)

    async def candidates(
        self, server: Server, attributes: Attributes
    ) -> Sequence[Candidate[Webhook]]:
        """Return the webhooks whose rules match a request, in order. Raises StorageError."""
        configurations = self._configurations
        if configurations is None:
            configurations = self._configurations = WebhookConfigurations(
                self._resource,
                server.scheme,
                server.stores,
                self._manifests,
                sees_reviews=_EXCLUSION_GATE not in server.config.features.feature_gates,
            )
        return await configurations.candidates(attributes)

    async def close(self) -> None:
        """Cancel the subscription and close the connections. Idempotent."""
        if self._configurations is not None:
            self._configurations.close()
        await self.caller.close()
