"""Files that change while the server runs: how it notices them, what it refuses, what it counts."""

import asyncio
import json
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver import file_watch
from kapiserver.apiserver.authorization.modes import Authorization
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.file_watch import (
    CHECKS_PER_READ,
    FileWatch,
    file_state,
)
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates, pem_base64
from kapiserver.app import serve
from kapiserver.cluster import Cluster, open_cluster
from kapiserver.metrics import content_hash
from kapiserver.parts import Parts
from tests.clock import ManualClock


class Watched:
    """A file and how often a watch has read it again."""

    def __init__(self, file: Path, clock: ManualClock) -> None:
        self.reads = 0
        self.clock = clock
        self.watch = FileWatch(clock)
        self.subscription = self.watch.subscribe(lambda: file_state(file), self._read)
        self.watch.start()

    def _read(self) -> None:
        self.reads += 1

    def reads_after_check(self) -> int:
        """The number of reads within a second, as the documents promise."""
        before = self.reads
        self.clock.advance(1.0)
        return self.reads - before


def _rename(file: Path) -> None:
    new = file.with_name("new")
    new.write_text("new")
    new.rename(file)


def _remove(file: Path) -> None:
    file.unlink()


def _write(file: Path) -> None:
    file.write_text("longer than before")


@pytest.mark.parametrize("change", [_rename, _write, _remove])
def test_changed_file(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """A file that is written, replaced by a rename or removed is read again, once."""
    file = tmp_path / "file"
    file.write_text("old")
    watched = Watched(file, ManualClock())
    assert watched.reads_after_check() == 0
    change(file)
    assert [watched.reads_after_check() for _ in "abc"] == [1, 0, 0]
    watched.subscription.cancel()
    file.write_text("again")
    assert watched.reads_after_check() == 0


def test_config_map(tmp_path: Path) -> None:
    """A file of a ConfigMap changes when the kubelet swaps the link of its directory."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("same size")
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "file").symlink_to("..data/file")
    watched = Watched(tmp_path / "file", ManualClock())
    (tmp_path / "..data_tmp").symlink_to("two")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert watched.reads_after_check() == 1
    shutil.rmtree(tmp_path / "one")
    assert watched.reads_after_check() == 0


def test_every_minute(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file is read every minute even if it looks the same; an error of reading is logged and
    stops nothing. There is no timer without files, or after the end."""
    file, clock = tmp_path / "file", ManualClock()
    file.write_text("one")
    watched = Watched(file, clock)
    watched.watch.subscribe(lambda: 0, lambda: 1 // 0)
    state = file.stat()
    file.write_text("two")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert sum(watched.reads_after_check() for _ in range(2 * CHECKS_PER_READ)) == 2
    assert caplog.text.count("reading changed files failed") == 2
    watched.watch.stop()
    assert all(timer.cancelled for timer in clock.timers)
    idle = ManualClock()
    FileWatch(idle).start()
    assert not idle.timers


def _authentication(*issuers: str, **parts: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthenticationConfiguration",
            "jwt": [
                {
                    "issuer": {"url": url, "audiences": ["me"]},
                    "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
                }
                for url in issuers
            ],
            **parts,
        }
    )


def _run(check: Callable[[Cluster], Awaitable[None]], **settings: Any) -> None:
    async def main() -> None:
        async with open_cluster(Config.of(**settings), Parts(clock=ManualClock())) as cluster:
            try:
                await check(cluster)
            finally:
                await cluster.authentication.stop()

    asyncio.run(main())


async def _status(cluster: Cluster, path: str) -> int:
    async def no_body(_limit: int) -> bytes:
        return b""

    info = parse_request_info("GET", path, {})
    request = Request(method="GET", path=path, query={}, headers={}, info=info, read_body=no_body)
    return (await cluster.handle(request)).status


INITIAL = {"enabled": True, "conditions": [{"path": "/version"}]}


@pytest.mark.parametrize("changed", [None, {"enabled": False}, {"enabled": True}])
def test_changed_anonymous(tmp_path: Path, caplog: pytest.LogCaptureFixture, changed: Any) -> None:
    """A configuration that changes `anonymous` is refused as a whole. It is logged and counted
    once, and one with the first value is used again."""
    file = tmp_path / "authentication.json"
    file.write_text(_authentication(anonymous=INITIAL))

    async def check(cluster: Cluster) -> None:
        reloads = cluster.server.metrics.authentication.reloads
        assert reloads.hash == content_hash(file.read_bytes())
        parts = {"anonymous": changed} if changed else {}
        file.write_text(_authentication("https://one.example.com", **parts))
        cluster.authentication.reload()
        cluster.authentication.reload()
        text = "anonymous: Forbidden: changed from initial configuration file"
        assert caplog.text.count(text) == 1
        assert await _status(cluster, "/version") == 200
        assert await _status(cluster, "/api") == 401
        assert reloads.counts.values == {"failure": 1}
        assert reloads.hash == content_hash(_authentication(anonymous=INITIAL).encode())
        file.write_text(_authentication("https://two.example.com", anonymous=INITIAL))
        cluster.authentication.reload()
        assert reloads.counts.values == {"failure": 1, "success": 1}
        assert reloads.hash == content_hash(file.read_bytes())

    _run(check, authentication_config=file, authorization_mode=("AlwaysAllow",))


def test_unreadable_authentication(tmp_path: Path) -> None:
    """A file that cannot be read is tried and counted each time; an invalid one once."""
    file = tmp_path / "authentication.json"
    file.write_text(_authentication())

    async def check(cluster: Cluster) -> None:
        counts = cluster.server.metrics.authentication.reloads.counts
        file.unlink()
        cluster.authentication.reload()
        cluster.authentication.reload()
        assert counts.values == {"failure": 2}
        file.write_text("{")
        cluster.authentication.reload()
        cluster.authentication.reload()
        assert counts.values == {"failure": 3}
        file.write_text(_authentication())
        cluster.authentication.reload()
        assert counts.values == {"failure": 3, "success": 1}

    _run(check, authentication_config=file)


def test_authorization_metrics(tmp_path: Path) -> None:
    """Reloads of the authorization configuration are counted; text that means the same is none."""
    file = tmp_path / "authorization.json"

    def write(*types: str) -> None:
        authorizers = [{"type": each, "name": each.lower()} for each in types]
        kind = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AuthorizationConfiguration",
        }
        file.write_text(json.dumps({**kind, "authorizers": authorizers}))

    write("RBAC")

    async def check(cluster: Cluster) -> None:
        reloads, authorizer = (
            cluster.server.metrics.authorization.reloads,
            cluster.server.authorizer,
        )
        assert isinstance(authorizer, Authorization)
        assert (reloads.hash, reloads.counts.values) == (content_hash(file.read_bytes()), {})
        file.write_text(file.read_text() + "\n")
        authorizer.reload()
        assert reloads.counts.values == {}
        write("RBAC", "AlwaysDeny")
        authorizer.reload()
        assert reloads.counts.values == {"success": 1}
        assert reloads.times.values == {"success": cluster.server.clock.now()}
        assert reloads.hash == content_hash(file.read_bytes())
        write("Nope")
        authorizer.reload()
        authorizer.reload()
        assert reloads.counts.values == {"success": 1, "failure": 1}

    _run(check, authorization_config=file)


def test_running_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running server uses changed files without a signal, also the serving certificate in its
    kubeconfig."""
    monkeypatch.setattr(file_watch, "CHECK_SECONDS", 0.0)
    first, second = (ensure_certificates(Config(), tmp_path / name) for name in "ab")
    certificate, key, tokens = (tmp_path / name for name in ("tls.crt", "tls.key", "tokens"))
    shutil.copy(first.serving.certificate, certificate)
    shutil.copy(first.serving.key, key)
    tokens.write_text("good,ann,1\n")
    config = Config.of(
        cert_dir=tmp_path / "server",
        tls_cert_file=certificate,
        tls_private_key_file=key,
        token_auth_file=tokens,
    )

    async def main() -> None:
        async with serve(config) as running:
            assert running.kubeconfig is not None
            authenticator = running.cluster.server.authenticator
            changed = asyncio.Event()  # set last in the turn that reads all files
            running.cluster.file_watch.subscribe(lambda: file_state(certificate), changed.set)
            tokens.write_text("better,bob,2\n")
            shutil.copy(second.serving.key, key)
            shutil.copy(second.serving.certificate, certificate)
            await changed.wait()
            assert pem_base64(certificate) in running.kubeconfig.read_text()
            identity = await authenticator.authenticate_token("better")
            assert identity.user.name == "bob"

    asyncio.run(main())
