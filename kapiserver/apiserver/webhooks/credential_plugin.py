"""The credential plugin of a kubeconfig's user: a program that prints a token or a certificate.

Mirrors plugin/pkg/client/auth/exec of client-go, and KEP-541. Programs run a plugin once, when they
read the kubeconfig; the server itself refuses kubeconfigs with plugins.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import orjson

from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.types import Tree
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.webhooks.credentials import read_pem

VERSIONS = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))
SECONDS = 300.0
"""The time limit of a plugin, in which a person may have to log in."""
_MODES = ("IfAvailable", "Never", "Always")
_CLUSTER_FIELDS = (
    "server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression",
)  # fmt: skip


def plugin_errors(plugin: Tree, path: Path) -> Iterator[FieldError]:
    """Yield what is wrong with the field `exec` of a user."""
    version, mode = plugin.get("apiVersion") or "", plugin.get("interactiveMode") or ""
    if not plugin.get("command"):
        yield required(path / "command", "command must be specified")
    if version not in VERSIONS:
        yield invalid(path / "apiVersion", version, f"want one of {', '.join(VERSIONS)}")
    elif (mode or version == VERSIONS[0]) and mode not in _MODES:
        yield invalid(path / "interactiveMode", mode, f"want one of {', '.join(_MODES)}")


def run_plugin(plugin: Tree, cluster: Tree, folder: FilePath) -> Tree:
    """Run a plugin and return its credentials as fields of a user of a kubeconfig. A command with
    a slash begins at the folder of the kubeconfig. Raises BadConfiguration."""
    command, mode = plugin["command"], plugin.get("interactiveMode")
    interactive = mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not interactive:
        raise BadConfiguration(f"exec plugin cannot support interactive mode: {command}")
    path = str(folder.absolute() / command) if os.sep in command else command
    try:
        result = subprocess.run(
            [path, *(plugin.get("args") or ())],
            env=os.environ | _environment(plugin, cluster, folder, interactive=interactive),
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=SECONDS,
        )
    except FileNotFoundError:
        hint = plugin.get("installHint")
        raise BadConfiguration(
            f"exec: executable {command} not found" + (f"\n\n{hint}" if hint else "")
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadConfiguration(f"exec: {error}") from None
    if result.returncode:
        raise BadConfiguration(
            f"exec: executable {command} failed with exit code {result.returncode}"
        )
    return _user(plugin, result.stdout)


def _environment(
    plugin: Tree, cluster: Tree, folder: FilePath, *, interactive: bool
) -> dict[str, str]:
    """Return the variables that the kubeconfig sets, and what the plugin may want to know."""
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = {name: cluster[name] for name in _CLUSTER_FIELDS if cluster.get(name)}
        authorities = read_pem(cluster, "certificate-authority", folder)
        if authorities:
            spec["cluster"]["certificate-authority-data"] = base64.b64encode(authorities).decode()
    info = {"kind": "ExecCredential", "apiVersion": plugin["apiVersion"], "spec": spec}
    variables = {
        variable["name"]: variable.get("value") or "" for variable in plugin.get("env") or ()
    }
    return variables | {"KUBERNETES_EXEC_INFO": orjson.dumps(info).decode()}


def _user(plugin: Tree, output: bytes) -> Tree:
    """Return the credentials that a plugin has printed. Raises BadConfiguration."""
    try:
        credential = orjson.loads(output)
        status = credential["status"]
        token, certificate = status.get("token"), status.get("clientCertificateData")
        key, version = status.get("clientKeyData"), credential["apiVersion"]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise BadConfiguration(f"exec: the output is no ExecCredential: {error!r}") from None
    if version != plugin["apiVersion"]:
        raise BadConfiguration(
            f"exec plugin is configured to use API version {plugin['apiVersion']}, plugin returned "
            f"version {version}"
        )
    if not token and not (certificate and key):
        raise BadConfiguration("exec plugin didn't return a token or cert/key pair")
    user = {"token": token} if token else {}
    for name, text in (("client-certificate-data", certificate), ("client-key-data", key)):
        if text:
            user[name] = base64.b64encode(text.encode()).decode()
    return user
