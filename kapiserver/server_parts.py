"""Parts that every API server of this project has, a cluster or an extension API server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kapiserver.api.resource_client import Client
from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.config import AuditSettings, DebuggingSettings, StoreSettings
from kapiserver.apiserver.context import Filter, Handler, Server
from kapiserver.apiserver.feature_gates import FeatureGates
from kapiserver.apiserver.metrics import Metrics
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.routes import route
from kapiserver.apiserver.user import User
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.media_types import CBOR, MEDIA_TYPES, MediaType
from kapiserver.storage.concurrency.clock import Clock

if TYPE_CHECKING:
    from kapiserver.apiserver.audit.log import AuditLog
    from kapiserver.apiserver.tracing.tracer import Tracer
    from kapiserver.storage.encryption.file import EncryptionFile


def compose(server: Server, filters: Sequence[Filter]) -> Handler:
    """Wrap the filters around the routes, the first in the list outermost. With the page at /ui,
    they see its requests as requests of the API."""
    handle = route(server)
    for wrap in reversed(filters):
        handle = wrap(server, handle)
    page = server.page
    if page is None:
        return handle
    handle_request = handle

    async def handle_routed(request: Request) -> AnyResponse:
        page.route_to_api(request)
        return await handle_request(request)

    return handle_routed


def new_client(server: Server, user: User, user_agent: str, authorize: bool) -> Client:
    """Return a client that makes its calls within the server; see `Server.client`."""
    from kapiserver.apiserver.internal_client import InternalClient  # not needed at start

    return InternalClient(server, user, user_agent=user_agent, authorize=authorize)


def make_audit(
    settings: AuditSettings, codecs: CodecFactory, clock: Clock, metrics: Metrics
) -> AuditLog | None:
    """Return the audit log; None if no setting asks for one. Raises BadConfiguration, OSError."""
    files = (settings.audit_policy_file, settings.audit_webhook_config_file)
    if not settings.audit_log_path and files == (None, None):
        return None
    from kapiserver.apiserver.audit.log import make_audit_log  # loads a YAML parser

    return make_audit_log(settings, codecs, clock, metrics)


def make_tracer(settings: DebuggingSettings) -> Tracer | None:
    """Return what traces requests; None if no setting asks for it. Raises BadConfiguration,
    ValueError without OpenTelemetry."""
    if settings.tracing_config_file is None:
        return None
    from kapiserver.apiserver.tracing import tracer  # loads OpenTelemetry

    return tracer.make_tracer(settings.tracing_config_file)


def make_encryption(
    settings: StoreSettings, clock: Clock, metrics: Metrics, scheme: Scheme
) -> EncryptionFile | None:
    """Return the rules of encryption at rest; None if no setting names a file. Raises
    InvalidEncryptionConfig."""
    if settings.encryption_provider_config is None:
        return None
    from kapiserver.storage.encryption.file import EncryptionFile  # loads a YAML parser

    root = f"{settings.key_root}/"

    def resource_of(key: str) -> str:
        resource = scheme.resource_at(key.removeprefix(root))
        if resource is None:
            return ""
        return f"{resource.name}.{resource.group}" if resource.group else resource.name

    return EncryptionFile(
        settings.encryption_provider_config,
        clock,
        is_reloaded=settings.encryption_provider_config_automatic_reload,
        reloads=metrics.encryption_reloads,
        metrics=metrics.encryption,
        resource_of=resource_of,
    )


@asynccontextmanager
async def started(encryption: EncryptionFile | None) -> AsyncIterator[None]:
    """Call the plugins of KMS providers until the block ends."""
    if encryption is None:
        yield
        return
    await encryption.start()
    try:
        yield
    finally:
        await encryption.close()


def media_types(gates: FeatureGates) -> Sequence[MediaType]:
    """Return the media types that a server reads and writes."""
    if "CBORServingAndStorage" in gates:
        return MEDIA_TYPES
    return [media for media in MEDIA_TYPES if media is not CBOR]
