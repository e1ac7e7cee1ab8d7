"""Traces of requests, sent to a collector that the test runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.tracing.configuration import read_tracing_configuration, traces_url
from kapiserver.apiserver.tracing.trace_context import Parent, parse_traceparent, valid_baggage
from kapiserver.spans import Trace, TraceContext, span, trace_headers
from tests.apiserver.admission.hookkit import hook_credentials, rule, running_hook
from tests.apiserver.conftest import Server
from tests.apiserver.trace_collector import Collector, configuration, running_collector

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT_ID = "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE_ID}-{PARENT_ID}-01"
NOT_SAMPLED = f"00-{TRACE_ID}-{PARENT_ID}-00"


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector for one test."""
    yield from running_collector()


@pytest.fixture
def traced(
    collector: Collector, make_server: Callable[..., Server], tmp_path: Path
) -> Callable[..., Server]:
    """A function that starts a server with a sampling rate."""

    def start(rate: int = 0, **settings: Any) -> Server:
        file = tmp_path / "tracing.yaml"
        file.write_text(configuration(collector, rate))
        return make_server(tracing_config_file=file, **settings)

    return start


def _tree(spans: list[Any]) -> dict[str, str]:
    """The name of each span's parent, by the span's name."""
    names = {each.span_id.hex(): each.name for each in spans}
    return {
        each.name: names.get(each.parent_span_id.hex(), each.parent_span_id.hex()) for each in spans
    }


def test_spans_below_a_sampled_parent(collector: Collector, traced: Callable[..., Server]) -> None:
    """A request with a sampled parent is traced at rate 0, with kube-apiserver's names."""
    server = traced()
    headers = {"traceparent": SAMPLED, "User-Agent": "me"}
    path = "/api/v1/namespaces/default/configmaps"
    body = {"metadata": {"name": "a"}}
    assert server.api.post(f"{path}?fieldManager=secret", body, headers=headers).status == 201
    server.end()
    spans = collector.all_spans()
    assert {each.trace_id.hex() for each in spans} == {TRACE_ID}
    tree = _tree(spans)
    name = "POST /api/v1/namespaces/{:namespace}/configmaps"
    assert tree[name] == PARENT_ID
    assert tree["Create"] == name
    assert tree["Create etcd3"] == tree["SerializeObject"] == "Create"
    handler = next(each for each in spans if each.name == "Create")
    attributes = {each.key: each.value.string_value for each in handler.attributes}
    assert attributes["resource"] == "configmaps"
    assert attributes["verb"] == "create"
    request = next(each for each in spans if each.name == name)
    attributes = {each.key: each.value for each in request.attributes}
    assert attributes["http.response.status_code"].int_value == 201
    assert attributes["http.target"].string_value == path
    assert attributes["user_agent.original"].string_value == "me"
    assert attributes["audit-id"].string_value
    assert all(request.start_time_unix_nano <= each.start_time_unix_nano for each in spans)
    assert all(each.end_time_unix_nano <= request.end_time_unix_nano for each in spans)


def test_calls_of_webhooks(
    collector: Collector,
    traced: Callable[..., Server],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A call of a webhook has the headers of the trace, with the span of the call as its parent."""
    server = traced()
    for hook in running_hook(hook_credentials(tmp_path_factory)):
        received = hook.server.received
        hook.configure(server.api, rule("configmaps"), mutating=True, namespace="default")
        hook.configure(server.api, rule("configmaps"), namespace="default")
        headers = {"traceparent": SAMPLED, "tracestate": "a=b", "baggage": "user=joe;p=1, k=%20"}
        path = "/api/v1/namespaces/default/configmaps"
        created = server.api.post(path, {"metadata": {"name": "a"}}, headers=headers)
        assert created.status == 201
    server.end()
    exported = collector.all_spans()
    spans = {each.name: each for each in exported}
    names = ("Call mutating webhook", "Call validating webhook")
    assert [each.headers["traceparent"] for each in received] == [
        f"00-{TRACE_ID}-{spans[name].span_id.hex()}-01" for name in names
    ]
    assert [each.headers["tracestate"] for each in received] == ["a=b", "a=b"]
    assert [each.headers["baggage"] for each in received] == 2 * ["user=joe;p=1, k=%20"]
    assert _tree(exported)[names[0]] == "admission"
    assert spans[names[0]].attributes[0].value.string_value == "hook.example.com"


def test_spans_of_reads(collector: Collector, traced: Callable[..., Server]) -> None:
    """Reads have spans of the watch cache and of serialization."""
    server = traced()
    for path in ("/api/v1/namespaces", "/api/v1/namespaces/default"):
        assert server.api.get(path, headers={"traceparent": SAMPLED}).status == 200
    server.end()
    tree = _tree(collector.all_spans())
    assert tree["List"] == "GET /api/v1/namespaces"
    assert tree["Get"] == "GET /api/v1/namespaces/{:namespace}/namespaces/{:name}"
    assert (tree["cacher.GetList"], tree["cacher.Get"]) == ("List", "Get")
    assert tree["SerializeObject"] in ("List", "Get")


@pytest.mark.parametrize("initial", [False, True])
def test_spans_of_watches(
    collector: Collector, traced: Callable[..., Server], initial: bool
) -> None:
    """A watch has spans of the watch cache and of its stream; one with initial events is a list."""
    server = traced()
    query = "watch=1"
    if initial:
        query += (
            "&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
        )
    response = server.api.get(
        f"/api/v1/nodes?{query}&timeoutSeconds=1", headers={"traceparent": SAMPLED}
    )
    assert response.status == 200
    server.end()
    tree = _tree(collector.all_spans())
    parent = "WatchList" if initial else "GET /api/v1/nodes"
    assert tree["cacher.Watch"] == tree["WatchServer.HandleHTTP"] == parent


VERBS = (
    ("PUT", "Update", "GuaranteedUpdate etcd3"),
    ("PATCH", "Patch", "GuaranteedUpdate etcd3"),
    ("DELETE", "Delete", "Delete etcd3"),
)


def test_spans_of_writes(collector: Collector, traced: Callable[..., Server]) -> None:
    """Writes have spans with the names of kube-apiserver's handlers and of etcd."""
    server = traced()
    path = "/api/v1/namespaces/default/configmaps"
    body = {"metadata": {"name": "a"}}
    assert server.api.post(path, body).status == 201
    headers = {"traceparent": SAMPLED}
    for number, (method, _, _) in enumerate(VERBS):
        changed = {**body, "data": {"number": str(number)}}
        if method == "PATCH":
            response = server.api.patch(f"{path}/a", changed, headers=headers)
        elif method == "PUT":
            response = server.api.put(f"{path}/a", changed, headers=headers)
        else:
            response = server.api.delete(f"{path}/a", headers=headers)
        assert response.status == 200
    server.end()
    spans = collector.all_spans()
    names = {each.span_id: each.name for each in spans}
    tree = {(each.name, names.get(each.parent_span_id, "")) for each in spans}
    for _, handler, stored in VERBS:
        assert (stored, handler) in tree


@pytest.mark.parametrize(
    ("rate", "headers", "is_traced"),
    [
        (0, {}, False),
        (0, {"traceparent": NOT_SAMPLED}, False),
        (0, {"traceparent": "x"}, False),
        (1_000_000, {}, True),
        (1_000_000, {"traceparent": NOT_SAMPLED}, False),
        (1_000_000, {"traceparent": "x"}, True),
        (0, {"traceparent": SAMPLED, "Impersonate-User": "joe"}, True),
    ],
)
def test_sampling(
    collector: Collector,
    traced: Callable[..., Server],
    rate: int,
    headers: dict[str, str],
    is_traced: bool,
) -> None:
    """The parent decides; without one, the rate does."""
    server = traced(rate)
    server.api.get("/version", headers=headers)
    server.end()
    assert ("GET" in {each.name for each in collector.all_spans()}) is is_traced


def test_span_of_audit(collector: Collector, traced: Callable[..., Server], tmp_path: Path) -> None:
    """A request that waits for the audit log has a span of the wait."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    log = {"audit_log_path": str(tmp_path / "audit.log"), "audit_log_mode": "blocking"}
    server = traced(1_000_000, audit_policy_file=policy, **log)
    assert server.api.get("/api/v1/nodes").status == 200
    server.end()
    assert _tree(collector.all_spans())["audit"] == "GET /api/v1/nodes"


def test_a_collector_that_is_down(make_server: Callable[..., Server], tmp_path: Path) -> None:
    """Requests succeed without a collector, and the server ends."""
    file = tmp_path / "tracing.json"
    file.write_text(
        '{"apiVersion":"apiserver.config.k8s.io/v1","kind":"TracingConfiguration",'
        '"endpoint":"127.0.0.1:1","samplingRatePerMillion":1000000}'
    )
    server = make_server(tracing_config_file=file)
    assert server.api.get("/version").status == 200


@pytest.mark.parametrize(
    ("header", "parent"),
    [
        (SAMPLED, Parent(int(TRACE_ID, 16), int(PARENT_ID, 16), sampled=True)),
        (NOT_SAMPLED, Parent(int(TRACE_ID, 16), int(PARENT_ID, 16), sampled=False)),
        (f" {SAMPLED} ", Parent(int(TRACE_ID, 16), int(PARENT_ID, 16), sampled=True)),
        (f"01{SAMPLED[2:]}-x", Parent(int(TRACE_ID, 16), int(PARENT_ID, 16), sampled=True)),
        ("", None),
        (f"{SAMPLED}-x", None),
        (f"ff{SAMPLED[2:]}", None),
        (SAMPLED.upper(), None),
        (f"00-{'0' * 32}-{PARENT_ID}-01", None),
        (f"00-{TRACE_ID}-{'0' * 16}-01", None),
    ],
)
def test_traceparent(header: str, parent: Parent | None) -> None:
    """Headers of W3C Trace Context, of later versions too, and what is none."""
    assert parse_traceparent(header) == parent


@pytest.mark.parametrize(
    ("header", "is_valid"),
    [
        ("a=b", True),
        ("a=b,c=d;ttl=1;secure , e=", True),
        ("a = b ; c = d", True),
        ("a=%F0%9F%91%8D", True),
        ("", False),
        ("a", False),
        ("=b", False),
        ("a=b,", False),
        ('a="b"', False),
        ("a=b c", False),
        ("a=\u00e9", False),
        (",".join(["a=b"] * 64), True),
        (",".join(["a=b"] * 65), False),
        (f"a={'b' * 8190}", True),
        (f"a={'b' * 8191}", False),
    ],
)
def test_baggage(header: str, is_valid: bool) -> None:
    """Valid baggage is passed on as it is, other baggage is dropped."""
    assert valid_baggage(header) == (header if is_valid else "")


def test_headers_of_calls() -> None:
    """A call has the open span as its parent; a request that is not traced has no header."""

    def headers(context: TraceContext | None) -> tuple[tuple[str, str], ...]:
        trace = Trace(context=context)
        trace.begin()
        with span("admission") as admission:
            headers_of_call = trace_headers()
            assert admission.id == 0 or f"-{admission.id:016x}-" in headers_of_call[0][1]
        return headers_of_call

    assert headers(None) == ()
    context = TraceContext(trace_id=int(TRACE_ID, 16), span_id=int(PARENT_ID, 16))
    assert headers(context) == (("traceparent", NOT_SAMPLED),)
    sampled = TraceContext(trace_id=context.trace_id, span_id=1, sampled=True, state="a=b")
    (_, traceparent), state = headers(sampled)
    assert traceparent.startswith(f"00-{TRACE_ID}-")
    assert traceparent.endswith("-01")
    assert state == ("tracestate", "a=b")
    Trace().begin()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("samplingRatePerMillion: -1", "sampling rate must be positive"),
        ("samplingRatePerMillion: 1000001", "must be less than or equal to one million"),
        ("endpoint: unix:///x", "unsupported scheme: unix.  Options are none, http, or https."),
        ("endpont: x", 'unknown field "endpont"'),
    ],
)
def test_bad_configuration(tmp_path: Path, text: str, message: str) -> None:
    """A file that is not valid is refused with the field and what is wrong."""
    file = tmp_path / "tracing.yaml"
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
    file.write_text(f"{head}{text}\n")
    with pytest.raises(BadConfiguration, match=message.replace(".", r"\.")):
        read_tracing_configuration(file)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("", "http://localhost:4318/v1/traces"),
        ("host:1", "http://host:1/v1/traces"),
        ("https://host/", "https://host/v1/traces"),
        ("http://host/x", "http://host/x"),
    ],
)
def test_urls(endpoint: str, url: str) -> None:
    """An endpoint without a path gets that of OTLP."""
    assert traces_url(endpoint) == url


def test_nothing_is_imported_without_a_file() -> None:
    """A server without the flag loads no OpenTelemetry."""
    code = (
        "import sys, kapiserver.app\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
