"""Kubeconfigs of other clusters: credential plugins, proxies, names of servers, token files."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.webhooks.cluster_access import find_cluster, proxy_of
from kapiserver.client import Client
from kapiserver.testing.server import TestServer
from tests.apiserver.admission.test_kubeconfig_webhook import Tunnel
from tests.doctor.examined import server_of

V1 = "client.authentication.k8s.io/v1"


@pytest.fixture(scope="module")
def server() -> Iterator[TestServer]:
    with TestServer() as running:
        yield running


class Kubeconfig:
    """The kubeconfig of a server, whose parts a test changes."""

    def __init__(self, server: TestServer, folder: Path) -> None:
        self.path = folder / "kubeconfig"
        self._folder = folder
        self._tree = yaml.safe_load(server.kubeconfig_text)
        self.cluster: dict[str, Any] = self._tree["clusters"][0]["cluster"]
        self.user: dict[str, Any] = self._tree["users"][0]["user"]

    def set_plugin(self, script: str, **fields: Any) -> None:
        """Let the user have a plugin, a script of the shell beside the kubeconfig."""
        plugin = self._folder / "plugin"
        plugin.write_text(f"#!/bin/sh\n{script}\n")
        plugin.chmod(stat.S_IRWXU)
        self.user.clear()
        self.user["exec"] = {
            "apiVersion": V1, "command": "./plugin", "interactiveMode": "Never", **fields,
        }  # fmt: skip

    def write(self) -> Path:
        self.path.write_text(yaml.safe_dump(self._tree))
        return self.path


@pytest.fixture
def kubeconfig(server: TestServer, tmp_path: Path) -> Kubeconfig:
    return Kubeconfig(server, tmp_path)


def credential(status: dict[str, str], version: str = V1) -> str:
    """Return a command that prints an ExecCredential."""
    text = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    return f"cat <<'END'\n{text}\nEND"


def user_of(path: Path) -> str:
    """Return the name of the user that a client with the kubeconfig has, after the doctor's client
    has read a page that only administrators may read."""
    assert server_of(path).ask("/metrics").status == 200

    async def ask() -> str:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        async with Client.from_kubeconfig(path) as client:
            answer = await client.call(
                "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review
            )
        return answer["status"]["userInfo"]["username"]

    return asyncio.run(ask())


def test_token_of_plugin(server: TestServer, kubeconfig: Kubeconfig) -> None:
    """A plugin gets its arguments, its environment and the cluster, and prints a token."""
    script = f"""
test "$1 $A" = "x b" || exit 3
printf %s "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/info"
{credential({"token": server.token})}"""
    env = [{"name": "A", "value": "b"}]
    kubeconfig.set_plugin(script, args=["x"], env=env, provideClusterInfo=True)
    assert user_of(kubeconfig.write()) == "kubernetes-admin"
    info = json.loads(kubeconfig.path.with_name("info").read_text())
    assert info["apiVersion"] == V1
    assert info["spec"]["interactive"] is False
    assert info["spec"]["cluster"] == {
        name: kubeconfig.cluster[name] for name in ("server", "certificate-authority-data")
    }


def test_certificate_of_plugin(kubeconfig: Kubeconfig) -> None:
    """A plugin prints a client certificate with its key."""
    fields = {
        "clientCertificateData": "client-certificate-data", "clientKeyData": "client-key-data",
    }  # fmt: skip
    status = {
        name: base64.b64decode(kubeconfig.user[field]).decode() for name, field in fields.items()
    }
    kubeconfig.set_plugin(credential(status))
    assert user_of(kubeconfig.write()) == "kubernetes-admin"


@pytest.mark.parametrize(
    ("script", "fields", "message"),
    [
        ("exit 7", {}, "executable ./plugin failed with exit code 7"),
        ("echo nothing", {}, "the output is no ExecCredential"),
        ("echo []", {}, "the output is no ExecCredential"),
        (credential({}), {}, "didn't return a token or cert/key pair"),
        (credential({"token": "x"}, "client.authentication.k8s.io/v1beta1"), {}, "v1beta1"),
        ("", {"command": "/missing", "installHint": "See the wiki."}, "See the wiki."),
        ("", {"command": ""}, "command must be specified"),
        ("", {"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "v1alpha1"),
        ("", {"interactiveMode": ""}, "interactiveMode"),
        ("", {"interactiveMode": "Always"}, "cannot support interactive mode"),
    ],
)
def test_bad_plugins(
    kubeconfig: Kubeconfig, script: str, fields: dict[str, str], message: str
) -> None:
    """What is wrong with a plugin is said."""
    kubeconfig.set_plugin(script, **fields)
    with pytest.raises(BadConfiguration, match=message):
        find_cluster(kubeconfig.write())


def test_proxy(kubeconfig: Kubeconfig, server: TestServer) -> None:
    """Requests go by way of the proxy of the kubeconfig."""
    target = server.url.removeprefix("https://")
    tunnel = Tunnel()
    kubeconfig.cluster["proxy-url"] = tunnel.url
    assert server_of(kubeconfig.write()).ask("/version").status == 200
    assert tunnel.request.startswith(f"CONNECT {target} HTTP/1.")
    tunnel = Tunnel()
    kubeconfig.cluster["proxy-url"] = tunnel.url

    async def ask() -> None:
        async with Client.from_kubeconfig(kubeconfig.write()) as client:
            await client.call("GET", "/version")

    asyncio.run(ask())
    assert tunnel.request == f"CONNECT {target} HTTP/1.1"


@pytest.mark.parametrize(
    ("cluster", "proxy"),
    [
        ({"server": "https://api.example.com"}, "http://proxy:3128"),
        ({"server": "http://api.example.com"}, ""),
        ({"server": "https://api.inside.example"}, ""),
        ({"server": "https://127.0.0.1:6443"}, ""),
        ({"server": "https://localhost:6443"}, ""),
        ({"server": "https://127.0.0.1", "proxy-url": "http://p:1"}, "http://p:1"),
    ],
)
def test_proxy_of_environment(
    monkeypatch: pytest.MonkeyPatch, cluster: dict[str, str], proxy: str
) -> None:
    """Without `proxy-url`, the environment names the proxy, but not for this machine."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", ".inside.example")
    for name in ("https_proxy", "http_proxy", "HTTP_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert proxy_of(cluster) == proxy


def test_other_proxies() -> None:
    """A proxy that does not speak HTTP is refused, without its password."""
    cluster = {"server": "https://a", "proxy-url": "socks5://me:secret@proxy:1"}
    with pytest.raises(BadConfiguration, match="proxy socks5://CLASSIFIED@proxy:1: want http"):
        proxy_of(cluster)


def test_name_of_certificate(kubeconfig: Kubeconfig) -> None:
    """`tls-server-name` is the name that the certificate must have."""
    kubeconfig.cluster["tls-server-name"] = "kubernetes.default.svc"
    assert user_of(kubeconfig.write()) == "kubernetes-admin"
    kubeconfig.cluster["tls-server-name"] = "other.example.com"
    with pytest.raises(ssl.SSLCertVerificationError, match=r"other\.example\.com"):
        server_of(kubeconfig.write()).ask("/version")


def test_token_file(kubeconfig: Kubeconfig, server: TestServer) -> None:
    """A token file begins at the folder of the kubeconfig."""
    kubeconfig.path.with_name("token").write_text(f"{server.token}\n")
    kubeconfig.user.clear()
    kubeconfig.user["tokenFile"] = "token"
    assert user_of(kubeconfig.write()) == "kubernetes-admin"
