"""Makes the client libraries of this process use a test server: sets environment variables, and
replaces what the libraries have already read from them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

LOOPBACK = "127.0.0.1"
_IN_CLUSTER = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
"""Variables of a pod, which some clients prefer to a kubeconfig."""
_PROXY_EXCEPTIONS = ("NO_PROXY", "no_proxy")

_DEFAULT_LOCATION = "KUBE_CONFIG_DEFAULT_LOCATION"
_READ_AT_IMPORT = (
    "kubernetes.config",
    "kubernetes.config.kube_config",
    "kubernetes_asyncio.config",
    "kubernetes_asyncio.config.kube_config",
)
"""Modules that read KUBECONFIG into a constant when they are imported."""


@contextmanager
def use_kubeconfig(path: Path) -> Iterator[None]:
    """Make the kubeconfig the default one of this process and of its children until the block ends.

    KUBECONFIG is the path; the variables of a pod are unset, and no proxy is used for the loopback
    address. The official clients, which read KUBECONFIG at import, use the path too, and kr8s
    forgets the clients that it keeps for reuse.
    """
    before = {name: os.environ.get(name) for name in (*_IN_CLUSTER, *_PROXY_EXCEPTIONS)}
    before["KUBECONFIG"] = os.environ.get("KUBECONFIG")
    variables: dict[str, str | None] = dict.fromkeys(_IN_CLUSTER)
    for name in _PROXY_EXCEPTIONS:
        variables[name] = ",".join(filter(None, (before[name], LOOPBACK)))
    _set_variables({**variables, "KUBECONFIG": str(path)})
    _set_default_location(str(path))
    _forget_kr8s_clients()
    try:
        yield
    finally:
        _set_variables(before)
        _set_default_location(before["KUBECONFIG"] or "~/.kube/config")
        _forget_kr8s_clients()


def _set_variables(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _set_default_location(path: str) -> None:
    """Set the constant of the clients; both expand `~` when they read it."""
    for name in _READ_AT_IMPORT:
        module = sys.modules.get(name)
        if hasattr(module, _DEFAULT_LOCATION):
            setattr(module, _DEFAULT_LOCATION, path)


def _forget_kr8s_clients() -> None:
    # `kr8s.api()` returns any client of this thread that is still in memory, whatever its server.
    api = getattr(sys.modules.get("kr8s._api"), "Api", None)
    getattr(api, "_instances", {}).clear()
