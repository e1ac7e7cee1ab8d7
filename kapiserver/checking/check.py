"""Checks manifests: applies them to a server in memory, and collects what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kapiserver.api.accessors import namespace_of
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import Resource
from kapiserver.api.types import Tree
from kapiserver.checking.documents import Manifest, Read, read_objects
from kapiserver.checking.finding import ERROR, WARNING, Finding, Problem
from kapiserver.checking.ordering import in_order
from kapiserver.checking.places import locate
from kapiserver.checking.refusals import problem_of_warning, problems_of_status
from kapiserver.checking.server import DEFAULT_NAMESPACE, CheckServer, open_server

_NEVER_STORED = frozenset(
    {"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService"}
)
"""Kinds whose objects would make the server call other programs."""
_NO_NAME = "resource name may not be empty"


class CheckOptions(Struct, frozen=True, kw_only=True):
    """What a check takes for granted.

    release     the Kubernetes release, such as 1.34; "" for the newest
    progress    called with the number of objects that were checked, and that of all
    """

    release: str = ""
    progress: Callable[[int, int], None] = lambda _checked, _all: None


def check(objects: Iterable[Mapping[str, Any]], **options: Any) -> list[Finding]:
    """Return what an API server would say to the objects, and what it would not say but is wrong.

    The options are those of CheckOptions. Raises ValueError for a wrong option, and RuntimeError in
    a coroutine, where `await check_async(...)` does the same.
    """
    return asyncio.run(check_async(objects, **options))


async def check_async(objects: Iterable[Mapping[str, Any]], **options: Any) -> list[Finding]:
    """Return the findings of `check`."""
    reads = [read for tree in objects for read in read_objects(dict(tree), None, ())]
    return await check_reads(reads, CheckOptions(**options))


async def check_reads(reads: Iterable[Read], options: CheckOptions) -> list[Finding]:
    """Return the findings of what was read from files, in the order of files and lines. Raises
    ValueError for an unknown release."""
    reads = list(reads)
    findings = [read for read in reads if isinstance(read, Finding)]
    manifests = [read for read in reads if isinstance(read, Manifest)]
    if manifests:
        async with open_server(release=options.release) as server:
            run = _Run(server)
            await run.apply_all(manifests, options.progress)
        findings += locate(run.problems)
    files = {name: number for number, name in enumerate(dict.fromkeys(map(_file_of, reads)))}
    return sorted(findings, key=lambda finding: (files[finding.file], finding.line, finding.column))


def _file_of(read: Read) -> str:
    if isinstance(read, Finding):
        return read.file
    return read.document.file if read.document is not None else ""


class _Run:
    """One check on one server. `problems` has what was found so far."""

    def __init__(self, server: CheckServer) -> None:
        self._server = server
        self.problems: list[tuple[Manifest, Problem]] = []
        self._applied: dict[tuple[str, ...], Manifest] = {}
        """The objects that were applied, by group, kind, namespace and name."""

    async def apply_all(
        self, manifests: Sequence[Manifest], progress: Callable[[int, int], None]
    ) -> None:
        """Apply the manifests in the order in which each finds what it needs."""
        checked = 0
        for stage, settles in in_order(manifests):
            for manifest in stage:
                await self._apply(manifest)
                checked += 1
                progress(checked, len(manifests))
            if settles:
                await self._server.settle()

    def _add(self, manifest: Manifest, *problems: Problem) -> None:
        self.problems.extend((manifest, problem) for problem in problems)

    def _add_error(self, manifest: Manifest, rule: str, message: str, *steps: str) -> None:
        self._add(manifest, Problem(steps=steps, severity=ERROR, message=message, rule=rule))

    async def _apply(self, manifest: Manifest) -> None:
        tree = manifest.tree
        try:
            resource = self._server.resource_of(tree)
        except (ValueError, NotRegistered) as error:
            self._add_error(manifest, "unknown-kind", str(error), "apiVersion")
            return
        if not _has_name(tree):
            self._add_error(manifest, "no-name", _NO_NAME, "metadata", "name")
            return
        self._note_duplicate(manifest, resource)
        await self._apply_resource(manifest, resource)

    async def _apply_resource(self, manifest: Manifest, resource: Resource) -> None:
        tree = manifest.tree
        problems = await self._problems(tree, resource)
        self._add(manifest, *problems)
        is_lost = any(problem.rule == "namespace-not-found" for problem in problems)
        if is_lost and await self._create_namespace(namespace_of(tree)):
            self._add(manifest, *await self._problems(tree, resource))

    async def _problems(self, tree: Tree, resource: Resource) -> list[Problem]:
        """Apply an object; return what the server says."""
        if _has_conversion_webhook(tree):
            outcome = await self._server.apply(tree, resource, dry_run=True)
            if outcome.status is None:
                await self._server.apply(_without_conversion(tree), resource)
        else:
            outcome = await self._server.apply(
                tree, resource, dry_run=tree["kind"] in _NEVER_STORED
            )
        problems = [problem_of_warning(text, tree) for text in outcome.warnings]
        if outcome.status is not None:
            problems += problems_of_status(outcome.status, tree)
        return problems

    async def _create_namespace(self, name: str) -> bool:
        """Create a namespace that is missing, so that its objects are checked too; report whether
        that is possible."""
        tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        outcome = await self._server.apply(tree, self._server.resource_of(tree))
        await self._server.settle()
        return outcome.status is None

    def _note_duplicate(self, manifest: Manifest, resource: Resource) -> None:
        """Warn of an object that was applied before."""
        metadata = manifest.tree["metadata"]
        if not metadata.get("name"):
            return
        namespace = metadata.get("namespace") or DEFAULT_NAMESPACE if resource.namespaced else ""
        key = (resource.group, resource.kind, str(namespace), metadata["name"])
        other = self._applied.setdefault(key, manifest)
        if other is not manifest:
            place = other.document
            where = f" in {place.file}, line {place.first_line}" if place is not None else ""
            message = f"the same object is{where} too"
            problem = Problem(
                steps=("metadata", "name"),
                severity=WARNING,
                message=message,
                rule="duplicate-object",
            )
            self._add(manifest, problem)


def _has_name(tree: Tree) -> bool:
    metadata = tree.get("metadata")
    if not isinstance(metadata, dict):
        return False
    name = metadata.get("name") or metadata.get("generateName")
    return isinstance(name, str) and bool(name)


def _has_conversion_webhook(tree: Tree) -> bool:
    spec = tree.get("spec")
    conversion = spec.get("conversion") if isinstance(spec, dict) else None
    return (
        tree["kind"] == "CustomResourceDefinition"
        and isinstance(conversion, dict)
        and conversion.get("strategy") == "Webhook"
    )


def _without_conversion(tree: Tree) -> Tree:
    """Return a definition whose objects are converted without a webhook, which is not there."""
    return tree | {"spec": {**tree["spec"], "conversion": {"strategy": "None"}}}
