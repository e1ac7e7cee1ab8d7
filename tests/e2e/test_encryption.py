"""`--encryption-provider-config` as an operator uses it: start, search the file, rotate keys."""

import asyncio
import base64
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kapiserver.cli import parser
from kapiserver.cluster import open_cluster
from kapiserver.server_config import config_of
from tests.e2e.programs import ROOT, Server, kubectls, run, start, stop
from tests.e2e.test_etcd import call

SECRETS = "/api/v1/namespaces/default/secrets"
KEYS = {name: base64.b64encode(name.encode().ljust(32)).decode() for name in ("old", "new")}


def configure(folder: Path, *providers: str) -> str:
    """Write a configuration for secrets; return the flag."""
    provider_lines = "".join(
        f"  - {provider}: {{keys: [{{name: {key}, secret: {KEYS[key]}}}]}}\n" if key
        else f"  - {provider}: {{}}\n"
        for provider, _, key in (name.partition(":") for name in providers)
    )  # fmt: skip
    file = folder / "encryption.yaml"
    file.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
        f"- resources: [secrets]\n  providers:\n{provider_lines}"
    )
    return f"--encryption-provider-config={file}"


@contextmanager
def serving(folder: Path, *flags: str) -> Iterator[Server]:
    server = start(folder, *flags)
    try:
        yield server
    finally:
        assert stop(server) == 0, (folder / "log").read_text()


def stored(folder: Path) -> bytes:
    """The contents of all files of the server."""
    files = (path for path in (folder / "data").rglob("*") if path.is_file())
    return b"".join(path.read_bytes() for path in files)


def read(server: Server, name: str, **options: Any) -> Any:
    return call(server, "GET", f"{SECRETS}/{name}", **options)


def test_key_rotation(tmp_path: Path) -> None:
    """A Secret is in plain in no file; a new key reads values of the old one, and replacing a
    Secret rewrites it; without the key a Secret is an internal error and other requests succeed."""
    password = os.urandom(9).hex()
    data = base64.b64encode(password.encode()).decode()
    with serving(tmp_path, configure(tmp_path, "aescbc:old", "identity")) as server:
        body = {"metadata": {"name": "a"}, "data": {"password": data}}
        call(server, "POST", SECRETS, body, status=201)
        assert read(server, "a")["data"] == {"password": data}
        assert password.encode() not in stored(tmp_path)
        assert data.encode() not in stored(tmp_path)
        assert b"k8s:enc:aescbc:v1:old:" in stored(tmp_path)
        for kubectl in kubectls()[:1]:
            run(kubectl, server, "create", "secret", "generic", "b", f"--from-literal=p={password}")
            encoded = run(kubectl, server, "get", "secret", "b", "-o", "jsonpath={.data.p}")
            assert encoded == data
        back_up(tmp_path)
    assert b"k8s:enc:aescbc:v1:old:" in (tmp_path / "data" / "backup").read_bytes()
    assert password.encode() not in stored(tmp_path)
    assert data.encode() not in stored(tmp_path)
    with serving(tmp_path, configure(tmp_path, "secretbox:new", "aescbc:old")) as server:
        for item in call(server, "GET", SECRETS)["items"]:
            call(server, "PUT", f"{SECRETS}/{item['metadata']['name']}", item)
        assert b"k8s:enc:secretbox:v1:new:" in stored(tmp_path)
    with serving(tmp_path, configure(tmp_path, "secretbox:new")) as server:
        assert read(server, "a")["data"] == {"password": data}
    with serving(tmp_path, configure(tmp_path, "aescbc:old")) as server:
        check_unreadable(server)


def back_up(folder: Path) -> None:
    """Back up the store while it is served."""
    data = folder / "data"
    command = [sys.executable, "-m", "kapiserver.cli", "storage", "backup"]
    subprocess.run([*command, "--data-dir", data, data / "backup"], cwd=ROOT, check=True)


def check_unreadable(server: Server) -> None:
    problem = "no matching prefix found"
    for path, reason in ((f"{SECRETS}/a", "InternalError"), (SECRETS, "StorageReadError")):
        refused = call(server, "GET", path, status=500)
        assert refused["reason"] == reason
        assert f"not transformable revision=0: {problem}" in refused["message"]
    call(server, "POST", SECRETS, {"metadata": {"name": "c"}}, status=201)
    assert read(server, "c")["metadata"]["name"] == "c"
    call(server, "GET", "/api/v1/namespaces/default/configmaps")


REFUSED = [
    (["--encryption-provider-config=none"], "error reading encryption provider configuration "
     'file "none"'),
    (["--encryption-provider-config=README.md"], "error decoding encryption provider configuration "
     'file "README.md"'),
    (["--encryption-provider-config-automatic-reload"],
     "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config"),
    (["--feature-gates=Nothing=true"], "unrecognized feature gate: Nothing"),
    (["--feature-gates", "WatchList"], "missing bool value for WatchList"),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "message"), REFUSED)
def test_invalid_flags(flags: list[str], message: str) -> None:
    """A server with invalid flags does not start, and prints the reason."""

    async def open_and_close() -> None:
        async with open_cluster(config_of(parser().parse_args(["serve", *flags]))):
            pass

    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        asyncio.run(open_and_close())
