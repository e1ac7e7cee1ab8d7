"""Calls of admission webhooks: one review posted, its response checked, metrics and annotations.

Mirrors callHook of pkg/admission/plugin/webhook/validating and mutating in k8s.io/apiserver.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from msgspec import Struct, field

from kapiserver.api import names
from kapiserver.api.go_format import quote
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.matching.rules import ResourceVariant
from kapiserver.apiserver.admission.matching.versioned_objects import VersionedObjects
from kapiserver.apiserver.admission.webhooks.configurations import Webhook
from kapiserver.apiserver.admission.webhooks.identities import WebhookIdentities
from kapiserver.apiserver.admission.webhooks.reviews import (
    BadReview,
    ReviewResponse,
    encode_review,
    read_response,
)
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import BadRequest, InternalError
from kapiserver.apiserver.metrics import WebhookLabels
from kapiserver.apiserver.status import STATUS_FIELDS
from kapiserver.apiserver.webhooks.client_config import ResolveService, service_endpoint
from kapiserver.apiserver.webhooks.credentials import ClientCredentials, FileStates
from kapiserver.apiserver.webhooks.http_client import (
    JSON_HEADERS,
    Call,
    HttpClient,
    WebhookFailed,
    new_tls_context,
)
from kapiserver.codecs.cost import cost_of
from kapiserver.storage.objects.store_registry import StoreRegistry

MAX_RESPONSE_BYTES = 8 << 20
"""The largest response of a webhook."""
_MAX_CONTEXTS = 1024
"""TLS contexts that are kept."""
_HEADERS: Mapping[str, str] = {**JSON_HEADERS, "User-Agent": "kube-apiserver-admission"}
_BAD_REQUEST, _OK, _UNAVAILABLE = 400, 200, 503
_ERROR_CODES = range(_BAD_REQUEST, 1000)
"""The status codes that a webhook may choose: HTTP's have three digits."""
_log = logging.getLogger(__name__)


class CallFailed(Exception):
    """The call of a webhook failed; `code` is for metrics."""

    def __init__(self, webhook: str, reason: str, *, code: int = _UNAVAILABLE) -> None:
        super().__init__(f"failed calling webhook {quote(webhook)}: {reason}")
        self.code = code


class Rejected(StatusError):
    """A webhook rejected the request, with a Status."""


class _TlsContext(Struct):
    states: FileStates
    context: ssl.SSLContext


class WebhookCaller(Struct):
    """Calls webhooks and keeps their connections open.

    identities  credentials of the server, by host
    client      sends the requests
    resolve     finds the addresses of services
    """

    identities: WebhookIdentities
    client: HttpClient
    resolve: ResolveService = service_endpoint
    _contexts: dict[tuple[str, str], _TlsContext] = field(default_factory=dict)

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        await self.client.close()

    async def post(self, stores: StoreRegistry, webhook: Webhook, body: bytes) -> bytes:
        """Post a review to a webhook and return the body of the response. Raises WebhookFailed."""
        config = webhook.client_config
        credentials = self.identities.credentials_of(config.host)
        context = self._context(config.host, config.authorities, credentials)
        call = Call(
            body=body,
            headers={**_HEADERS, **credentials.headers()},
            timeout=webhook.timeout,
            max_bytes=MAX_RESPONSE_BYTES,
        )
        address = await config.resolve_address(stores, self.resolve)
        response = await self.client.exchange(address, context, call)
        if not response.body:
            raise WebhookFailed(
                f"0-length response with status code: {response.status} and content type: "
                f"{response.headers.get('content-type', '')}"
            )
        return response.body

    def _context(
        self, host: str, authorities: str, credentials: ClientCredentials
    ) -> ssl.SSLContext:
        # Connections are shared by the calls with the same context. One context per host, because
        # two services may have the same endpoint and different certificates.
        key = (host, authorities)
        states = credentials.file_states()
        cached = self._contexts.get(key)
        if cached is not None and cached.states == states:
            return cached.context
        context = new_tls_context(authorities)
        try:
            credentials.load_certificate(context)
        except BadConfiguration as error:
            raise WebhookFailed(str(error)) from None
        if len(self._contexts) >= _MAX_CONTEXTS:
            self._contexts.clear()
        self._contexts[key] = _TlsContext(states, context)
        return context


class WebhookCall(Struct, frozen=True):
    """A call of one webhook for a request, as one variant of the request's resource."""

    caller: WebhookCaller
    webhook: Webhook
    variant: ResourceVariant
    attributes: Attributes
    is_mutating: bool

    @property
    def type(self) -> str:
        """The type of the webhook in metrics."""
        return "admit" if self.is_mutating else "validating"


Apply: TypeAlias = Callable[[ReviewResponse], Awaitable[None]]
"""Applies the patch in a response. Raises CallFailed for a response without a readable patch,
InternalError for a patch that the object does not take."""


async def call_webhook(
    server: Server, call: WebhookCall, objects: VersionedObjects, apply: Apply | None = None
) -> bool:
    """Call a webhook and apply the patch in its response. Return False if that failed and the
    webhook's failurePolicy is Ignore. Raises Rejected, BadRequest for a dry run that the webhook
    does not support, InternalError if the call failed."""
    started = time.perf_counter()
    webhook = call.webhook
    try:
        response = await _review(server, call, objects)
        if not response.allowed:
            raise _rejection(webhook.name, response.status)
        if apply is not None:
            await apply(response)
    except CallFailed as error:
        if not webhook.ignores_failures:
            _observe(server, call, started, error.code, error_type="calling_webhook_error")
            _log.warning("failing closed: %s", error)
            raise InternalError(str(error)) from None
        _observe(server, call, started, error.code)
        _log.warning("failing open: %s", error)
        server.metrics.webhooks.failed_open.add((webhook.name, call.type))
        return False
    except Rejected as error:
        _observe(server, call, started, error.code, error_type="no_error")
        raise
    except (BadRequest, InternalError):
        _observe(server, call, started, 0, error_type="apiserver_internal_error")
        raise
    _observe(server, call, started, _OK)
    return True


def _observe(
    server: Server, call: WebhookCall, started: float, code: int, *, error_type: str = ""
) -> None:
    labels = WebhookLabels(
        name=call.webhook.name,
        type=call.type,
        operation=call.attributes.operation,
        rejected="true" if error_type else "false",
    )
    server.metrics.observe_webhook(
        labels, time.perf_counter() - started, code, error_type=error_type
    )


async def _review(server: Server, call: WebhookCall, objects: VersionedObjects) -> ReviewResponse:
    """Return the response of the webhook. Raises CallFailed, BadRequest, InternalError."""
    webhook, attributes = call.webhook, call.attributes
    if attributes.dry_run and webhook.has_side_effects:
        raise BadRequest(f"admission webhook {quote(webhook.name)} does not support dry run")
    version = webhook.review_version
    if version is None:
        raise CallFailed(
            webhook.name,
            "could not create admission objects: webhook does not accept known AdmissionReview "
            "versions (v1, v1beta1)",
            code=_BAD_REQUEST,
        )
    new = await objects.json(await objects.object(call.variant.kind))
    old = await objects.json(await objects.old_object(call.variant.kind))
    uid = server.stores.identifiers.uid()
    body = encode_review(version, uid, attributes, call.variant, new, old)
    run = server.offloader.run
    try:
        data = await call.caller.post(server.stores, webhook, body)
    except WebhookFailed as error:
        code = error.status or _UNAVAILABLE
        raise CallFailed(webhook.name, f"failed to call webhook: {error}", code=code) from None
    try:
        response = await run(cost_of(data), _read, server, data, version, uid, call.is_mutating)
    except BadReview as error:
        prefix = (
            "received invalid webhook response" if error.is_decoded else "failed to call webhook"
        )
        raise CallFailed(webhook.name, f"{prefix}: {error}") from None
    _record(server, call, response)
    return response


def _read(server: Server, data: bytes, version: str, uid: str, is_mutating: bool) -> ReviewResponse:
    return read_response(server.scheme, data, version, uid, mutating=is_mutating)


def _record(server: Server, call: WebhookCall, response: ReviewResponse) -> None:
    """Add the response's warnings and audit annotations to those of the request."""
    for text in response.warnings:
        call.attributes.warnings.add(text)
    if server.audit is None:
        return
    for name, value in response.annotations.items():
        key = f"{call.webhook.name}/{name}"
        if key.count("/") != 1 or names.qualified_name(key):
            _log.warning("the webhook %s set an invalid audit annotation", call.webhook.name)
        else:
            call.attributes.audit.annotations.setdefault(key, value)


def _rejection(webhook: str, status: Tree | None) -> Rejected:
    """Return the error with the Status of a webhook that rejected a request."""
    tree: Tree = {"kind": "Status", "apiVersion": "v1", "metadata": {}, **(status or {})}
    code = tree.get("code") or 0
    tree["code"] = code if code in _ERROR_CODES else _BAD_REQUEST
    if tree.get("status") in (None, "", "Success"):
        tree["status"] = "Failure"
    denied = f"admission webhook {quote(webhook)} denied the request"
    explanation = tree.get("message") or tree.get("reason")
    tree["message"] = f"{denied}: {explanation}" if explanation else f"{denied} without explanation"
    return Rejected({name: tree[name] for name in STATUS_FIELDS if name in tree}, tree["code"])
