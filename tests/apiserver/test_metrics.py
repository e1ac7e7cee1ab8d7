"""/metrics: the series after requests, and the bound of their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

Samples = dict[str, list[tuple[dict[str, str], float]]]
MAPS = "/api/v1/namespaces/default/configmaps"


def _scrape(api: Any, accept: str = "*/*") -> Samples:
    response = api.get("/metrics", accept=accept)
    assert response.status == 200
    samples: Samples = {}
    for family in text_string_to_metric_families(response.body.decode()):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def _value(samples: Samples, metric: str, /, **labels: str) -> float:
    return sum(
        value
        for sample_labels, value in samples.get(metric, ())
        if labels.items() <= sample_labels.items()
    )


def test_requests(make_server: Callable[..., Any]) -> None:
    """Requests are counted by verb, resource, scope and status code. Durations and response sizes
    are observed."""
    api = make_server().api
    assert api.post(MAPS, {"metadata": {"name": "a"}}).status == 201
    assert api.post(MAPS, {"metadata": {"name": "a"}}).status == 409
    assert api.get(f"{MAPS}/a").status == 200
    assert api.get(MAPS).status == 200
    assert api.get("/api/v1/configmaps").status == 200
    samples = _scrape(api)
    maps = {"resource": "configmaps", "group": "", "version": "v1", "component": "apiserver"}
    total = "apiserver_request_total"
    assert _value(samples, total, verb="POST", scope="resource", code="201", **maps) == 1
    assert _value(samples, total, verb="POST", scope="resource", code="409", **maps) == 1
    assert _value(samples, total, verb="GET", scope="resource", code="200", **maps) == 1
    assert _value(samples, total, verb="LIST", scope="namespace", code="200", **maps) == 1
    assert _value(samples, total, verb="LIST", scope="cluster", code="200", **maps) == 1
    seconds = "apiserver_request_duration_seconds"
    assert _value(samples, f"{seconds}_count", verb="POST", **maps) == 2
    assert _value(samples, f"{seconds}_bucket", verb="POST", le="60", **maps) == 2
    sli = "apiserver_request_sli_duration_seconds"
    assert _value(samples, f"{sli}_count", verb="POST", **maps) == 2
    assert _value(samples, f"{sli}_bucket", verb="POST", le="0.05", **maps) >= 0
    assert all("dry_run" not in labels for labels, _ in samples[f"{sli}_count"])
    assert _value(samples, "apiserver_response_sizes_count", verb="GET", **maps) == 1
    assert _value(samples, "apiserver_response_sizes_sum", verb="LIST", **maps) > 100
    assert _value(samples, "apiserver_current_inflight_requests", request_kind="readOnly") == 1
    assert _value(samples, "etcd_request_duration_seconds_count", operation="create") >= 1
    admission = "apiserver_admission_controller_admission_duration_seconds_count"
    assert _value(samples, admission, name="NamespaceLifecycle", rejected="false") >= 2
    webhooks = {"name": "ValidatingAdmissionWebhook", "operation": "CREATE", "rejected": "false"}
    assert _value(samples, admission, type="validate", **webhooks) >= 2
    assert _value(samples, "apiserver_resource_objects", resource="configmaps") >= 1
    assert _value(samples, "process_resident_memory_bytes") > 1e6


def test_watches(make_server: Callable[..., Any]) -> None:
    """An open watch counts as a long-running request until it ends."""
    api = make_server().api
    with api.watch(f"{MAPS}?watch=1&timeoutSeconds=30&resourceVersion=1") as stream:
        api.post(MAPS, {"metadata": {"name": "a"}})
        stream.events(1)
        samples = _scrape(api)
        labels = {"resource": "configmaps"}
        assert _value(samples, "apiserver_longrunning_requests", verb="WATCH", **labels) == 1
        assert _value(samples, "apiserver_registered_watchers", **labels) == 1
        assert _value(samples, "apiserver_watch_events_total", **labels) >= 1
    api.post(MAPS, {"metadata": {"name": "b"}})
    samples = _scrape(api)
    assert _value(samples, "apiserver_request_total", verb="WATCH", code="200", **labels) <= 1


def test_labels_are_bounded(make_server: Callable[..., Any]) -> None:
    """Unknown paths, verbs and resources add no series."""
    api = make_server().api
    api.get("/api/v1/warm")
    api.get("/warm")
    before = len(_scrape(api)["apiserver_request_total"])
    for number in range(50):
        api.get(f"/api/v1/unknown{number}")
        api.get(f"/apis/group{number}.example.com/v1/things")
        api.get(f"/path{number}")
        api.get(f"/api/v1/namespaces/default/configmaps/x/sub{number}")
    assert len(_scrape(api)["apiserver_request_total"]) - before <= 2


def test_openmetrics(make_server: Callable[..., Any]) -> None:
    """A client that accepts OpenMetrics gets it; methods other than GET are a 405."""
    api = make_server().api
    response = api.get("/metrics", accept="application/openmetrics-text")
    assert response.headers["Content-Type"].startswith("application/openmetrics-text")
    assert response.body.endswith(b"# EOF\n")
    assert api.post("/metrics", {}).status == 405
    assert "/metrics" in api.get("/").json["paths"]


def test_work_queues(make_server: Callable[..., Any]) -> None:
    """Work queues count added and reconciled items."""
    api = make_server().api
    assert api.post("/api/v1/namespaces", {"metadata": {"name": "a"}}).status == 201
    with api.watch("/api/v1/namespaces/a/serviceaccounts?watch=1&timeoutSeconds=30") as stream:
        stream.event()
    samples = _scrape(api)
    queue = {"name": "serviceaccount-controller"}
    assert _value(samples, "workqueue_adds_total", **queue) >= 1
    assert _value(samples, "workqueue_queue_duration_seconds_count", **queue) >= 1
    assert _value(samples, "workqueue_depth", **queue) == 0


def test_authenticators(api):
    """The counters of service account tokens are there before the first token."""
    text = api.get("/metrics").body.decode()
    for kind in ("legacy", "stale", "valid"):
        assert f"\nserviceaccount_{kind}_tokens_total " in text
