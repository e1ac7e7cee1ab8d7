"""The metrics of the store, of watch caches, of lists and watches, and of access."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.apiserver.metrics.scrapes import scrape, value_of

MAPS = "/api/v1/namespaces/default/configmaps"
RESOURCE = {"group": "", "resource": "configmaps"}


def test_lists_and_watches(make_server: Callable[..., Any]) -> None:
    """Lists, their objects, watches and the sizes of their events are counted by resource."""
    api = make_server().api
    for name in ("a", "b"):
        metadata = {"name": name, "labels": {"name": name}}
        api.post(MAPS, {"metadata": metadata, "data": {"x": "y" * 2000}})
    first = api.get(f"{MAPS}?labelSelector=name%3Da").json
    assert len(first["items"]) == 1
    revision = first["metadata"]["resourceVersion"]
    old = f"{MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact"
    assert len(api.get(old).json["items"]) == 2
    with api.watch(f"{MAPS}?watch=1&timeoutSeconds=30") as stream:
        stream.events(2)
        api.post(MAPS, {"metadata": {"name": "c"}})
        stream.events(1)
    samples = scrape(api)
    cached = {"storage": "watchcache", **RESOURCE}
    assert value_of(samples, "apiserver_storage_list_total", index="", **cached) == 2
    assert value_of(samples, "apiserver_storage_list_fetched_objects_total", **cached) == 4
    assert value_of(samples, "apiserver_storage_list_returned_objects_total", **cached) == 3
    assert value_of(samples, "apiserver_init_events_total", **RESOURCE) == 2
    events = {"version": "v1", **RESOURCE}
    assert value_of(samples, "apiserver_watch_events_total", **events) == 3
    assert value_of(samples, "apiserver_watch_events_sizes_bucket", le="2048", **events) == 1
    assert value_of(samples, "apiserver_watch_events_sizes_sum", **events) > 4000
    for name in ("storage_events_received", "watch_cache_events_dispatched"):
        assert value_of(samples, f"apiserver_{name}_total", **RESOURCE) >= 3
    assert value_of(samples, "apiserver_watch_cache_initializations_total", **RESOURCE) == 1
    filled = "apiserver_watch_cache_initialization_duration_seconds_count"
    assert value_of(samples, filled, **RESOURCE) == 1
    assert value_of(samples, "watch_cache_capacity", **RESOURCE) >= 1024
    assert value_of(samples, "apiserver_resource_size_estimate_bytes", **RESOURCE) > 4000
    consistent = {"success": "true", "fallback": "false", **RESOURCE}
    assert value_of(samples, "apiserver_watch_cache_consistent_read_total", **consistent) >= 1
    assert value_of(samples, "apiserver_storage_size_bytes", storage_cluster_id="etcd-0") > 10_000


def test_writes(make_server: Callable[..., Any]) -> None:
    """Bodies, steps of admission and evaluations of Pod Security are counted."""
    api = make_server().api
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    api.post("/api/v1/namespaces", {"metadata": {"name": "strict", "labels": labels}})
    container = {"name": "a", "image": "a", "securityContext": {"privileged": True}}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    pod = {"metadata": {"name": "a"}, "spec": spec}
    assert api.post("/api/v1/namespaces/strict/pods", pod).status == 403
    api.post(MAPS, {"metadata": {"name": "a"}})
    assert api.patch(f"{MAPS}/a", {"data": {"x": "y"}}).status == 200
    samples = scrape(api)
    for verb in ("create", "patch"):
        size = value_of(samples, "apiserver_request_body_size_bytes_sum", verb=verb, **RESOURCE)
        assert size > 10
    step = "apiserver_admission_step_admission_duration_seconds_count"
    assert value_of(samples, step, type="admit", operation="CREATE", rejected="false") >= 2
    assert value_of(samples, step, type="validate", operation="CREATE", rejected="true") == 1
    evaluation = {"policy_level": "baseline", "policy_version": "latest", "mode": "enforce"}
    request = {"request_operation": "create", "resource": "pod", "subresource": ""}
    evaluations = "pod_security_evaluations_total"
    assert value_of(samples, evaluations, decision="deny", **evaluation, **request) == 1
    assert value_of(samples, "authorization_attempts_total", result="allowed") >= 3
    assert value_of(samples, "authorization_duration_seconds_count", result="allowed") >= 3
