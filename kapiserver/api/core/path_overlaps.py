"""Files of a volume that hide one another: what a client is told of their paths.

Mirrors the part of pkg/api/pod/warnings.go about virtual paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from kapiserver.api.objects import value_at
from kapiserver.api.types import Tree

_PAIRS_MAX = 1000
"""More warnings than clients are shown."""


class _File(NamedTuple):
    path: str
    source: str

    def __str__(self) -> str:
        return f'"{self.path}" ({self.source})' if self.source else f'"{self.path}"'


def path_overlaps(volumes: Sequence[Tree]) -> Iterator[str]:
    """The warnings for the volumes of a pod."""
    for volume in volumes:
        for kind, shown in (
            ("configMap", _named("ConfigMap", value_at(volume, "configMap", "name"))),
            ("secret", _named("Secret", value_at(volume, "secret", "secretName"))),
            ("downwardAPI", "DownwardAPI"),
        ):
            if volume.get(kind):
                found = _overlaps(volume, shown, _items(volume[kind], ""))
                yield from (text for _, text in found)
        empty: list[tuple[int, str]] = []
        files: list[_File] = []
        for source in value_at(volume, "projected", "sources") or ():
            if not source:
                head = f'volume "{volume.get("name") or ""}"'
                empty.append((len(files), f"{head} (Projected) has no sources provided"))
            files += _projected(source)
        found = merge(empty, _overlaps(volume, "Projected", files), key=itemgetter(0))
        yield from (text for _, text in found)


def _named(kind: str, name: str | None) -> str:
    return f'{kind} "{name or ""}"'


def _items(source: Tree, shown: str) -> Iterator[_File]:
    return (_File(item.get("path") or "", shown) for item in source.get("items") or ())


def _projected(source: Tree) -> Iterator[_File]:
    for kind, title in (("configMap", "ConfigMap"), ("secret", "Secret")):
        if value_at(source, kind, "items"):
            yield from _items(source[kind], _named(title, source[kind].get("name")))
            return
    if value_at(source, "downwardAPI", "items"):
        yield from _items(source["downwardAPI"], "DownwardAPI")
    elif source.get("serviceAccountToken") is not None:
        yield _File(source["serviceAccountToken"].get("path") or "", "ServiceAccountToken")
    elif source.get("clusterTrustBundle") is not None:
        bundle = source["clusterTrustBundle"]
        name = bundle.get("name") or bundle.get("signerName")
        yield _File(bundle.get("path") or "", _named("ClusterTrustBundle", name))
    elif source.get("podCertificate") is not None:
        for field, what in (
            ("certificateChainPath", "chain"),
            ("keyPath", "key"),
            ("credentialBundlePath", "credential bundle"),
        ):
            yield _File(source["podCertificate"].get(field) or "", f"PodCertificate {what}")


def _overlaps(volume: Tree, shown: str, files: Iterable[_File]) -> Iterator[tuple[int, str]]:
    """What is told of files, each with the number of the file."""
    members = [_File(path.rstrip("/"), source) for path, source in files]
    head = f'volume "{volume.get("name") or ""}" ({shown})'
    for later, earlier in sorted(islice(_pairs([file.path for file in members]), _PAIRS_MAX)):
        yield later, f"{head}: overlapping paths: {members[later]} with {members[earlier]}"


def _pairs(paths: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The numbers of each two paths of which one is within the other, or the same."""
    ordered = sorted((f"{path}/", number) for number, path in enumerate(paths) if path)
    around: list[tuple[str, int]] = []
    for path, number in ordered:
        while around and not path.startswith(around[-1][0]):
            around.pop()
        for _, other in around:
            yield max(number, other), min(number, other)
        around.append((path, number))
