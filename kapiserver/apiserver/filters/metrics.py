"""Records the metrics of each request when its response or stream has ended.

Mirrors MonitorRequest of endpoints/metrics/metrics.go of k8s.io/apiserver.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Hashable

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.metrics import AllRequests, RequestLabels, RequestSeries
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse

_VERBS = {
    "get": "GET",
    "list": "LIST",
    "watch": "WATCH",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
    "post": "POST",
    "put": "PUT",
}
_NOT_IN_SLI = frozenset(("mutating-webhook", "validating-webhook", "apf-queue-wait"))
"""Spans that the SLI duration leaves out."""
_READ_VERBS = ("get", "list")
_APPLY_TYPE = "application/apply-patch"
_PATHS = frozenset(
    ("api", "apis", "healthz", "livez", "metrics", "openapi", "openid", "readyz", "version")
)


def record_metrics(server: Server, next_handler: Handler) -> Handler:
    """Count every request when it completes; its labels depend on its target."""
    requests = server.metrics.requests
    record = functools.partial(_record, requests, server.scheme)

    def handle(request: Request) -> Awaitable[AnyResponse]:
        request.on_complete(record)
        if request.info.is_long_running:
            return _count_long_running(requests, request, next_handler)
        return next_handler(request)

    return handle


async def _count_long_running(
    requests: AllRequests, request: Request, next_handler: Handler
) -> AnyResponse:
    response = await next_handler(request)
    labels = labels_of(request)._replace(dry_run="")
    open_streams = requests.of(labels.group, labels.resource).long_running
    open_streams.add(labels)
    request.on_complete(lambda _: open_streams.add(labels, -1))
    return response


def _record(requests: AllRequests, scheme: Scheme, request: Request) -> None:
    # A tuple of attributes is the key, because creating RequestLabels would cost more.
    info, outcome = request.info, request.outcome
    assert outcome is not None
    if request.target is None or info.verb == "patch":
        key: Hashable = labels_of(request)
    else:
        key = (
            info.verb,
            info.version,
            info.resource,
            info.subresource,
            info.is_item,
            info.namespace == "",
            "dryRun" in request.query,
        )
    series = requests.by_key.get(key)
    if series is None:
        series = _add_series(requests, scheme, key, request)
    try:
        series.statuses[outcome.status] += 1
    except KeyError:
        series.statuses[outcome.status] = 1
    if info.verb != "watch":
        seconds = time.perf_counter() - request.trace.start
        series.seconds.observe(seconds)
        is_read = info.verb in _READ_VERBS
        has_waited = request.ticket is not None and request.ticket.has_waited
        if not is_read or info.subresource or has_waited:  # other reads call no webhook
            seconds -= request.trace.seconds(_NOT_IN_SLI)
        series.shared.sli_seconds.observe(seconds)
        if is_read:
            series.shared.body_bytes.observe(outcome.bytes_sent)


def _add_series(
    requests: AllRequests, scheme: Scheme, key: Hashable, request: Request
) -> RequestSeries:
    """Return the series of a request whose key is new. If the definition of its resource is gone by
    now, its labels are those of a request for an unknown resource."""
    labels = labels_of(request)
    is_custom = request.target is not None and request.target.resource.definition
    served = scheme.custom.served_versions(labels.group, labels.resource)
    if is_custom and labels.version not in served:
        key = labels = labels._replace(group="", version="", resource="", subresource="", scope="")
    series = requests.of(labels.group, labels.resource).with_labels(labels)
    requests.by_key[key] = series
    return series


def labels_of(request: Request) -> RequestLabels:
    """Return the labels of a request, whose number is bounded whatever clients send."""
    info, target = request.info, request.target
    verb = _VERBS.get(info.verb, "other")
    if verb == "PATCH" and request.header("Content-Type").startswith(_APPLY_TYPE):
        verb = "APPLY"
    dry_run = "All" if "dryRun" in request.query else ""
    if target is None:
        path = request.path.strip("/").partition("/")[0]
        path = "/" + path if path in _PATHS and not info.is_resource_request else ""
        return RequestLabels(verb, dry_run, "", "", "", path, "")
    scope = "resource" if info.is_item or verb == "POST" else "cluster"
    if scope == "cluster" and info.namespace:
        scope = "namespace"
    version, resource = target.version, target.resource.name
    return RequestLabels(
        verb, dry_run, version.group, version.version, resource, info.subresource, scope
    )
