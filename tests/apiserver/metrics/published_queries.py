"""What the published dashboard, recording rules and alerts for the API server query.

Those of https://github.com/kubernetes-monitoring/kubernetes-mixin, version of August 2026: its
dashboard `apiserver`, the rules `kube_apiserver-*`, the alerts `kube_apiserver` and those of
`system_alerts` whose metrics an API server has. A query of a recorded series is listed by the
metrics that the rule reads. Labels that Prometheus adds (job, instance, cluster) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Query:
    """A metric that published queries read.

    labels      by which they select or sum, and a value that some series must have; "" for any
    used_by     panels, rules and alerts
    """

    metric: str
    used_by: str
    labels: dict[str, str] = field(default_factory=dict)


QUERIES = (
    Query(
        "apiserver_request_total",
        "availability, read and write SLI - requests and errors, burn rate, "
        "KubeAPITerminatedRequests",
        {"verb": "LIST", "code": "200", "resource": "namespaces"},
    ),
    Query(
        "apiserver_request_total",
        "availability and burn rate of writes",
        {"verb": "POST", "code": "201", "resource": "configmaps"},
    ),
    Query(
        "apiserver_request_sli_duration_seconds_count",
        "availability, burn rate",
        {"verb": "GET", "scope": "resource", "subresource": ""},
    ),
    *(
        Query(
            "apiserver_request_sli_duration_seconds_bucket",
            "availability, burn rate, read and write SLI - duration",
            {"verb": verb, "scope": scope, "resource": "", "le": le},
        )
        for verb, scope, le in (
            ("GET", "resource", "1"),
            ("LIST", "namespace", "5"),
            ("LIST", "cluster", "30"),
            ("POST", "resource", "1"),
            ("LIST", "cluster", "+Inf"),
        )
    ),
    Query(
        "apiserver_request_terminations_total",
        "KubeAPITerminatedRequests",
        {"verb": "LIST", "code": "429"},
    ),
    Query(
        "apiserver_client_certificate_expiration_seconds_bucket",
        "KubeClientCertificateExpiration",
        {"le": "+Inf"},
    ),
    Query(
        "apiserver_client_certificate_expiration_seconds_count", "KubeClientCertificateExpiration"
    ),
    Query(
        "aggregator_unavailable_apiservice_total",
        "KubeAggregatedAPIErrors",
        {"name": "v1.ext.example.com", "reason": "ServiceNotFound"},
    ),
    Query(
        "aggregator_unavailable_apiservice",
        "KubeAggregatedAPIDown",
        {"name": "v1.ext.example.com"},
    ),
    Query("workqueue_adds_total", "work queue add rate", {"name": ""}),
    Query("workqueue_depth", "work queue depth", {"name": ""}),
    Query(
        "workqueue_queue_duration_seconds_bucket", "work queue latency", {"name": "", "le": "10"}
    ),
    Query("process_resident_memory_bytes", "memory"),
    Query("process_cpu_seconds_total", "CPU usage"),
    Query("kubernetes_build_info", "KubeVersionMismatch", {"git_version": "v1.37.0+kapiserver"}),
)
"""The metrics that a server has."""

NO_DATA = {
    "go_goroutines": "the server is no Go program",
    "rest_client_requests_total": "only requests to webhooks count: others are calls without HTTP",
}
"""The metrics that published queries read and a server does not have, with the reason."""
