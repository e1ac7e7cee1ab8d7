"""Finds the places of problems: the line and the column of a field in its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kapiserver.api.types import Tree
from kapiserver.checking.finding import Finding, Problem
from kapiserver.checking.reading.documents import Document, Manifest
from kapiserver.codecs.yaml_positions import START, find_positions


def locate(problems: Iterable[tuple[Manifest, Problem]]) -> Iterator[Finding]:
    """Yield a finding for each problem. Each document is read once for all of its problems."""
    by_document: dict[int, list[tuple[Manifest, Problem]]] = {}
    for manifest, problem in problems:
        by_document.setdefault(id(manifest.document), []).append((manifest, problem))
    for group in by_document.values():
        yield from _locate_in_document(group[0][0].document, group)


def _locate_in_document(
    document: Document | None, problems: Sequence[tuple[Manifest, Problem]]
) -> Iterator[Finding]:
    paths = {(*manifest.steps, *problem.steps) for manifest, problem in problems}
    positions = {} if document is None else find_positions(document.text, paths)
    for manifest, problem in problems:
        finding = Finding(
            severity=problem.severity,
            message=problem.message,
            rule=problem.rule,
            object=describe(manifest.tree),
        )
        if document is None:
            yield finding
            continue
        position = positions.get((*manifest.steps, *problem.steps), START)
        yield Finding(
            file=document.file,
            line=document.first_line + position.line - 1,
            column=position.column,
            severity=finding.severity,
            message=finding.message,
            rule=finding.rule,
            object=finding.object,
        )


def describe(tree: Tree) -> str:
    """Return the kind, the namespace and the name of an object: `Deployment shop/web`."""
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict):
        return str(tree["kind"])
    name = metadata.get("name") or metadata.get("generateName") or ""
    namespace = metadata.get("namespace")
    return f"{tree['kind']} {f'{namespace}/' if namespace else ''}{name}".rstrip()
