"""The checks of etcd's members, each by a real fault of a real etcd."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kapiserver.doctor.finding import ERROR, INFO, WARNING
from kapiserver.doctor.stores import etcd
from kapiserver.storage.errors import StorageError
from kapiserver.storage.etcd.config import TRANSPORTS, EtcdConfig
from kapiserver.storage.etcd.store import open_etcd
from tests.doctor.examined import installation, problems
from tests.storage.etcd_server import Member, free_port, program, shared_etcd, version

CHECKS = ("etcd-members", "etcd-version", "etcd-quota", "etcd-fragmentation")


@contextmanager
def _running(*flags: str) -> Iterator[Member]:
    member = Member(flags=flags)
    member.start()
    try:
        member.wait()
        yield member
    finally:
        member.remove()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_healthy_member(tmp_path: Path, transport: str) -> None:
    """A member that answers has no problem, over both transports; its size is a figure."""
    url = shared_etcd().url
    examined = installation(tmp_path, f"--etcd-servers={url}", f"--etcd-transport={transport}")
    for name in CHECKS:
        assert problems(name, examined) == []
    assert etcd.etcd_figures(examined)[f"bytes of {url}"] > 0


def test_silent_member(tmp_path: Path) -> None:
    """A member that does not answer is a warning beside one that does, and else an error."""
    silent = f"http://127.0.0.1:{free_port()}"
    (problem,) = problems("etcd-members", installation(tmp_path, f"--etcd-servers={silent}"))
    assert (problem.severity, problem.about) == (ERROR, silent)
    members = f"--etcd-servers={silent},{shared_etcd().url}"
    (problem,) = problems("etcd-members", installation(tmp_path, members))
    assert (problem.severity, problem.about) == (WARNING, silent)


def test_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that has reached its quota is an error, and so is the alarm after a write."""
    with _running("--quota-backend-bytes=16384") as member:
        flag = f"--etcd-servers={member.url}"
        monkeypatch.setattr(etcd, "DEFAULT_QUOTA", 16384)  # etcd 3.5 does not report it
        (problem,) = problems("etcd-quota", installation(tmp_path, flag))
        assert problem.severity == ERROR
        asyncio.run(_fill(member.url))
        etcd._answers.cache_clear()
        (problem,) = problems("etcd-members", installation(tmp_path, flag))
        assert problem.severity == ERROR
        assert problem.message.endswith("it refuses writes")
        assert "etcdctl alarm disarm" in problem.remedy


async def _fill(url: str) -> None:
    store = await open_etcd(EtcdConfig(endpoints=(url,)))
    try:
        for number in range(100):
            await store.create(f"/{number}", bytes(10_000))
    except StorageError:
        pass
    else:
        raise AssertionError("the quota has no effect")
    await store.close()


@pytest.mark.slow
def test_no_leader(tmp_path: Path) -> None:
    """A member that has lost the others knows no leader."""
    ports = {"one": free_port(), "two": free_port()}
    members = [Member(name, ports) for name in ports]
    try:
        for member in members:
            member.start()
        for member in members:
            member.wait()
        members[1].kill()
        examined = installation(tmp_path, f"--etcd-servers={members[0].url}")
        for _ in range(1000):
            etcd._answers.cache_clear()
            if found := problems("etcd-members", examined):
                break
        assert found[0].message == "does not answer: etcd: etcdserver: no leader"
        assert found[0].remedy.startswith("start the other members; ")
    finally:
        for member in members:
            member.remove()


def test_fragmentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free space after a compaction is named."""
    with _running() as member:
        asyncio.run(_write_and_compact(member.url))
        monkeypatch.setattr(etcd, "FREE_BYTES", 100_000)
        monkeypatch.setattr(etcd, "FREE_SHARE", 0.1)
        examined = installation(tmp_path, f"--etcd-servers={member.url}")
        for _ in range(1000):  # etcd compacts later, and counts free pages at another write
            asyncio.run(_write(member.url))
            etcd._answers.cache_clear()
            if found := problems("etcd-fragmentation", examined):
                break
        (problem,) = found
        assert problem.severity == INFO
        assert problem.remedy == (f"defragment the member: etcdctl --endpoints={member.url} defrag")
        subprocess.run(
            [program("etcdctl"), f"--endpoints={member.url}", "defrag"],
            check=True,
            capture_output=True,
        )
        etcd._answers.cache_clear()
        assert problems("etcd-fragmentation", examined) == []


async def _write(url: str) -> None:
    store = await open_etcd(EtcdConfig(endpoints=(url,)))
    revision = await store.create("/b", b"")
    await store.delete("/b", expected=revision)
    await store.close()


async def _write_and_compact(url: str) -> None:
    store = await open_etcd(EtcdConfig(endpoints=(url,)))
    revision = await store.create("/a", bytes(100_000))
    for number in range(20):
        revision = await store.update("/a", bytes([number]) * 100_000, expected=revision)
    await store.compact(revision)
    await store.close()


def test_old_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release without fixes is a warning."""
    monkeypatch.setattr(etcd, "SUPPORTED", (99, 0))
    flag = f"--etcd-servers={shared_etcd().url}"
    (problem,) = problems("etcd-version", installation(tmp_path, flag))
    assert problem.message == f"etcd {version(program())} gets no more fixes"
