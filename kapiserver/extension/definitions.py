"""CustomResourceDefinitions of declared resources, for clusters that serve them without a program.

The definition has what the classes say. What only functions say is listed in comments above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from kapiserver.codecs.yaml import encode_value
from kapiserver.extension.api_server import ApiServer
from kapiserver.extension.resources import Resource

_FUNCTIONS = (
    "default", "prepare_for_create", "prepare_for_update", "validate", "validate_status", "warn",
)  # fmt: skip


def resources_of(module: ModuleType) -> list[Resource[Any]]:
    """Return the resources among the values of a module, and those of its API servers, sorted by
    name."""
    resources: dict[str, Resource[Any]] = {}
    for value in vars(module).values():
        members = value.resources if isinstance(value, ApiServer) else (value,)
        resources |= {member.name: member for member in members if isinstance(member, Resource)}
    return [resources[name] for name in sorted(resources)]


def needs_program(resource: Resource[Any]) -> str:
    """Return why no definition can serve a resource; "" if one can."""
    if resource.source is not None:
        return "its objects are virtual"
    return "its objects are calls" if resource.functions.answer is not None else ""


def definitions_text(resources: Iterable[Resource[Any]]) -> str:
    """Return the definitions of resources as YAML documents."""
    return "".join(map(_document, resources))


def _document(resource: Resource[Any]) -> str:
    notes = "".join(f"# {note}\n" for note in _notes(resource))
    return f"---\n{notes}{encode_value(resource.definition).decode()}"


def _notes(resource: Resource[Any]) -> Iterator[str]:
    if any(version.to_hub is not None for version in resource.versions.values()):
        yield "The versions differ: without a conversion webhook in spec.conversion, a cluster"
        yield "changes the apiVersion of an object only, and prunes fields of other versions."
    functions = [name for name in _FUNCTIONS if getattr(resource.functions, name) is not None]
    if functions:
        yield f"A cluster does not call the functions of the program: {', '.join(functions)}."
    if resource.functions.connects:
        names = ", ".join(resource.functions.connects)
        yield f"A cluster does not serve the subresources of the program: {names}."
