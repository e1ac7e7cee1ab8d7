"""Writes audit events: when a request is received, when its stream starts, when it is complete.

Mirrors filters/audit.go and filters/authn_audit.go of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from msgspec.structs import replace

from kapiserver.apiserver.audit.event import RecordedBody, RequestRecord
from kapiserver.apiserver.audit.log import AuditLog
from kapiserver.apiserver.audit.policy import Level
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import InternalError, Unauthorized, status_of
from kapiserver.apiserver.request import Reader, Request
from kapiserver.apiserver.response import (
    AnyResponse,
    Response,
    StreamResponse,
    UpgradeResponse,
)
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
            if not request.audit.is_decided and decision.level is not Level.NONE:
                record = RequestRecord(request, decision, received)
                status = status_of(error, request.info) or {}
                record.status = {**status, "message": _failure_message(request)}
                await _Events(audit, record).complete(status.get("code", 0))
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
        request.audit.is_decided = True
        now = audit.clock.now()
        decision = audit.policy.decide(request.user, request.info)
        if decision.level is Level.NONE:
            return await next_handler(request)
        record = RequestRecord(request, decision, now)
        events = _Events(audit, record)
        if _changes_nothing(request) and not audit.is_strict:
            # The response waits for both events: the thread that writes them wakes once.
            events.submit("RequestReceived", now)
        elif not await events.write("RequestReceived", now):
            audit.metrics.audit_rejections += 1
            raise InternalError("failed to store audit event")
        if decision.level >= Level.REQUEST:
            request.audit.has_body = True
            request.read_body = _recording_reader(request, record)
        request.on_complete(events.complete_without_waiting)
        try:
            response = await next_handler(request)
        except Exception as error:
            record.status = status_of(error, request.info)
            if record.status is None:
                await events.write("Panic", audit.clock.now(), code=500)
                raise
            if decision.level >= Level.REQUEST_RESPONSE:
                record.response_body = RecordedBody(_JSON, encode_value(record.status))
            await events.complete(record.status.get("code", 0))
            raise
        if isinstance(response, StreamResponse):
            await events.write("ResponseStarted", audit.clock.now(), code=response.status)
            return replace(response, before_end=lambda: events.complete(response.status))
        if request.info.is_long_running:
            await events.write("ResponseStarted", audit.clock.now(), code=response.status)
        if isinstance(response, UpgradeResponse):
            return response
        return await _record_response(response, record, events)

    return handle


def _changes_nothing(request: Request) -> bool:
    """Report whether a request only reads objects: the request for a subresource may call another
    server."""
    return request.info.verb in ("get", "list", "watch") and not request.info.subresource


class _Events:
    """Writes the events of one request. That of stage ResponseComplete is written once: before the
    end of the response, or when the connection is lost before that."""

    def __init__(self, audit: AuditLog, record: RequestRecord) -> None:
        self._audit = audit
        self._record = record
        self._unwritten: list[asyncio.Future[bool]] = []
        self._is_complete = False

    def submit(self, stage: str, now: float, *, code: int = 0) -> None:
        """Begin to write the event of a stage; the next `write` waits for it, too."""
        event = self._record.event(stage, now, code=code)
        self._unwritten += self._audit.submit(event, stage, self._record.decision.omit_stages)

    async def write(self, stage: str, now: float, *, code: int = 0) -> bool:
        """Write the event of a stage, and wait for the backends in a blocking mode; return False if
        a backend in mode blocking-strict has lost it."""
        self.submit(stage, now, code=code)
        unwritten, self._unwritten = self._unwritten, []
        if not unwritten:
            return True
        with self._record.trace.detail("audit"):
            return all([await event for event in unwritten])

    async def complete(self, code: int) -> None:
        """Write the event of the end of the response, which has this status code."""
        if not self._is_complete:
            self._is_complete = True
            await self.write("ResponseComplete", self._audit.clock.now(), code=code)

    def complete_without_waiting(self, request: Request) -> None:
        """Begin to write the event of the end of the response, unless `complete` was called."""
        if not self._is_complete:
            self._is_complete = True
            assert request.outcome is not None
            code = request.outcome.status
            self.submit("ResponseComplete", self._audit.clock.now(), code=code)


def _recording_reader(request: Request, record: RequestRecord) -> Reader:
    read_body = request.read_body

    async def read(limit: int) -> bytes:
        data = await read_body(limit)
        if data:
            record.request_body = RecordedBody(request.header("Content-Type"), data)
        return data

    return read


async def _record_response(response: Response, record: RequestRecord, events: _Events) -> Response:
    """Record the end of a response, and its body at level RequestResponse. Return the response."""
    has_body = record.decision.level >= Level.REQUEST_RESPONSE and not response.is_passed_on
    if isinstance(response.body, bytes):
        if has_body:
            record.response_body = RecordedBody(response.media_type, response.body)
        await events.complete(response.status)
        return response
    slices = response.body
    if has_body:
        slices = _recorded_slices(slices, response.media_type, record)
    return replace(response, body=_completed_slices(slices, response.status, events))


async def _completed_slices(
    slices: AsyncIterator[bytes], status: int, events: _Events
) -> AsyncIterator[bytes]:
    async for part in slices:
        yield part
    await events.complete(status)


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
