"""The audit policy, the events, and the log file."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.audit.backend import MAX_QUEUED_BYTES, Mode
from kapiserver.apiserver.audit.event import AuditEvent, RecordedBody, encode_event, legacy_line
from kapiserver.apiserver.audit.log import make_audit_log
from kapiserver.apiserver.audit.log_file import LogFile
from kapiserver.apiserver.audit.policy import LEVEL_NAMES, AuditPolicy, read_policy
from kapiserver.apiserver.audit.truncation import EventTooLarge, truncating
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.context import Handler
from kapiserver.apiserver.context import Server as ServerContext
from kapiserver.apiserver.filters import FILTERS
from kapiserver.apiserver.metrics import Metrics
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.user import User
from kapiserver.app import serve
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.parts import Parts
from tests.apiserver.audit.auditkit import counted, encode, event, new_writer
from tests.apiserver.conftest import Api
from tests.clock import ManualClock

JANE = User(name="jane", groups=("dev", "system:authenticated"))
POD = "/api/v1/namespaces/shop/pods/p"
CORE_PODS = [{"group": "", "resources": ["pods"]}]
CASES: list[tuple[dict[str, Any], str, bool]] = [
    ({}, f"GET {POD}", True),
    ({}, "GET /version", True),
    ({"users": ["jane"]}, f"GET {POD}", True),
    ({"users": ["bob"]}, f"GET {POD}", False),
    ({"userGroups": ["dev"]}, f"GET {POD}", True),
    ({"userGroups": ["ops"]}, f"GET {POD}", False),
    ({"verbs": ["get", "list"]}, f"GET {POD}", True),
    ({"verbs": ["delete"]}, f"GET {POD}", False),
    ({"namespaces": ["shop"]}, f"GET {POD}", True),
    ({"namespaces": [""]}, "GET /api/v1/nodes", True),
    ({"namespaces": ["shop"]}, "GET /api/v1/nodes", False),
    ({"namespaces": [""]}, "GET /version", False),
    ({"resources": CORE_PODS}, f"GET {POD}", True),
    ({"resources": CORE_PODS}, f"GET {POD}/log", False),
    ({"resources": [{"group": ""}]}, f"GET {POD}/log", True),
    ({"resources": [{"group": "apps"}]}, f"GET {POD}", False),
    ({"resources": [{"group": "", "resources": ["pods/log"]}]}, f"GET {POD}/log", True),
    ({"resources": [{"group": "", "resources": ["*/log"]}]}, f"GET {POD}/log", True),
    ({"resources": [{"group": "", "resources": ["pods/*"]}]}, f"GET {POD}/log", True),
    ({"resources": [{"group": "", "resources": ["*"]}]}, f"GET {POD}/log", True),
    ({"resources": [{"group": "", "resources": ["*/status"]}]}, f"GET {POD}", False),
    ({"resources": [{**CORE_PODS[0], "resourceNames": ["p"]}]}, f"GET {POD}", True),
    ({"resources": [{**CORE_PODS[0], "resourceNames": ["q"]}]}, f"GET {POD}", False),
    ({"nonResourceURLs": ["/version"]}, "GET /version", True),
    ({"nonResourceURLs": ["/healthz*"]}, "GET /healthz/ping", True),
    ({"nonResourceURLs": ["/version"]}, "GET /healthz", False),
    ({"nonResourceURLs": ["*"]}, f"GET {POD}", False),
]


def decide(policy: dict[str, Any], request_line: str, user: User = JANE) -> str:
    method, _, path = request_line.partition(" ")
    decision = AuditPolicy(policy).decide(user, parse_request_info(method, path, {}))
    return LEVEL_NAMES[decision.level]


@pytest.mark.parametrize(("rule", "request_line", "matches"), CASES)
def test_rules(rule: dict[str, Any], request_line: str, matches: bool) -> None:
    """A rule matches by user, group, verb, namespace, resource, name and path; the first rule that
    matches decides."""
    rules = [{"level": "Metadata", **rule}, {"level": "Request"}]
    assert decide({"rules": rules}, request_line) == ("Metadata" if matches else "Request")


def test_omitted() -> None:
    """Without a matching rule nothing is recorded; omitted stages of policy and rule add up."""
    assert decide({"rules": [{"level": "Request", "users": ["bob"]}]}, f"GET {POD}") == "None"
    rule = {"level": "Metadata", "omitStages": ["Panic"], "omitManagedFields": False}
    policy = {"rules": [rule], "omitStages": ["RequestReceived"], "omitManagedFields": True}
    decision = AuditPolicy(policy).decide(JANE, parse_request_info("GET", POD, {}))
    assert decision.omit_stages == {"RequestReceived", "Panic"}
    assert decision.omit_managed_fields is False


SECRET_CASES = [
    ("GET /api/v1/namespaces/shop/secrets/s", {}, "Metadata"),
    ("GET /api/v1/namespaces/shop/secrets/s", {"group": "", "resources": ["*"]}, "Metadata"),
    ("GET /api/v1/namespaces/shop/secrets/s", {"group": "", "resources": ["secrets"]}, "Request"),
    ("POST /api/v1/namespaces/shop/serviceaccounts/a/token", {}, "Metadata"),
    ("POST /apis/authentication.k8s.io/v1/tokenreviews", {}, "Metadata"),
    ("GET /api/v1/namespaces/shop/configmaps/c", {}, "Request"),
]


@pytest.mark.parametrize(("request_line", "resources", "level"), SECRET_CASES)
def test_secrets(request_line: str, resources: dict[str, Any], level: str) -> None:
    """Bodies with secrets are recorded only by a rule that names their resource."""
    rule = {"level": "Request", **({"resources": [resources]} if resources else {})}
    assert decide({"rules": [rule]}, request_line) == level


REFUSED = [
    ("rules: []", "loaded illegal policy with 0 rules from file"),
    ("rules: [{level: All}]", 'rules[0].level: Unsupported value: "All": supported values: '
     '"Metadata", "None", "Request", "RequestResponse"'),
    ("rules: [{level: None, verb: [get]}]", 'unknown field "rules[0].verb"'),
    ("rules: [{level: None, omitStages: [Start]}]",
     'rules[0].omitStages[0]: Unsupported value: "Start"'),
    ("rules: [{level: None, nonResourceURLs: [x]}]",
     "non-resource URL rules must begin with a '/' character"),
    ("rules: [{level: None, nonResourceURLs: ['/a*b']}]",
     "non-resource URL wildcards '*' must be the final character of the rule"),
    ("rules: [{level: None, nonResourceURLs: ['/a'], namespaces: [x]}]",
     "rules cannot apply to both regular resources and non-resource URLs"),
    ("rules: [{level: None, resources: [{resourceNames: [x]}]}]",
     "using resourceNames requires at least one resource"),
    ("[", "audit policy file"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_policy_refused(text: str, words: str, tmp_path: Path) -> None:
    """An invalid policy is refused in kube-apiserver's words."""
    file = tmp_path / "policy.yaml"
    file.write_text(f"apiVersion: audit.k8s.io/v1\nkind: Policy\n{text}\n")
    with pytest.raises(BadConfiguration) as caught:
        read_policy(file)
    assert words in str(caught.value)


def test_missing_policy(tmp_path: Path) -> None:
    """A file that cannot be read is named."""
    with pytest.raises(BadConfiguration, match=r"cannot read the audit policy file .*none"):
        read_policy(tmp_path / "none")


POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "nonResourceURLs": ["/healthz*"]},
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "RequestResponse", "omitManagedFields": True, "namespaces": ["default"]},
        {"level": "Metadata"},
    ],
}


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


@pytest.mark.parametrize("mode", ["batch", "blocking"])
def test_events(mode: str, make_server: Any, tmp_path: Path) -> None:
    """Requests are recorded with who, what, when, how it ended, and bodies at their level."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "logs" / "audit.log"
    policy.write_text(yaml.safe_dump(POLICY))
    server = make_server(
        audit_policy_file=policy,
        audit_log_path=str(log),
        audit_log_mode=mode,
        authorization_mode=("AlwaysAllow",),  # the impersonated user writes
    )
    api = server.api
    maps = "/api/v1/namespaces/default/configmaps"
    body = {"metadata": {"name": "a"}, "data": {"k": "v"}}
    assert api.post(f"{maps}?fieldManager=me", body, headers={"Audit-ID": "first"}).status == 201
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n"
    headers = {"X-Forwarded-For": "10.1.1.1", "Impersonate-User": "jane"}
    assert api.post(maps, text.encode(), type="application/yaml", headers=headers).status == 201
    assert api.get(f"{maps}/none").status == 404
    assert api.get("/healthz").status == 200
    with api.watch(f"{maps}?watch=1&timeoutSeconds=1") as stream:
        while stream.event():
            pass
    server.end()
    events = [event for event in lines(log) if event["requestURI"].startswith(maps)]
    stages = [event["stage"] for event in events]
    assert stages == [*["ResponseComplete"] * 3, "ResponseStarted", "ResponseComplete"]
    created, impersonated, missing, _, watched = events
    assert created["auditID"] == "first"
    assert created["level"] == "RequestResponse"
    assert created["requestURI"] == f"{maps}?fieldManager=me"
    assert created["verb"] == "create"
    assert created["user"]["username"] == "system:unsecured"
    assert created["objectRef"] == {
        "resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1",
    }  # fmt: skip
    assert created["responseStatus"] == {"metadata": {}, "code": 201}
    assert created["requestObject"] == body
    assert created["responseObject"]["data"] == {"k": "v"}
    assert "managedFields" not in created["responseObject"]["metadata"]
    assert created["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert impersonated["impersonatedUser"]["username"] == "jane"
    assert impersonated["requestObject"]["metadata"]["name"] == "b"
    assert impersonated["sourceIPs"] == ["10.1.1.1", "127.0.0.1"]
    assert missing["responseStatus"]["code"] == 404
    assert missing["responseStatus"]["reason"] == "NotFound"
    assert missing["objectRef"]["name"] == "none"
    assert missing["responseObject"] == {**missing["responseObject"], **missing["responseStatus"]}
    assert missing["responseObject"]["kind"] == "Status"
    assert watched["responseStatus"]["code"] == 200
    assert log.stat().st_mode & 0o077 == 0


def test_object_references(make_server: Any, tmp_path: Path) -> None:
    """The reference to the object is completed by the body of the request, whatever the level."""
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(yaml.safe_dump({**POLICY, "rules": [{"level": "Metadata"}]}))
    server = make_server(audit_policy_file=policy, audit_log_path=str(log))
    api = server.api
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = api.post(leases, {"metadata": {"name": "l"}, "spec": {}}).json
    assert api.put(f"{leases}/l", lease).status == 200
    assert api.post("/api/v1/namespaces", {"metadata": {"generateName": "g-"}}).status == 201
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert api.post("/api/v1/namespaces/default/pods", pod).status == 201
    binding = {"metadata": {"name": "p"}, "target": {"name": "n"}}
    assert api.post("/api/v1/namespaces/default/bindings", binding).status == 201
    server.end()
    references = [
        event["objectRef"]
        for event in lines(log)
        if event["user"]["username"] == "system:unsecured" and event["verb"] != "get"
    ]
    group = {"apiGroup": "coordination.k8s.io", "apiVersion": "v1"}
    core = {"namespace": "default", "name": "p", "apiVersion": "v1"}
    metadata = lease["metadata"]
    assert references == [
        {"resource": "leases", "namespace": "default", "name": "l", **group},
        {"resource": "leases", "namespace": "default", "name": "l", "uid": metadata["uid"],
         **group, "resourceVersion": metadata["resourceVersion"]},
        {"resource": "namespaces", "apiVersion": "v1"},
        {"resource": "pods", **core},
        {"resource": "bindings", **core},
    ]  # fmt: skip


def test_full_queue(tmp_path: Path) -> None:
    """The log drops and counts events while its queue is full; no request waits for a slow disk."""
    writing, go_on = threading.Event(), threading.Event()

    class SlowFile(LogFile):
        def write(self, lines: Sequence[bytes]) -> None:
            writing.set()
            assert go_on.wait(60)
            super().write(lines)

    file = SlowFile(str(tmp_path / "log"), now=lambda: 0.0)
    metrics = Metrics()
    writer = new_writer(file, metrics, Mode.BATCH, buffer_size=2)
    writer.start()
    writer.submit(event(0))
    assert writing.wait(60)
    for number in range(1, 5):
        writer.submit(event(number))
    go_on.set()
    asyncio.run(writer.stop())
    assert (tmp_path / "log").read_text() == "0\n1\n2\n"
    assert counted(metrics) == (5, 2)


def test_large_bodies(tmp_path: Path) -> None:
    """The bodies in the queue are bounded too."""
    writing, go_on = threading.Event(), threading.Event()

    def slow(audit_event: AuditEvent) -> bytes:
        writing.set()
        assert go_on.wait(60)
        return encode(audit_event)

    metrics = Metrics()
    file = LogFile(str(tmp_path / "log"), now=lambda: 0.0)
    writer = new_writer(file, metrics, Mode.BATCH, slow)
    writer.start()
    writer.submit(event(0))
    assert writing.wait(60)
    body = RecordedBody("text/plain", b" " * MAX_QUEUED_BYTES)
    for number in (1, 2):
        writer.submit(AuditEvent({"number": number}, body))
    writer.submit(event(3))
    go_on.set()
    asyncio.run(writer.stop())
    assert (tmp_path / "log").read_text() == "0\n1\n3\n"
    assert counted(metrics) == (4, 1)


def test_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An event that cannot be written is counted, and the loss is logged once."""
    metrics = Metrics()
    file = LogFile("/dev/full", now=lambda: 0.0)

    async def run() -> None:
        writer = new_writer(file, metrics)
        writer.start()
        written = [writer.submit(event(number)) for number in range(3)]
        assert [await future for future in written if future is not None] == [True] * 3
        await writer.stop()

    asyncio.run(run())
    assert counted(metrics) == (3, 3)
    assert caplog.text.count("audit events are lost") == 1


def test_rotation(tmp_path: Path) -> None:
    """A full file is renamed and a new one begins; the oldest files are removed."""
    now = 0.0
    path = tmp_path / "audit.log"
    file = LogFile(str(path), now=lambda: now, max_bytes=10, max_backups=2, compress=True)
    (tmp_path / "audit-notes.log").write_text("not ours")
    for number in range(5):
        now = number * 1000.0
        file.write([b"line %d..\n" % number])
    file.close()
    old_files = sorted(each.name for each in tmp_path.iterdir() if each.suffix == ".gz")
    assert old_files == [
        "audit-1970-01-01T00-50-00.000.log.gz", "audit-1970-01-01T01-06-40.000.log.gz",
    ]  # fmt: skip
    assert gzip.decompress((tmp_path / old_files[-1]).read_bytes()) == b"line 3..\n"
    assert (tmp_path / old_files[-1]).stat().st_mode & 0o077 == 0
    assert path.read_bytes() == b"line 4..\n"
    assert (tmp_path / "audit-notes.log").exists()


def test_two_writers(tmp_path: Path) -> None:
    """Several workers share a file: one that another has renamed gets no more events, so that they
    are in the files that remain."""
    path = tmp_path / "audit.log"
    first, second = (LogFile(str(path), now=lambda: 0.0, max_bytes=30) for _ in range(2))
    for number in range(10):
        (first if number % 2 else second).write([b"line %d..\n" % number])
    first.close()
    second.close()
    old_files = sorted(file for file in tmp_path.iterdir() if file != path)
    assert [file.read_bytes().count(b"\n") for file in old_files] == [3, 3, 3]
    assert path.read_bytes() == b"line 9..\n"


def test_lines_of_a_batch(tmp_path: Path) -> None:
    """The lines of a batch go to the next file as soon as one of them does not fit, and a file that
    was renamed gets none of them."""
    path = tmp_path / "audit.log"
    file = LogFile(str(path), now=lambda: 0.0, max_bytes=20)
    file.write([b"line %d..\n" % number for number in range(5)])
    assert path.read_bytes() == b"line 4..\n"
    old_files = sorted(each.read_bytes() for each in tmp_path.iterdir() if each != path)
    assert old_files == [b"line 0..\nline 1..\n", b"line 2..\nline 3..\n"]
    path.rename(tmp_path / "moved")
    file.write([b"a\n", b"b\n"])
    file.close()
    assert path.read_bytes() == b"a\nb\n"


def test_slow_compression(tmp_path: Path) -> None:
    """Nobody who writes waits for the compression of old files, even if it takes for ever."""
    stuck = tmp_path / "audit-2026-01-01T00-00-00.000.log"
    os.mkfifo(stuck)  # a reader of the pipe waits for a writer
    file = LogFile(str(tmp_path / "audit.log"), now=lambda: 0.0, max_bytes=10, compress=True)
    for number in range(3):
        file.write([b"line %d..\n" % number])
    assert (tmp_path / "audit.log").read_bytes() == b"line 2..\n"
    stuck.open("wb").close()
    file.close()
    assert not stuck.exists()


@pytest.mark.parametrize(("mode", "status"), [("blocking", 200), ("blocking-strict", 500)])
def test_strict(mode: str, status: int, make_server: Any, tmp_path: Path) -> None:
    """With a full disk requests succeed, except in mode blocking-strict."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump({**POLICY, "omitStages": []}))
    server = make_server(audit_policy_file=policy, audit_log_path="/dev/full", audit_log_mode=mode)
    response = server.api.get("/version")
    assert response.status == status
    if status == 500:
        assert response.message == "Internal error occurred: failed to store audit event"
        assert server.running.cluster.server.metrics.audit_rejections == 1


def test_panic(tmp_path: Path) -> None:
    """A request that fails unexpectedly has an event of stage Panic, and one of its end."""

    def fail(_server: ServerContext, _next: Handler) -> Handler:
        async def handle(_request: Request) -> AnyResponse:
            raise RuntimeError("a bug")

        return handle

    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(yaml.safe_dump(POLICY))
    config = Config.of(
        secure_port=None, insecure_port=0, audit_policy_file=policy, audit_log_path=str(log)
    )

    async def run() -> None:
        async with serve(config, Parts(filters=(*FILTERS, fail))) as running:
            with Api(int(running.url.rpartition(":")[2])) as api:
                response = await asyncio.to_thread(api.get, "/version")
            assert response.status == 500

    asyncio.run(run())
    events = [each for each in lines(log) if each["requestURI"] == "/version"]
    assert [each["stage"] for each in events] == ["Panic", "ResponseComplete"]
    assert [each["responseStatus"]["code"] for each in events] == [500, 500]
    assert len({each["auditID"] for each in events}) == 1


def test_truncation() -> None:
    """An event that is too large loses its bodies; one that still is too large is refused."""
    codecs = CodecFactory(Scheme())
    encoder = truncating(functools.partial(encode_event, codecs=codecs), 100)
    body = RecordedBody("application/json", b'{"data": "%s"}' % (b"x" * 100))
    small = AuditEvent({"stage": "x"}, RecordedBody("application/json", b'{"a": 1}'))
    assert json.loads(encoder(small))["requestObject"] == {"a": 1}
    large = AuditEvent({"stage": "x", "annotations": {"a": "b"}}, body, body)
    annotations = {"a": "b", "audit.k8s.io/truncated": "true"}
    assert json.loads(encoder(large)) == {"stage": "x", "annotations": annotations}
    with pytest.raises(EventTooLarge, match="event is too large even after truncating"):
        encoder(AuditEvent({"stage": "x" * 100}, body))


def test_too_large(tmp_path: Path) -> None:
    """An event that is too large is counted for the truncation, and the next one is written."""
    metrics = Metrics()
    file = LogFile(str(tmp_path / "log"), now=lambda: 0.0)
    writer = new_writer(file, metrics, Mode.BATCH, encode=truncating(encode, 3))
    writer.start()
    for number in (1, 1234, 2):
        writer.submit(event(number))
    asyncio.run(writer.stop())
    assert (tmp_path / "log").read_text() == "1\n2\n"
    assert metrics.audit_errors.values == {"truncate": 1}


def test_truncation_settings(tmp_path: Path) -> None:
    """A batch must have room for an event; the message is kube-apiserver's."""
    (tmp_path / "policy").write_text(yaml.safe_dump(POLICY))
    config = Config.of(
        audit_policy_file=tmp_path / "policy",
        audit_log_path="-",
        audit_log_truncate_enabled=True,
        audit_log_truncate_max_batch_size=1,
        audit_log_truncate_max_event_size=2,
    )
    with pytest.raises(BadConfiguration) as caught:
        make_audit_log(config.audit, CodecFactory(Scheme()), ManualClock(), Metrics())
    assert str(caught.value) == (
        "invalid audit truncate log max batch size 1, must be greater than or equal to max event "
        "size (2)"
    )


def test_legacy() -> None:
    """The format `legacy` is one line of text."""
    fields = {
        "auditID": "x", "stage": "ResponseComplete", "sourceIPs": ["127.0.0.1"], "verb": "get",
        "user": {"username": "jane", "groups": ["dev"]}, "requestURI": "/version",
        "stageTimestamp": "2026-01-01T00:00:00.000000Z", "responseStatus": {"code": 200},
    }  # fmt: skip
    assert legacy_line(AuditEvent(fields)) == (
        b'2026-01-01T00:00:00.000000Z AUDIT: id="x" stage="ResponseComplete" ip="127.0.0.1" '
        b'method="get" user="jane" groups="\\"dev\\"" as="<self>" asgroups="<lookup>" '
        b'user-agent="" namespace="<none>" uri="/version" response="200"\n'
    )
