"""Checks manifests: what a server says to them, and what no server says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kapiserver.checking.finding import Finding
from kapiserver.checking.options import CheckOptions
from kapiserver.checking.places import locate
from kapiserver.checking.reading.documents import Manifest, Read, read_objects
from kapiserver.checking.run import Run
from kapiserver.checking.server import open_server
from kapiserver.checking.silencing import without_silenced


def check(objects: Iterable[Mapping[str, Any]], **options: Any) -> list[Finding]:
    """Return what an API server would say to the objects, and what it would not say but is wrong.

    crds      definitions, policies and roles that an administrator applies first: objects
    cluster   objects that the cluster has
    against   objects that were applied before, and that the checked ones change

    Further options are `release` and `user` of CheckOptions. Raises TypeError for an object that is
    no mapping, TypeError and ValueError for a wrong option, and RuntimeError in a coroutine, where
    `await check_async(...)` does the same.
    """
    return asyncio.run(check_async(objects, **options))


async def check_async(
    objects: Iterable[Mapping[str, Any]],
    *,
    crds: Iterable[Mapping[str, Any]] = (),
    cluster: Iterable[Mapping[str, Any]] = (),
    against: Iterable[Mapping[str, Any]] = (),
    **options: Any,
) -> list[Finding]:
    """Return the findings of `check`."""
    settings = CheckOptions(
        context=_read(crds), cluster=_read(cluster), against=_read(against), **options
    )
    return await check_reads(_read(objects), settings)


def _read(objects: Iterable[Mapping[str, Any]]) -> list[Read]:
    reads: list[Read] = []
    for tree in objects:
        if not isinstance(tree, Mapping):
            raise TypeError(f"an object must be a mapping, not {tree!r}")
        reads += read_objects(dict(tree), None, ())
    return reads


async def check_reads(reads: Iterable[Read], options: CheckOptions) -> list[Finding]:
    """Return the findings of what was read, in the order of files and lines. Raises ValueError for
    an unknown release."""
    reads = [*options.cluster, *options.context, *options.against, *reads]
    findings = [read for read in reads if isinstance(read, Finding)]
    manifests = [read for read in reads if isinstance(read, Manifest)]
    if manifests:
        async with open_server(
            release=options.release,
            recording=options.recording,
            has_snapshot=bool(options.cluster or options.against),
        ) as server:
            run = Run(server, options)
            await run.check(manifests)
        findings += locate(run.problems)
    documents = {
        id(manifest.document): manifest.document for manifest in manifests if manifest.document
    }
    findings = without_silenced(findings, documents.values(), options.file_rules)
    return _in_order(findings, reads)


def _in_order(findings: Iterable[Finding], reads: Sequence[Read]) -> list[Finding]:
    files = {name: number for number, name in enumerate(dict.fromkeys(map(_file_of, reads)))}

    def position(finding: Finding) -> tuple[int, int, int]:
        return files.get(finding.file, -1), finding.line, finding.column

    return sorted(findings, key=position)


def _file_of(read: Read) -> str:
    if isinstance(read, Finding):
        return read.file
    return read.document.file if read.document is not None else ""
