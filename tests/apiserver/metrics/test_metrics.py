"""/metrics: the series after requests, the bound of their number, and what a scrape costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.metrics import Metrics, RequestLabels
from kapiserver.apiserver.serving.metrics.server_families import ServerFamilies
from kapiserver.apiserver.serving.metrics.stability import BETA, STABLE
from kapiserver.apiserver.serving.metrics.text import Family, text_of
from kapiserver.cluster import open_cluster
from kapiserver.metrics import Counter, Histogram, Observations
from kapiserver.storage.wrappers.metered_store import OPERATIONS
from tests.apiserver.customresources.customkit import (
    CRDS,
    definition,
    establish,
    path_of,
    version,
    wait_until_deleted,
    widget,
)
from tests.apiserver.metrics.kubernetes_metrics import KUBERNETES
from tests.apiserver.metrics.scrapes import scrape, value_of

MAPS = "/api/v1/namespaces/default/configmaps"


def test_deprecated_versions(make_server: Callable[..., Any]) -> None:
    """A deprecated version that was requested has a gauge with the release that removes it."""
    api = make_server(runtime_config="api/beta=true", emulated_version="1.31").api
    name = "apiserver_requested_deprecated_apis"
    assert api.get(MAPS).status == 200
    assert name not in scrape(api)
    flow_control = "/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas"
    assert api.get(flow_control).status == 200
    assert api.get("/api/v1/componentstatuses").status == 200
    expected = [
        ("", "v1", "componentstatuses", "", ""),
        ("flowcontrol.apiserver.k8s.io", "v1beta3", "flowschemas", "", "1.32"),
    ]
    series = [(tuple(labels.values()), value) for labels, value in scrape(api)[name]]
    assert series == [(labels, 1) for labels in expected]


def test_requests(make_server: Callable[..., Any]) -> None:
    """Requests are counted by verb, resource, scope and status code. Durations and response sizes
    are observed."""
    api = make_server().api
    assert api.post(MAPS, {"metadata": {"name": "a"}}).status == 201
    assert api.post(MAPS, {"metadata": {"name": "a"}}).status == 409
    assert api.get(f"{MAPS}/a").status == 200
    assert api.get(MAPS).status == 200
    assert api.get("/api/v1/configmaps").status == 200
    samples = scrape(api)
    maps = {"resource": "configmaps", "group": "", "version": "v1", "component": "apiserver"}
    total = "apiserver_request_total"
    assert value_of(samples, total, verb="POST", scope="resource", code="201", **maps) == 1
    assert value_of(samples, total, verb="POST", scope="resource", code="409", **maps) == 1
    assert value_of(samples, total, verb="GET", scope="resource", code="200", **maps) == 1
    assert value_of(samples, total, verb="LIST", scope="namespace", code="200", **maps) == 1
    assert value_of(samples, total, verb="LIST", scope="cluster", code="200", **maps) == 1
    seconds = "apiserver_request_duration_seconds"
    assert value_of(samples, f"{seconds}_count", verb="POST", **maps) == 2
    assert value_of(samples, f"{seconds}_bucket", verb="POST", le="60", **maps) == 2
    sli = "apiserver_request_sli_duration_seconds"
    assert value_of(samples, f"{sli}_count", verb="POST", **maps) == 2
    assert value_of(samples, f"{sli}_bucket", verb="POST", le="0.05", **maps) >= 0
    assert all("dry_run" not in labels for labels, _ in samples[f"{sli}_count"])
    assert value_of(samples, "apiserver_response_sizes_count", verb="GET", **maps) == 1
    assert value_of(samples, "apiserver_response_sizes_sum", verb="LIST", **maps) > 100
    kinds = [labels for labels, _ in samples["apiserver_current_inflight_requests"]]
    assert {"request_kind": "readOnly"} in kinds
    assert value_of(samples, "etcd_request_duration_seconds_count", operation="create") >= 1
    admission = "apiserver_admission_controller_admission_duration_seconds_count"
    assert value_of(samples, admission, name="NamespaceLifecycle", rejected="false") >= 2
    webhooks = {"name": "ValidatingAdmissionWebhook", "operation": "CREATE", "rejected": "false"}
    assert value_of(samples, admission, type="validate", **webhooks) >= 2
    assert value_of(samples, "apiserver_resource_objects", resource="configmaps") >= 1
    assert value_of(samples, "process_resident_memory_bytes") > 1e6


def test_watches(make_server: Callable[..., Any]) -> None:
    """An open watch counts as a long-running request until it ends."""
    api = make_server().api
    with api.watch(f"{MAPS}?watch=1&timeoutSeconds=30&resourceVersion=1") as stream:
        api.post(MAPS, {"metadata": {"name": "a"}})
        stream.events(1)
        samples = scrape(api)
        labels = {"resource": "configmaps"}
        assert value_of(samples, "apiserver_longrunning_requests", verb="WATCH", **labels) == 1
        events = {"group": "", "version": "v1", **labels}
        assert value_of(samples, "apiserver_watch_events_total", **events) >= 1
    api.post(MAPS, {"metadata": {"name": "b"}})
    samples = scrape(api)
    assert value_of(samples, "apiserver_request_total", verb="WATCH", code="200", **labels) <= 1


def test_labels_are_bounded(make_server: Callable[..., Any]) -> None:
    """Unknown paths, verbs and resources add no series."""
    api = make_server().api
    api.get("/api/v1/warm")
    api.get("/warm")
    before = len(scrape(api)["apiserver_request_total"])
    for number in range(50):
        api.get(f"/api/v1/unknown{number}")
        api.get(f"/apis/group{number}.example.com/v1/things")
        api.get(f"/path{number}")
        api.get(f"/api/v1/namespaces/default/configmaps/x/sub{number}")
    assert len(scrape(api)["apiserver_request_total"]) - before <= 2


def test_format(make_server: Callable[..., Any]) -> None:
    """The only format is the text format, as of kube-apiserver; methods other than GET are a
    405."""
    api = make_server().api
    response = api.get("/metrics", accept="application/openmetrics-text,text/plain;q=0.5")
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b"\n# TYPE authentication_attempts counter\n" in response.body
    assert api.post("/metrics", {}).status == 405
    assert "/metrics" in api.get("/").json["paths"]


def test_storage_labels(make_server: Callable[..., Any]) -> None:
    """Operations of the store have the group and the name of the resource; those of the server's
    own keys have neither."""
    api = make_server().api
    crd = definition()
    api.post(establish(api, crd), widget(crd, "a"))
    samples = scrape(api)
    count = "etcd_request_duration_seconds_count"
    own = {"group": crd["spec"]["group"], "resource": "widgets"}
    assert value_of(samples, count, operation="create", **own) == 1
    names = {"group": "apiextensions.k8s.io", "resource": "customresourcedefinitions"}
    assert value_of(samples, count, operation="create", **names) == 1
    assert value_of(samples, count, operation="create", group="", resource="namespaces") >= 1


def _use(api: Any, crd: Any) -> None:
    """Send requests of several verbs for objects of a definition."""
    path = path_of(crd)
    api.post(path, widget(crd, "a"))
    api.post(f"{path}?dryRun=All", widget(crd, "b"))
    api.get(path)
    api.get(f"{path}/a")
    api.patch(f"{path}/a", {"metadata": {"labels": {"a": "b"}}})
    api.delete(f"{path}/a")


def test_series_of_definitions(make_server: Callable[..., Any]) -> None:
    """The series of a definition go with it, also those of a watch that ends with it; those of a
    version go when it is no longer served."""
    api = make_server().api
    for names in ({}, {"plural": "gadgets", "kind": "Gadget"}):
        crd = definition(names=names)
        name, group = crd["metadata"]["name"], crd["spec"]["group"]
        establish(api, crd)
        with api.watch(f"{path_of(crd)}?watch=1") as stream:
            _use(api, crd)
            samples = scrape(api)
            assert value_of(samples, "apiserver_request_total", group=group, dry_run="All") == 1
            assert value_of(samples, "apiserver_longrunning_requests", group=group) == 1
            api.delete(f"{CRDS}/{name}")
            wait_until_deleted(api, name)
            while stream.event() is not None:
                pass
        api.get(path_of(crd))
        lines = api.get("/metrics").body.decode().splitlines()
        # A controller removes those of the APIService a little later.
        assert not [x for x in lines if group in x and not x.startswith("aggregator_")]
    two = definition(version("v1"), version("v2", storage=False))
    establish(api, two)
    api.get(path_of(two, "v1"))
    api.get(path_of(two, "v2"))
    group = two["spec"]["group"]
    total = "apiserver_request_total"
    assert value_of(scrape(api), total, group=group, version="v2", verb="LIST") == 1
    two["spec"]["versions"].pop()
    crd = api.get(f"{CRDS}/{two['metadata']['name']}").json
    crd["spec"]["versions"].pop()
    assert api.put(f"{CRDS}/{two['metadata']['name']}", crd).status == 200
    samples = scrape(api)
    assert value_of(samples, total, group=group, version="v2") == 0
    assert value_of(samples, total, group=group, version="v1", verb="LIST") == 1


def _fill(metrics: Metrics, resources: int) -> None:
    """Add the series of the usual requests of so many custom resources."""
    for number in range(resources):
        group, name = f"group{number}.example.com", f"widgets{number}"
        for verb in ("GET", "LIST", "POST", "PUT", "PATCH", "DELETE", "WATCH"):
            labels = RequestLabels(verb, "", group, "v1", name, "", "resource")
            series = metrics.requests.of(group, name).with_labels(labels)
            series.statuses[200] = 1
            for seconds in (0.01, 0.02, 7):
                series.seconds.observe(seconds)
                series.shared.sli_seconds.observe(seconds)
                series.shared.body_bytes.observe(1000)
        for operation in OPERATIONS:
            metrics.storage_seconds.observe((operation, group, name), 0.1)


@pytest.mark.own_process
def test_cost_of_a_scrape() -> None:
    """The text of the metrics of 1,000 resources costs at most a second of CPU, and none of its
    pieces more than 50 ms."""

    async def run() -> tuple[int, list[float]]:
        async with open_cluster(Config.of(storage="sqlite::memory:")) as cluster:
            _fill(cluster.server.metrics, 1000)
            pieces = text_of(ServerFamilies(cluster.server))
            lines, seconds, started = 0, [], time.thread_time()
            async for piece in pieces:
                seconds.append(time.thread_time() - started)
                lines += piece.count(b"\n")
                started = time.thread_time()
            return lines, seconds

    lines, seconds = asyncio.run(run())
    assert lines > 500_000
    assert sum(seconds) < 1
    assert max(seconds) < 0.05


async def _joined(pieces: AsyncIterator[bytes]) -> str:
    return b"".join([piece async for piece in pieces]).decode()


def test_text() -> None:
    """The text of numbers and histograms: escapes in labels, cumulative buckets, and bounds as Go
    formats them."""
    observations = Observations((0.5, 1e6))
    for value in (0.25, 3, 2e6, 0.5):
        observations.observe(value)
    families = [
        Family(
            name="a_total",
            type="counter",
            text="Things.",
            labels=("x", "y"),
            series=[(("1", 'q"\\\n%s'), 3), (("2", ""), 0.5)],
        ),
        Family(name="b", type="gauge", text="One.", series=[((), 1.0)]),
        Family(
            name="c",
            type="histogram",
            text="Sizes.",
            labels=("x",),
            series=[(("%d",), observations)],
            bounds=observations.bounds,
        ),
    ]
    assert asyncio.run(_joined(text_of(families))).splitlines() == [
        "# HELP a_total [ALPHA] Things.",
        "# TYPE a_total counter",
        'a_total{x="1",y="q\\"\\\\\\n%s"} 3',
        'a_total{x="2",y=""} 0.5',
        "# HELP b [ALPHA] One.",
        "# TYPE b gauge",
        "b 1",
        "# HELP c [ALPHA] Sizes.",
        "# TYPE c histogram",
        'c_bucket{x="%d",le="0.5"} 2',
        'c_bucket{x="%d",le="1e+06"} 3',
        'c_bucket{x="%d",le="+Inf"} 4',
        'c_sum{x="%d"} 2000003.75',
        'c_count{x="%d"} 4',
    ]


def test_limited_series() -> None:
    """A metric with a limit drops its oldest set of labels for a new one."""
    counter: Counter[str] = Counter(limit=2)
    histogram: Histogram[str] = Histogram((1.0,), limit=2)
    for name in ("a", "b", "a", "c"):
        counter.add(name)
        histogram.observe(name, 0.5)
    assert counter.values == {"b": 1, "c": 1}
    assert list(histogram.values) == ["b", "c"]


BOUNDS = {
    "apiserver_flowcontrol_demand_seats": "0.2 0.4 0.6 0.8 1 1.2 1.4 1.7 2 2.8 4 6 +Inf",
    "workqueue_queue_duration_seconds": "1e-08 1e-07 1e-06 9.999999999999999e-06 "
    "9.999999999999999e-05 0.001 0.01 0.1 1 10 +Inf",
    "apiserver_authentication_jwt_authenticator_latency_seconds": "0.001 0.005 0.01 0.025 0.05 0.1 "
    "0.25 0.5 1 2.5 5 10 +Inf",
    "apiserver_validating_admission_policy_check_duration_seconds": "5e-07 0.001 0.01 0.1 1 +Inf",
    "rest_client_request_size_bytes": "64 256 512 1024 4096 16384 65536 262144 1.048576e+06 "
    "4.194304e+06 1.6777216e+07 +Inf",
    "apiserver_watch_events_sizes": "1024 2048 4096 8192 16384 32768 65536 131072 +Inf",
    "apiserver_response_sizes": "1000 10000 100000 1e+06 1e+07 1e+08 1e+09 +Inf",
}


@pytest.fixture(scope="module")
def families() -> list[Family]:
    async def run() -> list[Family]:
        async with open_cluster(Config.of(storage="sqlite::memory:")) as cluster:
            return [*ServerFamilies(cluster.server)]

    return asyncio.run(run())


def test_names_of_kubernetes(families: list[Family]) -> None:
    """Names, types and labels are those of kube-apiserver; gRPC's are of its usual library."""
    own = {
        family.name: (family.type, frozenset(family.labels))
        for family in families
        if not family.name.startswith("grpc_server_")
    }
    assert own == {
        name: (type, frozenset(labels.split())) for name, (type, labels) in KUBERNETES.items()
    }


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_of_kubernetes(families: list[Family], name: str) -> None:
    """The bounds of buckets are written as kube-apiserver writes them."""
    (family,) = (family for family in families if family.name == name)
    values = tuple("" for _ in family.labels)
    filled = Family(
        name=name,
        type="histogram",
        text="",
        labels=family.labels,
        series=[(values, Observations(family.bounds))],
        bounds=family.bounds,
    )
    text = asyncio.run(_joined(text_of([filled])))
    written = [line.split('le="')[1].split('"')[0] for line in text.splitlines() if "le=" in line]
    assert written == BOUNDS[name].split()


def test_stability(families: list[Family]) -> None:
    """The metrics that are stable or in beta are there."""
    names = {family.name for family in families}
    healthchecks = {"kubernetes_healthcheck", "kubernetes_healthchecks_total"}
    assert names | healthchecks >= STABLE | BETA
    assert not STABLE & BETA


def test_work_queues(make_server: Callable[..., Any]) -> None:
    """Work queues count added and reconciled items."""
    api = make_server().api
    assert api.post("/api/v1/namespaces", {"metadata": {"name": "a"}}).status == 201
    with api.watch("/api/v1/namespaces/a/serviceaccounts?watch=1&timeoutSeconds=30") as stream:
        stream.event()
    queue = {"name": "serviceaccount-controller"}
    deadline = time.monotonic() + 60
    while value_of(samples := scrape(api), "workqueue_depth", **queue):
        assert time.monotonic() < deadline
    assert value_of(samples, "workqueue_adds_total", **queue) >= 1
    assert value_of(samples, "workqueue_queue_duration_seconds_count", **queue) >= 1
    for name in ("unfinished_work_seconds", "longest_running_processor_seconds"):
        assert queue in [labels for labels, _ in samples[f"workqueue_{name}"]]


def test_authenticators(api):
    """The counters of service account tokens are there before the first token."""
    text = api.get("/metrics").body.decode()
    for kind in ("legacy", "stale", "valid"):
        assert f"\nserviceaccount_{kind}_tokens_total " in text
