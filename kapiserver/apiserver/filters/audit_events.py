"""Writes audit events: when a request is received, when its stream starts, when it is complete.

Mirrors filters/audit.go and filters/authn_audit.go of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from msgspec.structs import replace

from kapiserver.apiserver.audit.event import RecordedBody, RequestRecord
from kapiserver.apiserver.audit.log import AuditLog
from kapiserver.apiserver.audit.policy import Level
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import InternalError, Unauthorized, status_of
from kapiserver.apiserver.request import Reader, Request
from kapiserver.apiserver.response import AnyResponse, Response, StreamResponse
from kapiserver.codecs.json import encode_value

_JSON = "application/json"
MAX_BODY_BYTES = 10 << 20
"""A larger response is recorded without its body."""


def audit_failed_authentication(server: Server, next_handler: Handler) -> Handler:
    """Record requests with invalid credentials; without an audit log return `next_handler`."""
    audit = server.audit
    if audit is None:
        return next_handler

    async def handle(request: Request) -> AnyResponse:
        received = audit.clock.now()
        try:
            return await next_handler(request)
        except Unauthorized as error:
            decision = audit.policy.decide(request.user, request.info)
            if not request.audited and decision.level is not Level.NONE:
                record = RequestRecord(request, decision, received)
                status = status_of(error, request.info) or {}
                record.status = {**status, "message": _failure_message(request)}
                _record_completion(audit, request, record)
            raise

    return handle


def _failure_message(request: Request) -> str:
    methods = ["x509"] if request.certificate is not None else []
    scheme = request.header("Authorization").partition(" ")[0].lower()
    if scheme in ("basic", "bearer"):
        methods.append(scheme)
    if not methods:
        return "Authentication failed, no credentials provided"
    return f"Authentication failed, attempted: {', '.join(methods)}"


def audit_requests(server: Server, next_handler: Handler) -> Handler:
    """Record requests as the policy says; without an audit log return `next_handler`."""
    audit = server.audit
    if audit is None:
        return next_handler

    async def handle(request: Request) -> AnyResponse:
        request.audited = True
        now = audit.clock.now()
        decision = audit.policy.decide(request.user, request.info)
        if decision.level is Level.NONE:
            return await next_handler(request)
        record = RequestRecord(request, decision, now)
        event = record.event("RequestReceived", now)
        if not await audit.write(event, "RequestReceived", decision.omit_stages):
            audit.metrics.audit_rejections += 1
            raise InternalError("failed to store audit event")
        if decision.level >= Level.REQUEST:
            request.audits_bodies = True
            request.read_body = _recording_reader(request, record)
        _record_completion(audit, request, record)
        try:
            response = await next_handler(request)
        except Exception as error:
            record.status = status_of(error, request.info)
            if record.status is None:
                event = record.event("Panic", audit.clock.now(), code=500)
                await audit.write(event, "Panic", decision.omit_stages)
            elif decision.level >= Level.REQUEST_RESPONSE:
                record.response_body = RecordedBody(_JSON, encode_value(record.status))
            raise
        if isinstance(response, StreamResponse):
            event = record.event("ResponseStarted", audit.clock.now(), code=response.status)
            await audit.write(event, "ResponseStarted", decision.omit_stages)
        elif decision.level >= Level.REQUEST_RESPONSE:
            response = _record_response(response, record)
        return response

    return handle


def _record_completion(audit: AuditLog, request: Request, record: RequestRecord) -> None:
    def on_complete(completed: Request) -> None:
        outcome = completed.outcome
        assert outcome is not None
        event = record.event("ResponseComplete", audit.clock.now(), code=outcome.status)
        audit.submit(event, "ResponseComplete", record.decision.omit_stages)

    request.on_complete(on_complete)


def _recording_reader(request: Request, record: RequestRecord) -> Reader:
    read_body = request.read_body

    async def read(limit: int) -> bytes:
        data = await read_body(limit)
        if data:
            record.request_body = RecordedBody(request.header("Content-Type"), data)
        return data

    return read


def _record_response(response: Response, record: RequestRecord) -> Response:
    if isinstance(response.body, bytes):
        record.response_body = RecordedBody(response.media_type, response.body)
        return response
    slices = _recorded_slices(response.body, response.media_type, record)
    return replace(response, body=slices)


async def _recorded_slices(
    slices: AsyncIterator[bytes], media_type: str, record: RequestRecord
) -> AsyncIterator[bytes]:
    parts: list[bytes] = []
    size = 0
    async for part in slices:
        size += len(part)
        if size <= MAX_BODY_BYTES:
            parts.append(part)
        else:
            parts.clear()
        yield part
    if parts:
        record.response_body = RecordedBody(media_type, b"".join(parts))
