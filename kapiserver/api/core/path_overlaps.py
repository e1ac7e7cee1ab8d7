"""Warnings about files of a volume with overlapping paths.

Mirrors checkVolumeMappingForOverlap of pkg/api/pod/warnings.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree

_PAIRS_MAX = 1000
"""The maximum number of overlapping pairs. Clients see fewer warnings."""


class _File(NamedTuple):
    path: str
    source: str

    def __str__(self) -> str:
        return f'"{self.path}" ({self.source})' if self.source else f'"{self.path}"'


def path_overlaps(volumes: Sequence[Tree]) -> Iterator[str]:
    """Yield the warnings for the volumes of a pod."""
    for volume in volumes:
        for kind, source_name in (
            ("configMap", _object_name("ConfigMap", value_at(volume, "configMap", "name"))),
            ("secret", _object_name("Secret", value_at(volume, "secret", "secretName"))),
            ("downwardAPI", "DownwardAPI"),
        ):
            if volume.get(kind):
                overlaps = _overlaps(volume, source_name, _items(volume[kind], ""))
                yield from (text for _, text in overlaps)
        empty_sources: list[tuple[int, str]] = []
        files: list[_File] = []
        for source in value_at(volume, "projected", "sources") or ():
            if not source:
                prefix = f'volume "{volume.get("name") or ""}"'
                empty_sources.append((len(files), f"{prefix} (Projected) has no sources provided"))
            files += _projected(source)
        overlaps = merge(empty_sources, _overlaps(volume, "Projected", files), key=itemgetter(0))
        yield from (text for _, text in overlaps)


def _object_name(kind: str, name: str | None) -> str:
    return f'{kind} "{name or ""}"'


def _items(source: Tree, source_name: str) -> Iterator[_File]:
    return (_File(item.get("path") or "", source_name) for item in source.get("items") or ())


def _projected(source: Tree) -> Iterator[_File]:
    for kind, title in (("configMap", "ConfigMap"), ("secret", "Secret")):
        if value_at(source, kind, "items"):
            yield from _items(source[kind], _object_name(title, source[kind].get("name")))
            return
    if value_at(source, "downwardAPI", "items"):
        yield from _items(source["downwardAPI"], "DownwardAPI")
    elif source.get("serviceAccountToken") is not None:
        yield _File(source["serviceAccountToken"].get("path") or "", "ServiceAccountToken")
    elif source.get("clusterTrustBundle") is not None:
        bundle = source["clusterTrustBundle"]
        name = bundle.get("name") or bundle.get("signerName")
        yield _File(bundle.get("path") or "", _object_name("ClusterTrustBundle", name))
    elif source.get("podCertificate") is not None:
        for field, part in (
            ("certificateChainPath", "chain"),
            ("keyPath", "key"),
            ("credentialBundlePath", "credential bundle"),
        ):
            yield _File(source["podCertificate"].get(field) or "", f"PodCertificate {part}")


def _overlaps(volume: Tree, source_name: str, files: Iterable[_File]) -> Iterator[tuple[int, str]]:
    """Yield (index of the file, warning) for each pair of overlapping paths."""
    members = [_File(path.rstrip("/"), source) for path, source in files]
    prefix = f'volume "{volume.get("name") or ""}" ({source_name})'
    for later, earlier in sorted(islice(_pairs([file.path for file in members]), _PAIRS_MAX)):
        yield later, f"{prefix}: overlapping paths: {members[later]} with {members[earlier]}"


def _pairs(paths: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield (later index, earlier index) for each two paths that are equal or of which one contains
    the other."""
    sorted_paths = sorted((f"{path}/", number) for number, path in enumerate(paths) if path)
    parents: list[tuple[str, int]] = []
    for path, number in sorted_paths:
        while parents and not path.startswith(parents[-1][0]):
            parents.pop()
        for _, parent_number in parents:
            yield max(number, parent_number), min(number, parent_number)
        parents.append((path, number))
