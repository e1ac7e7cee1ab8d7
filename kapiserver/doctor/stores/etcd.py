"""Checks of the members of etcd: do they answer, their version, quota and free space."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from kapiserver.doctor.finding import ERROR, INFO, WARNING, Problem
from kapiserver.doctor.installation import Installation
from kapiserver.storage.errors import StorageError
from kapiserver.storage.etcd.client import EtcdClient
from kapiserver.storage.etcd.config import EtcdConfig
from kapiserver.storage.etcd.messages import StatusResponse
from kapiserver.storage.etcd.transport import EtcdError

SUPPORTED = (3, 5)
"""The oldest release of etcd that gets fixes."""
DEFAULT_QUOTA = 2 << 30
"""etcd's quota unless --quota-backend-bytes says otherwise; etcd reports it since 3.6."""
FULL_SHARE = 0.8
"""A member that uses this share of its quota gets a warning."""
FREE_SHARE = 0.5
"""A member should be defragmented if more than this share of its file is free."""
FREE_BYTES = 100 << 20
"""A member should be defragmented if its file also has more than this many free bytes."""
_DEFRAGMENT = "defragment the member: etcdctl --endpoints={} defrag"

Answer: TypeAlias = StatusResponse | str
"""The status of a member, or the error of the call."""


@functools.cache
def _answers(config: EtcdConfig) -> Mapping[str, Answer]:
    return asyncio.run(_ask_all(config))


async def _ask_all(config: EtcdConfig) -> Mapping[str, Answer]:
    answers = await asyncio.gather(*(_ask(config, url) for url in config.endpoints))
    return dict(zip(config.endpoints, answers, strict=True))


async def _ask(config: EtcdConfig, url: str) -> Answer:
    try:
        client = EtcdClient(replace(config, endpoints=(url,)))
    except OSError as error:
        return str(error)
    try:
        return await client.read(client.codec.status())
    except (StorageError, EtcdError) as error:
        return str(error)
    finally:
        await client.close()


def _members(installation: Installation) -> Mapping[str, Answer]:
    """Return the answer of each member, by URL; asks once."""
    if not installation.etcd_endpoints:
        return {}
    store = installation.config.store
    return _answers(installation.config.etcd.config(installation.etcd_endpoints, store.key_root))


def _statuses(installation: Installation) -> dict[str, StatusResponse]:
    answers = _members(installation).items()
    return {url: answer for url, answer in answers if isinstance(answer, StatusResponse)}


def failing_members(installation: Installation) -> Iterator[Problem]:
    """Ask each member for its status and its alarms."""
    members = _members(installation)
    silent = {url: answer for url, answer in members.items() if isinstance(answer, str)}
    for url, error in silent.items():
        yield Problem(
            severity=ERROR if len(silent) == len(members) else WARNING,
            about=url,
            message=f"does not answer: {error}",
            remedy="start the other members; more than half of them must run"
            if "no leader" in error
            else "start the member, and compare its address and its certificates with the flags "
            "--etcd-*",
        )
    for url, status in _statuses(installation).items():
        for text in status.errors:
            is_full = "NOSPACE" in text
            yield Problem(
                severity=ERROR,
                about=url,
                message=f"reports {text}" + (": it refuses writes" if is_full else ""),
                remedy="compact, defragment, and then disarm: etcdctl alarm disarm"
                if is_full
                else "see the log of the member",
            )


def old_members(installation: Installation) -> Iterator[Problem]:
    """Look at the versions of the members."""
    statuses = _statuses(installation)
    for url, status in statuses.items():
        if _release(status.version) < SUPPORTED:
            yield Problem(
                severity=WARNING,
                about=url,
                message=f"etcd {status.version} gets no more fixes",
                remedy="upgrade the members to etcd 3.5 or later, one release at a time",
            )
    if len({_release(status.version) for status in statuses.values()}) > 1:
        versions = ", ".join(f"{url} {status.version}" for url, status in statuses.items())
        yield Problem(
            severity=WARNING, about="etcd", message=f"members have different releases: {versions}",
            remedy="finish the upgrade",
        )  # fmt: skip


def _release(version: str) -> tuple[int, ...]:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return tuple(int(part) if part.isdecimal() else 0 for part in (major, minor))


def full_members(installation: Installation) -> Iterator[Problem]:
    """Compare the size of each member's database with its quota."""
    for url, status in _statuses(installation).items():
        quota = status.quota or DEFAULT_QUOTA
        if status.size < FULL_SHARE * quota:
            continue
        source = "its quota" if status.quota else "etcd's default quota"
        yield Problem(
            severity=ERROR if status.size >= quota else WARNING,
            about=url,
            message=f"has {status.size >> 20} MiB of {quota >> 20} MiB, {source}; above it etcd "
            "refuses writes",
            remedy=f"{_DEFRAGMENT.format(url)}, delete what nobody needs, or raise "
            "--quota-backend-bytes",
        )


def fragmented_members(installation: Installation) -> Iterator[Problem]:
    """Look at the free space in each member's database."""
    for url, status in _statuses(installation).items():
        free = status.size - status.in_use
        if free > FREE_BYTES and free > FREE_SHARE * status.size:
            yield Problem(
                severity=INFO,
                about=url,
                message=f"{free >> 20} of {status.size >> 20} MiB are free",
                remedy=_DEFRAGMENT.format(url),
            )


def etcd_figures(installation: Installation) -> dict[str, float]:
    """Return the bytes of each member's database, by name."""
    return {f"bytes of {url}": status.size for url, status in _statuses(installation).items()}
