"""Audit events: what is recorded about one request at each stage. Mirrors pkg/audit/request.go of
k8s.io/apiserver."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import orjson
from msgspec import Struct

from kapiserver.api.group import find_deprecation
from kapiserver.api.scalar_types import format_duration
from kapiserver.api.types import Tree
from kapiserver.apiserver.audit.policy import LEVEL_NAMES, AuditDecision, Level
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.target import Target
from kapiserver.apiserver.user import user_info
from kapiserver.codecs.codec_factory import CodecFactory, RecognizingSerializer
from kapiserver.codecs.errors import CodecError
from kapiserver.spans import Trace

_DEPRECATED, _REMOVED_RELEASE = "k8s.io/deprecated", "k8s.io/removed-release"
_DECISION, _REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
_LATENCY = "apiserver.latency.k8s.io"
_SLOW_SECONDS = 0.5
"""The completion of a slower request has annotations with its latency."""
_RECORDED_SPANS = (
    "apf-queue-wait",
    "authentication",
    "authorization",
    "etcd",
    "mutating-webhook",
    "validating-webhook",
)
"""The names of spans that have an annotation."""


class RecordedBody(NamedTuple):
    """The body of a request or response, as it was sent."""

    media_type: str
    data: bytes


class AuditEvent(Struct, frozen=True):
    """One event: its fields, and the bodies that `encode_event` adds to them."""

    fields: Tree
    request_body: RecordedBody | None = None
    response_body: RecordedBody | None = None
    omit_managed_fields: bool = False

    @property
    def has_bodies(self) -> bool:
        """Whether the event has the body of the request or of the response."""
        return self.request_body is not None or self.response_body is not None

    @property
    def body_bytes(self) -> int:
        """The bytes of the bodies."""
        bodies = (self.request_body, self.response_body)
        return sum(len(body.data) for body in bodies if body is not None)


class RequestRecord:
    """The parts of one request that audit records while it is handled.

    status          the Status of the error that the handler raised, or None
    request_body    bytes of the request, from level Request on
    response_body   bytes of the response, at level RequestResponse
    """

    def __init__(self, request: Request, decision: AuditDecision, received: float) -> None:
        self.decision = decision
        self.status: Tree | None = None
        self.request_body: RecordedBody | None = None
        self.response_body: RecordedBody | None = None
        self._request = request
        self._received = received

    @property
    def trace(self) -> Trace:
        """The spans of the request."""
        return self._request.trace

    def event(self, stage: str, now: float, *, code: int = 0) -> AuditEvent:
        """Return the event of a stage. `now` is in seconds since 1970, `code` is the status of the
        response."""
        request, impersonator = self._request, self._request.impersonator
        level = self.decision.level
        fields: Tree = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": LEVEL_NAMES[level],
            "auditID": request.audit.id,
            "stage": stage,
            "requestURI": request.uri,
            "verb": request.info.verb,
            "user": user_info(impersonator.user if impersonator is not None else request.user),
        }
        if impersonator is not None:
            fields["impersonatedUser"] = user_info(request.user)
            if constraint := impersonator.constraint:
                fields["authenticationMetadata"] = {"impersonationConstraint": constraint}
        fields["sourceIPs"] = _source_addresses(request)
        if agent := request.header("User-Agent"):
            fields["userAgent"] = agent
        if reference := _object_reference(request):
            fields["objectRef"] = reference
        if code:
            fields["responseStatus"] = {"metadata": {}, **_error_fields(self.status), "code": code}
        fields["requestReceivedTimestamp"] = _micro_time(self._received)
        fields["stageTimestamp"] = _micro_time(now)
        if annotations := self._annotations(stage, now):
            fields["annotations"] = annotations
        return AuditEvent(
            fields,
            self.request_body if level >= Level.REQUEST else None,
            self.response_body if level >= Level.REQUEST_RESPONSE else None,
            self.decision.omit_managed_fields,
        )

    def _annotations(self, stage: str, now: float) -> dict[str, str]:
        request = self._request
        annotations = dict(request.audit.annotations)
        decision = request.decision
        if decision is not None and decision.error and not decision.allowed:
            annotations[_REASON] = "internal error"
        elif decision is not None:
            annotations[_DECISION] = "allow" if decision.allowed else "forbid"
            annotations[_REASON] = decision.reason
        if request.target is not None and request.target.deprecation:
            annotations |= _deprecation_annotations(request.target)
        if stage == "ResponseComplete" and now - self._received > _SLOW_SECONDS:
            annotations |= _latency_annotations(request, now - self._received)
        return annotations


def encode_event(event: AuditEvent, codecs: CodecFactory) -> bytes:
    """Return an event as one line of JSON."""
    fields = dict(event.fields)  # the event may have other backends
    for name, body in (
        ("requestObject", event.request_body),
        ("responseObject", event.response_body),
    ):
        if body is not None:
            value = _body_value(body, codecs)
            if event.omit_managed_fields:
                _drop_managed_fields(value)
            if value is not None:
                fields[name] = value
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def legacy_line(event: AuditEvent) -> bytes:
    """Return an event in the format `legacy`: a line of text without bodies."""
    fields = event.fields
    user = fields["user"]
    impersonated = fields.get("impersonatedUser") or {}
    groups = ",".join(f'"{group}"' for group in user.get("groups") or ())
    reference = fields.get("objectRef") or {}
    status = fields.get("responseStatus") or {}
    texts = {
        "AUDIT: id": fields["auditID"],
        "stage": fields["stage"],
        "ip": ",".join(fields["sourceIPs"]),
        "method": fields["verb"],
        "user": user.get("username") or "<none>",
        "groups": groups or "<none>",
        "as": impersonated.get("username") or "<self>",
        "asgroups": ",".join(impersonated.get("groups") or ()) or "<lookup>",
        "user-agent": fields.get("userAgent") or "",
        "namespace": reference.get("namespace") or "<none>",
        "uri": fields["requestURI"],
        "response": status.get("code") or "<deferred>",
    }
    pairs = " ".join(f"{name}={orjson.dumps(str(text)).decode()}" for name, text in texts.items())
    return f"{fields['stageTimestamp']} {pairs}\n".encode()


def _source_addresses(request: Request) -> list[str]:
    """Return the addresses of proxies and of the client, the nearest last."""
    forwarded = [part.strip() for part in request.header("X-Forwarded-For").split(",")]
    addresses = [address for address in forwarded if address]
    if request.remote and request.remote not in addresses[-1:]:
        addresses.append(request.remote)
    return addresses


def _object_reference(request: Request) -> Tree:
    info = request.info
    if not info.is_resource_request:
        return {}
    from_body = request.audit.object_reference
    parts: Mapping[str, str] = {
        "resource": info.resource,
        "namespace": info.namespace or from_body.get("namespace", ""),
        "name": info.name or from_body.get("name", ""),
        "uid": from_body.get("uid", ""),
        "apiGroup": info.version.group,
        "apiVersion": info.version.version,
        "resourceVersion": from_body.get("resourceVersion", ""),
        "subresource": info.subresource,
    }
    return {name: text for name, text in parts.items() if text}


def _deprecation_annotations(target: Target) -> Mapping[str, str]:
    deprecation = find_deprecation(target.resource, target.version)
    if deprecation is None or not deprecation.removed_in:
        return {_DEPRECATED: "true"}
    return {_DEPRECATED: "true", _REMOVED_RELEASE: f"1.{deprecation.removed_in}"}


def _latency_annotations(request: Request, seconds: float) -> Mapping[str, str]:
    spans = request.trace.seconds_by_name()
    parts = {name: spans[name] for name in _RECORDED_SPANS if name in spans}
    return {
        f"{_LATENCY}/{name}": format_duration(round(spent * 1e9))
        for name, spent in {**parts, "total": seconds}.items()
    }


def _error_fields(status: Tree | None) -> Tree:
    fields = ("status", "message", "reason", "details")
    return {field: status[field] for field in fields if status.get(field)} if status else {}


def _micro_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _body_value(body: RecordedBody, codecs: CodecFactory) -> Tree | list[Tree] | None:
    """Return the JSON value of a body; None for one that is not an object, such as a log."""
    try:
        if "json" in body.media_type:
            value: Tree | list[Tree] = orjson.loads(body.data)
            return value
        return RecognizingSerializer(codecs).decode(body.data).object
    except (CodecError, ValueError):
        return None


def _drop_managed_fields(value: Tree | list[Tree] | None) -> None:
    """Remove metadata.managedFields of an object and of the items of a list."""
    if not isinstance(value, dict):
        return
    for obj in (value, *(value.get("items") or ())):
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        if isinstance(metadata, dict):
            metadata.pop("managedFields", None)
