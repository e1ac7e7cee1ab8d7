"""A host, and programs of `kapiserver.extension` behind it, in processes of their own."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.apiserver.aggregation.aggregationkit import Authority, resolver_file
from tests.docs.blocks import ROOT
from tests.e2e.cluster import call
from tests.e2e.programs import Server, kubectls, run, start, stop

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_TRUST = "configmap/extension-apiserver-authentication"


@contextmanager
def running_host(folder: Path, authority: Authority, *flags: str, **ports: int) -> Iterator[Server]:
    """A host whose Services of these names are at ports of this machine; it publishes the CA of its
    front proxies."""
    addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    proxy = authority.issue("front-proxy")
    server = start(
        folder,
        "--service-resolver", str(resolver_file(folder, **addresses)),
        "--requestheader-client-ca-file", str(authority.files.certificate),
        "--requestheader-allowed-names", "front-proxy",
        "--requestheader-username-headers", "X-Remote-User",
        "--requestheader-group-headers", "X-Remote-Group",
        "--requestheader-extra-headers-prefix", "X-Remote-Extra-",
        "--proxy-client-cert-file", str(proxy.certificate),
        "--proxy-client-key-file", str(proxy.key),
        *flags,
    )  # fmt: skip
    try:
        run(kubectls()[0], server, "wait", "--for=create", "-n", "kube-system", "--timeout=60s",
            _TRUST)  # fmt: skip
        yield server
    finally:
        assert stop(server) == 0


@contextmanager
def running_extension(
    folder: Path, host: Path, authority: Authority, name: str, *command: str
) -> Iterator[None]:
    """The program of an extension API server, which is the Service of that name, and whose host is
    that of a kubeconfig."""
    pair = authority.issue(f"{name}.default.svc")
    arguments = [
        sys.executable, *command, "--data-dir", folder, "--kubeconfig", host,
        "--tls-sni-cert-key", f"{pair.certificate},{pair.key}",
    ]  # fmt: skip
    server = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        assert server.stdout is not None
        assert "https://127.0.0.1:" in server.stdout.readline()
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    assert server.returncode == 0


def register(host: Server, authority: Authority, name: str, group: str, *versions: str) -> None:
    """Make the APIServices of a group, and wait until they are available and in OpenAPI."""
    for version in versions:
        body = {
            "metadata": {"name": f"{version}.{group}"},
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 1000,
                "versionPriority": 15,
                "service": {"namespace": "default", "name": name},
                "caBundle": base64.b64encode(authority.pem.encode()).decode(),
            },
        }
        call(host, "POST", SERVICES, body, status=201)
        wait = ("wait", "--for=condition=Available", "--timeout=60s")
        run(kubectls()[0], host, *wait, f"apiservice/{version}.{group}")
    while f"{group}/{versions[0]}" not in json.dumps(call(host, "GET", "/openapi/v3")):
        pass
