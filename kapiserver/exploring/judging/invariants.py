"""The user's own functions that say what must be true at each revision.

    # invariants.py
    def a_database_keeps_its_volume(objects):
        for database in objects.list("databases.example.com"):
            assert objects.get("persistentvolumeclaims", database["metadata"]["name"])

Every public function of the module is an invariant. It takes the objects as they are at one
revision, and returns False or raises AssertionError if it is not true.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from kapiserver.api.types import Tree
from kapiserver.exploring.history import History, ObjectRef

Invariant: TypeAlias = Callable[["Objects"], Any]


class Objects:
    """The objects that a run has created, at one revision."""

    def __init__(self, objects: Mapping[ObjectRef, Tree]) -> None:
        self._objects = objects

    def list(self, resource: str, namespace: str = "") -> list[Tree]:
        """Return the objects of a plural resource with its group, such as `configmaps` and
        `deployments.apps`; of one namespace, or of all."""
        return [
            obj
            for reference, obj in self._objects.items()
            if reference.resource == resource and namespace in ("", reference.namespace)
        ]

    def get(self, resource: str, name: str, namespace: str = "default") -> Tree | None:
        """Return an object, None if there is none; of a cluster-scoped resource with the namespace
        ""."""
        return self._objects.get(ObjectRef(resource, namespace, name))


def load_invariants(name: str) -> tuple[Invariant, ...]:
    """Return the invariants of a module: a file, or a name that can be imported. Raises OSError,
    ImportError, and ValueError for a module without public functions."""
    module = _load_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    functions = tuple(
        function
        for function_name, function in inspect.getmembers(module, inspect.isfunction)
        if not function_name.startswith("_") and function.__module__ == module.__name__
    )
    if not functions:
        raise ValueError(f"{name} has no public function")
    return functions


def _load_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def violations(
    history: History, invariants: Sequence[Invariant]
) -> Iterator[tuple[Invariant, str, int]]:
    """Yield the invariants that a run violates, each once: with the message of its error and the
    position of the commit after which it is false."""
    rest = list(invariants)
    objects: dict[ObjectRef, Tree] = {}
    for commit in history.commits if rest else ():
        if commit.new is None:
            objects.pop(commit.object, None)
        else:
            objects[commit.object] = commit.new
        for invariant in list(rest):
            message = _violation(invariant, Objects(objects))
            if message is not None:
                rest.remove(invariant)
                yield invariant, message, commit.position


def _violation(invariant: Invariant, objects: Objects) -> str | None:
    try:
        return "it returned False" if invariant(objects) is False else None
    except Exception as error:
        return f"{type(error).__name__}: {error}".rstrip(": ")
