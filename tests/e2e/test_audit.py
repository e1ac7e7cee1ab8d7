"""Audit from outside: curl and kubectl, and the log file that the server writes."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.programs import Server, kubectls, run, start, stop

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "None", "nonResourceURLs": ["/readyz", "/livez"]},
        {
            "level": "RequestResponse",
            "omitManagedFields": True,
            "resources": [{"group": "", "resources": ["pods"]}],
        },
        {"level": "RequestResponse"},
    ],
}
PASSWORD = "correct horse battery staple"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with RBAC that records the bodies of everything."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "policy").write_text(yaml.safe_dump(POLICY))
    (folder / "tokens").write_text("jane-token,jane,1\n")
    running = start(
        folder, "--authorization-mode", "RBAC", "--token-auth-file", str(folder / "tokens"),
        "--audit-policy-file", str(folder / "policy"),
        "--audit-log-path", str(folder / "audit.log"),
    )  # fmt: skip
    yield running
    stop(running)


def curl(server: Server, path: str, *arguments: str, token: str = "") -> tuple[int, str, str]:
    """Send a request as the administrator, or with a token; return the status, the Audit-Id header
    and the body."""
    identity = (
        ["-H", f"Authorization: Bearer {token}"]
        if token
        else ["--cert", str(server.client_cert), "--key", str(server.client_key)]
    )
    command = ["curl", "-sS", "-i", "--cacert", str(server.ca_file), *identity, *arguments]
    process = subprocess.run(
        [*command, f"{server.url}{path}"], capture_output=True, text=True, timeout=60, check=True
    )
    head, _, body = process.stdout.partition("\n\n")
    audit_id = re.search(r"^audit-id: (\S+)", head, re.M | re.I)
    assert audit_id is not None
    return int(head.split()[1]), audit_id[1], body


def post(server: Server, path: str, obj: Any, **options: Any) -> tuple[int, str, str]:
    data = ("-d", json.dumps(obj), "-H", "Content-Type: application/json")
    return curl(server, path, *data, **options)


def events(server: Server, audit_id: str) -> list[dict[str, Any]]:
    """The events of one request; in blocking mode they are in the log when the response is."""
    lines = (server.folder / "audit.log").read_text().splitlines()
    return [event for line in lines if (event := json.loads(line))["auditID"] == audit_id]


def last_event(server: Server, audit_id: str) -> dict[str, Any]:
    """The event of the end of a request; the next request is handled after it is written."""
    curl(server, "/version")
    return events(server, audit_id)[-1]


def test_audit_id(server: Server) -> None:
    """The client's Audit-ID is that of the events and of the response; without one, or with a bad
    one, the server makes a UUID."""
    uuid = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    _, audit_id, _ = curl(server, "/version", "-H", "Audit-ID: mine")
    assert audit_id == "mine"
    assert events(server, "mine")[0]["requestURI"] == "/version"
    for header in ("X: y", "Audit-ID: caf\u00e9"):
        _, audit_id, _ = curl(server, "/version", "-H", header)
        assert re.fullmatch(uuid, audit_id), audit_id
        event = last_event(server, audit_id)
        assert (event["stage"], event["user"]["username"]) == (
            "ResponseComplete",
            "kubernetes-admin",
        )


def test_secret_bodies(server: Server) -> None:
    """Bodies of Secrets, tokens and token reviews are not recorded by a rule for everything; those
    of ConfigMaps are."""
    core = "/api/v1/namespaces/default"
    secret = {"metadata": {"name": "s"}, "stringData": {"password": PASSWORD}}
    review = {"spec": {"token": "jane-token"}}
    token_request = {"spec": {"audiences": ["shop"]}}
    ids = {}
    for name, path, obj in (
        ("secret", f"{core}/secrets", secret),
        ("review", "/apis/authentication.k8s.io/v1/tokenreviews", review),
        ("token", f"{core}/serviceaccounts/default/token", token_request),
        ("map", f"{core}/configmaps", {"metadata": {"name": "m"}, "data": {"a": "b"}}),
    ):
        status, ids[name], _ = post(server, path, obj)
        assert status == 201, name
    _, ids["list"], _ = curl(server, f"{core}/secrets")
    _, ids["all"], _ = curl(server, "/api/v1/secrets?watch=1&timeoutSeconds=1")
    _, ids["patch"], _ = curl(
        server, f"{core}/secrets/s", "-X", "PATCH", "-d", json.dumps({"data": {"a": "eHl6"}}),
        "-H", "Content-Type: application/merge-patch+json",
    )  # fmt: skip
    for name, audit_id in ids.items():
        event = last_event(server, audit_id)
        has_bodies = "requestObject" in event, "responseObject" in event
        assert has_bodies == (name == "map", name == "map"), name
        assert event["level"] == ("RequestResponse" if name == "map" else "Metadata")
    log = (server.folder / "audit.log").read_text()
    assert PASSWORD not in log
    assert base64.b64encode(PASSWORD.encode()).decode() not in log
    assert "jane-token" not in log


def test_annotations(server: Server) -> None:
    """The events say why a request was allowed or forbidden, and what admission noticed."""
    status, audit_id, _ = curl(server, "/api/v1/nodes", token="jane-token")
    assert status == 403
    event = last_event(server, audit_id)
    assert event["user"]["username"] == "jane"
    assert event["responseStatus"]["code"] == 403
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"
    labels = {"pod-security.kubernetes.io/audit": "restricted"}
    namespace = {"metadata": {"name": "audited", "labels": labels}}
    assert post(server, "/api/v1/namespaces", namespace)[0] == 201
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    status, audit_id, _ = post(server, "/api/v1/namespaces/audited/pods?fieldManager=me", pod)
    assert status == 201
    event = last_event(server, audit_id)
    annotations = event["annotations"]
    assert annotations["authorization.k8s.io/decision"] == "allow"
    violations = annotations["pod-security.kubernetes.io/audit-violations"]
    assert violations.startswith('would violate PodSecurity "restricted:latest"')
    assert annotations["pod-security.kubernetes.io/enforce-policy"] == "privileged:latest"
    assert event["objectRef"]["namespace"] == "audited"
    assert "managedFields" not in event["responseObject"]["metadata"]  # the rule omits them
    assert event["responseObject"]["spec"]["containers"][0]["image"] == "i"


def test_deprecated(server: Server) -> None:
    """Requests for a deprecated version are marked."""
    _, audit_id, _ = curl(server, "/api/v1/namespaces/default/endpoints")
    annotations = last_event(server, audit_id)["annotations"]
    assert annotations["k8s.io/deprecated"] == "true"


def test_managed_fields(server: Server) -> None:
    """Managed fields are recorded unless the policy omits them, also of a Protobuf response."""
    obj = {"metadata": {"name": "managed"}, "data": {"a": "b"}}
    accept = ("-H", "Accept: application/vnd.kubernetes.protobuf")
    path = "/api/v1/namespaces/default/configmaps?fieldManager=me"
    data = ("-d", json.dumps(obj), "-H", "Content-Type: application/json")
    command = ["curl", "-sS", "-o", str(server.folder / "body"), "--cacert", str(server.ca_file),
               "--cert", str(server.client_cert), "--key", str(server.client_key),
               "-H", "Audit-ID: managed", *accept, *data]  # fmt: skip
    subprocess.run([*command, f"{server.url}{path}"], timeout=60, check=True)
    assert Path(server.folder / "body").read_bytes().startswith(b"k8s\0")
    event = last_event(server, "managed")
    assert event["responseObject"]["metadata"]["managedFields"][0]["manager"] == "me"


def test_stages(server: Server) -> None:
    """A watch has events at its receipt, its start and its end; a wrong credential has one."""
    path = "/api/v1/namespaces?watch=1&timeoutSeconds=1"
    _, audit_id, _ = curl(server, path)
    last_event(server, audit_id)
    stages = [event["stage"] for event in events(server, audit_id)]
    assert stages == ["RequestReceived", "ResponseStarted", "ResponseComplete"]
    status, audit_id, _ = curl(server, "/api/v1/pods", token="wrong")
    assert status == 401
    (event,) = events(server, audit_id) or [last_event(server, audit_id)]
    assert event["responseStatus"]["code"] == 401
    assert "attempted: bearer" in event["responseStatus"]["message"]


def test_kubectl(server: Server) -> None:
    """A request as another user names both."""
    run(kubectls()[0], server, "get", "configmaps", "--as=jane", fails=True)
    curl(server, "/version")
    lines = (server.folder / "audit.log").read_text().splitlines()
    recorded = [json.loads(line) for line in lines if '"impersonatedUser"' in line]
    assert recorded[-1]["impersonatedUser"]["username"] == "jane"
    assert recorded[-1]["user"]["username"] == "kubernetes-admin"
