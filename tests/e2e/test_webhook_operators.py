"""Admission webhooks of programs that were not written for this project."""

import base64
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import Credentials, ensure_certificates
from tests.clients.toolchains import install, suite_folder
from tests.e2e.every_kind import MERGE, Api, Tree, meta
from tests.e2e.programs import Server
from tests.storage.etcd_server import free_port

KOPF_PROGRAM = Path(__file__).parent / "webhook_operator_program.py"
GROUP = "/apis/admissionregistration.k8s.io/v1"
TIMEOUT = 120


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    return ensure_certificates(Config(), tmp_path_factory.mktemp("hook"))


@pytest.fixture
def kopf(server: Server, namespace: str, credentials: Credentials) -> Iterator[str]:
    """A running operator; the name of the configurations that it keeps."""
    name = f"{namespace}.kopf.example.com"
    files = {
        "HOOK_NAME": name,
        "HOOK_CERTIFICATE": str(credentials.serving.certificate),
        "HOOK_KEY": str(credentials.serving.key),
        "HOOK_AUTHORITY": str(credentials.ca),
    }
    operator = subprocess.Popen(
        [sys.executable, "-m", "kopf", "run", "--verbose", "-n", namespace, str(KOPF_PROGRAM)],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig), **files},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert operator.stdout is not None
    messages = []
    for line in operator.stdout:
        messages.append(line)
        if re.search("Reconfiguring the validating webhook", line):
            break
    else:
        raise AssertionError("".join(messages))
    yield name
    operator.terminate()
    print(operator.communicate(timeout=60)[0])  # shown when the test fails


def wait_for_webhooks(api: Api, kind: str, name: str) -> None:
    """Wait until the configuration has a webhook with a clientConfig."""
    with api.watch(f"{GROUP}/{kind}?fieldSelector=metadata.name={name}") as stream:
        for line in stream:
            if b'"clientConfig":{' in line:
                return


def config_map(name: str, **data: str) -> Tree:
    return {**meta(name, labels={"kopf": "yes"}), "data": data}


def test_kopf_webhooks(api: Api, core: str, kopf: str) -> None:
    """kopf keeps its webhook configurations up to date, and its handlers change and refuse
    objects."""
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        wait_for_webhooks(api, kind, kopf)
    path = f"{core}/configmaps"
    response = api.request("POST", path, config_map("a", color="red"))
    assert response.status == 201, response.body
    assert response.tree["data"] == {"color": "red", "stamped": "by kopf"}
    assert "kopf saw CREATE of a, dry run: False" in response.headers["Warning"]
    response = api.request(
        "PATCH", f"{path}/a?dryRun=All", {"data": {"allowed": "no"}}, content_type=MERGE
    )
    assert response.status == 499
    assert re.fullmatch(
        r'admission webhook "check\..*" denied the request: not for .+', response.tree["message"]
    )
    assert api("POST", path, {**meta("b"), "data": {"allowed": "no"}})["data"] == {"allowed": "no"}
    api("DELETE", f"{path}/a")


PEPR_CRD = {
    "metadata": {"name": "peprstores.pepr.dev"},
    "spec": {
        "group": "pepr.dev",
        "scope": "Namespaced",
        "names": {"plural": "peprstores", "singular": "peprstore", "kind": "PeprStore"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "data": {"type": "object", "additionalProperties": {"type": "string"}}
                        },
                    }
                },
            }
        ],
    },
}
"""The definition of the store in which Pepr keeps its state, as its installation creates it."""


@pytest.fixture
def pepr(server: Server, api: Api, credentials: Credentials) -> Iterator[str]:
    """The URL of a running Pepr module."""
    folder = suite_folder("pepr", "node", "npm", suites=Path(__file__).parent)
    install(folder, "npm", "install", "--ignore-scripts", "--omit=dev", "--legacy-peer-deps")
    api("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", PEPR_CRD)
    api("POST", "/api/v1/namespaces", meta("pepr-system"))
    port = free_port()
    module = subprocess.Popen(
        ["node", "module.js"],
        cwd=folder,
        env={
            **os.environ,
            "KUBECONFIG": str(server.kubeconfig),
            "LOG_LEVEL": "debug",
            "PEPR_API_PATH": "secret",
            "PEPR_PORT": str(port),
            "PEPR_WATCH_MODE": "false",
            "SSL_CERT_PATH": str(credentials.serving.certificate),
            "SSL_KEY_PATH": str(credentials.serving.key),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert module.stdout is not None
    messages = []
    for line in module.stdout:
        messages.append(line)
        if "Controller startup complete" in line:
            break
    else:
        raise AssertionError("".join(messages))
    yield f"https://localhost:{port}"
    module.terminate()
    print(module.communicate(timeout=60)[0])  # shown when the test fails


@pytest.mark.slow
def test_pepr(api: Api, core: str, namespace: str, pepr: str, credentials: Credentials) -> None:
    """Pepr, a policy engine from npm, changes and refuses objects."""
    bundle = base64.b64encode(credentials.ca.read_bytes()).decode()
    paths = {}
    for kind, verb in (("mutating", "mutate"), ("validating", "validate")):
        webhook = {
            "name": f"pepr-{verb}.example.com",
            "admissionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": {"url": f"{pepr}/{verb}/secret", "caBundle": bundle},
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["configmaps"],
                }
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "sideEffects": "None",
        }
        paths[kind] = f"{GROUP}/{kind}webhookconfigurations"
        api("POST", paths[kind], {**meta(f"pepr-{namespace}"), "webhooks": [webhook]})
    path = f"{core}/configmaps"
    body = {**meta("a", labels={"pepr": "yes"}), "data": {"colour": "red"}}
    response = api.request("POST", path, body)
    assert response.status == 201, response.body
    annotations = response.tree["metadata"]["annotations"]
    assert annotations["colour"] == "red"
    assert annotations["colours.pepr.dev/colours"] == "succeeded"
    assert "a fine colour" in response.headers["Warning"]
    response = api.request("PATCH", f"{path}/a", {"data": {"colour": "grey"}}, content_type=MERGE)
    assert response.status == 422  # Pepr sends this code for every denial
    assert response.tree["message"].startswith(
        'admission webhook "pepr-validate.example.com" denied the request: '
    )
    assert "grey is no colour" in response.tree["message"]
    api("POST", path, {**meta("b"), "data": {"colour": "grey"}})
    for configurations in paths.values():
        api("DELETE", f"{configurations}/pepr-{namespace}")
