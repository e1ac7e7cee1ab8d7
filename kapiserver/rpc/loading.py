"""Imports the generated groups of a directory."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from kapiserver.rpc.registration import Group

REGISTRATION = "registration_generated"
"""The module of a group that the generator writes."""


class BadGroups(Exception):
    """A directory without groups, or with groups that do not import."""


def load_groups(folder: Path) -> Sequence[Group]:
    """Return the groups of a directory, by name. Their modules are imported below a package with
    the directory's name. Raises BadGroups."""
    paths = (path.parent.relative_to(folder) for path in folder.rglob(f"{REGISTRATION}.py"))
    groups = [path.parts for path in paths if not any(part.startswith(".") for part in path.parts)]
    if not groups:
        raise BadGroups(
            f"{folder} has no generated groups: run kapiserver rpc generate {folder} first"
        )
    package = _import_package(folder.resolve())
    groups.sort(key=lambda parts: parts[-1])
    return [_load_group(folder, ".".join([package, *parts, REGISTRATION])) for parts in groups]


def _import_package(folder: Path) -> str:
    name = folder.name
    loaded = sys.modules.get(name)
    if loaded is not None:
        if str(folder) not in getattr(loaded, "__path__", ()):
            raise BadGroups(
                f"{folder}: a package {name} from another place is imported already; "
                "rename the directory"
            )
        return name
    init = folder / "__init__.py"
    spec = importlib.util.spec_from_file_location(
        name, init if init.exists() else None, submodule_search_locations=[str(folder)]
    )
    if spec is None:
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    if spec.loader is not None:
        spec.loader.exec_module(module)
    return name


def _load_group(folder: Path, module: str) -> Group:
    try:
        group = importlib.import_module(module).GROUP
    except Exception as error:
        raise BadGroups(f"{folder}: {module} does not import: {error}") from error
    if not isinstance(group, Group):
        raise BadGroups(f"{folder}: GROUP of {module} is not a Group")
    return group
