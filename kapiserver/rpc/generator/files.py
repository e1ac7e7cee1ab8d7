"""Generates the files of all groups: checks, renders, and writes what differs.

A file whose first line is the mark of generated files may be overwritten and removed; no other.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.descriptor import Descriptor

from kapiserver.rpc.generator.client_template import group_client_module, version_client_module
from kapiserver.rpc.generator.conversion_template import (
    conversion_module,
    from_pb_name,
    hand_signatures,
    to_pb_name,
)
from kapiserver.rpc.generator.definitions import (
    GroupDefinition,
    VersionDefinition,
    read_groups,
    visible_files,
)
from kapiserver.rpc.generator.fields import obstacles
from kapiserver.rpc.generator.internal_types import (
    InternalTypes,
    methods,
    names,
    read_internal_types,
)
from kapiserver.rpc.generator.lock import NAME, check_lock, lock_text, read_lock, with_release
from kapiserver.rpc.generator.problems import InvalidDefinitions, Problem
from kapiserver.rpc.generator.python_names import class_path
from kapiserver.rpc.generator.python_source import MARK
from kapiserver.rpc.generator.registration_template import registration_module
from kapiserver.rpc.generator.rules import check_rules
from kapiserver.rpc.generator.types_template import (
    callbacks,
    interface_module,
    missing_callbacks,
    server_module,
    types_module,
)

_PROTOC_VERSION = re.compile(
    r"^# Protobuf Python Version: .*$|^_runtime_version\.Validate\w+\(.*?^\)$", re.M | re.S
)
_PROJECT = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_HAND_WRITTEN = re.compile(r"convert_(pb_\w+_to_internal|internal_\w+_to_pb)")


@dataclass(frozen=True, slots=True)
class Changes:
    """Differences from the files on disk. `skeletons` are hand-written files that do not exist."""

    generated: dict[Path, str] = field(default_factory=dict)
    skeletons: dict[Path, str] = field(default_factory=dict)
    removed: list[Path] = field(default_factory=list)

    @property
    def paths(self) -> list[Path]:
        """All changed paths, sorted."""
        return sorted([*self.generated, *self.skeletons, *self.removed])


def generate(root: Path, project: str, today: datetime.date, *, write: bool) -> list[Path]:
    """Generate the files of all groups below a directory. Returns the files that differed, which
    `write` writes or removes.

    Raises InvalidDefinitions for each broken rule and each conversion that must be written by hand.
    In the latter case the files that the hand-written code needs are written before."""
    groups = checked_groups(root, project, today)
    sources = _Sources(root)
    for group in groups:
        sources.add_group(group)
    foundation = sources.changes()
    problems = [problem for group in groups for problem in _add_conversions(group, sources)]
    if problems:
        if write:
            _write(foundation)
        raise InvalidDefinitions(problems)
    changes = sources.changes(remove=True)
    if write:
        _write(changes)
    return changes.paths


def checked_groups(root: Path, project: str, today: datetime.date) -> list[GroupDefinition]:
    """Return the groups if their definitions break no rule. Raises InvalidDefinitions, and
    ValueError for a directory or project that cannot be."""
    if not root.is_dir():
        raise ValueError(f"{root} is not a directory")
    if not _PROJECT.fullmatch(project):
        raise ValueError(
            f"the project {project} must be lower-case letters, digits and hyphens; "
            "--project sets another name"
        )
    groups = read_groups(root, project)
    problems = [*check_rules(groups), *check_lock(read_lock(root), groups, root, today)]
    if problems:
        raise InvalidDefinitions(problems)
    return groups


def release(root: Path, project: str, name: str, today: datetime.date) -> None:
    """Record a release in `rpc.lock`. Raises InvalidDefinitions as `generate`, and ValueError if
    generated files are out of date or the release exists."""
    outdated = generate(root, project, today, write=False)
    if outdated:
        raise ValueError(f"{outdated[0]} is out of date; run kapiserver rpc generate {root}")
    lock = with_release(read_lock(root), read_groups(root, project), name, today)
    (root / NAME).write_text(lock_text(lock), encoding="utf-8")


class _Sources:
    """The files that the groups should have."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.generated: dict[Path, str] = {}
        self.skeletons: dict[Path, str] = {root / "__init__.py": '"""Groups of RPCs."""\n'}

    def add_group(self, group: GroupDefinition) -> None:
        """Add the files that hand-written code needs: protoc's, and skeletons of that code."""
        package = f'"""The group {group.name}."""\n'
        self.skeletons[group.directory / "__init__.py"] = package
        for version in group.versions:
            package = f'"""Version {version.name} of the group {group.name}."""\n'
            self.skeletons[version.directory / "__init__.py"] = package
            self.generated[version.directory / "api_pb2.py"] = MARK + version.python
            self.generated[version.directory / "api_pb2.pyi"] = MARK + version.stub
        self.skeletons[group.directory / "types.py"] = types_module(group)
        self.skeletons[group.directory / "server.py"] = server_module(group)

    def read_types(self, group: GroupDefinition) -> InternalTypes:
        """Return the internal types of the file, or of its skeleton if it does not exist."""
        path = group.directory / "types.py"
        return read_internal_types(path, self.skeletons[path])

    def changes(self, *, remove: bool = False) -> Changes:
        """Return what differs on disk; with `remove` also generated files that should not exist."""
        generated = {path: text for path, text in self.generated.items() if _differs(path, text)}
        skeletons = {path: text for path, text in self.skeletons.items() if not path.exists()}
        removed = [*self._stale()] if remove else []
        return Changes(generated, skeletons, removed)

    def _stale(self) -> Iterator[Path]:
        for pattern in ("*_generated.py", "api_pb2.py", "api_pb2.pyi"):
            for path in sorted(visible_files(self._root, pattern)):
                if path not in self.generated and _is_generated(path):
                    yield path


def _is_generated(path: Path) -> bool:
    return path.read_text(encoding="utf-8").startswith(MARK)


def _differs(path: Path, text: str) -> bool:
    """Report whether a generated file must be written. One that differs only by the version of
    protoc need not be, so that an upgrade of grpcio-tools changes no file."""
    if not path.exists():
        return True
    old = path.read_text(encoding="utf-8")
    if not old.startswith(MARK):
        text = f"this file is not generated; rename it, or remove it to have {path.name} generated"
        raise InvalidDefinitions([Problem(path, 1, text)])
    return _PROTOC_VERSION.sub("", old) != _PROTOC_VERSION.sub("", text)


def _write(changes: Changes) -> None:
    for path, text in {**changes.generated, **changes.skeletons}.items():
        path.write_text(text, encoding="utf-8")
    for path in changes.removed:
        path.unlink()


def _add_conversions(group: GroupDefinition, sources: _Sources) -> Iterator[Problem]:
    """Add the files that depend on hand-written code. Yields what that code lacks."""
    types = sources.read_types(group)
    yield from _missing_callbacks(group)
    for version in group.versions:
        yield from _add_version(version, types, sources)
    files = sources.generated
    files[group.directory / "types_generated.py"] = interface_module(group)
    files[group.directory / "registration_generated.py"] = registration_module(group)
    files[group.directory / "client_generated.py"] = group_client_module(group)


def _missing_callbacks(group: GroupDefinition) -> Iterator[Problem]:
    path = group.directory / "server.py"
    if not path.exists():
        return  # the skeleton has all
    line = names(path).get("Server")
    if line is None:
        yield Problem(path, 1, "write the class Server, which implements the calls")
        return
    implemented = methods(path, "Server")
    if implemented is not None:
        missing = [name for name in callbacks(group) if name not in implemented]
        if missing:
            signatures = missing_callbacks(group, missing)
            yield Problem(path, line, f"the class Server needs these methods:\n{signatures}")


def _add_version(
    version: VersionDefinition, types: InternalTypes, sources: _Sources
) -> Iterator[Problem]:
    path = version.directory / "conversion.py"
    hand_functions = names(path) if path.exists() else {}
    hand_fields: set[tuple[str, str]] = set()
    messages = {message for message in version.messages() if class_path(message) in types.classes}
    yield from list(_missing_classes(version, types)) or _unknown_functions(
        path, hand_functions, messages
    )
    yield from _missing_defaults(types, messages)
    for message in version.messages():
        if message not in messages:
            continue
        not_derived = list(obstacles(message, types))
        hand_fields |= {(message.full_name, obstacle.field) for obstacle in not_derived}
        missing = {from_pb_name(message), to_pb_name(message)} - hand_functions.keys()
        if not_derived and missing:
            reasons = "; ".join(f"{problem.field}: {problem.reason}" for problem in not_derived)
            signatures = hand_signatures(message, missing)
            text = f"write the conversion of {class_path(message)} ({reasons}):\n{signatures}"
            yield Problem(path, 1, text)
    sources.generated[version.directory / "conversion_generated.py"] = conversion_module(
        version, types, hand_functions, hand_fields
    )
    sources.generated[version.directory / "client_generated.py"] = version_client_module(version)


def _missing_classes(version: VersionDefinition, types: InternalTypes) -> Iterator[Problem]:
    for method in version.methods:
        for message in (method.input_type, method.output_type):
            if class_path(message) not in types.classes:
                text = f"write the class {class_path(message)}, for {version.path}"
                yield Problem(types.path, 1, text)


def _missing_defaults(types: InternalTypes, messages: set[Descriptor]) -> Iterator[Problem]:
    for name in map(class_path, messages):
        for field_name, line in types.classes[name].required.items():
            yield Problem(types.path, line, f"the field {field_name} of {name} must have a default")


def _unknown_functions(
    path: Path, hand_functions: Mapping[str, int], messages: set[Descriptor]
) -> Iterator[Problem]:
    expected = {
        name for message in messages for name in (from_pb_name(message), to_pb_name(message))
    }
    for name, line in hand_functions.items():
        if _HAND_WRITTEN.fullmatch(name) and name not in expected:
            yield Problem(path, line, f"{name} converts no message that types.py has a class for")
