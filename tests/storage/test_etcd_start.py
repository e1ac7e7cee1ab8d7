"""Opening an etcd store: endpoint URLs, an etcd that starts later, restricted users."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kapiserver.storage import backends
from kapiserver.storage.backends import open_store
from kapiserver.storage.errors import Refused, Unavailable
from kapiserver.storage.etcd.config import EtcdConfig
from kapiserver.storage.etcd.store import open_etcd
from tests.storage.etcd_server import ETCDCTL_FLAGS, Member, program
from tests.storage.recorder import Recorder


@pytest.fixture
def member(etcd_program: Path) -> Iterator[Member]:
    """A member of one test, not started yet."""
    member = Member(etcd=etcd_program)
    yield member
    member.remove()


@pytest.mark.parametrize(
    "location",
    ["a:2379", "http://", "ftp://a:1", "http://a:1,", "http://a:1/b", "http://u:p@a", "http://a?b"],
)
async def test_endpoints_are_urls(location: str) -> None:
    """An endpoint that is not a URL is a ValueError with the expected form."""
    with pytest.raises(ValueError, match="want http://"):
        await open_store(f"etcd:{location}")


async def test_an_etcd_that_starts_later(monkeypatch: pytest.MonkeyPatch, member: Member) -> None:
    """A store waits for an etcd that is not up yet, for a limited time."""
    monkeypatch.setattr(backends, "START_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(backends, "START_TIMEOUT_SECONDS", 0.0)
    with pytest.raises(Unavailable):
        await open_store(f"etcd:{member.url}/")
    monkeypatch.setattr(backends, "START_TIMEOUT_SECONDS", 60.0)
    open_task = asyncio.create_task(open_store(f"etcd:{member.url}/"))
    await asyncio.sleep(0)
    member.start()
    store = await open_task
    await store.create("/a/x", b"")
    await store.close()


async def test_restricted_users(member: Member, tmp_path: Path) -> None:
    """A user with access to keys below the root only is sufficient; a user without it is refused
    with etcd's message."""
    member.start()
    member.wait()
    for arguments in (
        "user add root:secret",
        "user grant-role root root",
        "user add kube:secret",
        "user add other:secret",
        "role add kube",
        "role grant-permission kube readwrite --prefix=true /registry/",
        "user grant-role kube kube",
        "auth enable",
    ):
        command = [
            program("etcdctl"),
            f"--endpoints={member.url}",
            *ETCDCTL_FLAGS,
            *arguments.split(),
        ]
        subprocess.run(command, check=True, capture_output=True)  # noqa: ASYNC221 - it ends at once
    password = tmp_path / "password"
    password.write_text("secret")

    def config(user: str) -> EtcdConfig:
        options = {"endpoints": (member.url,), "password_file": password}
        return EtcdConfig(**options, username=user, root="/registry")

    with pytest.raises(Refused, match="permission denied"):
        await open_etcd(config("other"))
    store = await open_etcd(config("kube"))
    recorder = Recorder()
    watch = store.watch("/registry/", after=await store.current_revision(), sink=recorder)
    await store.create("/registry/pods/a/x", b"", ttl=60)
    watch.request_progress()
    await recorder.wait_until(lambda: recorder.progressed)
    assert "/registry/pods/a/x" in set(recorder.keys())
    await store.compact(await store.current_revision())
    with pytest.raises(Refused, match="permission denied"):
        await store.create("/elsewhere", b"")
    await store.close()
