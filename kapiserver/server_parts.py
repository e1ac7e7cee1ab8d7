"""Parts that every API server of this project has, a cluster or an extension API server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kapiserver.api.resource_client import Client
from kapiserver.apiserver.config import AuditSettings
from kapiserver.apiserver.context import Filter, Handler, Server
from kapiserver.apiserver.metrics import Metrics
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.routes import route
from kapiserver.apiserver.user import User
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.storage.concurrency.clock import Clock

if TYPE_CHECKING:
    from kapiserver.apiserver.audit.log import AuditLog


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
