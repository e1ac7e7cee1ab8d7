"""What a stage does to an object, step by step. Mirrors next.go of kwok's pkg/utils/lifecycle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from kapiserver.api.accessors import finalizers_of
from kapiserver.api.resource_client import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from kapiserver.api.types import Tree, Value
from kapiserver.simulation.kwok.stages.stage import Step, TemplateStep
from kapiserver.simulation.templates.errors import TemplateError
from kapiserver.simulation.templates.template import Template

Render: TypeAlias = Callable[[Template, Tree], Value]
"""Renders a template for an object. Raises TemplateError."""

APPLY = "application/apply-patch+yaml"
_PATCH_TYPES = {
    "json": JSON_PATCH,
    "merge": MERGE_PATCH,
    "strategic": STRATEGIC_MERGE_PATCH,
    "apply": APPLY,
}


@dataclass(frozen=True)
class ReportEvent:
    """An event about the object."""

    type: str
    reason: str
    message: str


@dataclass(frozen=True)
class PatchObject:
    """A patch of the object, by a user; the server itself for ""."""

    patch: Value
    type: str
    subresource: str = ""
    user: str = ""


@dataclass(frozen=True)
class DeleteObject:
    """The deletion of the object."""


@dataclass(frozen=True)
class ApplyObject:
    """Another object that is created, or patched if it exists, by a user."""

    obj: Tree
    type: str
    subresource: str = ""
    user: str = ""


Action: TypeAlias = ReportEvent | PatchObject | DeleteObject | ApplyObject


def actions_of(step: Step, obj: Tree, render: Render, default_type: str) -> Iterator[Action]:
    """Yield what a step does to an object. Raises TemplateError.

    default_type    the type of patches that have none
    """
    if step.event is not None:
        fields = (step.event.get(name) or "" for name in ("type", "reason", "message"))
        yield ReportEvent(*fields)
    if step.finalizers is not None:
        operations = finalizer_operations(finalizers_of(obj), step.finalizers)
        if operations:
            yield PatchObject(operations, JSON_PATCH)
    if step.delete:
        yield DeleteObject()
        return
    if step.patch is not None:
        yield _patch(step.patch, obj, render, default_type)
    if step.apply is not None:
        yield _application(step.apply, obj, render)


def _patch(step: TemplateStep, obj: Tree, render: Render, default_type: str) -> PatchObject:
    settings = step.settings
    name = settings.get("type")
    type_ = _PATCH_TYPES[name] if name else default_type
    patch, root = render(step.template, obj), settings.get("root") or ""
    if root:
        patch = _below(root, patch) if type_ == JSON_PATCH else {root: patch}
    return PatchObject(patch, type_, settings.get("subresource") or "", _user(settings))


def _below(root: str, operations: Value) -> Value:
    """Return JSON Patch operations whose paths begin at a field."""
    if not isinstance(operations, list):
        raise TemplateError("a JSON Patch is not a list")
    return [
        operation | {"path": f"/{root}{operation.get('path', '')}"}
        for operation in operations
        if isinstance(operation, dict)
    ]


def _application(step: TemplateStep, obj: Tree, render: Render) -> ApplyObject:
    settings, other = step.settings, render(step.template, obj)
    if not isinstance(other, dict) or not other.get("apiVersion") or not other.get("kind"):
        raise TemplateError("template must include apiVersion and kind")
    if not isinstance(other.get("metadata"), dict) or not other["metadata"].get("name"):
        raise TemplateError("template must include metadata.name")
    type_ = _PATCH_TYPES[settings.get("type") or "apply"]
    return ApplyObject(other, type_, settings.get("subresource") or "", _user(settings))


def _user(settings: Tree) -> str:
    return (settings.get("impersonation") or {}).get("username") or ""


def finalizer_operations(present: list[str], change: Tree) -> list[Tree]:
    """Return the JSON Patch operations that change the finalizers of an object."""
    added = _names(change.get("add"))
    removed = [name for name in present if name in _names(change.get("remove"))]
    operations: list[Tree] = []
    if change.get("empty") or (change.get("remove") and len(removed) == len(present)):
        if present:
            operations.append({"op": "remove", "path": "/metadata/finalizers"})
        present = []
    else:
        operations += [
            {"op": "remove", "path": f"/metadata/finalizers/{index}"}
            for index in range(len(present) - 1, -1, -1)
            if present[index] in removed
        ]
    if added and not present:
        operations.append({"op": "add", "path": "/metadata/finalizers", "value": added})
    elif added:
        operations += [
            {"op": "add", "path": "/metadata/finalizers/-", "value": name}
            for name in added
            if name not in present
        ]
    return operations


def _names(items: list[Tree] | None) -> list[str]:
    return [item.get("value") or "" for item in items or ()]
