"""The metrics of requests by resource and verb, with kube-apiserver's names, types and buckets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import Deprecation, GroupVersion, find_deprecation
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.metrics import (
    REQUEST_SECONDS,
    RESPONSE_BYTES,
    SLI_SECONDS,
    RequestLabels,
    RequestSeries,
    ResourceRequests,
    SharedSeries,
)
from kapiserver.apiserver.serving.metrics.text import Family

_REQUEST_LABELS = (*RequestLabels._fields, "component")
_SHARED_LABELS = tuple(name for name in _REQUEST_LABELS if name != "dry_run")
_COMPONENT = "apiserver"
_BODY_VERBS = {"deletecollection": "delete_collection"}
"""Verbs that the sizes of bodies have another name for."""


class RequestFamilies:
    """Iterates over the metrics of the requests of one server.

    Requests add series while a scrape is written, so each dict is copied before the iteration.
    """

    def __init__(self, server: Server) -> None:
        self._server = server

    def __iter__(self) -> Iterator[Family]:
        yield from self._counts()
        yield from self._deprecated_requests()
        yield from self._latencies()

    def _counts(self) -> Iterator[Family]:
        yield Family(
            name="apiserver_request_total",
            type="counter",
            text="Requests by verb, resource, scope and status.",
            labels=(*_REQUEST_LABELS, "code"),
            series=(
                ((*labels, _COMPONENT, str(status)), count)
                for labels, series in self._series()
                for status, count in list(series.statuses.items())
            ),
        )
        yield Family(
            name="apiserver_request_terminations_total",
            type="counter",
            text="Requests that the server ended in self-defence: they were too many, or took too "
            "long.",
            labels=(*_SHARED_LABELS, "code"),
            series=(
                ((*_shared_labels(labels), str(code)), count)
                for (labels, code), count in list(
                    self._server.metrics.requests.terminations.values.items()
                )
            ),
        )
        yield Family(
            name="apiserver_longrunning_requests",
            type="gauge",
            text="Open watches and other streams.",
            labels=_SHARED_LABELS,
            series=(
                (_shared_labels(labels), value)
                for requests in self._resources()
                for labels, value in list(requests.long_running.values.items())
            ),
        )
        kinds = self._server.metrics.in_flight
        yield Family(
            name="apiserver_current_inflight_requests",
            type="gauge",
            text="Requests in flight, without watches.",
            labels=("request_kind",),
            series=[
                ((kind.kind,), kind.executing.value) for kind in (kinds.mutating, kinds.reading)
            ],
        )

        yield Family(
            name="apiserver_tls_handshake_errors_total",
            type="counter",
            text="TLS handshakes with clients of this process that failed.",
            series=[((), self._server.failed_handshakes())],
        )

    def _deprecated_requests(self) -> Iterator[Family]:
        requested = {
            (labels.group, labels.version, labels.resource, labels.subresource)
            for labels, _ in self._series()
            if labels.resource
        }
        yield Family(
            name="apiserver_requested_deprecated_apis",
            type="gauge",
            text="1 for each deprecated version that was requested.",
            labels=("group", "version", "resource", "subresource", "removed_release"),
            series=(
                ((*labels, f"1.{deprecation.removed_in}" if deprecation.removed_in else ""), 1)
                for labels in sorted(requested)
                if (deprecation := self._deprecation(*labels)) is not None
            ),
        )

    def _deprecation(
        self, group: str, version: str, name: str, subresource: str
    ) -> Deprecation | None:
        """Return the deprecation of a version of a resource; None if it is not deprecated. A
        subresource of another kind has a life cycle of its own."""
        group_version = GroupVersion(group, version)
        try:
            resource = self._server.scheme.resource(group_version, name)
        except NotRegistered:  # its definition is gone
            return None
        if any(declared.kind for declared in resource.subresources if declared.name == subresource):
            return None
        return find_deprecation(resource, group_version)

    def _latencies(self) -> Iterator[Family]:
        yield Family(
            name="apiserver_request_duration_seconds",
            type="histogram",
            text="Seconds from the request's head to the end of its response; no watches.",
            labels=_REQUEST_LABELS,
            series=(
                ((*labels, _COMPONENT), series.seconds)
                for labels, series in self._series()
                if any(series.seconds.counts)
            ),
            bounds=REQUEST_SECONDS,
        )
        yield Family(
            name="apiserver_request_sli_duration_seconds",
            type="histogram",
            text="Seconds of a request without the time in admission webhooks and queues; no "
            "watches.",
            labels=_SHARED_LABELS,
            series=(
                (_shared_labels(labels), shared.sli_seconds)
                for labels, shared in self._shared()
                if any(shared.sli_seconds.counts)
            ),
            bounds=SLI_SECONDS,
        )
        yield Family(
            name="apiserver_response_sizes",
            type="histogram",
            text="Bytes of the bodies that GET and LIST returned.",
            labels=_SHARED_LABELS,
            series=(
                (_shared_labels(labels), shared.body_bytes)
                for labels, shared in self._shared()
                if any(shared.body_bytes.counts)
            ),
            bounds=RESPONSE_BYTES,
        )

        sizes = self._server.metrics.request_bytes
        yield Family(
            name="apiserver_request_body_size_bytes",
            type="histogram",
            text="Bytes of the bodies of requests.",
            labels=("group", "resource", "verb"),
            series=[
                ((group, resource, _BODY_VERBS.get(verb, verb)), observations)
                for (group, resource, verb), observations in sizes.values.items()
            ],
            bounds=sizes.bounds,
        )

    def _resources(self) -> Sequence[ResourceRequests]:
        return [*self._server.metrics.requests.resources.values()]

    def _series(self) -> Iterator[tuple[RequestLabels, RequestSeries]]:
        for requests in self._resources():
            yield from list(requests.series.items())

    def _shared(self) -> Iterator[tuple[RequestLabels, SharedSeries]]:
        for requests in self._resources():
            yield from list(requests.shared.items())


def _shared_labels(labels: RequestLabels) -> Sequence[str]:
    return (labels.verb, *labels[2:], _COMPONENT)
