"""`rpc.lock`: which versions were published, deprecated and removed in which release.

A published version is immutable, its comments and deprecations excepted. It may be removed after
Kubernetes' deprecation policy. Only `kapiserver rpc release` writes the file.
"""

from __future__ import annotations

import calendar
import datetime
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    EnumValueDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    MethodDescriptorProto,
    ServiceDescriptorProto,
)

from kapiserver.rpc.generator.definitions import GroupDefinition, VersionDefinition
from kapiserver.rpc.generator.problems import InvalidDefinitions, Problem

NAME = "rpc.lock"
RELEASES = 3
"""The minimum number of releases between the deprecation of a stable or beta version and its
removal."""
MONTHS = {"stable": 12, "beta": 9}
"""The minimum number of months between the deprecation of a version and its removal."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release of the project; the date as in 2026-11-22."""

    name: str
    date: str


@dataclass(frozen=True, slots=True)
class PublishedVersion:
    """A version that a release published.

    digest      the hash of what must not change
    published   the name of the release that published it
    deprecated  the name of the release that deprecated it, or ""
    removed     the name of the release that removed it, or ""
    """

    digest: str
    published: str
    deprecated: str = ""
    removed: str = ""


@dataclass(frozen=True, slots=True)
class Lock:
    """The content of `rpc.lock`: releases from old to new, and versions by `group/version`."""

    releases: tuple[Release, ...] = ()
    versions: dict[str, PublishedVersion] = field(default_factory=dict)


def read_lock(root: Path) -> Lock:
    """Return the lock of a directory; without a file it is empty. Raises InvalidDefinitions for a
    file that is not a lock."""
    path = root / NAME
    if not path.exists():
        return Lock()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        releases = tuple(Release(**release) for release in data["releases"])
        versions = {name: PublishedVersion(**entry) for name, entry in data["versions"].items()}
        _check_names(releases, versions)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidDefinitions([Problem(path, 1, f"the file is not a lock: {error}")]) from None
    return Lock(releases, versions)


def _check_names(releases: tuple[Release, ...], versions: dict[str, PublishedVersion]) -> None:
    names = {release.name for release in releases}
    for release in releases:
        datetime.date.fromisoformat(release.date)
    for entry in versions.values():
        for name in (entry.published, entry.deprecated, entry.removed):
            if name and name not in names:
                raise ValueError(f"it has no release {name}")


def lock_text(lock: Lock) -> str:
    """Return the text of the file."""
    versions = {
        name: {key: value for key, value in asdict(entry).items() if value}
        for name, entry in sorted(lock.versions.items())
    }
    releases = [asdict(release) for release in lock.releases]
    return json.dumps({"releases": releases, "versions": versions}, indent=2) + "\n"


def check_lock(
    lock: Lock, groups: Iterable[GroupDefinition], root: Path, today: datetime.date
) -> Iterator[Problem]:
    """Yield a problem for each published version that changed or was removed too early."""
    present = _versions(groups)
    for name, entry in lock.versions.items():
        version = present.get(name)
        if version is None:
            reason = "" if entry.removed else _removal_forbidden(lock, name, entry, today)
            if reason:
                yield Problem(root / NAME, _line(root, name), f"{name} cannot be removed: {reason}")
        elif digest(version) != entry.digest:
            text = (
                f"{name} was published in release {entry.published} and is immutable; "
                "make the change in a new version"
            )
            yield Problem(version.path, 1, text)


def with_release(
    lock: Lock, groups: Iterable[GroupDefinition], name: str, today: datetime.date
) -> Lock:
    """Return the lock after a release: it publishes new versions, and announces deprecations and
    removals. Raises ValueError if the name was used."""
    if any(release.name == name for release in lock.releases):
        raise ValueError(f"release {name} exists already")
    present = _versions(groups)
    versions = dict(lock.versions)
    for key, version in present.items():
        entry = versions.get(key) or PublishedVersion(digest(version), name)
        deprecated = (entry.deprecated or name) if version.deprecated else ""
        versions[key] = replace(entry, deprecated=deprecated, removed="")
    for key, entry in lock.versions.items():
        if key not in present:
            versions[key] = replace(entry, removed=entry.removed or name)
    return Lock((*lock.releases, Release(name, today.isoformat())), versions)


def digest(version: VersionDefinition) -> str:
    """Return the hash of the parts of a version that must not change: all but comments and
    deprecations."""
    file = FileDescriptorProto()
    file.CopyFrom(version.source)
    for name in ("name", "source_code_info"):
        file.ClearField(name)
    for element in _elements(file):
        element.options.ClearField("deprecated")
        if not element.options.ListFields():
            element.ClearField("options")
    return "sha256:" + hashlib.sha256(file.SerializeToString(deterministic=True)).hexdigest()


_Element = (
    FileDescriptorProto | DescriptorProto | FieldDescriptorProto | EnumDescriptorProto
    | EnumValueDescriptorProto | ServiceDescriptorProto | MethodDescriptorProto
)  # fmt: skip


def _elements(parent: FileDescriptorProto | DescriptorProto) -> Iterator[_Element]:
    """Yield everything that can be deprecated."""
    yield parent
    messages = (
        parent.message_type if isinstance(parent, FileDescriptorProto) else parent.nested_type
    )
    for message in messages:
        yield from _elements(message)
    for enum in parent.enum_type:
        yield enum
        yield from enum.value
    if isinstance(parent, DescriptorProto):
        yield from parent.field
    else:
        for service in parent.service:
            yield service
            yield from service.method


def _versions(groups: Iterable[GroupDefinition]) -> dict[str, VersionDefinition]:
    return {
        f"{group.name}/{version.name}": version for group in groups for version in group.versions
    }


def _removal_forbidden(lock: Lock, name: str, entry: PublishedVersion, today: datetime.date) -> str:
    """Return the reason why a version cannot be removed today, or ""."""
    stage = next(
        (stage for stage in ("alpha", "beta") if stage in name.partition("/")[2]), "stable"
    )
    if stage == "alpha":
        return ""
    months = MONTHS[stage]
    rule = f"a {stage} version is supported {months} months or {RELEASES} releases, whichever is "
    rule += "longer, after its deprecation"
    if not entry.deprecated:
        return f"{rule}, and no release announced it"
    names = [release.name for release in lock.releases]
    announced = names.index(entry.deprecated)
    date = datetime.date.fromisoformat(lock.releases[announced].date)
    end = _add_months(date, months)
    following = len(names) - announced  # the position of the next release after the announcement
    if today >= end and following >= RELEASES:
        return ""
    return (
        f"{rule}, which release {entry.deprecated} announced on {date}: not before {end} and "
        f"release {RELEASES} after it (the next is release {following})"
    )


def _add_months(date: datetime.date, months: int) -> datetime.date:
    year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
    day = min(date.day, calendar.monthrange(year, month + 1)[1])
    return datetime.date(year, month + 1, day)


def _line(root: Path, name: str) -> int:
    lines = (root / NAME).read_text(encoding="utf-8").splitlines()
    return next((n for n, line in enumerate(lines, 1) if f'"{name}"' in line), 1)
