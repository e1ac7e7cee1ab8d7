"""Fixtures of the suites of client libraries: a running server and its kubeconfigs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import namespace, newest
from tests.e2e.programs import Server, start, stop

__all__ = ["namespace", "newest"]
TOKEN = "clients-token"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with HTTP/2 that accepts the administrator's client certificate and a static
    token."""
    folder = tmp_path_factory.mktemp("clients")
    tokens = folder / "tokens.csv"
    tokens.write_text(f'{TOKEN},token-user,token-uid,"system:masters"\n')
    tokens.chmod(0o600)
    running = start(folder, f"--token-auth-file={tokens}", "--disable-http2-serving=false")
    yield running
    stop(running)


@pytest.fixture(scope="session")
def token_kubeconfig(server: Server) -> Path:
    """A kubeconfig with the token instead of the client certificate."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": TOKEN}
    path = server.folder / "token-kubeconfig"
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return path


@pytest.fixture(scope="session")
def suite_environment(server: Server, token_kubeconfig: Path) -> dict[str, str]:
    """The environment of a suite: KUBECONFIG and TOKEN_KUBECONFIG."""
    return {"KUBECONFIG": str(server.kubeconfig), "TOKEN_KUBECONFIG": str(token_kubeconfig)}


@pytest.fixture
def kubeconfig(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of the server's kubeconfig, which KUBECONFIG names, too."""
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    return str(server.kubeconfig)
